//! Pages that are read ahead wait for their first use, apart from the policy.
//!
//! ```text
//!             read ahead                      first use
//!   device  ------------>  waiting pages  ------------------>  the policy: a miss of the page
//!                             |                                that needs no frame
//!                             v  no first use: evicted, the oldest window first
//! ```
//!
//! Readahead is a guess of the cache. It proves nothing about the page, so a policy must not take it for a use, nor the first use for the
//! second. Under [`WithReadahead`]
//!
//! 1. a page that is read ahead gets a frame, which the policy gives up by [`evict`](Policy::evict) if none is free. The policy does not learn which page it
//!    is: a ghost of the page stays a ghost, and no adaptive parameter moves.
//! 2. The first use is the page's miss. The policy admits the page with its ghost's history, and evicts nothing, since the page brings its frame.
//!    A caller may report a first use late and in batches, as hits.
//! 3. At most half of a full cache waits, as in the kernel. Beyond that a new window is cut short: windows in use would only push out each other. Free frames
//!    are all there to be read into, as for a program that asks for a whole file.
//! 4. A window leaves, one page for each frame that is needed and the farthest first, once as many pages have been admitted since its last use as the
//!    cache holds. Then its stream has most likely ended. Of several such windows the one unused the longest leaves first.
//!
//! A window is what is read ahead between two other admissions. There is one for 16 pages of the cache at most. A policy that ranks these pages by a rule of its own says so by
//! [`Policy::ranks_readahead`], and gets them as misses by [`Operation::Readahead`].
//!
//! Every operation takes constant time, but that refused victims are passed over: a page is offered once in a call. Memory:
//! [`BYTES_A_PAGE`] and [`BYTES_A_FRAME`].

use crate::control::{Control, Uncontrolled};
use crate::drawing::Drawing;
use crate::guest::Host;
use crate::parameters::Settings;
use crate::parts::list::{List, Nodes};
use crate::parts::slots::PageSlots;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup};
use forebay_basis::Operation;
use std::ops::Range;
use std::sync::Arc;

/// One part in this many of a full cache may wait.
const MOST: u32 = 2;

/// There are at most as many windows as the cache has pages divided by this, and always [`LEAST_WINDOWS`].
const PAGES_A_WINDOW: u32 = 16;
const LEAST_WINDOWS: u32 = 4;

/// The most bytes for each page number, beside the policy's own: a slot and a bit.
pub const BYTES_A_PAGE: usize = 4 + 1;
/// The same for each page of the capacity: a slot (its page, two links, its window), and of each `PAGES_A_WINDOW` pages a window.
pub const BYTES_A_FRAME: usize = 4 + 8 + 4 + (8 + size_of::<Window>() + 4).div_ceil(PAGES_A_WINDOW as usize);

/// A policy, and pages read ahead that wait apart from it. Invariants:
///
/// - WR1. Resident are the policy's pages and the waiting ones, no page is both, and together they are at most the capacity.
/// - WR2. `known[page]` if and only if the policy knows the page. A waiting page that it knows is a ghost of its; `ghosts` counts these.
pub struct WithReadahead<P> {
    policy: P,
    waiting: Waiting,
    /// A bit for each page.
    known: Vec<u64>,
    ghosts: u32,
    /// The policy ranks pages read ahead itself, or none are: all calls go to it.
    ranks: bool,
}

/// The waiting pages. Invariants:
///
/// - WA1. Each is in the list of the window that its slot names. A window in `order` has a page; `free` are all others.
/// - WA2. The front of `order` is the window read or used last, the back the one used the longest ago. A window's farthest page is at its back.
/// - WA3. The window that is being read, `open`, has a page.
struct Waiting {
    slots: PageSlots,
    /// By slot: the window.
    pages: Nodes<u32>,
    windows: Nodes<Window>,
    order: List,
    free: Vec<u32>,
    open: Option<u32>,
    len: u32,
    /// Admissions so far, modulo 2^32.
    now: u32,
    /// Whether anything was ever read ahead.
    begun: bool,
}

/// Pages that were read ahead together.
#[derive(Clone, Debug)]
struct Window {
    pages: List,
    /// When it was read, or one of its pages used last.
    used: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self { pages: List::new(), used: 0 }
    }
}

/// Which waiting pages may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Any,
    /// Those of windows unused for longer than as many admissions.
    UnusedFor(u32),
}

