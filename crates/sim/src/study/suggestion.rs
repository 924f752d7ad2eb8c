//! Managers that suit a trace: which programs, and which of their files, LRU-SP should give to which manager.
//!
//! 1. A *scope* is a program (the owners of one name, whatever their process numbers), the files of one ending that a program uses, or
//!    those that several programs use: a file that is shared is managed only if one rule is in charge of all its users. Each has at
//!    least a fiftieth of all references.
//! 2. Each manager that needs no list is replayed in charge of each scope alone.
//! 3. Those that help are taken in the order of their gain. One is kept if, beside those kept before, it saves at least a 200th of the
//!    misses and adds none at any size. With a device, what is saved is its time instead: where pages are read ahead, more misses may be
//!    fewer requests, and the other way round.
//!    Who uses a shared file once need not agree with its other users. So if access-once is kept, the other managers are tried once more
//!    beside it: a rule for one program may help only now.
//! 4. A rule that saves less beside all that are kept is dropped again, the idlest first: on files that programs share, one of them may do
//!    the work of others.
//!
//! Each candidate is written as a rule, and the rules are read as a file of them is: what is measured is what the file says.

use super::comparison::{give, in_pages, pages, read};
use super::error::{Error, Stop};
use super::monitor::Monitor;
use super::recorded::recorded_readahead;
use crate::input::trace::{Dimensions, Trace};
use crate::readahead::Readahead;
use crate::replay::outcome::RunOutcome;
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use crate::size::Size;
use crate::words::process;
use forebay_model::Model;
use forebay_model::presets::Named;
use forebay_policy::managers::Rules;
use forebay_policy::{LruSp, Policy, Spec};
use forebay_trace::{Pattern, Reader};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The managers that are tried: those that need neither a list nor the future. `same-order` is `mru` by another name.
const TRIED: [&str; 5] = ["mru", ONCE, "no-reuse", "sequential", "lru-k"];
/// The manager of those who need not agree with others.
const ONCE: &str = "access-once";
/// A scope has at least this share of all references.
const LEAST_SHARE: f64 = 0.02;
/// A rule saves at least this share of the cost.
const LEAST_GAIN: f64 = 0.005;
/// This many scopes at most, those with the most references.
const MOST_SCOPES: usize = 24;

/// What is asked of a trace.
#[derive(Debug)]
pub struct Asked {
    /// The cache sizes; a rule helps at one of them at least, and hurts at none.
    pub sizes: Vec<Size>,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
    /// The device whose time is to be saved; by default misses are.
    pub device: Option<Named>,
    /// What is read ahead; by default what the recording's own cache read ahead, where the trace says it.
    pub readahead: Option<Readahead>,
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

/// What a cache costs, by size: misses, or microseconds of the device's time.
type Costs = Vec<u64>;

/// What each set of rules costs.
type Replay<'a> = &'a dyn Fn(&[Vec<Rule>]) -> Result<Vec<Costs>, Error>;

/// Managers for a trace, and what they save.
#[derive(Debug)]
pub struct Suggestion {
    /// The trace.
    pub trace: Dimensions,
    /// The sizes in pages, in rising order, each once, with what the user wrote.
    pub sizes: Vec<(u32, Size)>,
    /// The device whose time, in microseconds, is the cost; without one it is misses.
    pub device: Option<String>,
    /// The rule that reads ahead, if one does.
    pub readahead: Option<String>,
    /// The cost by size without managers, which is that of LRU.
    pub unmanaged: Costs,
    /// The rules in the order in which they must stand, the first that fits being the one that holds.
    pub rules: Vec<Rule>,
    /// The cost by size with all rules.
    pub managed: Costs,
}

/// A manager, and what it is in charge of.
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    /// The manager's name.
    pub manager: &'static str,
    /// The pattern of its owners' names; none: all owners.
    pub owners: Option<String>,
    /// The pattern of its files' names; none: all files.
    pub files: Option<String>,
    /// By size, what it saves beside all other rules.
    pub saved: Costs,
}

