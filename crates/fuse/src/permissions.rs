//! Who may do what, where the kernel does not check it.
//!
//! With `default_permissions` the kernel checks modes, owners and access lists by the attributes that it knows, and asks for those of a
//! directory again after each change in it. A mount that lets in root alone does without: its requests are made below with root's
//! rights, and the file system below refuses them what it refuses root. What is left to do here:
//!
//! 1. `access` and `chdir` reach us as requests of their own, and are asked of the file below.
//! 2. What the pool does with a descriptor that is open already is not judged below: an open file, or one that is cut by its path, is
//!    looked at anew. So is a program that is to run: the kernel goes by attributes that may be a second old.
//!
//! The kernel lets in a process of root that acts in another user's name (`setfsuid`), as file servers do. The room `protocol` refuses its
//! requests, but for those on what is open.
//!
//! Mounts of other users keep the kernel's checks. Without them a directory that may not be searched any more could be searched as long
//! as the kernel believes the names in it.

use crate::inode::{attributes, proc_path};
use crate::protocol::Errno;
use crate::shared::Shared;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, StatxAttributes};

/// In the flags of a request to open: the kernel does it to run the file (`FMODE_EXEC`).
const TO_RUN: i32 = 0x20;

impl Shared {
    /// Whether this process may use a file so, now.
    pub(crate) fn check_access(&self, number: u64, wanted: Access) -> Result<(), Errno> {
        check(&*self.nodes.path(number)?, wanted)
    }

    /// Whether it may open one with these flags, now.
    pub(crate) fn check_flags(&self, path: &OwnedFd, flags: i32) -> Result<(), Errno> {
        let wanted = match flags & libc::O_ACCMODE {
            // Of other mounts the kernel knows by whom it is run.
            libc::O_RDONLY if self.root_alone && flags & TO_RUN != 0 => Access::READ_OK | Access::EXEC_OK,
            libc::O_RDONLY => Access::READ_OK,
            libc::O_WRONLY => Access::WRITE_OK,
            _ => Access::READ_OK | Access::WRITE_OK,
        };
        check(path, wanted)?;
        if wanted.contains(Access::WRITE_OK) && flags & libc::O_APPEND == 0 { check_whole(path) } else { Ok(()) }
    }
}

/// Refuses a file that may only be appended to.
pub(crate) fn check_whole(path: &OwnedFd) -> Result<(), Errno> {
    let only_appended = attributes(path.as_fd())?.stx_attributes.contains(StatxAttributes::APPEND);
    if only_appended { Err(Errno::EPERM) } else { Ok(()) }
}

fn check(path: &OwnedFd, wanted: Access) -> Result<(), Errno> {
    let checked = rustix::fs::accessat(CWD, proc_path(path.as_fd()), wanted, AtFlags::EACCESS);
    Ok(checked?)
}
