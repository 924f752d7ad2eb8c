//! Detection (section 3.1): which references are sequential, which looping, which neither.
//!
//! Several passes are open at once; a reference to the block after a pass's last one, or a few further on, continues it.
//! `least` references in a row make a run. Its blocks are sequential where they were not referenced before, and looping
//! where they were: the period is the time since then, averaged with the period that they had.

use super::runs::{Run, Runs};
use crate::policy::Place;

/// How a block is referenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// In a run of consecutive blocks that are not known to have been referenced before.
    Sequential,
    /// In a run that is referenced again and again.
    Looping,
    /// Neither.
    Other,
}

/// An open pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    number: u32,
    /// The block referenced last.
    last: Place,
    /// How many blocks it has referenced in a row.
    length: u32,
    period: f32,
}

impl Pass {
    fn class(&self, least: u32) -> Class {
        match (self.length >= least, self.period.is_finite()) {
            (false, _) => Class::Other,
            (true, false) => Class::Sequential,
            (true, true) => Class::Looping,
        }
    }
}

/// Sorts references into classes.
#[derive(Debug)]
pub(super) struct Detector {
    /// D1. The open passes, the one referenced last at the end; no two have the same number.
    passes: Vec<Pass>,
    pub(super) runs: Runs,
    numbered: u32,
    open: usize,
    least: u32,
    gap: u64,
}

impl Detector {
    pub(super) fn new(pages: u32, open: usize, least: u32, gap: u64) -> Self {
        Self { passes: Vec::with_capacity(open), runs: Runs::new(pages), numbered: 0, open, least, gap }
    }

    /// The class of a reference, and its period, infinite unless it is looping.
    pub(super) fn refer(&mut self, place: Place, now: u32) -> (Class, f32) {
        self.runs.make_room();
        let continued = self.continued(place);
        if let Some(index) = continued
            && self.passes[index].last == place
        {
            // The same block again, before the next: still the same use.
            self.passes[index..].rotate_left(1);
            let pass = self.passes[self.passes.len() - 1];
            return (pass.class(self.least), pass.period);
        }
        let before = self.runs.take(place, now);
        let mut pass = match continued {
            Some(index) => self.passes.remove(index),
            None => {
                if self.passes.len() == self.open {
                    self.passes.remove(0);
                }
                self.numbered = self.numbered.wrapping_add(1);
                // Where a known run began, another pass over it begins.
                let again = before.is_some_and(|before| before.head && before.class != Class::Other);
                let length = if again { self.least - 1 } else { 0 };
                Pass { number: self.numbered, last: place, length, period: f32::INFINITY }
            }
        };
        let measured = before.map_or(f32::INFINITY, |before| match before.period.is_finite() {
            true => (before.period + before.gap as f32) / 2.0,
            false => before.gap as f32,
        });
        pass.length = pass.length.saturating_add(1).min(self.least);
        if !alike(pass.period, measured) {
            pass.period = measured;
        }
        pass.last = place;
        let class = pass.class(self.least);
        let period = if class == Class::Looping { pass.period } else { f32::INFINITY };
        self.runs.put(place, pass.number, continued.is_none(), class, period, now);
        self.passes.push(pass);
        (class, period)
    }

    /// The open pass that a reference continues: the one that is the fewest blocks behind.
    fn continued(&self, place: Place) -> Option<usize> {
        let behind = |pass: &Pass| {
            let distance = place.block.checked_sub(pass.last.block)?;
            (pass.last.object == place.object && distance <= self.gap).then_some(distance)
        };
        let candidates = self.passes.iter().enumerate().rev();
        candidates
            .filter_map(|(index, pass)| Some((behind(pass)?, index)))
            .min_by_key(|&(distance, _)| distance)
            .map(|(_, index)| index)
    }

    pub(super) fn find(&self, place: Place) -> Option<&Run> {
        self.runs.find(place)
    }

    pub(super) fn bytes(&self) -> usize {
        self.runs.bytes()
    }
}

/// Whether two periods differ by no more than fluctuation.
fn alike(a: f32, b: f32) -> bool {
    a == b || (a.is_finite() && b.is_finite() && a <= 1.25 * b && b <= 1.25 * a)
}
