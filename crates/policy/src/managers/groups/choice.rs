//! Which page goes: an owner's free-list comes before its manager, whose order the ranking has, or a circle.

use super::{Group, Groups, NONE, Page};
use crate::managers::Manager;
use crate::managers::hands::{self, Hands};
use crate::policy::Caller;

impl Groups {
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

    /// Takes a victim from the free-list of the candidate's owner.
    fn take_listed<C: Caller>(&mut self, candidate: u32, caller: &mut C) -> Option<u32> {
        let owner_of = |page: u32| self.users.in_charge(self.pages[page as usize].object, self.now).0;
        let owner = owner_of(candidate);
        std::iter::from_fn(|| self.free.take(owner)).find(|&page| owner_of(page) == owner && caller.evict(page))
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
