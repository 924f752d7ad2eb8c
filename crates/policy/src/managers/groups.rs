//! Whose pages are whose: the files' users, and the groups of pages under one manager.
//!
//! A file belongs to the owner that uses it. While several owners use it it is shared (`users.rs`): if the same rule is in charge of all,
//! that rule's manager keeps the shared files in a group of their own; if not, nobody manages it. A page changes its group at its next
//! use, so that sharing costs nothing but then. Until that use the file's manager may spare a page that is in no group, as a candidate.
//!
//! Who uses what is another's once, its manager being access-once, has no say in that: it is no user of the file, and a file that had none
//! but such is the next user's ([`is_only_use`](Groups::is_only_use)).
//!
//! Word that comes while the cache runs (`control.rs`) goes before the assignment: a rule of its own for an owner, a file or both, and a
//! free-list for each owner that has one.
//!
//! What is kept by the numbers of owners and files stays when the last page leaves, but means nothing then: a file without resident
//! pages has no owner, and its group is empty. So a caller that opens many files gives their numbers again.
//!
//! Memory: 24 bytes a page, 8 more for each earlier use that an LRU-K wants; 40 bytes a file; 48 bytes a group, and for
//! each rule 4 bytes an owner (or file, where the rule chooses within files).

use super::free_lists::FreeLists;
use super::hands::{self, Hands};
use super::lru::NOBODY;
use super::ranking::{EMPTY, Ranking};
use super::users::{File, Users};
use super::{Assignment, Manager, Scope, Use};
use crate::control::{Charge, Control, Uncontrolled};
use crate::parts::growth::lengthen;
use crate::parts::prefetch::prefetch;
use crate::policy::{Caller, Future, NEVER, Reference, Setup};
use std::collections::HashMap;
use std::sync::Arc;

const NONE: u32 = u32::MAX;

/// All managers and the pages in their charge.
#[derive(Debug)]
pub(crate) struct Groups {
    assignment: Arc<Assignment>,
    /// The assignment's managers, and the default behind them.
    managers: Vec<Manager>,
    /// References so far.
    now: u64,
    future: Option<Arc<Future>>,
    /// MG1. By object: whose it is; `resident` counts its resident pages.
    users: Users,
    /// By rule, then by owner (0: shared) or by object: the group.
    of: Vec<Vec<u32>>,
    groups: Vec<Group>,
    /// MG2. A resident page is in the ranking of the group that it names, or in none if nobody manages it.
    pages: Vec<Page>,
    ranking: Ranking,
    /// For each page the times of this many uses.
    earlier: Vec<u64>,
    earlier_uses: usize,
    /// Rounds of offers so far.
    round: u64,
    /// How often a page has come, or has been moved by a hand.
    stamp: u64,
    /// The manager of those for whom the assignment has none, by number.
    default: u32,
    /// Rules that came while it runs, by object: the owner, and the manager's number. `ANY` is any of both.
    told: Told,
    /// By manager: the number of the rule that has this instance, 0 for none.
    rules: Vec<u32>,
    /// Whether one of the managers is access-once.
    some_once: bool,
    /// After this many mistakes beyond the decisions that proved right a manager's charge ends; 0: never. How many have ended so.
    revoke: u32,
    charges_ended: u64,
    /// Whether the last victim came from a free-list.
    took_listed: bool,
    /// MG3. The pages to go first, of each owner that has said so: resident ones.
    free: FreeLists,
}

/// By object: owners, and the numbers of their managers.
type Told = HashMap<u32, Vec<(u32, u32)>>;

/// In a rule that came later: any owner, any file.
const ANY: u32 = u32::MAX;

/// The most managers.
const MOST: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Group {
    rule: u32,
    root: u32,
    /// The rank of the page used last.
    last: u64,
    /// The round in which its manager was last asked.
    asked: u64,
    /// MG4. Of a manager with two hands: the rank of the page that the hand ahead has passed last, and how many of the pages it has passed.
    front: u64,
    passed: u32,
    /// Its mistakes, less the decisions that proved right; and whether they have ended its charge.
    mistakes: u32,
    ended: bool,
}

