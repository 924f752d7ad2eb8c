//! The regions of a process, which the service's thread has: one after another for memory, and one for each mapped file.
//!
//! Swap space is a part of a file, which is where in the area the region lies: as often as addresses have been used, it has room for one region.

use crate::files::{Asked, Window};
use crate::fork::Verdict;
use crate::heap;
use crate::lanes::{Lane, Lanes, Work};
use crate::real::system;
use crate::service::{Job, NotMapped, Service, in_words, lock};
use crate::staged::{Run, Staged};
use crate::swap::{Backing, Swap};
use forebay_pager::{Advice, Pager, Region};
use forebay_pool::device::{CopyOnWrite, Device};
use forebay_pool::{Together, VolumeConfig};
use libc::{PROT_READ, PROT_WRITE, c_int};
use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// The least and the most that regions of memory are made longer by, unless one allocation needs more.
const GROWTH: Range<usize> = 16 << 20..4 << 30;

/// How long a fork waits for writes that are under way, and how long others wait for a fork.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the thread works with.
pub(crate) struct Regions {
    service: &'static Service,
    pager: Arc<Pager>,
    /// What is counted of all regions, those that have gone, too.
    together: Together,
    backing: Arc<Backing>,
    /// In the order of their addresses.
    all: Vec<One>,
    lanes: Lanes,
    /// The folder, locked as long as this process may write there.
    _used: Option<File>,
}

struct One {
    start: usize,
    length: usize,
    swap: Arc<Swap>,
    kind: Kind,
}

enum Kind {
    Memory(Region),
    /// What its bytes are at first, and who works on it.
    File(Arc<Window>, Arc<Lane>),
}

impl One {
    fn is_memory(&self) -> bool {
        matches!(self.kind, Kind::Memory(_))
    }
}

impl Regions {
    pub(crate) fn new(
        service: &'static Service,
        pager: Arc<Pager>,
        together: Together,
        backing: Backing,
        used: Option<File>,
    ) -> Self {
        let lanes = Lanes::new(service);
        Self { service, pager, together, backing: Arc::new(backing), all: Vec::new(), lanes, _used: used }
    }

    /// Does a job. Its caller waits for the answer.
    pub(crate) fn work(&mut self, job: Job) {
        match job {
            Job::Leave(range) => match self.reset(&range) {
                Ok(()) => lock(&self.service.zeroed).push(range),
                // Its addresses are not used again.
                Err(error) => tracing::warn!("swap space could not be given back: {error}"),
            },
            Job::Discard(range) => {
                for (lane, part) in self.lanes_of(&range) {
                    self.lanes.push(&lane, Work::Discard(part));
                }
                if let Err(error) = self.reset(&range) {
                    tracing::warn!("swap space could not be given back: {error}");
                }
            }
            Job::Reset(range, answer) => {
                let files = self.lanes_of(&range);
                if files.len() < 2 && files.iter().all(|(_, part)| part.end - part.start == range.len() as u64) {
                    // It is the storage of this file alone that the caller waits for.
                    if let Some((lane, part)) = files.into_iter().next() {
                        return self.lanes.push(&lane, Work::Reset(part, answer));
                    }
                }
                // It stays the program's.
                _ = answer.send(self.reset(&range).and_then(|()| self.reserve(&range)));
            }
            Job::Reserve(range, answer) => _ = answer.send(self.reserve(&range)),
            Job::Grow(from, length, answer) => _ = answer.send(self.grow(from, length)),
            Job::Map(from, length, asked, protection, answer) => {
                _ = answer.send(self.map_file(from, length, asked, protection));
            }
            Job::Unmap(from, place, answer) => self.unmap(from, place, answer),
            Job::Fork(live, verdict, answer, until) => self.fork(&live, verdict, &answer, &until),
            Job::Pass(answer) => _ = answer.send(()),
        }
    }

    /// The parts of a range by region, in order.
    fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = (&One, Range<u64>)> {
        self.all.iter().filter_map(move |one| {
            let (from, to) = (range.start.max(one.start), range.end.min(one.start + one.length));
            (from < to).then(|| (one, (from - one.start) as u64..(to - one.start) as u64))
        })
    }

    /// The same of files alone.
    fn lanes_of(&self, range: &Range<usize>) -> Vec<(Arc<Lane>, Range<u64>)> {
        let lane = |(one, part): (&One, Range<u64>)| match &one.kind {
            Kind::File(_, lane) => Some((Arc::clone(lane), part)),
            Kind::Memory(_) => None,
        };
        self.parts(range).filter_map(lane).collect()
    }

