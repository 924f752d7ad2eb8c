//! Faults that are handled on the thread that has them: the kernel sends it `SIGBUS`, whose handler has the pool bring the page, and returns.
//!
//! ```text
//!   the program touches an absent page
//!     |  SIGBUS, on its own stack
//!     v
//!   in_place.rs: is it a region's? -- no --> the handler that the program had before
//!     |  seats.rs: a handle of the pool
//!     v
//!   bring.rs  -- it may not be done here, or it fails --> handed.rs: one of the threads does it, as without all this, and this one sleeps
//! ```
//!
//! Pool, policy and device so run in the handler of a signal. Why that is safe:
//!
//! - IP1. The signal is synchronous: it comes at an instruction of the program that touches a region, and nowhere else. So the interrupted thread holds what the
//!   program holds there, and nothing of ours: no function of the pager or the pool touches a region's addresses. Where a device does, the process ends and says so.
//! - IP2. All signals but those of a thread's own errors are blocked until the handler returns. So no handler of the program runs in the midst of the pool,
//!   touches a region there, or jumps out of it.
//! - IP3. A thread that has a signal blocked for which there is a handler may be in that handler, so its fault is handed to a thread: no memory is allocated for that, nor is
//!   a lock taken that another fault could hold. What that thread allocates may still wait for the allocator's lock that the handler has interrupted, as with `Options::in_place`
//!   off: `docs/pager.md` says which handlers may touch a region.
//! - IP4. Memory is allocated here. So the program's heap does not lie in a region: an allocation that touches an absent page would wait for itself. Nor does a stack: the kernel
//!   could not put the signal there.
//! - IP5. Nothing is logged here, as the interrupted thread may be about to print. A failure, and a page that must wait for a writeback, is handed to a thread, which tries
//!   again, logs, and poisons the page: then the next `SIGBUS` goes to the program's handler.
//! - IP6. A device runs here only if it [says that it may](forebay_pool::device::Device::reads_in_place). Nobody may watch uses, as that is code of others.
//! - IP7. `errno` is as it was when the handler returns. Thread-locals of the pager are one flag, which needs no destructor.
//! - IP8. A panic ends the process: it would go through frames of the program that know nothing of it.
//! - IP9. A write waits while regions are [frozen](crate::Frozen): it is handed to a thread, and counted before that is asked for.
//! - IP10. A child of fork has no regions, and the locks of this module as they were at the fork: it passes all on without a lock.
//! - IP11. A thread that is to be cancelled is so after its fault: a system call here would else end it with locks that it holds. Cancellation is deferred; a program that has it
//!   at any instruction does not touch a region there.
//! - IP12. What is used of the stack is the kernel's frame and that of a fault, 64 KiB with room to spare; a thread that touches a region has these. The alternative stack for
//!   signals is not used: the usual one has 8 KiB.

use crate::error::Error;
use crate::pager::Shared;
use libc::{c_int, c_void, siginfo_t, sigset_t, ucontext_t};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// `BUS_ADRERR`: the kernel has nothing to map. A page that is poisoned has another code, but on a kernel without `CONFIG_MEMORY_FAILURE`.
const ABSENT: c_int = 2;

/// Who has regions whose faults come here.
static PAGERS: RwLock<Vec<Arc<Shared>>> = RwLock::new(Vec::new());

/// What SIGBUS did before.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

/// The handler of before was to be called once, and has been.
static SPENT: AtomicBool = AtomicBool::new(false);

/// A byte that is 1 in this process, and 0 in a child of fork (IP10).
static OWN: AtomicPtr<u8> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    /// Of the C library; signal handlers may call it.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const NOT_CANCELLED: c_int = 1;

thread_local! {
    /// This thread handles a fault.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// From now on faults of this pager's regions are handled where they are.
pub(crate) fn begin(shared: &Arc<Shared>) -> Result<(), Error> {
    install().map_err(|source| Error::Memory { what: "faults cannot be handled in place", source })?;
    PAGERS.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(shared));
    Ok(())
}

