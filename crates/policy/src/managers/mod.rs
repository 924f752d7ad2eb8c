//! The managers of LRU-SP: who decides which of an owner's pages is given up.
//!
//! A manager is a rule that gives each page a rank when it is used: how soon it goes, the highest first. Each group of pages
//! under one manager is kept in the order of ranks (`ranking.rs`), so that a choice, and each further one when a victim is
//! refused, takes logarithmic time. Managers of known orders (sequential, file-specific, filter) begin at their position in
//! the order and go down, then wrap: what was just read is needed last, what is ahead is needed first.
//!
//! The rule of the paper's section 4.1 holds for all: where no page is needed later than the candidate, the candidate goes.
//!
//! Managers that go round in a circle (`hands.rs`) keep its order in the ranks, and move what they pass.
//!
//! What there is to say of each stands in its file, as `ABOUT`. A manager costs its file, and a line in `managers!` below; then [`MANAGERS`]
//! lists it, and a test asks for it in `docs/managers.md`. One with keys of its own is read in `rule.rs`.

mod file;
mod free_lists;
pub(crate) mod groups;
mod hands;
mod ranking;
mod rule;
mod users;

pub use file::{Rules, RulesError};
pub use file_order::FileOrder;
pub use filter::Filter;
pub use lru_k::MOST_USES;
pub use rule::{Rule, Unmatched};
pub use weights::{MOST_WEIGHTS, Weights};

use forebay_basis::Place;
use hands::Hands;

/// Makes the managers' modules, and all that goes from a manager to its file. `cargo fmt` does not see modules made here: `make fmt` does.
macro_rules! managers {
    ($($(#[$about:meta])* $file:ident::$name:ident $(($own:ident: $kind:ty))?),+ $(,)?) => {
        $(mod $file;)+

        /// Who decides which of the pages in its charge is given up.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Manager {
            $($(#[$about])* $name $(($kind))?),+
        }

        /// Every manager, in the order in which they are listed.
        pub static MANAGERS: &[&About] = &[$(&$file::ABOUT),+];

        impl Manager {
            /// What is known of it.
            fn about(&self) -> &'static About {
                match self {
                    $(Self::$name { .. } => &$file::ABOUT),+
                }
            }

            /// How soon the page goes: the highest rank first.
            fn rank(&self, used: &mut Use) -> u64 {
                match self {
                    $(Self::$name $(($own))? => $file::rank($($own,)? used)),+
                }
            }
        }
    };
}

managers! {
    /// Never overrules: global LRU's candidate goes.
    lru::Lru,
    /// The most recently used page goes.
    mru::Mru,
    /// Files are read again and again in the same order.
    same_order::SameOrder,
    /// Nothing is read twice.
    access_once::AccessOnce,
    /// Nothing is used twice, and nothing is taken from others.
    no_reuse::NoReuse,
    /// Files are read from beginning to end.
    sequential::Sequential,
    /// Files are read in a known order of their parts.
    file_order::FileOrder(order: FileOrder),
    /// Files are read one after the other in a known order.
    filter::Filter(files: Filter),
    /// LRU, ages counted by the weight of the file.
    weights::Weights(weights: Weights),
    /// The K-th last use decides; K is 1 to [`MOST_USES`].
    lru_k::LruK(k: usize),
    /// FIFO; what was used comes behind the others once.
    second_chance::SecondChance,
    /// A clock whose hands are as many pages apart.
    two_handed_clock::TwoHandedClock(spread: u32),
    /// The farthest next use goes (off-line).
    rmin::Rmin,
    /// The nearest next use goes (off-line).
    foolish::Foolish,
}

/// The names of those that can do without further keys.
pub(crate) static PLAIN: [&str; 11] = {
    let mut names = [""; 11];
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
    begin: Begin,
    /// The manager itself, if it can do without these keys.
    plain: Option<Manager>,
    off_line: bool,
}

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

/// At which rank a manager begins to give up; what is above goes after the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The highest.
    Top,
    /// That of the page used last.
    Last,
    /// The next below that.
    BelowLast,
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
    /// Its rank, if this manager has it already.
    before: Option<u64>,
    /// How many pages have come or were passed by a hand.
    stamp: u64,
}

impl Manager {
    /// The manager of that name, if it needs no further word; `lru-k` is LRU-2.
    pub fn plain(name: &str) -> Option<Self> {
        MANAGERS.iter().find(|about| about.name == name).and_then(|about| about.plain.clone())
    }

    /// Whether it must know the references to come.
    pub fn needs_future(&self) -> bool {
        self.about().off_line
    }

    /// Whether its rule has a list of files, which come to be known one by one in a running cache.
    fn lists_files(&self) -> bool {
        matches!(self, Self::Filter(_) | Self::Weights(_))
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

    /// How it goes round in a circle, if it does.
    fn hands(&self) -> Option<Hands> {
        match self {
            Self::SecondChance => Some(second_chance::HANDS),
            Self::TwoHandedClock(spread) => Some(two_handed_clock::hands(spread)),
            _ => None,
        }
    }

    /// The highest rank of those that go first, given the rank of the page used last; above it are those that go after them.
    fn begin(&self, last: u64) -> u64 {
        match self.about().begin {
            Begin::Top => u64::MAX,
            Begin::Last => last,
            Begin::BelowLast => last - 1,
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