    /// Makes the memory of a range zeroes.
    fn reset(&self, range: &Range<usize>) -> Result<(), String> {
        self.parts(range).try_for_each(|(one, part)| match &one.kind {
            Kind::Memory(region) => region.advise(part.start, part.end - part.start, Advice::Zero).map_err(in_words),
            Kind::File(..) => Ok(()),
        })
    }

    /// Finds room in swap space for memory.
    fn reserve(&self, range: &Range<usize>) -> Result<(), String> {
        let parts = || self.parts(range).filter(|(one, _)| one.is_memory());
        if self.backing.has_plenty(range.len() as u64).map_err(in_words)? {
            parts().for_each(|(one, part)| one.swap.promise(&part));
            return Ok(());
        }
        self.keep_promises()?;
        parts().try_for_each(|(one, part)| one.swap.allocate(&part, false)).map_err(in_words)
    }

    /// What was promised before has its room before others get it.
    fn keep_promises(&self) -> Result<(), String> {
        let keep = |one: &One| one.swap.allocate(&(0..one.swap.len()), true);
        if self.backing.has_promised() { self.all.iter().try_for_each(keep).map_err(in_words) } else { Ok(()) }
    }

    fn grow(&mut self, from: usize, length: usize) -> Result<Range<usize>, String> {
        let settings = &self.service.settings;
        let memory = self.all.iter().filter(|one| one.is_memory());
        let so_far: usize = memory.map(|one| one.length).sum();
        let length = length.max(so_far.max(settings.memory as usize).clamp(GROWTH.start, GROWTH.end));
        let length = length.next_multiple_of(settings.page_size as usize);
        if from + length > heap::end() {
            return Err("there are no more addresses".to_owned());
        }
        let swap = self.swap(from, length)?;
        self.add(from, "memory", Arc::clone(&swap) as Arc<dyn Device>, Arc::clone(&swap), None)?;
        lock(&self.service.swaps).push((from..from + length, swap));
        Ok(from..from + length)
    }

    fn map_file(
        &mut self,
        from: usize,
        length: usize,
        asked: Asked,
        protection: c_int,
    ) -> Result<Range<usize>, NotMapped> {
        let page = u64::from(self.service.settings.page_size);
        let window = Window::new(asked, length as u64, page, Arc::clone(&self.service.traffic));
        let window = Arc::new(window.map_err(|_| NotMapped::NoFile)?);
        let why = |error: String| tracing::warn!("a mapped file is not paged: {error}");
        let swap = self.swap(from, length).map_err(why).map_err(|()| NotMapped::NoFile)?;
        if protection & PROT_WRITE != 0 {
            self.reserve_changes(&swap).map_err(why).map_err(|()| NotMapped::NoFile)?;
        }
        let device = CopyOnWrite::new(Arc::clone(&window), Arc::clone(&swap)).map_err(in_words);
        let region = device.and_then(|device| self.add(from, "file", Arc::new(device), swap, Some(window)));
        let region = region.map_err(why).map_err(|()| NotMapped::NoRegion)?;
        if protection != PROT_READ | PROT_WRITE {
            // SAFETY: the program does not know these addresses yet.
            unsafe { system::mprotect(region.start as *mut _, region.len(), protection) };
        }
        Ok(region)
    }

    /// Finds room for what the program may change of a file that it is about to map.
    fn reserve_changes(&self, swap: &Swap) -> Result<(), String> {
        let all = 0..swap.len();
        if self.backing.has_plenty(swap.len()).map_err(in_words)? {
            swap.promise(&all);
            return Ok(());
        }
        self.keep_promises()?;
        swap.allocate(&all, false).map_err(|error| {
            // What it has allocated of it.
            let _ = swap.trim(0, swap.len());
            in_words(error)
        })
    }

    /// Swap space for a region.
    fn swap(&self, from: usize, length: usize) -> Result<Arc<Swap>, String> {
        let page = u64::from(self.service.settings.page_size);
        let start = (from - heap::base()) as u64;
        let traffic = Arc::clone(&self.service.traffic);
        let swap = Swap::new(&self.backing, start..start + (length as u64).next_multiple_of(page), page, traffic);
        Ok(Arc::new(swap.map_err(in_words)?))
    }

    fn add(
        &mut self,
        from: usize,
        name: &str,
        device: Arc<dyn Device>,
        swap: Arc<Swap>,
        file: Option<Arc<Window>>,
    ) -> Result<Range<usize>, String> {
        let (readahead, together) = (self.service.settings.readahead, Some(self.together.clone()));
        let config = VolumeConfig { readahead, together, ..VolumeConfig::new(name) };
        let address = NonNull::new(from as *mut u8).ok_or("there is no address 0")?;
        // SAFETY: these addresses are reserved, and nobody has them yet.
        let region = unsafe { Region::map_at(&self.pager, device, config, address) }.map_err(in_words)?;
        let length = region.len();
        let place = self.all.partition_point(|one| one.start < from);
        let kind = match file {
            None => Kind::Memory(region),
            Some(file) => Kind::File(Arc::clone(&file), Lane::new(region, Arc::clone(&swap), file)),
        };
        self.all.insert(place, One { start: from, length, swap, kind });
        Ok(from..from + length)
    }

