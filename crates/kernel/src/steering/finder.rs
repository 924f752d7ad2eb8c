//! Owners and files, for those who speak for processes that use steered files.

use super::State;
use super::asked::{Shared, Steering};
use super::lookup::find_pages;
use crate::file_system::identify;
use crate::steered::PAGE;
use crate::watch::FileId;
use forebay_pool::{Owner, Volume};
use rustix::fs::{major, minor};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// Finds owners and steered files, for as long as they are steered.
pub struct Finder(Arc<Shared>);

impl Steering {
    /// Finds owners and steered files.
    pub fn finder(&self) -> Finder {
        Finder(self.shared())
    }
}

impl Finder {
    /// The owner of the pages that a process uses, if no other user's process is that owner, too.
    pub fn owner(&self, process: u32) -> Option<Owner> {
        self.0.ask(move |state| state.managing.owner(state.steered.pool(), process)).flatten()
    }

    /// A steered file, by its device and inode as `stat` says them, and how many pages it has. On XFS pages of it must have been used.
    pub fn volume(&self, device: u64, inode: u64) -> Option<(Arc<Volume>, u64)> {
        let device = major(device) << 20 | minor(device);
        self.0.ask(move |state| state.volume_of(device, inode)).flatten()
    }
}

impl State {
    fn volume_of(&mut self, device: u32, inode: u64) -> Option<(Arc<Volume>, u64)> {
        let Self { scopes, files, steered, watch, linked, .. } = self;
        let system = scopes.system(device)?;
        let known = || files.iter().map(|file| file.id).find(|id| (id.device, id.inode) == (device, inode));
        // ext4 takes any generation for 0.
        let opened = system.open(FileId { device, inode, generation: 0 }).or_else(|error| match known() {
            Some(id) => system.open(id),
            None => Err(error),
        });
        let opened = opened.ok()?;
        let (id, bytes) = identify(&opened).ok()?;
        let object = match files.find(id) {
            Some(object) => object,
            None => {
                let directory = linked.get(&id).copied().or_else(|| scopes.directory_of(opened.as_fd()))?;
                find_pages((files, steered, watch), &opened, (id, bytes), directory);
                files.add(steered, id, Some(Instant::now()), directory)
            }
        };
        let volume = files.get(object).map(|file| Arc::clone(&file.volume))?;
        Some((volume, bytes.div_ceil(PAGE)))
    }
}
