//! What is below the last level.

use crate::device::{Cost, Device, Model};
use forebay_policy::{Place, Reference};

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
    device: Option<Device>,
    /// The next miss is the first of a user's request.
    first: bool,
    /// Adjacent pages to be written for which nobody waits: where they begin, and how many they are.
    writebacks: Option<(Place, u64)>,
}

impl Disk {
    pub(super) fn new(model: Option<&Model>, page_size: u64) -> Self {
        let device = model.map(|model| Device::new(model, page_size));
        Self { reads: 0, writes: 0, device, first: true, writebacks: None }
    }

    /// What it all cost, spread over so many references.
    pub(super) fn cost(mut self, references: u64) -> Option<Cost> {
        self.write_back();
        self.device.as_mut().map(|device| device.cost(references))
    }

    fn miss(&mut self, place: Place, write: bool) {
        if let Some(device) = &mut self.device {
            device.miss(place, std::mem::take(&mut self.first), write);
        }
    }

    /// Makes the request of the writebacks.
    fn write_back(&mut self) {
        if let (Some(device), Some((place, pages))) = (&mut self.device, self.writebacks.take()) {
            device.write_back(place, pages);
        }
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
            return self.miss(reference.place, true);
        }
        if self.device.is_none() {
            return;
        }
        match &mut self.writebacks {
            Some((first, pages)) if *first == before(reference.place, *pages) => *pages += 1,
            _ => {
                self.write_back();
                self.writebacks = Some((reference.place, 1));
            }
        }
    }
}

/// The place so many pages before another.
fn before(place: Place, pages: u64) -> Place {
    Place { block: place.block.wrapping_sub(pages), ..place }
}
