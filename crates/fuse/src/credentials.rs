//! A file is made in the name of the user whose program makes it, with the program's umask. Space is taken in that name, too: within the
//! user's quota, and not from what the file system keeps for root.

use crate::protocol::Caller;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::cell::Cell;
use std::io;

thread_local! {
    /// This thread has its own umask and, for root, keeps its capabilities when it takes a user's identity.
    static READY: Cell<bool> = const { Cell::new(false) };

    /// For whom this thread writes now.
    static WRITER: Cell<Option<Caller>> = const { Cell::new(None) };

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
    Ok(in_name_of(superuser, caller, make)??)
}

/// Does something as this user: space that it takes is the user's. This thread keeps its rights, but for that to what is kept for root.
pub(crate) fn in_name_of<T>(superuser: bool, caller: Caller, work: impl FnOnce() -> T) -> io::Result<T> {
    if !superuser || (caller.user, caller.group) == (0, 0) {
        return Ok(work());
    }
    prepare(superuser)?;
    let all = capabilities(None)?;
    // Work that panics is caught further up, and the thread goes on: as itself.
    let _itself = Finally(|| {
        become_user(0, 0);
        if caller.user != 0
            && let Err(error) = set_capabilities(None, all)
        {
            tracing::error!("a thread has lost its right to the space that is kept for root: {error}");
        }
    });
    if caller.user != 0 {
        set_capabilities(None, CapabilitySets { effective: all.effective - CapabilitySet::SYS_RESOURCE, ..all })?;
    }
    become_user(caller.user, caller.group);
    Ok(work())
}

/// Does something when it is dropped.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Works for a caller: what takes space meanwhile takes the caller's.
pub(crate) fn writing_for<T>(caller: Caller, work: impl FnOnce() -> T) -> T {
    let before = WRITER.replace(Some(caller));
    let _before = Finally(|| WRITER.set(before));
    work()
}

/// Takes space in the name of the caller that this thread writes for: within that user's quota and without what is kept for root, unless
/// it is root.
pub(crate) fn as_writer<T>(superuser: bool, take: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match WRITER.get() {
        Some(caller) => in_name_of(superuser, caller, take)?,
        None => take(),
    }
}

/// Changes the identity of this thread by which the file system judges.
fn become_user(user: u32, group: u32) {
    // SAFETY: both calls change this thread alone, and cannot fail for root.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
    }
}

/// Whether this process can do so.
pub(crate) fn check(superuser: bool) -> io::Result<()> {
    let tried = std::thread::spawn(move || prepare(superuser)).join();
    tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tried it panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_thread_whose_work_panics_is_itself_again() {
        let caller = Caller { user: 65534, group: 65534, thread: 0 };
        catch_unwind(|| writing_for(caller, || panic!("a test wants it"))).expect_err("it panics");
        assert!(WRITER.get().is_none());
        let superuser = rustix::process::geteuid().is_root();
        catch_unwind(|| in_name_of(superuser, caller, || panic!("a test wants it"))).expect_err("it panics");
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("it can be read");
        let of_files = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("its users");
        assert_eq!(of_files.split_whitespace().last(), of_files.split_whitespace().nth(1), "{of_files}");
    }
}
