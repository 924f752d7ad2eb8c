//! The memory of each process that is steered: a volume of the pool, whose blocks are the process's pages by their addresses.

use super::duel::Work;
use super::machine::{Process, TABLE, TABLES, WORDS};
use crate::files::Elsewhere;
use crate::maps::Line;
use crate::steered::{PAGE, Steered};
use forebay_pool::device::Device;
use forebay_pool::{Pool, Together, Volume, VolumeConfig};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What lies at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Memory of the process, or what it shares: it may leave.
    Memory,
    /// A private mapping of a file: a program, most often, which is page cache; and a shared one where files are steered beside.
    Program,
}

/// A process's memory.
pub(crate) struct Space {
    pub(crate) process: Process,
    pub(crate) volume: Arc<Volume>,
    /// What lies where, in pages, in order.
    areas: Vec<(Range<u64>, Kind)>,
    /// A page was used where nothing was known to lie.
    pub(crate) is_stale: bool,
    /// Pages that it has in memory, of all kinds, when it was asked last.
    pub(crate) resident: u64,
    /// What it had done when it was asked last.
    work: Option<Work>,
    /// Its numbers in the trace that is recorded: as a file, and as an owner.
    recorded: Option<(u32, u32)>,
    files_beside: bool,
}

impl Space {
    /// Its numbers in the trace that is recorded. `number` gives them to a name: that of its program, and its own.
    pub(crate) fn recorded(&mut self, number: impl FnOnce(&str) -> (u32, u32)) -> (u32, u32) {
        let process = self.process.number;
        *self.recorded.get_or_insert_with(|| {
            let program = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            number(&format!("{} {process}", program.trim_end()))
        })
    }

    /// Whether a page may be steered: also where it is not known what lies there.
    pub(crate) fn may_leave(&mut self, page: u64) -> bool {
        let after = self.areas.partition_point(|(pages, _)| pages.end <= page);
        match self.areas.get(after).filter(|(pages, _)| pages.contains(&page)) {
            Some((_, kind)) => *kind == Kind::Memory,
            None => {
                self.is_stale = true;
                true
            }
        }
    }

    /// Of a table, the pages that may leave, a bit each.
    pub(crate) fn mask(&self, table: u64) -> [u64; WORDS] {
        let (first, mut words) = (table * TABLE, [0; WORDS]);
        let from = self.areas.partition_point(|(pages, _)| pages.end <= first);
        for (pages, kind) in self.areas[from..].iter().take_while(|(pages, _)| pages.start < first + TABLE) {
            if *kind == Kind::Memory {
                let (start, end) = (pages.start.max(first) - first, pages.end.min(first + TABLE) - first);
                set(&mut words, start..end);
            }
        }
        words
    }

    /// The tables of all that may leave, by the table of the next level that they lie in: its number, and those of them.
    pub(crate) fn tables(&self) -> Vec<(u64, Range<u64>)> {
        let mut tables: Vec<(u64, Range<u64>)> = Vec::new();
        let mut next = 0;
        for (pages, _) in self.areas.iter().filter(|(_, kind)| *kind == Kind::Memory) {
            let end = pages.end.div_ceil(TABLE);
            let mut start = (pages.start / TABLE).max(next);
            next = next.max(end);
            while start < end {
                let above = start / TABLES;
                let until = end.min((above + 1) * TABLES);
                match tables.last_mut() {
                    Some((last, tables)) if *last == above && tables.end == start => tables.end = until,
                    _ => tables.push((above, start..until)),
                }
                start = until;
            }
        }
        tables
    }

    /// These pages are memory.
    #[cfg(test)]
    pub(crate) fn have(&mut self, pages: Range<u64>) {
        self.areas = vec![(pages, Kind::Memory)];
        self.is_stale = false;
    }

    /// Reads again what lies where, and how much of it is in memory. What it cannot read stays as it was.
    pub(crate) fn read(&mut self) {
        if self.process.held.is_none() {
            return;
        }
        if let Ok(maps) = fs::read(format!("/proc/{}/maps", self.process.number)) {
            // Names may be of any bytes.
            self.areas = areas(&String::from_utf8_lossy(&maps), self.files_beside);
            self.is_stale = false;
        }
        self.read_resident();
    }

    /// Asks how much of it is in memory.
    pub(crate) fn read_resident(&mut self) {
        if self.process.held.is_none() {
            return;
        }
        let process = self.process.number;
        let resident = if self.files_beside {
            fs::read_to_string(format!("/proc/{process}/status")).ok().map(|status| without_files(&status))
        } else {
            let counts = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
            counts.split(' ').nth(1).and_then(|count| count.parse().ok())
        };
        self.resident = resident.unwrap_or(self.resident);
    }
}

