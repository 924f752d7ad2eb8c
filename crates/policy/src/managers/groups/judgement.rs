//! Managers that are wrong too often lose their charge (`revoke` of the policy).

use super::{Groups, NONE, Page, index_of};
use crate::managers::{Manager, Scope};

impl Groups {
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
    pub(super) fn judge_anew(&mut self, of: impl Fn(&Manager, u32, usize) -> bool) {
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
    /// An owner is judged anew, whichever managers it has.
    pub(super) fn judge_owner_anew(&mut self, owner: u32) {
        let numbers: Vec<u32> = self.of_owner(index_of(owner)).collect();
        for number in numbers {
            let group = &mut self.groups[number as usize];
            (group.mistakes, group.ended) = (0, false);
        }
    }

    /// Whether the charge of the owner with this index of groups has ended under some manager. Then no other manager of its choice begins
    /// anew.
    pub(super) fn has_ended(&self, index: u32) -> bool {
        self.charges_ended > 0 && self.of_owner(index).any(|number| self.groups[number as usize].ended)
    }

    /// An owner's groups, one a manager at most.
    fn of_owner(&self, index: u32) -> impl Iterator<Item = u32> {
        let of_owners = self.of.iter().zip(&self.managers).filter(|(_, manager)| manager.scope() == Scope::Owner);
        of_owners.filter_map(move |(groups, _)| groups.get(index as usize).copied().filter(|&number| number != NONE))
    }
}
