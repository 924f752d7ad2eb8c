//! Where files lie on their disks (FIEMAP), for a policy that goes by block numbers.
//!
//! ```text
//!   policy --on_disk--> Extents --Asked--> the owner of the files: opens them, and calls `runs_of`
//!                          ^-----found------------'
//! ```
//!
//! A file system may hold a file's lock for as long as a write takes, and FIEMAP waits for that lock. So a thread of its own asks, and until it has the answer the
//! policy goes by places in files. A file is asked for again in two cases: what is known of it is old, or it lacks a block. That block
//! may have been written since.
//!
//! Files are kept in two generations. When the recent one has as many files or extents as the cache has pages, it becomes the one before, which is dropped; a file that
//! is asked for meanwhile comes back into the recent one. So files that were used as lately as any page of the cache are known, if each has a page. A file takes up to
//! 110 bytes, an extent 24.

mod fiemap;

pub use fiemap::runs_of;

use foldhash::fast::RandomState;
use forebay_basis::Place;
use forebay_policy::Layout;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A block that is in no known extent is looked for again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Files are moved, and share extents, without an event.
const OLD: Duration = Duration::from_secs(30);
/// A generation has room for a file and an extent for each page of the cache, and for this many more.
const FEWEST: usize = 1024;
/// The most files that wait to be asked for. More are asked for later.
const MOST_ASKED: usize = 1 << 16;

/// Pages of a file that lie side by side: the first, how many, and the block of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    first: u64,
    pages: u64,
    block: u64,
}

/// What is known of a file.
#[derive(Debug)]
struct FileLayout {
    /// Its disk's number, inverted: the numbers of files begin at 0.
    disk: u32,
    runs: Box<[Run]>,
    /// When that was found.
    at: Instant,
    /// It is being asked for.
    asked: bool,
}

impl FileLayout {
    /// Nothing yet.
    fn new(asked: bool) -> Self {
        Self { disk: 0, runs: Box::default(), at: Instant::now(), asked }
    }
}

/// Files by their numbers in the pool, and how many extents they have.
#[derive(Debug, Default)]
struct Generation {
    files: HashMap<u32, FileLayout, RandomState>,
    runs: usize,
}

impl Generation {
    fn remove(&mut self, object: u32) -> Option<FileLayout> {
        let layout = self.files.remove(&object)?;
        self.runs -= layout.runs.len();
        Some(layout)
    }

    fn bytes(&self) -> usize {
        self.files.capacity() * size_of::<(u32, FileLayout)>() + self.runs * size_of::<Run>()
    }
}

/// No file is in both.
#[derive(Debug, Default)]
struct Known {
    recent: Generation,
    before: Generation,
    /// The most files of a generation, and extents.
    most: usize,
}

impl Known {
    fn is_asked(&self, object: u32) -> bool {
        [&self.recent, &self.before].iter().any(|of| of.files.get(&object).is_some_and(|layout| layout.asked))
    }

    fn remove(&mut self, object: u32) -> Option<FileLayout> {
        self.recent.remove(object).or_else(|| self.before.remove(object))
    }

    /// Takes a file into the recent generation.
    fn insert(&mut self, object: u32, layout: FileLayout) -> &mut FileLayout {
        if self.recent.files.len() >= self.most || self.recent.runs + layout.runs.len() > self.most {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.runs += layout.runs.len();
        self.recent.files.entry(object).insert_entry(layout).into_mut()
    }

    /// A file, which is `new` if nothing is known of it.
    fn get(&mut self, object: u32, new: impl FnOnce() -> FileLayout) -> &mut FileLayout {
        if !self.recent.files.contains_key(&object) {
            let layout = self.before.remove(object).unwrap_or_else(new);
            return self.insert(object, layout);
        }
        self.recent.files.get_mut(&object).expect("it is there")
    }
}

/// The files that are asked for, by their numbers in the pool. An answer may be that nothing is found.
pub type Asked = Receiver<u32>;

/// Where files lie, as far as it is known.
#[derive(Debug)]
pub struct Extents {
    known: Mutex<Known>,
    asks: SyncSender<u32>,
}

impl Extents {
    /// Nothing is known, of files of which this many pages may be in the cache.
    pub fn new(pages: u64) -> (Arc<Self>, Asked) {
        let most = usize::try_from(pages).unwrap_or(usize::MAX).saturating_add(FEWEST);
        let (asks, asked) = sync_channel(most.min(MOST_ASKED));
        (Arc::new(Self { known: Mutex::new(Known { most, ..Known::default() }), asks }), asked)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let known = self.known();
        known.recent.bytes() + known.before.bytes()
    }

