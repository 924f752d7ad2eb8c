//! What those need to know who speak for processes that use a mount: owners, and the bytes of open files.

use crate::mount::Mount;
use forebay_pool::{Owner, Volume};
use std::sync::Arc;

/// Finds owners and files of a mount.
pub struct Finder(Arc<crate::shared::Shared>, (u32, u32));

impl Mount {
    /// Finds its owners and files, for as long as it is needed.
    pub fn finder(&self) -> Finder {
        Finder(Arc::clone(&self.shared), self.place.device())
    }
}

impl Finder {
    /// The owner of the pages that a process uses, if no other user's process is that owner, too.
    pub fn owner(&self, process: u32) -> Option<Owner> {
        if !self.0.processes.of_one_user() {
            return None;
        }
        self.0.processes.of(&self.0.pool, process).map(|process| process.owner.clone())
    }

    /// The bytes of a file that somebody has open, by device and inode, as `stat` on the mount tells them.
    pub fn volume(&self, device: u64, inode: u64) -> Option<Arc<Volume>> {
        if device != rustix::fs::makedev(self.1.0, self.1.1) {
            return None;
        }
        let node = self.0.nodes.get(inode).ok()?;
        if let Some(object) = &*node.object() {
            return Some(Arc::clone(&object.volume));
        }
        // It was just made.
        let open = self.0.open.find(|open| Arc::ptr_eq(&open.node, &node))?;
        self.0.object_of(&open).ok().map(|object| Arc::clone(&object.volume))
    }
}
