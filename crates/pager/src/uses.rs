//! How uses of resident pages are seen where the policy says which it waits for.
//!
//! A processor's reference bit is exact because to clear it is to wait for the next use. So it is here:
//!
//! 1. A page whose bit the policy's hand has cleared loses its mapping before the program goes on. Its next use is a minor fault, which sets the bit.
//!    A page whose bit is set stays mapped: its uses change nothing.
//! 2. A page that was missed is mapped, so that the instruction which touched it can go on. At the next fault of that thread the instruction is done:
//!    then the page loses its mapping. What is used again before that is not seen.
//! 3. So that the next fault is soon, a thread that has missed a page finds the two pages unmapped, too, that it was last seen to use: it most
//!    likely uses one of them next. These are its *wires*.
//!
//! 4. To take one mapping away interrupts the other cores, which costs as much as a miss of fast storage. So where storage is fast, pages of 1 and 2 lose
//!    their mapping together, when the memory of some that have left is given back: then others wait for the pool anyway. What is used again before that is not
//!    seen; those that have left are one page in 128 at most.
//!
//! One instruction may need several pages. It ends: each fault sets a bit, a page whose bit is set stays mapped, and wires are taken at misses alone.
//!
//! 5. Who watches uses is to learn of all, whatever the policy: of what is mapped only the few pages mapped last stay so ([`WATCHED`]). Nothing bounds what that costs.
//!
//! What all but 5 costs is bounded: for each page that was missed, the mappings whose faults take half the time of the miss, [`FOR_A_MISS`] at most; and what the
//! share of a processor allows that the pager was given. So where storage is slow all uses are seen, and where it is fast a program that pages takes
//! half as long again at most. With a share of 1 each miss has [`FOR_A_MISS`]. A mapping that cannot be afforded when its turn is stays, and is *late*: it is taken away
//! as soon as it can be afforded. Until then uses of its page are not seen, and the policy takes it as not used. A minor fault that maps several pages pays for one
//! mapping of each but the first: those in a row (`order.rs`) have cost one fault, and those that were read ahead are misses that it saves.

use crate::bring::Brought;
use crate::extent::Extent;
use crate::messages::Kind;
use crate::pager::Shared;
use crate::space::Space;
use forebay_pool::Handle;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pages of a thread that show soon that it goes on.
const WIRES: usize = 2;

/// A thread without a fault for so long has surely used the page that it was given last.
const SURELY: Duration = Duration::from_millis(10);

/// Threads whose last faults are known.
const THREADS: usize = 64;

/// The most mappings taken away for each miss, over time. Programs that page need 3 to 5. A clock's hand that has come round over pages which were all
/// used needs as many as there are pages, for one miss.
const FOR_A_MISS: f64 = 6.0;

/// The most that may be taken away at once, after a time without need: as many as there are pages, and these at least.
const SAVED: f64 = 4096.0;

/// The part of the time of misses that it may take to see uses.
const OF_A_MISS: f64 = 0.5;

/// What a minor fault costs its program, in seconds, until it goes on: a thread of the pager wakes, and the program's.
const MINOR: f64 = 40e-6;

/// The same where the thread handles it that has it.
const MINOR_IN_PLACE: f64 = 5e-6;

/// Late mappings are taken away when this many can be afforded.
const BATCH: f64 = 32.0;
/// And no more of them at once.
const MOST_LATE: f64 = 512.0;

/// With a miss that takes so long storage is slow: mappings are taken away at once.
const SLOW: Duration = Duration::from_micros(200);

/// The pages that stay mapped while uses are watched: a part of the frames, and no fewer than the first, as an instruction may need several, nor more than the second.
const WATCHED: (usize, usize) = (8, 32);
const WATCHED_PART: usize = 8;

/// A page: its object, and where it begins.
type Page = (u32, usize);

#[derive(Debug)]
pub(crate) struct Uses {
    /// The share of a processor that may be spent; none where the policy does not say for which uses it waits.
    share: f64,
    /// What a minor fault costs, in seconds.
    minor: f64,
    /// The most mappings that may be taken away at once.
    most: f64,
    /// The most pages that stay mapped; 0: nobody watches.
    watched: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    threads: Vec<Thread>,
    /// Pages that stay mapped while uses are watched, the last mapped at the back.
    watched: VecDeque<Page>,
    /// How many mappings may be taken away, and when that was counted.
    left: f64,
    /// How many frames are still to be searched for late mappings, from `frame` on.
    to_look: usize,
    frame: usize,
    counted: Instant,
}

/// A thread of the program.
#[derive(Debug)]
struct Thread {
    number: u32,
    last_fault: Instant,
    /// Pages that it was given by its last fault, and which the policy waits to see used again.
    given: Vec<Page>,
    /// Pages that it was last seen to use, the last first.
    wires: [Option<Page>; WIRES],
}

impl Uses {
    pub(crate) fn new(share: f64, in_place: bool, pages: usize, watched: bool) -> Self {
        let minor = if in_place { MINOR_IN_PLACE } else { MINOR };
        let most = SAVED.max(pages as f64);
        let watched = if watched { (pages / WATCHED_PART).clamp(WATCHED.0, WATCHED.1) } else { 0 };
        let (threads, window) = (Vec::new(), VecDeque::with_capacity(watched));
        let seen = Seen { threads, watched: window, left: most, to_look: 0, frame: 0, counted: Instant::now() };
        Self { share, minor, most, watched, seen: Mutex::new(seen) }
    }

