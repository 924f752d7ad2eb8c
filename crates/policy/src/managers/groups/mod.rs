//! Whose pages are whose: the files' users, and the groups of pages under one manager.
//!
//! A file belongs to the owner that uses it. While several owners use it it is shared (`users.rs`): if equal managers are in charge of all,
//! one keeps the shared files in a group of their own; if not, nobody manages it. A page changes its group at its next
//! use, so that sharing costs nothing but then. Until that use the file's manager may spare a page that is in no group, as a candidate.
//!
//! An owner under access-once that uses another owner's file does not count as a user of it. A file that has had no other users is the next
//! user's ([`is_only_use`](Groups::is_only_use)).
//!
//! Word that comes while the cache runs (`control.rs`) goes before the assignment: a rule of its own for an owner, a file or both, and a
//! free-list for each owner that has one.
//!
//! What is kept by the numbers of owners and files stays when the last page leaves, but means nothing then: a file without resident
//! pages has no owner, and its group is empty. So a caller that opens many files gives their numbers again.
//!
//! Memory: 24 bytes a page, 8 more for each earlier use that an LRU-K wants; 40 bytes a file; 48 bytes a group, and for
//! each rule 4 bytes an owner (or file, where the rule chooses within files).
//!
//! ```text
//! mod        references, and the groups of pages
//! choice     which page goes
//! charge     whose managers are in charge
//! control    commands while the cache runs
//! judgement  managers that are wrong too often
//! ```

mod charge;
mod choice;
mod control;
mod judgement;

use super::free_lists::FreeLists;
use super::hands;
use super::ranking::{EMPTY, Ranking};
use super::users::{File, Numbers, Users};
use super::{Assignment, Manager, Scope, Use};
use crate::parts::growth::lengthen;
use crate::parts::prefetch::prefetch;
use crate::policy::{Future, NEVER, Reference, Setup};
use charge::{Told, Word, rule};
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
    /// The number of the manager of those for whom the assignment has none.
    default: u32,
    /// Rules that came while it runs, by object: the owner, and the manager's number. `ANY` is any of both.
    told: Told,
    /// By manager: the number of the rule that has this instance, 0 for none.
    rules: Vec<u32>,
    /// Whether one of the managers is access-once or no-reuse.
    some_once: bool,
    /// After this many mistakes beyond the decisions that proved right a manager's charge ends; 0: never. How many have ended so.
    revoke: u32,
    charges_ended: u64,
    /// Whether the last victim came from a free-list.
    took_listed: bool,
    /// MG3. The pages to go first, of each owner that has said so: resident ones.
    free: FreeLists,
}

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
        let default = assignment.default.clone().unwrap_or(default);
        let of_rule = managers.iter().position(|manager| *manager == default);
        managers.push(default);
        let future = setup.future.clone();
        let needs_future = managers.iter().any(Manager::needs_future);
        assert!(future.is_some() || !needs_future, "an off-line manager is given the future");
        let mut groups = Self {
            default: of_rule.unwrap_or(managers.len() - 1) as u32,
            told: HashMap::new(),
            rules: vec![0; managers.len()],
            some_once: managers.iter().any(|manager| matches!(manager, Manager::AccessOnce | Manager::NoReuse)),
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

    /// Whether this counts as no use: the owner is under no-reuse, or it is under access-once and the page is another owner's. Users that agree on
    /// access-once manage their file together, by one rule or by several.
    pub(crate) fn is_only_use(&self, reference: &Reference) -> bool {
        if !self.some_once {
            return false;
        }
        let (owner, object) = (reference.owner, reference.place.object);
        let own = self.rule(owner, object);
        if self.numbers().is_no_reuse(own) {
            return true;
        }
        let File { owner: of, rule, resident, .. } = self.users.of(object);
        if resident == 0 || of == owner {
            return false;
        }
        self.is_once(own) && !self.numbers().agree(own, rule)
    }

    /// Whether that number is a manager's that counts for no user of a file beside others.
    fn is_once(&self, number: u32) -> bool {
        self.numbers().is_once(number)
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

    /// A resident page is nobody's from now on.
    pub(crate) fn set_apart(&mut self, page: u32) {
        self.leave_group(page);
        self.free.remove(page);
        self.pages[page as usize].group = NONE;
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

    /// For as many references an owner counts as a file's user after its last use.
    pub(crate) fn set_window(&mut self, window: u64) {
        self.users.set_window(window);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.free.bytes()
            + self.told.capacity() * size_of::<(u32, Vec<Word>)>()
            + self.told.values().map(|words| words.capacity() * size_of::<Word>()).sum::<usize>()
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
        users.used((owner, object), *now, rule, Numbers(managers));
    }

    /// In which group a file's pages come now, by the rule and an index for it; nothing if nobody manages them.
    fn place_of_group(&self, object: u32) -> Option<(u32, u32)> {
        let (owner, rule) = self.users.in_charge(object, self.now);
        match self.managers.get(rule as usize) {
            None | Some(Manager::Lru) => None,
            Some(manager) if manager.scope() == Scope::File => Some((rule, object)),
            Some(_) if self.users.of(object).several => Some((rule, 0)),
            Some(_) => Some((rule, index_of(owner))),
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
        if of[index as usize] == NONE {
            let number = self.groups.len();
            of[index as usize] = number as u32;
            lengthen(&mut self.groups, number + 1, Group::new(rule));
            let by_owner = self.managers[rule as usize].scope() == Scope::Owner;
            self.groups[number].ended = by_owner && self.has_ended(index);
        }
        self.of[rule as usize][index as usize]
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
}

/// Behind 0, where the shared files are: the index of an owner's groups.
fn index_of(owner: u32) -> u32 {
    owner.wrapping_add(1)
}
