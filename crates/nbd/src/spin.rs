//! Asking a socket again and again before the thread sleeps.
//!
//! A thread that sleeps takes tens of microseconds to go on, on another processor than the client's; a short request takes a few. So a
//! connection's thread spins for its next request, up to [`Config::spin`](crate::Config::spin), while that pays:
//!
//! 1. A connection spins only after its thread has slept `needed` times in a row for a short time each. One long sleep starts that anew,
//!    so an idle connection never spins.
//! 2. A spin pays if the request comes within the bound. Each that does raises the score by one, each that does not lowers it by
//!    [`VAIN`]; at zero the connection sleeps at once again, and `needed` doubles. So a client that shares the server's processor, and
//!    gets it only when the server sleeps, costs a few spins in thousands of requests.
//! 3. At most as many threads spin as the process has processors beside one ([`spare_processors`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Short sleeps in a row before the first spin; twice as many after each try that did not pay, up to the most.
const LEAST_NEEDED: u32 = 16;
const MOST_NEEDED: u32 = 8192;

/// A sleep is short up to this many times the bound: it includes the wake-up that spinning saves.
const SHORT: u32 = 5;

/// The score that a try begins with, the most there is, and what one spin in vain costs.
const FIRST: u32 = 16;
const MOST: u32 = 64;
const VAIN: u32 = 8;

/// How long the number of processors is believed.
const BELIEVED: Duration = Duration::from_secs(1);

/// Pauses of the processor between two questions, so that the client gets at the socket meanwhile.
pub(crate) const PAUSES: u32 = 16;

/// The spinning threads of a server.
pub(crate) struct Spinners {
    bound: Duration,
    /// How many threads may spin.
    look: fn() -> usize,
    most: AtomicUsize,
    begin: Instant,
    /// When `most` was looked up, in milliseconds since the beginning, and one more; 0 is never.
    looked: AtomicU64,
    now: AtomicUsize,
    paid: AtomicU64,
    vain: AtomicU64,
}

impl Spinners {
    /// `look`: how many threads may spin, asked now and then.
    pub(crate) fn new(bound: Duration, look: fn() -> usize) -> Self {
        Self {
            bound,
            look,
            most: AtomicUsize::new(0),
            begin: Instant::now(),
            looked: AtomicU64::new(0),
            now: AtomicUsize::new(0),
            paid: AtomicU64::new(0),
            vain: AtomicU64::new(0),
        }
    }

    /// Spins in which a request came, and those in which none did.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.paid.load(Ordering::Relaxed), self.vain.load(Ordering::Relaxed))
    }

    /// Lets one more thread spin, if there may be one.
    fn enter(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.begin).as_millis() as u64 + 1;
        let looked = self.looked.load(Ordering::Relaxed);
        if looked == 0 || age - looked.min(age) >= BELIEVED.as_millis() as u64 {
            self.looked.store(age, Ordering::Relaxed);
            self.most.store((self.look)(), Ordering::Relaxed);
        }
        let entered = self.now.fetch_add(1, Ordering::Relaxed) < self.most.load(Ordering::Relaxed);
        if !entered {
            self.now.fetch_sub(1, Ordering::Relaxed);
        }
        entered
    }
}

/// Whether one connection's thread spins.
pub(crate) struct Spin<'a> {
    spinners: &'a Spinners,
    /// 0: it sleeps at once.
    score: Cell<u32>,
    /// Short sleeps in a row.
    short: Cell<u32>,
    /// How many of them there must be before it spins.
    needed: Cell<u32>,
}

impl<'a> Spin<'a> {
    pub(crate) fn new(spinners: &'a Spinners) -> Self {
        Self { spinners, score: Cell::new(0), short: Cell::new(0), needed: Cell::new(LEAST_NEEDED) }
    }

    /// A turn of spinning, before a sleep; `None`: to sleep at once.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        if self.score.get() == 0 {
            return None;
        }
        let now = Instant::now();
        self.spinners.enter(now).then(|| Turn { spin: self, until: now + self.spinners.bound })
    }

    /// Something has come after a sleep of this length.
    pub(crate) fn slept(&self, length: Duration) {
        if length > SHORT * self.spinners.bound {
            self.short.set(0);
            self.score.set(0);
            return;
        }
        self.short.set(self.short.get() + 1);
        if self.score.get() == 0 && self.short.get() >= self.needed.get() {
            self.score.set(FIRST);
        }
    }

    fn paid(&self) {
        self.spinners.paid.fetch_add(1, Ordering::Relaxed);
        self.score.set((self.score.get() + 1).min(MOST));
        if self.score.get() == MOST {
            self.needed.set(LEAST_NEEDED);
        }
    }

    fn vain(&self) {
        self.spinners.vain.fetch_add(1, Ordering::Relaxed);
        self.score.set(self.score.get().saturating_sub(VAIN));
        if self.score.get() == 0 {
            self.short.set(0);
            self.needed.set((2 * self.needed.get()).min(MOST_NEEDED));
        }
    }
}

