//! The requests that wait for a disk, and which of them is served next.

use crate::disk::Drive;
use crate::request::Request;
use serde::Deserialize;

/// Which request is next.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The one made first.
    #[default]
    Fifo,
    /// The next one inwards from the head; after the innermost, the outermost.
    CScan,
    /// As C-SCAN, but first the oldest if it has waited for longer than the deadline.
    Deadline,
}

/// A disk and its queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    drive: Drive,
    scheduler: Scheduler,
    /// In milliseconds.
    deadline: f64,
    /// In the order in which they were made.
    waiting: Vec<(Request, u64)>,
    /// When the drive is free.
    free: f64,
}

/// A request that is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The number that it was made under.
    pub(crate) number: u64,
    /// When it was done.
    pub(crate) at: f64,
    /// How long the device took.
    pub(crate) took: f64,
}

impl Queue {
    pub(crate) fn new(drive: Drive, scheduler: Scheduler, deadline: f64) -> Self {
        Self { drive, scheduler, deadline, waiting: Vec::new(), free: 0.0 }
    }

    /// Adds a request.
    pub(crate) fn push(&mut self, request: Request, number: u64) {
        self.waiting.push((request, number));
    }

    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Serves a request that no other one waits beside, without adding it.
    pub(crate) fn serve_lone(&mut self, request: &Request, number: u64) -> Served {
        debug_assert!(self.is_empty());
        self.begin(request, number, self.free.max(request.at))
    }

    /// Serves the next request that can begin before `until`.
    pub(crate) fn serve(&mut self, until: f64) -> Option<Served> {
        let (oldest, _) = self.waiting.first()?;
        let now = self.free.max(oldest.at);
        if now >= until {
            return None;
        }
        let (request, number) = self.waiting.remove(self.next(now));
        Some(self.begin(&request, number, now))
    }

    fn begin(&mut self, request: &Request, number: u64, now: f64) -> Served {
        let took = self.drive.serve(request, now);
        self.free = now + took;
        Served { number, at: self.free, took }
    }

    /// The index of the next request.
    fn next(&self, now: f64) -> usize {
        let late = now - self.waiting[0].0.at > self.deadline;
        if self.waiting.len() == 1 || self.scheduler == Scheduler::Fifo || self.scheduler == Scheduler::Deadline && late
        {
            return 0;
        }
        let head = self.drive.head();
        let made = self.waiting.iter().enumerate().filter(|(_, (request, _))| request.at <= now);
        let next = made.min_by_key(|(index, (request, _))| {
            let position = self.drive.position(request.start);
            (position < head, position, *index)
        });
        next.map_or(0, |(index, _)| index)
    }
}
