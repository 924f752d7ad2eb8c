//! The contract between a policy and its caller.

use crate::control::{Control, Uncontrolled};
use crate::drawing::Drawing;
use crate::guest::Host;
use crate::layout::Layout;
use crate::managers::Assignment;
use crate::parameters::{Parameter, Settings};
use crate::parts::prefetch::prefetch;
use forebay_basis::{DeviceCost, Operation, Place};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A replacement policy: the metadata of a cache's pages, and the choice of victims.
///
/// A page is *resident* (it has a frame), a *ghost* (the policy remembers it, it has no frame) or *unknown*. The caller
/// asks [`contains`](Policy::contains) and then tells of the reference by [`hit`](Policy::hit) or [`miss`](Policy::miss).
///
/// What every policy keeps to, and the contract tests check over the whole registry:
///
/// - C1. `len() <= capacity()`, always; `ghosts()` never exceeds what [`Info::ghosts`] states.
/// - C2. After `miss` returns `Ok` the page is resident; after an `Err` every page that was resident still is, but for those
///   whose eviction the caller had accepted, and the page itself is not.
/// - C3. A page leaves the resident set only by an [`evict`](Caller::evict) that the caller accepted, or by `remove`.
/// - C4. A page leaves the policy's memory only by a [`forget`](Caller::forget) that follows, or by `remove`; afterwards
///   its number may stand for another page. A `miss` may forget the ghost of the very page that it then admits.
/// - C5. When every resident page has been refused the answer is [`AllRefused`], not an endless search: refusals cost time in
///   proportion to the pages, or to n log n where they are in a heap or a tree, and no page is offered more than a few times.
/// - C6. It runs for years: a clock of the policy's own that could wrap is set back or counted anew before it does, or compared by
///   differences that stay small.
/// - C7. With fewer pages than its capacity it admits a page without evicting one.
/// - C8. If it claims [`Info::awaits_uses`], it decides the same when it learns of a hit only of a page that it awaits: from its
///   admission, a hit or an [`await_use`](Caller::await_use) on, if [`awaits_use`](Policy::awaits_use) is `true` then, to its next hit.
///
/// Page numbers, owners and objects are small numbers without large gaps: a policy may keep arrays by them, which never shrink. When
/// no page of an object is known any more, its number may be given to another; where a policy remembers more than pages (runs,
/// timestamps, frequencies), its guesses about that object err at first.
pub trait Policy: Sized + Send + 'static {
    /// What is known of the policy before it is made.
    const INFO: Info;

    /// Whether it needs [`Setup::future`] with these settings.
    fn needs_future(_: &Settings) -> bool {
        Self::INFO.off_line
    }

    /// The most ghosts with these settings, in multiples of the capacity, at the longest history: no more than [`Info::ghosts`].
    fn most_ghosts(_: &Settings) -> u32 {
        Self::INFO.ghosts
    }

    /// An empty cache.
    fn new(setup: &Setup) -> Self;

    /// The most pages that may be resident.
    fn capacity(&self) -> u32;

    /// How many pages are resident.
    fn len(&self) -> u32;

    /// Whether no page is resident.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ghosts are remembered.
    fn ghosts(&self) -> u32 {
        0
    }

    /// Whether `page` is resident.
    fn contains(&self, page: u32) -> bool;

    /// `page` is going to be referenced soon: a chance to fetch what the policy knows of it from memory. Changes nothing.
    #[inline]
    fn prefetch(&self, _page: u32) {}

    /// A new request of a user begins: no device reads its pages together with earlier ones. The simulator says so if it has a device.
    #[inline]
    fn begin_request(&mut self) {}

    /// A resident page is referenced.
    fn hit(&mut self, reference: &Reference);

    /// Whether the policy itself ranks pages that are read ahead. It then gets each as a [`miss`](Policy::miss) by [`Operation::Readahead`]
    /// and a [`first_use`](Policy::first_use). From the others such pages wait apart until their first use, which is their miss: see
    /// [`WithReadahead`](crate::readahead::WithReadahead).
    fn ranks_readahead(&self) -> bool {
        false
    }

    /// Whether a resident page was read ahead, and its first use is its admission.
    #[inline]
    fn waits(&self, _page: u32) -> bool {
        false
    }

    /// A resident page that was read ahead is referenced for the first time. That is the use it was fetched for, and no proof that the page is
    /// used again. Only policies that [rank such pages](Policy::ranks_readahead) have any. No page is evicted, but ghosts may be forgotten.
    #[inline]
    fn first_use<C: Caller>(&mut self, reference: &Reference, _caller: &mut C) {
        self.hit(reference);
    }

    /// Whether a hit of this resident page would change anything. Asked of policies with [`Info::awaits_uses`] alone.
    #[inline]
    fn awaits_use(&self, _page: u32) -> bool {
        true
    }

    /// A page that is not resident is referenced: makes room and admits it. If the policy ranks such pages, it may also be read ahead
    /// ([`Operation::Readahead`]).
    ///
    /// # Errors
    /// [`AllRefused`] if there is no room and the caller refuses every victim: the page is not admitted. A page that is read ahead may also
    /// be refused because too many wait for their first use.
    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused>;

    /// Makes resident pages one, as a folio of the kernel: used together, and evicted together. Each was alone before. An eviction may then offer several pages.
    /// By default pages stay single.
    fn join(&mut self, _pages: &[u32]) {}

    /// Whether it [joins](Self::join) pages. Uses of one folio by one reader, one after the other, are then one use, of which it learns once.
    #[inline]
    fn joins(&self) -> bool {
        false
    }

    /// Evicts one page: the caller wants a frame back without a reference.
    ///
    /// # Errors
    /// [`AllRefused`] if the caller refuses every resident page, or none is resident.
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused>;

    /// A hint, for a policy that does not know the future: a cache above this one has evicted a page, which had this many hits there since
    /// it came to it. `reference` reads if the page was clean; if it was dirty it writes, and its writeback has just been told as a
    /// reference of its own. By default a clean page that is resident is used now: the cache above no longer takes its uses.
    ///
    /// No page becomes resident, a ghost or unknown by a hint.
    fn evicted_above(&mut self, reference: &Reference, _hits: u32) {
        if reference.operation != Operation::Write && self.contains(reference.page) {
            self.hit(reference);
        }
    }

    /// The caller drops a page: resident or ghost, it becomes unknown. An unknown page is no error.
    fn remove<C: Caller>(&mut self, page: u32, caller: &mut C);

    /// Blocks of an object are given up: trimmed, or cut off with the end of a file. What comes there next is other data. Their pages are dropped by
    /// [`remove`](Policy::remove); this is for what a policy remembers by place, of pages too that it no longer knows.
    fn discard(&mut self, _object: u32, _blocks: Range<u64>) {}

    /// Tells a policy that has managers who is in charge, or what may go. Returns how many pages are on the owner's free-list.
    ///
    /// # Errors
    /// Why it does not do so: most policies have no managers.
    fn control(&mut self, _control: &Control) -> Result<u32, Uncontrolled> {
        Err(Uncontrolled::NoManagers)
    }

    /// Sets the capacity, which no longer is below `len()`, and lets go of ghosts that are now too many.
    /// Called by [`resize`](Policy::resize) alone.
    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C);

    /// Changes the capacity, evicting as many pages as no longer fit.
    ///
    /// # Errors
    /// [`AllRefused`] if the caller refuses to give up enough of them: the capacity is then what is still resident.
    ///
    /// # Panics
    /// If the capacity is 0.
    fn resize<C: Caller>(&mut self, capacity: u32, caller: &mut C) -> Result<(), AllRefused> {
        assert!(capacity > 0, "a cache holds at least one page");
        while self.len() > capacity {
            if let Err(refused) = self.evict(caller) {
                self.set_capacity(self.len(), caller);
                return Err(refused);
            }
        }
        self.set_capacity(capacity, caller);
        Ok(())
    }

    /// Where the policy is written, if that is elsewhere.
    fn host(&self) -> Option<Arc<dyn Host>> {
        None
    }

    /// Does work that calls the policy often, on one thread. A policy whose calls need something of their thread takes it here, once.
    fn within<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let Some(host) = self.host() else { return work(self) };
        let (mut work, mut answer) = (Some(work), None);
        host.within(&mut || answer = work.take().map(|work| work(self)));
        answer.expect("the host does the work")
    }

    /// Page numbers below `pages` may occur from now on.
    fn reserve(&mut self, pages: u32);

    /// Shows the policy's state, each figure under its name: partition sizes, targets, queue lengths.
    fn state(&self, _show: &mut dyn FnMut(&'static str, f64)) {}

    /// Draws what the policy keeps: each list in its order, with the marks of its pages, hands, and the numbers that it decides by.
    fn draw(&self, drawing: &mut Drawing);

    /// The bytes of memory that the policy holds.
    fn bytes(&self) -> usize;

    /// Recounts the whole state.
    ///
    /// # Panics
    /// If an invariant of the policy is broken.
    fn check_invariants(&self);

    /// Checks what the parameters' own bounds do not say.
    ///
    /// # Errors
    /// A sentence that says which values exclude each other.
    fn check_settings(_settings: &Settings) -> Result<(), String> {
        Ok(())
    }
}

/// The cache that a policy serves: it owns the frames and the page numbers.
pub trait Caller {
    /// Offers a resident page as victim. `true`: its frame is free, the page is evicted. `false`: it is refused (pinned,
    /// dirty, being read), nothing has happened, and the policy offers another.
    fn evict(&mut self, page: u32) -> bool;

    /// The policy remembers nothing of `page` any more: its number may be given to another page.
    fn forget(&mut self, page: u32);

    /// A hit of this resident page changes something again: its reference bit was cleared, or its count is below the most. Where that comes of the
    /// page's admission, or of a hit, nothing is said: [`Policy::awaits_use`] has it.
    #[inline(always)]
    fn await_use(&mut self, _page: u32) {}
}

/// Every victim was refused: there is no frame to be had now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllRefused;

impl fmt::Display for AllRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every resident page is pinned, dirty or being read: no frame can be freed now")
    }
}

