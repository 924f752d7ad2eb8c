//! Where steered files lie on their disks (FIEMAP), for a policy that goes by block numbers.
//!
//! ```text
//!   policy --on_disk--> Extents     what is known; a file that is not is put down
//!                         |  ^
//!              each turn  v  |
//!                       Finding --> a thread of its own: it opens files, and asks the file system
//! ```
//!
//! A file system may hold a file's lock for as long as a write takes, and FIEMAP waits for that lock. So a thread of its own asks, and until it has the answer the
//! policy goes by places in files. An extent takes 24 bytes. A file is asked for again when what is known of it is old, and when a block is not in it: that may have been written since.

use crate::file_system::FileSystem;
use crate::files::Files;
use crate::scopes::Scopes;
use crate::steered::PAGE;
use crate::watch::FileId;
use foldhash::fast::RandomState;
use forebay_basis::Place;
use forebay_policy::Layout;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A block that is in no known extent is looked for again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Files are moved, and share extents, without an event.
const OLD: Duration = Duration::from_secs(30);
/// The most extents of a file that are asked for: the rest of it has no known place.
const MOST_OF_FILE: usize = 4096;
/// Extents that one call asks for.
const AT_ONCE: usize = 128;
/// There is room for one extent, and one file, for every four pages of the cache, and for 1,024 more of each.
const PAGES_AN_EXTENT: u64 = 4;
const FEWEST: usize = 1024;

/// `FS_IOC_FIEMAP`, and what it takes and gives (`linux/fiemap.h`).
const FIEMAP: libc::Ioctl = 0xc020_660b;
/// The last extent of a file.
const LAST: u32 = 0x1;
/// It is nowhere, or not known where; not written yet; packed with others; not at the beginning of a block; within the inode.
const NOWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

#[repr(C)]
struct Asked {
    header: Header,
    found: [Found; AT_ONCE],
}

/// Pages of a file that lie side by side: the first, how many, and the block of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    pages: u64,
    block: u64,
}

/// What is known of a file.
#[derive(Debug)]
struct Lies {
    /// Its disk's number, inverted: the numbers of files begin at 0.
    disk: u32,
    runs: Box<[Run]>,
    /// When that was found.
    at: Instant,
    /// It is being asked for.
    asked: bool,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<u32, Lies, RandomState>,
    runs: usize,
    /// Files that the policy has asked for, by their numbers in the pool.
    asked: Vec<u32>,
}

/// Where files lie, as far as it is known.
#[derive(Debug)]
pub struct Extents {
    known: Mutex<Known>,
    most: usize,
}

impl Extents {
    /// Nothing is known, of files of which this many pages may be in the cache.
    pub fn new(pages: u64) -> Arc<Self> {
        let most = usize::try_from(pages / PAGES_AN_EXTENT).unwrap_or(usize::MAX).saturating_add(FEWEST);
        Arc::new(Self { known: Mutex::default(), most })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.known();
        known.files.capacity() * size_of::<(u32, Lies)>() + known.runs * size_of::<Run>()
    }

    /// A file has gone, or its blocks have.
    pub(crate) fn forget(&self, object: u32) {
        let mut known = self.known();
        if let Some(lies) = known.files.remove(&object) {
            known.runs -= lies.runs.len();
        }
    }

    fn found(&self, object: u32, disk: u32, runs: Box<[Run]>) {
        self.forget(object);
        let mut known = self.known();
        if known.runs + runs.len() > self.most || known.files.len() >= self.most {
            // All is found again as it is asked for.
            *known = Known { asked: std::mem::take(&mut known.asked), ..Known::default() };
        }
        if runs.len() <= self.most {
            known.runs += runs.len();
            known.files.insert(object, Lies { disk, runs, at: Instant::now(), asked: false });
        }
    }
}

impl Layout for Extents {
    fn on_disk(&self, place: Place) -> Option<Place> {
        let mut known = self.known();
        let Known { files, asked, .. } = &mut *known;
        let mut is_new = false;
        let lies = files.entry(place.object).or_insert_with(|| {
            is_new = true;
            Lies { disk: 0, runs: Box::default(), at: Instant::now(), asked: true }
        });
        let after = lies.runs.partition_point(|run| run.first <= place.block);
        let run = after.checked_sub(1).map(|index| lies.runs[index]);
        let run = run.filter(|run| place.block - run.first < run.pages);
        let age = if lies.asked { Duration::ZERO } else { lies.at.elapsed() };
        if is_new || age >= if run.is_some() { OLD } else { AGAIN } {
            lies.asked = true;
            asked.push(place.object);
        }
        run.map(|run| Place { object: lies.disk, block: run.block + (place.block - run.first) })
    }
}

/// A file that is asked for.
struct Ask {
    object: u32,
    file: FileId,
    system: Arc<FileSystem>,
}

/// And what was found of it.
struct Told {
    ask: Ask,
    runs: io::Result<Box<[Run]>>,
}

/// Has files' extents found that the policy asks for.
pub(crate) struct Finding {
    extents: Arc<Extents>,
    /// The thread, once it is needed: what is asked for, and what was found.
    thread: Option<(Sender<Ask>, Receiver<Told>)>,
}

impl Finding {
    pub(crate) fn new(extents: Arc<Extents>) -> Self {
        Self { extents, thread: None }
    }

