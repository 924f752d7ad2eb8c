//! When a file was written: by its user, not by the writeback that comes later.

use rustix::fs::{Statx, StatxTimestamp};

/// A time as the file system keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

impl Stamp {
    pub(crate) fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
    }
}

impl From<StatxTimestamp> for Stamp {
    fn from(time: StatxTimestamp) -> Self {
        Self { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

/// Size and times of a file below, by which a change from outside is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) size: u64,
    pub(crate) modified: Stamp,
    pub(crate) changed: Stamp,
}

impl From<&Statx> for Seen {
    fn from(found: &Statx) -> Self {
        Self { size: found.stx_size, modified: found.stx_mtime.into(), changed: found.stx_ctime.into() }
    }
}

/// The times of a file that has been written through the cache. The file below gets others with each writeback: so these are shown
/// instead, and the time of modification below is put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) modified: Stamp,
    pub(crate) changed: Stamp,
}
