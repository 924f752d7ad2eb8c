//! One rule: which manager is in charge of which owners and files.

use super::two_handed_clock::{MOST_SPREAD, SPREAD};
use super::{FileOrder, Filter, Listed, MANAGERS, MOST_USES, Manager, Weights};
use glob::Pattern;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use toml::Spanned;

/// In a place in the order of a filter that grows: the bits below the pattern, for the file among those of the pattern.
const PLACE_BITS: u32 = 16;

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) name: Spanned<String>,
    owners: Option<Vec<Spanned<String>>>,
    files: Option<Vec<Spanned<String>>>,
    k: Option<Spanned<usize>>,
    spread: Option<Spanned<u32>>,
    order: Option<Spanned<Vec<Spanned<String>>>>,
    weights: Option<Spanned<Vec<Weight>>>,
}

/// Files, and what each of them weighs.
type Weight = (Spanned<String>, f64);

/// A manager, and the owners and files that it is in charge of.
#[derive(Debug)]
pub struct Rule {
    pub(super) owners: Option<Vec<Glob>>,
    pub(super) files: Option<Vec<Glob>>,
    pub(super) manager: Kind,
    /// Where it is named.
    pub(super) span: Range<usize>,
    text: String,
}

/// The manager, and `MANAGER owners "PATTERN"… files "PATTERN"…`. Equal texts are equal rules.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Debug)]
pub(super) enum Kind {
    Ready(Manager),
    Filter(Vec<Glob>),
    Weights { span: Range<usize>, files: Vec<(Glob, f64)> },
}

#[derive(Debug)]
pub(super) struct Glob {
    pub(super) pattern: Pattern,
    pub(super) span: Range<usize>,
    /// Whether it was noted to match a name, in a running cache.
    matched: AtomicBool,
}

impl Glob {
    fn note(&self, name: &str) {
        if !self.has_matched() && self.pattern.matches(name) {
            self.matched.store(true, Ordering::Relaxed);
        }
    }

    fn has_matched(&self) -> bool {
        self.matched.load(Ordering::Relaxed)
    }
}

/// The patterns of a rule that have matched nothing, in the order in which they are written.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Those of owners' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Those of files' names, also in the lists of `filter` and `weights`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl Unmatched {
    /// Whether each pattern has matched something.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.files.is_empty()
    }
}

fn any(globs: &[Glob], name: &str) -> bool {
    globs.iter().any(|glob| glob.pattern.matches(name))
}

/// What is wrong, and where in the text.
pub(super) type Wrong = (Range<usize>, String);

pub(super) fn unknown(name: &Spanned<String>) -> Wrong {
    let named = |off_line: bool| -> String {
        let known = MANAGERS.iter().filter(|about| about.off_line == off_line);
        known.map(|about| about.name).collect::<Vec<_>>().join(", ")
    };
    let (name, span) = (name.get_ref(), name.span());
    (span, format!("there is no manager `{name}`; there are {}; in simulations also {}", named(false), named(true)))
}

impl Written {
    /// `NAME[:KEY=VALUE]…`, lists with commas between.
    fn short(text: &str) -> Result<Self, String> {
        let spanned = |text: &str| Spanned::new(0..0, text.to_owned());
        let mut parts = text.split(':');
        let name = spanned(parts.next().unwrap_or_default());
        let mut made = Self { name, owners: None, files: None, k: None, spread: None, order: None, weights: None };
        for part in parts {
            match part.split_once('=') {
                Some(("k", k)) => {
                    let k = k.parse().map_err(|_| format!("k is 1 to {MOST_USES}, not {k}"))?;
                    made.k = Some(Spanned::new(0..0, k));
                }
                Some(("spread", spread)) => {
                    let spread = spread.parse().map_err(|_| format!("spread is 1 to {MOST_SPREAD}, not {spread}"))?;
                    made.spread = Some(Spanned::new(0..0, spread));
                }
                Some(("order", order)) => {
                    made.order = Some(Spanned::new(0..0, order.split(',').map(spanned).collect()));
                }
                Some(("weights", weights)) => {
                    let weight = |text: &str| {
                        let (files, weight) = text.rsplit_once('=')?;
                        Some((spanned(files), weight.parse().ok()?))
                    };
                    let list = weights.split(',').map(weight).collect::<Option<_>>();
                    let list = list.ok_or_else(|| format!("`{weights}` is no list of weights: write *.h=4,*.o=0.5"))?;
                    made.weights = Some(Spanned::new(0..0, list));
                }
                _ => return Err(format!("`{part}` is none of k=NUMBER, spread=NUMBER, order=LIST and weights=LIST")),
            }
        }
        Ok(made)
    }

