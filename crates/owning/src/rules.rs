//! The rules in force, for all files of a pool: those given by command, then those of the file of `--managers`.

use crate::processes::User;
use forebay_policy::Charge;
use forebay_policy::managers::{Listed, Rule, Unmatched};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A rule, and its number for the policy. Equal rules have one number, also when the file is read again, and know what they have matched.
#[derive(Clone)]
struct Numbered {
    number: u32,
    rule: Arc<Rule>,
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// The rule that holds for a user of a file.
#[derive(Clone, PartialEq)]
pub struct Ruled {
    numbered: Numbered,
    /// What it lists the file as.
    listed: Option<Listed>,
}

impl Ruled {
    /// As the policy is to have it.
    pub fn charge(&self) -> Charge {
        let Numbered { number, rule } = &self.numbered;
        Charge { manager: rule.manager(), rule: *number, listed: self.listed }
    }
}

impl fmt::Display for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbered.rule.fmt(f)
    }
}

/// Something that says who manages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// What: `command`, `rule`, `attribute` or `own word`; `lost` of a manager that has lost its charge by its mistakes.
    pub by: &'static str,
    /// The manager, and of a rule the patterns of its owners and files.
    pub manager: String,
    /// Whose uses, if it names somebody.
    pub owner: Option<String>,
    /// Of which file, if it is of one.
    pub file: Option<String>,
    /// Of a rule: its patterns that no use has matched since the front end first had the rule.
    pub unmatched: Unmatched,
}

/// The rules, the first that fits holds.
#[derive(Default)]
pub struct Rules {
    /// How many were given by command.
    commands: usize,
    all: Vec<Numbered>,
    /// Each rule that was in force, by its text.
    known: HashMap<String, Numbered>,
    /// Files that rules list, in the order in which they came to be known.
    listed: AtomicU32,
}

impl Rules {
    /// These, none by command.
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut made = Self::default();
        made.replace(rules);
        made
    }

    fn number(&mut self, rule: Rule) -> Numbered {
        let number = self.known.len() as u32 + 1;
        self.known.entry(rule.to_string()).or_insert_with(|| Numbered { number, rule: Arc::new(rule) }).clone()
    }

    /// These rules hold from now on, and no others.
    pub fn replace(&mut self, rules: Vec<Rule>) {
        self.commands = 0;
        self.all = rules.into_iter().map(|rule| self.number(rule)).collect();
    }

    /// A rule goes before all others, and in place of one for the same owners and files that was given by command.
    pub fn put_first(&mut self, rule: Rule) {
        let commands =
            self.all.drain(..self.commands).filter(|before| !before.rule.same_scope(&rule)).collect::<Vec<_>>();
        let first = self.number(rule);
        self.commands = commands.len() + 1;
        self.all.splice(0..0, std::iter::once(first).chain(commands));
    }

    /// All of them, in their order.
    pub fn in_force(&self) -> Vec<InForce> {
        let of_rule = |(index, Numbered { rule, .. }): (usize, &Numbered)| {
            let by = if index < self.commands { "command" } else { "rule" };
            InForce { by, manager: rule.to_string(), unmatched: rule.unmatched(), ..InForce::default() }
        };
        self.all.iter().enumerate().map(of_rule).collect()
    }

    /// Takes note of which patterns match a file, and its user or an ancestor of that.
    pub fn note(&self, user: &User, file: &str) {
        self.all.iter().for_each(|numbered| numbered.rule.note_file(file));
        let awaiting: Vec<&Rule> =
            self.all.iter().map(|numbered| &*numbered.rule).filter(|rule| rule.awaits_owner()).collect();
        if awaiting.is_empty() {
            return;
        }
        let (name, ancestors) = (user.name(), user.ancestors());
        for rule in awaiting {
            rule.note_owner(&name);
            ancestors.iter().for_each(|ancestor| rule.note_owner(&ancestor.name));
        }
    }

    /// The rule for a user of a file, whose place among those that rules list is given where it is asked for first. One that names none of its own has that of its nearest ancestor that is named, unless a rule for all
    /// owners comes before.
    pub fn of(&self, user: &User, file: &str, place: &mut Option<u32>) -> Option<Ruled> {
        let numbered = self.fitting(user, file)?.clone();
        let next = || self.listed.fetch_add(1, Ordering::Relaxed);
        let listed = numbered.rule.listed(file, || *place.get_or_insert_with(next));
        Some(Ruled { numbered, listed })
    }

    fn fitting(&self, user: &User, file: &str) -> Option<&Numbered> {
        let names_owners = |rules: &[Numbered]| rules.iter().any(|numbered| numbered.rule.names_owners());
        let name = if names_owners(&self.all) { user.name() } else { String::new() };
        let own = self.all.iter().position(|numbered| numbered.rule.fits(&name, file));
        let before = &self.all[..own.unwrap_or(self.all.len())];
        let named = own.is_some_and(|own| self.all[own].rule.names_owners());
        let inherited = || {
            user.ancestors().iter().find_map(|ancestor| {
                let fits =
                    |numbered: &&Numbered| numbered.rule.names_owners() && numbered.rule.fits(&ancestor.name, file);
                before.iter().find(fits)
            })
        };
        let inherited = if named || !names_owners(before) { None } else { inherited() };
        inherited.or_else(|| own.map(|own| &self.all[own]))
    }
}
