//! What a run's misses and readahead cost on a device, if there is one.

use crate::input::places::Places;
use forebay_basis::Place;
use forebay_model::{Cost, Model, SimulatedDevice};

/// A run's device, and how far its program is.
pub(crate) struct DeviceTime {
    device: Option<SimulatedDevice>,
    think_ms: f64,
    /// How many references came before the present request, and before the device's time was set last.
    arrival: u64,
    thought: u64,
    /// Whether the present request has asked for anything, and whether it writes.
    asked: bool,
    write: bool,
}

impl DeviceTime {
    pub(crate) fn new(model: Option<&Model>, think_ms: f64, page_size: u64) -> Self {
        let device = model.map(|model| SimulatedDevice::new(model, page_size));
        Self { device, think_ms, arrival: 0, thought: 0, asked: false, write: false }
    }

    /// Whether there is a device.
    pub(crate) fn is_some(&self) -> bool {
        self.device.is_some()
    }

    /// The warm-up is over: costs start at 0, but what the device knows of the past stays.
    pub(crate) fn start_counting(&mut self) {
        self.device.iter_mut().for_each(SimulatedDevice::start_counting);
    }

    /// What it all cost, spread over this many references.
    pub(crate) fn cost(self, references: u64) -> Option<Cost> {
        self.device.map(|mut device| device.cost(references))
    }

    /// The page is going to be referenced soon: where it is will be asked if it misses.
    #[inline]
    pub(crate) fn prefetch(&self, places: &Places, page: u32) {
        if self.device.is_some() {
            places.prefetch(page);
        }
    }

    /// A request begins after this many references.
    #[inline]
    pub(crate) fn begin_request(&mut self, arrival: u64, write: bool) {
        (self.arrival, self.write, self.asked) = (arrival, write, false);
    }

    /// The present request is about to ask for something: those before it have been waited for, and the program has thought
    /// since. Says whether it is the first time.
    fn ask(&mut self) -> bool {
        let first = !std::mem::replace(&mut self.asked, true);
        if first && let Some(device) = &mut self.device {
            device.think((self.arrival - self.thought) as f64 * self.think_ms);
            self.thought = self.arrival;
        }
        first
    }

    /// The page at a place misses.
    #[inline]
    pub(crate) fn miss(&mut self, place: Place) {
        let first = self.ask();
        if let Some(device) = &mut self.device {
            device.miss(place, first, self.write);
        }
    }

    /// What is asked for next is a request of its own, even if it lies right behind.
    pub(crate) fn end_run(&mut self) {
        self.device.iter_mut().for_each(SimulatedDevice::end_run);
    }

    /// Has pages read ahead; the answer is the number by which they are [`need`](Self::need)ed.
    pub(crate) fn read_ahead(&mut self, place: Place, pages: u64) -> u64 {
        self.ask();
        self.device.as_mut().map_or(0, |device| device.read_ahead(place, pages))
    }

    /// A page that was read ahead under that number is referenced; whether it is late.
    pub(crate) fn need(&mut self, number: u64) -> bool {
        self.ask();
        self.device.as_mut().is_some_and(|device| device.need(number))
    }
}
