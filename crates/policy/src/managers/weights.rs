//! LRU with relative weights: a page's age, the references since its last use, counts for as much less as its file weighs
//! more; the page with the largest age by weight goes first. (The paper names this manager and leaves its rule open.)
//!
//! Within one weight the order is LRU's, so only the oldest page of each weight is compared.

use super::ranking::Ranking;
use super::{About, Begin, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "weights",
    gives_up: "the page with the largest age by weight of its file",
    needs: r#"`weights = [["*.h", 4], ["*.o", 0.5]]`; other files weigh 1"#,
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: None,
    off_line: false,
};

/// The most distinct weights.
pub const MOST_WEIGHTS: usize = 16;
/// The bits of a rank below the index of its weight: the time of last use, backwards.
const TIME_BITS: u32 = 60;
const LATEST: u64 = (1 << TIME_BITS) - 1;

/// What files weigh.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Distinct, the first for files not named.
    weights: Vec<f64>,
    /// By object: the index of its weight.
    of: Vec<u8>,
}

impl Weights {
    /// Files with their weights; those not named weigh 1.
    ///
    /// # Errors
    /// A sentence, if a weight is no positive number or there are more than [`MOST_WEIGHTS`] distinct ones.
    pub fn new(files: &[(u32, f64)]) -> Result<Self, String> {
        let mut made =
            Self { weights: vec![1.0], of: vec![0; files.iter().map(|file| file.0 as usize + 1).max().unwrap_or(0)] };
        for &(file, weight) in files {
            if !(weight.is_finite() && weight > 0.0) {
                return Err(format!("a weight is a positive number, not {weight}"));
            }
            let known = made.weights.iter().position(|&other| other == weight);
            made.of[file as usize] = known.unwrap_or(made.weights.len()) as u8;
            if known.is_none() {
                made.weights.push(weight);
            }
            if made.weights.len() > MOST_WEIGHTS {
                return Err(format!("there are more than {MOST_WEIGHTS} distinct weights, 1 among them"));
            }
        }
        Ok(made)
    }

    /// A file that has come to be known weighs this, which is among the weights given at the start, or 1.
    pub(super) fn set(&mut self, object: u32, weight: f64) {
        if object as usize >= self.of.len() {
            self.of.resize(object as usize + 1, 0);
        }
        self.of[object as usize] = self.weights.iter().position(|&other| other == weight).unwrap_or(0) as u8;
    }

    /// Only the weights that files may have; [`set`](Self::set) says which file has which.
    pub(super) fn growing(weights: impl Iterator<Item = f64>) -> Result<Self, String> {
        let files: Vec<(u32, f64)> = weights.map(|weight| (0, weight)).collect();
        Ok(Self { of: Vec::new(), ..Self::new(&files)? })
    }

    /// The page's weight, and within it LRU.
    fn rank(&self, object: u32, now: u64) -> u64 {
        let weight = self.of.get(object as usize).copied().unwrap_or(0);
        u64::from(weight) << TIME_BITS | (LATEST - now)
    }

    /// The pages by falling age by weight.
    pub(super) fn order<'a>(&'a self, ranking: &'a Ranking, root: u32, now: u64) -> impl Iterator<Item = u32> + 'a {
        let oldest_below = move |index: usize, most: u64| {
            let least = (index as u64) << TIME_BITS;
            ranking.down_from(root, most).next().filter(|&page| ranking.rank(page) >= least)
        };
        let mut oldest = [None; MOST_WEIGHTS];
        for (index, oldest) in oldest.iter_mut().enumerate().take(self.weights.len()) {
            *oldest = oldest_below(index, (index as u64) << TIME_BITS | LATEST);
        }
        std::iter::from_fn(move || {
            let age = |page: u32| (now - (LATEST - (ranking.rank(page) & LATEST))) as f64;
            let by_weight = |index: usize| oldest[index].map(|page| (index, page, age(page) / self.weights[index]));
            let (index, page, _) =
                (0..self.weights.len()).filter_map(by_weight).max_by(|one, other| one.2.total_cmp(&other.2))?;
            oldest[index] = ranking.rank(page).checked_sub(1).and_then(|most| oldest_below(index, most));
            Some(page)
        })
    }
}

/// How soon a page goes that is used now, among those of its weight.
pub(super) fn rank(weights: &Weights, used: &mut Use) -> u64 {
    weights.rank(used.place.object, used.now)
}
