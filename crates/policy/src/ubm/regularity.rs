//! What regularity tells of the references to come, for readahead: where the sequence or loop that is being referenced goes on.

use super::detector::{Class, Detector};
use crate::policy::Place;
use crate::prefetch::prefetch;

/// UBM's defaults: how many runs may be referenced at once, how many references make one, how many blocks it may skip.
const OPEN: usize = 32;
const RUN: u32 = 8;
const GAP: u64 = 8;

/// Where a sequence or loop goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// Blocks that were not known before, so many by now: there is no telling where they end.
    Sequence {
        /// How many.
        blocks: u64,
    },
    /// Blocks that were referenced before.
    Loop {
        /// The last block that is known to follow; the one just referenced if none is.
        end: u64,
        /// The first block.
        start: u64,
        /// How many references are to come before the first block is due again.
        due: u64,
    },
}

/// UBM's detector, away from its policy.
#[derive(Debug)]
pub struct Regularity {
    detector: Detector,
    /// By page, the run that its block was put into last: where to look for it first.
    runs_of: Vec<u32>,
    /// The last reference, how it was found to be, and its time.
    last: Place,
    class: Class,
    now: u64,
}

impl Regularity {
    /// For pages with numbers below `pages`.
    pub fn new(pages: u32) -> Self {
        Self {
            detector: Detector::new(pages, OPEN, RUN, GAP),
            runs_of: vec![0; pages as usize],
            last: Place::default(),
            class: Class::Other,
            now: 0,
        }
    }

    /// The page is going to be referenced soon.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        prefetch(&self.runs_of, page as usize);
    }

    /// A page is referenced.
    pub fn refer(&mut self, page: u32, place: Place) {
        self.now += 1;
        let run_of = &mut self.runs_of[page as usize];
        let finding = self.detector.refer(place, Some(*run_of), self.now);
        *run_of = finding.run.unwrap_or(*run_of);
        (self.last, self.class) = (place, finding.class);
    }

    /// Where the references go on, if the last one was sequential or looping.
    pub fn course(&self) -> Option<Course> {
        let run = self.detector.run_of(self.last)?;
        match self.class {
            Class::Other => None,
            Class::Sequential => Some(Course::Sequence { blocks: run.end() - run.start.block + 1 }),
            Class::Looping => {
                let next = Place { block: self.last.block.saturating_add(1), ..self.last };
                // What this pass has yet to come to is still in the run of the pass before.
                let before = self.detector.run_of(next).filter(|before| before.pass != run.pass && before.detected());
                let again = run.first.saturating_add(run.period as u64);
                Some(Course::Loop {
                    end: before.map_or(self.last.block, |before| before.end()),
                    start: run.start.block,
                    due: again.saturating_sub(self.now),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refer(regularity: &mut Regularity, blocks: std::ops::Range<u64>) -> Option<Course> {
        for block in blocks {
            regularity.refer(block as u32, Place { object: 3, block });
        }
        regularity.course()
    }

    #[test]
    fn a_sequence_has_a_length_and_a_loop_its_end_and_the_time_of_its_start() {
        let mut regularity = Regularity::new(100);
        assert_eq!(refer(&mut regularity, 10..17), None);
        assert_eq!(refer(&mut regularity, 17..18), Some(Course::Sequence { blocks: 8 }));
        assert_eq!(refer(&mut regularity, 18..30), Some(Course::Sequence { blocks: 20 }));
        // Block 10 was referenced at 1 and comes again at 21: so next at 41.
        assert_eq!(refer(&mut regularity, 10..25), Some(Course::Loop { end: 29, start: 10, due: 6 }));
        assert_eq!(refer(&mut regularity, 25..30), Some(Course::Loop { end: 29, start: 10, due: 1 }));
    }

    #[test]
    fn references_without_order_have_no_course() {
        let mut regularity = Regularity::new(100);
        for block in [5, 90, 33, 71, 12, 64, 50, 20, 81] {
            assert_eq!(refer(&mut regularity, block..block + 1), None);
        }
    }
}
