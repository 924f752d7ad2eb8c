//! Detection (section 3.1): which references are sequential, which looping, which other.
//!
//! A *pass* references blocks of one object in rising order. Several are open at once, so programs may take turns; a reference
//! to a pass's last block, or to one at most `gap` further on, belongs to it. Its first `least - 1` references are other. From
//! then on blocks that were not known before are sequential, and those that were known are looping. Where the head of a
//! known run is referenced, the new pass needs no such proof: it goes over that run again.
//!
//! A pass keeps its period, and with it the run that it adds to, as long as the periods of its blocks differ from it by no
//! more than [`FLUCTUATION`]. A block's own period is the mean of its run's and of what was measured of it: the first block of a file is often
//! referenced once more, and does not speak for the others. When a pass becomes long enough, its first blocks are of the run, too.

use super::blocks::{Before, Blocks};
use super::passes::{Pass, Passes};
use crate::parameters::Settings;
use crate::policy::Place;

/// Measured periods that differ by less are one period: programs that run at once slow each other.
const FLUCTUATION: f32 = 1.25;
/// A gap that differs from the period by more is not a regular interval. A loop's period changes with the number of programs that run
/// beside it (section 3.1): the paper's traces have up to four.
const IRREGULAR: f32 = 4.5;
/// In bytes, eight of the paper's blocks: what is read for the first time in a shorter pass is not let go at once.
const SEQUENTIAL: u64 = 64 << 10;
/// How many of a pass's first blocks are remembered at most, until it is long enough to be a run.
const EARLY: u32 = 1024;

/// How a block is referenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// In a run of consecutive blocks, for the first time that is known of.
    Sequential,
    /// In a run of consecutive blocks, again after a regular interval.
    Looping,
    /// Neither.
    Other,
}

/// What is found of a reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finding {
    pub(super) class: Class,
    /// Infinite unless looping.
    pub(super) period: f32,
    /// Whether it is to the block that its pass referenced last: still the same use of it.
    pub(super) repeated: bool,
    pub(super) before: Option<Before>,
    /// The page that its pass referenced before, if it had begun.
    pub(super) left: Option<u32>,
    /// The number of its pass, and whether it goes on right behind its block before.
    pub(super) pass: u64,
    pub(super) follows: bool,
    /// The period that is kept of the block, to be compared with the next; infinite before it is a run's.
    pub(super) kept: f32,
    /// Whether its pass is shorter than [`SEQUENTIAL`] as yet.
    pub(super) short: bool,
}

/// Finds passes.
#[derive(Debug)]
pub(super) struct Detector {
    passes: Passes,
    blocks: Blocks,
    /// The first pages of each open pass: `stride` places for one.
    early: Vec<u32>,
    stride: u32,
    numbered: u64,
    least: u32,
    /// [`SEQUENTIAL`] in pages, and no less than a run.
    least_sequential: u32,
}

impl Detector {
    pub(super) fn new(pages: u32, open: usize, least: u32, least_sequential: u32, gap: u64) -> Self {
        let stride = least.min(EARLY);
        let mut detector = Self {
            passes: Passes::new(open, gap),
            blocks: Blocks::default(),
            early: vec![0; open * stride as usize],
            stride,
            numbered: 0,
            least,
            least_sequential,
        };
        detector.reserve(pages);
        detector
    }

    /// With UBM's parameters `open`, `run` and `gap`.
    pub(super) fn of(settings: &Settings, pages: u32, page_size: u64) -> Self {
        let [open, gap] = ["open", "gap"].map(|name| settings.integer(name));
        let least = settings.length("run", page_size).min(u64::from(u32::MAX));
        let sequential = least.max(SEQUENTIAL.div_ceil(page_size)).min(u64::from(u32::MAX));
        Self::new(pages, open as usize, least as u32, sequential as u32, gap)
    }