    /// As [`Rule`] shows it.
    fn text(&self) -> String {
        let list =
            |list: &[Spanned<String>]| list.iter().map(|item| item.get_ref().as_str()).collect::<Vec<_>>().join(",");
        let mut text = self.name.get_ref().clone();
        if let Some(k) = &self.k {
            text += &format!(":k={}", k.get_ref());
        }
        if let Some(spread) = &self.spread {
            text += &format!(":spread={}", spread.get_ref());
        }
        if let Some(order) = &self.order {
            text += &format!(":order={}", list(order.get_ref()));
        }
        if let Some(weights) = &self.weights {
            let weights: Vec<_> =
                weights.get_ref().iter().map(|(files, weight)| format!("{}={weight}", files.get_ref())).collect();
            text += &format!(":weights={}", weights.join(","));
        }
        for (key, patterns) in [("owners", &self.owners), ("files", &self.files)] {
            if let Some(patterns) = patterns {
                text += &format!(" {key}");
                patterns.iter().for_each(|pattern| text += &format!(" \"{}\"", pattern.get_ref()));
            }
        }
        text
    }
}

impl Manager {
    /// Reads `NAME[:KEY=VALUE]…`, as in `mru`, `lru-k:k=3` and `file-order:order=100..,0..100`.
    ///
    /// # Errors
    /// What is wrong. A manager that lists files can be named in a rule alone.
    pub fn parse(text: &str) -> Result<Self, String> {
        match Rule::new(text, None, None)?.manager {
            Kind::Ready(manager) => Ok(manager),
            Kind::Filter(_) | Kind::Weights { .. } => Err(format!("`{text}` lists files: write it as a rule")),
        }
    }
}

impl Rule {
    /// A rule for the owners of one pattern and the files of one, by the manager's name and keys: `NAME[:KEY=VALUE]…`.
    ///
    /// # Errors
    /// What is wrong; also that the manager needs to know the references to come.
    pub fn new(manager: &str, owners: Option<&str>, files: Option<&str>) -> Result<Self, String> {
        let patterns = |pattern: Option<&str>| pattern.map(|pattern| vec![Spanned::new(0..0, pattern.to_owned())]);
        let written = Written { owners: patterns(owners), files: patterns(files), ..Written::short(manager)? };
        Self::of(written).and_then(Self::for_running).map_err(|(_, message)| message)
    }

    /// The rule for all owners and files where no other fits.
    pub(super) fn default(manager: &Manager) -> Self {
        let (span, text) = (0..0, format!("{} where no rule fits", manager.about().name));
        Self { owners: None, files: None, manager: Kind::Ready(manager.clone()), span, text }
    }

    /// The rule, if it can hold in a running cache.
    pub(super) fn for_running(self) -> Result<Self, Wrong> {
        if !matches!(&self.manager, Kind::Ready(manager) if manager.needs_future()) {
            return Ok(self);
        }
        Err((self.span, "that manager needs to know the references to come: it can be simulated, not run".to_owned()))
    }

    /// Whether it is for some owners alone.
    pub fn names_owners(&self) -> bool {
        self.owners.is_some()
    }

    /// Whether it fits an owner's use of a file, by their names.
    pub fn fits(&self, owner: &str, file: &str) -> bool {
        self.owners.as_ref().is_none_or(|owners| any(owners, owner))
            && self.files.as_ref().is_none_or(|files| any(files, file))
    }

