//! Forks: a child has none of its parent's threads, and so none of its regions. It gets a copy of what is live in them.
//!
//! ```text
//!   prepare     signals wait; nothing is allocated or freed; the pager is frozen: threads that write to regions wait, so that the copy is what the
//!               child would see. What is live is copied to a file without a name, which is mapped privately somewhere. Of a mapped file
//!               it is mapped itself, and what was changed is copied
//!   fork        the child has these mappings, too
//!   in_child    moves them to where the regions were, and writes what was changed over that: memory of the system's
//!   in_parent   the pager goes on
//! ```
//!
//! Handlers that prepare a fork are called in the reverse order of their registration. So ours is registered before any other: when it is called,
//! the next that happens is the fork. The others may allocate, and write to regions.
//!
//! **A copy is whole, or there is no child.** A thread that waits to write may have a lock of the C library's that the fork needs: then the pager goes on after
//! a while, and the copy is of no use. Which of both it is, is agreed in a word that parent and child share ([`Verdict`]). A child without a
//! whole copy ends before it has done anything, and `fork` fails with EAGAIN.
//!
//! What the child allocates from then on is paged by a pager of its own. Children that `vfork` and `posix_spawn` make have their parent's memory
//! until they run another program: for those nothing is done.

use crate::heap::{self, begin_anew, lock_all, reserve_where_free, started};
use crate::messages::say_here;
use crate::own;
use crate::ranges::Ranges;
use crate::real::system::{self, FAILED};
use crate::real::{self, Handler, set_errno};
use crate::signals;
use crate::staged::Run;
use libc::{EAGAIN, EINTR, MAP_ANONYMOUS, MAP_SHARED, PROT_READ, PROT_WRITE, c_int, c_void, pid_t, sigset_t};
use std::cell::{Cell, UnsafeCell};
use std::mem::{ManuallyDrop, forget, replace};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

/// How often a fork is tried whose copy is not whole because others had to go on.
const TRIES: usize = 3;

/// The exit code of a child that ends because it has no copy of its memory.
const NO_COPY: c_int = 125;

/// Whether a copy is whole: the first of the parent and the child to take it, and the service, which gives it up, decide.
#[derive(Clone, Copy)]
pub(crate) struct Verdict(&'static AtomicU32);

const OPEN: u32 = 0;
const WHOLE: u32 = 1;
const GIVEN_UP: u32 = 2;

/// The forks whose verdicts may be open.
const VERDICTS: usize = 1024;

impl Verdict {
    /// A new one, in memory that children share.
    fn new() -> Option<Self> {
        let mut all = SHARED.load(Ordering::Acquire);
        if all.is_null() {
            let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
            // SAFETY: a new mapping touches no memory that is in use.
            let mapped =
                unsafe { system::mmap(null_mut(), size_of::<[AtomicU32; VERDICTS]>(), protection, flags, -1, 0) };
            if mapped == FAILED {
                return None;
            }
            all = mapped.cast();
            SHARED.store(all, Ordering::Release);
        }
        let next = NEXT.fetch_add(1, Ordering::Relaxed) % VERDICTS;
        // SAFETY: the mapping has `VERDICTS` words, and stays.
        let word = unsafe { &(&*all)[next] };
        word.store(OPEN, Ordering::Release);
        Some(Self(word))
    }

    fn decide(self, what: u32) -> bool {
        let decided = self.0.compare_exchange(OPEN, what, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok() || decided == Err(what)
    }

    /// Whether the copy is whole, for good.
    fn is_whole(self) -> bool {
        self.decide(WHOLE)
    }

    /// Nobody is to use the copy any more; `false`: somebody does.
    pub(crate) fn give_up(self) -> bool {
        self.decide(GIVEN_UP)
    }
}

static SHARED: AtomicPtr<[AtomicU32; VERDICTS]> = AtomicPtr::new(null_mut());
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What is known before a fork, and used behind it.
struct Held {
    locks: ManuallyDrop<(MutexGuard<'static, ()>, MutexGuard<'static, Ranges>)>,
    signals: sigset_t,
    copy: Result<Option<Copy>, String>,
}

/// The copy of what is live.
struct Copy {
    runs: Vec<Run>,
    verdict: Verdict,
    /// The service goes on when this is dropped.
    over: ManuallyDrop<Sender<()>>,
}

struct Place(UnsafeCell<Option<Held>>);

// SAFETY: it is only read and written under the lock of the ranges.
unsafe impl Sync for Place {}

static HELD: Place = Place(UnsafeCell::new(None));

thread_local! {
    /// This thread is in `fork` below, which says what became of it.
    static WRAPPED: Cell<bool> = const { Cell::new(false) };
    static LAST: Cell<Outcome> = const { Cell::new(Outcome::Forked) };
}

/// What became of this thread's last fork.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Forked,
    /// The copy is not whole: the next one may be.
    GivenUp,
    Refused,
}

/// Has these functions called at forks, before all others that are registered from now on.
pub(crate) extern "C" fn prepare_for_forks() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if std::env::var_os(forebay_run_shared::VARIABLE).is_some() && !PREPARED.swap(true, Ordering::Relaxed) {
        // SAFETY: the functions are what the C library expects, and stay.
        unsafe { real::register_atfork(Some(prepare), Some(in_parent), Some(in_child), null_mut()) };
    }
}

