//! The managers of LRU-SP: who decides which of an owner's pages is given up.
//!
//! A manager is a rule that gives each page a rank when it is used: how soon it goes, the highest first. Each group of pages
//! under one manager is kept in the order of ranks (`ranking.rs`), so that a choice, and each further one when a victim is
//! refused, takes logarithmic time. Managers of known orders (sequential, file-specific, filter) begin at their position in
//! the order and go down, then wrap: what was just read is needed last, what is ahead is needed first.
//!
//! The rule of the paper's section 4.1 holds for all: where no page is needed later than the candidate, the candidate goes.
//!
//! What there is to say of each stands in its file, as `ABOUT`; [`MANAGERS`] lists them, and `docs/managers.md` shows them.

mod access_once;
mod file;
mod file_order;
mod filter;
mod foolish;
mod free_lists;
pub(crate) mod groups;
mod lru;
mod lru_k;
mod mru;
mod ranking;
mod rmin;
mod rule;
mod same_order;
mod sequential;
mod users;
mod weights;

pub use file::{Rules, RulesError};
pub use file_order::FileOrder;
pub use filter::Filter;
pub use lru_k::MOST_USES;
pub use rule::Rule;
pub use weights::{MOST_WEIGHTS, Weights};

use crate::policy::Place;

/// Who decides which of the pages in its charge is given up.
#[derive(Clone, Debug, PartialEq)]
pub enum Manager {
    /// Never overrules: global LRU's candidate goes.
    Lru,
    /// The most recently used page goes.
    Mru,
    /// Files are read from beginning to end.
    Sequential,
    /// Files are read in a known order of their parts.
    FileOrder(FileOrder),
    /// Files are read one after the other in a known order.
    Filter(Filter),
    /// Files are read again and again in the same order.
    SameOrder,
    /// Nothing is read twice.
    AccessOnce,
    /// LRU, ages counted by the weight of the file.
    Weights(Weights),
    /// The K-th last use decides; K is 1 to [`MOST_USES`].
    LruK(usize),
    /// The farthest next use goes (off-line).
    Rmin,
    /// The nearest next use goes (off-line).
    Foolish,
}

/// The names of those that can do without further keys.
pub(crate) static PLAIN: [&str; 8] = {
    let mut names = [""; 8];
    let (mut index, mut found) = (0, 0);
    while index < MANAGERS.len() {
        if MANAGERS[index].plain.is_some() {
            names[found] = MANAGERS[index].name;
            found += 1;
        }
        index += 1;
    }
    assert!(found == names.len());
    names
};

/// What is known of a manager.
#[derive(Debug)]
pub struct About {
    /// Its name in rules and parameters.
    pub name: &'static str,
    /// Which page it gives up first.
    pub gives_up: &'static str,
    /// The keys of a rule that it needs, with an example; empty if it needs none.
    pub needs: &'static str,
    scope: Scope,
    /// The manager itself, if it can do without these keys.
    plain: Option<Manager>,
    off_line: bool,
}

/// Every manager, in the order in which they are listed.
pub static MANAGERS: [&About; 11] = [
    &lru::ABOUT,
    &mru::ABOUT,
    &same_order::ABOUT,
    &access_once::ABOUT,
    &sequential::ABOUT,
    &file_order::ABOUT,
    &filter::ABOUT,
    &weights::ABOUT,
    &lru_k::ABOUT,
    &rmin::ABOUT,
    &foolish::ABOUT,
];

/// What a rule with a list of files lists a file as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Listed {
    /// Its weight.
    Weight(f64),
    /// Its place in the order.
    Position(u32),
}

/// Within which pages a manager chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Those of the candidate's owner.
    Owner,
    /// Those of the candidate's file.
    File,
}

/// A use of a page, as its manager sees it.
struct Use<'a> {
    place: Place,
    /// The number of this reference, from 1.
    now: u64,
    /// When the page is used next.
    next: u32,
    /// The times of its uses before, the latest first, 0 for none.
    earlier: &'a mut [u64],
}