/// It has no region any more.
pub(crate) fn end(shared: &Arc<Shared>) {
    PAGERS.write().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(other, shared));
    shared.seats.clear();
}

fn install() -> std::io::Result<()> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if !OWN.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let last_error = std::io::Error::last_os_error;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let own = unsafe { libc::mmap(null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if own == libc::MAP_FAILED {
        return Err(last_error());
    }
    // SAFETY: the mapping of above.
    if unsafe { libc::madvise(own, 4096, libc::MADV_WIPEONFORK) } != 0 {
        return Err(last_error());
    }
    // SAFETY: as above; nobody else has it yet.
    unsafe { own.cast::<u8>().write(1) };
    let mut former = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: this asks for what is, and writes to room for it.
    if unsafe { libc::sigaction(libc::SIGBUS, null(), former.as_mut_ptr()) } != 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has written it.
    let _ = FORMER.set(unsafe { former.assume_init() });
    OWN.store(own.cast(), Ordering::Release);
    let sa_mask = all_signals();
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigbus;
    let action = libc::sigaction {
        sa_sigaction: handler as libc::sighandler_t,
        sa_mask,
        sa_flags: libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART,
        sa_restorer: None,
    };
    // SAFETY: the handler does what IP1 to IP12 say.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } != 0 {
        return Err(last_error());
    }
    Ok(())
}

/// All signals but those of a thread's own errors.
fn all_signals() -> sigset_t {
    let mut mask = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: the set is written before it is read.
    unsafe {
        libc::sigfillset(mask.as_mut_ptr());
        for signal in crate::signals::OWN_ERRORS {
            libc::sigdelset(mask.as_mut_ptr(), signal);
        }
        mask.assume_init()
    }
}

/// The kernel's set: 64 bits, and so are the first of the C library's.
fn bits(mask: &sigset_t) -> u64 {
    // SAFETY: it has more than 64 bits.
    unsafe { (&raw const *mask).cast::<u64>().read() }
}

/// Does something with all signals blocked (IP2): a handler of the program that passes signals on to this one may block fewer.
fn undisturbed<T>(act: impl FnOnce() -> T) -> T {
    let all = all_signals();
    let mut before = all;
    // SAFETY: a thread's mask is its own.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) };
    let done = act();
    if bits(&all) & !bits(&before) != 0 {
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    }
    done
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands both to a handler of this kind; `errno` is this thread's.
    let (code, address, errno) = unsafe { ((*info).si_code, (*info).si_addr() as usize, *libc::__errno_location()) };
    // SAFETY: as above.
    let handled = || code == ABSENT && is_own_process() && undisturbed(|| handle(address, unsafe { &*context.cast() }));
    if !handled() {
        // SAFETY: what this handler was given.
        unsafe { pass_on(signal, info, context) };
    }
    // SAFETY: as above (IP7).
    unsafe { *libc::__errno_location() = errno };
}

fn is_own_process() -> bool {
    let own = OWN.load(Ordering::Acquire);
    // SAFETY: where it is not null it is a mapping that stays.
    !own.is_null() && unsafe { own.read_volatile() } == 1
}

/// Has a page brought. `false`: it is of no region.
fn handle(address: usize, context: &ucontext_t) -> bool {
    let found = {
        let pagers = PAGERS.read().unwrap_or_else(PoisonError::into_inner);
        pagers.iter().find_map(|shared| Some((Arc::clone(shared), shared.region_at(address)?)))
    };
    let Some((shared, region)) = found else { return false };
    if shared.space.faults.is_gone(address) || region.extent.is_poisoned(address) {
        return false;
    }
    if INSIDE.replace(true) {
        abort("a device, or the pager, has touched a region while a fault was handled: it would wait for itself\n");
    }
    let mut state = 0;
    // SAFETY: this thread's own state, and room for the one before (IP11).
    unsafe { pthread_setcancelstate(NOT_CANCELLED, &raw mut state) };
    let write = is_write(context);
    if !may_allocate(&context.uc_sigmask) || !shared.bring_in_place(&region, address, write) {
        shared.hand_over(address, write);
    }
    INSIDE.set(false);
    drop((shared, region));
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(state, null_mut()) };
    true
}

