//! Files are made as the user who asks: theirs, with their umask.

use crate::protocol::Caller;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;

thread_local! {
    /// This thread has its own umask and, for root, keeps its capabilities when it takes a user's identity.
    static READY: Cell<bool> = const { Cell::new(false) };

    /// This thread's umask, once it was set.
    static UMASK: Cell<Option<u32>> = const { Cell::new(None) };
}

fn prepare(superuser: bool) -> io::Result<()> {
    if READY.get() {
        return Ok(());
    }
    // SAFETY: it takes this thread's umask and folder apart from those of the others, and touches no memory of ours.
    if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it changes a flag of this thread.
    if superuser && unsafe { libc::prctl(libc::PR_SET_SECUREBITS, libc::SECBIT_NO_SETUID_FIXUP, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    READY.set(true);
    Ok(())
}

/// Makes something in the name of the user who asks. The kernel has checked their rights; this thread keeps its own.
pub(crate) fn as_user<T>(
    superuser: bool,
    caller: Caller,
    umask: u32,
    make: impl FnOnce() -> Result<T, Errno>,
) -> io::Result<T> {
    prepare(superuser)?;
    let umask = umask & 0o777;
    if UMASK.replace(Some(umask)) != Some(umask) {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    }
    let other = superuser && (caller.user != 0 || caller.group != 0);
    let become_user = |uid, gid| {
        // SAFETY: both calls change the identity of this thread alone by which the file system judges, and cannot fail for root.
        unsafe {
            libc::setfsgid(gid);
            libc::setfsuid(uid);
        }
    };
    if other {
        become_user(caller.user, caller.group);
    }
    let made = make();
    if other {
        become_user(0, 0);
    }
    Ok(made?)
}

/// Whether this process can do so.
pub(crate) fn check(superuser: bool) -> io::Result<()> {
    let tried = std::thread::spawn(move || prepare(superuser)).join();
    tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tried it panicked")))
}
