//! Forks: a child has none of its parent's threads, and so none of its regions. It gets a copy of what is live in them.
//!
//! ```text
//!   before   what is dirty is written to swap space; what was written there is copied to a file without a name
//!   after    in the child that file is mapped privately where the regions were: memory of the system's
//! ```
//!
//! What the child allocates from then on is paged by a pager of its own. Children that `vfork` and `posix_spawn` make have their parent's memory
//! until they run another program: for those nothing is done.

use crate::heap::{self, begin_anew, ranges, reserve_again, started};
use crate::ranges::Ranges;
use crate::real::system;
use libc::{MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, O_CLOEXEC, O_RDONLY, PROT_READ, PROT_WRITE, c_int, c_void};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known before a fork, and used behind it. No lock of `heap.rs` is held meanwhile: others that are called before a fork may allocate.
struct Held {
    ranges: Ranges,
    live: Vec<Range<usize>>,
    copy: Option<Copy>,
    // The last to go.
    _forking: MutexGuard<'static, ()>,
}

/// Held across a fork.
static FORKING: Mutex<()> = Mutex::new(());

/// The copy of what is live.
struct Copy {
    /// Open here.
    fd: c_int,
    /// Open there.
    service: c_int,
}

struct Place(UnsafeCell<Option<Held>>);

// SAFETY: who takes or leaves what is held has the lock.
unsafe impl Sync for Place {}

static HELD: Place = Place(UnsafeCell::new(None));

/// Has these functions called at forks.
pub(crate) fn prepare_for_forks() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if !PREPARED.swap(true, Ordering::Relaxed) {
        // SAFETY: the functions are what the C library expects.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    }
}

extern "C" fn prepare() {
    let forking = FORKING.lock().unwrap_or_else(PoisonError::into_inner);
    let ranges = ranges().clone();
    let live = ranges.live();
    let copy = if live.is_empty() { None } else { copy(&live) };
    // SAFETY: this thread has the lock.
    unsafe { *HELD.0.get() = Some(Held { ranges, live, copy, _forking: forking }) };
}

fn copy(live: &[Range<usize>]) -> Option<Copy> {
    let service = started()?;
    let (copy, path) = match service.copy(live.to_vec(), heap::base()) {
        Ok(copied) => copied,
        Err(error) => {
            tracing::error!("a child of fork does not have its parent's large memory: {error}");
            return None;
        }
    };
    // SAFETY: the path ends in 0.
    let fd = unsafe { libc::open(path.as_ptr().cast(), O_RDONLY | O_CLOEXEC) };
    if fd < 0 {
        service.close(copy);
        return None;
    }
    Some(Copy { fd, service: copy })
}

fn take() -> Option<Held> {
    // SAFETY: this thread has the lock, or is the child of the one that has it.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn in_parent() {
    let Some(held) = take() else { return };
    if let (Some(copy), Some(service)) = (&held.copy, started()) {
        // SAFETY: it was opened for the child.
        unsafe { libc::close(copy.fd) };
        service.close(copy.service);
    }
}

extern "C" fn in_child() {
    let Some(mut held) = take() else { return };
    held.ranges.inherit().iter().for_each(reserve_again);
    begin_anew(held.ranges);
    let Some(copy) = &held.copy else { return };
    for range in &held.live {
        let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE);
        let (address, offset) = (range.start as *mut c_void, (range.start - heap::base()) as i64);
        // SAFETY: the range lies where a region was, of which this process has nothing.
        unsafe { system::mmap(address, range.len(), protection, flags, copy.fd, offset) };
    }
    // SAFETY: what is mapped stays without it.
    unsafe { libc::close(copy.fd) };
}
