//! Set-user-id, set-group-id and capabilities of a file whose contents or owner change: they go as they would below, and at once.
//!
//! The file system below would take them away itself, by the rights of the thread that changes the file. But it sees this process,
//! which may have all rights, and often much later. And the kernel keeps attributes for a second, in which a program would run with
//! privileges that its file has lost. So before a change is answered
//!
//! 1. set-user-id goes, and set-group-id if the group may run the file or the caller is not of that group, unless the caller may keep
//!    them (`CAP_FSETID`; of root's processes all may). The kernel marks such writes and truncations. For `fallocate` and
//!    `copy_file_range` the caller's rights are looked up here.
//! 2. capabilities (`security.capability`) go, whoever the caller is;
//! 3. the kernel is made to ask again for the attributes.
//!
//! What programs write to their maps takes nothing away when they write it, as below. Its writeback takes capabilities away, as the
//! file system below cannot know that it comes from a map: a departure to the safe side.

use crate::inode::proc_path;
use crate::nodes::Node;
use crate::object::Object;
use crate::protocol::{Caller, Errno};
use crate::shared::Shared;
use crate::times::Stamp;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, Stat, fstat};
use std::fs::read_to_string;
use std::sync::{Mutex, PoisonError};

/// The attribute in which a file's capabilities are kept.
pub(crate) const CAPABILITIES: &str = "security.capability";

/// Bytes of that attribute, in its newest form.
const MOST_CAPABILITIES: usize = 24;

/// The number of `CAP_FSETID`.
const KEEPS_PRIVILEGES: u32 = 4;

/// When a file was last seen without capabilities: its time of change then.
#[derive(Default)]
pub(crate) struct Bare(Mutex<Option<Stamp>>);

impl Bare {
    fn is_known(&self, found: &Stat) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(changed(found))
    }

    fn note(&self, found: &Stat) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(changed(found));
    }
}

fn changed(found: &Stat) -> Stamp {
    Stamp { seconds: found.st_ctime, nanoseconds: found.st_ctime_nsec as u32 }
}

impl Shared {
    /// A file's bytes are about to be changed. `marked`: the caller may not keep set-user-id and set-group-id.
    pub(crate) fn drop_privileges(
        &self,
        node: &Node,
        object: &Object,
        (caller, marked): (Caller, bool),
    ) -> Result<(), Errno> {
        let found = fstat(&object.file.open_below()?.main)?;
        let left = if marked { mode_left(&found, caller) } else { found.st_mode };
        let capable = !object.bare.is_known(&found) && has_capabilities(&*self.nodes.tree.path(&node.inode)?);
        if left == found.st_mode && !capable {
            object.bare.note(&found);
            return Ok(());
        }
        // The owner does not change the mode meanwhile: the kernel lets a change of attributes and a change of bytes of one file not run at once.
        self.take_away(node, object, (found.st_mode, left), capable)
    }

    /// The same where the kernel has not looked at the caller's rights.
    pub(crate) fn drop_privileges_of(&self, node: &Node, object: &Object, caller: Caller) -> Result<(), Errno> {
        let privileged = fstat(&object.file.open_below()?.main)?.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        self.drop_privileges(node, object, (caller, privileged && !keeps_privileges(caller)))
    }

    #[cold]
    fn take_away(&self, node: &Node, object: &Object, modes: (u32, u32), capable: bool) -> Result<(), Errno> {
        let path = self.nodes.tree.path(&node.inode)?;
        let _changing = self.about_to_change(node, &path, None);
        let taken = match take_away(&path, modes, capable) {
            // The file is not the property of the user who has mounted the directory. A cut by that user takes all of it away.
            Err(Errno::EPERM) => object.file.touch_length().map_err(Errno::from),
            taken => taken,
        };
        object.file.last_change.note_change(path.as_fd(), false)?;
        self.forget_attributes(node);
        taken
    }