/// What a process has done, by its `/proc/PID/stat`.
fn work(told: &[u8]) -> Option<Work> {
    // Its name may be of any bytes; numbers follow the last bracket.
    let told = String::from_utf8_lossy(told);
    let mut numbers = told.rsplit_once(')')?.1.split_ascii_whitespace().skip(9);
    let waits = numbers.next()?.parse().ok()?;
    let ticks: u64 = numbers.nth(1)?.parse().ok()?;
    let computed = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
    Some(Work { computed, waits })
}

/// The pages in memory that are of no file on a disk, by a `/proc/PID/status`.
fn without_files(status: &str) -> u64 {
    let kibibytes = |name| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
    };
    (kibibytes("RssAnon:") + kibibytes("RssShmem:")) * 1024 / PAGE
}

fn set(words: &mut [u64; WORDS], pages: Range<u64>) {
    for (index, word) in words.iter_mut().enumerate() {
        let first = index as u64 * 64;
        let (start, end) = (pages.start.max(first), pages.end.min(first + 64));
        if start < end {
            *word |= (u64::MAX >> (64 - (end - start))) << (start - first);
        }
    }
}

/// What lies where, by a `/proc/PID/maps`: neighbours of a kind as one. `files_beside`: files on disks are no memory, however they are mapped.
fn areas(maps: &str, files_beside: bool) -> Vec<(Range<u64>, Kind)> {
    let mut areas: Vec<(Range<u64>, Kind)> = Vec::new();
    for line in maps.lines().filter_map(Line::parse) {
        // What the kernel itself maps into each process is nobody's to page.
        if line.inode == 0 && line.name.starts_with("[v") {
            continue;
        }
        let is_shared = line.permissions.ends_with('s') && !(files_beside && is_on_disk(line.device));
        let kind = if is_shared || line.inode == 0 { Kind::Memory } else { Kind::Program };
        let pages = line.addresses.start / PAGE..line.addresses.end / PAGE;
        match areas.last_mut() {
            Some((last, of)) if *of == kind && last.end == pages.start => last.end = pages.end,
            _ => areas.push((pages, kind)),
        }
    }
    areas
}

/// Whether a file of a device lies on a disk: what tmpfs and shared memory have is none, and has major number 0.
fn is_on_disk(device: u64) -> bool {
    device >> 20 != 0
}

/// The processes that are steered.
pub(crate) struct Spaces {
    by_object: HashMap<u32, Space>,
    by_process: HashMap<u32, u32>,
    together: Together,
    bytes: Arc<dyn Device>,
    /// What is mapped of files is none of their memory.
    files_beside: bool,
    /// What they have done since they are steered.
    work: Work,
}

impl Spaces {
    /// No process, of a pool. `files_beside`: files are steered, too, and what processes map of them is theirs.
    pub(crate) fn new(pool: &Pool, files_beside: bool) -> Self {
        let (by_object, by_process) = (HashMap::new(), HashMap::new());
        Self {
            by_object,
            by_process,
            together: pool.count_together(),
            bytes: Arc::new(Elsewhere),
            files_beside,
            work: Work::default(),
        }
    }