    /// A file is going to be used: it is asked for, if nothing is known of it.
    pub fn expect(&self, object: u32) {
        self.known().get(object, || FileLayout::new(self.ask(object)));
    }

    /// A file has gone, or its blocks have.
    pub fn forget(&self, object: u32) {
        self.known().remove(object);
    }

    /// A file that was asked for lies there, on the disk of this number.
    pub fn found(&self, object: u32, disk: u32, runs: Box<[Run]>) {
        let mut known = self.known();
        // It may have been cut, or have gone, since it was asked for.
        if !known.is_asked(object) {
            return;
        }
        known.remove(object);
        if runs.len() <= known.most {
            known.insert(object, FileLayout { disk: !disk, runs, at: Instant::now(), asked: false });
        }
    }

    /// Whether the file is being asked for now. The thread that answers may be busy for long, or gone.
    fn ask(&self, object: u32) -> bool {
        self.asks.try_send(object).is_ok()
    }
}

impl Layout for Extents {
    fn on_disk(&self, place: Place) -> Option<Place> {
        let mut known = self.known();
        let layout = known.get(place.object, || FileLayout::new(self.ask(place.object)));
        let after = layout.runs.partition_point(|run| run.first <= place.block);
        let run = after.checked_sub(1).map(|index| layout.runs[index]);
        let run = run.filter(|run| place.block - run.first < run.pages);
        let age = if layout.asked { Duration::ZERO } else { layout.at.elapsed() };
        if age >= if run.is_some() { OLD } else { AGAIN } {
            layout.asked = self.ask(place.object);
        }
        run.map(|run| Place { object: layout.disk, block: run.block + (place.block - run.first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u64) -> Place {
        Place { object: 7, block }
    }

    #[test]
    fn what_is_known_is_answered_and_the_rest_asked_for_once() {
        let (extents, asked) = Extents::new(0);
        let asked = || asked.try_iter().collect::<Vec<_>>();
        assert_eq!((extents.on_disk(at(3)), extents.on_disk(at(4))), (None, None));
        extents.expect(7);
        assert_eq!(asked(), [7]);
        let run = |first, pages, block| Run { first, pages, block };
        extents.found(7, 5, [run(2, 3, 100), run(8, 1, 50)].into());
        let found = |block| extents.on_disk(at(block)).map(|place| (place.object, place.block));
        assert_eq!([1, 2, 4, 5, 8, 9].map(found), [None, Some((!5, 100)), Some((!5, 102)), None, Some((!5, 50)), None]);
        extents.expect(7);
        assert!(asked().is_empty(), "it was found a moment ago");
        extents.known().recent.files.get_mut(&7).expect("it is known").at -= AGAIN;
        assert!(found(2).is_some() && asked().is_empty());
        assert!(found(5).is_none() && found(6).is_none());
        assert_eq!(asked(), [7]);
        assert!(found(2).is_some(), "what was known holds meanwhile");
        extents.forget(7);
        assert_eq!((found(2), asked()), (None, vec![7]));
    }

    #[test]
    fn there_is_room_for_some() {
        let (extents, asked) = Extents::new(0);
        for object in 0..10_000 {
            extents.expect(object);
            assert_eq!(asked.try_recv(), Ok(object));
            extents.found(object, 0, [Run { first: 0, pages: 1, block: 0 }].into());
        }
        let known = extents.known();
        for generation in [&known.recent, &known.before] {
            let (files, runs) = (generation.files.len(), generation.runs);
            assert!(files <= FEWEST && runs == files, "{files} {runs}");
        }
        drop(known);
        let lies = |object| extents.on_disk(Place { object, block: 0 }).is_some();
        assert!((10_000 - FEWEST as u32..10_000).all(lies), "as many as a generation are known, whatever came before");
        // Files of which nobody answers are forgotten, too.
        (0..10_000).for_each(|object| extents.expect(object));
        assert!(extents.bytes() < 1 << 20, "{}", extents.bytes());
        extents.expect(1);
        extents.found(1, 0, vec![Run { first: 0, pages: 1, block: 0 }; FEWEST + 1].into());
        assert!(extents.on_disk(Place { object: 1, block: 0 }).is_none(), "one alone may be too many");
        assert!(extents.bytes() < 1 << 20);
    }
}
