//! The figures of a server at one moment: what `/statistics` answers as JSON, and `/metrics` in Prometheus' words. What each of them
//! means is declared where it is counted: in the pool's `stats`, the protocol's `counters` and `forebay_figures::clients`.

mod http;
mod metrics;
pub(crate) mod page;

use crate::paging::figures::MemoryReport;
use crate::steering::figures::PageCacheReport;
use forebay_nbd::{Counts, ServerCounts};
use forebay_owning::Counts as ManagerCounts;
use forebay_pool::{Statistics, VolumeStatistics};
use serde::{Deserialize, Serialize};

/// A server's figures; counts are since it started.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// Its connections.
    #[serde(flatten)]
    pub connections: ServerCounts,
    /// References recorded, if they are.
    pub recorded: Option<u64>,
    /// References that came too fast to be recorded.
    pub record_lost: Option<u64>,
    /// What managers of programs' own have done, if they are let in.
    pub managers: Option<ManagerCounts>,
    /// The kernel's page cache, if that is steered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheReport>,
    /// The memory of programs, if that is steered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryReport>,
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
    /// What its pool counts; volumes are beside the caches.
    #[serde(flatten)]
    pub pool: Statistics,
}

/// A volume's figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct VolumeReport {
    /// The cache it is behind.
    pub cache: String,
    /// What its pool counts.
    #[serde(flatten)]
    pub pool: VolumeStatistics,
    /// What clients asked for.
    pub clients: Counts,
}
