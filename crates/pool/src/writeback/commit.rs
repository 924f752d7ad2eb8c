//! Group commit: flushes and durable writes of a volume share the work.
//!
//! One round is under way at a time. Who asks meanwhile shares the *next* round, never the one under way: that may have passed by
//! what he wrote. The first of them who finds no round under way leads it, and the others get its result, errors included.

use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::{Pool, Shared};
use crate::sync::{Condvar, Mutex, Ordering, lock};
use std::io;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Volumes that are flushed side by side.
const FLUSHES: usize = 32;

type Outcome = Arc<OnceLock<Result<(), Error>>>;

/// The rounds of a volume.
#[derive(Default)]
pub(crate) struct Commits {
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

#[derive(Default)]
struct Rounds {
    under_way: bool,
    /// Once somebody has asked for it.
    next: Option<Round>,
}

#[derive(Default)]
struct Round {
    /// The bytes that are to be durable when it ends.
    ranges: Vec<Range<u64>>,
    outcome: Outcome,
}

/// Ends a round even if its leader panics, so that nobody waits for it for ever.
struct Leader<'a> {
    volume: &'a Volume,
    outcome: Outcome,
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.outcome.get_or_init(|| {
            let panicked = io::Error::other("the thread that flushed for all has panicked");
            Err(self.volume.failed("flush", 0, self.volume.len(), panicked))
        });
        let commits = &self.volume.commits;
        lock(&commits.rounds).under_way = false;
        commits.ended.notify_all();
    }
}

impl Volume {
    /// Whether a flush of it is under way.
    pub(crate) fn is_flushed(&self) -> bool {
        lock(&self.commits.rounds).under_way
    }
}

impl<M: Memory> Pool<M> {
    /// Makes durable all that was written to any volume before, the volumes side by side.
    ///
    /// # Errors
    /// The first device's error. The other volumes are flushed all the same.
    pub fn flush(&self) -> Result<(), Error> {
        let failed = self.flush_all(self.shared.all_volumes(), None);
        failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The same, and waits for it so long: which volumes are not known to be durable, and why. Those that hang go on behind its back, but
    /// the pool does not wait for them again when it is dropped.
    pub fn flush_within(&self, limit: Duration) -> Vec<(Arc<Volume>, Error)> {
        self.flush_volumes_within(self.shared.all_volumes(), limit)
    }

    /// The same of these volumes alone.
    pub fn flush_volumes_within(&self, volumes: Vec<Arc<Volume>>, limit: Duration) -> Vec<(Arc<Volume>, Error)> {
        self.flush_all(volumes, Instant::now().checked_add(limit))
    }

    pub(crate) fn flush_all(&self, volumes: Vec<Arc<Volume>>, deadline: Option<Instant>) -> Vec<(Arc<Volume>, Error)> {
        let (results, received) = channel();
        let all: Arc<[Arc<Volume>]> = volumes.into();
        let next = Arc::new(AtomicUsize::new(0));
        let flush = || {
            let (all, next, results) = (Arc::clone(&all), Arc::clone(&next), results.clone());
            let shared = Arc::clone(&self.shared);
            move || {
                while let Some((place, volume)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    all.get(place).map(|volume| (place, volume))
                } {
                    // Nobody may listen any more.
                    let _ = results.send((place, shared.flush(volume)));
                }
            }
        };
        // The model checker knows its own threads alone.
        let threads = if cfg!(feature = "model-check") { 0 } else { all.len().min(FLUSHES) };
        let spawn = |_: &usize| std::thread::Builder::new().name("flush".to_owned()).spawn(flush()).is_ok();
        if !(0..threads).all(|thread| spawn(&thread)) || threads == 0 {
            flush()();
        }
        drop(results);
        let mut outcomes: Vec<Option<Result<(), Error>>> = all.iter().map(|_| None).collect();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let received = left.map_or_else(|| received.recv().ok(), |left| received.recv_timeout(left).ok());
            let Some((place, outcome)) = received else { break };
            outcomes[place] = Some(outcome);
        }
        let outcome = |(volume, outcome): (&Arc<Volume>, Option<Result<(), Error>>)| {
            volume.give_up_waiting(outcome.is_none());
            let error = outcome.unwrap_or_else(|| Err(volume.hung("flush"))).err()?;
            Some((Arc::clone(volume), error))
        };
        all.iter().zip(outcomes).filter_map(outcome).collect()
    }
}

impl<M: Memory> Shared<M> {
    /// Makes durable all that was written to the volume before.
    pub(crate) fn flush(&self, volume: &Volume) -> Result<(), Error> {
        self.commit(volume, from_ref(&(0..u64::MAX)))
    }