impl Group {
    fn new(rule: u32) -> Self {
        let (front, passed) = (u64::MAX, 0);
        Self { rule, root: EMPTY, last: 0, asked: 0, front, passed, mistakes: 0, ended: false }
    }
}

#[derive(Clone, Copy, Debug)]
struct Page {
    object: u32,
    group: u32,
}

impl Groups {
    /// With LRU-2; an assignment may ask for a larger K.
    pub(crate) const BYTES_PER_PAGE: usize = size_of::<Page>() + Ranking::BYTES_PER_PAGE + 8;
    /// The most for a page that alone makes up a file and a group, arrays having grown by an eighth just now.
    pub(crate) const BYTES_PER_FILE: usize = (size_of::<File>() + size_of::<Group>() + size_of::<u32>()) * 9 / 8;

    pub(crate) fn new(setup: &Setup, default: Manager, window: u64, revoke: u32) -> Self {
        let assignment = setup.managers.clone().unwrap_or_default();
        let mut managers = assignment.managers.clone();
        managers.push(assignment.default.clone().unwrap_or(default));
        let future = setup.future.clone();
        let needs_future = managers.iter().any(Manager::needs_future);
        assert!(future.is_some() || !needs_future, "an off-line manager is given the future");
        let mut groups = Self {
            default: managers.len() as u32 - 1,
            told: HashMap::new(),
            rules: vec![0; managers.len()],
            some_once: managers.contains(&Manager::AccessOnce),
            free: FreeLists::new(),
            now: 0,
            future: future.filter(|_| needs_future),
            users: Users::new(window),
            of: vec![Vec::new(); managers.len()],
            groups: Vec::new(),
            pages: Vec::new(),
            ranking: Ranking::new(),
            earlier: Vec::new(),
            earlier_uses: managers.iter().map(Manager::earlier_uses).max().unwrap_or(0),
            round: 0,
            stamp: 0,
            revoke,
            charges_ended: 0,
            took_listed: false,
            assignment,
            managers,
        };
        groups.reserve(setup.pages);
        groups
    }

    pub(crate) fn reserve(&mut self, pages: u32) {
        if pages as usize > self.pages.len() {
            self.free.reserve(pages);
            self.pages.resize(pages as usize, Page { object: NONE, group: NONE });
            self.earlier.resize(pages as usize * self.earlier_uses, 0);
            if self.managers.iter().any(|manager| *manager != Manager::Lru) {
                self.ranking.reserve(pages);
            }
        }
    }

