//! What is in the cache already: it is looked up at the start, of a directory that has come, and after lost events. A few files a turn, so that events are taken
//! meanwhile.

use super::State;
use crate::act;
use crate::file_system::identify;
use crate::files::Files;
use crate::steered::Steered;
use crate::walk::Walk;
use crate::watch::{FileId, Watch};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long it goes on before events are taken.
const SLICE: Duration = Duration::from_millis(2);

/// What is still to be looked at.
#[derive(Default)]
pub(super) struct Lookup {
    /// Directories, for files that are not known.
    walks: Vec<Walk>,
    /// Known files by their numbers, for pages that have come or gone without an event.
    known: Vec<u32>,
    /// The files with several names that these walks have met so far, with their directories.
    linked: HashMap<FileId, usize>,
}

impl Lookup {
    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.walks.is_empty() && self.known.is_empty()
    }
}

impl State {
    /// Finds what is in the cache already, while events are taken; or as much of it as is found until `stops` says so.
    pub(super) fn look_up_all(&mut self, stops: &mut dyn FnMut() -> bool) {
        while !self.lookup.is_done() && !stops() {
            self.turn(Instant::now());
        }
        self.weigh();
        self.show();
    }

    pub(super) fn begin_walks(&mut self) {
        self.lookup.walks = self.scopes.directories().map(Walk::new).collect();
        self.lookup.linked.clear();
    }

    /// Goes on looking, for a slice of time.
    pub(super) fn go_on_looking(&mut self) {
        let until = Instant::now() + SLICE;
        while let Some(object) = self.lookup.known.pop() {
            self.look_anew(object);
            if Instant::now() >= until {
                return;
            }
        }
        self.go_on_walking(until);
    }

    /// Looks for files of which anything is in the cache, and that are not known.
    fn go_on_walking(&mut self, until: Instant) {
        let Self { lookup, linked, scopes, files, steered, watch, only_users, .. } = self;
        let walked = lookup.walks.len();
        let Some(walk) = lookup.walks.last_mut() else { return };
        let directory = scopes.directory(walked - 1);
        let done = walk.go_on(until, &mut |file, id, bytes, links| {
            if links > 1 {
                linked.insert(id, directory);
                lookup.linked.insert(id, directory);
            }
            if !*only_users && files.find(id).is_none() {
                find_pages((files, steered, watch), file, (id, bytes), directory);
            }
        });
        if done {
            lookup.walks.pop();
            if lookup.walks.is_empty() {
                // Those that these walks have not met are there no more.
                *linked = std::mem::take(&mut lookup.linked);
            }
        }
    }

    /// After lost events, what is there is looked up anew.
    pub(super) fn notice_losses(&mut self) {
        let lost = self.watch.lost();
        if lost == self.lost {
            return;
        }
        let then = if self.only_users { "they are not recorded" } else { "what is in the cache is looked up anew" };
        tracing::warn!("{} events came too fast, and are lost: {then}", lost - self.lost);
        self.lost = lost;
        if !self.only_users {
            self.look_all_up_anew();
        }
    }

    /// Has all known files looked at, and directories walked through: files that nothing is known of may have come meanwhile.
    pub(super) fn look_all_up_anew(&mut self) {
        self.begin_walks();
        self.lookup.known = self.files.iter().map(|file| file.volume.id()).collect();
    }

    /// Looks which pages of a known file are there.
    fn look_anew(&mut self, object: u32) {
        let Some(file) = self.files.get(object) else { return };
        let Some(system) = self.scopes.system(file.id.device) else { return };
        let volume = Arc::clone(&file.volume);
        let opened = self.descriptors.get(system, file.id);
        // One that cannot be opened was deleted, and its pages with it.
        let there: HashSet<u64> = opened.ok().and_then(|file| pages_of(file).ok()).unwrap_or_default();
        let known = self.steered.residents().pages_of(object);
        for page in known.iter().filter(|page| !there.contains(page)) {
            self.steered.removed(&volume, *page, 1, false);
        }
        for page in there.into_iter().filter(|page| known.binary_search(page).is_err()) {
            self.steered.found(&volume, page..page + 1);
        }
    }
}

/// A file that was found in a directory: if anything of it is in the cache, it is steered.
pub(super) fn find_pages(
    (files, steered, watch): (&mut Files, &mut Steered, &Watch),
    file: impl AsFd,
    (id, bytes): (FileId, u64),
    directory: usize,
) {
    let mut found = Vec::new();
    if act::look(file, bytes, &mut |pages| found.push(pages)).is_err() || found.is_empty() {
        return;
    }
    let object = files.add(steered, id, Some(Instant::now()), directory);
    if let Some(volume) = files.get(object).map(|file| Arc::clone(&file.volume)) {
        found.into_iter().for_each(|pages| steered.found(&volume, pages));
    }
    let _ = watch.judge_file(id, true);
}

fn pages_of(file: impl AsFd) -> io::Result<HashSet<u64>> {
    let (_, bytes) = identify(&file)?;
    let mut pages = HashSet::new();
    act::look(file, bytes, &mut |range| pages.extend(range))?;
    Ok(pages)
}
