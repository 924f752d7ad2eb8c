//! Keeps a directory or control group to one `forebay steer`: of two, each would drop what the other wants to keep.
//!
//! The page cache of a group's files and the memory of its programs are two things, which one process each may steer.
//!
//! Each directory has a file for each of the two, named by its device and inode, in a folder that only root can open. A process locks the file of what it steers for itself, and
//! shares the locks of those of all directories above. So another's lock is in its way where one lies in the other, and nowhere else. A lock goes with its
//! process, however that ends. Files that are left are removed by whoever comes next.

use crate::error::Error;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, mkdir, open, openat, unlinkat};
use rustix::process::geteuid;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the files are. `/run/forebay` may belong to the user of a service, and goes with it.
pub(crate) const FOLDER: &str = "/run/forebay-steer";

/// How the names of notes about devices begin, which stay: a device's number follows. Those of processes have a dot behind it.
pub(crate) const READAHEAD: &str = "readahead-";

/// What of a place is steered. Both may be, by one process each.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// The page cache of its files.
    Files,
    /// The memory of its programs.
    Memory,
}

/// What is locked, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Claim(#[allow(dead_code, reason = "the locks go with the files")] Vec<File>);

impl Claim {
    /// Locks a place that is to be steered, and shares what lies above it.
    ///
    /// # Errors
    /// Another process steers it, or what lies above or below it; or there is no folder for that.
    pub(crate) fn new(place: &Path, of: Of) -> Result<Self, Error> {
        Self::in_folder(Path::new(FOLDER), place, of)
    }

    /// Whether nobody steers a place, nor what lies above or below it.
    ///
    /// # Errors
    /// There is no folder to see that in.
    pub(crate) fn is_free(place: &Path, of: Of) -> Result<bool, Error> {
        let opened = locked(Path::new(FOLDER))?;
        // Let go of before the folder is, so that it is in nobody's way.
        let tried = Self::within(&opened, place, of);
        Ok(tried.is_ok())
    }

    fn in_folder(folder: &Path, place: &Path, of: Of) -> Result<Self, Error> {
        // Held until this returns: nobody else makes, locks or removes files meanwhile.
        let opened = locked(folder)?;
        remove_left(&opened);
        Self::within(&opened, place, of)
    }

    /// The same in a folder that is locked.
    fn within(opened: &File, place: &Path, of: Of) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::Usage(format!("{}: {error}", place.display()));
        let whole = place.canonicalize().map_err(failed)?;
        let unlocked = |error: io::Error| Error::Failed(format!("the lock of {}: {error}", place.display()));
        let mut held = Vec::new();
        for (index, directory) in whole.ancestors().enumerate() {
            let found = fs::metadata(directory).map_err(failed)?;
            let file = opened_in(opened, &name(&found, of)).map_err(unlocked)?;
            match if index == 0 { file.try_lock() } else { file.try_lock_shared() } {
                Ok(()) => held.push(file),
                Err(TryLockError::WouldBlock) => return Err(refusal(place, &whole, directory)),
                Err(TryLockError::Error(error)) => return Err(unlocked(error)),
            }
        }
        Ok(Self(held))
    }
}

/// Opens the folder, and locks it.
fn locked(folder: &Path) -> Result<File, Error> {
    let opened = private(folder)?;
    opened.lock().map_err(|error| Error::Failed(format!("{}: {error}", folder.display())))?;
    Ok(opened)
}

fn refusal(place: &Path, whole: &Path, other: &Path) -> Error {
    let (place, other_place) = (place.display(), other.display());
    Error::InUse(if whole == other {
        format!("{place}: it, or a directory in it, is steered by another forebay steer already: stop that one first")
    } else {
        format!(
            "{place}: {other_place}, in which it lies, is steered by another forebay steer already: stop that one first"
        )
    })
}

/// Opens a folder that is this user's or root's alone. It is made if it is missing.
pub(crate) fn private(folder: &Path) -> Result<File, Error> {
    let failed = |error: rustix::io::Errno| {
        let hint = match error {
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "run this as root",
            rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => "it is no directory: remove it",
            _ => "it is to hold which directories are steered: mount a tmpfs on /run",
        };
        Error::Failed(format!("{}: {}; {hint}", folder.display(), io::Error::from(error)))
    };
    match mkdir(folder, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty()).map_err(failed)?;
    let found = fstat(&opened).map_err(failed)?;
    let own = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
    if !own || found.st_mode & 0o077 != 0 {
        let what = "other users may open it, and could keep directories from being steered: remove it";
        return Err(Error::Failed(format!("{}: {what}", folder.display())));
    }
    Ok(File::from(opened))
}

