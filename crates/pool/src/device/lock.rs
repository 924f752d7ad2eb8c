//! Keeping other writers from a file.
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

/// Takes the locks of a writer, for as long as the file is open. `Err`: another has it, or why it cannot be known.
pub(super) fn keep_writers_out(file: &File) -> io::Result<()> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(taken()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    for byte in [USED + READ, USED + WRITE, UNSHARED + WRITE, UNSHARED + RESIZE] {
        control(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte)?;
    }
    for byte in [UNSHARED + READ, UNSHARED + WRITE, USED + WRITE, USED + RESIZE] {
        if control(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte)? != libc::F_UNLCK {
            return Err(taken());
        }
    }
    Ok(())
}

fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "stop the other, or open one of them read-only")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(file: &tempfile::NamedTempFile) -> File {
        File::options().read(true).write(true).open(file.path()).unwrap()
    }

    #[test]
    fn a_program_that_locks_as_qemu_does_and_one_of_ours_keep_each_other_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (byte, refused) in [
            (USED + READ, false),
            (USED + WRITE, true),
            (USED + RESIZE, true),
            (UNSHARED + READ, true),
            (UNSHARED + WRITE, true),
            (UNSHARED + RESIZE, false),
        ] {
            let other = opened(&file);
            control(&other, libc::F_OFD_SETLK, libc::F_RDLCK, byte).unwrap();
            let kept_out = keep_writers_out(&opened(&file)).err().map(|error| error.kind());
            assert_eq!(kept_out, refused.then_some(io::ErrorKind::ResourceBusy), "byte {byte}");
        }
        let ours = opened(&file);
        keep_writers_out(&ours).unwrap();
        let other = opened(&file);
        for (byte, locked) in [
            (USED + READ, true),
            (USED + WRITE, true),
            (UNSHARED + WRITE, true),
            (UNSHARED + RESIZE, true),
            (UNSHARED + READ, false),
        ] {
            let seen = control(&other, libc::F_OFD_GETLK, libc::F_WRLCK, byte).unwrap();
            assert_eq!(seen != libc::F_UNLCK, locked, "byte {byte}");
        }
        assert!(keep_writers_out(&other).is_err());
        drop(ours);
        drop(other);
        keep_writers_out(&opened(&file)).unwrap();
    }
}