/// What `pthread_atfork` of every library calls: the first to do so has our own functions registered before.
///
/// # Safety
/// As of `pthread_atfork(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    library: *mut c_void,
) -> c_int {
    prepare_for_forks();
    // SAFETY: the caller's arguments.
    unsafe { real::register_atfork(prepare, parent, child, library) }
}

/// # Safety
/// As of `fork(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fork() -> pid_t {
    let here = 0_u8;
    if heap::owns((&raw const here).cast()) {
        say_here("forebay run: fork fails: this thread's stack is paged, and its child would have none\n");
        set_errno(EAGAIN);
        return -1;
    }
    for _ in 0..TRIES {
        LAST.set(Outcome::Forked);
        WRAPPED.set(true);
        // SAFETY: as the caller's.
        let child = unsafe { real::fork() };
        WRAPPED.set(false);
        let outcome = LAST.get();
        if child <= 0 || outcome == Outcome::Forked {
            return child;
        }
        // SAFETY: it waits for the child that was made here, which ends at once.
        while unsafe { libc::waitpid(child, null_mut(), 0) } < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(EINTR)
        {}
        if outcome == Outcome::Refused {
            break;
        }
    }
    set_errno(EAGAIN);
    -1
}

extern "C" fn prepare() {
    let signals = signals::block();
    let locks = lock_all();
    let copy = copy(&locks.1.live());
    // SAFETY: this thread has the lock.
    unsafe { *HELD.0.get() = Some(Held { locks: ManuallyDrop::new(locks), signals, copy }) };
}

fn copy(live: &[Range<usize>]) -> Result<Option<Copy>, String> {
    let Some(service) = started().filter(|_| !live.is_empty()) else { return Ok(None) };
    let verdict = Verdict::new().ok_or("there is no memory")?;
    let (runs, over) = service.fork(live.to_vec(), verdict);
    runs.map(|runs| Some(Copy { runs, verdict, over: ManuallyDrop::new(over) })).inspect_err(|why| {
        service.say(&format!("fork fails: its child's memory cannot be copied: {why}"));
    })
}

fn take() -> Option<Held> {
    // SAFETY: this thread has the lock, or is the child of the one that has it.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn in_parent() {
    let Some(held) = take() else { return };
    let outcome = match held.copy {
        Ok(None) => Outcome::Forked,
        Ok(Some(copy)) => {
            let outcome = if copy.verdict.is_whole() { Outcome::Forked } else { Outcome::GivenUp };
            drop(ManuallyDrop::into_inner(copy.over));
            outcome
        }
        Err(_) => Outcome::Refused,
    };
    LAST.set(outcome);
    drop(ManuallyDrop::into_inner(held.locks));
    signals::restore(&held.signals);
}

/// A child that has no copy of its memory ends before it has done anything. If its parent does not say so, it does.
fn vanish(why: &str) -> ! {
    if !WRAPPED.get() {
        say_here(&format!("forebay run: a child of fork has no copy of its memory: {why}\n"));
    }
    // SAFETY: it ends this process, of which nothing is used any more.
    unsafe { libc::_exit(NO_COPY) }
}

extern "C" fn in_child() {
    own::begin_anew();
    let Some(mut held) = take() else { return };
    // What else is held is of the parent's threads: it is neither let go nor freed. Nothing is mapped before the places of regions are reserved: it
    // could lie there.
    let mut ranges = replace(&mut *held.locks.1, Ranges::new());
    ranges.inherit().iter().for_each(reserve_where_free);
    match &held.copy {
        Ok(None) => {}
        Ok(Some(copy)) if copy.verdict.is_whole() => {
            // SAFETY: they lie where regions were, of which this process has nothing.
            if !copy.runs.iter().all(|run| unsafe { run.bring() }) {
                vanish("it cannot be mapped");
            }
        }
        Ok(Some(_)) => vanish("its parent's threads waited for each other"),
        Err(why) => vanish(why),
    }
    // Its own children have others.
    SHARED.store(null_mut(), Ordering::Release);
    begin_anew(ranges);
    signals::restore(&held.signals);
    forget(held);
}
