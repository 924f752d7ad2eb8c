//! A bound on the time of requests: one that its device does not answer in time fails, and goes on behind its caller's back.
//!
//! Each request runs on a thread of this device, with a buffer of its own: what comes too late reaches no memory that is used for
//! something else by then. A change (write, flush, trim, zeroes) that has failed so may still take effect. Until it has ended, no other
//! change is begun: what it writes late could come after what is newer. Nor are its bytes read: who caches what they were would keep it
//! after the device has changed them. Such reads wait for it up to the limit; those of other bytes go on.

use super::{Device, Extent, Reserved, Space};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most requests under way at a time, those that hang among them.
const MOST_THREADS: usize = 64;

/// Buffers begin at multiples of this, so that transfers can bypass the page cache.
const ALIGNED: usize = 4096;

/// A device whose requests end in time.
pub struct Bounded {
    device: Arc<dyn Device>,
    limit: Duration,
    queue: Arc<Queue>,
}

type Request = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    work: Mutex<Work>,
    more: Condvar,
    /// A change has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<(u64, Request)>,
    /// Changes that wait or are under way.
    changes: BTreeMap<u64, Change>,
    next: u64,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Change {
    /// The bytes that it changes: none if it is a flush.
    ranges: Vec<Range<u64>>,
    /// Its caller has gone.
    late: bool,
}

/// What a request does with which bytes of the device.
enum Access {
    Read(Vec<Range<u64>>),
    Change(Vec<Range<u64>>),
}

impl Bounded {
    /// The device; a request fails after `limit`.
    pub fn new(device: Arc<dyn Device>, limit: Duration) -> Self {
        Self { device, limit, queue: Arc::default() }
    }

    fn late(&self, what: &str) -> io::Error {
        let message = format!("{} {what} for {:?}: it hangs", self.device.describe(), self.limit);
        io::Error::new(io::ErrorKind::TimedOut, message)
    }

    /// Has a request made by a thread, and waits for its answer in bounded time.
    fn ask<T: Send + 'static>(
        &self,
        access: Access,
        request: impl FnOnce(&dyn Device) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = sync_channel(1);
        let (device, queue) = (Arc::clone(&self.device), Arc::clone(&self.queue));
        let begun = Instant::now();
        let left = || self.limit.saturating_sub(begun.elapsed());
        let mut work = self.queue.lock();
        let number = work.next;
        work.next += 1;
        match access {
            Access::Read(ranges) => {
                let waited = self.queue.ended.wait_timeout_while(work, left(), |work| work.late_change_of(&ranges));
                work = waited.unwrap_or_else(PoisonError::into_inner).0;
                if work.late_change_of(&ranges) {
                    return Err(self.late("has not ended a change of these bytes begun before"));
                }
            }
            Access::Change(_) if work.changes.values().any(|change| change.late) => {
                return Err(self.late("has not ended a change begun before"));
            }
            Access::Change(ranges) => drop(work.changes.insert(number, Change { ranges, late: false })),
        }
        let request = move || {
            let result = request(&*device);
            if queue.lock().changes.remove(&number).is_some() {
                queue.ended.notify_all();
            }
            // The caller may have gone.
            let _ = answer.send(result);
        };
        work.waiting.push_back((number, Box::new(request)));
        if work.waiting.len() <= work.idle {
            self.queue.more.notify_one();
        } else if work.threads < MOST_THREADS {
            let queue = Arc::clone(&self.queue);
            let thread = std::thread::Builder::new().name("device".to_owned()).spawn(move || queue.serve());
            match thread {
                Ok(_) => work.threads += 1,
                Err(error) if work.threads == 0 => {
                    work.forget(number);
                    return Err(error);
                }
                // Those there are will come to it.
                Err(_) => {}
            }
        }
        drop(work);
        answered.recv_timeout(left()).map_err(|_| {
            let mut work = self.queue.lock();
            if !work.forget(number)
                && let Some(change) = work.changes.get_mut(&number)
            {
                change.late = true;
            }
            self.late("has not answered")
        })
    }
}