    /// The bytes that what is known takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.extents.bytes()
    }

    /// Has what was asked for looked for, and takes what was found meanwhile.
    pub(crate) fn go_on(&mut self, files: &Files, scopes: &Scopes) {
        let asked = std::mem::take(&mut self.extents.known().asked);
        for object in asked {
            let file = files.get(object).map(|file| file.id);
            match file.and_then(|file| Some((file, Arc::clone(scopes.system(file.device)?)))) {
                Some((file, system)) => self.ask(Ask { object, file, system }),
                None => self.extents.forget(object),
            }
        }
        while let Some(Told { ask, runs }) = self.thread.as_ref().and_then(|(_, found)| found.try_recv().ok()) {
            // Its number may be another's by now.
            if files.get(ask.object).is_none_or(|file| file.id != ask.file) {
                continue;
            }
            let runs = runs.unwrap_or_else(|error| {
                tracing::debug!("where a file lies is not known: {error}");
                Box::default()
            });
            self.extents.found(ask.object, !ask.file.device, runs);
        }
    }

    fn ask(&mut self, ask: Ask) {
        let (asks, _) = self.thread.get_or_insert_with(|| {
            let (asks, asked) = channel::<Ask>();
            let (tells, told) = channel();
            let look = move || {
                for ask in asked {
                    let runs = ask.system.open(ask.file).and_then(runs_of);
                    if tells.send(Told { ask, runs }).is_err() {
                        return;
                    }
                }
            };
            // Without this thread the policy goes by places in files. It may wait for storage, so no thread waits for it to end.
            if let Err(error) = std::thread::Builder::new().name("extents".to_owned()).spawn(look) {
                tracing::debug!("no thread looks where files lie: {error}");
            }
            (asks, told)
        });
        let _ = asks.send(ask);
    }
}

/// What of a file lies where, in order.
fn runs_of(file: impl AsFd) -> io::Result<Box<[Run]>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut asked = Box::new(Asked { header: Header::default(), found: [Found::default(); AT_ONCE] });
    let mut start = 0;
    while runs.len() < MOST_OF_FILE {
        asked.header = Header { start, length: u64::MAX - start, room: AT_ONCE as u32, ..Header::default() };
        // SAFETY: behind the header there is room for as many extents as it says, and the kernel writes no more.
        if unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FIEMAP, &raw mut *asked) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &asked.found[..AT_ONCE.min(asked.header.mapped as usize)];
        let Some(last) = mapped.last() else { break };
        for found in mapped.iter().filter(|found| found.flags & NOWHERE == 0) {
            let first = found.logical / PAGE;
            let run = Run {
                first,
                pages: (found.logical + found.length).div_ceil(PAGE) - first,
                block: found.physical / PAGE,
            };
            match runs.last_mut() {
                Some(last) if last.first + last.pages == first && last.block + last.pages == run.block => {
                    last.pages += run.pages;
                }
                _ => runs.push(run),
            }
        }
        let next = last.logical.saturating_add(last.length);
        if last.flags & LAST != 0 || next <= start {
            break;
        }
        start = next;
    }
    Ok(runs.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn at(block: u64) -> Place {
        Place { object: 7, block }
    }

    #[test]
    fn what_is_known_is_answered_and_the_rest_asked_for_once() {
        let extents = Extents::new(0);
        assert_eq!((extents.on_disk(at(3)), extents.on_disk(at(4))), (None, None));
        assert_eq!(std::mem::take(&mut extents.known().asked), [7]);
        let run = |first, pages, block| Run { first, pages, block };
        extents.found(7, !5, [run(2, 3, 100), run(8, 1, 50)].into());
        let found = |block| extents.on_disk(at(block)).map(|place| (place.object, place.block));
        assert_eq!([1, 2, 4, 5, 8, 9].map(found), [None, Some((!5, 100)), Some((!5, 102)), None, Some((!5, 50)), None]);
        assert!(extents.known().asked.is_empty(), "it was found a moment ago");
        extents.known().files.get_mut(&7).expect("it is known").at -= AGAIN;
        assert!(found(2).is_some() && extents.known().asked.is_empty());
        assert!(found(5).is_none() && found(6).is_none());
        assert_eq!(std::mem::take(&mut extents.known().asked), [7]);
        assert!(found(2).is_some(), "what was known holds meanwhile");
        extents.forget(7);
        assert_eq!((found(2), std::mem::take(&mut extents.known().asked)), (None, vec![7]));
    }

    #[test]
    fn there_is_room_for_some() {
        let extents = Extents::new(0);
        for object in 0..10_000 {
            extents.found(object, 0, [Run { first: 0, pages: 1, block: 0 }].into());
        }
        let known = extents.known();
        assert!(known.files.len() <= FEWEST && known.runs == known.files.len(), "{}", known.files.len());
        drop(known);
        extents.found(1, 0, vec![Run { first: 0, pages: 1, block: 0 }; FEWEST + 1].into());
        assert!(extents.on_disk(Place { object: 1, block: 0 }).is_none(), "one alone may be too many");
        assert!(extents.bytes() < 1 << 20);
    }

    #[test]
    fn a_file_lies_where_the_file_system_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let file =
            File::options().read(true).write(true).create_new(true).open(folder.path().join("file")).expect("a file");
        file.write_all_at(&[1; 3 * PAGE as usize], 0).expect("it is written");
        file.write_all_at(&[1; 10], 100 * PAGE).expect("it is written");
        file.sync_all().expect("it is durable");
        let runs = match runs_of(&file) {
            Ok(runs) => runs,
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) && std::env::var_os("CI").is_none() => {
                eprintln!("skipped: this file system does not say where files lie");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let pages: u64 = runs.iter().map(|run| run.pages).sum();
        assert!(pages == 4 && runs.iter().all(|run| run.block > 0), "{runs:?}");
        assert_eq!(runs.last().map(|run| run.first), Some(100));
    }
}
