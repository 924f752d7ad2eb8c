//! The folder in which processes leave what is known of them: figures, messages, references.
//!
//! Each process that writes there holds a shared lock. A folder without a lock was left by a killed command: the next command removes it.

use forebay_record::Error;
use forebay_run_shared::MESSAGES;
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, fallocate, fchmod, flock, open};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "forebay-run-";

/// Room for messages that is there even when the file system is full.
const ROOM: u64 = 64 << 10;

/// A folder that is removed in the end.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _used: OwnedFd,
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Folder {
    /// Makes one among others.
    pub(crate) fn new(among: &Path) -> Result<Self, Error> {
        remove_left(among);
        let failed = |error: io::Error| {
            let room = "there is no room for figures and messages: free some, or set TMPDIR to another folder";
            match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT) => Error::Failed(format!("{}: {room}", among.display())),
                _ => Error::File(among.to_owned(), error),
            }
        };
        let path = among.canonicalize().map_err(failed)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&path).map_err(failed)?;
        let used = open_folder(made.path()).map_err(failed)?;
        flock(&used, FlockOperation::LockShared).map_err(|error| failed(error.into()))?;
        let folder = Self { path: made.keep(), _used: used };
        folder.fill().map_err(failed)?;
        Ok(folder)
    }

    /// Processes that have dropped rights write messages, too; the name cannot be guessed.
    fn fill(&self) -> io::Result<()> {
        let messages = File::create_new(self.path.join(MESSAGES))?;
        fallocate(&messages, FallocateFlags::KEEP_SIZE, 0, ROOM)?;
        fchmod(&messages, Mode::from_raw_mode(0o622))?;
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o711))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What processes had to say: lines of text.
    pub(crate) fn messages(&self) -> String {
        let said = std::fs::read(self.path.join(MESSAGES)).unwrap_or_default();
        String::from_utf8_lossy(&said)
            .chars()
            .filter(|&character| character == '\n' || !character.is_control())
            .collect()
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Removes this user's folders that commands have left which were killed, and all of whose programs have ended.
fn remove_left(among: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(among) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if !named || !path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == own) {
            continue;
        }
        // One that has just been made is not locked yet, but has no messages either.
        let left = path.join(MESSAGES).exists()
            && open_folder(&path).is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        if left {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_nobody_uses_is_removed_by_the_next() {
        let among = tempfile::tempdir().expect("a folder");
        let make = || Folder::new(among.path()).expect("a folder");
        let used = make();
        let left = std::mem::ManuallyDrop::new(make());
        let path = left.path().to_owned();
        // As if its process had been killed.
        // SAFETY: the folder is not used any more, and its other parts are leaked.
        drop(unsafe { std::ptr::read(&raw const left._used) });
        drop(make());
        assert!(used.path().join(MESSAGES).exists());
        assert!(!path.exists());
    }
}
