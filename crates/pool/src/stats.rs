//! What the pool counts.

use forebay_figures::{Distribution, Histogram, Total, figures};
use std::collections::BTreeMap;
use std::sync::Arc;

figures! {
    /// What a pool has done since it was made.
    pub struct Statistics {
        /// The policy, as the user named it.
        policy: String;
        /// The bytes of a page.
        page_size: u32, Bytes "cache_page";
        /// The bytes of all frames.
        capacity: u64, Bytes "cache_capacity";
        /// The frames that the policy has.
        #[serde(skip)]
        policy_frames: u32;
        /// Pages that are resident.
        resident: u32, Level "cache_resident_pages";
        /// Ghosts that the policy remembers.
        ghosts: u32, Level "cache_ghosts";
        /// Pages that are dirty, those of the laundry included.
        dirty: u64, Level "cache_dirty_pages";
        /// Pages evicted by the policy that are still to be written.
        laundry: u32, Level "cache_laundry_pages";
        /// References that found their page resident, used before or read ahead; the latter are the volumes' `readahead_used`.
        hits: u64, Count "cache_hits";
        /// References that did not find their page resident.
        misses: u64, Count "cache_misses";
        /// Misses whose page was still in the laundry: without a read.
        rescued: u64, Count "cache_rescued";
        /// Pages that the policy evicted.
        evictions: u64, Count "cache_evictions";
        /// Victims refused because they were dirty.
        refused_dirty: u64, Count "cache_refused_dirty";
        /// Pages read ahead and evicted unused.
        readahead_wasted: u64, Count "cache_readahead_wasted";
        /// Panics of the policy: from the first on the cache goes on under CLOCK, until the policy is restarted.
        policy_panics: u64, Count "cache_policy_panics";
        /// The bytes of metadata: the policy's, and the pages' and page table's.
        metadata: usize, Bytes "cache_metadata";
        /// The time of a hit, one of 64 reads measured, in nanoseconds.
        hit_time: Distribution, Times "cache_hit_time";
        /// The time of a miss in nanoseconds.
        miss_time: Distribution, Times "cache_miss_time";
        /// The policy's state, each figure under its name.
        policy_state: BTreeMap<String, f64>;
        /// What happened on each volume that is counted by itself.
        #[serde(skip)]
        volumes: Vec<VolumeStatistics>;
    }
}

impl Statistics {
    /// Hits by references.
    pub fn hit_ratio(&self) -> f64 {
        let references = self.hits + self.misses;
        if references == 0 { 0.0 } else { self.hits as f64 / references as f64 }
    }
}

figures! {
    /// What a volume, or several together, have of a cache, in bytes.
    #[derive(Copy)]
    pub struct ShareStatistics {
        /// What others leave to it when it needs that.
        min: u64, Bytes "volume_share" figure="min";
        /// What it never exceeds.
        max: u64, Bytes "volume_share" figure="max";
        /// What it has now.
        resident: u64, Bytes "volume_share" figure="resident";
    }
}

figures! {
    /// What happened on a volume.
    pub struct VolumeStatistics counted by pub(crate) VolumeCounters {
        /// Its name.
        name: String;
        /// The bytes of the volume.
        size: u64, Bytes "volume_size";
        /// What it has of the cache, if it has a share of it.
        share: Option<ShareStatistics>;
        /// Pages that are dirty.
        dirty: u64 = Total, Level "volume_dirty_pages";
        /// References that found their page resident, used before or read ahead.
        hits: u64 = Total, Count "volume_hits";
        /// References that did not find their page resident.
        misses: u64 = Total, Count "volume_misses";
        /// Pages read ahead.
        pages_read_ahead: u64 = Total, Count "volume_readahead_pages";
        /// Pages read ahead that were used: this many of the hits are thanks to readahead.
        readahead_used: u64 = Total, Count "volume_readahead_used";
        /// Pages written back.
        pages_written_back: u64 = Total, Count "volume_writeback_pages";
        /// Pages whose writeback failed; they stay dirty.
        failed_writebacks: u64 = Total, Count "volume_writeback_failures";
        /// What its device was asked.
        device: DeviceStatistics = DeviceCounters;
    }
}

/// A group of volumes that are counted together ([`Pool::count_together`](crate::Pool::count_together)), and may have a share of the cache together
/// ([`Pool::share_together`](crate::Pool::share_together)).
#[derive(Clone, Debug)]
pub struct Together {
    pub(crate) counters: Arc<VolumeCounters>,
    /// The number of their share.
    pub(crate) share: Option<u32>,
}

impl Together {
    /// What has happened on them, also on those that have been detached. They have no name and no size; what they have of a share is the pool's to
    /// say ([`Pool::share_of`](crate::Pool::share_of)).
    pub fn statistics(&self) -> VolumeStatistics {
        self.counters.read()
    }
}

figures! {
    /// What a device was asked.
    pub struct DeviceStatistics counted by pub(crate) DeviceCounters {
        /// Reads from the device.
        reads: u64 = Total, Count "device_requests" operation="read";
        /// Writes to the device.
        writes: u64 = Total, Count "device_requests" operation="write";
        /// Flushes of the device.
        flushes: u64 = Total, Count "device_requests" operation="flush";
        /// Bytes read from the device.
        read_bytes: u64 = Total, Count "device_bytes" operation="read";
        /// Bytes written to the device.
        written_bytes: u64 = Total, Count "device_bytes" operation="write";
        /// Requests to the device that failed.
        errors: u64 = Total, Count "device_errors";
        /// The lengths of requests to the device in bytes.
        request_lengths: Distribution = Histogram, Lengths "device_request_length";
        /// The time of a read from the device in nanoseconds.
        read_time: Distribution = Histogram, Times "device_request_time" operation="read";
        /// The time of a write to the device in nanoseconds.
        write_time: Distribution = Histogram, Times "device_request_time" operation="write";
    }
}