    /// The owner of a file changes. The system below takes away what the change itself costs; not set-group-id of a file that its group
    /// may not run, as this process has all rights.
    pub(crate) fn mode_after_owner(&self, path: &OwnedFd, caller: Caller) -> Result<Option<u32>, Errno> {
        let found = rustix::fs::statat(path, c"", rustix::fs::AtFlags::EMPTY_PATH)?;
        let left = mode_left(&found, caller);
        let kept = found.st_mode & libc::S_ISGID & !left;
        Ok((kept != 0 && !keeps_privileges(caller)).then_some(left))
    }
}

/// A file without bytes in the cache is about to be cut. Its capabilities go by that, and all of it if this process has not all rights.
pub(crate) fn drop_before_cut(fd: &OwnedFd, (caller, marked): (Caller, bool)) -> Result<(), Errno> {
    let found = fstat(fd)?;
    let left = if marked { mode_left(&found, caller) } else { found.st_mode };
    match take_away(fd, (found.st_mode, left), false) {
        Err(Errno::EPERM) => Ok(()),
        taken => taken,
    }
}

fn take_away(path: &OwnedFd, (before, left): (u32, u32), capable: bool) -> Result<(), Errno> {
    let name = proc_path(path.as_fd());
    if left != before {
        rustix::fs::chmod(&*name, Mode::from_raw_mode(left & 0o7777))?;
    }
    if capable {
        match rustix::fs::removexattr(&*name, CAPABILITIES) {
            // Others were faster.
            Err(rustix::io::Errno::NODATA) => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn has_capabilities(path: &OwnedFd) -> bool {
    let mut value = [0; MOST_CAPABILITIES];
    match rustix::fs::getxattr(proc_path(path.as_fd()), CAPABILITIES, &mut value[..]) {
        Ok(_) | Err(rustix::io::Errno::RANGE) => true,
        Err(_) => false,
    }
}

/// The mode that a caller without `CAP_FSETID` leaves of a file.
fn mode_left(found: &Stat, caller: Caller) -> u32 {
    let mode = found.st_mode;
    if mode & libc::S_IFMT != libc::S_IFREG {
        return mode;
    }
    let of_group = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP == 0 && is_of_group(caller, found.st_gid);
    mode & !libc::S_ISUID & if of_group { !0 } else { !libc::S_ISGID }
}

/// Lines of `/proc/THREAD/status` are wanted by the word that they begin with.
fn status_of(thread: u32, key: &str) -> Option<String> {
    let status = read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned)
}

/// Whether a caller is of a group. A thread that has gone is of its main group alone.
fn is_of_group(caller: Caller, group: u32) -> bool {
    let others = || status_of(caller.thread, "Groups:").unwrap_or_default();
    caller.group == group || others().split_ascii_whitespace().any(|other| other.parse() == Ok(group))
}

/// Whether a caller may keep set-user-id and set-group-id of files that it changes.
fn keeps_privileges(caller: Caller) -> bool {
    let set = status_of(caller.thread, "CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
    // Rights in a namespace of its own are none here.
    set.is_some_and(|set| set >> KEEPS_PRIVILEGES & 1 == 1)
        && namespace(&caller.thread.to_string()) == namespace("self")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(mode: u32, group: u32) -> u32 {
        // SAFETY: plain integers, for which zero is a value.
        let mut found: Stat = unsafe { std::mem::zeroed() };
        (found.st_mode, found.st_gid) = (libc::S_IFREG | mode, 7);
        mode_left(&found, Caller { user: 1, group, thread: 0 }) & 0o7777
    }

    #[test]
    fn set_group_id_stays_for_members_where_the_group_may_not_run_the_file() {
        assert_eq!(left(0o6777, 7), 0o777);
        assert_eq!(left(0o6767, 7), 0o2767);
        assert_eq!(left(0o6767, 8), 0o767);
        assert_eq!(left(0o767, 8), 0o767);
    }
}
