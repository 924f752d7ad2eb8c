//! The memory of written data and of replies, of all connections of a server together.
//!
//! 1. A request takes what it needs at once, before any of it is used, and gives it back when its reply has been sent, or the data
//!    of a write has been written.
//! 2. First come, first served: a long request is not overtaken for ever by short ones.
//! 3. Only a thread that receives waits here, and it holds up its own connection alone. What others have taken belongs to requests
//!    under way, to replies on their way and to data that is coming. None of these waits here, and the last two have limits of time,
//!    so every wait ends. The limits are shorter while somebody waits here ([`Hurry`]), so that eight slow clients do not hold up all.
//!
//! Each connection has an allowance beside it, set aside while it lasts, so that short requests wait for nobody and take no lock
//! that connections share.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::Config;
use crate::buffer::{Buffer, Mapping, SHORT};
use crate::config::LEAST_RATE;
use crate::link::lock;

/// The longest allowance for each of three things: replies that are being gathered, replies that wait behind others, and requests
/// in flight.
const ALLOWANCE: usize = 256 << 10;

/// Short buffers kept for the data of the next writes.
const SPARES: usize = 8;

/// The most bytes of long buffers kept for the next requests: a page that the system gives anew costs more than to fill it.
const KEPT: usize = 33 << 20;

/// The most bytes by which a kept buffer may be longer than what is asked for.
const SLACK: usize = 4096;

/// How often the rate of a message is looked at that holds memory, and how long others wait for memory before it counts.
const WINDOW: Duration = Duration::from_secs(5);

/// What all connections have together.
pub(crate) struct Budget {
    state: Mutex<State>,
    freed: Condvar,
    /// Buffers of at most [`SHORT`] bytes, which are most of the cost of a write of that length.
    spares: Mutex<Vec<Vec<u8>>>,
}

struct State {
    /// Below 0 where connections came while all was taken: their allowances do not wait.
    free: i64,
    /// The next to come, and the next to be served.
    tickets: u64,
    served: u64,
    /// Since when the next to be served has waited.
    awaited: Option<Instant>,
    /// Long buffers for the next requests. They count as taken, and go when somebody needs their memory.
    kept: Vec<MmapMut>,
}

impl State {
    /// Takes memory, if there is as much.
    fn take(&mut self, bytes: usize) -> bool {
        if self.free < bytes as i64 {
            self.free += self.kept.drain(..).map(|buffer| buffer.len() as i64).sum::<i64>();
        }
        let there = self.free >= bytes as i64;
        self.free -= if there { bytes as i64 } else { 0 };
        there
    }
}

