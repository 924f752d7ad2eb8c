//! Names and attributes: what is answered by the tree below at once.

use crate::attributes::{Attributes, decode_device};
use crate::credentials::{as_user, in_name_of};
use crate::directory::Directory;
use crate::inode::{attributes, proc_path};
use crate::nodes::Node;
use crate::object::{Done, Object};
use crate::protocol::{Caller, Create, Errno, Opened, SetAttributes, SetTime};
use crate::shared::{Shared, Victim};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Statx, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of an extended attribute, or of a list of them.
const MOST_XATTR: usize = 64 << 10;

/// The attributes of a file below are being changed through the mount.
pub(crate) struct Changing(Arc<Object>);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.file.last_change.end_change();
    }
}

impl Shared {
    pub(crate) fn look_up(&self, parent: u64, name: &OsStr) -> Result<Attributes, Errno> {
        let (node, found) = self.nodes.look_up(&*self.nodes.path(parent)?, name)?;
        Ok(self.attributes(&node, found))
    }

    pub(crate) fn get_attributes(&self, number: u64) -> Result<Attributes, Errno> {
        let node = self.nodes.get(number)?;
        let found = attributes(self.nodes.tree.path(&node.inode)?.as_fd())?;
        Ok(self.attributes(&node, found))
    }

    /// Changes attributes, the length apart.
    pub(crate) fn set_attributes(
        &self,
        node: &Node,
        caller: Caller,
        changes: &SetAttributes,
    ) -> Result<Attributes, Errno> {
        let path = self.nodes.tree.path(&node.inode)?;
        let _changing = self.about_to_change(node, &path, None);
        if changes.user.is_some() || changes.group.is_some() {
            let user = changes.user.map(rustix::fs::Uid::from_raw);
            let group = changes.group.map(rustix::fs::Gid::from_raw);
            let left = self.mode_after_owner(&path, caller)?;
            rustix::fs::chownat(&path, c"", user, group, AtFlags::EMPTY_PATH)?;
            if let Some(left) = left {
                rustix::fs::chmod(proc_path(path.as_fd()), Mode::from_raw_mode(left & 0o7777))?;
            }
        }
        if let Some(mode) = changes.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmod(proc_path(path.as_fd()), mode)?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times =
                Timestamps { last_access: timespec(changes.accessed), last_modification: timespec(changes.modified) };
            rustix::fs::utimensat(&path, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        let found = match &node.object().get() {
            Some(object) => object.file.last_change.note_change(path.as_fd(), changes.modified.is_some())?,
            None => attributes(path.as_fd())?,
        };
        Ok(self.attributes(node, found))
    }

    /// Attributes below are about to be changed, until what this returns is dropped: what others have done to the file before is not to be taken for that, nor that
    /// for a change by others. `found`: how it has just been seen, if it was looked at.
    #[must_use]
    pub(crate) fn about_to_change(&self, node: &Node, path: &OwnedFd, found: Option<&Statx>) -> Option<Changing> {
        let object = node.object().get()?;
        object.file.last_change.expect_change(path.as_fd(), found);
        Some(Changing(object))
    }

    /// Takes note that attributes below have changed.
    fn changed(&self, node: &Node, path: &OwnedFd) {
        if let Some(object) = &node.object().get() {
            // What cannot be looked at now is looked at when it is opened next.
            let _ = object.file.last_change.note_change(path.as_fd(), false);
        }
    }

    pub(crate) fn read_link(&self, number: u64) -> Result<Vec<u8>, Errno> {
        let target = rustix::fs::readlinkat(&*self.nodes.path(number)?, c"", Vec::new())?;
        Ok(target.into_bytes())
    }

    /// Makes something in a directory in its user's name, and tells the kernel of it.
    fn make(
        &self,
        (caller, umask): (Caller, u32),
        (parent, name): (u64, &OsStr),
        make: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<Attributes, Errno> {
        let parent = self.nodes.path(parent)?;
        as_user(self.nodes.tree.superuser(), caller, umask, || make(&parent))?;
        let (node, found) = self.nodes.look_up(&parent, name)?;
        Ok(self.attributes(&node, found))
    }

    pub(crate) fn make_node(
        &self,
        by: (Caller, u32),
        at: (u64, &OsStr),
        (mode, device): (u32, u32),
    ) -> Result<Attributes, Errno> {
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode & 0o7777));
        self.make(by, at, |parent| rustix::fs::mknodat(parent, at.1.as_bytes(), kind, mode, decode_device(device)))
    }

    pub(crate) fn make_directory(&self, by: (Caller, u32), at: (u64, &OsStr), mode: u32) -> Result<Attributes, Errno> {
        self.make(by, at, |parent| rustix::fs::mkdirat(parent, at.1.as_bytes(), Mode::from_raw_mode(mode & 0o7777)))
    }

