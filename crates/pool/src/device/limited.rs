//! A limit on bytes and requests a second.

use super::pieces::total;
use super::{Clock, Device, Extent, Reserved, Space, SystemClock};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a device may do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bytes read and written a second; none: as many as come.
    pub bytes_per_second: Option<u64>,
    /// Requests a second; none: as many as come.
    pub requests_per_second: Option<u64>,
    /// How much of unused time may be caught up on at once: the depth of the token bucket, in time.
    pub burst: Duration,
}

/// A device behind a token bucket for bytes and one for requests. A request that both buckets can pay begins at once; else it waits,
/// and those after it wait longer. One longer than a bucket is deep goes when the bucket has paid for it.
pub struct Limited<D, C = SystemClock> {
    device: D,
    buckets: Mutex<Buckets>,
    clock: C,
}

struct Buckets {
    limits: Limits,
    /// How often the limits have been changed.
    changes: u64,
    /// Until when the bytes, and the requests, made so far take up the device. A bucket is full when this is `burst` ago.
    spent: (Duration, Duration),
}

/// How long a request that waits may not notice that the limits have been changed.
const LOOK: Duration = Duration::from_millis(100);

impl<D: Device> Limited<D> {
    /// The device, limited by the machine's clock.
    ///
    /// # Errors
    /// A limit is 0, which nothing could ever meet.
    pub fn new(device: D, limits: Limits) -> io::Result<Self> {
        Self::with_clock(device, limits, SystemClock::new())
    }
}

impl<D: Device, C: Clock> Limited<D, C> {
    /// The device, limited by a clock.
    ///
    /// # Errors
    /// A limit is 0, which nothing could ever meet.
    pub fn with_clock(device: D, limits: Limits, clock: C) -> io::Result<Self> {
        limits.check()?;
        // Nothing is saved up at first.
        let now = clock.now();
        Ok(Self { device, buckets: Mutex::new(Buckets { limits, changes: 0, spent: (now, now) }), clock })
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.buckets().limits
    }

    /// Changes the limits; requests that wait for the ones before go on.
    ///
    /// # Errors
    /// A limit is 0; those before stay in force.
    pub fn set_limits(&self, limits: Limits) -> io::Result<()> {
        limits.check()?;
        let now = self.clock.now();
        let mut buckets = self.buckets();
        *buckets = Buckets { limits, changes: buckets.changes + 1, spent: (now, now) };
        Ok(())
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this many requests of this many bytes together may go.
    fn pay(&self, requests: u64, bytes: u64) {
        let time = |count: u64, rate: Option<u64>| match rate {
            None => Duration::ZERO,
            Some(rate) => {
                Duration::from_secs(count / rate) + Duration::from_secs_f64((count % rate) as f64 / rate as f64)
            }
        };
        let (go, changes) = {
            let mut buckets = self.buckets();
            let Limits { bytes_per_second, requests_per_second, burst } = buckets.limits;
            if bytes_per_second.or(requests_per_second).is_none() {
                return;
            }
            let full = self.clock.now().saturating_sub(burst);
            let spent = &mut buckets.spent;
            spent.0 = spent.0.max(full) + time(bytes, bytes_per_second);
            spent.1 = spent.1.max(full) + time(requests, requests_per_second);
            (spent.0.max(spent.1), buckets.changes)
        };
        while self.clock.now() + LOOK < go {
            self.clock.sleep_until(self.clock.now() + LOOK);
            if self.buckets().changes != changes {
                return;
            }
        }
        self.clock.sleep_until(go);
    }
}

impl Limits {
    fn check(&self) -> io::Result<()> {
        if self.bytes_per_second == Some(0) || self.requests_per_second == Some(0) {
            let message = "a limit of 0 a second: give at least 1, or no limit";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

fn lengths<T: std::ops::Deref<Target = [u8]>>(runs: &[(u64, T)]) -> u64 {
    runs.iter().map(|(_, run)| run.len() as u64).sum()
}

impl<D: Device, C: Clock> Device for Limited<D, C> {
    // That zeroes are fast stays true: they pay for a request, and not for their bytes.
    forward!(self => self.device; len measure read_only describe set_len extents zeroes_fast spaces reserve);

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        self.pay(1, total(buffers));
        self.device.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.pay(1, total(buffers));
        self.device.write(offset, buffers)
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        self.pay(runs.len() as u64, lengths(runs));
        self.device.read_many(runs)
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        self.pay(runs.len() as u64, lengths(runs));
        self.device.write_many(runs)
    }

    fn flush(&self) -> io::Result<()> {
        self.pay(1, 0);
        self.device.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.pay(1, 0);
        self.device.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.pay(1, 0);
        self.device.write_zeroes(offset, length, allocate)
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::super::clock::StillClock;
    use super::*;

    fn limited(bytes: Option<u64>, requests: Option<u64>, burst: Duration) -> Limited<MemoryDevice, StillClock> {
        let limits = Limits { bytes_per_second: bytes, requests_per_second: requests, burst };
        let clock = StillClock::default();
        clock.sleep_until(Duration::from_secs(100));
        Limited::with_clock(MemoryDevice::new(1 << 20), limits, clock).expect("no limit is 0")
    }

    fn write(device: &impl Device, length: usize) {
        device.write(0, &[IoSlice::new(&vec![1; length])]).expect("it lies on the device");
    }

    #[test]
    fn bytes_and_requests_take_their_time_and_the_slower_counts() {
        let device = limited(Some(1_000), Some(10), Duration::ZERO);
        let ms = || device.clock.now().as_millis() - 100_000;
        write(&device, 500);
        assert_eq!(ms(), 500, "half a second's bytes");
        write(&device, 10);
        assert_eq!(ms(), 600, "a tenth of a second's requests");
        device.clock.sleep_until(Duration::from_secs(200));
        write(&device, 500);
        assert_eq!(ms(), 100_500, "nothing was saved while it was idle");
    }

    #[test]
    fn a_burst_is_what_was_saved_up() {
        let device = limited(Some(1_000), None, Duration::from_secs(1));
        let ms = || device.clock.now().as_millis() - 100_000;
        device.clock.sleep_until(Duration::from_secs(200));
        write(&device, 600);
        write(&device, 400);
        assert_eq!(ms(), 100_000, "a second's bytes at once");
        write(&device, 100);
        assert_eq!(ms(), 100_100);
    }

    #[test]
    fn limits_change_and_who_waits_for_the_old_ones_goes_on() {
        let device = std::sync::Arc::new(
            Limited::new(
                MemoryDevice::new(1 << 20),
                Limits { bytes_per_second: Some(1), requests_per_second: None, burst: Duration::ZERO },
            )
            .expect("no limit is 0"),
        );
        let (done, ended) = std::sync::mpsc::channel();
        let writing = std::sync::Arc::clone(&device);
        std::thread::spawn(move || {
            write(&*writing, 100_000);
            done.send(()).expect("the test waits");
        });
        while device.buckets().spent.0 < Duration::from_secs(1000) {
            std::thread::yield_now();
        }
        assert!(device.set_limits(Limits { bytes_per_second: Some(0), ..Limits::default() }).is_err());
        assert_eq!(device.limits().bytes_per_second, Some(1));
        device.set_limits(Limits::default()).expect("no limit is 0");
        ended.recv_timeout(Duration::from_secs(30)).expect("a write that waited for a day's rate goes on");
        write(&*device, 100_000);
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let limits = Limits { bytes_per_second: Some(0), ..Limits::default() };
        assert!(Limited::new(MemoryDevice::new(1), limits).is_err());
    }
}
