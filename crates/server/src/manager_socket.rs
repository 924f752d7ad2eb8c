//! The socket of `--manager-socket`. Anybody may connect: the system says who has, and for whom that process may speak.

use crate::error::Error;
use crate::listen::{Made, remove_dead};
use crate::managers::OwnersOption;
use forebay_owning::{Files, Managers};
use forebay_pool::{Owner, Pool, Volume};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// The files of a mount, and who uses them.
pub(crate) struct MountedFiles(pub(crate) forebay_fuse::Finder);

impl Files for MountedFiles {
    fn owner(&self, process: u32) -> Option<Owner> {
        self.0.owner(process)
    }

    fn volume(&self, device: u64, inode: u64) -> Option<(Arc<Volume>, u64)> {
        let volume = self.0.volume(device, inode)?;
        let blocks = volume.blocks();
        Some((volume, blocks))
    }
}

/// Steered files, and who uses them.
pub(crate) struct SteeredFiles(pub(crate) forebay_kernel::Finder);

impl Files for SteeredFiles {
    fn owner(&self, process: u32) -> Option<Owner> {
        self.0.owner(process)
    }

    fn volume(&self, device: u64, inode: u64) -> Option<(Arc<Volume>, u64)> {
        self.0.volume(device, inode)
    }
}

/// Whether the policy of a cache takes managers of programs' own, and an owner is one process's or one user's.
pub(crate) fn check(pool: &Pool, owners: OwnersOption) -> Result<(), Error> {
    let taken = pool.given_up(&pool.owner(0));
    taken.map_err(|error| Error::Usage(format!("--manager-socket: {error}")))?;
    if matches!(owners, OwnersOption::Cgroup | OwnersOption::Program) {
        let what = "a manager of its own is one process's or one user's: take --owners process or user";
        return Err(Error::Usage(format!("--manager-socket beside --owners {}: {what}", owners.name())));
    }
    Ok(())
}

/// Serves managers until the process ends. The socket goes with what is returned.
pub(crate) fn start(managers: &Arc<Managers>, path: &Path) -> Result<Made, Error> {
    let failed = |error: io::Error| Error::Failed(format!("--manager-socket {}: {error}", path.display()));
    remove_dead(path).map_err(failed)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    let made = Made::new(path).map_err(failed)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed)?;
    let managers = Arc::clone(managers);
    let serve = move || managers.serve(&listener);
    std::thread::Builder::new().name("managers".to_owned()).spawn(serve).map_err(failed)?;
    Ok(made)
}