    pub(crate) fn make_link(&self, caller: Caller, at: (u64, &OsStr), target: &OsStr) -> Result<Attributes, Errno> {
        self.make((caller, 0), at, |parent| rustix::fs::symlinkat(target.as_bytes(), parent, at.1.as_bytes()))
    }

    pub(crate) fn link(&self, caller: Caller, number: u64, parent: u64, name: &OsStr) -> Result<Attributes, Errno> {
        let (node, parent) = (self.nodes.get(number)?, self.nodes.path(parent)?);
        let path = self.nodes.tree.path(&node.inode)?;
        let from = proc_path(path.as_fd());
        let _changing = self.about_to_change(&node, &path, None);
        let link = || rustix::fs::linkat(CWD, &*from, &*parent, name.as_bytes(), AtFlags::SYMLINK_FOLLOW);
        in_name_of(self.nodes.tree.superuser(), caller, link)??;
        // It may have had none.
        node.inode.named();
        self.changed(&node, &path);
        let (node, found) = self.nodes.look_up(&parent, name)?;
        Ok(self.attributes(&node, found))
    }

    pub(crate) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> Result<(), Errno> {
        let parent = self.nodes.path(parent)?;
        let victim = self.victim(&parent, name);
        let expect = |Victim { node, path, found }: &Victim| self.about_to_change(node, path, Some(found));
        let _changing = victim.as_ref().and_then(expect);
        rustix::fs::unlinkat(&*parent, name.as_bytes(), flags)?;
        if let Some(victim) = victim {
            self.name_gone(&victim);
        }
        Ok(())
    }

    /// What takes another file's place is written first, as ext4 does: so that after a kill there is one or the other. `wait`: for that.
    pub(crate) fn rename(
        &self,
        caller: Caller,
        (parent, name): (u64, &OsStr),
        (new_parent, new_name): (u64, &OsStr),
        flags: u32,
        wait: bool,
    ) -> Result<Done<()>, Errno> {
        let (parent, new_parent) = (self.nodes.path(parent)?, self.nodes.path(new_parent)?);
        let flags = RenameFlags::from_bits_retain(flags);
        let moved = self.victim(&parent, name);
        let replaced = self.victim(&new_parent, new_name);
        let object = moved.as_ref().filter(|_| replaced.is_some()).and_then(|moved| moved.node.object().get());
        if let Some(object) = object.filter(|object| object.has_unwritten()) {
            if !wait {
                return Ok(Done::Later);
            }
            // Both names stay.
            self.hand_over(&object)?;
        }
        let expect = |Victim { node, path, found }: &Victim| self.about_to_change(node, path, Some(found));
        let _changing: Vec<Changing> = moved.iter().chain(&replaced).filter_map(expect).collect();
        let (from, to) = (name.as_bytes(), new_name.as_bytes());
        let rename = || rustix::fs::renameat_with(&*parent, from, &*new_parent, to, flags);
        in_name_of(self.nodes.tree.superuser(), caller, rename)??;
        if let Some(Victim { node, path, .. }) = &moved {
            self.changed(node, path);
            self.renamed(node, path, (&parent, name));
        }
        match &replaced {
            Some(Victim { node, path, .. }) if flags.contains(RenameFlags::EXCHANGE) => {
                self.changed(node, path);
                self.renamed(node, path, (&new_parent, new_name));
            }
            // Two names of one file: nothing was renamed.
            Some(Victim { node, .. }) if moved.as_ref().is_some_and(|moved| Arc::ptr_eq(&moved.node, node)) => {}
            Some(replaced) => self.name_gone(replaced),
            None => {}
        }
        Ok(Done::Now(()))
    }

    /// A file or directory has a new name: rules and traces go by that. `before`: where it was.
    fn renamed(&self, node: &Node, path: &OwnedFd, before: (&OwnedFd, &OsStr)) {
        let tree = &self.nodes.tree;
        let name = tree.name_of(path.as_fd());
        let rename = |object: &Object, name: &Path| {
            object.rename(&name.display().to_string());
            self.read_attributes(object);
            self.decide_anew(object);
        };
        let object = node.object().get();
        if let Some(object) = object {
            return rename(&object, &name);
        }
        let is_directory = |found: Statx| u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        if attributes(path.as_fd()).is_ok_and(is_directory) {
            let before = tree.name_of(before.0.as_fd()).join(before.1);
            for object in self.nodes.settled_objects() {
                if let Ok(rest) = Path::new(&*object.file.name()).strip_prefix(&before) {
                    rename(&object, &name.join(rest));
                }
            }
        }
    }

