//! Device models as delays of a real device.

use forebay_model::{Model, SimulatedDevice};
use forebay_policy::Place;
use forebay_pool::device::Timing;
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
        let begin_ms = begin.as_secs_f64() * 1e3;
        self.0.think((begin_ms - self.0.now_ms()).max(0.0));
        let mut first = true;
        for block in offset / SECTOR..(offset + length).div_ceil(SECTOR) {
            self.0.miss(Place { object: 0, block }, first, write);
            first = false;
        }
        self.0.finish();
        Duration::from_secs_f64((self.0.now_ms() - begin_ms).max(0.0) / 1e3)
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
}
