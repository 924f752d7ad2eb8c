//! Detection (section 3.1): which references are sequential, which looping, which other.
//!
//! A *pass* references blocks of one object in rising order. Several are open at once, so programs may take turns; a reference
//! to a pass's last block, or to one at most `gap` further on, belongs to it. Its first `least - 1` references are other. From
//! then on blocks that were not known before are sequential, and those that were known are looping. Where the head of a
//! known run is referenced, the new pass needs no such proof: it goes over that run again.
//!
//! A pass keeps its period, and with it the run that it adds to, as long as the periods of its blocks differ from it by no
//! more than [`FLUCTUATION`].

use super::runs::{Before, Block, Run, Runs};
use crate::parameters::Settings;
use crate::policy::Place;

/// Measured periods that differ by less are one period: programs that run at once slow each other.
pub(super) const FLUCTUATION: f32 = 1.25;
/// A gap that differs from the period by more is not a regular interval.
const IRREGULAR: f32 = 3.0;

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
    /// The run that it is in now; `None` if that is the same as before.
    pub(super) run: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Pass {
    number: u64,
    /// The block referenced last, and how.
    last: Place,
    class: Class,
    /// How many blocks it has referenced, counted up to `least`.
    length: u32,
    /// Infinite where its blocks were not known before.
    period: f32,
    /// The run that it added to last, and the one that held that block before: the next block is likely to be found there.
    run: Option<u32>,
    holder: Option<u32>,
}

/// Finds passes.
#[derive(Debug)]
pub(super) struct Detector {
    /// D1. The open passes, no more than `open`, no two with one number; the one continued last at the end.
    passes: Vec<Pass>,
    runs: Runs,
    numbered: u64,
    open: usize,
    least: u32,
    gap: u64,
}

impl Detector {
    pub(super) fn new(pages: u32, open: usize, least: u32, gap: u64) -> Self {
        Self { passes: Vec::with_capacity(open), runs: Runs::new(pages), numbered: 0, open, least, gap }
    }

    /// With UBM's parameters `open`, `run` and `gap`.
    pub(super) fn of(settings: &Settings, pages: u32, page_size: u64) -> Self {
        let [open, gap] = ["open", "gap"].map(|name| settings.integer(name));
        let least = settings.length("run", page_size).min(u64::from(u32::MAX));
        Self::new(pages, open as usize, least as u32, gap)
    }

    #[cfg(test)]
    pub(super) fn count_passes_from(&mut self, number: u64) {
        self.numbered = number;
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.runs.reserve(pages);
    }

    pub(super) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// The class of the last reference to a block, if its run is known.
    pub(super) fn run_of(&self, place: Place) -> Option<&Run> {
        self.runs.find(place)
    }

    /// A block is referenced; `guess` is the run that it was put into before, if the caller remembers.
    pub(super) fn refer(&mut self, place: Place, guess: Option<u32>, now: u64) -> Finding {
        let continued = self.continued(place);
        if let Some(index) = continued
            && self.passes[index].last == place
        {
            self.passes[index..].rotate_left(1);
            let Pass { class, period, .. } = self.passes[self.passes.len() - 1];
            let period = if class == Class::Looping { period } else { f32::INFINITY };
            return Finding { class, period, repeated: true, before: None, run: None };
        }
        self.runs.make_room();
        let of_pass = continued.and_then(|index| self.passes[index].holder);
        let holder = self.runs.holder_by([guess, of_pass], place);
        let before = holder.map(|holder| self.runs.before(holder, place, now));
        let mut pass = match continued {
            Some(index) => self.passes.remove(index),
            None => self.begin(before),
        };
        pass.length = (pass.length + 1).min(self.least);
        let measured = before.map_or(f32::INFINITY, |before| before.averaged());
        if !alike(pass.period, measured, FLUCTUATION) {
            pass.period = measured;
        }
        let irregular = before
            .is_some_and(|Before { gap, period, .. }| period.is_finite() && !alike(gap as f32, period, IRREGULAR));
        pass.class = match pass.period.is_finite() {
            _ if pass.length < self.least => Class::Other,
            true if irregular => Class::Other,
            true => Class::Looping,
            false => Class::Sequential,
        };
        // An irregular run keeps its period, to be compared with the next.
        let kept = if pass.length < self.least { f32::INFINITY } else { pass.period };
        // A pass goes upwards: of its blocks only the last one can lie right before this one.
        let growing = if continued.is_some() && pass.last.block + 1 == place.block {
            let index = self.runs.holder_by([pass.run], pass.last);
            index.filter(|&index| self.runs.is_of(index, pass.number))
        } else {
            None
        };
        let head = continued.is_none();
        let block = Block { place, pass: pass.number, head, class: pass.class, period: kept, now };
        (pass.run, pass.holder) = (Some(self.runs.put(holder, growing, block)), holder);
        pass.last = place;
        self.passes.push(pass);
        let period = if pass.class == Class::Looping { pass.period } else { f32::INFINITY };
        Finding { class: pass.class, period, repeated: false, before, run: pass.run }
    }

