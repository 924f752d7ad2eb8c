//! Pages that programs have mapped: they stay in the cache until no program maps them.
//!
//! `posix_fadvise(2)` drops no mapped page. `process_madvise(2)` asks a process to page a range out (`MADV_PAGEOUT`), which takes pages out of its mapping and, where
//! they are clean and no other process maps them, out of the cache. Nothing is lost by it: a dirty page stays, and the next use of another faults.
//! Only shared mappings are asked for. In private ones lie programs, whose uses are hardly ever seen, and pages that have become the process's own memory. The events say
//! which processes have a file mapped.

use crate::maps::{Line, advise};
use crate::steered::PAGE;
use crate::watch::FileId;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;

/// Files whose mappings are known at a time, and processes of each.
const FILES: usize = 4096;
const PROCESSES: usize = 8;
/// Processes that are asked in a turn: each has its list of mappings read.
const ASKED: usize = 16;

/// Which processes have which files mapped.
#[derive(Default)]
pub(crate) struct Mapped {
    /// By the files' numbers.
    processes: HashMap<u32, Vec<u32>>,
    /// Processes that may be asked in this turn.
    left: usize,
}

impl Mapped {
    /// A process has mapped a page of a file.
    pub(crate) fn note(&mut self, object: u32, process: u32) {
        if self.processes.len() >= FILES && !self.processes.contains_key(&object) {
            // Those that are still used are known again at their next fault.
            self.processes.clear();
        }
        let processes = self.processes.entry(object).or_default();
        if processes.last() == Some(&process) {
            return;
        }
        processes.retain(|known| *known != process);
        if processes.len() == PROCESSES {
            processes.remove(0);
        }
        processes.push(process);
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.left = ASKED;
    }

    /// Has the processes that map pages of a file page them out. What stays is not told.
    pub(crate) fn page_out(&mut self, object: u32, id: FileId, pages: &[Range<u64>]) {
        let Some(processes) = self.processes.get_mut(&object) else { return };
        let left = &mut self.left;
        processes.retain(|&process| {
            if *left == 0 {
                return true;
            }
            *left -= 1;
            // One that has ended, has unmapped the file or may not be asked is left alone until its next fault.
            ask(process, id, pages).unwrap_or_else(|error| {
                tracing::debug!("process {process} keeps its mapped pages: {error}");
                false
            })
        });
    }
}

/// Has a process page out its mappings of pages of a file. `false`: it has none.
fn ask(process: u32, id: FileId, pages: &[Range<u64>]) -> io::Result<bool> {
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = number.ok_or(io::ErrorKind::InvalidInput)?;
    // Held before its mappings are read, so that they are not another's.
    let held = pidfd_open(number, PidfdFlags::empty())?;
    // The names in it may be of any bytes, and are not looked at.
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    let maps = String::from_utf8_lossy(&maps);
    let mappings: Vec<Mapping> = maps.lines().filter_map(|line| Mapping::parse(line, id)).collect();
    let ranges: Vec<libc::iovec> =
        pages.iter().flat_map(|pages| mappings.iter().filter_map(|mapping| mapping.range(pages))).collect();
    advise(&held, &ranges, libc::MADV_PAGEOUT)?;
    Ok(!mappings.is_empty())
}

/// What of its own memory a process can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Its program and libraries, which are in files.
    Program,
    /// Its data, too, which swap space takes.
    All,
}

/// What this process has freed leaves its memory, and what only the start has needed. What is used again comes back by a fault. It is a third of what the process takes beside a
/// small cache.
pub(crate) fn page_out_own_start(own: Own) -> io::Result<()> {
    #[cfg(target_env = "gnu")]
    // SAFETY: the C library's allocator gives back what nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
    let process = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    let maps = fs::read("/proc/self/maps")?;
    let maps = String::from_utf8_lossy(&maps);
    // Pages that another process of this program has, too, do not leave by the call below.
    for code in maps.lines().filter(|line| is_code(line)).filter_map(|line| leaves(Own::Program, line)) {
        // SAFETY: nobody has written to this, or may: what is used again is read from the file.
        unsafe {
            libc::madvise(code.iov_base, code.iov_len, libc::MADV_DONTNEED);
        }
    }
    let ranges: Vec<libc::iovec> = maps.lines().filter_map(|line| leaves(own, line)).collect();
    advise(&process, &ranges, libc::MADV_PAGEOUT)
}

/// Whether a line of `/proc/PID/maps` has a program's or a library's code.
fn is_code(line: &str) -> bool {
    Line::parse(line).is_some_and(|line| line.permissions == "r-xp" && line.inode != 0)
}

/// Where a line of `/proc/PID/maps` has private pages that leave: of a program those that nobody writes.
fn leaves(own: Own, line: &str) -> Option<libc::iovec> {
    let line = Line::parse(line)?;
    let Range { start, end } = line.addresses;
    let is_private = line.permissions.starts_with('r') && line.permissions.ends_with('p');
    let is_program = line.permissions[1..].starts_with('-') && line.inode != 0;
    let is_data = line.permissions[1..].starts_with('w') && !line.name.starts_with("[v");
    let range = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: (end - start) as usize };
    (is_private && (is_program || own == Own::All && is_data)).then_some(range)
}

