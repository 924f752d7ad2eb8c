//! Requests under way: what a killed program, or one that has waited too long, is freed from.
//!
//! A program whose request is being worked on cannot be killed: it waits for the answer. So if storage below hangs, an answer is given in
//! its place. The work goes on behind the program's back; what it answers later is unwanted, and what it would hand over is taken back.
//!
//! - **Killed programs.** The kernel says that a signal has come (`FUSE_INTERRUPT`), once for each request. Other signals interrupt no
//!   file of a disk, so `EINTR` is answered when the thread is about to end: then `SIGKILL` is pending for it. Until then it is looked at
//!   again, a few times a second.
//! - **Time.** With a limit, `ETIMEDOUT` is the answer to a request that no transfer below has helped along for so long.
//!
//! Threads that receive requests note in a *seat* which one they work on: one store for each. No clock is read there: a request is as old
//! as the looks that have found it in the same place.

use super::channel::Channel;
use super::errno::Errno;
use super::reply::Unwanted;
use foldhash::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After so many looks in vain a request that has got a signal was answered.
const LOST: u32 = 2;

/// The bit of `SIGKILL` among pending signals.
const KILLED: u64 = 1 << (libc::SIGKILL - 1);

/// Where a thread that receives requests notes its own.
#[repr(align(128))]
pub(super) struct Seat {
    channel: Arc<Channel>,
    /// 0: none.
    unique: AtomicU64,
    node: AtomicU64,
    thread: AtomicU32,
}

impl Seat {
    pub(super) fn take(&self, unique: u64, node: u64, thread: u32) {
        self.node.store(node, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.unique.store(unique, Ordering::Release);
    }

    pub(super) fn leave(&self) {
        self.unique.store(0, Ordering::Release);
    }
}

/// All requests under way.
#[derive(Default)]
pub(crate) struct UnderWay {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Those that wait elsewhere.
    handed_over: Mutex<HashMap<u64, Waiting>>,
    /// Those whose programs have got a signal, and how many looks have not found them.
    signalled: Mutex<HashMap<u64, u32>>,
    /// Transfers below that have ended.
    transfers: AtomicU64,
}

/// A request that a program waits for.
#[derive(Clone)]
struct Waiting {
    /// By which it came, and must be answered.
    channel: Arc<Channel>,
    /// The file, or the directory in which a name is used.
    node: u64,
    /// The program's thread.
    thread: u32,
    /// Transfers below help it along.
    transfers: bool,
}

/// What the looks have found so far.
#[derive(Default)]
pub(super) struct Looks {
    known: HashMap<u64, Known>,
    transfers: u64,
}

struct Known {
    since: Instant,
    answered: bool,
}

impl Waiting {
    fn free(&self, unique: u64, errno: Errno) {
        let Unwanted(_) = self.channel.answer(unique, -errno.code(), [&[], &[]]);
    }
}

impl UnderWay {
    fn seats(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handed_over(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signalled(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.signalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transfer below has ended.
    pub(crate) fn note_transfer(&self) {
        self.transfers.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread begins to receive requests.
    pub(super) fn sit_down(&self, channel: &Arc<Channel>) -> Arc<Seat> {
        let (unique, node, thread) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU32::new(0));
        let seat = Arc::new(Seat { channel: Arc::clone(channel), unique, node, thread });
        self.seats().push(Arc::clone(&seat));
        seat
    }

    pub(super) fn stand_up(&self, seat: &Arc<Seat>) {
        self.seats().retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// A request leaves the thread that has received it.
    pub(super) fn add(&self, unique: u64, node: u64, channel: &Arc<Channel>, thread: u32) {
        self.handed_over().insert(unique, Waiting { channel: Arc::clone(channel), node, thread, transfers: true });
    }

    pub(super) fn remove(&self, unique: u64) {
        self.handed_over().remove(&unique);
    }

    fn seated(&self) -> HashMap<u64, Waiting> {
        let of = |seat: &Arc<Seat>| {
            let unique = seat.unique.load(Ordering::Acquire);
            let (node, thread) = (seat.node.load(Ordering::Relaxed), seat.thread.load(Ordering::Relaxed));
            (unique, Waiting { channel: Arc::clone(&seat.channel), node, thread, transfers: false })
        };
        self.seats().iter().map(of).filter(|(unique, _)| *unique > 0).collect()
    }

    /// A signal has come to the thread that waits for a request.
    pub(super) fn signal(&self, unique: u64) {
        let handed_over = self.handed_over().get(&unique).cloned();
        match handed_over.or_else(|| self.seated().remove(&unique)) {
            Some(waiting) if is_ending(waiting.thread) => waiting.free(unique, Errno::EINTR),
            // It ends later, or the request is not noted yet, or it has just been answered.
            _ => drop(self.signalled().insert(unique, 0)),
        }
    }

    /// Frees the programs that have been killed since the last look, and those that have waited for longer than the limit. How many of
    /// the threads that receive requests work on one that they have worked on at the last look. `name` says which file a node is, and waits for nothing.
    pub(super) fn look(&self, looks: &mut Looks, limit: Option<Duration>, name: &dyn Fn(u64) -> String) -> usize {
        let mut all = self.handed_over().clone();
        let seated = self.seated();
        let stuck = seated.keys().filter(|unique| looks.known.contains_key(unique)).count();
        // One that is being handed over is helped along already.
        for (unique, waiting) in seated {
            all.entry(unique).or_insert(waiting);
        }
        self.signalled().retain(|unique, missed| match all.get(unique) {
            Some(waiting) if is_ending(waiting.thread) => {
                waiting.free(*unique, Errno::EINTR);
                false
            }
            Some(_) => true,
            None => {
                *missed += 1;
                *missed < LOST
            }
        });
        let (now, transfers) = (Instant::now(), self.transfers.load(Ordering::Relaxed));
        let helped = std::mem::replace(&mut looks.transfers, transfers) != transfers;
        looks.known.retain(|unique, _| all.contains_key(unique));
        for (unique, waiting) in all {
            let known = looks.known.entry(unique).or_insert(Known { since: now, answered: false });
            if helped && waiting.transfers {
                known.since = now;
            }
            if let Some(limit) = limit
                && !known.answered
                && now.duration_since(known.since) >= limit
            {
                known.answered = true;
                let name = name(waiting.node);
                tracing::warn!("{name}: storage has not answered a request for {limit:?}: its program gets ETIMEDOUT");
                waiting.free(unique, Errno::ETIMEDOUT);
            }
        }
        stuck
    }
}

/// Whether a thread is about to end, as it was killed: it gets no further than what it waits for.
fn is_ending(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & KILLED != 0)
}