    /// Makes durable what was written to these bytes before, by a round that begins after this call.
    pub(crate) fn commit(&self, volume: &Volume, ranges: &[Range<u64>]) -> Result<(), Error> {
        let commits = &volume.commits;
        let mut rounds = lock(&commits.rounds);
        let next = rounds.next.get_or_insert_default();
        next.ranges.extend_from_slice(ranges);
        let outcome = Arc::clone(&next.outcome);
        loop {
            if let Some(result) = outcome.get() {
                return result.clone();
            }
            if !rounds.under_way {
                break;
            }
            rounds = commits.ended.wait(rounds).expect("no thread panicked under this lock");
        }
        // No round is under way and this one has not ended: so it is the next.
        rounds.under_way = true;
        let round = rounds.next.take().expect("it has been asked for");
        drop(rounds);
        let leader = Leader { volume, outcome: round.outcome };
        let result = self.make_durable(volume, &round.ranges);
        leader.outcome.get_or_init(|| result).clone()
    }

    fn make_durable(&self, volume: &Volume, ranges: &[Range<u64>]) -> Result<(), Error> {
        let end = volume.len();
        let flush = ranges.iter().any(|range| range.start == 0 && range.end >= end);
        let page_size = u64::from(self.config.page_size);
        let ranges = ranges.iter().filter(|range| !range.is_empty());
        let mut blocks: Vec<_> = ranges.map(|range| range.start / page_size..range.end.div_ceil(page_size)).collect();
        if flush {
            blocks.clear();
            blocks.push(0..u64::MAX);
        }
        let written = self.write_ranges(volume, &blocks);
        volume.counters.device.flushes.add(1);
        // Also after an error: what could be written is durable then.
        let synced = volume.device.flush().map_err(|source| volume.failed("flush", 0, volume.len(), source));
        // Earlier failures in the background are a flush's to tell: once, even if the pages have been written since.
        let kept = if flush { volume.take_failure() } else { None };
        written.and(synced).and(kept.map_or(Ok(()), Err))
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use crate::device::{Device, MemoryDevice};
    use crate::{Config, Pool, VolumeConfig};
    use forebay_policy::Spec;
    use std::io::{self, IoSlice, IoSliceMut};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A device whose flushes wait for what they answer.
    struct Asked {
        memory: MemoryDevice,
        begun: Mutex<Sender<()>>,
        answers: Mutex<Receiver<io::Result<()>>>,
    }

    impl Device for Asked {
        fn len(&self) -> u64 {
            self.memory.len()
        }
        fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
            self.memory.read(offset, buffers)
        }
        fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
            self.memory.write(offset, buffers)
        }
        fn flush(&self) -> io::Result<()> {
            self.begun.lock().expect("not poisoned").send(()).expect("the test watches");
            self.answers.lock().expect("not poisoned").recv_timeout(PATIENCE).expect("the test answers")
        }
        fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
            self.memory.trim(offset, length)
        }
        fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
            self.memory.write_zeroes(offset, length, allocate)
        }
        fn describe(&self) -> String {
            self.memory.describe()
        }
    }

    #[test]
    fn who_asks_while_a_flush_is_under_way_shares_the_next_and_its_error() {
        let ((begun, watch), (answer, answers)) = (channel(), channel());
        let device =
            Asked { memory: MemoryDevice::new(1 << 20), begun: Mutex::new(begun), answers: Mutex::new(answers) };
        let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
        let volume = pool.attach(Arc::new(device), VolumeConfig::new("asked"));
        let flush = || pool.flush_volume(&volume);
        std::thread::scope(|scope| {
            let first = scope.spawn(flush);
            watch.recv_timeout(PATIENCE).expect("the first flush begins");
            let others = [scope.spawn(flush), scope.spawn(flush), scope.spawn(flush)];
            // Each adds its range to the next round before it waits.
            let deadline = Instant::now() + PATIENCE;
            let asked = || {
                let rounds = volume.commits.rounds.lock().expect("not poisoned");
                rounds.next.as_ref().map_or(0, |round| round.ranges.len())
            };
            while asked() < others.len() {
                assert!(Instant::now() < deadline, "the others wait for the next flush");
                std::thread::yield_now();
            }
            answer.send(Ok(())).expect("a flush waits");
            assert!(first.join().expect("no panic").is_ok());
            answer.send(Err(io::Error::from_raw_os_error(libc::EIO))).expect("a flush waits");
            for other in others {
                let error = other.join().expect("no panic").expect_err("the flush they share fails");
                assert!(error.to_string().contains("volume asked: flush"), "{error}");
            }
        });
        assert_eq!(watch.try_iter().count(), 1, "one flush for all who waited");
        // The pool flushes once more as it goes.
        answer.send(Ok(())).expect("the device is there");
    }
}