impl Budget {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        let state = State { free: config.buffers as i64, tickets: 0, served: 0, awaited: None, kept: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), freed: Condvar::new(), spares: Mutex::default() })
    }

    fn try_take(&self, bytes: usize) -> bool {
        let mut state = lock(&self.state);
        state.tickets == state.served && state.take(bytes)
    }

    fn take(&self, bytes: usize) {
        let mut state = lock(&self.state);
        let (ticket, since) = (state.tickets, Instant::now());
        state.tickets += 1;
        while state.served != ticket || !state.take(bytes) {
            if state.served == ticket {
                state.awaited = Some(since);
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.served += 1;
        state.awaited = None;
        drop(state);
        self.freed.notify_all();
    }

    /// Whether somebody has waited for long.
    fn is_awaited(&self) -> bool {
        lock(&self.state).awaited.is_some_and(|since| since.elapsed() >= WINDOW)
    }

    fn give(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.free += bytes as i64;
        let waited_for = state.tickets != state.served;
        drop(state);
        if waited_for {
            self.freed.notify_all();
        }
    }

    /// A buffer for data, whose memory has been taken. What it holds is of no use.
    pub(crate) fn buffer(self: &Arc<Self>, length: usize) -> Buffer {
        if length > SHORT {
            return self.long(length);
        }
        let mut spare = lock(&self.spares).pop().unwrap_or_default();
        spare.resize(length.max(spare.len()), 0);
        Buffer::Heap(spare)
    }

    fn long(self: &Arc<Self>, length: usize) -> Buffer {
        let mut state = lock(&self.state);
        let fits = |kept: &MmapMut| (length..=length + SLACK).contains(&kept.len());
        if let Some(place) = state.kept.iter().position(fits) {
            let buffer = state.kept.swap_remove(place);
            state.free += buffer.len() as i64;
            return Buffer::Mapping(Mapping::new(buffer, self));
        }
        drop(state);
        match MmapMut::map_anon(length) {
            Ok(bytes) => Buffer::Mapping(Mapping::new(bytes, self)),
            Err(_) => Buffer::Heap(vec![0; length]),
        }
    }

    /// Keeps a long buffer, if nobody needs its memory.
    pub(crate) fn keep_long(&self, buffer: MmapMut) {
        let mut state = lock(&self.state);
        let length = buffer.len();
        let kept: usize = state.kept.iter().map(|kept| kept.len()).sum();
        if state.tickets == state.served && state.free >= length as i64 && kept + length <= KEPT {
            state.free -= length as i64;
            state.kept.push(buffer);
        }
    }

    /// Keeps a buffer for the next write.
    pub(crate) fn keep(&self, buffer: Buffer) {
        if let Buffer::Heap(bytes) = buffer
            && (1..=SHORT).contains(&bytes.len())
        {
            let mut spares = lock(&self.spares);
            if spares.len() < SPARES {
                spares.push(bytes);
            }
        }
    }
}

impl Config {
    /// The allowance of a connection for each of three things: all connections together leave a quarter of the budget.
    pub(crate) fn allowance(&self) -> usize {
        ALLOWANCE.min(self.buffers / 4 / self.connections.max(1))
    }

    /// The most data in one request, whatever the export allows: what is always left of the budget, and what one connection may have.
    pub(crate) fn most_request(&self) -> usize {
        (self.request_bytes as usize).min(self.buffers / 4)
    }
}

/// What one connection has of the budget.
pub(crate) struct Purse {
    pub(crate) budget: Arc<Budget>,
    allowance: usize,
    most: usize,
    held: Mutex<Held>,
    /// Told when something is given back.
    eased: Condvar,
}

#[derive(Default)]
struct Held {
    /// All that is held.
    bytes: usize,
    /// What of it comes from the allowance.
    own: usize,
}

impl Purse {
    pub(crate) fn new(budget: &Arc<Budget>, config: &Config) -> Arc<Self> {
        let allowance = config.allowance();
        lock(&budget.state).free -= 3 * allowance as i64;
        let budget = Arc::clone(budget);
        let most = config.in_flight_bytes.min(config.buffers / 4);
        Arc::new(Self { budget, allowance, most, held: Mutex::default(), eased: Condvar::new() })
    }

    /// Takes memory if that needs no waiting.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Lease> {
        let mut held = lock(&self.held);
        if !self.has_room(&held, bytes) {
            return None;
        }
        let own = held.own + bytes <= self.allowance;
        (own || self.budget.try_take(bytes)).then(|| self.lease(&mut held, bytes, own))
    }

    /// Takes memory, and waits for it if need be. One thread alone takes for a connection.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Lease {
        let mut held = lock(&self.held);
        while !self.has_room(&held, bytes) {
            held = self.eased.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let own = held.own + bytes <= self.allowance;
        if !own {
            drop(held);
            self.budget.take(bytes);
            held = lock(&self.held);
        }
        self.lease(&mut held, bytes, own)
    }

    /// Whether one more request may have so much: the first always.
    fn has_room(&self, held: &Held, bytes: usize) -> bool {
        held.bytes == 0 || held.bytes + bytes <= self.most
    }

    /// Whether it holds memory that others have waited for.
    fn is_in_the_way(&self) -> bool {
        let held = lock(&self.held);
        let common = held.bytes > held.own;
        drop(held);
        common && self.budget.is_awaited()
    }

    fn lease(self: &Arc<Self>, held: &mut Held, bytes: usize, own: bool) -> Lease {
        held.bytes += bytes;
        held.own += if own { bytes } else { 0 };
        Lease { purse: Arc::clone(self), own: if own { bytes } else { 0 }, common: if own { 0 } else { bytes } }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.budget.give(3 * self.allowance);
    }
}

/// The rate of a message on its way, whose connection holds memory: at least 256 KiB a second in every five, while others wait for memory.
pub(crate) struct Hurry {
    purse: Arc<Purse>,
    begun: Instant,
    moved: usize,
}

