//! Detection (section 3.1): which references are sequential, which looping, which other.
//!
//! A *pass* references blocks of one object in rising order. Several are open at once, so programs may take turns; a reference
//! to a pass's last block, or to one at most `gap` further on, belongs to it. Its first `least - 1` references are other. From
//! then on blocks that no run holds are sequential, and those of a run are looping. Where the head of a
//! known run is referenced, the new pass needs no such proof: it goes over that run again.
//!
//! The table has what passes of that length have referenced, and nothing else: a reference without order leaves it as it is, whether or not
//! it is to a block of a run. All is found by place, so what is known does not depend on the numbers that a cache gives its pages.
//!
//! A pass keeps its period, and with it the run that it adds to, as long as the periods of its blocks differ from it by no
//! more than [`FLUCTUATION`]. A block's own period is the mean of its run's and of what was measured of it: the first block of a file is often
//! referenced once more, and does not speak for the others. When a pass becomes long enough, its first blocks are of the run, too.

use super::passes::{Found, Pass, Passes};
use super::runs::{Before, Kind, NO_RUN, Runs};
use crate::parameters::Settings;
use forebay_basis::Place;

/// Measured periods that differ by less are one period: programs that run at once slow each other.
const FLUCTUATION: f32 = 1.25;
/// A gap that differs from the period by more is not a regular interval. A loop's period changes with the number of programs that run
/// beside it (section 3.1): the paper's traces have up to four.
const IRREGULAR: f32 = 4.5;
/// In bytes, eight of the paper's blocks: what is read for the first time in a shorter pass is not let go at once.
const SEQUENTIAL: u64 = 64 << 10;
/// How many of a pass's first blocks are remembered at most, until it is long enough to be a run.
const EARLY: u32 = 16;

/// How a block is referenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// In a run of consecutive blocks, for the first time that is known of.
    Sequential,
    /// In a run of consecutive blocks, again after a regular interval.
    Looping,
    /// Neither.
    #[default]
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
    /// What a run that holds its block had said of it.
    pub(super) before: Option<Before>,
    pub(super) pass: u32,
    /// Whether its pass is shorter than [`SEQUENTIAL`] as yet.
    pub(super) short: bool,
}

/// Finds passes.
#[derive(Debug)]
pub(super) struct Detector {
    passes: Passes,
    runs: Runs,
    /// The first blocks of each open pass behind its first: `stride` places for one.
    early: Vec<u32>,
    stride: u32,
    least: u32,
    /// [`SEQUENTIAL`] in pages, and no less than a run.
    least_sequential: u32,
}

impl Detector {
    pub(super) fn new(capacity: u32, least: u32, least_sequential: u32, gap: u64) -> Self {
        let stride = (least - 1).min(EARLY);
        let passes = Passes::new(capacity, least, gap);
        let early = vec![0; (passes.most() * stride) as usize];
        Self { passes, runs: Runs::new(capacity), early, stride, least, least_sequential }
    }

    /// With UBM's parameters `run` and `gap`, for a cache of some pages.
    pub(super) fn of(settings: &Settings, capacity: u32, page_size: u64) -> Self {
        let least = settings.length("run", page_size).min(u64::from(u32::MAX));
        let sequential = least.max(SEQUENTIAL.div_ceil(page_size)).min(u64::from(u32::MAX));
        Self::new(capacity, least as u32, sequential as u32, settings.integer("gap"))
    }

    /// The cache may have this many pages.
    pub(super) fn reserve(&mut self, capacity: u32) {
        self.passes.reserve(capacity);
        self.runs.reserve(capacity);
        let more = ((self.passes.most() * self.stride) as usize).saturating_sub(self.early.len());
        self.early.reserve_exact(more);
        self.early.resize(self.early.len() + more, 0);
    }

    /// Passes have numbers below this.
    pub(super) fn most_passes(&self) -> u32 {
        self.passes.most()
    }

    pub(super) fn open_passes(&self) -> u32 {
        self.passes.len()
    }

    pub(super) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Where a reference to a place will be found: changes nothing.
    pub(super) fn find(&self, place: Place) -> Found {
        self.passes.find(place)
    }

