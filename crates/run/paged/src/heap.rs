//! Large memory of the program: addresses in regions, which lie together in an area that is reserved for them.

use crate::files::Asked;
use crate::fork;
use crate::messages;
use crate::ranges::{BETWEEN, Live, Ranges, whole};
use crate::real::system;
use crate::service::{NotMapped, Service, lock};
use forebay_run_shared::{Settings, VARIABLE};
use libc::{
    MADV_DONTNEED, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ,
    PROT_WRITE, c_int, c_void,
};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is allocated or mapped from this on lies in regions.
pub(crate) const LARGE: usize = 128 << 10;

/// The system's page.
pub(crate) const PART: usize = 4096;

/// The addresses that are reserved; less where there are limits.
const RESERVED: usize = 1 << 40;
const LEAST_RESERVED: usize = 1 << 30;

/// The most files that are mapped in regions at a time, and what part of the process' open files they may be: each is two.
const FILES: usize = 256;
const PART_OF_FILES: usize = 8;

/// How long a program that unmaps a file waits until its region has gone, which keeps memory and open files.
const GONE: Duration = Duration::from_secs(1);

/// What is made zeroes here rather than by the service.
const SOON: usize = 2 << 20;

static BASE: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether this process pages its memory, which it does from the first large allocation on.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static SERVICE: AtomicPtr<Service> = AtomicPtr::new(null_mut());
/// The thread that starts the service.
static STARTER: AtomicI32 = AtomicI32::new(0);

/// The locks of a process. A child has new ones, as threads that it does not have may hold its parent's.
struct Locks {
    /// Held by the thread that starts the service.
    start: Mutex<()>,
    /// Nobody touches a region while this is held: a fault might wait for the service, and so for this lock.
    ranges: Mutex<Ranges>,
}

static FIRST: Locks = Locks { start: Mutex::new(()), ranges: Mutex::new(Ranges::new()) };
/// Those of this process; null: the first.
static LOCKS: AtomicPtr<Locks> = AtomicPtr::new(null_mut());

fn locks() -> &'static Locks {
    // SAFETY: locks that are no longer used are kept.
    unsafe { LOCKS.load(Ordering::Acquire).as_ref() }.unwrap_or(&FIRST)
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

pub(crate) fn base() -> usize {
    BASE.load(Ordering::Relaxed)
}

pub(crate) fn end() -> usize {
    END.load(Ordering::Relaxed)
}

/// Whether an address lies in the area.
#[inline]
pub(crate) fn owns(address: *const c_void) -> bool {
    let address = address as usize;
    address >= base() && address < end()
}

/// What of a range lies in the area.
pub(crate) fn in_area(range: &Range<usize>) -> Option<Range<usize>> {
    let inner = range.start.max(base())..range.end.min(end());
    (!inner.is_empty()).then_some(inner)
}

/// What has to be held while a process is forked.
pub(crate) fn lock_all() -> (MutexGuard<'static, ()>, MutexGuard<'static, Ranges>) {
    (locks().start.lock().unwrap_or_else(PoisonError::into_inner), ranges())
}

pub(crate) fn ranges() -> MutexGuard<'static, Ranges> {
    locks().ranges.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The service, if it has been started.
pub(crate) fn started() -> Option<&'static Service> {
    // SAFETY: a service lives as long as the process.
    unsafe { SERVICE.load(Ordering::Acquire).as_ref() }
}

/// The service, which is started by the first call; `None`: this process pages nothing.
pub(crate) fn service() -> Option<&'static Service> {
    match STATE.load(Ordering::Acquire) {
        ON => started(),
        OFF => None,
        _ => start(),
    }
}

#[cold]
fn start() -> Option<&'static Service> {
    // SAFETY: it asks for this thread's number.
    let thread = unsafe { libc::gettid() };
    if STARTER.load(Ordering::Relaxed) == thread {
        return None;
    }
    let _starting = locks().start.lock().unwrap_or_else(PoisonError::into_inner);
    if STATE.load(Ordering::Acquire) != UNKNOWN {
        return started();
    }
    STARTER.store(thread, Ordering::Relaxed);
    let service = settings().and_then(|settings| match begin(settings.clone()) {
        Ok(service) => Some(service),
        Err(why) => {
            messages::say(&settings, &format!("its memory is not paged: {why}"));
            None
        }
    });
    STARTER.store(0, Ordering::Relaxed);
    if let Some(service) = service {
        SERVICE.store(std::ptr::from_ref(service).cast_mut(), Ordering::Release);
    }
    STATE.store(if service.is_some() { ON } else { OFF }, Ordering::Release);
    service
}

fn settings() -> Option<Settings> {
    Settings::parse(&std::env::var(VARIABLE).ok()?)
}

fn begin(settings: Settings) -> Result<&'static Service, String> {
    reserve_area()?;
    fork::prepare_for_forks();
    Service::start(settings)
}

