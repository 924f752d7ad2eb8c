//! What is below the last level.

use forebay_basis::Place;
use forebay_model::{Cost, Model, SimulatedDevice};
use forebay_policy::Reference;

/// Where the last level's misses and writes go.
pub(super) trait Storage {
    /// A user's request begins.
    fn start_request(&mut self) {}

    /// A page is read, for a reference that waits.
    fn read(&mut self, reference: &Reference);

    /// A page is written; `waits` says whether a reference waits for it.
    fn write(&mut self, reference: &Reference, waits: bool);
}

/// Counts, and a device if there is one.
pub(super) struct Disk {
    pub(super) reads: u64,
    pub(super) writes: u64,
    device: Option<SimulatedDevice>,
    /// The next miss is the first of a user's request.
    first: bool,
    /// Pages to be written for which nobody waits.
    writebacks: Vec<Place>,
}

impl Disk {
    pub(super) fn new(model: Option<&Model>, page_size: u64) -> Self {
        let device = model.map(|model| SimulatedDevice::new(model, page_size));
        Self { reads: 0, writes: 0, device, first: true, writebacks: Vec::new() }
    }

    /// What it all cost, spread over this many references.
    pub(super) fn cost(mut self, references: u64) -> Option<Cost> {
        self.write_back();
        self.device.as_mut().map(|device| device.cost(references))
    }

    fn miss(&mut self, place: Place, write: bool) {
        if let Some(device) = &mut self.device {
            device.miss(place, std::mem::take(&mut self.first), write);
        }
    }

    /// Makes requests of the writebacks, of adjacent pages one, after what was waited for.
    fn write_back(&mut self) {
        let (Some(device), false) = (&mut self.device, self.writebacks.is_empty()) else { return };
        device.finish();
        self.writebacks.sort_unstable();
        let adjacent = |a: &Place, b: &Place| a.object == b.object && a.block.checked_add(1) == Some(b.block);
        for pages in self.writebacks.chunk_by(adjacent) {
            device.write_back(pages[0], pages.len() as u64);
        }
        self.writebacks.clear();
    }
}

impl Storage for Disk {
    fn start_request(&mut self) {
        self.write_back();
        self.first = true;
    }

    fn read(&mut self, reference: &Reference) {
        self.reads += 1;
        self.miss(reference.place, false);
    }

    fn write(&mut self, reference: &Reference, waits: bool) {
        self.writes += 1;
        if waits {
            self.miss(reference.place, true);
        } else if self.device.is_some() {
            self.writebacks.push(reference.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_basis::Operation;
    use forebay_model::presets;

    fn at(block: u64) -> Reference {
        let place = Place { object: 0, block };
        Reference { page: block as u32, owner: 0, place, operation: Operation::Write }
    }

    #[test]
    fn writebacks_are_made_by_address_after_the_reads_and_nobody_waits_for_them() {
        let model = presets::named("nvme").unwrap().model();
        let cost = |writebacks: &[u64]| {
            let mut disk = Disk::new(Some(&model), 4096);
            disk.start_request();
            disk.read(&at(100));
            writebacks.iter().for_each(|&block| disk.write(&at(block), false));
            disk.cost(1).unwrap()
        };
        let (read, written) = (cost(&[]), cost(&[8, 3, 7, 9]));
        assert_eq!((read.requests, written.requests), (1, 3));
        assert_eq!((read.bytes, written.bytes), (4096, 5 * 4096));
        assert_eq!(read.wait_mean_ms, written.wait_mean_ms);
        assert!(written.device_ms > read.device_ms);
    }

    #[test]
    fn a_write_sent_through_is_waited_for() {
        let mut disk = Disk::new(Some(&presets::named("nvme").unwrap().model()), 4096);
        disk.start_request();
        disk.write(&at(1), true);
        assert!(disk.cost(1).unwrap().wait_mean_ms > 0.0);
    }
}