    /// What is counted of all of them.
    pub(crate) fn together(&self) -> &Together {
        &self.together
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// The number of a process's memory in the pool.
    pub(crate) fn find(&self, process: u32) -> Option<u32> {
        self.by_process.get(&process).copied()
    }

    /// A process's memory by its number in the pool.
    pub(crate) fn get(&self, object: u32) -> Option<&Space> {
        self.by_object.get(&object)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut Space> {
        self.by_object.get_mut(&object)
    }

    /// The numbers of all, in the pool.
    pub(crate) fn objects(&self) -> Vec<u32> {
        self.by_object.keys().copied().collect()
    }

    /// Asks how many pages each has in memory: all together.
    pub(crate) fn read_resident(&mut self) -> u64 {
        let asked = |space: &mut Space| {
            space.read_resident();
            space.resident
        };
        self.by_object.values_mut().map(asked).sum()
    }

    /// Asks what all have done: also those that have ended since.
    pub(crate) fn read_work(&mut self) -> Work {
        for space in self.by_object.values_mut() {
            // It may have ended.
            let told = fs::read(format!("/proc/{}/stat", space.process.number));
            let Some(work) = told.ok().and_then(|told| work(&told)) else { continue };
            let before = space.work.replace(work).unwrap_or(work);
            self.work.computed += work.computed.saturating_sub(before.computed);
            self.work.waits += work.waits.saturating_sub(before.waits);
        }
        self.work
    }

    /// A process is steered from now on: its number in the pool.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn hold(&mut self, steered: &Steered, number: u32) -> io::Result<u32> {
        let process = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        let held = pidfd_open(process, PidfdFlags::empty())?;
        let object = self.add(steered, Process { number, held: Some(held) });
        if let Some(space) = self.get_mut(object) {
            space.read();
        }
        Ok(object)
    }

    /// The same of a process that is held already, or needs not be.
    pub(crate) fn add(&mut self, steered: &Steered, process: Process) -> u32 {
        let config =
            VolumeConfig { together: Some(self.together.clone()), readahead: 0, ..VolumeConfig::new(String::new()) };
        let volume = steered.attach(Arc::clone(&self.bytes), config);
        let object = volume.id();
        self.by_process.insert(process.number, object);
        let files_beside = self.files_beside;
        let space = Space {
            process,
            volume,
            areas: Vec::new(),
            is_stale: true,
            resident: 0,
            work: None,
            recorded: None,
            files_beside,
        };
        self.by_object.insert(object, space);
        object
    }

    /// A process has ended, or is not steered any more.
    pub(crate) fn remove(&mut self, pool: &Pool, object: u32) {
        let Some(space) = self.by_object.remove(&object) else { return };
        self.by_process.remove(&space.process.number);
        if let Err(error) = pool.detach(&space.volume) {
            tracing::debug!("a process's memory is not let go of: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Side;

    const MAPS: &str = "\
00400000-00500000 r-xp 00000000 08:01 77 /bin/program
00500000-00600000 rw-p 00000000 00:00 0
00600000-00601000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200000 rw-s 00000000 00:01 9 /dev/zero (deleted)
7fff00000000-7fff00002000 rw-p 00000000 00:00 0 [stack]
7fff00002000-7fff00004000 r--p 00000000 00:00 0 [vvar]
7fff00004000-7fff00006000 r-xp 00000000 00:00 0 [vdso]
";

    fn space() -> Space {
        let steered = Steered::played("lru", 64, Side::Memory);
        let mut spaces = Spaces::new(steered.pool(), false);
        let object = spaces.add(&steered, Process { number: 7, held: None });
        assert_eq!((spaces.find(7), spaces.find(8)), (Some(object), None));
        let mut space = spaces.by_object.remove(&object).expect("it is there");
        space.areas = areas(MAPS, false);
        space.is_stale = false;
        space
    }

    #[test]
    fn memory_may_leave_and_programs_may_not() {
        let mut space = space();
        assert!(!space.may_leave(0x400));
        assert!(space.may_leave(0x500) && space.may_leave(0x600) && space.may_leave(0x7_f000_0000));
        assert!(!space.is_stale);
        assert!(space.may_leave(0x601) && space.is_stale, "something new may lie there");
    }

    #[test]
    fn files_that_are_mapped_shared_are_memory_unless_files_are_steered_beside() {
        let maps = "1000-2000 rw-s 00000000 08:01 77 /data\n3000-4000 rw-s 00000000 00:01 9 /dev/zero (deleted)\n";
        let kinds = |files_beside| areas(maps, files_beside).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
        assert_eq!(kinds(false), [Kind::Memory, Kind::Memory]);
        assert_eq!(kinds(true), [Kind::Program, Kind::Memory]);
    }

    #[test]
    fn what_a_process_has_done_is_read_behind_its_name_whatever_that_is() {
        let told = b"77 (a) S 1 \xff(b) R 1 77 77 0 -1 4194560 900 0 31 0 250 90 0 0 20 0 1 0 5 9 9";
        let tick = 1000 / rustix::param::clock_ticks_per_second();
        assert_eq!(work(told), Some(Work { computed: Duration::from_millis(250 * tick), waits: 31 }));
        assert_eq!((work(b"77 (a) R 1"), work(b"")), (None, None));
        let own = fs::read("/proc/self/stat").expect("its own");
        assert!(work(&own).is_some());
    }

    #[test]
    fn memory_is_counted_without_files_where_these_are_steered_beside() {
        let status =
            "Name:\ta\nVmRSS:\t     100 kB\nRssAnon:\t      40 kB\nRssFile:\t      52 kB\nRssShmem:\t       8 kB\n";
        assert_eq!((without_files(status), without_files("Name:\tkthreadd\n")), (12, 0));
    }

    #[test]
    fn tables_are_those_of_memory_each_once() {
        let space = space();
        let tables = space.tables();
        assert_eq!(tables.len(), 3, "{tables:?}");
        assert_eq!(tables[0], (0, 2..4));
        assert_eq!(tables[1], (0x3f8_0000 / TABLES, 0x3f8_0000..0x3f8_0001));
        assert_eq!(space.mask(2), {
            let mut words = [0; WORDS];
            set(&mut words, 256..512);
            words
        });
        assert_eq!(space.mask(3), {
            let mut words = [0; WORDS];
            set(&mut words, 0..1);
            words
        });
        assert_eq!(space.mask(0x3f8_0000), [u64::MAX; WORDS]);
    }
}
