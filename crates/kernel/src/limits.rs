//! What the limits of control groups leave to page cache.
//!
//! A group counts against its limit what its processes have in memory, what the kernel keeps for them, and pages of files. When all that comes to the limit, the kernel
//! reclaims. So as many pages may stay as there are of files, and as many more as the limit still has room for, less a margin in which pages may come before others
//! leave. Of a group and those above it the one with the least room decides.
//!
//! The group's page cache counts whole: what of it is steered is known only once it is used. Pages that are steered and count elsewhere are seen by their number.

use crate::scopes::{above, members, within};
use crate::steered::PAGE;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The margin: a part in this many of the limit, from 1 MiB to 64 MiB. One read of a disk may bring 2 MiB at once, and a turn takes some milliseconds.
const MARGIN: u64 = 16;
const LEAST_MARGIN: u64 = 1 << 20;
const MOST_MARGIN: u64 = 64 << 20;
/// The margin of programs' memory: a part in this many of the limit, from 256 KiB to 16 MiB. With half or twice as much, loops were as fast.
const SWAP_MARGIN: u64 = 64;
const LEAST_SWAP_MARGIN: u64 = 256 << 10;
const MOST_SWAP_MARGIN: u64 = 16 << 20;
/// The size grows when there is room for a part in this many of the limit, and shrinks at once.
const STEP: u64 = 64;
/// How often it is looked.
const LOOKED: Duration = Duration::from_millis(50);

/// The names of files of limits.
const NAMES: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

/// How names of version 1's counts begin that hold for the groups below, too.
const TOTAL: &str = "total_";

/// The kernel's lists of pages, by the names of their counts.
const LISTS: [&str; 5] = ["inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"];

/// The bytes of a group's counts, at most.
const COUNTS: usize = 8192;

/// Control groups that limit memory.
#[derive(Debug)]
pub struct Limits {
    limits: Vec<Limit>,
    /// When it was looked last.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Limit {
    most: File,
    taken: File,
    counts: File,
    /// What is counted of page cache, and of the part of it that is memory itself.
    names: [&'static str; 2],
    /// This process is in the group.
    holds_own: bool,
}

impl Limits {
    /// Of files that hold limits, as `memory.max`; those that are not there, or limit nothing, are left out. `None` where none is left.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Option<Self> {
        let limits: Vec<Limit> = files.into_iter().filter_map(|file| Limit::open(&file)).collect();
        (!limits.is_empty()).then_some(Self { limits, looked: None })
    }

    /// The files that hold the limits of a control group, given by its directory, and of those above it.
    pub fn files_of(group: &Path) -> Vec<PathBuf> {
        above(group).into_iter().flat_map(|group| NAMES.map(|most| group.join(most))).collect()
    }

    /// The most pages that may stay if nothing else counts.
    pub fn most(&self) -> u64 {
        let most = self.limits.iter().filter_map(Limit::most).map(|most| most - margin(most));
        most.min().unwrap_or(0) / PAGE
    }

    /// Whether there is a limit still: one can be taken away.
    pub(crate) fn limit_something(&self) -> bool {
        self.limits.iter().any(|limit| limit.most().is_some())
    }

    /// How many pages may stay, where `there` are, and `now` may at the moment. `None`: as many as now.
    pub(crate) fn follow(&mut self, there: u64, now: u64, at: Instant) -> Option<u64> {
        self.least(now, at, |limit| limit.leaves(there))
    }

    /// How many pages the programs of the groups may have in memory. `None`: as many as `now`, which they may have at the moment.
    ///
    /// This process has `own` pages. They count where it is in a group itself.
    ///
    /// What the kernel keeps for them counts against a limit, too. Page cache that no program has mapped, and pages on their way to swap space, do not: the kernel
    /// reclaims these first when the limit is reached.
    pub(crate) fn leave_to_memory(&mut self, own: u64, now: u64, at: Instant) -> Option<u64> {
        self.least(now, at, |limit| limit.leaves_to_memory(own))
    }