impl Work {
    /// Takes a request back that no thread has begun. `false`: one has.
    fn forget(&mut self, number: u64) -> bool {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == number);
        if let Some(place) = place {
            self.waiting.remove(place);
            self.changes.remove(&number);
        }
        place.is_some()
    }

    /// Whether a change whose caller has gone may still reach some of these bytes.
    fn late_change_of(&self, ranges: &[Range<u64>]) -> bool {
        let late = self.changes.values().filter(|change| change.late);
        let mut changed = late.flat_map(|change| &change.ranges);
        changed.any(|change| ranges.iter().any(|range| range.start < change.end && change.start < range.end))
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut work = self.lock();
        while !work.closed {
            let Some((_, request)) = work.waiting.pop_front() else {
                work.idle += 1;
                work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner);
                work.idle -= 1;
                continue;
            };
            drop(work);
            request();
            work = self.lock();
        }
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_all();
    }
}

/// Runs of bytes, each aligned, in memory of a request's own.
struct Runs {
    bytes: Vec<u8>,
    /// Where in the device, and where here.
    places: Vec<(u64, Range<usize>)>,
}

impl Runs {
    fn new(runs: impl Iterator<Item = (u64, usize)>) -> Self {
        let mut at = 0;
        let mut places = Vec::new();
        for (offset, length) in runs {
            places.push((offset, at..at + length));
            at = (at + length).next_multiple_of(ALIGNED);
        }
        let bytes = vec![0; at + ALIGNED];
        let start = bytes.as_ptr().addr().next_multiple_of(ALIGNED) - bytes.as_ptr().addr();
        places.iter_mut().for_each(|(_, place)| *place = place.start + start..place.end + start);
        Self { bytes, places }
    }

    /// The bytes of the device.
    fn ranges(&self) -> Vec<Range<u64>> {
        self.places.iter().map(|(offset, place)| *offset..*offset + place.len() as u64).collect()
    }

    fn read(&mut self, device: &dyn Device) -> Vec<io::Result<()>> {
        let (mut runs, mut rest, mut at) = (Vec::new(), &mut self.bytes[..], 0);
        for (offset, place) in &self.places {
            let (here, behind) = rest.split_at_mut(place.end - at);
            runs.push((*offset, IoSliceMut::new(&mut here[place.start - at..])));
            (rest, at) = (behind, place.end);
        }
        match &mut runs[..] {
            [(offset, run)] => vec![device.read(*offset, &mut [IoSliceMut::new(run)])],
            runs => device.read_many(runs),
        }
    }

    fn write(&self, device: &dyn Device) -> Vec<io::Result<()>> {
        let runs = self.places.iter().map(|(offset, place)| (*offset, IoSlice::new(&self.bytes[place.clone()])));
        match runs.collect::<Vec<_>>()[..] {
            [(offset, run)] => vec![device.write(offset, &[run])],
            ref runs => device.write_many(runs),
        }
    }
}

fn one_range(offset: u64, length: u64) -> Vec<Range<u64>> {
    std::iter::once(offset..offset + length).collect()
}

/// The error of a request for every run of it.
fn for_all(runs: usize, error: &io::Error) -> Vec<io::Result<()>> {
    (0..runs).map(|_| Err(io::Error::new(error.kind(), error.to_string()))).collect()
}

