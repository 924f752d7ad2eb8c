//! What has to be done for a fault, on whichever thread: the pool brings the page, and it is mapped.

use crate::Error;
use crate::messages::{Fault, Kind};
use crate::pager::{Mapped, Notice, Shared};
use crate::space::Space;
use crate::userfault::Continued;
use forebay_pool::{Handle, Volume};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that are mapped by one fault, as far as they were read ahead: what a handle has pins for.
const AROUND: usize = 60 << 10;

/// A fault that has been handled: what is mapped now.
pub(crate) struct Brought<'a> {
    pub(crate) region: &'a Mapped,
    pub(crate) at: usize,
    pub(crate) length: usize,
    pub(crate) fault: Fault,
    /// How long that took.
    pub(crate) took: Duration,
}

impl Shared {
    fn count(&self, kind: Kind) {
        match kind {
            Kind::Missing => {
                self.counters.major.add(1);
                self.hand.missed(1);
            }
            Kind::Unmapped => self.counters.minor.add(1),
            Kind::Protected => self.counters.protection.add(1),
        }
    }

    /// Makes a page resident, and maps it for the program; if that fails, who touches it gets SIGBUS. Returns how many bytes from there on are mapped now.
    pub(crate) fn bring(&self, handle: &Handle<Space>, region: &Mapped, at: usize, fault: Fault) -> usize {
        let start = Instant::now();
        // One that was handed over has no message of the kernel's, which says the kind.
        let handed = self.space.faults.in_place;
        let kind = if handed { self.kind_of(handle, region, fault.address, fault.write).0 } else { fault.kind };
        let fault = Fault { kind, ..fault };
        // Several threads may write to one clean page at once. For the first it becomes dirty; the others have nothing more to be done for them.
        let block = (at / self.page_size) as u64;
        if kind != Kind::Protected || !handle.is_dirty(&region.volume, block) {
            self.count(kind);
        }
        let brought = try_to_bring(self, handle, region, at, fault.write, Some(fault)).transpose();
        let Some(brought) = brought else {
            self.counters.fault_time.add_time(start.elapsed());
            return self.page_size;
        };
        let mapped = *brought.as_ref().unwrap_or(&self.page_size);
        self.uses.follow(self, handle, &Brought { region, at, length: mapped, fault, took: start.elapsed() });
        self.counters.fault_time.add_time(start.elapsed());
        if let Err(error) = brought {
            self.fail(region, at, &error);
        }
        mapped
    }

    /// A page could not be brought: who touched it gets a signal.
    fn fail(&self, region: &Mapped, at: usize, error: &Error) {
        self.counters.failed.add(1);
        let name = region.volume.name();
        // Only its program can have made it writable. Readers keep the page.
        let refused = matches!(error, Error::Pool(forebay_pool::Error::ReadOnly { .. }));
        let (what, signal) = if refused { ("written", "SIGSEGV") } else { ("used", "SIGBUS") };
        match self.told.next(&format!("{name}: {error}"), Instant::now()) {
            None => tracing::debug!(%error, "{name}: the page at byte {at} cannot be {what}: {signal}"),
            Some(0) => tracing::error!(%error, "{name}: the page at byte {at} cannot be {what}: {signal}"),
            Some(others) => tracing::error!(
                %error,
                "{name}: the page at byte {at} cannot be {what}: {signal}; {others} more times since this was said last"
            ),
        }
        self.failure.iter().for_each(Notice::give);
        if refused && region.extent.refuse_writes(at).is_ok() {
            return;
        }
        if let Err(error) = region.extent.poison(at) {
            tracing::error!(%error, "nor can it be poisoned: who touches it waits for ever");
        }
    }

    /// The same on the thread that has the fault (`in_place.rs`). `false`: it may not be done there.
    pub(crate) fn bring_in_place(&self, region: &Mapped, address: usize, write: bool) -> bool {
        if !region.reads_in_place {
            return false;
        }
        let Some(seat) = self.seats.take(&self.pool) else { return false };
        let start = Instant::now();
        let (kind, at) = self.kind_of(seat.handle(), region, address, write);
        let brought = try_to_bring(self, seat.handle(), region, at, write, None);
        let Ok(Some(length)) = brought else { return false };
        self.count(kind);
        self.counters.in_place.add(1);
        let fault = Fault { address, write, kind, thread: own_number() };
        self.uses.follow(self, seat.handle(), &Brought { region, at, length, fault, took: start.elapsed() });
        self.counters.fault_time.add_time(start.elapsed());
        self.hand.turn(self);
        true
    }

