//! The replay of a trace through a hierarchy.

use super::analysis::Analysis;
use super::cache::{Cache, Notes};
use super::hierarchy::{self, Hierarchy, HierarchyOutcome, Mode, Passed, Write};
use super::storage::{Disk, Storage};
use crate::input::trace::Trace;
use crate::replay::Cursor;
use crate::walk::walk;
use forebay_basis::{Operation, Place};
use forebay_policy::Reference;

impl Hierarchy {
    /// Replays a trace. `progress` is notified of each further number of references done; `false` stops it, and there is no outcome.
    ///
    /// # Panics
    /// If there is no level, a level below the first has several caches, a policy needs to know the future, or the trace lacks its
    /// requests, or its places where there is a device or a policy looks at them.
    pub fn run(&self, trace: &Trace, progress: &dyn Fn(u64) -> bool) -> Option<HierarchyOutcome> {
        let start = std::time::Instant::now();
        let mut run = Run::new(self, trace, Disk::new(self.device.as_ref(), trace.page_size));
        if !run.replay(progress) {
            return None;
        }
        let (levels, disk) = run.outcome();
        let (storage_reads, storage_writes) = (disk.reads, disk.writes);
        let device = disk.cost(trace.len() as u64);
        Some(HierarchyOutcome { levels, storage_reads, storage_writes, device, seconds: start.elapsed().as_secs_f64() })
    }
}

/// A level at work.
struct Level {
    caches: Vec<Cache>,
    write: Write,
    /// The number of references of the trace after which dirty pages are sent down next.
    next_flush: u64,
    passed: Passed,
    /// Room for the pages that a reference evicts.
    evicted: Vec<u32>,
}

/// A hierarchy at work.
pub(super) struct Run<'a, S> {
    trace: &'a Trace,
    mode: Mode,
    levels: Vec<Level>,
    storage: S,
    /// The least `next_flush`.
    next_flush: u64,
}

impl<'a, S: Storage> Run<'a, S> {
    pub(super) fn new(hierarchy: &Hierarchy, trace: &'a Trace, storage: S) -> Self {
        let Hierarchy { levels, mode, analyze, .. } = hierarchy;
        assert!(!levels.is_empty(), "a hierarchy has a level");
        assert!(levels[1..].iter().all(|level| level.caches == 1), "a level below the first is one cache");
        let level = |(index, level): (usize, &hierarchy::Level)| {
            assert!(!level.spec.needs_future(), "{} needs to know the future", level.spec.label);
            let flush = match level.write {
                Write::Back { flush } => flush,
                Write::Through => None,
            };
            let hits = *mode == Mode::Hints && index + 1 < levels.len();
            let notes = Notes { flushed: flush.is_some(), hits, analyze: *analyze };
            let cache = |_| {
                let mut setup = level.spec.setup(level.pages, trace.pages);
                setup.page_size = trace.page_size;
                Cache::new(&level.spec, &setup, notes)
            };
            Level {
                caches: (0..level.caches).map(cache).collect(),
                write: level.write,
                next_flush: flush.unwrap_or(u64::MAX),
                passed: Passed::default(),
                evicted: Vec::new(),
            }
        };
        let levels: Vec<Level> = levels.iter().enumerate().map(level).collect();
        let next_flush = levels.iter().map(|level| level.next_flush).min().unwrap_or(u64::MAX);
        Self { trace, mode: *mode, levels, storage, next_flush }
    }

    /// Replays the trace; `false` if `progress` stopped it.
    pub(super) fn replay(&mut self, progress: &dyn Fn(u64) -> bool) -> bool {
        let Trace { references, requests, .. } = self.trace;
        assert!(!requests.first.is_empty(), "a hierarchy needs the requests of a trace");
        let mut cursor = Cursor::default();
        walk(references, 0..references.len(), progress, |time, _, _| {
            if cursor.advance(requests, time) {
                self.storage.start_request();
            }
            let (owner, operation) = cursor.request(requests);
            self.reference(time, owner, operation);
        })
    }

    /// The trace's reference number `time`, and the flush that is due after it.
    pub(super) fn reference(&mut self, time: usize, owner: u32, operation: Operation) {
        let page = self.trace.references[time];
        let cache = owner as usize % self.levels[0].caches.len();
        self.refer(0, cache, &Reference { page, owner, place: self.place(page), operation }, true);
        let done = time as u64 + 1;
        if done >= self.next_flush {
            self.flush(done);
        }
    }

    /// What passed each level, and the storage.
    pub(super) fn outcome(self) -> (Vec<Passed>, S) {
        let passed = |level: Level| {
            let analyzed = level.caches[0].analyst().is_some();
            let analysis = analyzed.then(|| Analysis::of(level.caches.iter().filter_map(Cache::analyst)));
            Passed { analysis, ..level.passed }
        };
        (self.levels.into_iter().map(passed).collect(), self.storage)
    }

    fn place(&self, page: u32) -> Place {
        if self.trace.places.is_empty() { Place::default() } else { self.trace.places.of(page) }
    }