impl Rule {
    /// As it stands in a file of managers.
    pub fn toml(&self) -> String {
        // A string of JSON is one of TOML.
        let mut text = format!("[[manager]]\nname = \"{}\"\n", self.manager);
        for (key, pattern) in [("owners", &self.owners), ("files", &self.files)] {
            if let Some(pattern) = pattern {
                let _ = writeln!(text, "{key} = [{}]", serde_json::Value::from(&**pattern));
            }
        }
        text
    }
}

/// What a manager may be in charge of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scope {
    owners: Option<String>,
    files: Option<String>,
}

impl Asked {
    /// Looks for managers for the trace called `name`.
    ///
    /// # Errors
    /// What is wrong with the trace, or with the sizes for it; [`Error::Stopped`].
    pub fn of(&self, name: &str, reader: &mut dyn Reader, monitor: &dyn Monitor) -> Result<Suggestion, Error> {
        let spec = Spec::parse(LruSp::INFO.name).expect("the policy is in the registry");
        let trace = read(name, reader, self.page_size, Sweep::keep(std::slice::from_ref(&spec)), monitor)?;
        let sizes = in_pages(&self.sizes, trace.page_size, trace.pages)?;
        let recorded = || recorded_readahead(trace.circumstances.as_ref()?, monitor);
        let readahead = self.readahead.clone().or_else(recorded).unwrap_or_default();
        let costs =
            |candidates: &[Vec<Rule>]| self.costs(&spec, candidates, (&pages(&sizes), &readahead), &trace, monitor);
        let unmanaged = costs(&[vec![]])?.remove(0);

        let scopes = scopes(&trace);
        let (mut kept, mut managed) = more(&scopes, (Vec::new(), unmanaged.clone()), &costs)?;
        if kept.iter().any(|rule| rule.manager == ONCE) {
            (kept, managed) = more(&scopes, (kept, managed), &costs)?;
        }
        while let Some(without) = idle(&kept, (&unmanaged, &managed), &costs)? {
            kept.remove(without.0);
            managed = without.1;
        }
        let others: Vec<Vec<Rule>> = (0..kept.len()).map(|index| all_but(&kept, index)).collect();
        for (rule, without) in kept.iter_mut().zip(costs(&others)?) {
            rule.saved = without.iter().zip(&managed).map(|(before, after)| before.saturating_sub(*after)).collect();
        }
        let device = self.device.as_ref().map(|device| device.name.clone());
        let readahead = (!readahead.is_none()).then_some(readahead.label);
        Ok(Suggestion { trace: trace.dimensions(), sizes, device, readahead, unmanaged, rules: kept, managed })
    }