    fn least(&mut self, now: u64, at: Instant, leaves: impl Fn(&Limit) -> Option<(u64, u64)>) -> Option<u64> {
        if self.looked.is_some_and(|looked| at.saturating_duration_since(looked) < LOOKED) {
            return None;
        }
        self.looked = Some(at);
        self.limits
            .iter()
            .filter_map(leaves)
            .min_by_key(|(pages, _)| *pages)
            .and_then(|(pages, step)| (pages < now || pages >= now + step).then_some(pages))
    }
}

impl Limit {
    fn open(file: &Path) -> Option<Self> {
        let (taken, names) = match file.file_name()?.to_str()? {
            "memory.limit_in_bytes" => ("memory.usage_in_bytes", ["total_cache", "total_shmem"]),
            _ => ("memory.current", ["file", "shmem"]),
        };
        let [taken, counts] = [taken, "memory.stat"].map(|name| File::open(file.with_file_name(name)));
        let holds_own = within(file.parent()?).iter().any(|group| members(group).contains(&std::process::id()));
        let limit = Self { most: File::open(file).ok()?, taken: taken.ok()?, counts: counts.ok()?, names, holds_own };
        limit.most().is_some().then_some(limit)
    }

    /// The limit. Version 1 writes none as the most pages that it can count.
    fn most(&self) -> Option<u64> {
        number(&self.most).filter(|&most| most < 1 << 62)
    }

    /// The pages that it leaves, and the step in which the size grows.
    fn leaves(&self, there: u64) -> Option<(u64, u64)> {
        let (most, taken) = (self.most()?, number(&self.taken)?);
        let of_files = self.of_files().unwrap_or(0).max(there * PAGE);
        Some(((of_files + most).saturating_sub(taken + margin(most)) / PAGE, most / STEP / PAGE))
    }

    /// The same, of programs' memory.
    fn leaves_to_memory(&self, own: u64) -> Option<(u64, u64)> {
        let (most, taken) = (self.most()?, number(&self.taken)?);
        let prefix = if self.names[0].starts_with(TOTAL) { TOTAL } else { "" };
        // Each page is in one of the lists, and what is in none is the kernel's own.
        let listed: u64 = self.count(&LISTS.map(|list| [prefix, list].concat()))?.iter().sum();
        let own = if self.holds_own { own * PAGE } else { 0 };
        let fixed = taken.saturating_sub(listed) + own;
        Some((most.saturating_sub(fixed + margin_of_memory(most)) / PAGE, most / STEP / PAGE))
    }

    /// The bytes of page cache that the group counts.
    fn of_files(&self) -> Option<u64> {
        let [all, memory] = self.count(&self.names)?;
        Some(all.saturating_sub(memory))
    }

    /// Counts by their names.
    fn count<const N: usize>(&self, names: &[impl AsRef<str>; N]) -> Option<[u64; N]> {
        let mut text = [0; COUNTS];
        let length = self.counts.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let count =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
        let mut counts = [0; N];
        for (to, name) in counts.iter_mut().zip(names) {
            *to = count(name.as_ref())?;
        }
        Some(counts)
    }
}

fn margin(most: u64) -> u64 {
    (most / MARGIN).clamp(LEAST_MARGIN, MOST_MARGIN).min(most)
}

/// The same, for pages that swap space takes and gives.
fn margin_of_memory(most: u64) -> u64 {
    (most / SWAP_MARGIN).clamp(LEAST_SWAP_MARGIN, MOST_SWAP_MARGIN).min(most)
}

