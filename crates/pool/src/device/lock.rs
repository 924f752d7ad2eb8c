//! Keeping a file that is written to one process. Several may read it while none writes: each has a cache, which would go stale.
//!
//! Two of ours are kept apart by flock. QEMU does not ask for that: it locks single bytes by fcntl, far inside the file or not, each of
//! which stands for a permission (its block/file-posix.c). Byte 100 + p is locked by who uses permission p, byte 200 + p by who does not
//! share it with others. All these locks are read locks, so that several may hold one; whoever opens the file takes his own and then
//! asks whether a write lock of the bytes against him would be refused. We do the same, and are then seen by QEMU's programs.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;

/// Permissions: reading what is consistent, writing, changing the length.
const READ: libc::off_t = 0;
const WRITE: libc::off_t = 1;
const RESIZE: libc::off_t = 3;
/// Where the bytes of permissions in use begin, and those of permissions that are not shared.
const USED: libc::off_t = 100;
const UNSHARED: libc::off_t = 200;

/// Takes the locks of a writer, or of a reader, for as long as the file is open. `Err`: another's are against it, or why it cannot be
/// known.
pub(super) fn keep_out(file: &File, read_only: bool) -> io::Result<()> {
    let (mine, against): (&[libc::off_t], &[libc::off_t]) = if read_only {
        share(file)?;
        (&[USED + READ, UNSHARED + WRITE, UNSHARED + RESIZE], &[UNSHARED + READ, USED + WRITE, USED + RESIZE])
    } else {
        take(file)?;
        (
            &[USED + READ, USED + WRITE, UNSHARED + WRITE, UNSHARED + RESIZE],
            &[UNSHARED + READ, UNSHARED + WRITE, USED + WRITE, USED + RESIZE],
        )
    };
    for byte in mine {
        control(file, libc::F_OFD_SETLK, libc::F_RDLCK, *byte)?;
    }
    for byte in against {
        if control(file, libc::F_OFD_GETLK, libc::F_WRLCK, *byte)? != libc::F_UNLCK {
            return Err(taken());
        }
    }
    Ok(())
}

/// Keeps everyone of ours out.
pub(super) fn take(file: &File) -> io::Result<()> {
    known(file.try_lock())
}

/// Keeps writers of ours out.
pub(super) fn share(file: &File) -> io::Result<()> {
    known(file.try_lock_shared())
}

fn known(locked: Result<(), TryLockError>) -> io::Result<()> {
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => taken(),
        TryLockError::Error(error) => error,
    })
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "stop the other, or open both read-only")
}

/// Sets or asks for a lock of one byte, of the open file and not of the process; the kind of lock that the kernel answers.
fn control(file: &File, command: libc::c_int, kind: libc::c_int, byte: libc::off_t) -> io::Result<libc::c_int> {
    // SAFETY: plain numbers, for which zeroes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    // SAFETY: the descriptor is open, and `lock` is what both commands read and write.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::c_int::from(lock.l_type))
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    fn opened(file: &tempfile::NamedTempFile) -> File {
        File::options().read(true).write(true).open(file.path()).unwrap()
    }

    #[test]
    fn a_program_that_locks_as_qemu_does_and_one_of_ours_keep_each_other_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = |read_only| keep_out(&opened(&file), read_only).err().map(|error| error.kind());
        let busy = |refused: bool| refused.then_some(io::ErrorKind::ResourceBusy);
        for (byte, from_writing, from_reading) in [
            (USED + READ, false, false),
            (USED + WRITE, true, true),
            (USED + RESIZE, true, true),
            (UNSHARED + READ, true, true),
            (UNSHARED + WRITE, true, false),
            (UNSHARED + RESIZE, false, false),
        ] {
            let other = opened(&file);
            control(&other, libc::F_OFD_SETLK, libc::F_RDLCK, byte).unwrap();
            assert_eq!((refused(false), refused(true)), (busy(from_writing), busy(from_reading)), "byte {byte}");
        }
        for (read_only, locked) in [
            (false, vec![USED + READ, USED + WRITE, UNSHARED + WRITE, UNSHARED + RESIZE]),
            (true, vec![USED + READ, UNSHARED + WRITE, UNSHARED + RESIZE]),
        ] {
            let ours = opened(&file);
            keep_out(&ours, read_only).unwrap();
            let other = opened(&file);
            for byte in [USED + READ, USED + WRITE, USED + RESIZE, UNSHARED + READ, UNSHARED + WRITE, UNSHARED + RESIZE]
            {
                let seen = control(&other, libc::F_OFD_GETLK, libc::F_WRLCK, byte).unwrap();
                assert_eq!(seen != libc::F_UNLCK, locked.contains(&byte), "byte {byte}, read-only {read_only}");
            }
        }
    }

    #[test]
    fn of_two_of_ours_the_second_is_let_in_only_if_both_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
            let holder = opened(&file);
            keep_out(&holder, first).unwrap();
            let both = keep_out(&opened(&file), second).is_ok();
            assert_eq!(both, first && second, "read-only: {first}, then {second}");
            drop(holder);
            keep_out(&opened(&file), second).unwrap();
        }
    }
}
