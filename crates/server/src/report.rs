//! The figures of a server at one moment: what `/statistics` answers as JSON, and `/metrics` in Prometheus' words.

use forebay_nbd::Counts;
use forebay_pool::{Distribution, Statistics, VolumeStatistics};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A server's figures; counts are since it started.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// Connections now.
    pub connections: u64,
    /// Connections there have been.
    pub connections_accepted: u64,
    /// Connections closed at once, because there were too many.
    pub connections_refused: u64,
    /// Connections closed because what came was not the protocol.
    pub connections_malformed: u64,
    /// References recorded, if they are.
    pub recorded: Option<u64>,
    /// References that came too fast to be recorded.
    pub record_lost: Option<u64>,
    /// The caches.
    pub caches: Vec<CacheReport>,
    /// The volumes.
    pub volumes: Vec<VolumeReport>,
}

/// A cache's figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct CacheReport {
    /// `shared`, or the volume it belongs to.
    pub name: String,
    /// The policy, as the user named it.
    pub policy: String,
    /// The bytes of a page.
    pub page_size: u32,
    /// The bytes of all frames.
    pub capacity: u64,
    /// Resident pages.
    pub resident: u32,
    /// Ghosts.
    pub ghosts: u32,
    /// Dirty pages.
    pub dirty: u64,
    /// Evicted pages that are still to be written.
    pub laundry: u32,
    /// References that found their page resident.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Misses of pages still in the laundry: without a read.
    pub rescued: u64,
    /// Victims refused because they were dirty.
    pub refused_dirty: u64,
    /// Pages read ahead and evicted unused.
    pub readahead_wasted: u64,
    /// Bytes of metadata.
    pub metadata: usize,
    /// The time of a hit in nanoseconds, one of 64 measured.
    pub hit_time: Histogram,
    /// The time of a miss in nanoseconds.
    pub miss_time: Histogram,
    /// The policy's state, each figure under its name.
    pub policy_state: BTreeMap<String, f64>,
}

/// A volume's figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct VolumeReport {
    /// Its name.
    pub name: String,
    /// The cache it is behind.
    pub cache: String,
    /// Its bytes.
    pub size: u64,
    /// What it has of the cache, if it has a share of it.
    pub share: Option<ShareReport>,
    /// Dirty pages.
    pub dirty: u64,
    /// References that found their page resident.
    pub hits: u64,
    /// References that did not.
    pub misses: u64,
    /// Pages read ahead.
    pub pages_read_ahead: u64,
    /// Pages read ahead that were used.
    pub readahead_used: u64,
    /// Pages written back.
    pub pages_written_back: u64,
    /// Pages whose writeback failed; they stay dirty.
    pub failed_writebacks: u64,
    /// What clients asked for.
    pub clients: ClientReport,
    /// What its device was asked for.
    pub device: DeviceReport,
}

/// What a volume has of a cache, in bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct ShareReport {
    /// Others leave it so much when it needs it.
    pub min: u64,
    /// It never has more.
    pub max: u64,
    /// It has so much now.
    pub resident: u64,
}

/// What clients asked of a volume.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ClientReport {
    /// Connections that have chosen it.
    pub connections: u64,
    /// Requests by command.
    pub requests: BTreeMap<String, u64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests answered without waiting.
    pub immediate: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

/// What a volume's device was asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct DeviceReport {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The lengths of requests in bytes.
    pub request_lengths: Histogram,
    /// The time of a read in nanoseconds.
    pub read_time: Histogram,
    /// The time of a write in nanoseconds.
    pub write_time: Histogram,
}

/// Values counted by powers of two: bucket `i` holds those below 2^i, and not below 2^(i - 1).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// How many values are in each bucket; those behind the last are empty.
    pub buckets: Vec<u64>,
    /// The sum of all values.
    pub sum: u64,
}

impl From<Distribution> for Histogram {
    fn from(Distribution { mut buckets, sum }: Distribution) -> Self {
        buckets.truncate(buckets.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1));
        Self { buckets, sum }
    }
}

impl Histogram {
    /// The values that came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { buckets, sum: self.sum.saturating_sub(before.sum) }
    }

    /// A bound that the given share of the values does not exceed, within a factor of two; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        Distribution { buckets: self.buckets.clone(), sum: self.sum }.quantile(share)
    }

    /// The mean; 0 if there are no values.
    pub fn mean(&self) -> f64 {
        let count: u64 = self.buckets.iter().sum();
        if count == 0 { 0.0 } else { self.sum as f64 / count as f64 }
    }
}

impl CacheReport {
    pub(crate) fn new(name: &str, statistics: Statistics) -> Self {
        Self {
            name: name.to_owned(),
            policy: statistics.policy,
            page_size: statistics.page_size,
            capacity: statistics.capacity,
            resident: statistics.resident,
            ghosts: statistics.ghosts,
            dirty: statistics.dirty,
            laundry: statistics.laundry,
            hits: statistics.hits,
            misses: statistics.misses,
            evictions: statistics.evictions,
            rescued: statistics.rescued,
            refused_dirty: statistics.refused_dirty,
            readahead_wasted: statistics.readahead_wasted,
            metadata: statistics.metadata,
            hit_time: statistics.hit_time.into(),
            miss_time: statistics.miss_time.into(),
            policy_state: statistics.policy_state.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

impl VolumeReport {
    pub(crate) fn new(cache: &str, statistics: VolumeStatistics, counts: Counts) -> Self {
        let requests = [
            ("read", counts.reads),
            ("write", counts.writes),
            ("flush", counts.flushes),
            ("trim", counts.trims),
            ("write-zeroes", counts.zeroes),
            ("cache", counts.caches),
            ("block-status", counts.statuses),
        ];
        Self {
            name: statistics.name,
            cache: cache.to_owned(),
            size: statistics.length,
            share: statistics.share.map(|share| ShareReport {
                min: share.min,
                max: share.max,
                resident: share.resident,
            }),
            dirty: statistics.dirty,
            hits: statistics.hits,
            misses: statistics.misses,
            pages_read_ahead: statistics.pages_read_ahead,
            readahead_used: statistics.readahead_used,
            pages_written_back: statistics.pages_written_back,
            failed_writebacks: statistics.failed_writebacks,
            clients: ClientReport {
                connections: counts.connections,
                requests: requests.into_iter().map(|(command, count)| (command.to_owned(), count)).collect(),
                read_bytes: counts.read_bytes,
                written_bytes: counts.written_bytes,
                immediate: counts.immediate,
                errors: counts.errors,
            },
            device: DeviceReport {
                reads: statistics.reads,
                read_bytes: statistics.bytes_read,
                writes: statistics.writes,
                written_bytes: statistics.bytes_written,
                flushes: statistics.flushes,
                errors: statistics.errors,
                request_lengths: statistics.request_lengths.into(),
                read_time: statistics.read_time.into(),
                write_time: statistics.write_time.into(),
            },
        }
    }
}
