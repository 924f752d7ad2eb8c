//! One pool, with the policy in it, over the page cache of files, over programs' memory, or over both.
//!
//! ```text
//!   Steering --- Steered (files) ---+          +--- victims of files
//!                                   +--- pool -+
//!   Paging ----- Steered (memory) --+          +--- victims of memory
//! ```
//!
//! Each side has a thread of its own, which tells the policy of its uses and has its victims leave. Where there are both, the use of a file may cost a page of memory,
//! and the other way round. So victims are sorted by their side, and wait for its thread.
//!
//! Both have one size. The policy gets what neither side takes of it: for pages that still have to leave, for example.
//!
//! CLOCK-Pro's paper asks for one policy over both (section 2.1). Memory in use then stays, whatever is read once in files (section 5.1.3, Tables 4 and 5).

use crate::error::Error;
use crate::steered::PAGE;
use forebay_basis::Place;
use forebay_pool::Pool;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The page cache of files.
    Files,
    /// The memory of programs.
    Memory,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Files => Self::Memory,
            Self::Memory => Self::Files,
        }
    }
}

/// What the policy says of pages.
#[derive(Default)]
pub(crate) struct News {
    /// Its victims.
    pub(crate) victims: Vec<Place>,
    /// Pages whose next use it waits to see, or does so no more, in order.
    pub(crate) awaited: Vec<(Place, bool)>,
}

/// What the policy says of pages, by their side, until the threads take it.
#[derive(Default)]
struct Sorted {
    /// Objects that are processes' memory, a bit each.
    memory: Vec<u64>,
    of: [News; 2],
}

impl Sorted {
    fn side(&self, object: u32) -> Side {
        let word = self.memory.get(object as usize / 64).copied().unwrap_or(0);
        if word >> (object % 64) & 1 == 1 { Side::Memory } else { Side::Files }
    }

    fn set_side(&mut self, object: u32, side: Side) {
        let index = object as usize / 64;
        if side == Side::Memory && self.memory.len() <= index {
            self.memory.resize(index + 1, 0);
        }
        if let Some(word) = self.memory.get_mut(index) {
            *word = *word & !(1 << (object % 64)) | u64::from(side == Side::Memory) << (object % 64);
        }
    }
}

/// What a side says of the size, in pages.
#[derive(Clone, Copy)]
struct Told {
    asked: u64,
    /// What of it the policy may not have on account of this side.
    taken: u64,
}

/// What one side shows to the other, in pages.
#[derive(Default)]
struct Shown {
    there: AtomicU64,
    came: AtomicU64,
}

/// A pool that is used for steering, and for nothing else.
pub struct Common {
    pool: Arc<Pool>,
    sorted: Arc<Mutex<Sorted>>,
    told: Mutex<[Option<Told>; 2]>,
    shown: [Shown; 2],
    begun: [AtomicBool; 2],
}

impl Common {
    /// Steers with a pool: its capacity is the size of all that is steered.
    ///
    /// # Errors
    /// Somebody else listens for its victims.
    pub fn new(pool: Arc<Pool>) -> Result<Arc<Self>, Error> {
        let sorted: Arc<Mutex<Sorted>> = Arc::default();
        let of_victims = Arc::clone(&sorted);
        let first = pool.on_leave(move |places| {
            let mut sorted = of_victims.lock().unwrap_or_else(PoisonError::into_inner);
            for place in places {
                let side = sorted.side(place.object);
                sorted.of[side as usize].victims.push(*place);
            }
        });
        if !first {
            return Err(forebay_pool::Error::Configuration("a pool steers for one only".to_owned()).into());
        }
        let of_awaited = Arc::clone(&sorted);
        // A policy that does not say what it waits for learns of all uses.
        pool.on_await(move |pages| {
            let mut sorted = of_awaited.lock().unwrap_or_else(PoisonError::into_inner);
            for page in pages {
                let side = sorted.side(page.0.object);
                sorted.of[side as usize].awaited.push(*page);
            }
        });
        let (told, shown, begun) = (Mutex::default(), Default::default(), Default::default());
        Ok(Arc::new(Self { pool, sorted, told, shown, begun }))
    }

    /// The pool.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A side begins.
    ///
    /// # Errors
    /// It has begun before.
    pub(crate) fn begin(&self, side: Side) -> Result<(), forebay_pool::Error> {
        match self.begun[side as usize].swap(true, Ordering::Relaxed) {
            false => Ok(()),
            true => Err(forebay_pool::Error::Configuration(format!("a pool steers one: {side:?}"))),
        }
    }