/// Logs an error of the kernel's, where this thread may log (IP5).
pub(crate) fn report(error: &dyn std::fmt::Display, what: &str) {
    if INSIDE.get() {
        let _ = rustix::io::write(rustix::stdio::stderr(), format!("forebay: {what}: {error}\n").as_bytes());
    } else {
        tracing::error!(%error, "{what}");
    }
}

/// The process ends (IP1). What could be locked is not used to say why.
fn abort(why: &str) -> ! {
    let _ = rustix::io::write(rustix::stdio::stderr(), why.as_bytes());
    std::process::abort()
}

/// Whether the interrupted thread is in no handler of a signal, and so not within an allocation (IP3).
fn may_allocate(mask: &sigset_t) -> bool {
    let mut blocked = bits(mask);
    for signal in crate::signals::OWN_ERRORS {
        blocked &= !(1 << (signal - 1));
    }
    while blocked != 0 {
        let signal = blocked.trailing_zeros() as c_int + 1;
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: this asks for what is, and writes to room for it. The C library refuses to answer for two that are its own, whose handlers touch no region.
        let known = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) } == 0;
        // SAFETY: the kernel has written it.
        if known && ![libc::SIG_DFL, libc::SIG_IGN].contains(&unsafe { action.assume_init() }.sa_sigaction) {
            return false;
        }
        blocked &= blocked - 1;
    }
    true
}

/// Whether an instruction that has a fault was about to write.
#[cfg(target_arch = "x86_64")]
fn is_write(context: &ucontext_t) -> bool {
    context.uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0
}

/// The same: the bit of the exception's syndrome, which the kernel appends to the registers.
#[cfg(target_arch = "aarch64")]
fn is_write(context: &ucontext_t) -> bool {
    const REGISTERS: usize = 288;
    const SYNDROME: u32 = 0x4553_5201;
    const WRITE: u64 = 1 << 6;
    let mut record = (&raw const context.uc_mcontext).cast::<u8>().wrapping_add(REGISTERS);
    loop {
        // SAFETY: records follow each other, each with its kind and length, and the last has kind and length 0.
        let [kind, length] = unsafe { record.cast::<[u32; 2]>().read() };
        match kind {
            // SAFETY: as above; this kind has 8 bytes more.
            SYNDROME => return unsafe { record.add(8).cast::<u64>().read() } & WRITE != 0,
            0 => return false,
            _ => record = record.wrapping_add(length as usize),
        }
    }
}

/// Whether this kind of processor says what an instruction was about to do.
pub(crate) const KNOWS_WRITES: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_write(_: &ucontext_t) -> bool {
    unreachable!("no pager is made that handles faults in place")
}

/// What is not a region's has what it had before.
///
/// # Safety
/// A handler's arguments.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(former) = FORMER.get() else { return };
    // SAFETY: the kernel's record.
    let sent = unsafe { (*info).si_code } <= 0;
    let spent = former.sa_flags & libc::SA_RESETHAND != 0 && SPENT.swap(true, Ordering::Relaxed);
    match if spent { libc::SIG_DFL } else { former.sa_sigaction } {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: this process is to end by this signal: the instruction is tried again, or the signal sent again.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if sent {
                    libc::raise(signal);
                }
            }
        }
        handler => {
            // SAFETY: the program's handler has the arguments and the blocked signals that it would have without ours.
            unsafe {
                let mut mask = (*context.cast::<ucontext_t>()).uc_sigmask;
                for other in 1..=64 {
                    if libc::sigismember(&raw const former.sa_mask, other) == 1 {
                        libc::sigaddset(&raw mut mask, other);
                    }
                }
                if former.sa_flags & libc::SA_NODEFER == 0 {
                    libc::sigaddset(&raw mut mask, signal);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
                if former.sa_flags & libc::SA_SIGINFO == 0 {
                    std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
                } else {
                    let handler =
                        std::mem::transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(handler);
                    handler(signal, info, context);
                }
            }
        }
    }
}
