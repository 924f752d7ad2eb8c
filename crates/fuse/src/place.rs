//! Where a directory is mounted: what may be mounted where, and the end of this mount and no other.

use crate::error::Error;
use crate::fuse_device;
use crate::mountinfo;
use rustix::fs::{AtFlags, CWD, Statx, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount. Others may lie below it and above it, under the same path.
pub(crate) struct Place {
    path: PathBuf,
    /// The number of the mount: a bind mount of the same directory has another.
    id: u64,
    /// The number of its file system: no other has it until this one is gone.
    device: (u32, u32),
}

impl Place {
    /// What has just been mounted at a path.
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        let found = look(&path)?;
        Ok(Self { path, id: found.stx_mnt_id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }

    /// The number of its file system.
    pub(crate) fn device(&self) -> (u32, u32) {
        self.device
    }

    /// Takes it out of sight at once, unless somebody has; it goes when nobody uses it any more.
    ///
    /// # Errors
    /// It cannot be unmounted: another mount may hide it.
    pub(crate) fn detach(&self) -> io::Result<()> {
        let ours = |found: Statx| {
            (found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor) == (self.id, self.device.0, self.device.1)
        };
        if !look(&self.path).is_ok_and(ours) {
            return if self.is_mounted()? {
                Err(io::Error::other("another mount lies over it, or it was moved: unmount that, and then this"))
            } else {
                Ok(())
            };
        }
        match unmount(&self.path, UnmountFlags::DETACH) {
            Err(Errno::PERM) => {
                let program = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(&self.path).output()?;
                if program.status.success() {
                    return Ok(());
                }
                Err(io::Error::other(String::from_utf8_lossy(&program.stderr).trim().to_owned()))
            }
            done => Ok(done?),
        }
    }

    /// Whether the file system is mounted anywhere.
    fn is_mounted(&self) -> io::Result<bool> {
        Ok(mountinfo::read()?.iter().any(|mount| mount.device == self.device))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// What is at a path, without asking the file system there, which may be one that does not answer.
fn look(path: &Path) -> io::Result<Statx> {
    Ok(statx(CWD, path, AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC, StatxFlags::MNT_ID)?)
}

/// Whether a FUSE file system is mounted on this path, which is not asked.
fn is_fuse(path: &Path) -> bool {
    let Ok(found) = look(path) else { return false };
    let mounts = mountinfo::read().unwrap_or_default();
    let mount = mounts.iter().find(|mount| mount.id == found.stx_mnt_id);
    mount.is_some_and(|mount| mount.kind.starts_with("fuse"))
        && found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
}

/// How to unmount what is there, alive or not.
fn unmounted(path: &Path) -> String {
    let path = path.display();
    format!("fusermount3 -u {path}, or umount -f {path} if that is busy and its process was killed")
}

/// Source and mount point as they are, if they fit together.
pub(crate) fn check(source: &Path, mountpoint: &Path) -> Result<(PathBuf, PathBuf), Error> {
    if is_fuse(mountpoint) {
        let at = mountpoint.display();
        return Err(Error::Usage(format!("a FUSE file system is mounted on {at} already: {}", unmounted(mountpoint))));
    }
    let (source, mountpoint) = (folder(source, "source")?, folder(mountpoint, "mount point")?);
    let (from, at) = (source.display(), mountpoint.display());
    let refused = |why: String| Err(Error::Usage(format!("{why}; choose a mount point elsewhere")));
    if mountpoint == source {
        return refused(format!("{at} is the source and the mount point"));
    }
    if mountpoint.starts_with(&source) {
        return refused(format!("{at} lies within {from}: it would show itself"));
    }
    if source.starts_with(&mountpoint) {
        return refused(format!("{from} lies within {at}: nobody would see it any more"));
    }
    let failed = |source: io::Error| Error::System { what: format!("{at}: the mount point"), source };
    if mountpoint.read_dir().map_err(failed)?.next().is_some() {
        return refused(format!("{at} is not empty: a mount would hide what is in it"));
    }
    fuse_device::check()?;
    Ok((source, mountpoint))
}

/// Refuses mounts that cannot be made, and those of which one would show, hide or cache what is another's.
pub(crate) fn check_all(mounts: &[(&Path, &Path)]) -> Result<(), Error> {
    let mut known: Vec<PathBuf> = Vec::new();
    for (source, mountpoint) in mounts {
        let (source, mountpoint) = check(source, mountpoint)?;
        for directory in [&source, &mountpoint] {
            if let Some(other) = known.iter().find(|other| directory.starts_with(other) || other.starts_with(directory))
            {
                let (directory, other) = (directory.display(), other.display());
                let what =
                    format!("{directory} and {other}, of two mounts: choose directories of which none lies in another");
                return Err(Error::Usage(what));
            }
        }
        known.extend([source, mountpoint]);
    }
    Ok(())
}

/// A directory, without symbolic links in its path.
fn folder(path: &Path, what: &str) -> Result<PathBuf, Error> {
    let found = path.canonicalize().and_then(|real| real.metadata().map(|found| (real, found.is_dir())));
    match found {
        Ok((real, true)) => Ok(real),
        Ok((_, false)) => Err(Error::Usage(format!("{}: the {what} must be a directory", path.display()))),
        Err(source) if matches!(source.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)) => {
            let what = format!("{}: a mount is left of a process that was killed: {}", path.display(), unmounted(path));
            Err(Error::Usage(what))
        }
        Err(source) => Err(Error::System { what: format!("{}: the {what}", path.display()), source }),
    }
}
