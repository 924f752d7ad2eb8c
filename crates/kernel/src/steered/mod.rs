//! What the policy makes of the kernel's page cache, or of programs' memory: uses, arrivals and departures go in, folios that are to leave come out.
//!
//! ```text
//!   used, added, removed -----> pool (policy, owners, managers, figures)
//!            |                    | victims, and whose use it awaits
//!            v                    v
//!        residents <-------- let go: kept until no page of the folio is wanted ------> leaving
//! ```
//!
//! Nothing here calls the kernel, so that streams of events can be played to it. A victim of the policy is let go at once, as a dirty page of the pool goes to the laundry:
//! the policy decides as in the simulator, whatever keeps the page in memory for a while. Pages that are kept so take room, and the policy has fewer.

use crate::common::{Common, News, Side};
use crate::residents::Residents;
use foldhash::fast::RandomState;
use forebay_basis::{Operation, Place};
use forebay_pool::device::Device;
use forebay_pool::{Handle, Pool, Share, Together, Volume, VolumeConfig};
use hashbrown::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// The policy's capacity follows the pages that are kept in steps of a part in this many of the size.
const STEPS: u64 = 64;
/// How long fewer of them have to be kept before the policy has more.
const EASE: Duration = Duration::from_millis(250);

/// Pages that are remembered as let go before they came: 256 KiB.
const MOST_EARLY: usize = 1 << 14;

/// What has happened to pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Uses that found their page in the kernel's cache.
    pub kernel_hits: u64,
    /// Uses that did not.
    pub kernel_misses: u64,
    /// Pages that the policy has let go.
    pub let_go: u64,
    /// Pages that have left after that.
    pub dropped: u64,
    /// Pages that were used again before they had left.
    pub rescued: u64,
    /// Pages that the kernel has reclaimed by itself.
    pub reclaimed: u64,
}

/// How the policy gets to know of pages.
#[derive(Clone, Copy)]
enum How {
    /// They are used, by the owner of a number.
    Used(Operation, Option<u32>),
    /// The kernel has read them ahead.
    ReadAhead,
    /// They were there before anybody looked.
    Found,
}

/// The page cache of files, or the memory of programs, and the policy over it.
pub(crate) struct Steered {
    common: Arc<Common>,
    side: Side,
    handle: Handle,
    residents: Residents,
    /// Pages that were let go, and may leave.
    leaving: Vec<Place>,
    /// Pages that were used, and let go before the kernel has added them: they leave when they come, and were not read ahead.
    early: HashSet<Place, RandomState>,
    pages: Pages,
    /// Pages that the kernel has added.
    came: u64,
    /// The size that was asked for, and what of it the policy may have as far as this side knows, in pages.
    asked: u64,
    capacity: u64,
    /// It has more, as shares need it: it gets that when they need less.
    has_more: bool,
    /// When it was changed last.
    fitted: Instant,
    kept: Kept,
}

/// How few pages were kept lately.
///
/// Where two sides have one size, it is this that takes room of the policy's, and not what is kept at the moment: a large read ahead of a file is kept, all of it, for some
/// milliseconds, and memory in use would leave for these.
struct Kept {
    since: Instant,
    /// The fewest in this period, and in the one before.
    least: [u64; 2],
}

impl Kept {
    fn least(&mut self, kept: u64, now: Instant) -> u64 {
        if now.saturating_duration_since(self.since) >= EASE {
            *self = Self { since: now, least: [kept, self.least[0]] };
        }
        self.least[0] = self.least[0].min(kept);
        self.least[0].min(self.least[1])
    }
}

/// The size, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// As it was asked for.
    pub(crate) asked: u64,
    /// What of it the kernel and others leave.
    pub(crate) left: u64,
    /// Pages that the policy has let go, and that count until they have left.
    pub(crate) kept: u64,
}