    #[cfg(test)]
    pub(super) fn count_passes_from(&mut self, number: u64) {
        self.numbered = number;
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.blocks.reserve(pages);
    }

    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        self.blocks.prefetch(page);
    }

    pub(super) fn open_passes(&self) -> u32 {
        self.passes.len()
    }

    /// What is known of the last reference to a block.
    pub(super) fn known(&self, page: u32, place: Place, now: u64) -> Option<Before> {
        self.blocks.before(page, place, now)
    }

    /// A block is referenced.
    pub(super) fn refer(&mut self, page: u32, place: Place, now: u64) -> Finding {
        self.blocks.age(now);
        let continued = self.passes.continued_by(place);
        if let Some(index) = continued
            && let Pass { last, class, period, number, length, .. } = *self.passes.get(index)
            && last == place
        {
            self.passes.advance(index, place, length >= self.least);
            let period = if class == Class::Looping { period } else { f32::INFINITY };
            return Finding {
                class,
                period,
                repeated: true,
                before: None,
                left: None,
                pass: number,
                follows: false,
                kept: period,
                short: length < self.least_sequential,
            };
        }
        let before = self.blocks.before(page, place, now);
        let index = continued.unwrap_or_else(|| self.begin(page, place, before));
        let least = self.least;
        let pass = self.passes.get(index);
        let (head, follows) = (continued.is_none(), pass.last.block.checked_add(1) == Some(place.block));
        let left = if head { None } else { Some(pass.page) };
        pass.page = page;
        let was = pass.length;
        pass.length = (pass.length + 1).min(self.least_sequential);
        let measured = before.map_or(f32::INFINITY, |before| before.averaged());
        if !alike(pass.period, measured, FLUCTUATION) {
            pass.period = measured;
        }
        let irregular = before
            .is_some_and(|Before { gap, period, .. }| period.is_finite() && !alike(gap as f32, period, IRREGULAR));
        pass.class = match pass.period.is_finite() {
            _ if pass.length < least => Class::Other,
            true if irregular => Class::Other,
            true => Class::Looping,
            false => Class::Sequential,
        };
        let short = pass.length < self.least_sequential;
        let Pass { number, class, length, .. } = *pass;
        // An irregular run keeps its period, to be compared with the next.
        let kept = if length < least { f32::INFINITY } else { pass.period };
        let own = if kept.is_finite() { (kept + measured) / 2.0 } else { kept };
        let early = (index * self.stride) as usize..((index + 1) * self.stride) as usize;
        let early = &mut self.early[early];
        if length < least {
            if let Some(place) = early.get_mut(was as usize) {
                *place = page;
            }
        } else if was < least && !head {
            let known = early.iter().take(was as usize);
            known.for_each(|&page| self.blocks.detect(page, class, kept));
        }
        self.passes.advance(index, place, length >= least);
        self.blocks.put(page, place, class, own, head, now);
        let period = if class == Class::Looping { own } else { f32::INFINITY };
        Finding { class, period, repeated: false, before, left, pass: number, follows, kept, short }
    }

    /// A new pass. Where a known run began it needs no proof.
    fn begin(&mut self, page: u32, place: Place, before: Option<Before>) -> u32 {
        self.numbered += 1;
        let again = before.is_some_and(|before| before.head && before.detected());
        let length = if again { self.least - 1 } else { 0 };
        self.passes.open(Pass::new(self.numbered, place, page, length))
    }

    pub(super) fn bytes(&self) -> usize {
        self.passes.bytes() + self.blocks.bytes() + self.early.capacity() * size_of::<u32>()
    }

    pub(super) fn check(&self) {
        self.passes.check();
    }
}