    /// A fault has been handled, and its thread waits still: the policy learns of it, and the mappings are taken away of pages whose next use is to be seen.
    pub(crate) fn follow(&self, shared: &Shared, handle: &Handle<Space>, brought: &Brought<'_>) {
        // At once: which page the policy evicts next depends on it.
        handle.hand_over();
        if self.watched > 0 {
            return self.keep_few(shared, brought);
        }
        if self.share == 0.0 {
            return;
        }
        let Brought { region, at, length, fault, took } = brought;
        let (object, given) = (region.volume.id(), *at..at + length);
        let others = |&(of, page): &Page| of != object || !given.contains(&page);
        let at_once = self.share == 1.0 || *took >= SLOW;
        let mut seen = self.lock();
        let mut pages = shared.space.take_cleared();
        let thread = seen.thread(fault.thread, &mut pages);
        pages.append(&mut thread.given);
        // Another thread may have used them since.
        pages.retain(|&page| others(&page) && shared.space.awaits(page));
        let awaited = given.clone().step_by(shared.page_size).map(|page| (object, page));
        thread.given.extend(awaited.filter(|&page| shared.space.awaits(page)));
        let page = (object, *at);
        match fault.kind {
            Kind::Missing if at_once && !thread.given.is_empty() => {
                pages.extend(thread.wires.into_iter().flatten().filter(others));
            }
            Kind::Unmapped if thread.wires[0] != Some(page) => thread.wires = [Some(page), thread.wires[0]],
            _ => {}
        }
        let now = Instant::now();
        let passed = now.duration_since(std::mem::replace(&mut seen.counted, now));
        let missed = if fault.kind == Kind::Missing { self.for_a_miss(*took) } else { 0.0 };
        // One fault was enough for all pages that are mapped again, and those that were read ahead are misses that were saved.
        let beside = if fault.kind == Kind::Unmapped { *length / shared.page_size - 1 } else { 0 };
        let saved = missed + beside as f64;
        seen.left = (seen.left + saved + self.share * passed.as_secs_f64() / self.minor).min(self.most);
        if pages.len() > seen.left as usize {
            seen.to_look = shared.space.frames();
            pages.truncate(seen.left as usize);
        }
        seen.left -= pages.len() as f64;
        let late = if seen.to_look > 0 && seen.left >= BATCH { seen.left.min(MOST_LATE) as usize } else { 0 };
        seen.left -= late as f64;
        drop(seen);
        let unmapped = if at_once { shared.space.unmap(pages) } else { shared.space.unmap_later(pages) };
        shared.counters.unmapped.add(unmapped as u64);
        if late > 0 {
            self.catch_up(shared, late);
        }
    }

    /// Takes the mapping of all pages away but of those mapped last, as uses are watched.
    fn keep_few(&self, shared: &Shared, Brought { region, at, length, .. }: &Brought<'_>) {
        let object = region.volume.id();
        let given = (*at..at + length).step_by(shared.page_size).map(|page| (object, page));
        let mut seen = self.lock();
        let Seen { watched, .. } = &mut *seen;
        watched.retain(|&(of, page)| of != object || !(*at..at + length).contains(&page));
        watched.extend(given);
        let too_many = watched.len().saturating_sub(self.watched);
        let pages = watched.drain(..too_many).collect();
        drop(seen);
        shared.counters.unmapped.add(shared.space.unmap(pages) as u64);
    }

    /// Takes late mappings away, `most` at most, which are counted already.
    fn catch_up(&self, shared: &Shared, most: usize) {
        let seen = self.lock();
        let from = seen.frame;
        // The instructions for which these came may not be done.
        let mut given: Vec<Page> = seen.threads.iter().flat_map(|thread| &thread.given).copied().collect();
        drop(seen);
        given.sort_unstable();
        let may = |extent: &Extent, page: Page| extent.awaits(page.1) && given.binary_search(&page).is_err();
        let (unmapped, next) = shared.space.unmap_some(from, most, may);
        let frames = shared.space.frames();
        // It comes round if there are few of them.
        let looked = if next == from { frames } else { (next + frames - from) % frames };
        let mut seen = self.lock();
        seen.frame = next;
        seen.to_look = seen.to_look.saturating_sub(looked);
        seen.left += (most - unmapped) as f64;
        drop(seen);
        shared.counters.unmapped.add(unmapped as u64);
    }

    /// How many mappings may be taken away for a miss.
    fn for_a_miss(&self, took: Duration) -> f64 {
        let afforded = if self.share < 1.0 { OF_A_MISS * took.as_secs_f64() / self.minor } else { f64::INFINITY };
        afforded.min(FOR_A_MISS)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// What is known of a thread that has a fault. Pages of others are added that have surely been used by the instruction for which they came.
    fn thread(&mut self, number: u32, pages: &mut Vec<Page>) -> &mut Thread {
        let now = Instant::now();
        let quiet = |thread: &Thread| now.duration_since(thread.last_fault) > SURELY;
        self.threads.iter_mut().filter(|thread| quiet(thread)).for_each(|thread| pages.append(&mut thread.given));
        let known = self.threads.iter().position(|thread| thread.number == number);
        let at = known.unwrap_or_else(|| {
            let new = Thread { number, last_fault: now, given: Vec::new(), wires: [None; WIRES] };
            if self.threads.len() < THREADS {
                self.threads.push(new);
                return self.threads.len() - 1;
            }
            let (at, oldest) =
                self.threads.iter_mut().enumerate().min_by_key(|(_, thread)| thread.last_fault).expect("they are many");
            pages.append(&mut std::mem::replace(oldest, new).given);
            at
        });
        self.threads[at].last_fault = now;
        &mut self.threads[at]
    }
}
