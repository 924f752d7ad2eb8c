//! A delay like a disk's: one request at a time holds it.

use super::pieces::{total, within, writable};
use super::{Clock, Device, Extent, Reserved, Space, SystemClock};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Mutex;
use std::time::Duration;

/// How long a device takes.
pub trait Timing: Send {
    /// The time for a request that begins at `begin`, told in that order: the device was idle between the end of the request
    /// before and then, in which a disk turns and reads ahead.
    fn service(&mut self, begin: Duration, offset: u64, length: u64, write: bool) -> Duration;
}

/// A device that answers no earlier than a disk would. Requests wait for each other in the order in which they are
/// made, each for the end of the one before and its own service; trims and flushes cost nothing.
pub struct Delayed<D, C = SystemClock> {
    device: D,
    queue: Mutex<Queue>,
    clock: C,
}

struct Queue {
    timing: Box<dyn Timing>,
    /// When the last request is done.
    free: Duration,
}

impl<D: Device> Delayed<D> {
    /// The device, delayed by the machine's clock.
    pub fn new(device: D, timing: Box<dyn Timing>) -> Self {
        Self::with_clock(device, timing, SystemClock::new())
    }
}

impl<D: Device, C: Clock> Delayed<D, C> {
    /// The device, delayed by a clock.
    pub fn with_clock(device: D, timing: Box<dyn Timing>, clock: C) -> Self {
        Self { device, queue: Mutex::new(Queue { timing, free: Duration::ZERO }), clock }
    }

    /// When a request made now is done.
    fn done(&self, offset: u64, length: u64, write: bool) -> Duration {
        let mut queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let begin = queue.free.max(self.clock.now());
        queue.free = begin + queue.timing.service(begin, offset, length, write);
        queue.free
    }

    /// Makes a request, and answers when it is done: the time the device itself takes is part of the delay.
    fn delayed<T>(&self, done: Duration, request: impl FnOnce(&D) -> T) -> T {
        let answer = request(&self.device);
        self.clock.sleep_until(done);
        answer
    }

    /// When all requests of a batch are done.
    fn all_done(&self, requests: impl Iterator<Item = (u64, u64)>, write: bool) -> Duration {
        requests.map(|(offset, length)| self.done(offset, length, write)).last().unwrap_or_default()
    }
}

impl<D: Device, C: Clock> Device for Delayed<D, C> {
    forward!(self => self.device; len measure read_only describe set_len extents flush trim spaces reserve);

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        self.delayed(self.done(offset, length, false), |device| device.read(offset, buffers))
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        writable(self, offset, length)?;
        self.delayed(self.done(offset, length, true), |device| device.write(offset, buffers))
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let done = self.all_done(runs.iter().map(|(offset, run)| (*offset, run.len() as u64)), false);
        self.delayed(done, |device| device.read_many(runs))
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let done = self.all_done(runs.iter().map(|(offset, run)| (*offset, run.len() as u64)), true);
        self.delayed(done, |device| device.write_many(runs))
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        writable(self, offset, length)?;
        self.delayed(self.done(offset, length, true), |device| device.write_zeroes(offset, length, allocate))
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::super::clock::StillClock;
    use super::*;

    /// A byte a microsecond, and writes a millisecond more.
    struct Slow;

    impl Timing for Slow {
        fn service(&mut self, _begin: Duration, _offset: u64, length: u64, write: bool) -> Duration {
            Duration::from_micros(length) + Duration::from_millis(u64::from(write))
        }
    }

    #[test]
    fn requests_wait_for_each_other_and_for_the_service() {
        let device = Delayed::with_clock(MemoryDevice::new(1 << 20), Box::new(Slow), StillClock::default());
        let micros = || device.clock.now().as_micros();
        device.write(0, &[IoSlice::new(&[1; 500])]).expect("it lies on the device");
        assert_eq!(micros(), 1_500);
        let mut room = [0; 500];
        device.read(0, &mut [IoSliceMut::new(&mut room)]).expect("it lies on the device");
        assert_eq!((micros(), room[499]), (2_000, 1));
        device.clock.sleep_until(Duration::from_millis(10));
        let runs = [(0, IoSlice::new(&[2; 100])), (4096, IoSlice::new(&[3; 200]))];
        assert!(device.write_many(&runs).iter().all(Result::is_ok));
        assert_eq!(micros(), 12_300, "the idle time is past, and the runs are served one after the other");
        device.read(1 << 20, &mut [IoSliceMut::new(&mut room)]).expect_err("behind the end");
        assert_eq!(micros(), 12_300, "what the device refuses takes no time");
    }
}