    /// The patterns of files, also those that the manager lists.
    fn of_files(&self) -> impl Iterator<Item = &Glob> {
        let (listed, weighed): (&[Glob], &[(Glob, f64)]) = match &self.manager {
            Kind::Ready(_) => (&[], &[]),
            Kind::Filter(globs) => (globs, &[]),
            Kind::Weights { files, .. } => (&[], files),
        };
        self.files.iter().flatten().chain(listed).chain(weighed.iter().map(|(glob, _)| glob))
    }

    /// Takes note of which patterns match a file that is used.
    pub fn note_file(&self, name: &str) {
        self.of_files().for_each(|glob| glob.note(name));
    }

    /// Takes note of which patterns match an owner that uses a file.
    pub fn note_owner(&self, name: &str) {
        self.owners.iter().flatten().for_each(|glob| glob.note(name));
    }

    /// Whether a pattern of owners has matched none of those noted.
    pub fn awaits_owner(&self) -> bool {
        self.owners.iter().flatten().any(|glob| !glob.has_matched())
    }

    /// The patterns that have matched nothing noted so far.
    pub fn unmatched(&self) -> Unmatched {
        fn left<'a>(globs: impl Iterator<Item = &'a Glob>) -> Vec<String> {
            globs.filter(|glob| !glob.has_matched()).map(|glob| glob.pattern.to_string()).collect()
        }
        Unmatched { owners: left(self.owners.iter().flatten()), files: left(self.of_files()) }
    }

    /// Its manager, for a running cache; the files that it lists come to be known one by one, by [`listed`](Self::listed).
    pub fn manager(&self) -> Manager {
        match &self.manager {
            Kind::Ready(manager) => manager.clone(),
            Kind::Filter(globs) => Manager::Filter(Filter::growing((globs.len() as u32) << PLACE_BITS)),
            Kind::Weights { files, .. } => {
                let weights = Weights::growing(files.iter().map(|&(_, weight)| weight));
                Manager::Weights(weights.expect("it was checked when it was read"))
            }
        }
    }

    /// Whether it is for the same owners and files.
    pub fn same_scope(&self, other: &Self) -> bool {
        let patterns = |globs: &Option<Vec<Glob>>| {
            globs.as_ref().map(|globs| globs.iter().map(|glob| glob.pattern.clone()).collect::<Vec<_>>())
        };
        patterns(&self.owners) == patterns(&other.owners) && patterns(&self.files) == patterns(&other.files)
    }

    /// What it lists a file as. `nth`: how many were listed before, as the files of one pattern have their order by that.
    pub fn listed(&self, file: &str, nth: impl FnOnce() -> u32) -> Option<Listed> {
        match &self.manager {
            Kind::Ready(_) => None,
            Kind::Filter(globs) => {
                let pattern = globs.iter().position(|glob| glob.pattern.matches(file))? as u32;
                Some(Listed::Position(pattern << PLACE_BITS | nth().min((1 << PLACE_BITS) - 1)))
            }
            // As in a run: the last one of several holds.
            Kind::Weights { files, .. } => {
                let found = files.iter().rev().find(|(glob, _)| glob.pattern.matches(file));
                found.map(|&(_, weight)| Listed::Weight(weight))
            }
        }
    }

    pub(super) fn of(written: Written) -> Result<Self, Wrong> {
        let text = written.text();
        let Written { name, owners, files, k, spread, order, weights } = written;
        let (written, at) = (name.clone(), name.span());
        let name = name.into_inner();
        let belongs = |key: &str, of: &[&str], span: Option<Range<usize>>| match span {
            Some(span) if !of.contains(&name.as_str()) => Err((span, format!("`{name}` has no `{key}`"))),
            _ => Ok(()),
        };
        belongs("k", &["lru-k"], k.as_ref().map(Spanned::span))?;
        belongs("spread", &["two-handed-clock"], spread.as_ref().map(Spanned::span))?;
        belongs("order", &["file-order", "filter"], order.as_ref().map(Spanned::span))?;
        belongs("weights", &["weights"], weights.as_ref().map(Spanned::span))?;
        let needs = |what: &str| (at.clone(), format!("`{name}` needs {what}"));
        let manager = match name.as_str() {
            "lru-k" => Kind::Ready(Manager::LruK(k.map_or(Ok(2), |k| match *k.get_ref() {
                uses @ 1..=MOST_USES => Ok(uses),
                uses => Err((k.span(), format!("k is 1 to {MOST_USES}, not {uses}"))),
            })?)),
            "two-handed-clock" => {
                Kind::Ready(Manager::TwoHandedClock(spread.map_or(Ok(SPREAD), |spread| match *spread.get_ref() {
                    pages @ 1..=MOST_SPREAD => Ok(pages),
                    pages => Err((spread.span(), format!("spread is 1 to {MOST_SPREAD}, not {pages}"))),
                })?))
            }
            "file-order" => {
                let order = order.ok_or_else(|| needs("`order`, a list of ranges of blocks such as \"100..120\""))?;
                let parts = order.into_inner().iter().map(part).collect::<Result<_, _>>()?;
                Kind::Ready(Manager::FileOrder(FileOrder::new(parts)))
            }
            "filter" => {
                let order =
                    order.ok_or_else(|| needs("`order`, a list of files in the order in which they are read"))?;
                Kind::Filter(globs(order.into_inner())?)
            }
            "weights" => {
                let weights = weights.ok_or_else(|| needs("`weights`, a list of [files, weight]"))?;
                let span = weights.span();
                if let Some((_, wrong)) =
                    weights.get_ref().iter().find(|(_, weight)| !(*weight > 0.0 && weight.is_finite()))
                {
                    return Err((span, format!("a weight is a positive number, not {wrong}")));
                }
                let distinct = weights.get_ref().iter().map(|&(_, weight)| weight);
                Weights::growing(distinct).map_err(|error| (span.clone(), error))?;
                let files = weights.into_inner().into_iter().map(|(file, weight)| Ok((glob(file)?, weight)));
                Kind::Weights { span, files: files.collect::<Result<_, _>>()? }
            }
            plain => Kind::Ready(Manager::plain(plain).ok_or_else(|| unknown(&written))?),
        };
        let (owners, files) = (owners.map(globs).transpose()?, files.map(globs).transpose()?);
        Ok(Self { owners, files, manager, span: at, text })
    }
}

