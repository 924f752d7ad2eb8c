//! Whether memory is short: programs wait for memory, and the kernel reclaims.
//!
//! The kernel counts the time in which some program waits for memory (pressure stall information), of the whole system and of each control group of version 2. Programs also wait
//! where a group elsewhere is at its own limit, which pages of others cannot help. So a wait counts only where the kernel has looked for pages to reclaim in the same place:
//! `/proc/vmstat` counts those of the whole system alone, and a group's `memory.stat` those of the group.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it is looked.
const LOOKED: Duration = Duration::from_millis(100);
/// Memory is short if some program has waited for it for a part in this many of the time.
const SHORT: u32 = 10;

/// Where pressure is looked at.
pub(crate) struct Pressure {
    places: Vec<Place>,
    /// When it was looked last.
    looked: Instant,
}

struct Place {
    /// The time that some program has waited, in its first line.
    waits: File,
    /// Counts of pages that were looked at to be reclaimed.
    scans: PathBuf,
    waited: Duration,
    /// As they were when a program waited last time, too.
    scanned: Option<u64>,
}

impl Pressure {
    /// Of the system, and of control groups, by their directories. A kernel without pressure stall information has none.
    pub(crate) fn new<'a>(groups: impl Iterator<Item = &'a Path>, at: Instant) -> Self {
        let system = Place::open(Path::new("/proc/pressure/memory"), "/proc/vmstat".into());
        let of_group = |group: &Path| Place::open(&group.join("memory.pressure"), group.join("memory.stat"));
        Self { places: system.into_iter().chain(groups.filter_map(of_group)).collect(), looked: at }
    }

    /// Whether memory has been short since it was looked last, if that is long enough ago.
    pub(crate) fn is_short(&mut self, at: Instant) -> bool {
        let passed = at.saturating_duration_since(self.looked);
        if passed < LOOKED {
            return false;
        }
        self.looked = at;
        // Each takes note of what has changed.
        let mut short = false;
        for place in &mut self.places {
            short |= place.is_short(passed);
        }
        short
    }
}

impl Place {
    fn open(waits: &Path, scans: PathBuf) -> Option<Self> {
        scanned(&scans)?;
        let mut place = Self { waits: File::open(waits).ok()?, scans, waited: Duration::ZERO, scanned: None };
        place.waited = place.waited()?;
        Some(place)
    }

    /// `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`
    fn waited(&self) -> Option<Duration> {
        let mut text = [0; 128];
        let length = self.waits.read_at(&mut text, 0).ok()?;
        let line = std::str::from_utf8(&text[..length]).ok()?.lines().next()?;
        line.split_once("total=")?.1.parse().ok().map(Duration::from_micros)
    }

    fn is_short(&mut self, passed: Duration) -> bool {
        // A group that has gone has no pressure.
        let Some(waited) = self.waited() else { return false };
        let wait = waited.saturating_sub(std::mem::replace(&mut self.waited, waited));
        // These counts take longer to read, so without a wait they are left alone.
        let scanned = if wait * SHORT < passed { None } else { scanned(&self.scans) };
        let before = std::mem::replace(&mut self.scanned, scanned);
        before.zip(scanned).is_some_and(|(before, now)| before < now)
    }
}

/// Pages that were looked at to be reclaimed: `pgscan` of a group, `pgscan_kswapd` and `pgscan_direct` of the system.
fn scanned(counts: &Path) -> Option<u64> {
    let text = fs::read_to_string(counts).ok()?;
    let counts = text.lines().filter_map(|line| line.split_once(' '));
    let of_reclaim = counts.filter(|(name, _)| ["pgscan", "pgscan_kswapd", "pgscan_direct"].contains(name));
    // A group has the sum beside its parts.
    of_reclaim
        .map(|(_, count)| count.parse::<u64>().ok())
        .try_fold(None, |most: Option<u64>, count| Some(Some(most.unwrap_or(0) + count?)))?
}

/// Pages of programs' memory that the kernel has reclaimed as it or a group needed memory. Kernels before 5.8 do not count them.
pub(crate) fn stolen_of_memory() -> Option<u64> {
    let counts = fs::read_to_string("/proc/vmstat").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("pgsteal_anon "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of a group.
    fn say(group: &Path, waited: u64, scanned: u64) {
        let waits = format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={waited}\nfull avg10=0.00 total=9\n");
        fs::write(group.join("memory.pressure"), waits).expect("a file");
        let counts = format!("anon 5\npgfault 7\npgscan {scanned}\npgsteal 1\n");
        fs::write(group.join("memory.stat"), counts).expect("a file");
    }

    #[test]
    fn memory_is_short_where_programs_wait_while_the_kernel_reclaims() {
        let folder = tempfile::tempdir().expect("a folder");
        say(folder.path(), 1000, 50);
        let mut at = Instant::now();
        let mut place = Place::open(&folder.path().join("memory.pressure"), folder.path().join("memory.stat"));
        let mut pressure = Pressure { places: place.take().into_iter().collect(), looked: at };
        assert_eq!(pressure.places.len(), 1);
        let mut is_short = |waited, scanned| {
            say(folder.path(), waited, scanned);
            at += LOOKED;
            pressure.is_short(at)
        };
        assert!(!is_short(1000, 50));
        assert!(!is_short(10_900, 60), "a wait of less than a tenth");
        assert!(!is_short(20_900, 70), "what was reclaimed before that wait is not known");
        assert!(is_short(30_900, 71));
        assert!(!is_short(90_000, 71), "programs wait, and nothing is reclaimed here");
        assert!(is_short(190_000, 72));
        assert!(!is_short(190_000, 99), "nobody waits");
        assert!(!is_short(290_000, 99));
        assert!(is_short(390_000, 100));
        assert!(!pressure.is_short(at + LOOKED / 2), "it is not looked yet");
    }

    #[test]
    fn a_kernel_without_pressure_or_counts_of_reclaim_is_never_short() {
        let folder = tempfile::tempdir().expect("a folder");
        let [waits, counts] = ["memory.pressure", "memory.stat"].map(|name| folder.path().join(name));
        assert!(Place::open(&waits, counts.clone()).is_none());
        say(folder.path(), 1, 1);
        assert!(Place::open(&waits, counts.clone()).is_some());
        fs::write(&counts, "anon 5\n").expect("a file");
        assert!(Place::open(&waits, counts).is_none());
        let system = "pgscan_kswapd 3\npgscan_direct 4\npgscan_direct_throttle 90\n";
        fs::write(folder.path().join("vmstat"), system).expect("a file");
        assert_eq!(scanned(&folder.path().join("vmstat")), Some(7));
    }
}
