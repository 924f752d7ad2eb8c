//! What a hit saves of the device's time, by class, where the device is known: `gain=time`.
//!
//! A miss right behind the miss before comes with it, in one request: it costs a page's transfer. Any other begins a request, which
//! takes the device to its place. How many of a class begin one is counted. So a hit in a long run saves little, and one of a small file all.

use super::detector::Class;
use forebay_basis::{DeviceCost, Place};

/// Counts are halved once they cover this many misses of a class.
const MISSES: f64 = 4096.0;

/// Misses by class.
#[derive(Debug)]
pub(super) struct Costs {
    /// Without it all hits are worth the same.
    device: Option<DeviceCost>,
    missed: [f64; 3],
    /// Those of them that began a request.
    began: [f64; 3],
    /// The last reference, if it missed.
    last: Option<Place>,
}

impl Costs {
    pub(super) fn new(device: Option<DeviceCost>) -> Self {
        Self { device, missed: [1.0; 3], began: [1.0; 3], last: None }
    }

    pub(super) fn hit(&mut self) {
        self.last = None;
    }

    pub(super) fn miss(&mut self, class: Class, place: Place) {
        let follows = self
            .last
            .is_some_and(|Place { object, block }| (object, block.checked_add(1)) == (place.object, Some(place.block)));
        self.last = Some(place);
        let (missed, began) = (&mut self.missed[class as usize], &mut self.began[class as usize]);
        *missed += 1.0;
        *began += f64::from(u8::from(!follows));
        if *missed > MISSES {
            (*missed, *began) = (*missed / 2.0, *began / 2.0);
        }
    }

    /// What a hit of that class is worth.
    pub(super) fn of(&self, class: Class) -> f64 {
        self.device.map_or(1.0, |DeviceCost { request, page, .. }| {
            page + request * self.began[class as usize] / self.missed[class as usize]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_saves_the_part_of_a_request_that_its_kind_of_miss_begins() {
        let mut costs = Costs::new(Some(DeviceCost { request: 8.0, behind: 0.0, page: 0.5 }));
        for block in 0..2_000 {
            // Four blocks in a row, of a request each, and one elsewhere.
            costs.miss(Class::Looping, Place { object: 1, block });
            if block % 4 == 3 {
                costs.miss(Class::Other, Place { object: 2, block: 100 * block });
            }
        }
        assert!((costs.of(Class::Looping) - 2.5).abs() < 0.02 && costs.of(Class::Other) == 8.5);
        // A hit in between ends a request.
        for block in 0..8_000 {
            costs.miss(Class::Looping, Place { object: 3, block });
            costs.hit();
        }
        assert!(costs.of(Class::Looping) > 8.0);
        assert_eq!(Costs::new(None).of(Class::Looping), 1.0);
    }
}
