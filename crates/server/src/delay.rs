//! Device models as delays of a real device.

use forebay_model::{Model, SimulatedDevice};
use forebay_pool::device::{Delayed, Device, SystemClock, Timing};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What requests are counted in.
const SECTOR: u64 = 512;

/// The time that a modelled device takes for requests that come one after the other. What it would serve at once, as flash does,
/// it serves one by one: only a disk is as fast as its model.
pub(crate) struct ModelTiming(SimulatedDevice);

impl ModelTiming {
    pub(crate) fn new(model: &Model) -> Self {
        Self(SimulatedDevice::new(model, SECTOR))
    }
}

impl Timing for ModelTiming {
    fn service(&mut self, begin: Duration, offset: u64, length: u64, write: bool) -> Duration {
        self.0.serve_alone(begin, offset, length, write)
    }
}

/// The bytes of the disk that are a file's: its place is by its number, as files made together lie together.
const BYTES_OF_A_FILE: u64 = 16 << 20;

/// A disk that files share: one request at a time, of whichever file.
pub(crate) struct SharedDisk {
    state: Mutex<DiskState>,
    clock: SystemClock,
}

struct DiskState {
    timing: ModelTiming,
    /// When the last request is done.
    free: Duration,
}

/// A file on it.
struct OnDisk {
    disk: Arc<SharedDisk>,
    start: u64,
}

impl SharedDisk {
    pub(crate) fn new(model: &Model) -> Arc<Self> {
        let state = DiskState { timing: ModelTiming::new(model), free: Duration::ZERO };
        Arc::new(Self { state: Mutex::new(state), clock: SystemClock::new() })
    }

    /// A file as slow as if it were on this disk.
    pub(crate) fn delay(self: &Arc<Self>, file: Arc<dyn Device>, number: u64) -> Arc<dyn Device> {
        let start = number.wrapping_mul(BYTES_OF_A_FILE);
        let timing = OnDisk { disk: Arc::clone(self), start };
        Arc::new(Delayed::with_clock(file, Box::new(timing), self.clock))
    }
}

impl Timing for OnDisk {
    fn service(&mut self, begin: Duration, offset: u64, length: u64, write: bool) -> Duration {
        let mut disk = self.disk.state.lock().unwrap_or_else(PoisonError::into_inner);
        let start = disk.free.max(begin);
        disk.free = start + disk.timing.service(start, self.start.wrapping_add(offset), length, write);
        disk.free - begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::presets;

    #[test]
    fn a_disk_takes_longer_for_a_far_request_than_for_the_next_one() {
        let mut disk = ModelTiming::new(&presets::named("nearline").expect("it is a preset").model());
        let mut begin = Duration::from_secs(1);
        let mut take = |offset, length| {
            let time = disk.service(begin, offset, length, false);
            begin += time;
            time
        };
        take(0, 4096);
        let near = take(4096, 4096);
        let far = take(1 << 40, 4096);
        let long = take((1 << 40) + 4096, 16 << 20);
        assert!(far > Duration::from_millis(4) && near < far, "{near:?} near, {far:?} far");
        assert!(long > Duration::from_millis(40), "{long:?} for 16 MiB of about 250 MB a second");
    }

    #[test]
    fn files_on_one_disk_wait_for_each_other() {
        let disk = SharedDisk::new(&presets::named("nearline").expect("it is a preset").model());
        let mut files = [7, 8].map(|number| OnDisk { disk: Arc::clone(&disk), start: number << 24 });
        let begin = Duration::from_secs(1);
        let first = files[0].service(begin, 0, 4096, false);
        let second = files[1].service(begin, 0, 4096, false);
        assert!(second > first + Duration::from_millis(1), "{second:?} after {first:?}: the head moves once more");
    }
}
