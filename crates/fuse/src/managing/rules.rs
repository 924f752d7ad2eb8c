//! The rules in force, for all mounts of a pool: those given by command, then those of the file of `--managers`.

use crate::processes::User;
use forebay_policy::managers::Rule;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A rule, and its number for the policy. Equal rules have one number, also when the file is read again, and know what they have matched.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) number: u32,
    pub(super) rule: Arc<Rule>,
}

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

#[derive(Default)]
pub(crate) struct Rules {
    /// How many were given by command.
    commands: usize,
    all: Vec<Numbered>,
    /// Each rule that was in force, by its text.
    known: HashMap<String, Numbered>,
    /// Files that rules list, in the order in which they came to be known.
    listed: AtomicU32,
}

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut made = Self::default();
        made.replace(rules);
        made
    }

    fn number(&mut self, rule: Rule) -> Numbered {
        let number = self.known.len() as u32 + 1;
        self.known.entry(rule.to_string()).or_insert_with(|| Numbered { number, rule: Arc::new(rule) }).clone()
    }

    /// These rules hold from now on, and no others.
    pub(crate) fn replace(&mut self, rules: Vec<Rule>) {
        self.commands = 0;
        self.all = rules.into_iter().map(|rule| self.number(rule)).collect();
    }

    /// A rule goes before all others, and in place of one for the same owners and files that was given by command.
    pub(crate) fn put_first(&mut self, rule: Rule) {
        let commands =
            self.all.drain(..self.commands).filter(|before| !before.rule.same_scope(&rule)).collect::<Vec<_>>();
        let first = self.number(rule);
        self.commands = commands.len() + 1;
        self.all.splice(0..0, std::iter::once(first).chain(commands));
    }

    /// All of them, the first that fits holds; whether each was given by command.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Rule, bool)> {
        self.all.iter().enumerate().map(|(index, numbered)| (&*numbered.rule, index < self.commands))
    }

    /// The place of a file that comes to be known among those that rules list.
    pub(super) fn next_place(&self) -> u32 {
        self.listed.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of which patterns match a file, and its user or an ancestor of that.
    pub(super) fn note(&self, user: &User, file: &str) {
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

    /// The rule for a user of a file. One that names none of its own has that of its nearest ancestor that is named, unless a rule for all
    /// owners comes before.
    pub(super) fn of(&self, user: &User, file: &str) -> Option<&Numbered> {
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
