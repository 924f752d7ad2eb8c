//! Which policy to take, and how large: the knee of the best policies' curve, and the best policy there.

use forebay_policy::registry::POLICIES;

/// A policy over the sizes.
pub(super) struct Row {
    /// As the user named it.
    pub(super) policy: String,
    pub(super) off_line: bool,
    /// What its misses cost at each size, in any unit.
    pub(super) costs: Vec<f64>,
}

/// Policies × sizes, of which one each is to be chosen.
pub(super) struct Field {
    /// In pages, rising.
    pub(super) sizes: Vec<u32>,
    /// How many of them were asked: the first ones.
    pub(super) asked: usize,
    /// Whether the user has named them.
    pub(super) named: bool,
    pub(super) footprint: u32,
    pub(super) rows: Vec<Row>,
    /// What it costs without a cache, and with a cache of everything.
    pub(super) ends: (f64, f64),
    /// Costs that differ by less are equal for the purpose.
    pub(super) noise: Noise,
    /// What costs of one policy may differ by at each size if the references are drawn by chance.
    pub(super) chance: Vec<f64>,
}

#[derive(Clone, Copy)]
pub(super) enum Noise {
    Difference(f64),
    Share(f64),
}

impl Noise {
    pub(super) fn covers(self, one: f64, other: f64) -> bool {
        let bound = match self {
            Self::Difference(bound) => bound,
            Self::Share(share) => share * other,
        };
        (one - other).abs() <= bound + ROUNDING
    }

    pub(super) fn in_words(self) -> String {
        match self {
            Self::Difference(points) => format!("{points:.1} points"),
            Self::Share(share) => format!("{} %", 100.0 * share),
        }
    }
}

/// What to take.
pub(super) struct Choice {
    pub(super) column: usize,
    /// The simplest of those that are as good as the best at that size but for noise.
    pub(super) row: usize,
    /// The others that are as good as it, the simplest first.
    pub(super) tied: Vec<usize>,
    /// The best of the others that can be run.
    pub(super) runner_up: Option<usize>,
    pub(super) reason: Reason,
    /// A larger size that saves much, but less than this one.
    pub(super) cliff: Option<usize>,
    /// Whether all policies cost the same but for chance, and no size more for its memory.
    pub(super) no_locality: bool,
}

/// Why a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// More memory gains clearly less than it did up to here.
    Knee,
    /// Behind the knee the gain goes on as fast, or comes all at once here.
    Cliff,
    /// The gain keeps step with the memory.
    Step,
}

/// What sums of doubles may be off by.
const ROUNDING: f64 = 1e-9;
/// A bend less than this is none: the gain keeps step with the memory.
const BEND: f64 = 0.05;
/// Sizes between this share of the pages and all but this share tell whether references have locality.
const TELLING: f64 = 0.05;
/// A cliff is worth a word if it saves so much of all that can be saved, and its memory if it saves as much as the knee.
const CLIFF: f64 = 0.2;

impl Field {
    /// None if no policy can be run.
    pub(super) fn choose(&self) -> Option<Choice> {
        let least: Vec<f64> = (0..self.sizes.len()).map(|column| self.least(column)).collect::<Option<_>>()?;
        let (column, reason) = self.size(&least)?;
        let cliff = self.cliff(&least, column).filter(|_| reason == Reason::Knee);
        // A larger size that saves nothing but noise is none.
        let as_good_as = |size: usize, from: usize| (from..size).find(|&at| self.noise.covers(least[at], least[size]));
        let cliff = cliff.map(|cliff| as_good_as(cliff, column + 1).unwrap_or(cliff));
        let column = as_good_as(column, 0).unwrap_or(column);
        let no_locality = self.is_without_locality(&least);
        let as_good = |row: &usize, cost: f64| no_locality || self.noise.covers(self.cost(*row, column), cost);
        let simple = |row: &usize| simplicity(&self.rows[*row].policy);
        let row = self.on_line().filter(|row| as_good(row, least[column])).min_by_key(simple)?;
        let (mut tied, others): (Vec<usize>, Vec<usize>) =
            self.on_line().filter(|&other| other != row).partition(|other| as_good(other, self.cost(row, column)));
        tied.sort_by_key(simple);
        let runner_up =
            others.into_iter().min_by(|&one, &other| self.cost(one, column).total_cmp(&self.cost(other, column)));
        Some(Choice { column, row, tied, runner_up, reason, cliff, no_locality })
    }

