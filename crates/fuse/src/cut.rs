//! Cuts the kernel's connection to a mount: whoever still uses the directory gets errors, and nobody waits for ever.
//!
//! The thread that drops the kernel's copies of a page waits in the kernel as long as a read or a write of this page is under way. If the
//! process is killed meanwhile, nobody answers them: the thread waits for ever, keeps the process and its descriptors, and all users wait, too.
//! So a small process beside it, the *guard*, gets a signal from the kernel when the process is killed, and cuts the connection.

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

/// Where the kernel lists connections, if that is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// What the guard is called in lists of processes.
const NAME: &[u8] = b"mount-guard\0";

/// What cuts one connection and no other, whichever gets its number later.
pub(crate) struct Cut(File);

impl Cut {
    /// Of the mount with this number of its file system.
    ///
    /// # Errors
    /// The kernel's list of connections is not mounted, and only root can open it then.
    pub(crate) fn of((_, minor): (u32, u32)) -> io::Result<Self> {
        let name = format!("{minor}/abort");
        match File::options().write(true).open(Path::new(CONNECTIONS).join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let list = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
                fsconfig_create(&list)?;
                let list = fsmount(&list, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
                Ok(Self(openat(&list, &name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?.into()))
            }
            opened => Ok(Self(opened?)),
        }
    }

    /// Cuts it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn now(&self) -> io::Result<()> {
        (&self.0).write_all(b"1")
    }

    /// Starts a process that cuts it if this thread ends before the guard is dropped.
    ///
    /// # Errors
    /// There is no room for another process.
    pub(crate) fn guard(&self) -> io::Result<Guard> {
        let (arguments, process) = (arguments()?, std::process::id() as libc::pid_t);
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are initialised by the calls that get them.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        }
        // SAFETY: `stand_guard` makes system calls alone, as the child of a process with several threads must. The arguments are its own
        // copy of the stack's end, where the kernel has put them.
        let guard = unsafe { libc::fork() };
        if guard == 0 {
            // SAFETY: in the new process, with the addresses of its own arguments.
            unsafe { stand_guard(self.0.as_raw_fd(), arguments, process) }
        }
        let failed = io::Error::last_os_error();
        // SAFETY: the set was initialised above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
        if guard < 0 { Err(failed) } else { Ok(Guard(guard)) }
    }
}

/// The guard of a connection: it goes when this is dropped.
pub(crate) struct Guard(libc::pid_t);

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: it is a child of this process that nobody has waited for, so the number is still its own.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

/// Waits for the end of the thread that has made this process, and cuts the connection then. All signals are blocked.
///
/// # Safety
/// In the new process alone. `arguments` are addresses of its own that can be written.
unsafe fn stand_guard(connection: libc::c_int, (arguments, end): (usize, usize), parent: libc::pid_t) -> ! {
    // SAFETY: system calls whose arguments are on this stack or constants; the range of arguments is the caller's promise.
    unsafe {
        // What waits for the mount by its name or command line must not wait for its guard.
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        let room = end - arguments;
        ptr::write_bytes(arguments as *mut u8, 0, room);
        ptr::copy_nonoverlapping(NAME.as_ptr(), arguments as *mut u8, NAME.len().min(room));
        // Nothing of the process is kept: neither its pipes, nor its devices, nor the directory that it was started in.
        libc::dup2(connection, 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
        libc::chdir(c"/".as_ptr());
        // A signal that nobody sends but the kernel, when the thread ends: other threads of its process may still wait in the kernel.
        let ended = libc::SIGRTMIN();
        libc::prctl(libc::PR_SET_PDEATHSIG, ended);
        let mut wanted = MaybeUninit::uninit();
        libc::sigemptyset(wanted.as_mut_ptr());
        libc::sigaddset(wanted.as_mut_ptr(), ended);
        // It may have ended before it could be asked for.
        while libc::getppid() == parent && libc::sigwaitinfo(wanted.as_ptr(), ptr::null_mut()) < 0 {}
        libc::write(0, c"1".as_ptr().cast(), 1);
        libc::_exit(0)
    }
}

/// Where this process's command line lies.
fn arguments() -> io::Result<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // Fields 48 and 49 of proc(5), of which the first two are cut off.
    match fields.get(45..47).map(|range| (range[0].parse(), range[1].parse())) {
        Some((Ok(start), Ok(end))) if start <= end => Ok((start, end)),
        _ => Err(io::Error::other("/proc/self/stat does not say where the command line is")),
    }
}
