//! UBM.

mod detector;
mod gain;
mod loops;
mod other;
mod runs;

pub use detector::Class;
use detector::Detector;
use gain::Stack;
use loops::Loops;
use other::Others;

use crate::list::{List, Nodes, offer};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Place, Policy, Reference, Setup, Uses};

/// Where a page is.
#[derive(Clone, Copy, Debug, Default)]
struct Status {
    class: Option<Class>,
    bucket: u8,
    used: u32,
}

/// Unified buffer management.
#[derive(Debug)]
pub struct Ubm {
    detector: Detector,
    status: Nodes<Status>,
    sequential: List,
    loops: Loops,
    others: Others,
    stack: Stack,
    capacity: u32,
    now: u64,
    counts: [u64; 3],
}

/// A loop that has been detected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Its first block.
    pub start: Place,
    /// Its last block.
    pub end: u64,
    /// References from one use of a block to the next.
    pub period: f32,
}

impl Policy for Ubm {
    const INFO: Info = Info {
        name: "ubm",
        title: "UBM: sequential, looping and other references, each with its own partition",
        paper: "J. M. Kim et al., A Low-Overhead High-Performance Unified Buffer Management Scheme that Exploits Sequential and Looping References, OSDI 2000",
        parameters: &[
            Parameter {
                name: "other",
                help: "which of the other references' blocks is replaced",
                kind: Kind::Choice(&["lru", "lfu", "lru-2", "lrfu"]),
                default: "lru",
            },
            Parameter {
                name: "run",
                help: "consecutive references that make a run",
                kind: Kind::Integer { least: 1, most: 1 << 16 },
                default: "8",
            },
            Parameter {
                name: "gap",
                help: "a run's next block is at most so many blocks further on",
                kind: Kind::Integer { least: 1, most: 1 << 16 },
                default: "8",
            },
            Parameter { name: "open", help: "open", kind: Kind::Integer { least: 1, most: 1 << 16 }, default: "32" },
        ],
        uses: Uses { place: true, request: false },
        off_line: false,
        ghosts: 1,
        bytes_per_page: 200,
    };

    fn new(setup: &Setup) -> Self {
        let settings = &setup.settings;
        Self {
            detector: Detector::new(
                setup.pages,
                settings.integer("open") as usize,
                settings.integer("run") as u32,
                settings.integer("gap"),
            ),
            status: Nodes::new(setup.pages),
            sequential: List::new(),
            loops: Loops::new(),
            others: Others::new(setup.pages, setup.capacity, settings.choice("other")),
            stack: Stack::new(setup.pages, setup.capacity),
            capacity: setup.capacity,
            now: 0,
            counts: [0; 3],
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.sequential.len() + self.loops.len() + self.others.len()
    }

    fn ghosts(&self) -> u32 {
        self.stack.len() - self.others.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.status[page].class.is_some()
    }

    fn hit(&mut self, reference: &Reference) {
        let (class, period) = self.detect(reference);
        self.leave(reference.page, class);
        self.enter(reference.page, class, period);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let (class, period) = self.detect(reference);
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        if class != Class::Other && self.stack.contains(reference.page) {
            self.stack.remove(reference.page);
            self.others.forget(reference.page);
        }
        self.enter(reference.page, class, period);
        self.trim(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let n = self.others.len();
        let gain_of_loops = self.loops.longest().map_or(f64::INFINITY, |period| 1.0 / f64::from(period));
        let loops_first = gain_of_loops <= self.stack.marginal_gain(n);
        let order = if loops_first { [0, 1, 2] } else { [0, 2, 1] };
        for partition in order {
            let victim = match partition {
                0 => offer(self.sequential.front_to_back(&self.status), caller),
                1 => offer(self.loops.victims(&self.status), caller),
                _ => self.others.evict(caller),
            };
            let Ok(page) = victim else { continue };
            match partition {
                0 => self.sequential.remove(&mut self.status, page),
                1 => self.loops.remove(&mut self.status, page),
                _ => {}
            }
            self.status[page] = Status::default();
            if partition < 2 {
                caller.forget(page);
            }
            self.trim(caller);
            return Ok(());
        }
        Err(AllRefused)
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page, Class::Sequential);
        if self.stack.contains(page) {
            self.stack.remove(page);
        }
        self.others.forget(page);
        self.status[page] = Status::default();
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.stack.set_capacity(capacity);
        self.trim(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.detector.runs.reserve(pages);
        self.status.reserve(pages);
        self.others.reserve(pages);
        self.stack.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("sequential", f64::from(self.sequential.len()));
        show("looping", f64::from(self.loops.len()));
        show("other", f64::from(self.others.len()));
        show("sequential references", self.counts[0] as f64);
        show("looping references", self.counts[1] as f64);
        show("other references", self.counts[2] as f64);
        show("runs", f64::from(self.detector.runs.len()));
    }

    fn bytes(&self) -> usize {
        self.status.bytes() + self.others.bytes() + self.stack.bytes() + self.detector.bytes()
    }

    fn check_invariants(&self) {
        self.detector.runs.check();
        self.sequential.check(&self.status);
        self.loops.check(&self.status);
        self.others.check();
        self.stack.check();
        assert!(self.len() <= self.capacity);
    }
}

impl Ubm {
    fn detect(&mut self, reference: &Reference) -> (Class, f32) {
        self.now += 1;
        let (class, period) = self.detector.refer(reference.place, self.now as u32);
        self.stack.count((class == Class::Other).then_some(reference.page));
        self.counts[class as usize] += 1;
        self.loops.age(&mut self.status, self.now as u32);
        (class, period)
    }

    /// A resident page leaves its partition, unless it stays other.
    fn leave(&mut self, page: u32, to: Class) {
        match self.status[page].class {
            Some(Class::Sequential) => self.sequential.remove(&mut self.status, page),
            Some(Class::Looping) => self.loops.remove(&mut self.status, page),
            Some(Class::Other) if to != Class::Other => {
                self.others.remove(page);
                self.others.forget(page);
                self.stack.remove(page);
            }
            _ => {}
        }
    }

    fn enter(&mut self, page: u32, class: Class, period: f32) {
        let status = &mut self.status[page];
        (status.class, status.used) = (Some(class), self.now as u32);
        match class {
            Class::Sequential => self.sequential.push_front(&mut self.status, page),
            Class::Looping => self.loops.push(&mut self.status, page, period),
            Class::Other => {
                self.others.refer(page, self.now);
                if self.stack.contains(page) {
                    self.stack.remove(page);
                }
                self.stack.push(page);
            }
        }
    }

    /// Forgets the oldest ghosts while the stack is deeper than the cache.
    fn trim<C: Caller>(&mut self, caller: &mut C) {
        while self.stack.len() > self.capacity {
            let ghost = self.stack.oldest().find(|&page| !self.others.contains(page));
            let Some(ghost) = ghost else { break };
            self.stack.remove(ghost);
            self.others.forget(ghost);
            caller.forget(ghost);
        }
    }

    /// The class of the last reference to a block, if it is known.
    pub fn class_of(&self, place: Place) -> Option<Class> {
        self.detector.find(place).map(|run| run.class)
    }

    /// The loops that are known.
    pub fn loops(&self) -> impl Iterator<Item = Loop> {
        let runs = self.detector.runs.iter().filter(|run| run.class == Class::Looping);
        runs.map(|run| Loop { start: run.start, end: run.end(), period: run.period })
    }
}