impl Hurry {
    pub(crate) fn new(purse: &Arc<Purse>) -> Self {
        Self { purse: Arc::clone(purse), begun: Instant::now(), moved: 0 }
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Instant {
        self.begun + WINDOW
    }

    /// More has come, or been taken. Whether it was too slow.
    pub(crate) fn is_slow(&mut self, moved: usize) -> bool {
        self.moved += moved;
        if self.begun.elapsed() < WINDOW {
            return false;
        }
        let enough = self.moved as f64 >= LEAST_RATE as f64 * self.begun.elapsed().as_secs_f64();
        (self.begun, self.moved) = (Instant::now(), 0);
        !enough && self.purse.is_in_the_way()
    }
}

/// Memory taken, which is given back with this value.
pub(crate) struct Lease {
    purse: Arc<Purse>,
    own: usize,
    common: usize,
}

impl Lease {
    /// Makes one of two of the same connection.
    pub(crate) fn join(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.purse, &other.purse));
        self.own += std::mem::take(&mut other.own);
        self.common += std::mem::take(&mut other.common);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.own + self.common == 0 {
            return;
        }
        if self.common > 0 {
            self.purse.budget.give(self.common);
        }
        let mut held = lock(&self.purse.held);
        held.bytes -= self.own + self.common;
        held.own -= self.own;
        drop(held);
        self.purse.eased.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    const MIB: usize = 1 << 20;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn config() -> Config {
        Config { buffers: 32 * MIB, connections: 16, ..Config::default() }
    }

    #[test]
    fn long_buffers_are_kept_until_somebody_needs_their_memory() {
        let budget = Budget::new(&config());
        let all = free(&budget);
        let first = budget.buffer(MIB + 20);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(free(&budget), all - MIB - 20);
        let again = budget.buffer(MIB);
        assert_eq!((again.as_ptr(), free(&budget)), (place, all), "it is used again");
        drop(again);
        drop(budget.buffer(40 * MIB));
        assert_eq!(free(&budget), all - MIB - 20, "a longer one than is kept is not");
        assert!(budget.try_take(all), "what is kept gives way");
    }

    fn free(budget: &Budget) -> usize {
        lock(&budget.state).free as usize
    }

    /// Takes on a thread of its own.
    fn taking(purse: &Arc<Purse>, bytes: usize) -> Receiver<Lease> {
        let (purse, (taken, watch)) = (Arc::clone(purse), channel());
        let waiting = lock(&purse.budget.state).tickets + 1;
        let budget = Arc::clone(&purse.budget);
        std::thread::spawn(move || {
            // The test may have ended.
            let _ = taken.send(purse.take(bytes));
        });
        let begin = std::time::Instant::now();
        while lock(&budget.state).tickets < waiting {
            assert!(begin.elapsed() < PATIENCE, "the thread asks for its memory");
            std::thread::yield_now();
        }
        watch
    }

    #[test]
    fn short_requests_have_an_allowance_though_nothing_is_left_of_the_budget() {
        let budget = Budget::new(&config());
        let purses = [0; 5].map(|_| Purse::new(&budget, &config()));
        let all = free(&budget);
        let taken: Vec<_> = purses.iter().filter_map(|purse| purse.try_take(7 * MIB)).collect();
        assert_eq!(taken.len(), 4);
        let own = purses[4].try_take(config().allowance()).expect("its own");
        assert!(purses[4].try_take(MIB).is_none());
        drop((taken, own));
        assert_eq!(free(&budget), all);
        drop(purses);
        assert_eq!(free(&budget), 32 * MIB, "allowances come back with their connections");
    }

    #[test]
    fn memory_goes_to_who_has_waited_the_longest() {
        let budget = Budget::new(&config());
        let purses = [0; 6].map(|_| Purse::new(&budget, &config()));
        let held: Vec<_> = purses[..4].iter().map(|purse| purse.try_take(6 * MIB).expect("it is there")).collect();
        let long = taking(&purses[4], 7 * MIB);
        let short = taking(&purses[5], MIB);
        assert!(short.try_recv().is_err(), "it does not overtake, though it would fit");
        drop(held);
        let long = long.recv_timeout(PATIENCE).expect("what it waited for is free");
        let short = short.recv_timeout(PATIENCE).expect("so is the rest");
        drop((long, short));
    }

    #[test]
    fn one_connection_has_no_more_than_its_share_but_one_request_always() {
        let budget = Budget::new(&config());
        let purse = Purse::new(&budget, &config());
        let first = purse.try_take(9 * MIB).expect("the first");
        assert!(purse.try_take(MIB).is_none());
        drop(first);
        let first = purse.try_take(7 * MIB).expect("it is there");
        assert!(purse.try_take(MIB).is_some());
        drop(first);
    }

    #[test]
    fn all_connections_together_leave_room_for_the_longest_request() {
        for config in [Config::default(), config(), Config { connections: 4000, ..Config::default() }] {
            let left = config.buffers - 3 * config.allowance() * config.connections;
            assert!(left >= config.most_request(), "{config:?}");
        }
    }
}
