//! The detector alone, without a cache: the class of each reference of a trace.

use super::Ubm;
use super::detector::{Class, Detector};
use crate::parameters::Settings;
use crate::policy::{Place, Policy};

/// Classifies references as UBM does, which depends on the references alone and on no cache.
#[derive(Debug)]
pub struct Classifier {
    detector: Detector,
    /// By page, the run that its block was put into last: where to look for it first.
    runs_of: Vec<u32>,
    /// References so far.
    now: u64,
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

impl Classifier {
    /// A classifier with UBM's default parameters, for page numbers below `pages`.
    pub fn new(pages: u32) -> Self {
        let settings = Settings::defaults(Ubm::INFO.parameters);
        Self { detector: Detector::of(&settings, pages), runs_of: vec![0; pages as usize], now: 0 }
    }

    /// A page is referenced.
    ///
    /// # Panics
    /// If the page's number is not below those that the classifier was made for.
    pub fn refer(&mut self, page: u32, place: Place) -> Classified {
        self.now += 1;
        let run_of = &mut self.runs_of[page as usize];
        let finding = self.detector.refer(place, Some(*run_of), self.now);
        *run_of = finding.run.unwrap_or(*run_of);
        Classified { class: finding.class, period: finding.period }
    }

    /// What is known of the blocks referenced so far, by the last reference to each. A loop over several files, or over blocks
    /// that others lie between, is one for each run of consecutive blocks.
    pub fn runs(&self) -> impl Iterator<Item = KnownRun> {
        self.detector.runs().iter().map(|run| KnownRun {
            start: run.start,
            end: run.end(),
            class: run.class,
            period: if run.class == Class::Looping { run.period } else { f32::INFINITY },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_sequential_at_first_and_looping_from_its_second_round_on() {
        let mut classifier = Classifier::new(20);
        let mut round = || -> Vec<Classified> {
            (0..20).map(|block| classifier.refer(block, Place { object: 3, block: u64::from(block) })).collect()
        };
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
}