    /// The open pass that a reference belongs to: the one that it is least far ahead of, of several the one continued last. One
    /// that has just been at that very block comes after them: it may have ended there, as another over the same blocks will.
    fn continued(&self, place: Place) -> Option<usize> {
        let distance = |pass: &Pass| {
            let distance = place.block.checked_sub(pass.last.block)?;
            (pass.last.object == place.object && distance <= self.gap).then_some(distance)
        };
        // Most references go on right behind the last one: nothing is nearer.
        if self.passes.last().is_some_and(|pass| distance(pass) == Some(1)) {
            return Some(self.passes.len() - 1);
        }
        let passes = self.passes.iter().enumerate().rev();
        let ahead = passes.filter_map(|(index, pass)| distance(pass).map(|distance| (distance, index)));
        ahead.min_by_key(|&(distance, _)| (distance == 0, distance)).map(|(_, index)| index)
    }

    /// A new pass, in the place of the one continued least recently if too many are open.
    fn begin(&mut self, before: Option<Before>) -> Pass {
        if self.passes.len() == self.open {
            // Half of the places are for runs, so that references all over the place do not end them.
            let unproven = |pass: &Pass| pass.length < self.least;
            let crowded = 2 * self.passes.iter().filter(|pass| unproven(pass)).count() > self.open;
            let oldest = if crowded { self.passes.iter().position(unproven) } else { None };
            self.passes.remove(oldest.unwrap_or(0));
        }
        self.numbered += 1;
        let again = before.is_some_and(|before| before.head && before.detected());
        let length = if again { self.least - 1 } else { 0 };
        Pass {
            number: self.numbered,
            last: Place::default(),
            class: Class::Other,
            length,
            period: f32::INFINITY,
            run: None,
            holder: None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.passes.capacity() * size_of::<Pass>() + self.runs.bytes()
    }

    pub(super) fn check(&self) {
        self.runs.check();
        assert!(self.passes.len() <= self.open); // D1
        for (index, pass) in self.passes.iter().enumerate() {
            assert!(self.passes[..index].iter().all(|other| other.number != pass.number)); // D1
            assert!(pass.length <= self.least);
        }
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

    /// The last finding for each of the references.
    fn refer(detector: &mut Detector, places: impl IntoIterator<Item = Place>) -> Vec<(Class, f32)> {
        let findings = places.into_iter().enumerate().map(|(now, place)| detector.refer(place, None, now as u64));
        findings.map(|finding| (finding.class, finding.period)).collect()
    }

    /// The paper's Figure 4: file 1 with period 80, file 2 with period 40, file 3 read once.
    #[test]
    fn loops_have_their_periods_and_a_file_read_once_has_none() {
        let mut detector = Detector::new(1000, 4, 3, 1);
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
        let mut detector = Detector::new(1000, 4, 3, 2);
        let places = (0..20).flat_map(|step| [2 * step, 500 + step].map(|block| Place { object: 0, block }));
        let found = refer(&mut detector, places);
        assert!(found[..4].iter().all(|found| found.0 == Class::Other));
        assert!(found[4..].iter().all(|found| found.0 == Class::Sequential));
    }

    #[test]
    fn a_part_that_is_read_again_becomes_a_loop_of_its_own() {
        let mut detector = Detector::new(1000, 4, 3, 1);
        refer(&mut detector, blocks(0, 0..100).chain(blocks(0, 40..60)));
        let of = |block| detector.run_of(Place { object: 0, block }).map(|run| (run.class, run.start.block, run.end()));
        assert_eq!(of(10), Some((Class::Sequential, 0, 39)));
        assert_eq!(of(50), Some((Class::Looping, 40, 59)));
        assert_eq!(of(99), Some((Class::Sequential, 60, 99)));
    }

    #[test]
    fn a_block_used_at_irregular_intervals_is_other() {
        let mut detector = Detector::new(1000, 4, 3, 1);
        let mut now = 0;
        let mut pass = |wait: u64| {
            now += wait;
            let classes: Vec<Class> = blocks(0, 0..5).map(|place| detector.refer(place, None, now).class).collect();
            classes[4]
        };
        let classes = [0, 100, 110, 900, 600, 450].map(&mut pass);
        use Class::{Looping, Other, Sequential};
        assert_eq!(classes, [Sequential, Looping, Looping, Other, Looping, Looping]);
    }
}
