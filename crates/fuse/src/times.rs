//! When a file was written: by its user, not by the writeback that comes later.

use rustix::fs::{Statx, StatxTimestamp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

    pub(crate) fn system_time(self) -> SystemTime {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = if self.seconds < 0 { UNIX_EPOCH - seconds } else { UNIX_EPOCH + seconds };
        whole + Duration::from_nanos(self.nanoseconds.into())
    }

    /// The time that a request names. Of one before 1970 the library takes the nanoseconds away that it should add.
    pub(crate) fn of_request(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                Self { seconds: -(before.as_secs() as i64), nanoseconds: before.subsec_nanos() }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        let stamp = Stamp { seconds: -2, nanoseconds: 500_000_000 };
        assert_eq!(stamp.system_time(), UNIX_EPOCH - Duration::from_millis(1500));
        // What the library makes of -2 s and half a second.
        let decoded = UNIX_EPOCH - Duration::new(2, 500_000_000);
        assert_eq!(Stamp::of_request(decoded), stamp);
        let after = Stamp { seconds: 7, nanoseconds: 9 };
        assert_eq!(Stamp::of_request(after.system_time()), after);
    }
}
