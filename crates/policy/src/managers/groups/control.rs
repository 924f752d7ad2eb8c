//! Commands while the cache runs: what each of them changes.

use super::Groups;
use super::charge::{ANY, Word};
use crate::control::{Charge, Control, Uncontrolled};
use crate::managers::users::Numbers;
use crate::managers::{Manager, Scope};

impl Groups {
    /// Carries out a control while the cache runs; `resident` says which pages are.
    pub(crate) fn control(&mut self, control: &Control, resident: impl Fn(u32) -> bool) -> Result<u32, Uncontrolled> {
        match control {
            Control::Manage { owner, object, manager } => {
                let manager = self.number_of(manager.as_ref().unwrap_or(&Manager::Lru), 0)?;
                self.judge_anew(|_, rule, _| rule == manager);
                self.tell(owner.unwrap_or(ANY), object.unwrap_or(ANY), Some((manager, 0)));
                self.rules_anew(object.unwrap_or(ANY));
                if let Some(object) = *object {
                    self.agree(object);
                }
                Ok(owner.map_or(0, |owner| self.free.len(owner)))
            }
            Control::Assign { owner, object, charge } => {
                let charge = charge.as_ref().map(|Charge { manager, rule, listed }| {
                    let number = self.number_of(manager, *rule)?;
                    self.managers[number as usize].list(*object, *listed);
                    Ok((number, *rule))
                });
                let charge = charge.transpose()?;
                let before = self.tell(owner.unwrap_or(ANY), *object, charge);
                // Other rules: owners cannot change these themselves.
                if let (Some(owner), Some((_, rule))) = (*owner, charge)
                    && rule != before
                    && rule != 0
                    && before != 0
                {
                    self.judge_owner_anew(owner);
                }
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
                users.open(*object, opener, Numbers(managers));
                Ok(0)
            }
            Control::ChargesEnded { object: None } => Ok(u32::try_from(self.charges_ended).unwrap_or(u32::MAX)),
            Control::ChargesEnded { object: Some(object) } => {
                let group = self.known_group(*object).map(|number| self.groups[number as usize]);
                Ok(u32::from(group.is_some_and(|group| group.ended)))
            }
            Control::Close { owner, object } => {
                let Self { users, managers, .. } = self;
                users.close(*object, *owner, Numbers(managers));
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
                let of_owner = |words: &Vec<Word>| words.iter().any(|word| word.owner == *owner);
                let objects: Vec<u32> =
                    self.told.iter().filter(|(_, words)| of_owner(words)).map(|(&object, _)| object).collect();
                for object in objects {
                    self.tell(*owner, object, None);
                    self.rules_anew(object);
                }
                let Self { users, managers, .. } = self;
                let opened = users.opened_by(*owner);
                opened.into_iter().for_each(|object| users.close(object, *owner, Numbers(managers)));
                self.judge_owner_anew(*owner);
                Ok(0)
            }
        }
    }
}