    /// A block is referenced where it was found to be.
    pub(super) fn refer(&mut self, found: &Found, place: Place, now: u64) -> Finding {
        if let (Some(index), true) = (found.pass, found.repeated) {
            let Pass { class, period, length, .. } = *self.passes.get(index);
            self.passes.advance(found, index, place, length);
            let period = if class == Class::Looping { period } else { f32::INFINITY };
            let short = length < self.least_sequential;
            return Finding { class, period, repeated: true, before: None, pass: index, short };
        }
        let near = found.pass.map_or(NO_RUN, |index| self.passes.get(index).run);
        let holder = self.runs.holder(place, near);
        let before = holder.map(|index| self.runs.before(index, place, now));
        let head = found.pass.is_none();
        let index = found.pass.unwrap_or_else(|| self.begin(place, before, now));
        let least = self.least;
        let pass = self.passes.get(index);
        let was = pass.length;
        pass.length = (pass.length + 1).min(self.least_sequential);
        let measured = before.map_or(f32::INFINITY, |before| before.averaged());
        if !alike(pass.period, measured, FLUCTUATION) {
            (pass.period, pass.run) = (measured, NO_RUN);
        }
        let irregular = before
            .is_some_and(|Before { gap, period, .. }| period.is_finite() && !alike(gap as f32, period, IRREGULAR));
        pass.class = match pass.period.is_finite() {
            _ if pass.length < least => Class::Other,
            true if irregular => Class::Other,
            true => Class::Looping,
            false => Class::Sequential,
        };
        let Pass { class, length, period: kept, .. } = *pass;
        self.passes.advance(found, index, place, was);
        // An irregular run keeps its period, to be compared with the next.
        let own = if kept.is_finite() { (kept + measured) / 2.0 } else { kept };
        if length < least {
            self.note_early(index, place, was);
        } else {
            if was < least && !head {
                self.put_early(index, was, Kind { class, period: kept, head: true }, now);
            }
            let run = self.runs.put(self.passes.get(index).run, place, Kind { class, period: own, head }, now);
            self.passes.get(index).run = run;
        }
        let period = if class == Class::Looping { own } else { f32::INFINITY };
        Finding { class, period, repeated: false, before, pass: index, short: length < self.least_sequential }
    }

    /// A new pass. Where a known run began it needs no proof.
    fn begin(&mut self, place: Place, before: Option<Before>, now: u64) -> u32 {
        let again = before.is_some_and(|before| before.head);
        let length = if again { self.least - 1 } else { 0 };
        let (class, period) = (Class::Other, f32::INFINITY);
        self.passes.open(Pass { class, length, period, run: NO_RUN, first: place.block, begun: now }, place)
    }

    /// The block is the `at`-th behind the first of a pass that is no run yet.
    fn note_early(&mut self, index: u32, place: Place, at: u32) {
        let first = self.passes.get(index).first;
        if (1..=self.stride).contains(&at) {
            self.early[(index * self.stride + at - 1) as usize] = (place.block - first) as u32;
        }
    }

    /// A pass has become a run: the blocks that it has referenced are of it, and were referenced at an even pace.
    fn put_early(&mut self, index: u32, count: u32, kind: Kind, now: u64) {
        let Pass { first, begun, mut run, .. } = *self.passes.get(index);
        let object = self.passes.place(index).object;
        for at in 0..count.min(self.stride + 1) {
            let offset = if at == 0 { 0 } else { self.early[(index * self.stride + at - 1) as usize] };
            let place = Place { object, block: first + u64::from(offset) };
            let time = begun + (now - begun) * u64::from(at) / u64::from(count);
            run = self.runs.put(run, place, Kind { head: at == 0, ..kind }, time);
        }
        self.passes.get(index).run = run;
    }

    pub(super) fn bytes(&self) -> usize {
        self.passes.bytes() + self.runs.bytes() + self.early.capacity() * size_of::<u32>()
    }

