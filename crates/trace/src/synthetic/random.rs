//! Random numbers that are the same on every machine and in every release.
//!
//! The generator is xoshiro256++ (D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number Generators", TOMS
//! 2021), seeded through SplitMix64 as its authors advise. What is made of its bits is made here and with `libm`'s
//! logarithms, not by a library of distributions or the system's mathematics: those may change the numbers that a seed
//! gives, and then a figure would no longer belong to its spec.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The stream as it stands, while `self` goes on 2^128 numbers later: streams split off do not overlap.
    pub(super) fn split(&mut self) -> Self {
        let stream = self.clone();
        self.0.jump();
        stream
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform below `bound`, which is not 0: D. Lemire, "Fast Random Integer Generation in an Interval", TOMACS 2019.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }
}

/// Ranks drawn with probability proportional to rank^-alpha.
///
/// W. Hörmann and G. Derflinger, "Rejection-Inversion to Generate Variates from Monotone Discrete Distributions",
/// TOMACS 1996: exact for any number of ranks, in constant time and memory. The letters are the paper's.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    alpha: f64,
    /// H(1.5) - h(1) and H(ranks + 0.5): the area is drawn between them.
    first: f64,
    last: f64,
    /// Within so much below its rank a point need not be tested.
    s: f64,
}

impl Zipf {
    pub(super) fn new(ranks: u64, alpha: f64) -> Self {
        let mut zipf = Self { ranks: ranks as f64, alpha, first: 0.0, last: 0.0, s: 0.0 };
        zipf.first = zipf.area(1.5) - 1.0;
        zipf.last = zipf.area(zipf.ranks + 0.5);
        zipf.s = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A rank, the first being 0.
    pub(super) fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = self.area_inverse(u);
            let rank = libm::floor(x + 0.5).clamp(1.0, self.ranks);
            if rank - x <= self.s || u >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    /// h(x) = x^-alpha
    fn height(&self, x: f64) -> f64 {
        libm::exp(-self.alpha * libm::log(x))
    }

    /// H(x) = (x^(1 - alpha) - 1) / (1 - alpha), or ln x for alpha 1, and exact close to 1.
    fn area(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.alpha) * log;
        log * if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t / 2.0 }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        // Below -1 only by rounding.
        let t = (area * (1.0 - self.alpha)).max(-1.0);
        libm::exp(area * if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t / 2.0 })
    }
}

/// A permutation of the pages without a table: it scatters the ranks over them.
///
/// Bits are mixed by steps that can be undone, on as many bits as the pages need; a number beyond the pages is mixed
/// again until it is a page. Less than half of the numbers are beyond.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    pages: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Scatter {
    pub(super) fn new(pages: u64, random: &mut Random) -> Self {
        let bits = (64 - (pages - 1).leading_zeros()).max(1);
        Self { pages, mask: u64::MAX >> (64 - bits), shift: (bits / 2).max(1), key: random.0.next_u64() }
    }

    pub(super) fn page(&self, rank: u64) -> u64 {
        let mut x = rank;
        loop {
            // Odd factors, from the fractions of the golden ratio and of the square root of 3.
            for factor in [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x9e37_79b9_7f4a_7c15] {
                x = x.wrapping_add(self.key).wrapping_mul(factor) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.pages {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus_seeded_by_split_mix() {
        // The first numbers of SplitMix64 from 0, by its authors' reference code, are the words of the state.
        let seeded = Xoshiro256PlusPlus::seed_from_u64(0);
        let words = [0xe220_a839_7b1d_cdaf_u64, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ec];
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        assert_eq!(seeded, Xoshiro256PlusPlus::from_seed(seed));
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 6];
        for _ in 0..600_000 {
            counts[random.below(6) as usize] += 1;
        }
        // The standard deviation is 289.
        assert!(counts.iter().all(|count| count.abs_diff(100_000) < 1500), "{counts:?}");
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn ranks_come_as_often_as_zipfs_law_says() {
        for alpha in [0.0, 0.5, 0.99, 1.0, 1.0 + 1e-12, 1.2, 3.0] {
            const RANKS: usize = 20;
            const DRAWN: u32 = 1_000_000;
            let (zipf, mut random) = (Zipf::new(RANKS as u64, alpha), Random::new(1));
            let mut counts = [0u32; RANKS];
            for _ in 0..DRAWN {
                counts[zipf.sample(&mut random) as usize] += 1;
            }
            let whole: f64 = (1..=RANKS).map(|rank| (rank as f64).powf(-alpha)).sum();
            for (rank, count) in (1..).zip(counts) {
                let share = f64::from(rank).powf(-alpha) / whole;
                let expected = share * f64::from(DRAWN);
                let deviation = (expected * (1.0 - share)).sqrt();
                assert!(
                    (f64::from(count) - expected).abs() < 5.0 * deviation,
                    "{alpha} {rank}: {count} for {expected}"
                );
            }
        }
    }

    #[test]
    fn a_trillion_ranks_are_drawn_within_their_bounds() {
        let mut random = Random::new(3);
        for alpha in [0.0, 0.8, 1.0, 10.0] {
            let zipf = Zipf::new(1 << 40, alpha);
            assert!((0..10_000).all(|_| zipf.sample(&mut random) < 1 << 40));
        }
        let zipf = Zipf::new(1, 1.0);
        assert!((0..100).all(|_| zipf.sample(&mut random) == 0));
    }

    #[test]
    fn scattering_keeps_every_page_once() {
        for pages in [1, 2, 3, 5, 64, 65, 1000] {
            let scatter = Scatter::new(pages, &mut Random::new(pages));
            let mut seen: Vec<u64> = (0..pages).map(|rank| scatter.page(rank)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..pages), "{pages}");
        }
    }

    #[test]
    fn scattering_parts_neighbours() {
        let scatter = Scatter::new(1_000_000, &mut Random::new(1));
        let near = (0..1000).filter(|&rank| scatter.page(rank).abs_diff(scatter.page(rank + 1)) < 1000).count();
        // Of random pages 2 in 1000 are that near.
        assert!(near < 15, "{near}");
    }
}