    /// The field with the size of the footprint, which misses first uses alone under every policy; for costs that are known there.
    pub(super) fn with_footprint(mut self) -> Self {
        if self.sizes.last() < Some(&self.footprint) {
            self.sizes.push(self.footprint);
            self.chance.push(0.0);
            self.rows.iter_mut().for_each(|row| row.costs.push(self.ends.1));
        }
        self
    }

    /// The field with the sizes alone that were asked.
    pub(super) fn of_those_asked(&self) -> Self {
        let row = |row: &Row| Row {
            policy: row.policy.clone(),
            off_line: row.off_line,
            costs: row.costs[..self.asked].to_vec(),
        };
        Self {
            sizes: self.sizes[..self.asked].to_vec(),
            asked: self.asked,
            named: self.named,
            footprint: self.footprint,
            rows: self.rows.iter().map(row).collect(),
            ends: self.ends,
            noise: self.noise,
            chance: self.chance[..self.asked].to_vec(),
        }
    }

    /// The field without what exceeds the footprint: the first size beyond it does what the footprint does.
    pub(super) fn up_to_footprint(mut self) -> Self {
        let within = self.sizes.partition_point(|&size| size < self.footprint);
        if let Some(first) = self.sizes.get_mut(within) {
            *first = self.footprint;
        }
        self.sizes.truncate(within + 1);
        self.asked = self.sizes.len();
        self.chance.truncate(within + 1);
        self.rows.iter_mut().for_each(|row| row.costs.truncate(within + 1));
        self
    }

    /// The least cost at a size of the policies that can be run.
    pub(super) fn least(&self, column: usize) -> Option<f64> {
        self.on_line().map(|row| self.cost(row, column)).min_by(f64::total_cmp)
    }

    /// Who costs least at a size, of the policies that can be run; the first one among equals.
    pub(super) fn best(&self, column: usize) -> Option<usize> {
        self.on_line().min_by(|&one, &other| self.cost(one, column).total_cmp(&self.cost(other, column)))
    }

    pub(super) fn cost(&self, row: usize, column: usize) -> f64 {
        self.rows[row].costs[column]
    }