impl Steered {
    /// One side of what a pool steers.
    ///
    /// # Errors
    /// The pool has no handle left, or steers this side already.
    pub(crate) fn new(common: Arc<Common>, side: Side) -> Result<Self, forebay_pool::Error> {
        common.begin(side)?;
        let (handle, capacity) = (common.pool().handle()?, common.pool().capacity() / PAGE);
        Ok(Self {
            common,
            side,
            handle,
            residents: Residents::default(),
            leaving: Vec::new(),
            early: HashSet::default(),
            pages: Pages::default(),
            came: 0,
            asked: capacity,
            capacity,
            has_more: false,
            fitted: Instant::now(),
            kept: Kept { since: Instant::now(), least: [0; 2] },
        })
    }

    /// The pool.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        self.common.pool()
    }

    /// A new object of the pool, for pages of this side.
    pub(crate) fn attach(&self, bytes: Arc<dyn Device>, config: VolumeConfig) -> Arc<Volume> {
        let volume = self.pool().attach(bytes, config);
        self.common.name(volume.id(), self.side);
        volume
    }

    /// Whether the other side steers, too.
    pub(crate) fn has_both(&self) -> bool {
        self.common.has_both()
    }

    /// Shows the other side how many pages are there.
    pub(crate) fn show(&self, there: u64) {
        self.common.show(self.side, there, self.came);
    }

    /// How many pages of the other side are there.
    pub(crate) fn beside(&self) -> u64 {
        self.common.beside(self.side).0
    }

    /// Pages that have come, of both sides: also those that the kernel has read ahead.
    pub(crate) fn all_came(&self) -> u64 {
        self.came + self.common.beside(self.side).1
    }

    /// What is in the kernel's cache.
    pub(crate) fn residents(&self) -> &Residents {
        &self.residents
    }

    /// What has happened so far.
    pub(crate) fn pages(&self) -> Pages {
        self.pages
    }

    /// Something is about to happen to a page: of several that are expected, memory is waited for once.
    pub(crate) fn expect(&self, object: u32, page: u64) {
        if !self.residents.all_known(object, page..page + 1) {
            self.handle.expect(object, page);
        }
    }

    /// Pages are used, by the owner of a number in the pool: the kernel has them, or is about to add them.
    pub(crate) fn used(
        &mut self,
        volume: &Arc<Volume>,
        pages: Range<u64>,
        (operation, owner): (Operation, Option<u32>),
    ) {
        let (there, _) = self.residents.count(volume.id(), pages.clone());
        self.pages.kernel_hits += there;
        self.pages.kernel_misses += pages.end - pages.start - there;
        if self.residents.all_known(volume.id(), pages.clone()) {
            return self.handle.refer_known(volume, pages.end - pages.start);
        }
        self.refer(volume, pages, How::Used(operation, owner));
    }

    /// The kernel has added a folio of `count` pages. Those of them that nobody asked for were read ahead.
    pub(crate) fn added(&mut self, volume: &Arc<Volume>, first: u64, count: u64) {
        self.residents.add(volume.id(), first, count);
        self.came += count;
        let pages = first..first + count;
        if self.early.is_empty() {
            return self.refer_unwanted(volume, pages, How::ReadAhead);
        }
        let object = volume.id();
        for block in pages {
            if !self.early.remove(&Place { object, block }) {
                self.refer_unwanted(volume, block..block + 1, How::ReadAhead);
            } else if !self.residents.is_wanted(object, block) {
                self.leaving.push(Place { object, block });
            }
        }
    }

    /// Pages are found in the cache, at the start or after events were lost.
    pub(crate) fn found(&mut self, volume: &Arc<Volume>, pages: Range<u64>) {
        self.residents.find(volume.id(), pages.clone());
        self.refer_unwanted(volume, pages, How::Found);
    }

    /// Pages have left the cache. `reclaimed`: the kernel has chosen them.
    pub(crate) fn removed(&mut self, volume: &Volume, first: u64, count: u64, reclaimed: bool) {
        let pages = first..first + count;
        let (_, kept) = self.residents.count(volume.id(), pages.clone());
        if reclaimed {
            self.pages.reclaimed += count;
        } else {
            self.pages.dropped += kept;
        }
        self.residents.remove(volume.id(), pages.clone());
        if self.handle.left_elsewhere(volume, pages.clone()) > 0 {
            self.residents.want(volume.id(), pages.clone(), false);
            // Those that have just left are not the policy's victims.
            self.settle(|place| !(place.object == volume.id() && pages.contains(&place.block)));
        }
    }

    /// A file is steered no more, and has left the pool: nothing of it is known.
    pub(crate) fn forget(&mut self, object: u32) {
        self.residents.forget(object);
        // What has left with it is no victim, and its number may be another's.
        self.settle(|place| place.object != object);
        self.leaving.retain(|place| place.object != object);
        self.early.retain(|place| place.object != object);
    }

    /// Pages that are there are not needed any more, as somebody says: they leave as if the policy had chosen them.
    pub(crate) fn give_up(&mut self, volume: &Volume, pages: Range<u64>) {
        let (there, kept) = self.residents.count(volume.id(), pages.clone());
        self.pages.let_go += there - kept;
        self.handle.left_elsewhere(volume, pages.clone());
        // It has not chosen them.
        self.settle(|place| !(place.object == volume.id() && pages.contains(&place.block)));
        self.residents.want(volume.id(), pages.clone(), false);
        self.leaving.extend(pages.map(|block| Place { object: volume.id(), block }));
    }

    /// Pages could not leave, and are the policy's again, as if an owner had used them.
    pub(crate) fn stayed(&mut self, volume: &Arc<Volume>, pages: Range<u64>, owner: Option<u32>) {
        self.refer(volume, pages, How::Used(Operation::Read, owner));
    }

    /// Changes a share while the cache may have `size` pages.
    ///
    /// # Errors
    /// The share cannot be, and is as it was.
    pub(crate) fn change_share(
        &mut self,
        group: &Together,
        share: Share,
        size: u64,
        now: Instant,
    ) -> Result<(), forebay_pool::Error> {
        if self.capacity < size {
            // What is kept takes no part of a min. It is taken account of when the size is kept next.
            self.has_more = !self.common.fit(self.side, size, size)?;
            (self.asked, self.capacity, self.fitted) = (size, size, now);
        }
        let changed = self.pool().change_share(group, share);
        self.settle(|_| true);
        changed
    }

    /// Makes all that is steered as large as this: the policy has what is not taken by pages that are kept. It never has less than the mins of shares need.
    ///
    /// # Errors
    /// The pool cannot be as large.
    pub(crate) fn fit(&mut self, Size { asked, left, kept }: Size, now: Instant) -> Result<(), forebay_pool::Error> {
        let kept = if self.common.has_both() { self.kept.least(kept, now) } else { kept };
        let step = (left / STEPS).max(1);
        let reserved = left.saturating_sub(self.capacity);
        let wanted = kept.next_multiple_of(step);
        // It has less at once, and more when that has been enough for a while.
        let less = wanted > reserved || self.capacity > left;
        let more = wanted + step < reserved && now.saturating_duration_since(self.fitted) >= EASE;
        let capacity = if less || more { left.saturating_sub(wanted).max(step) } else { self.capacity };
        if (asked, capacity) != (self.asked, self.capacity) || self.has_more {
            self.has_more = !self.common.fit(self.side, asked, capacity)?;
            (self.asked, self.capacity, self.fitted) = (asked, capacity, now);
            self.settle(|_| true);
        }
        Ok(())
    }

    /// Folios of files that no wanted page keeps: in order, neighbours as one range.
    pub(crate) fn take_leaving(&mut self) -> Vec<(u32, Range<u64>)> {
        // Some may have been chosen for the other side.
        self.settle(|_| true);
        let mut places = std::mem::take(&mut self.leaving);
        places.sort_unstable_by_key(|place| (place.object, place.block));
        let mut ranges: Vec<(u32, Range<u64>)> = Vec::new();
        for Place { object, block } in places {
            match ranges.last_mut() {
                Some((of, range)) if *of == object && range.contains(&block) => {}
                last => {
                    let Some(folio) = self.residents.leaving(object, block) else { continue };
                    match last {
                        Some((of, range)) if *of == object && range.end == folio.start => range.end = folio.end,
                        _ => ranges.push((object, folio)),
                    }
                }
            }
        }
        ranges
    }

    /// Tells the policy of the pages that it does not have, and lets those go that it does not take.
    fn refer_unwanted(&mut self, volume: &Arc<Volume>, pages: Range<u64>, how: How) {
        let mut start = pages.start;
        while start < pages.end {
            let wanted = self.residents.is_wanted(volume.id(), start);
            let end = (start..pages.end).find(|&page| self.residents.is_wanted(volume.id(), page) != wanted);
            let run = start..end.unwrap_or(pages.end);
            start = run.end;
            if !wanted {
                self.refer(volume, run, how);
            }
        }
    }

    fn refer(&mut self, volume: &Arc<Volume>, pages: Range<u64>, how: How) {
        let object = volume.id();
        self.handle.set_owner(if let How::Used(_, Some(owner)) = how { owner } else { object });
        let mut start = pages.start;
        while start < pages.end {
            // A use of more pages than the cache holds has victims among them: they are let go before the next come.
            let end = pages.end.min(start + self.capacity.clamp(1, 64));
            let (_, kept) = self.residents.count(object, start..end);
            let pages = start..end;
            let referred = match how {
                How::Used(operation, _) => {
                    self.pages.rescued += kept;
                    self.handle.refer(volume, pages, operation)
                }
                How::ReadAhead => self.handle.refer(volume, pages, Operation::Readahead),
                How::Found => self.handle.find(volume, pages),
            };
            if referred.refused == 0 {
                // As of a hit they mostly are.
                if !self.residents.all_wanted(object, start..end) {
                    self.residents.want(object, start..end, true);
                }
            } else {
                for page in start..end {
                    let wanted = self.handle.is_resident(volume, page);
                    self.residents.want(object, page..page + 1, wanted);
                    if !wanted {
                        self.leaving.push(Place { object, block: page });
                    }
                }
            }
            self.settle(|_| true);
            start = end;
        }
    }

    /// Takes note of what the policy has said, and of the victims that `are` any.
    ///
    /// Of the other side's doings it learns in the next turn. Until then the use of a page may not be told that the policy has begun to wait for.
    fn settle(&mut self, are: impl Fn(&Place) -> bool) {
        let News { victims, awaited } = self.common.take_news(self.side);
        for (place, awaited) in awaited {
            self.residents.await_use(place.object, place.block, awaited);
        }
        for place in victims.into_iter().filter(are) {
            // It was used again since.
            if self.handle.has(place.object, place.block) {
                self.residents.await_use(place.object, place.block, true);
                continue;
            }
            self.residents.want(place.object, place.block..place.block + 1, false);
            self.pages.let_go += 1;
            if self.residents.is_there(place.object, place.block) {
                self.leaving.push(place);
                continue;
            }
            // Of too many, some may never come: there is nothing at these places, or they could not be read.
            if self.early.len() == MOST_EARLY {
                self.early.clear();
            }
            self.early.insert(place);
        }
    }
}

#[cfg(test)]
impl Steered {
    /// One side of a new pool, which has this policy and capacity.
    pub(crate) fn played(policy: &str, pages: u64, side: Side) -> Self {
        let spec = forebay_policy::Spec::parse(policy).expect("a policy");
        let pool = Pool::new(forebay_pool::Config::elsewhere(pages * PAGE, spec)).expect("a pool");
        Self::new(Common::new(Arc::new(pool)).expect("its only user"), side).expect("it begins")
    }
}

#[cfg(test)]
mod tests;