impl Waiting {
    fn new(pages: u32, capacity: u32) -> Self {
        let slots = PageSlots::new(pages, capacity.into());
        let windows = most_windows(capacity);
        Self {
            pages: Nodes::new(slots.end()),
            slots,
            windows: Nodes::new(windows),
            order: List::new(),
            free: (0..windows).rev().collect(),
            open: None,
            len: 0,
            now: 0,
            begun: false,
        }
    }

    fn reserve(&mut self, pages: u32, capacity: u32) {
        self.slots.reserve(pages, capacity.into());
        self.pages.reserve(self.slots.end());
        let (before, windows) = (self.free.len() as u32 + self.order.len(), most_windows(capacity));
        self.windows.reserve(windows);
        self.free.reserve_exact(windows.saturating_sub(self.free.len() as u32) as usize);
        self.free.extend((before..windows).rev());
    }

    /// Whether there is room for another page, of `most`.
    fn has_room(&self, most: u32) -> bool {
        self.len < most && (self.open.is_some() || !self.free.is_empty())
    }

    fn has(&self, page: u32) -> bool {
        self.len > 0 && self.slots.of(page).is_some()
    }

    /// A page that is not read ahead is admitted.
    fn admitted(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.open = None;
    }

    /// Another page of the newest window.
    fn push(&mut self, page: u32) {
        self.now = self.now.wrapping_add(1);
        let window = self.open.unwrap_or_else(|| {
            let window = self.free.pop().expect("there is room for a window");
            self.order.push_front(&mut self.windows, window);
            window
        });
        let slot = self.slots.give(page);
        self.pages[slot] = window;
        let Window { pages, used } = &mut self.windows[window];
        pages.push_back(&mut self.pages, slot);
        *used = self.now;
        (self.open, self.begun) = (Some(window), true);
        self.len += 1;
    }

    /// Takes a page out, and says which window has lost it.
    fn take(&mut self, slot: u32) -> u32 {
        let window = self.pages[slot];
        let pages = &mut self.windows[window].pages;
        pages.remove(&mut self.pages, slot);
        if pages.is_empty() {
            self.order.remove(&mut self.windows, window);
            self.free.push(window);
            self.open = self.open.filter(|&open| open != window);
        }
        self.slots.take_back(slot);
        self.len -= 1;
        window
    }

    /// A page is used for the first time, and waits no more.
    fn use_first(&mut self, slot: u32) {
        let window = self.take(slot);
        self.admitted();
        if self.windows.is_linked(window) {
            self.windows[window].used = self.now;
            self.order.move_to_front(&mut self.windows, window);
        }
    }

    /// Evicts the first page that the caller accepts.
    fn evict<C: Caller>(&mut self, which: Which, caller: &mut C) -> Option<u32> {
        let unused_for = |window: &u32| self.now.wrapping_sub(self.windows[*window].used);
        let may_leave = |window: &u32| match which {
            Which::Any => true,
            Which::UnusedFor(least) => unused_for(window) > least,
        };
        let windows = self.order.back_to_front(&self.windows).take_while(may_leave);
        let slot = windows
            .flat_map(|window| self.windows[window].pages.back_to_front(&self.pages))
            .find(|&slot| caller.evict(self.slots.page(slot)))?;
        let page = self.slots.page(slot);
        self.take(slot);
        Some(page)
    }

    fn bytes(&self) -> usize {
        self.slots.bytes() + self.pages.bytes() + self.windows.bytes() + self.free.capacity() * size_of::<u32>()
    }

    fn check(&self) {
        self.order.check(&self.windows);
        self.slots.check(self.len);
        let windows = || self.order.back_to_front(&self.windows);
        for window in windows() {
            let pages = &self.windows[window].pages;
            pages.check(&self.pages);
            assert!(!pages.is_empty() && pages.back_to_front(&self.pages).all(|slot| self.pages[slot] == window)); // WA1
        }
        assert_eq!(windows().map(|window| self.windows[window].pages.len()).sum::<u32>(), self.len); // WA1
        assert_eq!(self.free.len() + self.order.len() as usize, self.windows.values().count()); // WA1
        let ages = windows().map(|window| self.now.wrapping_sub(self.windows[window].used));
        assert!(ages.is_sorted_by(|older, newer| older >= newer)); // WA2
        assert!(self.open.is_none_or(|open| self.windows.is_linked(open))); // WA3
    }

    /// The waiting pages.
    fn pages(&self) -> impl Iterator<Item = u32> {
        let windows = self.order.back_to_front(&self.windows);
        let slots = windows.flat_map(|window| self.windows[window].pages.back_to_front(&self.pages));
        slots.map(|slot| self.slots.page(slot))
    }
}

