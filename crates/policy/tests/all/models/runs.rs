//! SEQ.

use crate::models::{Model, Reference, take};
use forebay_basis::Place;

/// Addresses missed one after the other, with their pages, and when.
struct Run {
    missed: Vec<(Place, u32)>,
    step: i64,
    times: Vec<usize>,
}

/// The resident pages in the order of last use, and the runs in the order of their last misses.
pub(crate) struct Runs {
    pages: Vec<u32>,
    runs: Vec<Run>,
    capacity: usize,
    length: usize,
    distance: usize,
    misses: usize,
    most: usize,
}

impl Runs {
    pub(crate) fn new(capacity: usize, length: usize, distance: usize, misses: usize, most: usize) -> Self {
        Self { pages: Vec::new(), runs: Vec::new(), capacity, length, distance, misses, most }
    }

    fn watch(&mut self, reference: &Reference, now: usize) {
        let Reference { place, page, .. } = *reference;
        for run in &mut self.runs {
            if let Some(at) = run.missed.iter().position(|missed| missed.0 == place) {
                run.missed.drain(..=at);
            }
        }
        self.runs.retain(|run| !run.missed.is_empty());
        let step_to = |head: Place| {
            let step = place.block as i64 - head.block as i64;
            (head.object == place.object && step.abs() == 1).then_some(step)
        };
        let extended = self.runs.iter().rposition(|run| {
            step_to(run.missed.last().unwrap().0).is_some_and(|step| run.step == 0 || run.step == step)
        });
        let mut run = match extended {
            Some(index) => self.runs.remove(index),
            None => Run { missed: Vec::new(), step: 0, times: Vec::new() },
        };
        if let Some((head, _)) = run.missed.last() {
            run.step = step_to(*head).unwrap();
        }
        run.missed.push((place, page));
        run.times.push(now);
        self.runs.push(run);
        if self.runs.len() > self.most {
            self.runs.remove(0);
        }
    }

    fn victim(&self) -> u32 {
        let long = self.runs.iter().filter(|run| run.missed.len() > self.length && run.times.len() >= self.misses);
        let candidate = |run: &Run| {
            let from_head = run.missed.iter().rev().skip(self.distance);
            from_head.map(|missed| missed.1).find(|page| self.pages.contains(page))
        };
        let chosen = long
            .filter_map(|run| Some((run.times[run.times.len() - self.misses], candidate(run)?)))
            .max_by_key(|&(time, _)| time);
        chosen.map_or(self.pages[0], |(_, page)| page)
    }
}

impl Model for Runs {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let mut evicted = Vec::new();
        if !take(&mut self.pages, reference.page) {
            self.watch(reference, now);
            if self.pages.len() == self.capacity {
                let victim = self.victim();
                take(&mut self.pages, victim);
                evicted.push(victim);
            }
        }
        self.pages.push(reference.page);
        evicted
    }
}
