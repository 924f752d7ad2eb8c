//! What a service inherits from the program that starts it, and what it makes of that.
//!
//! | inherited | what it would do | what is done |
//! | --- | --- | --- |
//! | `ulimit -f` | SIGXFSZ ends the service with what all clients have written | ignored: who writes behind the limit gets the error |
//! | soft limits | fewer descriptors, threads, memory or time than the service may have | raised to the hard ones |
//! | `ulimit -t` | SIGKILL at the hard limit | a few seconds before, SIGXCPU asks for a stop in order (`signals.rs`) |
//! | `ulimit -v`, `-d` | no room for a cache | counted as a limit of memory (`memory.rs`) |
//! | blocked signals | no signal stops the service | unblocked |
//! | SIGCHLD ignored | no answer of `fusermount3` | as usual |
//! | `stty tostop` | SIGTTOU stops a service in the background at its next line of the log | ignored: the line is written |
//! | the mask of new files | volumes and sockets that everybody may write, or that the service cannot open again | neither |
//!
//! Rust's library opens standard streams that are closed, and ignores SIGPIPE. SIGTERM, SIGINT and SIGHUP are listened to even if they were
//! ignored. `ulimit -c` and `-l` stay: the pool keeps its frames out of core files, and locks no memory.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that would end or stop the service for what a client or a terminal does.
const IGNORED: [libc::c_int; 3] = [libc::SIGXFSZ, libc::SIGTTOU, libc::SIGTTIN];

/// Limits that a service is to have as high as it may.
const RAISED: [Resource; 6] =
    [Resource::Nofile, Resource::Nproc, Resource::As, Resource::Data, Resource::Memlock, Resource::Fsize];

/// The processor time that is left to stop in order, in seconds.
const TO_STOP: u64 = 10;

/// Frees this process of what would end, stop or hinder a service. A program calls it first, before it has other threads.
pub fn settle() {
    for signal in IGNORED {
        set(signal, libc::SIG_IGN);
    }
    set(libc::SIGCHLD, libc::SIG_DFL);
    unblock();
    RAISED.into_iter().for_each(|limit| set_limit(limit, getrlimit(limit).maximum));
    let most = getrlimit(Resource::Cpu).maximum;
    set_limit(Resource::Cpu, most.map(|most| most - (most / 2).min(TO_STOP)));
    let inherited = umask(Mode::empty());
    umask((inherited | Mode::WOTH) - Mode::RWXU);
}

/// Has this process go on whatever asks services to stop.
pub(crate) fn ignore() {
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM]
        .into_iter()
        .for_each(|signal| set(signal, libc::SIG_IGN));
}

/// What the process does with a signal. A program that it runs inherits that.
fn set(signal: libc::c_int, action: libc::sighandler_t) {
    // SAFETY: none of our code runs at the signal, as the action is one of the system's.
    unsafe { libc::signal(signal, action) };
}

fn unblock() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is initialised by the first call, and read by the second alone.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Sets a soft limit. That the system may refuse it leaves the service as it was.
fn set_limit(limit: Resource, soft: Option<u64>) {
    let maximum = getrlimit(limit).maximum;
    let _ = setrlimit(limit, Rlimit { current: soft, maximum });
}