impl std::error::Error for AllRefused {}

/// One use of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// The page's dense number.
    pub page: u32,
    /// Who uses it: a process or manager.
    pub owner: u32,
    /// Where it is.
    pub place: Place,
    /// How it is used.
    pub operation: Operation,
}

impl Reference {
    /// A read of `page` by nobody in particular, its block equal to its number.
    pub fn of(page: u32) -> Self {
        Self { page, place: Place { object: 0, block: u64::from(page) }, ..Self::default() }
    }
}

/// What is known of a policy before it is made. Fields that have their value in [`PLAIN`](Info::PLAIN) need not be given.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in full.
    pub title: &'static str,
    /// Authors, title, venue and year of its source.
    pub paper: &'static str,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
    /// Which parts of a [`Reference`] it looks at besides the page.
    pub uses: Uses,
    /// The most ghosts, in multiples of the capacity.
    pub ghosts: u32,
    /// The most bytes of metadata for each page number, whether its page is resident, a ghost or neither.
    pub bytes_per_page: usize,
    /// Whether it needs to know the references to come: a limit to compare with, not a cache to run.
    pub off_line: bool,
    /// Whether its choices depend on [`Setup::pages`]: it must know all page numbers at the start to decide as it would over the whole trace.
    pub needs_footprint: bool,
    /// The whole-number parameter that sets the length of the history, if there is one: [`ghosts`](Info::ghosts) states the ghosts at its most,
    /// and each step less is one ghost less per page of the capacity.
    pub history: Option<&'static str>,
    /// A real cache gives the number of a page that the policy has forgotten to another page. A policy that decides something by number, such
    /// as which pages are in a sample, states for how many pages numbers must be kept, in multiples of the capacity, for it to decide as in the
    /// simulator; a cache keeps as many of them as its metadata allows.
    pub numbers_kept: u32,
    /// Whether a policy that looks at places remembers what it knows of them by place. By page number it knows no more pages than a real cache
    /// keeps numbers for.
    pub remembers_by_place: bool,
    /// Whether a hit does no more than set a bit of its page. Then a caller may report the hits between two other calls in any order, and each
    /// page once: a cache that many threads use may keep the bits itself, without a lock, and report them before it asks for a victim. A
    /// policy of which that holds only at some settings does not claim it.
    pub hit_sets_bit: bool,
    /// Whether the policy says which pages it waits to see used: a hit of a resident page for which
    /// [`awaits_use`](Policy::awaits_use) is `false` changes nothing, and [`await_use`](Caller::await_use) says when that becomes `true`.
    /// So a caller that learns of uses at a price, as a pager does by faults, needs no others.
    pub awaits_uses: bool,
}