    /// The most pages that one fault maps. Whoever watches is to see the first use of each.
    fn at_once(&self) -> u64 {
        if self.watch.is_some() { 1 } else { (AROUND / self.page_size).max(1) as u64 }
    }

    /// What the kernel does not say: of which kind a fault is. And where in the region its page begins.
    fn kind_of(&self, handle: &Handle<Space>, region: &Mapped, address: usize, write: bool) -> (Kind, usize) {
        let at = (address - region.extent.base as usize) / self.page_size * self.page_size;
        let kind = if !handle.is_resident(&region.volume, (at / self.page_size) as u64) {
            Kind::Missing
        } else if write && region.extent.is_mapped(at) {
            Kind::Protected
        } else {
            Kind::Unmapped
        };
        (kind, at)
    }

    /// Has a thread handle a fault of this one, and waits for it. The thread finds out of which kind it is.
    pub(crate) fn hand_over(&self, address: usize, write: bool) {
        self.space.faults.hand_over(Fault { address, write, kind: Kind::Missing, thread: own_number() });
    }
}

/// The number of this thread, as the kernel's messages have it.
fn own_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Brings a page, and returns how many bytes are mapped from there on. `None`: the fault is of a write, and regions are frozen; it waits, if it is given.
fn try_to_bring(
    shared: &Shared,
    handle: &Handle<Space>,
    region: &Mapped,
    at: usize,
    write: bool,
    fault: Option<Fault>,
) -> Result<Option<usize>, Error> {
    let Mapped { extent, volume, .. } = region;
    let block = (at / shared.page_size) as u64;
    let see = |pages: usize| {
        for page in 0..pages {
            let address = extent.base as usize + at + page * shared.page_size;
            shared.watch.iter().for_each(|watch| watch.see(address, write));
        }
    };
    handle.hint(volume, region.stream())?;
    if !write {
        let resident = handle.read_resident(volume, block);
        let filled = resident.is_none();
        let page = resident.map_or_else(|| handle.read_absent(volume, block), Ok)?;
        // A program that goes forward gets the pages read ahead for it with this fault: another would cost more than all the rest.
        let most = shared.at_once();
        let (in_row, mut again) = (region.order.before(block), 0);
        let ahead = (1..most).map_while(|next| {
            let ahead = handle.use_ahead(volume, block + next);
            let may = ahead.is_none() && next <= in_row && !extent.is_mapped(at + next as usize * shared.page_size);
            // It lost its mapping so that its use shows.
            let resident = if may { handle.read_resident(volume, block + next) } else { None };
            again += usize::from(resident.is_some());
            ahead.or(resident)
        });
        let ahead: Vec<_> = ahead.collect();
        let length = (1 + ahead.len()) * shared.page_size;
        region.order.note(block, 1 + ahead.len() as u64);
        // It may have been mapped as it was filled.
        let mapped = if filled && length == shared.page_size && extent.is_mapped(at) {
            Ok(Continued::Mapped)
        } else {
            extent.map(at, length, true)
        };
        shared.hand.missed((ahead.len() - again) as u64);
        see(1 + ahead.len());
        drop((page, ahead));
        match mapped {
            Ok(Continued::Mapped) => return Ok(Some(length)),
            // What was removed is zeroes from now on: that is a write.
            Ok(Continued::Removed) => {}
            Err(source) => return Err(Error::Memory { what: "a page cannot be mapped", source }),
        }
    }
    let page = handle.write_touched(volume, block)?;
    let _write = if write {
        let Some(begun) = shared.desk.begin_write(fault) else {
            page.abandon();
            return Ok(None);
        };
        Some(begun)
    } else {
        None
    };
    // As the page becomes dirty it is mapped: `unprotect` in space.rs.
    page.commit()?;
    let ahead = if write && shared.swap { write_ahead(shared, handle, volume, block) } else { 0 };
    region.order.note(block, 1 + ahead as u64);
    if write {
        see(1 + ahead);
    }
    Ok(Some((1 + ahead) * shared.page_size))
}

/// Who writes forward has the pages that were read ahead for it at once, as dirty ones. To write back what is as it was would be wrong for a file; in swap space
/// nothing depends on it. Returns how many they are.
fn write_ahead(shared: &Shared, handle: &Handle<Space>, volume: &Arc<Volume>, block: u64) -> usize {
    let most = shared.at_once();
    let written = |next: u64| handle.write_ahead(volume, block + next).is_some_and(|page| page.commit().is_ok());
    let ahead = (1..most).take_while(|&next| written(next)).count();
    shared.hand.missed(ahead as u64);
    ahead
}