    /// Makes a file and opens it.
    pub(crate) fn create(&self, caller: Caller, parent: u64, file: &Create<'_>) -> Result<(Attributes, Opened), Errno> {
        let parent = self.nodes.path(parent)?;
        let how = match file.name {
            Some(_) => OFlags::CREATE | OFlags::EXCL,
            // Without O_EXCL it may get a name later.
            None => OFlags::TMPFILE | OFlags::from_bits_retain(file.flags as u32) & OFlags::EXCL,
        };
        let how = how | OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(file.mode & 0o7777);
        let name = file.name.unwrap_or(OsStr::new("."));
        let open = || rustix::fs::openat(&*parent, name.as_bytes(), how, mode);
        let fd = as_user(self.nodes.tree.superuser(), caller, file.umask, open).map_err(|error| {
            match Errno::from(error) {
                // It has come below meanwhile: the kernel looks again, and whether its user may open it.
                Errno::EEXIST if file.flags & libc::O_EXCL == 0 => Errno::ESTALE,
                error => error,
            }
        })?;
        let fd = Arc::new(fd);
        let found = attributes(fd.as_fd())?;
        // By what was opened: the name may be another's already.
        let node = self.nodes.enter(&fd, true, &found);
        let opened = self.open_new(Arc::clone(&node), file.flags, caller)?;
        Ok((self.attributes(&node, found), opened))
    }

    pub(crate) fn open_directory(&self, number: u64) -> Result<u64, Errno> {
        let node = self.nodes.get(number)?;
        Ok(self.directories.add(Directory::open(&self.nodes.tree, &node)?))
    }

    /// `fsync` of a directory.
    pub(crate) fn sync_directory(&self, handle: u64) -> Result<(), Errno> {
        let directory = self.directories.get(handle)?;
        Ok(rustix::fs::fsync(&*directory.fd)?)
    }

    /// An extended attribute, or the list of their names.
    pub(crate) fn xattr(&self, caller: Caller, number: u64, name: Option<&OsStr>) -> Result<Vec<u8>, Errno> {
        let path = self.nodes.path(number)?;
        let path = proc_path(path.as_fd());
        let mut value = vec![0; MOST_XATTR];
        let length = match name {
            Some(name) => rustix::fs::getxattr(path, name.as_bytes(), &mut value[..]),
            None => rustix::fs::listxattr(path, &mut value[..]),
        };
        value.truncate(length?);
        if name.is_none() && caller.user != 0 {
            value = without_trusted(&value);
        }
        Ok(value)
    }

    /// Sets an extended attribute. `drop_group_id`: it is an access list, set by a process that may not keep set-group-id.
    pub(crate) fn set_xattr(
        &self,
        number: u64,
        name: &OsStr,
        (value, flags): (&[u8], u32),
        (caller, drop_group_id): (Caller, bool),
    ) -> Result<(), Errno> {
        let node = self.nodes.get(number)?;
        let path = self.nodes.tree.path(&node.inode)?;
        let flags = XattrFlags::from_bits_retain(flags);
        let _changing = self.about_to_change(&node, &path, None);
        let set = || rustix::fs::setxattr(&*proc_path(path.as_fd()), name.as_bytes(), value, flags);
        in_name_of(self.nodes.tree.superuser(), caller, set)??;
        if drop_group_id {
            let mode = u32::from(attributes(path.as_fd())?.stx_mode) & 0o7777;
            rustix::fs::chmod(proc_path(path.as_fd()), Mode::from_raw_mode(mode & !libc::S_ISGID))?;
        }
        self.changed(&node, &path);
        Ok(())
    }

    /// Gives a file capabilities. What is written below later than that would take them away, so what waits to be written comes first.
    pub(crate) fn set_capabilities(
        &self,
        number: u64,
        name: &OsStr,
        value: (&[u8], u32),
        by: (Caller, bool),
    ) -> Result<(), Errno> {
        let object = self.nodes.get(number)?.object().get();
        if let Some(object) = object.filter(|object| object.has_unwritten()) {
            self.hand_over(&object)?;
        }
        self.set_xattr(number, name, value, by)
    }

    pub(crate) fn remove_xattr(&self, number: u64, name: &OsStr) -> Result<(), Errno> {
        let node = self.nodes.get(number)?;
        let path = self.nodes.tree.path(&node.inode)?;
        let _changing = self.about_to_change(&node, &path, None);
        rustix::fs::removexattr(proc_path(path.as_fd()), name.as_bytes())?;
        self.changed(&node, &path);
        Ok(())
    }
}

/// A list of names without those that only root sees.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    let names = names.split_inclusive(|&byte| byte == 0);
    names.filter(|name| !name.starts_with(b"trusted.")).flatten().copied().collect()
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW as _ },
        Some(SetTime::At(seconds, nanoseconds)) => Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
    }
}