impl Info {
    /// A policy that claims nothing. The registry wants name, title, paper and bytes per page beside it.
    pub const PLAIN: Self = Self {
        name: "",
        title: "",
        paper: "",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 0,
        off_line: false,
        needs_footprint: false,
        history: None,
        numbers_kept: 0,
        remembers_by_place: false,
        hit_sets_bit: false,
        awaits_uses: false,
    };

    /// Whether it looks at places, and knows no more pages than a real cache keeps numbers for.
    pub const fn remembers_by_number(&self) -> bool {
        self.uses.place && !self.remembers_by_place
    }

    /// Whether it says what every policy must.
    pub(crate) const fn is_whole(&self) -> bool {
        !self.name.is_empty() && !self.title.is_empty() && !self.paper.is_empty() && self.bytes_per_page > 0
    }
}

/// Which parts of a [`Reference`] a policy looks at besides the page: the simulator need not fill in the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Object and block.
    pub place: bool,
    /// Owner and operation.
    pub request: bool,
    /// The disk's block numbers, where there is a [`Layout`].
    pub layout: bool,
}

impl Uses {
    /// The page alone.
    pub const PAGE: Self = Self { place: false, request: false, layout: false };
}

/// What a policy is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The most resident pages.
    pub capacity: u32,
    /// Page numbers are below this.
    pub pages: u32,
    /// The bytes of a page.
    pub page_size: u64,
    /// What reads cost, where that is known.
    pub device: Option<DeviceCost>,
    /// The values of the policy's parameters.
    pub settings: Settings,
    /// The references to come, for off-line policies.
    pub future: Option<Arc<Future>>,
    /// Which managers are in charge, for a policy that has managers.
    pub managers: Option<Arc<Assignment>>,
    /// Who makes it, for a policy that is written elsewhere.
    pub host: Option<Arc<dyn Host>>,
    /// Where files lie on disks, for a policy in front of a file system. `None`: places are the disk's own.
    pub layout: Option<Arc<dyn Layout>>,
}