/// The number in a small file. One that says `max` has none.
fn number(file: &File) -> Option<u64> {
    let mut text = [0; 32];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    /// A group with a limit, what is taken of it, and what of that are pages of files.
    fn group(folder: &Path, most: &str, taken: u64, of_files: u64) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("cgroup.procs"), "").expect("a file");
        fs::write(folder.join("memory.max"), most).expect("a file");
        fs::write(folder.join("memory.high"), "max\n").expect("a file");
        fs::write(folder.join("memory.current"), format!("{taken}\n")).expect("a file");
        let counts = format!("anon 5\nfile {}\nfile_mapped 9\nshmem {MIB}\n", of_files + MIB);
        fs::write(folder.join("memory.stat"), counts).expect("a file");
    }

    #[test]
    fn the_size_is_what_is_there_and_what_the_limit_has_room_for_less_a_margin() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), "max\n", 900 * MIB, 0);
        let inner = folder.path().join("inner");
        let limit = format!("{}\n", 64 * MIB);
        group(&inner, &limit, 40 * MIB, 30 * MIB);
        let mut limits = Limits::new(Limits::files_of(&inner)).expect("there is one");
        let pages = |mib: u64| (mib << 20) / PAGE;
        assert_eq!(limits.most(), pages(60));
        let mut at = Instant::now();
        let mut follow = |there, now| {
            at += LOOKED;
            limits.follow(there, now, at)
        };
        // 10 MiB of the 40 are other than page cache.
        assert_eq!(follow(pages(3), pages(60)), Some(pages(50)));
        assert_eq!(follow(pages(3), pages(50)), None, "as now");
        group(&inner, &limit, 45 * MIB, 30 * MIB);
        assert_eq!(follow(pages(3), pages(50)), Some(pages(45)), "it shrinks at once");
        group(&inner, &limit, 45 * MIB - 2 * PAGE, 30 * MIB);
        assert_eq!(follow(pages(3), pages(45)), None, "it grows in steps");
        group(&inner, &limit, 44 * MIB, 30 * MIB);
        assert_eq!(follow(pages(3), pages(45)), Some(pages(46)));
        assert_eq!(follow(pages(40), pages(46)), Some(pages(56)), "10 MiB of what is there count elsewhere");
        group(&inner, &limit, 80 * MIB, 10 * MIB);
        assert_eq!(follow(pages(3), pages(46)), Some(0), "nothing is left");
    }

    #[test]
    fn memory_has_all_but_what_the_kernel_keeps_and_this_process_takes() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
        write("memory.limit_in_bytes", "67108864");
        write("memory.usage_in_bytes", &(50 * MIB).to_string());
        let lists: Vec<String> = LISTS.map(|list| format!("{list} 1\ntotal_{list} {}", 9 * MIB)).into();
        write("memory.stat", &(lists.join("\n") + "\n"));
        let mut limits = Limits::new([folder.path().join("memory.limit_in_bytes")]).expect("there is one");
        assert_eq!(limits.leave_to_memory(512, 1, Instant::now()), Some((64 - 5 - 1) * MIB / PAGE));
        write("cgroup.procs", &format!("1\n{}\n", std::process::id()));
        let mut limits = Limits::new([folder.path().join("memory.limit_in_bytes")]).expect("there is one");
        assert_eq!(limits.leave_to_memory(512, 1, Instant::now()), Some((64 - 5 - 1 - 2) * MIB / PAGE));
    }

    #[test]
    fn it_is_looked_only_now_and_then() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), "67108864\n", 0, 0);
        let mut limits = Limits::new(Limits::files_of(folder.path())).expect("there is one");
        let at = Instant::now();
        assert_eq!(limits.follow(0, 1, at), Some(60 * MIB / PAGE));
        assert_eq!(limits.follow(0, 1, at + LOOKED / 2), None);
        assert_eq!(limits.follow(0, 1, at + LOOKED), Some(60 * MIB / PAGE));
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_follow() {
        let folder = tempfile::tempdir().expect("a folder");
        group(folder.path(), "max\n", 5, 0);
        assert!(Limits::new(Limits::files_of(folder.path())).is_none());
        fs::write(folder.path().join("memory.limit_in_bytes"), "9223372036854771712\n").expect("a file");
        fs::write(folder.path().join("memory.usage_in_bytes"), "1\n").expect("a file");
        assert!(Limits::new(Limits::files_of(folder.path())).is_none());
        assert!(Limits::files_of(Path::new("/no/such/group")).is_empty());
    }
}
