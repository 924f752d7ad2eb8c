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
pub(super) struct Field<'a> {
    /// In pages, rising.
    pub(super) sizes: &'a [u32],
    pub(super) footprint: u32,
    pub(super) rows: Vec<Row>,
    /// What it costs without a cache, and with a cache of everything.
    pub(super) ends: (f64, f64),
    /// Costs that differ by less are equal for the purpose.
    pub(super) noise: Noise,
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
    /// Whether more memory gains clearly less than it did up to here.
    pub(super) knee: bool,
}

/// What sums of doubles may be off by.
const ROUNDING: f64 = 1e-9;
/// A bend less than this is none: the gain keeps step with the memory.
const BEND: f64 = 0.05;

impl Field<'_> {
    /// None if no policy can be run.
    pub(super) fn choose(&self) -> Option<Choice> {
        let least: Vec<f64> = (0..self.sizes.len()).map(|column| self.least(column)).collect::<Option<_>>()?;
        let (column, knee) = self.size(&least)?;
        let as_good = |row: &usize, cost: f64| self.noise.covers(self.cost(*row, column), cost);
        let simple = |row: &usize| simplicity(&self.rows[*row].policy);
        let row = self.on_line().filter(|row| as_good(row, least[column])).min_by_key(simple)?;
        let (mut tied, others): (Vec<usize>, Vec<usize>) =
            self.on_line().filter(|&other| other != row).partition(|other| as_good(other, self.cost(row, column)));
        tied.sort_by_key(simple);
        let runner_up =
            others.into_iter().min_by(|&one, &other| self.cost(one, column).total_cmp(&self.cost(other, column)));
        Some(Choice { column, row, tied, runner_up, knee })
    }

    /// The least cost at a size of the policies that can be run.
    pub(super) fn least(&self, column: usize) -> Option<f64> {
        self.on_line().map(|row| self.cost(row, column)).min_by(f64::total_cmp)
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

    /// The size where the curve is farthest above the straight line from no cache to a cache of everything. Where it is nowhere above: the
    /// smallest one with the least cost. The line is the same whichever sizes were asked.
    fn size(&self, least: &[f64]) -> Option<(usize, bool)> {
        let (without, with_all) = self.ends;
        let gain = |cost: f64| if without > with_all { (without - cost) / (without - with_all) } else { 0.0 };
        let bend = |column: usize| gain(least[column]) - f64::from(self.sizes[column]) / f64::from(self.footprint);
        // `max_by` takes the last of equals: the smallest size is to be taken.
        let knee = (0..least.len()).rev().max_by(|&one, &other| bend(one).total_cmp(&bend(other)))?;
        if bend(knee) > BEND {
            return Some((knee, true));
        }
        let lowest = least.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least.iter().position(|&cost| self.noise.covers(cost, lowest))?, false))
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

    fn field<'a>(sizes: &'a [u32], rows: &[(&str, &[f64])]) -> Field<'a> {
        let row = |&(policy, costs): &(&str, &[f64])| Row {
            policy: policy.to_owned(),
            off_line: policy == "opt",
            costs: costs.to_vec(),
        };
        let rows = rows.iter().map(row).collect();
        Field { sizes, footprint: 100, rows, ends: (100.0, 0.0), noise: Noise::Difference(0.1) }
    }

    #[test]
    fn the_best_policy_of_the_knee_wins_whatever_it_is_elsewhere() {
        // s3-fifo is by far the best over all sizes, lru at the knee; opt cannot be run.
        let rows: [(&str, &[f64]); 3] =
            [("s3-fifo", &[50.0, 22.0, 10.0]), ("lru", &[90.0, 20.0, 19.0]), ("opt", &[1.0, 1.0, 1.0])];
        let field = field(&[5, 20, 80], &rows);
        let choice = field.choose().unwrap();
        assert_eq!((choice.column, choice.row, choice.runner_up, choice.knee), (1, 1, Some(0), true));
        assert!(choice.tied.is_empty());
    }

    #[test]
    fn a_size_asked_besides_does_not_move_the_knee() {
        let costs = [70.0, 30.0, 28.0, 27.0, 0.0];
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
        assert_eq!((choice.column, choice.knee), (2, false));
        assert!(field(&[10], &[("opt", &[1.0])]).choose().is_none());
    }
}