/// Whether two periods differ by no more than `factor`.
fn alike(a: f32, b: f32, factor: f32) -> bool {
    a == b || (a.is_finite() && b.is_finite() && a <= factor * b && b <= factor * a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(object: u32, blocks: std::ops::Range<u64>) -> impl Iterator<Item = Place> {
        blocks.map(move |block| Place { object, block })
    }

    /// Each block of the tests has a page of its own.
    fn page(place: Place) -> u32 {
        place.object * 250 + place.block as u32 % 250
    }

    /// The finding for each of the references.
    fn refer(detector: &mut Detector, places: impl IntoIterator<Item = Place>) -> Vec<(Class, f32)> {
        let places = places.into_iter().enumerate();
        let findings = places.map(|(now, place)| detector.refer(page(place), place, now as u64));
        findings.map(|finding| (finding.class, finding.period)).collect()
    }

    /// The paper's Figure 4: file 1 with period 80, file 2 with period 40, file 3 read once.
    #[test]
    fn loops_have_their_periods_and_a_file_read_once_has_none() {
        let mut detector = Detector::new(1000, 4, 3, 3, 1);
        let round = |third: u64| {
            let first = blocks(1, 0..20).chain(blocks(2, 0..10)).chain(blocks(3, third..third + 10));
            first.chain(blocks(2, 0..10)).chain(blocks(3, third + 10..third + 40))
        };
        let places: Vec<Place> = [0, 40, 80].into_iter().flat_map(round).collect();
        assert_eq!(places.len(), 240);
        let found = refer(&mut detector, places.iter().copied());
        assert!(found[160..180].iter().all(|&found| found == (Class::Looping, 80.0)), "{:?}", &found[160..180]);
        let of_file_3 = places.iter().zip(&found).filter(|(place, _)| place.object == 3 && place.block >= 2);
        assert!(of_file_3.into_iter().all(|(_, found)| *found == (Class::Sequential, f32::INFINITY)));
        // File 2 returns after 20 references and after 60: 40 on average, and no more than three times that or a third.
        let period = found[180].1;
        assert!((30.0..50.0).contains(&period), "{period}");
        detector.check();
    }

    #[test]
    fn runs_that_take_turns_and_skip_blocks_are_told_apart() {
        let mut detector = Detector::new(1000, 4, 3, 3, 2);
        let places = (0..20).flat_map(|step| [2 * step, 500 + step].map(|block| Place { object: 0, block }));
        let found = refer(&mut detector, places);
        assert!(found[..4].iter().all(|found| found.0 == Class::Other));
        assert!(found[4..].iter().all(|found| found.0 == Class::Sequential));
    }

    #[test]
    fn many_passes_are_told_apart_however_many_are_open() {
        let mut detector = Detector::new(1000, 200, 3, 3, 8);
        let places = (0..4).flat_map(|step| (0..200).map(move |pass| Place { object: 0, block: 100 * pass + step }));
        let findings: Vec<Class> =
            places.enumerate().map(|(now, place)| detector.refer(now as u32, place, now as u64).class).collect();
        assert!(findings[..400].iter().all(|class| *class == Class::Other));
        assert!(findings[400..].iter().all(|class| *class == Class::Sequential));
        assert_eq!(detector.open_passes(), 200);
        detector.check();
    }

    #[test]
    fn a_number_that_stands_for_another_block_brings_nothing_with_it() {
        let mut detector = Detector::new(10, 4, 1, 1, 1);
        for (now, block) in [5, 900, 900].into_iter().enumerate() {
            let finding = detector.refer(3, Place { object: 1, block }, 100 * now as u64);
            assert_eq!((finding.class, finding.before.is_some()), (Class::Sequential, false), "{block}");
        }
        assert_eq!(detector.refer(4, Place { object: 1, block: 77 }, 250).class, Class::Sequential);
        assert_eq!(
            detector.refer(3, Place { object: 1, block: 900 }, 300).class,
            Class::Sequential,
            "still at that block"
        );
    }

    #[test]
    fn a_block_used_at_irregular_intervals_is_other() {
        let mut detector = Detector::new(1000, 4, 3, 3, 1);
        let mut now = 0;
        let mut pass = |wait: u64| {
            now += wait;
            let classes: Vec<Class> =
                blocks(0, 0..5).map(|place| detector.refer(page(place), place, now).class).collect();
            classes[4]
        };
        let classes = [0, 100, 110, 900, 600, 450].map(&mut pass);
        use Class::{Looping, Other, Sequential};
        assert_eq!(classes, [Sequential, Looping, Looping, Other, Looping, Looping]);
    }
}
