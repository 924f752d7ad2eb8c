//! How long a device takes for the misses of a run.

use forebay_policy::Place;

/// The disk of DULO's Table I: each request costs an average seek and an average rotation, and transfer nothing.
///
/// A fetch that does not follow the one before it on the disk is a new request; one that does belongs to the same request, as
/// if it had been read ahead. References that hit in between do not move the head.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    seek: f64,
    rotation: f64,
    /// The place behind the last fetch.
    head: Option<Place>,
    requests: u64,
}

impl Default for Disk {
    /// The Hitachi Ultrastar 18ZX of 10,000 revolutions a minute: a seek of 6.5 ms, a rotation of 3.0 ms.
    fn default() -> Self {
        Self::new(6.5, 3.0)
    }
}

impl Disk {
    /// A disk with this average seek and rotation in milliseconds.
    pub fn new(seek: f64, rotation: f64) -> Self {
        Self { seek, rotation, head: None, requests: 0 }
    }

    /// How many requests the fetches made.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// A page that is not resident is fetched.
    pub fn fetch(&mut self, place: Place) {
        self.requests += u64::from(self.head != Some(place));
        self.head = place.block.checked_add(1).map(|block| Place { block, ..place });
    }

    /// The requests so far are not counted.
    pub fn start_counting(&mut self) {
        self.requests = 0;
    }

    /// The time that the fetches so far have taken.
    pub fn milliseconds(&self) -> f64 {
        self.requests as f64 * (self.seek + self.rotation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fetched_in_a_row_are_one_request() {
        let mut disk = Disk::default();
        let mut after = |object, block| {
            disk.fetch(Place { object, block });
            disk.milliseconds()
        };
        assert_eq!([after(0, 5), after(0, 6), after(0, 7)], [9.5, 9.5, 9.5]);
        // A block left out, a block again, a block of another object.
        assert_eq!([after(0, 9), after(0, 9), after(1, 10)], [19.0, 28.5, 38.0]);
        assert_eq!([after(0, u64::MAX), after(0, 0)], [47.5, 57.0]);
    }
}