impl Device for Bounded {
    forward!(self => self.device; len measure read_only describe zeroes_fast spaces);

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut runs = Runs::new([(offset, length)].into_iter());
        let (runs, results) = self.ask(Access::Read(runs.ranges()), move |device| {
            let results = runs.read(device);
            (runs, results)
        })?;
        results.into_iter().collect::<io::Result<()>>()?;
        let mut at = runs.places[0].1.start;
        for buffer in buffers {
            let end = at + buffer.len();
            buffer.copy_from_slice(&runs.bytes[at..end]);
            at = end;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut runs = Runs::new([(offset, length)].into_iter());
        let mut at = runs.places[0].1.start;
        for buffer in buffers {
            runs.bytes[at..at + buffer.len()].copy_from_slice(buffer);
            at += buffer.len();
        }
        self.ask(Access::Change(runs.ranges()), move |device| runs.write(device))?.into_iter().collect()
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let mut copies = Runs::new(runs.iter().map(|(offset, run)| (*offset, run.len())));
        let answer = self.ask(Access::Read(copies.ranges()), move |device| {
            let results = copies.read(device);
            (copies, results)
        });
        match answer {
            Ok((copies, results)) => {
                for ((_, run), (_, place)) in runs.iter_mut().zip(&copies.places) {
                    run.copy_from_slice(&copies.bytes[place.clone()]);
                }
                results
            }
            Err(error) => for_all(runs.len(), &error),
        }
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let mut copies = Runs::new(runs.iter().map(|(offset, run)| (*offset, run.len())));
        for ((_, run), (_, place)) in runs.iter().zip(&copies.places) {
            copies.bytes[place.clone()].copy_from_slice(run);
        }
        self.ask(Access::Change(copies.ranges()), move |device| copies.write(device))
            .unwrap_or_else(|error| for_all(runs.len(), &error))
    }