    /// What each set of rules costs by size.
    fn costs(
        &self,
        spec: &Spec,
        candidates: &[Vec<Rule>],
        (sizes, readahead): (&[u32], &Readahead),
        trace: &Trace,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Costs>, Error> {
        let mut specs = Vec::with_capacity(candidates.len());
        for rules in candidates {
            let text: String = rules.iter().map(Rule::toml).collect();
            let rules = Rules::parse("a suggested rule", text)?;
            let mut managed = [spec.clone()];
            give(&rules, &mut managed, trace, monitor)?;
            specs.extend(managed);
        }
        let sweep = Sweep { specs, sizes: sizes.to_vec(), warmup: 0, threads: self.threads };
        let device = self.device.as_ref().map(|device| Model::clone(&device.model));
        let watch = Watch { device, readahead: readahead.clone(), ..Watch::default() };
        let replaying = monitor.begin(format!("replaying {}", trace.name), Some(sweep.work(&watch, trace)), true);
        let outcomes = sweep.run_watching(&watch, trace, &|more| replaying.add(more));
        let all = candidates.len() * sizes.len();
        if outcomes.len() < all {
            return Err(Error::Stopped(Stop::Runs(outcomes.len(), all, trace.name.clone())));
        }
        let costs: Costs = outcomes.iter().map(cost).collect();
        Ok(costs.chunks(sizes.len()).map(<[u64]>::to_vec).collect())
    }
}

/// The rules that are kept, and those that help beside them, in the order of what each saves there; and what all cost.
fn more(
    scopes: &[Scope],
    (mut kept, mut managed): (Vec<Rule>, Costs),
    costs: Replay<'_>,
) -> Result<(Vec<Rule>, Costs), Error> {
    let rules = scopes.iter().flat_map(|Scope { owners, files }| {
        TRIED.map(|manager| Rule { manager, owners: owners.clone(), files: files.clone(), saved: Vec::new() })
    });
    let tried: Vec<Rule> = rules.filter(|rule| !kept.iter().any(|other| same_scope(rule, other))).collect();
    let beside: Vec<Vec<Rule>> = tried.iter().map(|rule| with(&kept, rule)).collect();
    let gains = costs(&beside)?.into_iter().zip(tried);
    let mut helping: Vec<(u64, Rule)> = gains.filter_map(|(of, rule)| Some((gain(&managed, &of)?, rule))).collect();
    helping.sort_by_key(|&(gain, _)| std::cmp::Reverse(gain));
    for (_, rule) in helping {
        if kept.iter().any(|other| same_scope(&rule, other)) {
            continue;
        }
        let with = with(&kept, &rule);
        let now = costs(std::slice::from_ref(&with))?.remove(0);
        if gain(&managed, &now).is_some() {
            (kept, managed) = (with, now);
        }
    }
    Ok((kept, managed))
}

fn same_scope(rule: &Rule, other: &Rule) -> bool {
    (&rule.owners, &rule.files) == (&other.owners, &other.files)
}

/// Rules and one more. Files before programs: the first rule that fits holds.
fn with(rules: &[Rule], rule: &Rule) -> Vec<Rule> {
    let mut with = rules.to_vec();
    with.insert(if rule.files.is_some() { 0 } else { with.len() }, rule.clone());
    with
}

/// The rule that saves least beside all others, if that is nothing, and the costs without it: those that came later may do its work.
fn idle(
    rules: &[Rule],
    (unmanaged, managed): (&Costs, &Costs),
    costs: Replay<'_>,
) -> Result<Option<(usize, Costs)>, Error> {
    let others: Vec<Vec<Rule>> = (0..rules.len()).map(|index| all_but(rules, index)).collect();
    let without = costs(&others)?.into_iter().enumerate();
    let harmless = |costs: &Costs| costs.iter().zip(unmanaged).all(|(with, lru)| with <= lru);
    let idle = without.filter(|(_, without)| gain(without, managed).is_none() && harmless(without));
    Ok(idle.min_by_key(|(_, without)| without.iter().sum::<u64>()))
}

fn all_but(rules: &[Rule], index: usize) -> Vec<Rule> {
    rules.iter().enumerate().filter(|&(other, _)| other != index).map(|(_, rule)| rule.clone()).collect()
}

fn cost(outcome: &RunOutcome) -> u64 {
    outcome.device.map_or(outcome.counted.misses, |cost| (cost.device_ms * 1e3).round() as u64)
}

/// What is saved over all sizes, if they are worth a rule.
fn gain(before: &[u64], after: &[u64]) -> Option<u64> {
    let [all, left] = [before, after].map(|costs| costs.iter().sum::<u64>());
    let hurts = before.iter().zip(after).any(|(before, after)| after > before);
    (!hurts && (all - left) as f64 >= LEAST_GAIN * all as f64 && left < all).then(|| all - left)
}

/// Programs, and the files of one ending that each uses; those with the most references first.
fn scopes(trace: &Trace) -> Vec<Scope> {
    let programs: Vec<Option<String>> = trace.names.owners().iter().map(|name| program(name)).collect();
    let endings: Vec<Option<String>> = trace.names.objects().iter().map(|name| ending(name)).collect();
    let mut uses: HashMap<(u32, u32), u64> = HashMap::new();
    let requests = &trace.requests;
    let ends = requests.first.iter().skip(1).copied().chain([trace.len() as u32]);
    for ((&first, end), &owner) in requests.first.iter().zip(ends).zip(&requests.owner) {
        // A request is to one object.
        let object = trace.places.of(trace.references[first as usize]).object;
        *uses.entry((owner, object)).or_default() += u64::from(end - first);
    }
    let mut counts: BTreeMap<Scope, u64> = BTreeMap::new();
    // By ending: a program that uses the files, whether another does, too, and the references of all.
    let mut shared: BTreeMap<&String, (&Option<String>, bool, u64)> = BTreeMap::new();
    for ((owner, object), count) in uses {
        let (owners, files) = (&programs[owner as usize], &endings[object as usize]);
        let mut add = |files| *counts.entry(Scope { owners: owners.clone(), files }).or_default() += count;
        add(None);
        if let Some(ending) = files {
            add(files.clone());
            let (first, others, all) = shared.entry(ending).or_insert((owners, false, 0));
            *others |= *first != owners;
            *all += count;
        }
    }
    let of_all = shared.into_iter().filter(|(_, (_, others, _))| *others);
    counts.extend(of_all.map(|(ending, (_, _, all))| (Scope { owners: None, files: Some(ending.clone()) }, all)));
    let least = LEAST_SHARE * trace.len() as f64;
    let mut scopes: Vec<(Scope, u64)> = counts.into_iter().filter(|&(_, count)| count as f64 >= least).collect();
    scopes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    scopes.into_iter().take(MOST_SCOPES).map(|(scope, _)| scope).collect()
}

/// The pattern of all owners that run the same program: their names differ in a process number behind a space.
fn program(owner: &str) -> Option<String> {
    match process(owner) {
        Some(program) => Some(format!("{} *", Pattern::escape(program))),
        None => (!owner.is_empty()).then(|| Pattern::escape(owner)),
    }
}

/// The pattern of files of the same ending; of a file without one, its own.
fn ending(file: &str) -> Option<String> {
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let ending =
        ending.filter(|ending| (1..=8).contains(&ending.len()) && !ending.bytes().all(|byte| byte.is_ascii_digit()));
    match ending {
        Some(ending) => Some(format!("*.{}", Pattern::escape(ending))),
        None => (!file.is_empty()).then(|| Pattern::escape(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_files_are_named_by_patterns_that_match_them() {
        assert_eq!(program("cscope 123").as_deref(), Some("cscope *"));
        assert_eq!(program("[kworker] 7").as_deref(), Some("[[]kworker[]] *"));
        assert_eq!((program("db").as_deref(), program("")), (Some("db"), None));
        assert_eq!(ending("/a.d/b.out").as_deref(), Some("*.out"));
        assert_eq!(ending("/a.d/README").as_deref(), Some("/a.d/README"));
        assert_eq!(ending("libc.so.6").as_deref(), Some("libc.so.6"));
    }

    #[test]
    fn a_rule_whose_work_others_do_is_idle() {
        let rule =
            |files: &str| Rule { manager: "mru", owners: None, files: Some(files.to_owned()), saved: Vec::new() };
        let rules = [rule("a"), rule("b"), rule("c")];
        // What `a` alone saves `b` saves, too, at one size; `c` saves something else.
        let costs = |sets: &[Vec<Rule>]| {
            let has = |set: &[Rule], files: &str| set.iter().any(|rule| rule.files.as_deref() == Some(files));
            let cost = |set: &Vec<Rule>| {
                let shared = if has(set, "b") {
                    30
                } else if has(set, "a") {
                    20
                } else {
                    0
                };
                vec![1000, 100 - shared - if has(set, "c") { 10 } else { 0 }]
            };
            Ok(sets.iter().map(cost).collect())
        };
        let (unmanaged, managed) = (vec![1000, 100], vec![1000, 60]);
        let found = idle(&rules, (&unmanaged, &managed), &costs).unwrap();
        assert_eq!(found, Some((0, vec![1000, 60])));
        assert_eq!(idle(&rules[1..], (&unmanaged, &managed), &costs).unwrap(), None);
    }

    #[test]
    fn a_rule_saves_a_200th_and_hurts_nowhere() {
        assert_eq!(gain(&[100, 100], &[100, 99]), Some(1));
        assert_eq!(gain(&[100, 100], &[101, 50]), None);
        assert_eq!(gain(&[1000, 1000], &[1000, 991]), None);
        assert_eq!(gain(&[0], &[0]), None);
    }
}