    /// A cache is referred to, and has the page afterwards. What makes room for it goes down last, so that the frame that a page leaves
    /// below when it comes up is free for it. `waits`: the trace's reference waits for what it causes.
    fn refer(&mut self, level: usize, cache: usize, reference: &Reference, waits: bool) {
        let write = reference.operation == Operation::Write;
        let mut evicted = std::mem::take(&mut self.levels[level].evicted);
        let hit = self.levels[level].caches[cache].refer(reference, &mut evicted);
        self.levels[level].passed.count(write, hit);
        if write {
            self.renew(level, cache, reference, waits);
        } else if !hit && self.read(level + 1, reference) {
            self.renew(level, cache, reference, false);
        }
        self.let_go(level, cache, evicted, reference.owner);
    }

    /// The level above wants a page: whether it comes up dirty.
    fn read(&mut self, level: usize, reference: &Reference) -> bool {
        if level == self.levels.len() {
            self.storage.read(reference);
            return false;
        }
        if self.mode != Mode::Exclusive {
            self.refer(level, 0, &Reference { operation: Operation::Read, ..*reference }, true);
            return false;
        }
        let Level { caches, passed, .. } = &mut self.levels[level];
        let (hit, dirty) = caches[0].refer_and_take(reference.page);
        passed.count(false, hit);
        if hit { dirty } else { self.read(level + 1, reference) }
    }

    /// A page that the level above keeps comes with new content.
    fn write(&mut self, level: usize, reference: &Reference, waits: bool) {
        if level == self.levels.len() {
            return self.storage.write(reference, waits);
        }
        if self.mode != Mode::Exclusive {
            return self.refer(level, 0, &Reference { operation: Operation::Write, ..*reference }, waits);
        }
        // Its content here is old.
        let Level { caches, passed, .. } = &mut self.levels[level];
        let (hit, _) = caches[0].refer_and_take(reference.page);
        passed.count(true, hit);
        passed.writes_sent += 1;
        self.write(level + 1, reference, waits);
    }

    /// A page that the level above has evicted is to be kept here.
    fn demote(&mut self, level: usize, reference: &Reference, dirty: bool) {
        let Level { caches, passed, evicted, .. } = &mut self.levels[level];
        passed.demotions_received += 1;
        passed.writes_received += u64::from(dirty);
        let mut evicted = std::mem::take(evicted);
        // Resident it is if another cache above had a copy and has evicted it before.
        caches[0].admit(reference, &mut evicted);
        if dirty {
            self.renew(level, 0, reference, false);
        }
        self.let_go(level, 0, evicted, reference.owner);
    }

    /// A cache has a page whose content is newer than below.
    fn renew(&mut self, level: usize, cache: usize, reference: &Reference, waits: bool) {
        if self.levels[level].write == Write::Through {
            self.levels[level].passed.writes_sent += 1;
            return self.write(level + 1, reference, waits);
        }
        self.levels[level].caches[cache].soil(reference.page);
        if self.mode == Mode::Exclusive {
            for below in &mut self.levels[level + 1..] {
                below.caches[0].take(reference.page);
            }
        }
    }

    /// A cache has evicted pages.
    fn let_go(&mut self, level: usize, cache: usize, mut evicted: Vec<u32>, owner: u32) {
        let has_below = level + 1 < self.levels.len();
        for page in evicted.drain(..) {
            let from = &mut self.levels[level].caches[cache];
            let (dirty, hits) = (from.clean(page), from.take_hits(page));
            let operation = if dirty { Operation::Write } else { Operation::Read };
            let reference = Reference { page, owner, place: self.place(page), operation };
            self.levels[level].passed.writes_sent += u64::from(dirty);
            match self.mode {
                Mode::Exclusive if has_below => self.demote(level + 1, &reference, dirty),
                _ if dirty => self.write(level + 1, &reference, false),
                _ => {}
            }
            if self.mode == Mode::Hints && has_below {
                let Level { caches, passed, .. } = &mut self.levels[level + 1];
                caches[0].hint(&reference, hits);
                passed.hints_received += 1;
            }
        }
        self.levels[level].evicted = evicted;
    }

    /// Sends down the dirty pages of the levels whose time has come, after this many references.
    fn flush(&mut self, references: u64) {
        for level in 0..self.levels.len() {
            let Write::Back { flush: Some(interval) } = self.levels[level].write else { continue };
            if references < self.levels[level].next_flush {
                continue;
            }
            self.levels[level].next_flush = references + interval;
            for cache in 0..self.levels[level].caches.len() {
                let mut pages = self.levels[level].caches[cache].flush();
                // By address, as writebacks are sorted everywhere.
                pages.sort_unstable_by_key(|&page| (self.place(page), page));
                self.levels[level].passed.writes_sent += pages.len() as u64;
                for page in pages {
                    let place = self.place(page);
                    let reference = Reference { page, owner: cache as u32, place, operation: Operation::Write };
                    self.write(level + 1, &reference, false);
                }
            }
        }
        self.next_flush = self.levels.iter().map(|level| level.next_flush).min().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
impl<S> Run<'_, S> {
    pub(super) fn caches(&self) -> impl Iterator<Item = &Cache> {
        self.levels.iter().flat_map(|level| &level.caches)
    }

    pub(super) fn storage(&mut self) -> &mut S {
        &mut self.storage
    }
}

impl Passed {
    fn count(&mut self, write: bool, hit: bool) {
        self.references += 1;
        self.hits += u64::from(hit);
        if write {
            self.writes_received += 1;
        } else {
            self.reads += 1;
            self.read_hits += u64::from(hit);
        }
    }
}
