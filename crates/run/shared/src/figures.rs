//! Figures of a process, in a file that it has mapped: they are there however it ends.

use crate::sequences::SequenceCounters;
use forebay_figures::{Total, Words, figures};
use forebay_pager::Faults;
use forebay_pool::{Statistics, VolumeStatistics};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of the files end.
const EXTENSION: &str = "figures";

/// The name under which policies with hands show how far these go.
const HAND_STEPS: &str = "hand steps a fault";

/// What the figures of a process are read from.
#[derive(Debug)]
pub struct Seen {
    /// What its faults were.
    pub faults: Faults,
    /// What its pool has done.
    pub pool: Statistics,
    /// What happened in its regions.
    pub regions: VolumeStatistics,
    /// What went between memory and storage.
    pub traffic: Traffic,
    /// The most bytes that the program had in regions at a time.
    pub most: u64,
}

figures! {
    /// What the paging of one process, or of several together, was.
    #[derive(Copy, Eq)]
    pub struct Figures in words read from Seen {
        /// The number of the process.
        process: u64 => |_| std::process::id().into();
        /// Faults of pages that were not resident.
        major: u64 => |seen| seen.faults.major;
        /// Faults of resident pages that were not mapped.
        minor: u64 => |seen| seen.faults.minor;
        /// Faults that ended with SIGBUS.
        failed: u64 => |seen| seen.faults.failed;
        /// Nanoseconds in which faults were handled.
        waited: u64 => |seen| seen.faults.fault_time.sum;
        /// References that the policy saw and that found their page resident.
        hits: u64 => |seen| seen.pool.hits;
        /// References that the policy saw and that did not.
        misses: u64 => |seen| seen.pool.misses;
        /// Of the hits: first uses of pages that were read ahead.
        readahead_used: u64 => |seen| seen.regions.readahead_used;
        /// The most bytes that the program had in regions at a time.
        most: u64 => |seen| seen.most;
        /// The bytes that its pages have of the limit: the rest is what it takes to manage them.
        capacity: u64 => |seen| seen.pool.capacity;
        /// Of these, the bytes of the pages that the policy chooses from: the others are for evicted pages until they are written.
        policy_capacity: u64 => |seen| u64::from(seen.pool.policy_frames) * u64::from(seen.pool.page_size);
        /// Entries that the policy's hands pass for each page that is brought, in thousandths; 0 where it has none, or does not show it.
        hand_millisteps: u64 => |seen| seen.pool.policy_state.get(HAND_STEPS).map_or(0, |steps| (1000.0 * steps).round() as u64);
        /// What went between memory and storage.
        #[serde(flatten)]
        traffic: Traffic => |seen| seen.traffic;
    }
}

figures! {
    /// What went between memory and storage.
    #[derive(Copy, Eq)]
    pub struct Traffic in words counted by pub TrafficCounters {
        /// Pages that were made as zeroes, without asking storage, those of readahead too.
        compulsory: u64 = Total;
        /// Pages read from swap space.
        read: u64 = Total;
        /// Pages written to swap space.
        written: u64 = Total;
        /// Requests that read from swap space.
        reads: u64 = Total;
        /// Requests that write to it.
        writes: u64 = Total;
        /// Reads of swap space that go on where the one before ended, as sequences.
        #[serde(flatten)]
        sequences: Sequences = SequenceCounters;
        /// Pages read from mapped files.
        file_read: u64 = Total;
        /// Requests that read from them.
        file_reads: u64 = Total;
    }
}

figures! {
    /// Sequences of reads by their length in blocks of 4 KiB.
    #[derive(Copy, Eq)]
    pub struct Sequences in words {
        /// Those of 1 block.
        sequences_up_to_1: u64;
        /// Of 2.
        sequences_up_to_2: u64;
        /// Of 3 or 4.
        sequences_up_to_4: u64;
        /// Of 5 to 8.
        sequences_up_to_8: u64;
        /// Of 9 to 16.
        sequences_up_to_16: u64;
        /// Of 17 to 32.
        sequences_up_to_32: u64;
        /// Of 33 to 64.
        sequences_up_to_64: u64;
        /// Of 65 to 128.
        sequences_up_to_128: u64;
        /// Longer ones.
        sequences_longer: u64;
    }
}