fn globs(patterns: Vec<Spanned<String>>) -> Result<Vec<Glob>, Wrong> {
    patterns.into_iter().map(glob).collect()
}

fn glob(pattern: Spanned<String>) -> Result<Glob, Wrong> {
    let span = pattern.span();
    match Pattern::new(pattern.get_ref()) {
        Ok(pattern) => Ok(Glob { pattern, span, matched: AtomicBool::new(false) }),
        Err(error) => Err((span, format!("`{}` is no pattern: {}", pattern.get_ref(), error.msg))),
    }
}

/// A range of blocks: `100..120`, or `100..` to the end.
fn part(text: &Spanned<String>) -> Result<Range<u64>, Wrong> {
    let wrong =
        || (text.span(), format!("`{}` is no range of blocks: write 0..16, or 16.. to the end", text.get_ref()));
    let (start, end) = text.get_ref().split_once("..").ok_or_else(wrong)?;
    let start = start.parse().map_err(|_| wrong())?;
    let end = if end.is_empty() { u64::MAX } else { end.parse().map_err(|_| wrong())? };
    if start < end { Ok(start..end) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::*;

    fn read(text: &str) -> Result<Vec<Rule>, String> {
        let rules = Rules::parse("r.toml", text.to_owned()).and_then(Rules::for_running);
        rules.map_err(|error| error.to_string())
    }

    #[test]
    fn a_manager_is_named_in_short_with_what_it_needs() {
        let order = FileOrder::new(vec![100..u64::MAX, 0..100]);
        for (text, manager) in [
            ("mru", Manager::Mru),
            ("lru-k", Manager::LruK(2)),
            ("lru-k:k=3", Manager::LruK(3)),
            ("second-chance", Manager::SecondChance),
            ("two-handed-clock", Manager::TwoHandedClock(SPREAD)),
            ("two-handed-clock:spread=8", Manager::TwoHandedClock(8)),
            ("file-order:order=100..,0..100", Manager::FileOrder(order)),
        ] {
            assert_eq!(Manager::parse(text).as_ref(), Ok(&manager), "{text}");
        }
        for (text, wrong) in [
            ("mruu", "there is no manager `mruu`; there are lru, mru"),
            ("lru-k:k=many", "k is 1 to 8, not many"),
            ("lru-k:k=9", "k is 1 to 8, not 9"),
            ("mru:k=2", "`mru` has no `k`"),
            ("two-handed-clock:spread=0", "spread is 1 to 1073741824, not 0"),
            ("second-chance:spread=2", "`second-chance` has no `spread`"),
            ("mru:2", "`2` is none of k=NUMBER, spread=NUMBER, order=LIST and weights=LIST"),
            ("file-order:order=5..5", "`5..5` is no range of blocks"),
            ("weights:weights=*.h", "`*.h` is no list of weights"),
            ("weights:weights=*.h=2", "lists files: write it as a rule"),
            ("rmin", "it can be simulated, not run"),
        ] {
            let error = Manager::parse(text).expect_err("it is wrong");
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }

    #[test]
    fn rules_for_a_running_cache_need_no_future_and_end_with_the_default() {
        let rules = read("default = \"mru\"\n[[manager]]\nname = \"lru-k\"\nk = 3\nfiles = [\"*.db\", \"a\"]\n")
            .expect("right");
        let texts: Vec<String> = rules.iter().map(Rule::to_string).collect();
        assert_eq!(texts, ["lru-k:k=3 files \"*.db\" \"a\"", "mru where no rule fits"]);
        assert!(
            rules[0].fits("anybody", "x.db") && !rules[0].fits("anybody", "x.h") && rules[1].fits("anybody", "x.h")
        );
        let wrong = read("[[manager]]\nname = \"lru\"\n\n[[manager]]\nname = \"foolish\"\n").expect_err("off-line");
        assert!(wrong.contains("r.toml line 5: ") && wrong.contains("it can be simulated, not run"), "{wrong}");
    }

    #[test]
    fn patterns_that_match_nothing_noted_are_named() {
        let text = "[[manager]]\nname = \"filter\"\nowners = [\"cc1 *\", \"ld *\"]\nfiles = [\"src/*\"]\norder = [\"*.c\", \"*.cc\"]\n";
        let rules = read(text).expect("right");
        let [rule] = &rules[..] else { panic!("one rule") };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = Unmatched { owners: names(&["cc1 *", "ld *"]), files: names(&["src/*", "*.c", "*.cc"]) };
        assert_eq!(rule.unmatched(), all);
        rule.note_owner("ld 7");
        rule.note_file("src/a.c");
        let left = Unmatched { owners: names(&["cc1 *"]), files: names(&["*.cc"]) };
        assert_eq!((rule.unmatched(), rule.awaits_owner()), (left, true));
        rule.note_owner("cc1 8");
        rule.note_file("b.cc");
        assert!(rule.unmatched().is_empty() && !rule.awaits_owner());
        assert!(Rule::new("weights:weights=*.h=4", None, None).expect("right").unmatched().files == ["*.h"]);
    }

    #[test]
    fn files_that_rules_list_come_to_be_known_one_by_one() {
        let filter = Rule::new("filter:order=a.c,src/*.c", None, None).expect("right");
        assert_eq!(filter.listed("src/z.c", || 7), Some(Listed::Position(1 << PLACE_BITS | 7)));
        assert_eq!(filter.listed("a.h", || 8), None);
        let Manager::Filter(mut order) = filter.manager() else { panic!("a filter") };
        for (object, file) in [(5, "src/z.c"), (3, "src/y.c"), (4, "a.c")] {
            let Some(Listed::Position(position)) = filter.listed(file, || 10 - object) else {
                panic!("{file} is listed")
            };
            order.set(object, position);
        }
        let rank = |object| order.position(forebay_basis::Place { object, block: 0 });
        assert!(
            rank(4) < rank(5) && rank(5) < rank(3) && rank(3) < rank(0),
            "in the order of patterns, then as they came"
        );
        let weights = Rule::new("weights:weights=*.h=4,a.h=0.5", None, None).expect("right");
        assert_eq!(weights.listed("a.h", || 0), Some(Listed::Weight(0.5)), "the last that fits");
        assert_eq!(weights.listed("b.c", || 0), None);
    }
}