/// Reserves the area, once.
fn reserve_area() -> Result<(), String> {
    let mut length = RESERVED;
    while end() == 0 {
        if length < LEAST_RESERVED {
            return Err("it needs 1 GiB of addresses at least, which a limit (`ulimit -v`) forbids".to_owned());
        }
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new mapping touches no memory that is in use.
        let base = unsafe { system::mmap(null_mut(), length, PROT_NONE, flags, -1, 0) };
        if base != system::FAILED {
            let start = (base as usize).next_multiple_of(BETWEEN);
            BASE.store(start, Ordering::Relaxed);
            END.store(base as usize + length, Ordering::Relaxed);
            ranges().top = start;
        }
        length /= 2;
    }
    Ok(())
}

/// This process is a child of fork: it has none of its parent's threads. `ranges` are those of its parent.
pub(crate) fn begin_anew(ranges: Ranges) {
    let locks = Locks { start: Mutex::new(()), ranges: Mutex::new(ranges) };
    LOCKS.store(Box::into_raw(Box::new(locks)), Ordering::Release);
    STARTER.store(0, Ordering::Relaxed);
    SERVICE.store(null_mut(), Ordering::Release);
    STATE.store(UNKNOWN, Ordering::Release);
}

/// What is asked of memory beside its length.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) alignment: usize,
    /// It reads as zeroes.
    pub(crate) zero: bool,
    /// It is likely to become more.
    pub(crate) grows: bool,
    /// It has room in swap space.
    pub(crate) reserved: bool,
}

/// Addresses of `length` bytes.
pub(crate) fn allocate(
    service: &Service,
    length: usize,
    Wanted { alignment, zero, grows, reserved }: Wanted,
) -> Result<*mut c_void, Full> {
    let mut ranges = ranges();
    let length = whole(length).ok_or(Full)?;
    service.take_zeroed().iter().for_each(|range| ranges.give(range));
    let recent = if grows || zero && length > SOON { None } else { ranges.take_recent(length, alignment) };
    if let Some(range) = recent {
        service.used(ranges.most);
        drop(ranges);
        let block = range.start as *mut c_void;
        if zero {
            // SAFETY: the range is nobody else's.
            unsafe { block.write_bytes(0, range.len()) };
        }
        return Ok(block);
    }
    let mut taken = ranges.take(length, alignment, grows);
    if taken.is_none() && service.wait_for_leaving() {
        service.take_zeroed().iter().for_each(|range| ranges.give(range));
        taken = ranges.take(length, alignment, false);
    }
    if taken.is_none() {
        let more = if alignment > PART { length.checked_add(alignment).ok_or(Full)? } else { length };
        let region = service.grow(ranges.top, more).ok_or(Full)?;
        ranges.add_region(region);
        taken = ranges.take(length, alignment, grows);
    }
    let start = taken.ok_or(Full)?;
    if reserved && !service.reserve(start..start + length) {
        release(ranges, start..start + length, false);
        return Err(Full);
    }
    service.used(ranges.most);
    Ok(start as *mut c_void)
}

/// Maps a part of a file in a region of its own; `None`: it is to be the system's.
pub(crate) fn map_file(service: &Service, asked: Asked, length: usize, protection: c_int) -> Option<*mut c_void> {
    let length = whole(length)?;
    let mut ranges = ranges();
    if ranges.files() >= most_files() {
        return None;
    }
    std::mem::take(&mut *lock(&service.vacant)).iter().for_each(|place| ranges.vacate(place));
    let place = ranges.place_file(length, end())?;
    match service.map(place.start, length, asked, protection) {
        Ok(region) => {
            ranges.add_file(&region, length, protection != PROT_READ | PROT_WRITE);
            service.used(ranges.most);
            Some(region.start as *mut c_void)
        }
        Err(NotMapped::NoFile) => {
            ranges.vacate(&place);
            None
        }
        Err(NotMapped::NoRegion) => {
            reserve_where_free(&place);
            None
        }
    }
}

fn most_files() -> usize {
    let limit = |of| rustix::process::getrlimit(of).current;
    // Places in the swap file follow addresses. Where it may not be long, memory needs them.
    if limit(rustix::process::Resource::Fsize).is_some() {
        return 0;
    }
    limit(rustix::process::Resource::Nofile).map_or(FILES, |open| FILES.min(open as usize / PART_OF_FILES))
}

/// The bytes from an address on that its block has; `None`: no block begins there.
pub(crate) fn usable(block: *mut c_void) -> Option<usize> {
    let start = block as usize;
    let (own, live) = ranges().at(start)?;
    (own == start).then_some(live.end - start)
}

/// Makes a block of at least as many bytes where it is.
pub(crate) fn resize(block: *mut c_void, length: usize) -> bool {
    let start = block as usize;
    let mut ranges = ranges();
    let (Some(length), Some((_, live))) = (whole(length), ranges.at(start)) else { return false };
    let old = live.end - start;
    if length > old {
        started().iter().flat_map(|service| service.take_zeroed()).for_each(|range| ranges.give(&range));
        let grown = ranges.extend(start, length);
        if grown && !started().is_none_or(|service| service.reserve(live.end..start + length)) {
            release(ranges, live.end..start + length, false);
            return false;
        }
        started().iter().for_each(|service| service.used(ranges.most));
        return grown;
    }
    // To give little back takes longer than it is worth.
    if old - length >= LARGE {
        release(ranges, start + length..live.end, false);
    }
    true
}