fn most_windows(capacity: u32) -> u32 {
    (capacity / PAGES_A_WINDOW).max(LEAST_WINDOWS)
}

/// What the policy says to the caller. A waiting page stays known to the caller when the policy forgets it.
struct Between<'a, C> {
    waiting: &'a Waiting,
    known: &'a mut [u64],
    ghosts: &'a mut u32,
    /// A page that is resident, whatever the policy forgets of it.
    kept: Option<u32>,
    caller: &'a mut C,
}

impl<C: Caller> Caller for Between<'_, C> {
    fn evict(&mut self, page: u32) -> bool {
        self.caller.evict(page)
    }

    fn forget(&mut self, page: u32) {
        set(self.known, page, false);
        if self.waiting.has(page) {
            *self.ghosts -= 1;
        } else if self.kept != Some(page) {
            self.caller.forget(page);
        }
    }

    fn await_use(&mut self, page: u32) {
        self.caller.await_use(page);
    }
}

fn get(bits: &[u64], page: u32) -> bool {
    bits[page as usize / 64] >> (page % 64) & 1 == 1
}

fn set(bits: &mut [u64], page: u32, value: bool) {
    let (word, bit) = (&mut bits[page as usize / 64], 1 << (page % 64));
    *word = if value { *word | bit } else { *word & !bit };
}

impl<P: Policy> WithReadahead<P> {
    /// A policy of a cache that reads ahead, or of one that does not: then all calls go to the policy, also those for pages that were read ahead by another.
    pub fn of(setup: &Setup, reads_ahead: bool) -> Self {
        let policy = P::new(setup);
        let ranks = policy.ranks_readahead() || !reads_ahead;
        Self {
            ranks,
            policy,
            waiting: if ranks { Waiting::new(0, 0) } else { Waiting::new(setup.pages, setup.capacity) },
            known: vec![0; if ranks { 0 } else { (setup.pages as usize).div_ceil(64) }],
            ghosts: 0,
        }
    }

    /// Calls the policy, whose words to the caller are seen on the way.
    fn ask<C: Caller, T>(
        &mut self,
        kept: Option<u32>,
        caller: &mut C,
        question: impl FnOnce(&mut P, &mut Between<'_, C>) -> T,
    ) -> T {
        let Self { policy, waiting, known, ghosts, .. } = self;
        question(policy, &mut Between { waiting, known, ghosts, kept, caller })
    }

    fn is_full(&self) -> bool {
        self.policy.len() + self.waiting.len >= self.policy.capacity()
    }

    /// Evicts a waiting page: it becomes the policy's ghost again, or unknown.
    fn evict_waiting<C: Caller>(&mut self, which: Which, caller: &mut C) -> bool {
        let Some(page) = self.waiting.evict(which, caller) else { return false };
        if get(&self.known, page) {
            self.ghosts -= 1;
        } else {
            caller.forget(page);
        }
        true
    }

    /// Evicts a page: of a window long unused, or the policy's; other waiting pages leave if the policy's are refused.
    fn make_room<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        if self.evict_waiting(Which::UnusedFor(self.policy.capacity()), caller) {
            return Ok(());
        }
        let answer = match self.policy.is_empty() {
            true => Err(AllRefused),
            false => self.ask(None, caller, |policy, between| policy.evict(between)),
        };
        answer.or_else(|refused| if self.evict_waiting(Which::Any, caller) { Ok(()) } else { Err(refused) })
    }

    fn read_ahead<C: Caller>(&mut self, page: u32, caller: &mut C) -> Result<(), AllRefused> {
        let capacity = self.policy.capacity();
        let most = if self.is_full() { capacity / MOST } else { capacity };
        while !self.waiting.has_room(most) {
            if !self.evict_waiting(Which::UnusedFor(capacity), caller) {
                return Err(AllRefused);
            }
        }
        if self.is_full() {
            self.make_room(caller)?;
        }
        self.ghosts += u32::from(get(&self.known, page));
        self.waiting.push(page);
        Ok(())
    }
}

impl<P: Policy> Policy for WithReadahead<P> {
    const INFO: Info = P::INFO;

    fn needs_future(settings: &Settings) -> bool {
        P::needs_future(settings)
    }

    fn check_settings(settings: &Settings) -> Result<(), String> {
        P::check_settings(settings)
    }

    fn new(setup: &Setup) -> Self {
        Self::of(setup, true)
    }