    /// What is known of the page will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.pages, page as usize);
    }

    /// A page is used, and resident now. `admitted`: it was not before.
    pub(crate) fn used(&mut self, reference: &Reference, admitted: bool) {
        let Reference { page, owner, place, .. } = *reference;
        let next = self.future.as_ref().map_or(NEVER, |future| future.next(self.now as u32));
        self.now += 1;
        let left = if admitted { None } else { self.leave_group(page) };
        self.free.remove(page);
        self.count_user(owner, place.object);
        self.users.of_mut(place.object).resident += u32::from(admitted);
        let number = self.group(place.object);
        self.pages[page as usize] = Page { object: place.object, group: number };
        if let Some(group) = self.groups.get(number as usize) {
            let from = page as usize * self.earlier_uses;
            let earlier = &mut self.earlier[from..from + self.earlier_uses];
            let before = left.filter(|left| left.0 == number).map(|left| left.1);
            self.stamp += 1;
            let mut used = Use { place, now: self.now, next, earlier, before, stamp: self.stamp };
            let rank = self.managers[group.rule as usize].rank(&mut used);
            self.enter_group(number, page, rank);
            self.groups[number as usize].last = rank;
        }
    }

    /// Whether a page is used by one who says that it uses it once, and whose file it is not: it is as if it were not used. Users who agree
    /// on access-once manage their file together.
    pub(crate) fn is_only_use(&self, reference: &Reference) -> bool {
        let (owner, object) = (reference.owner, reference.place.object);
        let File { owner: of, rule, resident, .. } = self.users.of(object);
        if resident == 0 || of == owner || !self.some_once {
            return false;
        }
        let own = self.rule(owner, object);
        own != rule && self.is_once(own)
    }

    /// Whether that number is a manager's who has no say in whose a file is.
    fn is_once(&self, number: u32) -> bool {
        is_once(&self.managers, number)
    }

    /// Whether somebody manages a page.
    pub(crate) fn manages(&self, page: u32) -> bool {
        self.pages[page as usize].group != NONE
    }

    /// A page has come that is used once, and is nobody's.
    pub(crate) fn admitted_once(&mut self, reference: &Reference) {
        let Reference { page, place, .. } = *reference;
        self.now += 1;
        self.users.of_mut(place.object).resident += 1;
        self.pages[page as usize] = Page { object: place.object, group: NONE };
    }

    /// A reference that found no frame, or that counts for nothing.
    pub(crate) fn passed(&mut self) {
        self.now += 1;
    }

    /// A page is resident no more.
    pub(crate) fn dropped(&mut self, page: u32) {
        self.leave_group(page);
        self.free.remove(page);
        self.users.of_mut(self.pages[page as usize].object).resident -= 1;
    }

    /// A page is unknown from now on.
    pub(crate) fn forgotten(&mut self, page: u32) {
        let from = page as usize * self.earlier_uses;
        self.earlier[from..from + self.earlier_uses].fill(0);
    }

    /// Victims are sought anew: every manager may be asked.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Asks the candidate's manager, who offers the pages in its charge one after the other until one is accepted. A manager
    /// whose pages were all refused in this round is not asked again.
    pub(crate) fn ask<C: Caller>(&mut self, candidate: u32, caller: &mut C) -> Option<u32> {
        let listed = if self.free.is_empty() { None } else { self.take_listed(candidate, caller) };
        self.took_listed = listed.is_some();
        if listed.is_some() {
            return listed;
        }
        let Page { object, group } = self.pages[candidate as usize];
        if group != NONE {
            return self.ask_group(group, candidate, caller);
        }
        // Its file may be managed again since its last use.
        let by_manager = self.known_group(object).and_then(|group| self.ask_group(group, candidate, caller));
        by_manager.or_else(|| caller.evict(candidate).then_some(candidate))
    }

    /// Asks the manager of a group, unless it was asked in this round.
    fn ask_group<C: Caller>(&mut self, number: u32, candidate: u32, caller: &mut C) -> Option<u32> {
        let group = &mut self.groups[number as usize];
        if group.ended {
            return caller.evict(candidate).then_some(candidate);
        }
        if std::mem::replace(&mut group.asked, self.round) == self.round {
            return None;
        }
        let (ranking, Group { root, last, rule, .. }) = (&self.ranking, *group);
        if let Some(Hands { spread }) = self.managers[rule as usize].hands() {
            return self.sweep(number, spread, caller);
        }
        let manager = &self.managers[group.rule as usize];
        if let Manager::Weights(weights) = manager {
            return weights.order(ranking, root, self.now).find(|&page| caller.evict(page));
        }
        let begin = manager.begin(last);
        let wrapped = ranking.down_from(root, u64::MAX).take_while(move |&page| ranking.rank(page) > begin);
        let mut order = ranking.down_from(root, begin).chain(wrapped).peekable();
        // Where no page is needed later than the candidate, the candidate goes.
        let first = order.peek().copied().filter(|&page| ranking.rank(page) == ranking.rank(candidate));
        let candidate = first.map(|_| candidate);
        candidate.into_iter().chain(order.filter(|&page| Some(page) != candidate)).find(|&page| caller.evict(page))
    }

    /// Whether a manager has chosen the last victim, and not an owner's free-list.
    pub(crate) fn chose(&self) -> bool {
        !self.took_listed
    }

    /// It has turned out whether its manager was right to keep a page as a candidate.
    pub(crate) fn judge(&mut self, page: u32, right: bool) {
        if self.revoke == 0 {
            return;
        }
        let Page { object, group } = self.pages[page as usize];
        let number = if group == NONE { self.known_group(object).unwrap_or(NONE) } else { group };
        let Some(group) = self.groups.get_mut(number as usize) else { return };
        group.mistakes = if right { group.mistakes.saturating_sub(1) } else { group.mistakes.saturating_add(1) };
        if group.mistakes >= self.revoke && !group.ended {
            group.ended = true;
            self.charges_ended += 1;
        }
    }

    /// How many managers' charges have ended by their mistakes.
    pub(crate) fn charges_ended(&self) -> u64 {
        self.charges_ended
    }

    /// What comes under a manager, or under an owner's or a file's number, is judged anew.
    fn judge_anew(&mut self, of: impl Fn(&Manager, u32, usize) -> bool) {
        for (rule, groups) in self.of.iter().enumerate() {
            for (index, &number) in groups.iter().enumerate() {
                if let Some(group) = self.groups.get_mut(number as usize)
                    && of(&self.managers[rule], rule as u32, index)
                {
                    (group.mistakes, group.ended) = (0, false);
                }
            }
        }
    }

    /// Takes a victim from the free-list of the candidate's owner.
    fn take_listed<C: Caller>(&mut self, candidate: u32, caller: &mut C) -> Option<u32> {
        let owner_of = |page: u32| self.users.in_charge(self.pages[page as usize].object, self.now).0;
        let owner = owner_of(candidate);
        std::iter::from_fn(|| self.free.take(owner)).find(|&page| owner_of(page) == owner && caller.evict(page))
    }

    /// Does as it is told while the cache runs; `resident` says which pages are.
    pub(crate) fn control(&mut self, control: &Control, resident: impl Fn(u32) -> bool) -> Result<u32, Uncontrolled> {
        match control {
            Control::Manage { owner, object, manager } => {
                let manager = self.number_of(manager.as_ref().unwrap_or(&Manager::Lru), 0)?;
                self.judge_anew(|_, rule, _| rule == manager);
                self.tell(owner.unwrap_or(ANY), object.unwrap_or(ANY), Some(manager));
                self.rules_anew(object.unwrap_or(ANY));
                if let Some(object) = *object {
                    self.agree(object);
                }
                Ok(owner.map_or(0, |owner| self.free.len(owner)))
            }
            Control::Assign { owner, object, charge } => {
                let number = charge.as_ref().map(|Charge { manager, rule, listed }| {
                    let number = self.number_of(manager, *rule)?;
                    self.managers[number as usize].list(*object, *listed);
                    Ok(number)
                });
                self.tell(owner.unwrap_or(ANY), *object, number.transpose()?);
                self.rules_anew(*object);
                Ok(0)
            }
            Control::Agree { object } => {
                self.agree(*object);
                Ok(0)
            }
            Control::Forget { object } => {
                self.told.remove(object);
                self.users.forget(*object);
                self.judge_anew(|manager, _, index| manager.scope() == Scope::File && index == *object as usize);
                Ok(0)
            }
            Control::Open { owner, object } => {
                let opener = owner.map(|owner| (owner, self.rule(owner, *object)));
                let Self { users, managers, .. } = self;
                users.open(*object, opener, |number| is_once(managers, number));
                Ok(0)
            }
            Control::ChargesEnded { object: None } => Ok(u32::try_from(self.charges_ended).unwrap_or(u32::MAX)),
            Control::ChargesEnded { object: Some(object) } => {
                let group = self.known_group(*object).map(|number| self.groups[number as usize]);
                Ok(u32::from(group.is_some_and(|group| group.ended)))
            }
            Control::Close { owner, object } => {
                let Self { users, managers, .. } = self;
                users.close(*object, *owner, |number| is_once(managers, number));
                Ok(0)
            }
            Control::GiveUp { owner, pages } => {
                let numbers = self.pages.len() as u32;
                let Self { pages: known, users, free, now, .. } = self;
                let own = |&page: &u32| {
                    let is_owners = || users.in_charge(known[page as usize].object, *now).0 == *owner;
                    page < numbers && resident(page) && is_owners()
                };
                free.add(*owner, pages.iter().copied().filter(own), numbers);
                Ok(free.len(*owner))
            }
            Control::TakeBack { owner } => {
                self.free.empty(*owner);
                Ok(0)
            }
            Control::Leave { owner } => {
                self.free.empty(*owner);
                let of_owner = |words: &Vec<(u32, u32)>| words.iter().any(|&(of, _)| of == *owner);
                let objects: Vec<u32> =
                    self.told.iter().filter(|(_, words)| of_owner(words)).map(|(&object, _)| object).collect();
                for object in objects {
                    self.tell(*owner, object, None);
                    self.rules_anew(object);
                }
                let Self { users, managers, .. } = self;
                let opened = users.opened_by(*owner);
                opened.into_iter().for_each(|object| users.close(object, *owner, |number| is_once(managers, number)));
                let index_of_owner = owner.wrapping_add(1) as usize;
                self.judge_anew(|manager, _, index| manager.scope() == Scope::Owner && index == index_of_owner);
                Ok(0)
            }
        }
    }

    /// The number of a manager that is in charge from now on, by a rule, or by no rule of its own.
    fn number_of(&mut self, manager: &Manager, rule: u32) -> Result<u32, Uncontrolled> {
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
                (self.managers[free], self.rules[free]) = (manager.clone(), rule);
                // It has no pages.
                self.groups
                    .iter_mut()
                    .filter(|group| group.rule == free as u32)
                    .for_each(|group| *group = Group::new(free as u32));
                free
            }
        };
        self.some_once |= *manager == Manager::AccessOnce;
        self.remember_uses(manager.earlier_uses());
        if *manager != Manager::Lru {
            self.ranking.reserve(self.pages.len() as u32);
        }
        Ok(number as u32)
    }

    /// A manager that came while it ran, and is in charge of nothing any more.
    fn vacant(&self) -> Option<usize> {
        let mut used = vec![false; self.managers.len()];
        used[..=self.default as usize].fill(true);
        let told = self.told.values().flatten().map(|&(_, number)| number);
        let of_files = self.users.all().filter(|file| file.resident > 0 && file.rule != NOBODY).map(|file| file.rule);
        let of_groups = self.groups.iter().filter(|group| group.root != EMPTY).map(|group| group.rule);
        let of_openers = self.users.rules_of_openers();
        told.chain(of_files).chain(of_groups).chain(of_openers).for_each(|number| used[number as usize] = true);
        used.iter().position(|used| !used)
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

    /// Puts a manager in charge, or nobody any more.
    fn tell(&mut self, owner: u32, object: u32, number: Option<u32>) {
        let words = self.told.entry(object).or_default();
        words.retain(|&(of, _)| of != owner);
        words.extend(number.map(|number| (owner, number)));
        if words.is_empty() {
            self.told.remove(&object);
        }
    }

    /// The number of the manager who is in charge where an owner uses a file.
    fn rule(&self, owner: u32, object: u32) -> u32 {
        rule(&self.told, &self.assignment, self.default, (owner, object))
    }

    /// Has the rules hold that are now right for a file, or for all.
    fn rules_anew(&mut self, object: u32) {
        let all = 0..self.users.len();
        // It is changed and looked at in turns.
        let mut users = std::mem::replace(&mut self.users, Users::new(0));
        for object in if object == ANY { all } else { object..object.saturating_add(1).min(all.end) } {
            users.rules_anew(object, self.now, |owner| self.rule(owner, object), |number| self.is_once(number));
        }
        self.users = users;
    }

    /// Puts in charge of a file whom all users name, if it is shared or its user says nothing. Users who use it once are not asked.
    fn agree(&mut self, object: u32) {
        let of_others = self.rule(ANY, object);
        let all_words = self.told.get(&object).map_or(&[][..], |words| words);
        let has_say = |&(owner, number): &(u32, u32)| owner == ANY || !self.is_once(number);
        let words: Vec<(u32, u32)> = all_words.iter().copied().filter(has_say).collect();
        if words.is_empty() && !all_words.is_empty() {
            return;
        }
        let first = words.first().map_or(of_others, |&(_, number)| number);
        let agreed = words.iter().all(|&(_, number)| number == first).then_some(first);
        let owner = self.users.of(object).owner;
        let silent = !words.is_empty() && !words.iter().any(|&(of, _)| of == owner || of == ANY);
        self.users.agree(object, self.now, agreed, silent);
    }

    /// For as many references an owner counts as a file's user after its last use.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.users.set_window(window);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.free.bytes()
            + self.told.capacity() * size_of::<(u32, Vec<(u32, u32)>)>()
            + self.told.values().map(|words| words.capacity() * size_of::<(u32, u32)>()).sum::<usize>()
            + self.users.bytes()
            + self.of.iter().map(|of| of.capacity() * size_of::<u32>()).sum::<usize>()
            + self.groups.capacity() * size_of::<Group>()
            + self.pages.capacity() * size_of::<Page>()
            + self.ranking.bytes()
            + self.earlier.capacity() * size_of::<u64>()
    }

    /// Recounts, given the resident pages.
    pub(crate) fn check(&self, resident: impl Iterator<Item = u32>) {
        self.free.check(); // MG3
        self.users.check();
        let mut counted = vec![0; self.users.len() as usize];
        let mut members = vec![Vec::new(); self.groups.len()];
        for page in resident {
            let Page { object, group } = self.pages[page as usize];
            counted[object as usize] += 1;
            if group != NONE {
                members[group as usize].push(page);
            }
        }
        assert!(self.users.all().map(|file| file.resident).eq(counted)); // MG1
        for (group, mut members) in self.groups.iter().zip(members) {
            let mut ranked: Vec<u32> = self.ranking.down_from(group.root, u64::MAX).collect();
            assert!(ranked.is_sorted_by_key(|&page| std::cmp::Reverse((self.ranking.rank(page), page))));
            members.sort_unstable();
            ranked.sort_unstable();
            assert_eq!(ranked, members); // MG2
            let passed = members.iter().filter(|&&page| hands::is_passed(self.ranking.rank(page), group.front));
            assert_eq!(passed.count(), group.passed as usize); // MG4
        }
    }

    /// An owner uses a file: its own, one that it shares, or one whose users disagree from now on.
    fn count_user(&mut self, owner: u32, object: u32) {
        let Self { users, managers, told, assignment, default, now, .. } = self;
        let rule = || rule(told, assignment, *default, (owner, object));
        users.used((owner, object), *now, rule, |number| is_once(managers, number));
    }

    /// In which group a file's pages come now, by the rule and an index for it; nothing if nobody manages them.
    fn place_of_group(&self, object: u32) -> Option<(u32, u32)> {
        let (owner, rule) = self.users.in_charge(object, self.now);
        match self.managers.get(rule as usize) {
            None | Some(Manager::Lru) => None,
            Some(manager) if manager.scope() == Scope::File => Some((rule, object)),
            Some(_) if self.users.of(object).several => Some((rule, 0)),
            Some(_) => Some((rule, owner.wrapping_add(1))),
        }
    }

    /// The group of a file's pages, if there is one.
    fn known_group(&self, object: u32) -> Option<u32> {
        let (rule, index) = self.place_of_group(object)?;
        self.of[rule as usize].get(index as usize).copied().filter(|&group| group != NONE)
    }

    /// The group of a file's pages, made if there is none yet; `NONE` if nobody manages them.
    fn group(&mut self, object: u32) -> u32 {
        let Some((rule, index)) = self.place_of_group(object) else { return NONE };
        let of = &mut self.of[rule as usize];
        lengthen(of, index as usize + 1, NONE);
        let group = &mut of[index as usize];
        if *group == NONE {
            *group = self.groups.len() as u32;
            lengthen(&mut self.groups, *group as usize + 1, Group::new(rule));
        }
        *group
    }

    fn enter_group(&mut self, number: u32, page: u32, rank: u64) {
        let group = &mut self.groups[number as usize];
        self.ranking.insert(&mut group.root, page, rank);
        group.passed += u32::from(hands::is_passed(rank, group.front));
    }

    /// Which group a page leaves, and its rank there.
    fn leave_group(&mut self, page: u32) -> Option<(u32, u64)> {
        let number = self.pages[page as usize].group;
        let group = self.groups.get_mut(number as usize)?;
        let rank = self.ranking.rank(page);
        self.ranking.remove(&mut group.root, page);
        group.passed -= u32::from(hands::is_passed(rank, group.front));
        Some((number, rank))
    }

    /// Goes round in the circle of a group until a page is given up, twice at most.
    fn sweep<C: Caller>(&mut self, number: u32, spread: u32, caller: &mut C) -> Option<u32> {
        for _ in 0..2 {
            let begun = self.stamp;
            loop {
                self.advance_front(number, spread);
                let root = self.groups[number as usize].root;
                let next = self.ranking.down_from(root, u64::MAX).next();
                let Some(page) = next.filter(|&page| hands::stamp(self.ranking.rank(page)) <= begun) else { break };
                let rank = self.ranking.rank(page);
                if !hands::is_used(rank) && caller.evict(page) {
                    return Some(page);
                }
                self.leave_group(page);
                self.stamp += 1;
                let behind = hands::behind(self.stamp);
                // Where a hand ahead clears the bit it stays set until then.
                self.enter_group(number, page, if spread > 0 { behind | (rank ^ hands::clear(rank)) } else { behind });
            }
        }
        None
    }

    /// The hand ahead clears reference bits until it is as many pages ahead as it is to be, or has passed all.
    fn advance_front(&mut self, number: u32, spread: u32) {
        while self.groups[number as usize].passed < spread {
            let Group { root, front, .. } = self.groups[number as usize];
            let below = hands::clear(front).saturating_sub(1);
            let Some(page) = self.ranking.down_from(root, below).next() else { return };
            let rank = hands::clear(self.ranking.rank(page));
            self.ranking.clear_lowest_bit(page);
            let group = &mut self.groups[number as usize];
            (group.front, group.passed) = (rank, group.passed + 1);
        }
    }
}

fn is_once(managers: &[Manager], number: u32) -> bool {
    managers.get(number as usize) == Some(&Manager::AccessOnce)
}

/// The number of the manager who is in charge where an owner uses a file.
fn rule(told: &Told, assignment: &Assignment, default: u32, (owner, object): (u32, u32)) -> u32 {
    if !told.is_empty() {
        let of_object = |object: u32| {
            let words = told.get(&object)?;
            let of = |owner: u32| words.iter().find(|word| word.0 == owner);
            of(owner).or_else(|| of(ANY)).map(|&(_, number)| number)
        };
        if let Some(number) = of_object(object).or_else(|| of_object(ANY)) {
            return number;
        }
    }
    assignment.rule(owner, object).unwrap_or(default)
}