    pub(super) fn row(&self, policy: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.policy == policy)
    }

    pub(super) fn on_line(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().enumerate().filter(|(_, row)| !row.off_line).map(|(index, _)| index)
    }

    /// The size where the curve is farthest above the straight line from no cache to a cache of everything, or the cliff behind it.
    /// Where it is nowhere above: the smallest one with the least cost. The line is the same whichever sizes were asked.
    fn size(&self, least: &[f64]) -> Option<(usize, Reason)> {
        let bend = |column: &usize| self.bend(least, *column);
        // `max_by` takes the last of equals: the smallest size is to be taken.
        let knee = (0..least.len()).rev().max_by(|one, other| bend(one).total_cmp(&bend(other)))?;
        if bend(&knee) > BEND {
            let worth = |cliff: &usize| self.gain(least[*cliff]) >= 2.0 * self.gain(least[knee]);
            let cliff = self.cliff(least, knee).filter(worth);
            return Some(cliff.map_or((knee, Reason::Knee), |cliff| (cliff, Reason::Cliff)));
        }
        let lowest = least.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least.iter().position(|&cost| self.noise.covers(cost, lowest))?, Reason::Step))
    }

    /// How far the curve is above the line at a size.
    fn bend(&self, least: &[f64], column: usize) -> f64 {
        self.gain(least[column]) - self.share(column)
    }

    fn gain(&self, cost: f64) -> f64 {
        let (without, with_all) = self.ends;
        if without > with_all { (without - cost) / (without - with_all) } else { 0.0 }
    }

    fn share(&self, column: usize) -> f64 {
        f64::from(self.sizes[column]) / f64::from(self.footprint)
    }

    /// The size behind the knee up to which memory gains much, and at no size between more for its memory. Where no size between is
    /// known nothing is known of it.
    fn cliff(&self, least: &[f64], knee: usize) -> Option<usize> {
        let last = least.len() - 1;
        let gain = |column: usize| self.gain(least[column]) - self.gain(least[knee]);
        // How far a size is above the line from the knee to another.
        let above = |column: usize, end: usize| {
            let way = (self.share(column) - self.share(knee)) / (self.share(end) - self.share(knee));
            gain(column) - way * gain(end)
        };
        let next = (knee + 1..last).max_by(|&one, &other| above(one, last).total_cmp(&above(other, last)))?;
        let cliff = if above(next, last) > BEND * gain(last) { next } else { last };
        let between = knee + 1..cliff;
        let straight = between.clone().all(|column| above(column, cliff) <= BEND * gain(cliff));
        (!between.is_empty() && straight && gain(cliff) >= CLIFF).then_some(cliff)
    }

    /// Each page is as likely as any other to be next: every policy gains what its share of the pages is. Where all gain less, as LRU and
    /// ARC do of a loop, another policy may gain more.
    fn is_without_locality(&self, least: &[f64]) -> bool {
        let policies = self.on_line().count() as f64;
        // The range of as many draws.
        let draws = 1.5 + 0.7 * policies.ln();
        let equal = |column: usize| {
            let most = self.on_line().map(|row| self.cost(row, column)).fold(0.0, f64::max);
            most - least[column] <= draws * self.chance[column] + ROUNDING
        };
        // A cache of everything says nothing, and one of next to nothing or next to everything little.
        let columns = 0..self.sizes.partition_point(|&size| size < self.footprint);
        let telling = |column: usize| (TELLING..=1.0 - TELLING).contains(&self.share(column));
        policies > 1.0
            && columns.clone().any(telling)
            && columns.into_iter().all(|column| self.bend(least, column).abs() <= BEND && equal(column))
    }
}