    fn unmap(&mut self, from: usize, place: Option<Range<usize>>, answer: Sender<()>) {
        let Ok(found) = self.all.binary_search_by_key(&from, |one| one.start) else { return };
        let lane = match self.all.remove(found).kind {
            Kind::File(_, lane) => lane,
            Kind::Memory(_) => return,
        };
        self.lanes.push(&lane, Work::Unmap(place, answer));
    }

    fn fork(
        &self,
        live: &[Range<usize>],
        verdict: Verdict,
        answer: &Sender<Result<Vec<Run>, String>>,
        until: &Receiver<()>,
    ) {
        let is_changed = |one: &One| match &one.kind {
            Kind::File(_, lane) => !lane.wait_until_unchanged(PATIENCE),
            Kind::Memory(_) => false,
        };
        if self.all.iter().any(is_changed) {
            let why = "a thread gives up changes of a mapped file, whose storage hangs".to_owned();
            let _ = answer.send(Err(why));
            return;
        }
        let frozen = match self.pager.freeze(PATIENCE) {
            Ok(frozen) => frozen,
            Err(error) => {
                let _ = answer.send(Err(in_words(error)));
                return;
            }
        };
        let staged = match self.copy(live) {
            Ok(staged) => staged,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let _ = answer.send(Ok(staged.runs().to_vec()));
        if until.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) && !verdict.give_up() {
            // The child is there, and its parent about to say so.
            let _ = until.recv_timeout(PATIENCE);
        }
        drop((frozen, staged));
    }

    /// Copies ranges to a file, of mapped files what was changed, and maps that for a child.
    fn copy(&self, live: &[Range<usize>]) -> Result<Staged, String> {
        let mut parts = Vec::new();
        for (one, part) in live.iter().flat_map(|range| self.parts(range)) {
            let copied = match &one.kind {
                Kind::Memory(_) => vec![part.clone()],
                Kind::File(file, _) => one.changed(&part, file)?,
            };
            parts.push((one, part, copied));
        }
        let length = parts.iter().flat_map(|(.., copied)| copied).map(|range| range.end - range.start).sum();
        let copies = self.backing.new_file(length).map_err(in_words)?;
        let (mut staged, mut end) = (Staged::new(), 0);
        for (one, part, copied) in &parts {
            let place = |range: &Range<u64>| one.start + range.start as usize..one.start + range.end as usize;
            let at = end;
            for range in copied {
                one.swap.copy(range, &copies, end).map_err(in_words)?;
                end += range.end - range.start;
            }
            let done = match &one.kind {
                Kind::Memory(_) => staged.map(&place(part), &copies, at),
                Kind::File(file, _) => {
                    staged.map(&place(part), file.file(), file.start() + part.start).and_then(|()| {
                        let places: Vec<Range<usize>> = copied.iter().map(place).collect();
                        staged.write(&places, &copies, at)
                    })
                }
            };
            done.map_err(in_words)?;
        }
        Ok(staged)
    }
}

/// Gives what was written of a part of a file's region up. Its pages are read again; of one that lies there in part the rest stays as it is.
pub(crate) fn discard(region: &Region, part: &Range<u64>, file: &Window, page: u64) -> Result<(), String> {
    let end = if part.end == file.len() { part.end } else { part.end / page * page };
    let whole = part.start.next_multiple_of(page).min(part.end)..end;
    region.advise(part.start, part.end - part.start, Advice::Discard).map_err(in_words)?;
    let edges = if whole.is_empty() { [part.clone(), 0..0] } else { [part.start..whole.start, whole.end..part.end] };
    for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
        let mut bytes = vec![0; (edge.end - edge.start) as usize];
        file.read_at(edge.start, &mut bytes).map_err(in_words)?;
        region.write(edge.start, &bytes).map_err(in_words)?;
    }
    Ok(())
}

impl One {
    /// What was changed of a part of a file, as far as there is that much of the file still: the rest is SIGBUS.
    fn changed(&self, part: &Range<u64>, file: &Window) -> Result<Vec<Range<u64>>, String> {
        let there = file.there().map_err(in_words)?;
        Ok(self.swap.written(&(part.start..part.end.min(there))))
    }
}
