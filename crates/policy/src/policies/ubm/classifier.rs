//! The detector alone, without a cache: the class of each reference of a trace, and where the sequence or loop goes on that is being
//! referenced.

use super::Ubm;
use super::detector::{Class, Detector};
use super::runs::NO_RUN;
use crate::parameters::Settings;
use crate::policy::Policy;
use forebay_basis::Place;

/// Classifies references as UBM does in a cache of as many pages as there are, and knows the runs that their blocks are in.
///
/// The work for a reference ends: it looks for its pass and for its run in search trees, and adds two runs at most.
#[derive(Debug)]
pub struct Classifier {
    detector: Detector,
    /// References so far.
    now: u64,
    /// The last reference, and its class.
    last: Place,
    class: Class,
}

/// How a reference was classified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classified {
    /// Its class.
    pub class: Class,
    /// References from one use of its block to the next; infinite unless looping.
    pub period: f32,
}

/// Consecutive blocks that one pass referenced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownRun {
    /// Its first block.
    pub start: Place,
    /// Its last block.
    pub end: u64,
    /// The class of its references.
    pub class: Class,
    /// References from one use of a block to its next; infinite unless looping.
    pub period: f32,
}

/// Where a sequence or loop goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// This many blocks by now that were not known before: where they end is unknown.
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

impl Classifier {
    /// A classifier with UBM's default parameters, for `pages` pages of `page_size` bytes.
    pub fn new(pages: u32, page_size: u64) -> Self {
        let settings = Settings::defaults(Ubm::INFO.parameters);
        let detector = Detector::of(&settings, pages, page_size);
        Self { detector, now: 0, last: Place::default(), class: Class::Other }
    }

    /// A page is referenced.
    pub fn refer(&mut self, place: Place) -> Classified {
        self.now += 1;
        let found = self.detector.find(place);
        let finding = self.detector.refer(&found, place, self.now);
        (self.last, self.class) = (place, finding.class);
        Classified { class: finding.class, period: finding.period }
    }

    /// The runs that the blocks referenced so far are in. A loop over several files, or over blocks
    /// that others lie between, is one for each run of consecutive blocks.
    pub fn runs(&self) -> impl Iterator<Item = KnownRun> {
        self.detector.runs().iter().map(|(start, end, run)| KnownRun {
            start,
            end,
            class: run.class,
            period: if run.class == Class::Looping { run.period } else { f32::INFINITY },
        })
    }

    /// Where the references go on, if the last one was sequential or looping.
    pub fn course(&self) -> Option<Course> {
        let runs = self.detector.runs();
        let run = runs.holder(self.last, NO_RUN)?;
        let start = runs.start(run).block;
        match self.class {
            Class::Other => None,
            Class::Sequential => Some(Course::Sequence { blocks: runs.end(run) - start + 1 }),
            Class::Looping => {
                let next = Place { block: self.last.block.saturating_add(1), ..self.last };
                // What this pass has yet to come to is still in the run of the pass before.
                let before = runs.holder(next, run).filter(|&before| before != run);
                let again = runs.begun(run).saturating_add(runs.get(run).period as u64);
                Some(Course::Loop {
                    end: before.map_or(self.last.block, |before| runs.end(before)),
                    start,
                    due: again.saturating_sub(self.now),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_sequential_at_first_and_looping_from_its_second_round_on() {
        let mut classifier = Classifier::new(20, 8192);
        let mut round =
            || -> Vec<Classified> { (0..20).map(|block| classifier.refer(Place { object: 3, block })).collect() };
        let first = round();
        assert!(first[..7].iter().all(|found| found.class == Class::Other));
        assert!(
            first[7..].iter().all(|found| *found == Classified { class: Class::Sequential, period: f32::INFINITY })
        );
        assert!(round().iter().all(|found| *found == Classified { class: Class::Looping, period: 20.0 }));
        let start = Place { object: 3, block: 0 };
        let runs: Vec<KnownRun> = classifier.runs().collect();
        assert_eq!(runs, [KnownRun { start, end: 19, class: Class::Looping, period: 20.0 }]);
    }

    fn refer(classifier: &mut Classifier, blocks: std::ops::Range<u64>) -> Option<Course> {
        for block in blocks {
            classifier.refer(Place { object: 3, block });
        }
        classifier.course()
    }

    #[test]
    fn a_sequence_has_a_length_and_a_loop_its_end_and_the_time_of_its_start() {
        let mut classifier = Classifier::new(100, 8192);
        assert_eq!(refer(&mut classifier, 10..17), None);
        assert_eq!(refer(&mut classifier, 17..18), Some(Course::Sequence { blocks: 8 }));
        assert_eq!(refer(&mut classifier, 18..30), Some(Course::Sequence { blocks: 20 }));
        // Block 10 was referenced at 1 and comes again at 21: so next at 41.
        assert_eq!(refer(&mut classifier, 10..25), Some(Course::Loop { end: 29, start: 10, due: 6 }));
        assert_eq!(refer(&mut classifier, 25..30), Some(Course::Loop { end: 29, start: 10, due: 1 }));
    }

    #[test]
    fn a_part_that_is_read_again_becomes_a_loop_of_its_own() {
        let mut classifier = Classifier::new(100, 8192);
        refer(&mut classifier, 0..100);
        refer(&mut classifier, 40..60);
        let mut runs: Vec<_> = classifier.runs().map(|run| (run.start.block, run.end, run.class)).collect();
        runs.sort_unstable_by_key(|run| run.0);
        assert_eq!(runs, [(0, 39, Class::Sequential), (40, 59, Class::Looping), (60, 99, Class::Sequential)]);
    }

    #[test]
    fn references_without_order_have_no_course() {
        let mut classifier = Classifier::new(100, 8192);
        for block in [5, 90, 33, 71, 12, 64, 50, 20, 81] {
            assert_eq!(refer(&mut classifier, block..block + 1), None);
        }
    }
}