/// The less metadata a page, the simpler; among equals the order of the registry.
fn simplicity(policy: &str) -> (usize, usize) {
    let name = policy.split(':').next().unwrap_or_default();
    let place = POLICIES.iter().position(|info| info.name == name).unwrap_or(POLICIES.len());
    (POLICIES.get(place).map_or(usize::MAX, |info| info.bytes_per_page), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(sizes: &[u32], rows: &[(&str, &[f64])]) -> Field {
        let row = |&(policy, costs): &(&str, &[f64])| Row {
            policy: policy.to_owned(),
            off_line: policy == "opt",
            costs: costs.to_vec(),
        };
        let rows = rows.iter().map(row).collect();
        let (sizes, asked, chance) = (sizes.to_vec(), sizes.len(), vec![0.5; sizes.len()]);
        Field {
            sizes,
            asked,
            named: false,
            footprint: 100,
            rows,
            ends: (100.0, 0.0),
            noise: Noise::Difference(0.1),
            chance,
        }
    }

    #[test]
    fn the_best_policy_of_the_knee_wins_whatever_it_is_elsewhere() {
        // s3-fifo is by far the best over all sizes, lru at the knee; opt cannot be run.
        let rows: [(&str, &[f64]); 3] =
            [("s3-fifo", &[50.0, 22.0, 10.0]), ("lru", &[90.0, 20.0, 19.0]), ("opt", &[1.0, 1.0, 1.0])];
        let field = field(&[5, 20, 80], &rows);
        let choice = field.choose().unwrap();
        assert_eq!((choice.column, choice.row, choice.runner_up, choice.reason), (1, 1, Some(0), Reason::Knee));
        assert!(choice.tied.is_empty());
    }

    #[test]
    fn a_size_asked_besides_does_not_move_the_knee() {
        let costs = [70.0, 30.0, 16.0, 8.0, 4.0];
        for asked in [&[0, 1, 2][..], &[0, 1, 2, 3], &[1, 4], &[0, 1, 2, 3, 4]] {
            let sizes: Vec<u32> = asked.iter().map(|&index| [5, 20, 40, 60, 100][index]).collect();
            let costs: Vec<f64> = asked.iter().map(|&index| costs[index]).collect();
            let field = field(&sizes, &[("lru", &costs)]);
            assert_eq!(sizes[field.choose().unwrap().column], 20);
        }
    }

    #[test]
    fn among_equals_the_simplest_is_taken_and_the_runner_up_is_none_of_them() {
        let rows: [(&str, &[f64]); 4] = [("ubm", &[20.0]), ("arc:x", &[20.05]), ("lru", &[20.2]), ("sieve", &[20.04])];
        let choice = field(&[20], &rows).choose().unwrap();
        assert_eq!((choice.row, choice.tied, choice.runner_up), (3, vec![1, 0], Some(2)));
    }

    #[test]
    fn where_the_gain_keeps_step_with_the_memory_there_is_no_knee() {
        let choice = field(&[10, 50, 100, 200], &[("mru", &[90.0, 50.0, 0.0, 0.0])]).choose().unwrap();
        assert_eq!((choice.column, choice.reason), (2, Reason::Step));
        assert!(field(&[10], &[("opt", &[1.0])]).choose().is_none());
    }

    #[test]
    fn a_cliff_behind_the_knee_is_taken_where_sizes_between_show_that_it_is_one() {
        let taken = |sizes: &[u32], costs: &[f64]| {
            let field = field(sizes, &[("lru", costs)]).with_footprint();
            let choice = field.choose().unwrap();
            (field.sizes[choice.column], choice.reason)
        };
        // All at once at the end, or before it, or step by step.
        assert_eq!(taken(&[1, 20, 50], &[60.0, 60.0, 60.0]), (100, Reason::Cliff));
        assert_eq!(taken(&[1, 20, 59, 60], &[60.0, 60.0, 60.0, 1.0]), (60, Reason::Cliff));
        assert_eq!(taken(&[1, 20, 50], &[60.0, 48.0, 30.0]), (100, Reason::Cliff));
        // A size that was asked does but for noise what all pages do.
        assert_eq!(taken(&[1, 20, 50, 98], &[60.0, 60.0, 60.0, 0.05]), (98, Reason::Cliff));
        // One that saves less than the knee is named alone.
        let second = field(&[1, 20, 50], &[("lru", &[40.0, 40.0, 40.0])]).with_footprint().choose().unwrap();
        assert_eq!((second.column, second.reason, second.cliff), (0, Reason::Knee, Some(3)));
        // A smooth curve, a small fall, and one of which nothing is known.
        assert_eq!(taken(&[1, 20, 50], &[80.0, 30.0, 10.0]), (20, Reason::Knee));
        assert_eq!(taken(&[1, 20, 50], &[15.0, 15.0, 15.0]), (1, Reason::Knee));
        assert_eq!(taken(&[20], &[50.0]), (20, Reason::Knee));
    }

    #[test]
    fn no_size_beyond_the_footprint_is_taken() {
        let field = field(&[200, 400], &[("lru", &[0.0, 0.0])]).up_to_footprint();
        assert_eq!((field.sizes.as_slice(), field.choose().unwrap().column), (&[100][..], 0));
    }

    #[test]
    fn policies_that_differ_by_chance_alone_are_told_from_those_that_know_something() {
        let no_locality =
            |mru: &[f64], lru: &[f64]| field(&[10, 50], &[("mru", mru), ("lru", lru)]).choose().unwrap().no_locality;
        assert!(no_locality(&[89.6, 49.7], &[90.3, 50.5]));
        assert!(!no_locality(&[90.0, 50.0], &[100.0, 100.0]), "a loop");
        assert!(!no_locality(&[100.0, 99.9], &[100.0, 100.0]), "a loop that both policies are bad at");
        assert!(!no_locality(&[60.0, 10.0], &[60.3, 10.3]), "skew");
    }
}