/// A directory's file.
fn name(directory: &fs::Metadata, of: Of) -> String {
    let kind = match of {
        Of::Files => "",
        Of::Memory => "memory-",
    };
    format!("{kind}{:x}-{}", directory.dev(), directory.ino())
}

/// A file of the folder, which is made if it is missing.
pub(crate) fn opened_in(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(folder.as_fd(), name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Removes the files that nobody has locked, but notes.
fn remove_left(folder: &File) {
    for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_note = |name: &str| name.starts_with(READAHEAD) && !name.contains('.');
        if name.to_str().is_ok_and(is_note) {
            continue;
        }
        let file = openat(folder, name, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        if file.is_ok_and(|file| File::from(file).try_lock().is_ok()) {
            // What stays is in nobody's way.
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, fcntl_lock};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    /// A folder with directories in it, and the path for what is claimed.
    fn folder(directories: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        directories.iter().for_each(|name| fs::create_dir_all(folder.path().join(name)).unwrap());
        let claims = folder.path().join("claims");
        (folder, claims)
    }

    #[test]
    fn a_directory_is_steered_once_and_neighbours_side_by_side() {
        let (folder, claims) = folder(&["a/b", "c"]);
        let place = |name: &str| folder.path().join(name);
        let claim = |name: &str| Claim::in_folder(&claims, &place(name), Of::Files);
        let refused = |name: &str| claim(name).unwrap_err().to_string();
        let below = claim("a/b").unwrap();
        let beside = claim("c").unwrap();
        assert!(refused("a/b").contains("a/b: it, or a directory in it, is steered by another"));
        assert!(refused("a").contains("a: it, or a directory in it"));
        drop(below);
        let above = claim("a").unwrap();
        assert!(refused("a/b").contains(&format!("{}, in which it lies, is steered", place("a").display())));
        drop((above, beside));
        assert!(claim("a/b").is_ok());
        let _memory = Claim::in_folder(&claims, &place("a/b"), Of::Memory).expect("its files are another's alone");
        let missing = claim("no").unwrap_err();
        assert!(missing.is_usage() && missing.to_string().contains("no: No such file"), "{missing}");
    }

    #[test]
    fn a_lock_of_the_directory_itself_keeps_nobody_from_it() {
        let (folder, claims) = folder(&["a"]);
        let other = File::open(folder.path().join("a")).unwrap();
        other.lock().unwrap();
        fcntl_lock(&other, FlockOperation::LockShared).unwrap();
        assert!(Claim::in_folder(&claims, &folder.path().join("a"), Of::Files).is_ok());
        assert_eq!(fs::metadata(&claims).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn files_that_are_left_go() {
        let (folder, claims) = folder(&["a"]);
        drop(Claim::in_folder(&claims, &folder.path().join("a"), Of::Files).unwrap());
        fs::write(claims.join("left"), "").unwrap();
        fs::write(claims.join("readahead-8:0.4711.0"), "").unwrap();
        fs::write(claims.join("readahead-8:0"), "").unwrap();
        let here = || fs::read_dir(&claims).unwrap().count();
        let depth = folder.path().join("a").canonicalize().unwrap().ancestors().count();
        let _claim = Claim::in_folder(&claims, &folder.path().join("a"), Of::Files).unwrap();
        assert_eq!(here(), depth + 1, "one for each directory above, and a note");
    }

    #[test]
    fn a_folder_that_others_may_open_or_that_is_a_link_is_refused() {
        let (folder, claims) = folder(&["a", "open"]);
        let refused = || Claim::in_folder(&claims, &folder.path().join("a"), Of::Files).unwrap_err().to_string();
        symlink(folder.path().join("open"), &claims).unwrap();
        assert!(
            refused().contains("claims: ") && refused().ends_with("it is no directory: remove it"),
            "{}",
            refused()
        );
        fs::remove_file(&claims).unwrap();
        fs::create_dir(&claims).unwrap();
        fs::set_permissions(&claims, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(refused().ends_with("could keep directories from being steered: remove it"), "{}", refused());
        let nowhere =
            Claim::in_folder(&folder.path().join("no/claims"), folder.path(), Of::Files).unwrap_err().to_string();
        assert!(nowhere.contains("no/claims: No such file") && nowhere.ends_with("mount a tmpfs on /run"), "{nowhere}");
    }
}