impl Figures {
    /// References that found their page resident because it had been used before, by all; `None` without references.
    pub fn hit_ratio(&self) -> Option<f64> {
        self.share(self.hits.saturating_sub(self.readahead_used))
    }

    /// References that found their page resident because it had been read ahead, by all; `None` without references.
    pub fn readahead_ratio(&self) -> Option<f64> {
        self.share(self.readahead_used)
    }

    fn share(&self, part: u64) -> Option<f64> {
        // A pool counts hits in batches, so the last are missing, and first uses of pages that were read ahead at once.
        let references = self.hits.max(self.readahead_used) + self.misses;
        (references > 0).then(|| part as f64 / references as f64)
    }

    /// Those of all processes together. The number is how many they are. The hands' steps are not a sum: they are left out.
    pub fn sum(all: &[Self]) -> Self {
        let mut sums = [0; Self::COUNT];
        for figures in all {
            let mut sums = sums.iter_mut();
            figures.put(&mut |word| *sums.next().expect("a sum for each word") += word);
        }
        let mut sums = sums.into_iter();
        let sum = Self::take(&mut || sums.next().expect("a sum for each word"));
        Self { process: all.len() as u64, hand_millisteps: 0, ..sum }
    }

    /// Those of the processes that have left their files in a folder, in the order of their numbers.
    ///
    /// # Errors
    /// The system's.
    pub fn read_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let bytes = std::fs::read(path)?;
                // One for which there was no room is empty.
                if bytes.is_empty() {
                    continue;
                }
                let mut words = bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
                all.push(Self::take(&mut || words.next().unwrap_or(0)));
            }
        }
        all.sort_unstable_by_key(|figures| figures.process);
        Ok(all)
    }
}

/// The file of a process.
#[derive(Debug)]
pub struct Page(&'static [AtomicU64; Figures::COUNT]);

impl Page {
    /// Makes the file of a process, which may be the second program of that number.
    ///
    /// # Errors
    /// The system's.
    pub fn create(folder: &Path, process: u32) -> io::Result<Self> {
        let (file, _) = create_new(folder, process, EXTENSION)?;
        let length = size_of::<[AtomicU64; Figures::COUNT]>();
        // Else a full file system would show as SIGBUS.
        fallocate(&file, FallocateFlags::empty(), 0, length as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping touches no memory that is in use.
        let mapped = unsafe { mmap(null_mut(), length, protection, MapFlags::SHARED, &file, 0) }?;
        // SAFETY: it has as many words, and is never unmapped; nobody writes the file otherwise.
        Ok(Self(unsafe { &*mapped.cast() }))
    }

    /// Writes figures down.
    pub fn set(&self, figures: Figures) {
        let mut places = self.0.iter();
        figures.put(&mut |word| places.next().expect("a place for each word").store(word, Ordering::Relaxed));
    }
}

/// A new file of a process in a folder.
pub(crate) fn create_new(folder: &Path, process: u32, extension: &str) -> io::Result<(File, PathBuf)> {
    for number in 1_u32.. {
        let path = folder.join(format!("{process}-{number}.{extension}"));
        match File::options().read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_processes_are_found_and_summed() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = |process| Page::create(folder.path(), process).expect("a page");
        let of =
            |process, major| Figures { process, major, hits: 3, misses: 1, readahead_used: 1, ..Figures::default() };
        page(9).set(of(9, 1));
        page(7).set(of(7, 10));
        page(7).set(of(7, 100));
        let all = Figures::read_all(folder.path()).expect("they are read");
        assert_eq!(all.iter().map(|figures| figures.process).collect::<Vec<_>>(), [7, 7, 9]);
        let sum = Figures::sum(&all);
        assert_eq!((sum.process, sum.major), (3, 111));
        assert_eq!((sum.hit_ratio(), sum.readahead_ratio()), (Some(0.5), Some(0.25)));
        assert_eq!(Figures::default().hit_ratio(), None);
        let few = Figures { misses: 1, readahead_used: 3, ..Figures::default() };
        assert_eq!((few.hit_ratio(), few.readahead_ratio()), (Some(0.0), Some(0.75)));
    }
}