    fn flush(&self) -> io::Result<()> {
        self.ask(Access::Change(Vec::new()), |device| device.flush())?
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let from = length.min(self.device.len());
        self.ask(Access::Change(one_range(from, u64::MAX - from)), move |device| device.set_len(length))?
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.ask(Access::Change(one_range(offset, length)), move |device| device.trim(offset, length))?
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.ask(Access::Change(one_range(offset, length)), move |device| {
            device.write_zeroes(offset, length, allocate)
        })?
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        self.ask(Access::Read(one_range(offset, length)), move |device| device.extents(offset, length))?
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        self.ask(Access::Read(one_range(offset, length)), move |device| device.reserve(offset, length))?
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::{Config, Durability, Pool, VolumeConfig};
    use forebay_policy::Spec;
    use std::sync::mpsc::{Receiver, Sender, channel};

    const PATIENCE: Duration = Duration::from_secs(30);
    const SOON: Duration = Duration::from_millis(500);

    /// A device whose writes and zeroes at 0 wait for a word.
    struct Hanging {
        memory: MemoryDevice,
        go: Mutex<Receiver<()>>,
    }

    impl Hanging {
        fn wait(&self, offset: u64) {
            if offset == 0 {
                self.go.lock().expect("not poisoned").recv_timeout(PATIENCE).expect("the test lets it go on");
            }
        }
    }

    impl Device for Hanging {
        fn len(&self) -> u64 {
            self.memory.len()
        }
        fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
            self.memory.read(offset, buffers)
        }
        fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
            self.wait(offset);
            self.memory.write(offset, buffers)
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
        fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
            self.memory.trim(offset, length)
        }
        fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
            self.wait(offset);
            self.memory.write_zeroes(offset, length, allocate)
        }
        fn describe(&self) -> String {
            "hanging".to_owned()
        }
    }

    fn hanging(limit: Duration) -> (Bounded, Sender<()>) {
        let (go, wait) = channel();
        let device = Hanging { memory: MemoryDevice::new(1 << 20), go: Mutex::new(wait) };
        (Bounded::new(Arc::new(device), limit), go)
    }

    fn read(device: &Bounded, offset: u64) -> u8 {
        let mut byte = [0];
        device.read(offset, &mut [IoSliceMut::new(&mut byte)]).expect("reads do not hang");
        byte[0]
    }

    #[test]
    fn what_is_in_time_is_as_the_device_has_it() {
        let (device, go) = hanging(PATIENCE);
        go.send(()).expect("the device is there");
        device.write(0, &[IoSlice::new(&[1; 700]), IoSlice::new(&[2; 5000])]).expect("in time");
        assert!(
            device
                .write_many(&[(9000, IoSlice::new(&[3; 10])), (20000, IoSlice::new(&[4; 4096]))])
                .iter()
                .all(Result::is_ok)
        );
        let mut buffers = [vec![0; 700], vec![0; 5000], vec![0; 10], vec![0; 4096]];
        let [a, b, c, d] = &mut buffers;
        device.read(0, &mut [IoSliceMut::new(a), IoSliceMut::new(b)]).expect("in time");
        let results = device.read_many(&mut [(9000, IoSliceMut::new(c)), (20000, IoSliceMut::new(d))]);
        assert!(results.iter().all(Result::is_ok));
        for (value, buffer) in (1..).zip(&buffers) {
            assert!(buffer.iter().all(|&byte| byte == value), "{value}");
        }
        device.read((1 << 20) - 1, &mut [IoSliceMut::new(&mut buffers[0])]).expect_err("behind the end");
    }

    #[test]
    fn after_a_write_that_hangs_none_is_begun_until_it_has_ended() {
        let (device, go) = hanging(SOON);
        let error = loop {
            let error = device.write(0, &[IoSlice::new(&[1])]).expect_err("it hangs");
            // One that no thread has begun in time is never made.
            if !device.queue.lock().changes.is_empty() {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("hanging has not answered for 500ms"), "{error}");
        let error = device.write(1, &[IoSlice::new(&[2])]).expect_err("the one before may still be written");
        assert!(error.to_string().contains("a change begun before"), "{error}");
        device.flush().expect_err("what was written is not durable");
        assert_eq!(read(&device, 1), 0, "reads of other bytes go on");
        let error = device.read(0, &mut [IoSliceMut::new(&mut [0])]).expect_err("it may still be changed");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("a change of these bytes"), "{error}");
        go.send(()).expect("the device is there");
        let deadline = Instant::now() + PATIENCE;
        while device.write(1, &[IoSlice::new(&[2])]).is_err() {
            assert!(Instant::now() < deadline, "the write that hung has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((read(&device, 0), read(&device, 1)), (1, 2));
        device.flush().expect("nothing hangs any more");
    }

    #[test]
    fn what_a_late_change_overwrites_is_not_cached_before_it_has_ended() {
        let (device, go) = hanging(SOON);
        let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
        let volume = pool.attach(Arc::new(device), VolumeConfig::new("hanging"));
        let (reader, handle) = (pool.handle().expect("a handle"), pool.handle().expect("a handle"));
        go.send(()).expect("the device is there");
        handle.write_at(&volume, 0, &[7; 8192], Durability::Flush).expect("in time");
        handle.flush(&volume).expect("in time");
        let read = || {
            let mut bytes = [1; 8192];
            reader.read_at(&volume, 0, &mut bytes).map(|()| bytes)
        };
        assert_eq!(read().expect("in the cache"), [7; 8192]);
        let error = handle.write_zeroes(&volume, 0, 8192, false, Durability::Flush).expect_err("it hangs");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(read().expect_err("it may still become zeroes").kind(), io::ErrorKind::TimedOut);
        go.send(()).expect("the device is there");
        let deadline = Instant::now() + PATIENCE;
        while handle.flush(&volume).is_err() {
            assert!(Instant::now() < deadline, "the zeroing has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(read().expect("nothing hangs any more"), [0; 8192]);
    }

    #[test]
    fn a_request_that_no_thread_has_begun_is_never_made() {
        let (device, go) = hanging(Duration::from_millis(500));
        let write = |offset: u64| device.write(offset, &[IoSlice::new(&[offset as u8 + 1])]);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| write(0).expect_err("it hangs"));
            // All but the first wait for its lock, and the last for a thread.
            let others: Vec<_> = (0..MOST_THREADS).map(|_| scope.spawn(|| drop(write(0)))).collect();
            others.into_iter().for_each(|other| other.join().expect("no panic"));
            first.join().expect("no panic");
        });
        let begun = device.queue.lock().changes.len();
        assert!(begun <= MOST_THREADS && device.queue.lock().waiting.is_empty(), "{begun} are under way");
        (0..begun).for_each(|_| go.send(()).expect("the device is there"));
        let deadline = Instant::now() + PATIENCE;
        while !device.queue.lock().changes.is_empty() {
            assert!(Instant::now() < deadline, "all that were begun have ended");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