    /// Whether both sides have begun.
    pub(crate) fn has_both(&self) -> bool {
        self.begun.iter().all(|begun| begun.load(Ordering::Relaxed))
    }

    /// An object of the pool has just been made for a side.
    pub(crate) fn name(&self, object: u32, side: Side) {
        self.sorted().set_side(object, side);
    }

    /// What the policy has said of a side's pages.
    pub(crate) fn take_news(&self, side: Side) -> News {
        std::mem::take(&mut self.sorted().of[side as usize])
    }

    /// Shows the other side how many pages of one are there, and how many have come so far.
    pub(crate) fn show(&self, side: Side, there: u64, came: u64) {
        let shown = &self.shown[side as usize];
        shown.there.store(there, Ordering::Relaxed);
        shown.came.store(came, Ordering::Relaxed);
    }

    /// How many pages of the other side are there, and how many have come so far: none if it does not steer.
    pub(crate) fn beside(&self, side: Side) -> (u64, u64) {
        let shown = &self.shown[side.other() as usize];
        (shown.there.load(Ordering::Relaxed), shown.came.load(Ordering::Relaxed))
    }

    /// A side says which size was asked for, and how much of it the policy may have as far as that side knows, in pages. The policy gets that, less what the other
    /// side takes, but never less than the mins of shares need. `false`: it has more on account of these.
    ///
    /// # Errors
    /// The pool cannot be as large; all is as it was.
    pub(crate) fn fit(&self, side: Side, asked: u64, capacity: u64) -> Result<bool, forebay_pool::Error> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told[side as usize].replace(Told { asked, taken: asked.saturating_sub(capacity) });
        let all = || told.iter().flatten();
        let (asked, taken) = (all().map(|told| told.asked).min(), all().map(|told| told.taken).sum::<u64>());
        let wanted = asked.unwrap_or(0).saturating_sub(taken).max(1);
        let pages = wanted.max(self.pool.least_capacity() / PAGE);
        if pages != self.pool.capacity() / PAGE {
            self.pool.resize(pages * PAGE).inspect_err(|_| told[side as usize] = before)?;
        }
        Ok(pages == wanted)
    }

    fn sorted(&self) -> MutexGuard<'_, Sorted> {
        self.sorted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policy::Spec;
    use forebay_pool::Config;

    fn common(pages: u64) -> Arc<Common> {
        let spec = Spec::parse("lru").expect("a policy");
        Common::new(Arc::new(Pool::new(Config::elsewhere(pages * PAGE, spec)).expect("a pool"))).expect("its only user")
    }

    #[test]
    fn the_policy_has_what_neither_side_takes() {
        let common = common(1000);
        let fit = |side, asked, capacity| {
            common.fit(side, asked, capacity).expect("it can be as large");
            common.pool().capacity() / PAGE
        };
        assert_eq!(fit(Side::Files, 1000, 900), 900);
        assert_eq!(fit(Side::Memory, 1000, 700), 600);
        assert_eq!(fit(Side::Files, 1000, 1000), 700);
        assert_eq!(fit(Side::Files, 800, 800), 500, "the smaller size counts until both have heard of the larger");
        assert_eq!(fit(Side::Memory, 800, 800), 800);
        assert_eq!(fit(Side::Files, 800, 1), 1);
        assert_eq!(fit(Side::Memory, 800, 1), 1, "a policy has a page at the least");
    }

    #[test]
    fn victims_go_to_the_side_that_has_named_their_object_last() {
        let mut sorted = Sorted::default();
        sorted.set_side(70, Side::Memory);
        sorted.set_side(71, Side::Memory);
        sorted.set_side(71, Side::Files);
        sorted.set_side(7000, Side::Files);
        let sides = [0, 69, 70, 71, 72, 7000].map(|object| sorted.side(object));
        assert_eq!(sides.map(|side| side == Side::Memory), [false, false, true, false, false, false]);
        assert_eq!(sorted.memory.len(), 2, "files take no room");
    }

    #[test]
    fn a_pool_steers_for_one_and_each_side_once() {
        let common = common(64);
        assert!(Common::new(Arc::clone(common.pool())).is_err());
        assert!(common.begin(Side::Memory).is_ok() && common.begin(Side::Files).is_ok());
        assert!(common.begin(Side::Memory).is_err());
    }
}