impl Manager {
    /// What is known of it.
    fn about(&self) -> &'static About {
        match self {
            Self::Lru => &lru::ABOUT,
            Self::Mru => &mru::ABOUT,
            Self::Sequential => &sequential::ABOUT,
            Self::FileOrder(_) => &file_order::ABOUT,
            Self::Filter(_) => &filter::ABOUT,
            Self::SameOrder => &same_order::ABOUT,
            Self::AccessOnce => &access_once::ABOUT,
            Self::Weights(_) => &weights::ABOUT,
            Self::LruK(_) => &lru_k::ABOUT,
            Self::Rmin => &rmin::ABOUT,
            Self::Foolish => &foolish::ABOUT,
        }
    }

    /// The manager of that name, if it needs no further word; `lru-k` is LRU-2.
    pub fn plain(name: &str) -> Option<Self> {
        MANAGERS.iter().find(|about| about.name == name).and_then(|about| about.plain.clone())
    }

    /// Whether it must know the references to come.
    pub fn needs_future(&self) -> bool {
        self.about().off_line
    }

    /// Takes note of what its rule lists a file as, while the cache runs.
    fn list(&mut self, object: u32, listed: Option<Listed>) {
        match (self, listed) {
            (Self::Weights(weights), Some(Listed::Weight(weight))) => weights.set(object, weight),
            (Self::Weights(weights), _) => weights.set(object, 1.0),
            (Self::Filter(filter), Some(Listed::Position(position))) => filter.set(object, position),
            (Self::Filter(filter), _) => filter.set(object, filter::UNLISTED),
            _ => {}
        }
    }

    fn scope(&self) -> Scope {
        self.about().scope
    }

    /// How many uses before the present one it wants to know.
    fn earlier_uses(&self) -> usize {
        match self {
            Self::LruK(k) => k - 1,
            _ => 0,
        }
    }

    /// How soon the page goes: the highest rank first.
    fn rank(&self, used: &mut Use) -> u64 {
        match self {
            Self::Lru => unreachable!("nobody manages what is LRU's"),
            Self::Mru => mru::rank(used.now),
            Self::Sequential => sequential::rank(used.place.block),
            Self::FileOrder(order) => order.rank(used.place.block),
            Self::Filter(filter) => filter.rank(used.place),
            Self::SameOrder => same_order::rank(used.now),
            Self::AccessOnce => access_once::rank(used.now),
            Self::Weights(weights) => weights.rank(used.place.object, used.now),
            Self::LruK(k) => lru_k::rank(used.now, &mut used.earlier[..k - 1]),
            Self::Rmin => rmin::rank(used.next),
            Self::Foolish => foolish::rank(used.next),
        }
    }

    /// The highest rank of those that go first, given the rank of the page used last; above it are those that go after them.
    fn begin(&self, last: u64) -> u64 {
        match self {
            Self::Sequential | Self::FileOrder(_) | Self::Filter(_) => last,
            Self::AccessOnce => access_once::begin(last),
            _ => u64::MAX,
        }
    }
}

/// Which manager is in charge of which owners and files: up to 64 rules, of which the first that fits holds.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    default: Option<Manager>,
    managers: Vec<Manager>,
    /// A bit for each rule that fits the owner, by number; behind the last one, as in `any_owner`.
    owners: Vec<u64>,
    any_owner: u64,
    /// The same for files.
    objects: Vec<u64>,
    any_object: u64,
}

impl Assignment {
    /// The most rules.
    pub const MOST_RULES: usize = 64;

    /// No rules; where none fits, `default` is every owner's manager, and without one it is the policy's own `manager`.
    pub fn new(default: Option<Manager>) -> Self {
        Self { default, ..Self::default() }
    }

    /// Adds a rule: `manager` is in charge where these owners use these files; `None` is all of them. An owner's pages have
    /// their own instance of the manager.
    ///
    /// # Panics
    /// If there are [`MOST_RULES`](Self::MOST_RULES) rules already, or the manager is an LRU-K with a K out of bounds.
    pub fn add(&mut self, manager: Manager, owners: Option<&[u32]>, objects: Option<&[u32]>) {
        assert!(self.managers.len() < Self::MOST_RULES, "an assignment has at most 64 rules");
        assert!(!matches!(manager, Manager::LruK(k) if !(1..=MOST_USES).contains(&k)), "LRU-K has a K from 1 to 8");
        let bit = 1 << self.managers.len();
        self.managers.push(manager);
        mark(&mut self.owners, &mut self.any_owner, bit, owners);
        mark(&mut self.objects, &mut self.any_object, bit, objects);
    }

    /// Whether a manager must know the references to come.
    pub fn needs_future(&self) -> bool {
        self.default.iter().chain(&self.managers).any(Manager::needs_future)
    }

    /// The first rule that fits.
    fn rule(&self, owner: u32, object: u32) -> Option<u32> {
        let of = |marks: &[u64], any, number: u32| marks.get(number as usize).copied().unwrap_or(any);
        let fit = of(&self.owners, self.any_owner, owner) & of(&self.objects, self.any_object, object);
        (fit != 0).then(|| fit.trailing_zeros())
    }
}

fn mark(marks: &mut Vec<u64>, any: &mut u64, bit: u64, numbers: Option<&[u32]>) {
    match numbers {
        None => {
            *any |= bit;
            marks.iter_mut().for_each(|marks| *marks |= bit);
        }
        Some(numbers) => {
            let most = numbers.iter().max().map_or(0, |&most| most as usize + 1);
            marks.resize(most.max(marks.len()), *any);
            numbers.iter().for_each(|&number| marks[number as usize] |= bit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_manager_in_these_words() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/managers.md");
        let page = std::fs::read_to_string(path).expect("docs/managers.md");
        let (_, table) = page.split_once("| name | drops first | needs |\n| --- | --- | --- |\n").expect("the table");
        let (table, _) = table.split_once("\n\n").expect("the table ends");
        let row = |about: &&About| {
            format!("| `{}` | {} | {} |", about.name, about.gives_up, about.needs).replace("|  |", "| |")
        };
        assert_eq!(table, MANAGERS.iter().map(row).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn the_first_rule_that_fits_holds() {
        let mut assignment = Assignment::new(None);
        assignment.add(Manager::Mru, Some(&[3]), Some(&[5]));
        assignment.add(Manager::Rmin, None, Some(&[5, 7]));
        assignment.add(Manager::AccessOnce, Some(&[3]), None);
        let rule = |owner, object| assignment.rule(owner, object);
        assert_eq!(
            [rule(3, 5), rule(2, 5), rule(900, 7), rule(3, 900), rule(2, 6)],
            [Some(0), Some(1), Some(1), Some(2), None]
        );
        assert!(assignment.needs_future());
    }
}