/// Frees what is live of a range. `recent`: the program is likely to allocate as much again.
pub(crate) fn free(range: Range<usize>, recent: bool) {
    release(ranges(), range, recent);
}

fn release(mut ranges: MutexGuard<'_, Ranges>, range: Range<usize>, recent: bool) {
    let service = started();
    for (piece, Live { protected, inherited, file, .. }) in ranges.cut(&range) {
        if inherited {
            reserve_again(&piece);
            continue;
        }
        if file {
            // SAFETY: the program has given these addresses back.
            unsafe { system::mprotect(piece.start as *mut c_void, piece.len(), PROT_NONE) };
            service.into_iter().for_each(|service| service.discard(piece.clone()));
            continue;
        }
        if protected {
            // SAFETY: the program has given these addresses back.
            unsafe { system::mprotect(piece.start as *mut c_void, piece.len(), PROT_READ | PROT_WRITE) };
        }
        let Some(service) = service else { continue };
        if recent && piece.len() <= SOON {
            ranges.keep(piece).into_iter().for_each(|leaving| service.leave(leaving));
        } else {
            service.leave(piece);
        }
    }
    let ending = end_files(&mut ranges, &range);
    drop(ranges);
    wait_for(ending);
}

/// Waits until regions have gone, but not for storage that hangs. This thread has no lock meanwhile, so no other thread waits for it.
fn wait_for(ending: Vec<Receiver<()>>) {
    ending.into_iter().for_each(|gone| _ = gone.recv_timeout(GONE));
}

/// Ends the regions of files of which nothing is live any more.
fn end_files(ranges: &mut Ranges, range: &Range<usize>) -> Vec<Receiver<()>> {
    let Some(service) = started() else { return Vec::new() };
    let mut ending = Vec::new();
    for (region, own) in ranges.take_ended(range) {
        // In place of the region, and before it goes: else others might get its addresses.
        own.iter().for_each(reserve_again);
        let place = region.start..region.end.next_multiple_of(BETWEEN);
        ending.push(service.unmap(region.start, (own == [region]).then_some(place)));
    }
    ending
}

/// The program unmaps a range: what is live of it is freed, and what it has mapped over the area goes, too.
pub(crate) fn unmap(range: &Range<usize>) -> bool {
    let ranges = ranges();
    let unmapped = ranges.lost_within(range).iter().fold(true, |done, lost| {
        // SAFETY: the program has mapped this itself, and unmaps it.
        let unmapped = unsafe { system::munmap(lost.start as *mut c_void, lost.len()) } == 0;
        reserve_where_free(lost);
        done && unmapped
    });
    release(ranges, range.clone(), false);
    unmapped
}

/// The program maps something of its own by `map`, over a range of the area.
pub(crate) fn replace(range: &Range<usize>, map: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let mut ranges = ranges();
    let mapped = map();
    if mapped != system::FAILED {
        let left = ranges.lose(range);
        if let Some(service) = started() {
            left.into_iter().for_each(|piece| service.discard(piece));
        }
        let ending = end_files(&mut ranges, range);
        drop(ranges);
        wait_for(ending);
    }
    mapped
}

/// What a range of the area has, in order.
#[derive(Default)]
pub(crate) struct Pieces {
    pub(crate) live: Vec<(Range<usize>, Live)>,
    /// What the program has mapped over the area.
    pub(crate) lost: Vec<Range<usize>>,
}

pub(crate) fn pieces(range: &Range<usize>) -> Pieces {
    let ranges = ranges();
    Pieces { live: ranges.live_within(range), lost: ranges.lost_within(range) }
}

/// Maps nothing in a range of the area, so that nobody else gets its addresses.
fn reserve(range: &Range<usize>, how: c_int) {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how;
    // SAFETY: the range lies in the area, and the program does not use it.
    unsafe { system::mmap(range.start as *mut c_void, range.len(), PROT_NONE, flags, -1, 0) };
}

/// The same in place of what is there.
pub(crate) fn reserve_again(range: &Range<usize>) {
    reserve(range, MAP_FIXED);
}

/// The same where nothing is.
pub(crate) fn reserve_where_free(range: &Range<usize>) {
    reserve(range, MAP_FIXED_NOREPLACE);
}

/// Makes a live range what it was at first: zeroes, or what its file has.
pub(crate) fn reset(range: Range<usize>, live: Live) -> bool {
    if live.inherited && live.file {
        // SAFETY: a private mapping of the file, of which the program wants the file's bytes again.
        return unsafe { system::madvise(range.start as *mut c_void, range.len(), MADV_DONTNEED) } == 0;
    }
    if live.inherited {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        let address = range.start as *mut c_void;
        // SAFETY: the program wants zeroes in this range, which no region has.
        return unsafe { system::mmap(address, range.len(), PROT_READ | PROT_WRITE, flags, -1, 0) } != system::FAILED;
    }
    started().is_some_and(|service| service.reset(range))
}