    pub(super) fn check(&self) {
        self.passes.check();
        self.runs.check();
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

    fn step(detector: &mut Detector, place: Place, now: u64) -> Finding {
        let found = detector.find(place);
        detector.refer(&found, place, now)
    }

    /// The finding for each of the references.
    fn refer(detector: &mut Detector, places: impl IntoIterator<Item = Place>) -> Vec<(Class, f32)> {
        let places = places.into_iter().enumerate();
        let findings = places.map(|(now, place)| step(detector, place, now as u64));
        findings.map(|finding| (finding.class, finding.period)).collect()
    }

    /// The paper's Figure 4: file 1 with period 80, file 2 with period 40, file 3 read once.
    #[test]
    fn loops_have_their_periods_and_a_file_read_once_has_none() {
        let mut detector = Detector::new(1000, 3, 3, 1);
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
        let mut detector = Detector::new(1000, 3, 3, 2);
        let places = (0..20).flat_map(|step| [2 * step, 500 + step].map(|block| Place { object: 0, block }));
        let found = refer(&mut detector, places);
        assert!(found[..4].iter().all(|found| found.0 == Class::Other));
        assert!(found[4..].iter().all(|found| found.0 == Class::Sequential));
    }

    #[test]
    fn many_passes_are_told_apart_however_many_are_open() {
        let mut detector = Detector::new(1600, 3, 3, 8);
        let places = (0..4).flat_map(|step| (0..200).map(move |pass| Place { object: 0, block: 100 * pass + step }));
        let findings: Vec<Class> =
            places.enumerate().map(|(now, place)| step(&mut detector, place, now as u64).class).collect();
        assert!(findings[..400].iter().all(|class| *class == Class::Other));
        assert!(findings[400..].iter().all(|class| *class == Class::Sequential));
        assert_eq!(detector.open_passes(), 200);
        detector.check();
    }

    #[test]
    fn references_without_order_make_no_scan_a_loop() {
        let mut detector = Detector::new(100, 8, 16, 8);
        let mut random = 1u32;
        let random = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            Place { object: 0, block: u64::from(random % 4_000) }
        });
        let found = refer(&mut detector, random.take(2_000).chain(blocks(0, 0..4_000)));
        let of = |found: &[(Class, f32)], class| found.iter().filter(|found| found.0 == class).count();
        assert!(of(&found[..2_000], Class::Other) >= 1_980);
        assert!(of(&found[2_000..], Class::Sequential) >= 3_900);
        detector.check();
    }

    #[test]
    fn a_random_reference_to_a_block_of_a_loop_leaves_its_period() {
        let mut detector = Detector::new(1000, 3, 3, 1);
        let round = || blocks(0, 0..40);
        let one = || blocks(0, 20..21);
        let found =
            refer(&mut detector, round().chain(blocks(1, 0..60)).chain(one()).chain(blocks(2, 0..19)).chain(round()));
        assert_eq!(found[100].0, Class::Other);
        assert_eq!(found[140], (Class::Looping, 120.0));
    }

    #[test]
    fn a_pass_that_rests_has_the_times_of_its_blocks() {
        let mut detector = Detector::new(1000, 3, 3, 1);
        let mut found = Vec::new();
        for (start, rest) in [(0, 500), (1_000, 0)] {
            for block in 0..100 {
                let now = start + block + if block < 50 { 0 } else { rest };
                found.push(step(&mut detector, Place { object: 0, block }, now).period);
            }
        }
        let [before, behind] = [149, 150].map(|index| found[index]);
        assert!((960.0..1_040.0).contains(&before) && (480.0..540.0).contains(&behind), "{before}, {behind}");
        detector.check();
    }

    #[test]
    fn more_streams_than_passes_are_still_streams() {
        // By turns; there are 189 passes.
        let mut detector = Detector::new(1000, 8, 16, 8);
        let places = (0..200).flat_map(|block| (0..300).map(move |object| Place { object, block }));
        let found = refer(&mut detector, places);
        let sequential = found.iter().filter(|found| found.0 == Class::Sequential).count();
        assert!(sequential > 200 * 189 / 2, "{sequential} of {}", found.len());
        assert_eq!(detector.open_passes(), 189);
        detector.check();
    }

    #[test]
    fn a_block_used_at_irregular_intervals_is_other() {
        let mut detector = Detector::new(1000, 3, 3, 1);
        let mut now = 0;
        let mut pass = |wait: u64| {
            now += wait;
            let classes: Vec<Class> = blocks(0, 0..5).map(|place| step(&mut detector, place, now).class).collect();
            classes[4]
        };
        let classes = [0, 100, 110, 900, 600, 450].map(&mut pass);
        use Class::{Looping, Other, Sequential};
        assert_eq!(classes, [Sequential, Looping, Looping, Other, Looping, Looping]);
    }
}
