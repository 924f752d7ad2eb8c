//! Who is in charge: the numbers of managers, and what was said while the cache runs, which goes before the assignment.

use super::{Group, Groups};
use crate::control::Uncontrolled;
use crate::managers::lru::NOBODY;
use crate::managers::ranking::EMPTY;
use crate::managers::users::{Numbers, Users};
use crate::managers::{Assignment, Manager, Scope};
use std::collections::HashMap;

/// By object: what was said while the cache runs.
pub(super) type Told = HashMap<u32, Vec<Word>>;

/// Who is in charge of an owner's uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) owner: u32,
    /// The manager's number.
    pub(super) number: u32,
    /// The number of the rule that says so; 0: none.
    pub(super) rule: u32,
}

/// In a rule that came later: any owner, any file.
pub(super) const ANY: u32 = u32::MAX;

/// The most managers.
const MOST: usize = 1024;

impl Groups {
    /// The number of a manager that is in charge from now on, by a rule, or by no rule of its own: of those equal ones are one manager.
    pub(super) fn number_of(&mut self, manager: &Manager, rule: u32) -> Result<u32, Uncontrolled> {
        if manager.needs_future() {
            return Err(Uncontrolled::NeedsFuture);
        }
        let mut known = self.managers.iter().zip(&self.rules);
        let number = match known.position(|(known, &of)| of == rule && (rule != 0 || known == manager)) {
            Some(known) => known,
            None if self.managers.len() < MOST => {
                self.managers.push(manager.clone());
                self.rules.push(rule);
                self.of.push(Vec::new());
                self.managers.len() - 1
            }
            None => {
                let free = self.vacant().ok_or(Uncontrolled::TooMany)?;
                let before = std::mem::replace(&mut self.managers[free], manager.clone());
                self.rules[free] = rule;
                // It has no pages. Owners stay as they were judged.
                let scope = |manager: &Manager| manager.scope() == Scope::Owner;
                let kept = scope(&before) && scope(manager);
                for group in self.groups.iter_mut().filter(|group| group.rule == free as u32) {
                    *group = Group { ended: kept && group.ended, ..Group::new(free as u32) };
                }
                free
            }
        };
        self.some_once |= matches!(manager, Manager::AccessOnce | Manager::NoReuse);
        self.remember_uses(manager.earlier_uses());
        if *manager != Manager::Lru {
            self.ranking.reserve(self.pages.len() as u32);
        }
        Ok(number as u32)
    }

    /// A manager that came while it ran, and is in charge of nothing any more.
    fn vacant(&self) -> Option<usize> {
        let mut used = vec![false; self.managers.len()];
        used[..=self.assignment.managers.len()].fill(true);
        let told = self.told.values().flatten().map(|word| word.number);
        let of_files = self.users.all().filter(|file| file.resident > 0 && file.rule != NOBODY).map(|file| file.rule);
        let of_groups = self.groups.iter().filter(|group| group.root != EMPTY).map(|group| group.rule);
        let of_openers = self.users.rules_of_openers();
        told.chain(of_files).chain(of_groups).chain(of_openers).for_each(|number| used[number as usize] = true);
        used.iter().position(|used| !used)
    }

    pub(super) fn numbers(&self) -> Numbers<'_> {
        Numbers(&self.managers)
    }

    /// Keeps the times of as many uses of each page from now on.
    fn remember_uses(&mut self, uses: usize) {
        if uses <= self.earlier_uses {
            return;
        }
        let mut earlier = vec![0; self.pages.len() * uses];
        if self.earlier_uses > 0 {
            for (new, old) in earlier.chunks_mut(uses).zip(self.earlier.chunks(self.earlier_uses)) {
                new[..old.len()].copy_from_slice(old);
            }
        }
        (self.earlier, self.earlier_uses) = (earlier, uses);
    }

    /// Puts a manager in charge, by a rule or by none, or nobody any more. Returns the number of the rule that said so before.
    pub(super) fn tell(&mut self, owner: u32, object: u32, charge: Option<(u32, u32)>) -> u32 {
        let words = self.told.entry(object).or_default();
        let before = words.iter().find(|word| word.owner == owner).map_or(0, |word| word.rule);
        words.retain(|word| word.owner != owner);
        words.extend(charge.map(|(number, rule)| Word { owner, number, rule }));
        if words.is_empty() {
            self.told.remove(&object);
        }
        before
    }

    /// The number of the manager who is in charge where an owner uses a file.
    pub(super) fn rule(&self, owner: u32, object: u32) -> u32 {
        rule(&self.told, &self.assignment, self.default, (owner, object))
    }

    /// Has the rules hold that are now right for a file, or for all.
    pub(super) fn rules_anew(&mut self, object: u32) {
        let all = 0..self.users.len();
        // It is changed and looked at in turns.
        let mut users = std::mem::replace(&mut self.users, Users::new(0));
        for object in if object == ANY { all } else { object..object.saturating_add(1).min(all.end) } {
            users.rules_anew(object, self.now, |owner| self.rule(owner, object), self.numbers());
        }
        self.users = users;
    }

    /// Puts in charge of a file whom all users name, if it is shared or its user says nothing. Users who use it once are not asked.
    pub(super) fn agree(&mut self, object: u32) {
        let of_others = self.rule(ANY, object);
        let all_words = self.told.get(&object).map_or(&[][..], |words| words);
        let has_say = |word: &Word| word.owner == ANY || !self.is_once(word.number);
        let words: Vec<Word> = all_words.iter().copied().filter(has_say).collect();
        if words.is_empty() && !all_words.is_empty() {
            return;
        }
        let first = words.first().map_or(of_others, |word| word.number);
        let agreed = words.iter().all(|word| self.numbers().agree(word.number, first)).then_some(first);
        let owner = self.users.of(object).owner;
        let silent = !words.is_empty() && !words.iter().any(|word| word.owner == owner || word.owner == ANY);
        self.users.agree(object, self.now, agreed, silent);
    }
}

/// The number of the manager who is in charge where an owner uses a file.
pub(super) fn rule(told: &Told, assignment: &Assignment, default: u32, (owner, object): (u32, u32)) -> u32 {
    if !told.is_empty() {
        let of_object = |object: u32| {
            let words = told.get(&object)?;
            let of = |owner: u32| words.iter().find(|word| word.owner == owner);
            of(owner).or_else(|| of(ANY)).map(|word| word.number)
        };
        if let Some(number) = of_object(object).or_else(|| of_object(ANY)) {
            return number;
        }
    }
    assignment.rule(owner, object).unwrap_or(default)
}