/// Where a process has a part of a file, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<u64>,
    offset: u64,
}

impl Mapping {
    /// Of a line of `/proc/PID/maps`, if it is of the file and may be asked for.
    fn parse(line: &str, id: FileId) -> Option<Self> {
        let Line { addresses, permissions, offset, device, inode, .. } = Line::parse(line)?;
        (permissions.ends_with('s') && device == u64::from(id.device) && inode == id.inode)
            .then_some(Self { addresses, offset })
    }

    /// Where pages of the file lie in it.
    fn range(&self, pages: &Range<u64>) -> Option<libc::iovec> {
        let Range { start, end } = &self.addresses;
        let at = |page: u64| (page * PAGE).saturating_sub(self.offset).saturating_add(*start).min(*end);
        let (first, last) = (at(pages.start), at(pages.end));
        let range = libc::iovec { iov_base: first as *mut libc::c_void, iov_len: (last - first) as usize };
        (first < last).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId { device: 8 << 20 | 1, inode: 77, generation: 3 };

    #[test]
    fn a_mapping_of_the_file_says_where_its_pages_lie() {
        let parse = |line: &str| Mapping::parse(line, ID);
        let mapping = parse("10000-14000 r--s 00002000 08:01 77   /a b (deleted)").expect("it is one");
        assert_eq!(mapping, Mapping { addresses: 0x10000..0x14000, offset: 0x2000 });
        let range = |pages| mapping.range(&pages).map(|range| (range.iov_base as u64, range.iov_len as u64 / PAGE));
        assert_eq!(range(2..3), Some((0x10000, 1)));
        assert_eq!(range(0..4), Some((0x10000, 2)), "the first pages are not mapped");
        assert_eq!(range(5..9), Some((0x13000, 1)), "nor are the last");
        assert_eq!((range(0..2), range(6..9)), (None, None));
        for other in [
            "10000-14000 r-xp 00000000 08:01 77 /a",
            "10000-14000 rw-p 00000000 08:01 77 /a",
            "10000-14000 r--p 00000000 08:01 77 /a",
            "10000-14000 r--s 00000000 08:02 77 /a",
            "10000-14000 r--s 00000000 08:01 78 /a",
            "10000-14000 rw-p 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_this_program_does_not_use_takes_no_memory() {
        let of = |line: &str| leaves(Own::Program, line).map(|range| (range.iov_base as u64, range.iov_len));
        assert_eq!(of("10000-14000 r-xp 00002000 08:01 77 /a"), Some((0x10000, 0x4000)));
        assert_eq!(of("10000-14000 r--p 00002000 08:01 77 /a b"), Some((0x10000, 0x4000)));
        for other in
            ["10000-14000 rw-p 0 08:01 77 /a", "10000-14000 r--s 0 08:01 77 /a", "10000-14000 r-xp 0 00:00 0 [vdso]"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert!(is_code("10000-14000 r-xp 0 08:01 77 /a"));
        // What was linked as the program started was written to.
        assert!(!is_code("10000-14000 r--p 0 08:01 77 /a") && !is_code("10000-14000 r-xp 0 00:00 0 [vdso]"));
        let all = |line: &str| leaves(Own::All, line).is_some();
        assert!(all("10000-14000 rw-p 0 08:01 77 /a") && all("10000-14000 rw-p 0 00:00 0 [heap]"));
        assert!(all("10000-14000 r-xp 0 08:01 77 /a"));
        let not = ["10000-14000 rw-s 0 08:01 77 /a", "10000-14000 ---p 0 00:00 0", "10000-14000 r-xp 0 00:00 0 [vdso]"];
        assert!(!not.into_iter().any(all));
        let of_files = || {
            let status = fs::read_to_string("/proc/self/status").expect("it is there");
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).expect("a line").trim().to_owned();
            line.trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        let before = of_files();
        page_out_own_start(Own::Program).expect("a process may ask itself");
        assert!(of_files() < before, "{before} KiB");
    }

    #[test]
    fn the_last_processes_of_each_file_are_known() {
        let mut mapped = Mapped::default();
        (0..20).for_each(|process| mapped.note(1, process));
        mapped.note(1, 15);
        assert_eq!(mapped.processes[&1], [12, 13, 14, 16, 17, 18, 19, 15]);
        (0..2 * FILES as u32).for_each(|object| mapped.note(object, 1));
        assert!(mapped.processes.len() <= FILES);
    }

    #[test]
    fn a_process_that_has_ended_is_not_asked_again() {
        let mut child = std::process::Command::new("true").spawn().expect("it runs");
        child.wait().expect("it has ended");
        let mut mapped = Mapped::default();
        mapped.note(1, child.id());
        mapped.note(1, std::process::id());
        mapped.page_out(1, ID, std::slice::from_ref(&(0..1)));
        assert_eq!(mapped.processes[&1].len(), 2, "no turn has begun");
        mapped.begin();
        mapped.page_out(1, ID, std::slice::from_ref(&(0..1)));
        assert!(mapped.processes[&1].is_empty(), "nor is one that has not mapped the file");
    }
}
