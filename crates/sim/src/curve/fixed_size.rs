//! SHARDS of a fixed size: however many pages a trace has, this many are sampled at most.
//!
//! C. A. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015, section 3.2.
//! A page is in the sample while its hash is below a threshold. When there are too many, the page with the greatest hash goes, and
//! its hash is the new threshold: the rate falls as the trace goes on. A reference that counted at the rate of its time counts less
//! at a lower one; where the paper scales the counts down at each change, here each reference counts 1 / rate
//! from the start, which comes to the same.
//!
//! Memory: some 100 bytes for each page of the sample, and 18 KiB for the distances, which are told apart to 1/64.

use super::lru::Lru;
use super::ratios::Curve;
use super::stack::Stack;
use crate::input::sample::hash;
use forebay_basis::{Histogram, Place};
use forebay_trace::{Error, Names, Paging, Reader, Result};
use std::collections::{BinaryHeap, HashMap};

/// Requests between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// LRU's curve, estimated from a sample of a fixed size.
#[derive(Debug)]
pub struct FixedSize {
    most: usize,
    /// The pages below this hash are sampled; `None`: all.
    threshold: Option<u64>,
    /// The pages of the sample by their hash.
    by_hash: BinaryHeap<(u64, u32)>,
    numbers: HashMap<Place, u32>,
    /// The place of each page number.
    places: Vec<Place>,
    /// Page numbers not in use.
    free: Vec<u32>,
    stack: Lru,
    /// References of the whole trace, and those of the sample by 1 / rate.
    whole: u64,
    weight: f64,
    /// By distance, references by 1 / rate.
    distances: Histogram<f64, 6>,
}

impl FixedSize {
    /// An empty sample of at most this many pages.
    pub fn new(most: u32) -> Self {
        Self {
            most: most as usize,
            threshold: None,
            by_hash: BinaryHeap::new(),
            numbers: HashMap::new(),
            places: Vec::new(),
            free: Vec::new(),
            // A page is in before another goes.
            stack: Lru::new(most + 1),
            whole: 0,
            weight: 0.0,
            distances: Histogram::default(),
        }
    }

    /// Samples all that a reader reads. `progress` is told how many references are done; `false` stops there.
    ///
    /// # Errors
    /// What is wrong with the trace called `name`.
    pub fn read(
        &mut self,
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let wrong = |message| Error::new(name, message);
        let paging = Paging::of(reader, page_size).map_err(wrong)?;
        let mut names = Names::default();
        let mut requests = 0_u64;
        while let Some(request) = reader.next(&mut names)? {
            let object = request.object;
            for block in paging.checked_pages(&request).map_err(wrong)? {
                self.reference(Place { object, block });
            }
            requests += 1;
            if requests.is_multiple_of(STRIDE) && !progress(self.whole) {
                break;
            }
        }
        Ok(())
    }

    /// The page at this place is referenced.
    pub fn reference(&mut self, place: Place) {
        self.whole += 1;
        let hash = hash(place, 0);
        if self.threshold.is_some_and(|threshold| hash >= threshold) {
            return;
        }
        let weight = 1.0 / self.rate();
        self.weight += weight;
        let page = match self.numbers.get(&place) {
            Some(&page) => page,
            None => self.add(place, hash),
        };
        let distance = self.stack.reference(page);
        if distance > 0 {
            let scaled = (f64::from(distance) * weight).round().min(f64::from(u32::MAX)) as u32;
            *self.distances.at(scaled.into()) += weight;
        }
        if self.by_hash.len() > self.most {
            self.lower_the_threshold();
        }
    }

    fn add(&mut self, place: Place, hash: u64) -> u32 {
        let page = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(page as usize) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        self.numbers.insert(place, page);
        self.by_hash.push((hash, page));
        page
    }

    fn lower_the_threshold(&mut self) {
        let greatest = self.by_hash.peek().map(|&(hash, _)| hash);
        while self.by_hash.peek().map(|&(hash, _)| hash) == greatest
            && let Some((_, page)) = self.by_hash.pop()
        {
            self.numbers.remove(&self.places[page as usize]);
            self.stack.remove(page);
            self.free.push(page);
        }
        self.threshold = greatest;
    }

    /// The share of the pages in the sample now.
    pub fn rate(&self) -> f64 {
        self.threshold.map_or(1.0, |threshold| threshold as f64 / 2f64.powi(64))
    }

    /// How many references there were.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// How many pages the sample has now.
    pub fn sampled_pages(&self) -> u32 {
        self.by_hash.len() as u32
    }

    /// About how many distinct pages there were.
    pub fn pages(&self) -> u32 {
        (f64::from(self.sampled_pages()) / self.rate()).round() as u32
    }

    /// The curve, with the adjustment of SHARDS_adj.
    pub fn curve(&self) -> Curve {
        let mut hits = self.whole as f64 - self.weight;
        let steps = self.distances.iter().filter(|&(_, _, &weight)| weight > 0.0).map(|(least, _, &weight)| {
            hits += weight;
            ((least as u32).max(1), hits)
        });
        Curve::through(self.whole as f64, steps.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Distances;
    use crate::input::sample::mix;

    fn places(count: u64, pages: u64) -> impl Iterator<Item = Place> {
        // The product of two even draws: some pages are used more often than others.
        let draw = move |time: u64| (mix(2 * time) % pages) * (mix(2 * time + 1) % pages) / pages;
        (0..count).map(move |time| Place { object: 0, block: draw(time) })
    }

    #[test]
    fn a_sample_with_room_for_all_pages_gives_the_exact_curve() {
        let mut sample = FixedSize::new(100);
        places(3000, 100).for_each(|place| sample.reference(place));
        let references: Vec<u32> = places(3000, 100).map(|place| place.block as u32).collect();
        let exact = Distances::count(&mut Lru::new(100), &references, 100, &|_| true).unwrap();
        let sizes: Vec<u32> = (1..=100).collect();
        assert_eq!(sample.rate(), 1.0);
        assert_eq!(Curve::exact(&exact).mean_absolute_error(&sample.curve(), &sizes), 0.0);
    }

    #[test]
    fn the_sample_is_bounded_and_holds_the_pages_with_the_least_hashes() {
        let mut sample = FixedSize::new(50);
        for place in places(20_000, 4000) {
            sample.reference(place);
            assert!(sample.sampled_pages() <= 50);
        }
        let used: std::collections::BTreeSet<u64> = places(20_000, 4000).map(|place| hash(place, 0)).collect();
        let mut kept: Vec<u64> = sample.by_hash.iter().map(|&(hash, _)| hash).collect();
        kept.sort_unstable();
        assert_eq!(kept, used.iter().copied().take(50).collect::<Vec<_>>());
        assert_eq!(sample.threshold, used.iter().copied().nth(50));
        assert!(sample.places.len() <= 51 && sample.numbers.len() == 50);
    }

    #[test]
    fn a_smaller_sample_comes_near_the_exact_curve() {
        let mut sample = FixedSize::new(2000);
        places(400_000, 20_000).for_each(|place| sample.reference(place));
        let references: Vec<u32> = places(400_000, 20_000).map(|place| place.block as u32).collect();
        let exact = Distances::count(&mut Lru::new(20_000), &references, 20_000, &|_| true).unwrap();
        let sizes: Vec<u32> = (1..=40).map(|size| size * 500).collect();
        assert!(sample.rate() < 0.2);
        let error = Curve::exact(&exact).mean_absolute_error(&sample.curve(), &sizes);
        assert!(error < 0.01, "{error}");
    }
}