/// A thread spins.
pub(crate) struct Turn<'a> {
    spin: &'a Spin<'a>,
    until: Instant,
}

impl Turn<'_> {
    /// Whether to ask once more.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Ends it. `came`: something has come.
    pub(crate) fn end(self, came: bool) {
        // What came later came though the thread had lost its processor, perhaps to the client.
        if came && self.goes_on() { self.spin.paid() } else { self.spin.vain() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.spin.spinners.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many threads of the process may spin: its processors, by affinity and control group, but one. A process that is bound to one of
/// several processors may have one: its clients may be on the others, and whether they are shows in whether spins pay.
pub(crate) fn spare_processors() -> usize {
    let bound_to_one = rustix::thread::sched_getaffinity(None).is_ok_and(|processors| processors.count() == 1);
    if bound_to_one {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        return usize::from(online.contains(['-', ',']));
    }
    std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bound that no test reaches.
    const BOUND: Duration = Duration::from_secs(600);
    const QUICKLY: Duration = BOUND;
    const SLOWLY: Duration = Duration::from_secs(6000);

    fn spinning(spinners: &Spinners) -> Spin<'_> {
        let spin = Spin::new(spinners);
        (0..LEAST_NEEDED).for_each(|_| spin.slept(QUICKLY));
        spin
    }

    /// Waits for requests that each come in a short sleep, unless it spins; then none comes. Returns how often it spins.
    fn spins_in_vain(spin: &Spin<'_>, requests: u32) -> u32 {
        (0..requests).fold(0, |spins, _| {
            let turn = spin.turn();
            let spun = u32::from(turn.is_some());
            turn.into_iter().for_each(|turn| turn.end(false));
            spin.slept(QUICKLY);
            spins + spun
        })
    }

    #[test]
    fn it_spins_once_requests_come_quickly_and_not_after_a_rest() {
        let spinners = Spinners::new(BOUND, || 1);
        let spin = Spin::new(&spinners);
        assert!(spin.turn().is_none(), "nothing is known of the client");
        (1..LEAST_NEEDED).for_each(|_| spin.slept(QUICKLY));
        assert!(spin.turn().is_none());
        spin.slept(QUICKLY);
        spin.turn().expect("enough came quickly").end(true);
        spin.slept(SLOWLY);
        assert!(spin.turn().is_none(), "the client rests");
        (1..LEAST_NEEDED).for_each(|_| spin.slept(QUICKLY));
        assert!(spin.turn().is_none(), "it starts anew");
        spin.slept(QUICKLY);
        assert!(spin.turn().is_some());
        assert_eq!(spinners.counts(), (1, 0));
    }

    #[test]
    fn a_client_that_never_comes_while_it_spins_costs_a_few_spins_in_thousands() {
        let spinners = Spinners::new(BOUND, || 1);
        let spin = Spin::new(&spinners);
        assert!(spins_in_vain(&spin, 10_000) <= 24);
        assert!(spins_in_vain(&spin, 100_000) <= 2 * (100_000 / MOST_NEEDED + 1));
        // It has moved to another processor.
        (0..MOST_NEEDED).for_each(|_| spin.slept(QUICKLY));
        (0..1000).for_each(|_| spin.turn().expect("it pays").end(true));
        spin.turn().expect("it has paid").end(false);
        spin.turn().expect("one in vain does not end it").end(true);
    }

    #[test]
    fn no_more_threads_spin_than_processors_can_be_spared() {
        let none = Spinners::new(BOUND, || 0);
        assert!(spinning(&none).turn().is_none(), "one processor");
        let two = Spinners::new(BOUND, || 2);
        let spins = [0; 3].map(|_| spinning(&two));
        let (first, second) = (spins[0].turn().expect("one"), spins[1].turn().expect("two"));
        assert!(spins[2].turn().is_none());
        drop(first);
        let third = spins[2].turn().expect("there is room again");
        assert!(spins[0].turn().is_none());
        drop((second, third));
    }

    #[test]
    fn what_comes_after_the_bound_has_not_paid() {
        let spinners = Spinners::new(Duration::ZERO, || 1);
        let spin = Spin::new(&spinners);
        (0..LEAST_NEEDED).for_each(|_| spin.slept(Duration::ZERO));
        let turn = spin.turn().expect("enough came quickly");
        assert!(!turn.goes_on());
        turn.end(true);
        assert_eq!(spinners.counts(), (0, 1));
    }
}
