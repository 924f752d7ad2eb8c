//! What the pool counts.

use crate::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that several threads raise.
#[derive(Default)]
pub(crate) struct Total(AtomicU64);

impl Total {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Values counted by powers of two: bucket `i` holds those below 2^i, and not below 2^(i - 1).
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

const BUCKETS: usize = 48;

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(crate) fn add(&self, value: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub(crate) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn snapshot(&self) -> Distribution {
        Distribution {
            buckets: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Values counted by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many values were below 2^i, and not below 2^(i - 1), i counting from 0.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl Distribution {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// A bound that the given share of the values does not exceed, within a factor of two; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (power, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return 1 << power;
            }
        }
        0
    }
}

/// What happened on a device.
#[derive(Default)]
pub(crate) struct DeviceCounters {
    pub(crate) hits: Total,
    pub(crate) misses: Total,
    pub(crate) reads: Total,
    pub(crate) bytes_read: Total,
    pub(crate) writes: Total,
    pub(crate) bytes_written: Total,
    pub(crate) flushes: Total,
    pub(crate) errors: Total,
    pub(crate) pages_written_back: Total,
    pub(crate) failed_writebacks: Total,
    pub(crate) pages_read_ahead: Total,
    pub(crate) readahead_used: Total,
    pub(crate) request_lengths: Histogram,
    pub(crate) read_time: Histogram,
    pub(crate) write_time: Histogram,
}

/// What a pool has done since it was made.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// The policy, as the user named it.
    pub policy: String,
    /// The bytes of a page.
    pub page_size: u32,
    /// The bytes of all frames.
    pub capacity: u64,
    /// The frames that the policy has.
    pub policy_frames: u32,
    /// Pages that are resident.
    pub resident: u32,
    /// Ghosts that the policy remembers.
    pub ghosts: u32,
    /// Pages that are dirty, those of the laundry included.
    pub dirty: u64,
    /// Pages evicted by the policy that are still to be written.
    pub laundry: u32,
    /// References that found their page resident.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Misses whose page was still in the laundry: without a read.
    pub rescued: u64,
    /// Pages that the policy evicted.
    pub evictions: u64,
    /// Victims refused because they were dirty.
    pub refused_dirty: u64,
    /// Pages read ahead and evicted unused.
    pub readahead_wasted: u64,
    /// Bytes of metadata: the policy's, and the pages' and page table's.
    pub metadata: usize,
    /// The time of a hit in nanoseconds, one of 64 measured.
    pub hit_time: Distribution,
    /// The time of a miss in nanoseconds.
    pub miss_time: Distribution,
    /// The policy's state, each figure under its name.
    pub policy_state: Vec<(&'static str, f64)>,
    /// What happened on each volume that is counted by itself.
    pub volumes: Vec<VolumeStatistics>,
    /// What happened on all others together, since the pool was made.
    pub uncounted: VolumeStatistics,
}

impl Statistics {
    /// Hits by references.
    pub fn hit_ratio(&self) -> f64 {
        let references = self.hits + self.misses;
        if references == 0 { 0.0 } else { self.hits as f64 / references as f64 }
    }
}

/// What a volume has of a cache, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareStatistics {
    /// Others leave it so much when it needs it.
    pub min: u64,
    /// It never has more.
    pub max: u64,
    /// It has so much now.
    pub resident: u64,
}

/// What happened on a volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeStatistics {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub length: u64,
    /// What it has of the cache, if it has a share of it.
    pub share: Option<ShareStatistics>,
    /// Pages that are dirty.
    pub dirty: u64,
    /// References that found their page resident.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Reads from the device.
    pub reads: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    /// Writes to the device.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Requests to the device that failed.
    pub errors: u64,
    /// Pages written back.
    pub pages_written_back: u64,
    /// Pages whose writeback failed; they stay dirty.
    pub failed_writebacks: u64,
    /// Pages read ahead.
    pub pages_read_ahead: u64,
    /// Pages read ahead that were used.
    pub readahead_used: u64,
    /// The lengths of requests to the device in bytes.
    pub request_lengths: Distribution,
    /// The time of a read in nanoseconds.
    pub read_time: Distribution,
    /// The time of a write in nanoseconds.
    pub write_time: Distribution,
}