impl Setup {
    /// A cache of `capacity` pages of 4 KiB over page numbers below `pages`.
    ///
    /// # Panics
    /// If the capacity is 0.
    pub fn new(capacity: u32, pages: u32, settings: Settings) -> Self {
        assert!(capacity > 0, "a cache holds at least one page");
        Self {
            capacity,
            pages,
            page_size: 4096,
            device: None,
            settings,
            future: None,
            managers: None,
            host: None,
            layout: None,
        }
    }
}

/// "Never again", in [`Future::next`].
pub const NEVER: u32 = u32::MAX;

/// How many references ahead the next use of a page is asked for.
const AHEAD: usize = 24;

/// All references of a run, known beforehand.
#[derive(Debug)]
pub struct Future {
    references: Arc<Vec<u32>>,
    next: Vec<u32>,
    pages: u32,
}

impl Future {
    /// The future of a run over `references` to pages below `pages`.
    ///
    /// # Panics
    /// If references and pages are 2^32 - 1 or more together.
    pub fn new(references: Arc<Vec<u32>>, pages: u32) -> Self {
        assert!(references.len() + (pages as usize) < NEVER as usize, "fewer than 2^32 - 1 references and pages");
        let mut next_of = vec![NEVER; pages as usize];
        let mut next = vec![NEVER; references.len()];
        for (time, &page) in references.iter().enumerate().rev() {
            if time >= AHEAD {
                prefetch(&next_of, references[time - AHEAD] as usize);
            }
            next[time] = std::mem::replace(&mut next_of[page as usize], time as u32);
        }
        let pages = next_of.iter().filter(|&&first| first != NEVER).count() as u32;
        Self { references, next, pages }
    }

    /// How many distinct pages are referenced.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// How many references there are.
    pub fn len(&self) -> usize {
        self.references.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// The page referenced at `time`, the first reference being at 0.
    pub fn page(&self, time: u32) -> u32 {
        self.references[time as usize]
    }

    /// When the page referenced at `time` is referenced next, or [`NEVER`].
    pub fn next(&self, time: u32) -> u32 {
        self.next[time as usize]
    }
}