    fn ranks_readahead(&self) -> bool {
        true
    }

    fn capacity(&self) -> u32 {
        self.policy.capacity()
    }

    fn len(&self) -> u32 {
        self.policy.len() + self.waiting.len
    }

    fn ghosts(&self) -> u32 {
        self.policy.ghosts() - self.ghosts
    }

    fn contains(&self, page: u32) -> bool {
        self.policy.contains(page) || self.waiting.has(page)
    }

    fn waits(&self, page: u32) -> bool {
        self.waiting.has(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.policy.prefetch(page);
    }

    #[inline]
    fn begin_request(&mut self) {
        self.policy.begin_request();
    }

    #[inline]
    fn hit(&mut self, reference: &Reference) {
        self.policy.hit(reference);
    }

    fn first_use<C: Caller>(&mut self, reference: &Reference, caller: &mut C) {
        if self.ranks {
            return self.policy.first_use(reference, caller);
        }
        // If another thread's report came first, the policy has the page already.
        let Some(slot) = self.waiting.slots.of(reference.page) else { return };
        self.waiting.use_first(slot);
        self.ghosts -= u32::from(get(&self.known, reference.page));
        let admitted = self.ask(Some(reference.page), caller, |policy, between| policy.miss(reference, between));
        admitted.expect("a policy with a free frame admits a page");
        set(&mut self.known, reference.page, true);
    }

    fn awaits_use(&self, page: u32) -> bool {
        self.waiting.has(page) || self.policy.awaits_use(page)
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.ranks {
            return self.policy.miss(reference, caller);
        }
        if reference.operation == Operation::Readahead {
            return self.read_ahead(reference.page, caller);
        }
        self.waiting.admitted();
        if self.waiting.len > 0 && self.is_full() {
            self.make_room(caller)?;
        }
        self.ask(None, caller, |policy, between| policy.miss(reference, between))?;
        set(&mut self.known, reference.page, true);
        Ok(())
    }

    #[inline]
    fn joins(&self) -> bool {
        self.ranks && self.policy.joins()
    }

    fn join(&mut self, pages: &[u32]) {
        if self.ranks {
            self.policy.join(pages);
        }
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        if self.ranks { self.policy.evict(caller) } else { self.make_room(caller) }
    }

    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        if !self.waiting.has(reference.page) {
            self.policy.evicted_above(reference, hits);
        }
    }

    fn remove<C: Caller>(&mut self, page: u32, caller: &mut C) {
        if self.ranks {
            return self.policy.remove(page, caller);
        }
        if let Some(slot) = self.waiting.slots.of(page) {
            self.waiting.take(slot);
            self.ghosts -= u32::from(get(&self.known, page));
        }
        if get(&self.known, page) {
            self.ask(Some(page), caller, |policy, between| policy.remove(page, between));
            set(&mut self.known, page, false);
        }
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        self.policy.discard(object, blocks);
    }

    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        self.policy.control(control)
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        if self.ranks {
            return self.policy.set_capacity(capacity, caller);
        }
        self.ask(None, caller, |policy, between| policy.set_capacity(capacity, between));
        self.waiting.reserve(self.waiting.slots.pages(), capacity);
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        self.policy.host()
    }

    fn reserve(&mut self, pages: u32) {
        self.policy.reserve(pages);
        if !self.ranks {
            self.waiting.reserve(pages, self.policy.capacity());
            self.known.resize(self.known.len().max((pages as usize).div_ceil(64)), 0);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.policy.state(show);
        if self.waiting.begun {
            show("waiting", f64::from(self.waiting.len));
        }
    }

    fn draw(&self, drawing: &mut Drawing) {
        self.policy.draw(drawing);
        if self.waiting.begun {
            drawing.waiting(self.waiting.pages());
        }
    }

    fn bytes(&self) -> usize {
        self.policy.bytes() + self.waiting.bytes() + self.known.capacity() * size_of::<u64>()
    }

    fn check_invariants(&self) {
        self.policy.check_invariants();
        self.waiting.check();
        assert!(self.len() <= self.capacity()); // WR1
        assert!(self.waiting.pages().all(|page| !self.policy.contains(page))); // WR1
        if !self.ranks {
            assert_eq!(self.waiting.pages().filter(|&page| get(&self.known, page)).count(), self.ghosts as usize); // WR2
            let known: u32 = self.known.iter().map(|word| word.count_ones()).sum();
            assert_eq!(known, self.policy.len() + self.policy.ghosts()); // WR2
        }
    }
}
