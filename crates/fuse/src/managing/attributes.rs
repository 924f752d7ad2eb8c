//! Extended attributes of files and directories that name a manager or a hint. They are kept below, so they outlast the mount.

use crate::hints::Hinted;
use crate::inode::proc_path;
use crate::nodes::Node;
use crate::object::Object;
use crate::protocol::{Caller, Errno};
use crate::shared::Shared;
use forebay_owning::{Advice, Attributes, HINT, MANAGER};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::ffi::OsStr;
use std::path::Path;

/// The name, if it is of an attribute that this is about.
pub(crate) fn of_ours(name: &OsStr) -> Option<&'static str> {
    [MANAGER, HINT].into_iter().find(|&ours| ours == name)
}

impl Shared {
    /// The attributes of a file or directory, as far as they are of this kind.
    fn attributes_of(&self, path: BorrowedFd<'_>) -> Attributes {
        Attributes::read(Path::new(&proc_path(path)), &mut |name, wrong| {
            let of = self.nodes.tree.name_of(path);
            self.managing.mistakes.log(&format!("{}: {name}: {wrong}", of.display()));
        })
    }

    fn attributes_of_directory(&self, path: &Path) -> Attributes {
        self.managing.directories.of(path, || {
            let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let (flags, within) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
            let fd = openat2(self.nodes.tree.root(), name, flags, Mode::empty(), within);
            // It has gone meanwhile.
            fd.map_or_else(|_| Attributes::default(), |fd| self.attributes_of(fd.as_fd()))
        })
    }

    /// Reads the attributes of a file and of the directories above it. They hold at once.
    pub(crate) fn read_attributes(&self, object: &Object) {
        if let Ok(open) = object.file.open_below() {
            self.read_attributes_of(object, &self.nodes.tree.path_below(open.main.as_fd()));
        }
    }

    /// The same of a file whose path below the mounted directory is known.
    pub(crate) fn read_attributes_of(&self, object: &Object, name: &Path) {
        let Ok(open) = object.file.open_below() else { return };
        let mut found = self.attributes_of(open.main.as_fd());
        for directory in name.ancestors().skip(1) {
            if found.manager().is_some() && found.hint.is_some() {
                break;
            }
            found = found.over(self.attributes_of_directory(directory));
        }
        let mut state = object.users.lock();
        if state.attributes != found {
            state.attributes = found;
            self.decide_all(object, &mut state);
        }
    }

    /// Sets an attribute of ours to a value, or removes it. It holds at once for what is open.
    pub(crate) fn set_ours(
        &self,
        caller: Caller,
        number: u64,
        name: &str,
        value: Option<(&[u8], u32)>,
    ) -> Result<(), Errno> {
        let node = self.nodes.get(number)?;
        match value {
            Some((value, flags)) => {
                Attributes::default().set(name, Some(value)).map_err(|wrong| {
                    let path = self.nodes.tree.path(&node.inode).map(|path| self.nodes.tree.name_of(path.as_fd()));
                    self.managing.mistakes.log(&format!("{}: {name}: {wrong}", path.unwrap_or_default().display()));
                    Errno::EINVAL
                })?;
                self.set_xattr(number, OsStr::new(name), (value, flags), (caller, false))?;
            }
            None => self.remove_xattr(number, OsStr::new(name))?,
        }
        self.attribute_changed(&node);
        Ok(())
    }

    /// An attribute of a file or directory has changed: it holds at once for what is open.
    fn attribute_changed(&self, node: &Node) {
        self.managing.directories.forget();
        let object = node.object().get();
        if let Some(object) = object {
            self.read_attributes(&object);
            if let Some(advice @ (Advice::WillNeed | Advice::DoNotNeed)) = object.users.hint() {
                // A hint: that the file has become shorter just now matters to nobody.
                let _ = self.hint_at(&object, None, Hinted::whole(advice));
            }
            return;
        }
        let Ok(path) = self.nodes.tree.path(&node.inode) else { return };
        let directory = self.nodes.tree.name_of(path.as_fd());
        for object in self.nodes.settled_objects() {
            let below = self.nodes.tree.path(object.file.inode()).map(|path| self.nodes.tree.name_of(path.as_fd()));
            if below.is_ok_and(|name| name.starts_with(&directory)) {
                self.read_attributes(&object);
            }
        }
    }
}
