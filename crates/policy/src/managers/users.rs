//! Whose a file is: the owner that uses it, or several that use it at the same time.
//!
//! The paper: "if several processes have the same file open simultaneously, then it is up to these processes to agree on a manager". A
//! caller that sees opens and closes reports them ([`open`](Users::open), [`close`](Users::close)); then nothing else counts. Elsewhere, as
//! in traces, an owner is a user for `window` references after its last use of the file.
//!
//! Whose a file is says whose pages are given up, and who may give them up. Files that owners of one manager have used one after the other stay
//! in the charge of that manager's instance for shared files, which knows more than that of the last of them alone ([`File::several`]).
//!
//! Two times a file are enough to know that exactly: of the users but the last one, and of those under another rule than the last one's,
//! only the latest use decides. Both change when another owner than the last one uses the file.
//!
//! Each use takes constant time; opening and closing, time in proportion to the owners that have the file open.
//!
//! Memory: 40 bytes a file, 16 for each owner that is said to have it open.

use super::Manager;
use super::lru::NOBODY;
use crate::parts::growth::lengthen;
use std::collections::HashMap;

/// In place of an owner: there is none, or there are several.
pub(super) const SHARED: u32 = u32::MAX;

/// Times of uses. They count from 1.
const NEVER: u64 = 0;
/// Now, and in all times to come.
const ALWAYS: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Whose it was last, and the number of its manager.
    pub(super) owner: u32,
    pub(super) rule: u32,
    /// Its resident pages (MG1 of the groups). Without any, it is nobody's.
    pub(super) resident: u32,
    /// The caller reports its opens and closes.
    stated: bool,
    /// Owners under this rule have used it, and more than one, while pages of it were resident.
    pub(super) several: bool,
    /// When its owner used it, when another did, and when one did that has another manager.
    last: u64,
    other: u64,
    disputed: u64,
}

/// An owner that has a file open, and the number of its manager.
#[derive(Clone, Copy, Debug)]
struct Opener {
    owner: u32,
    rule: u32,
}

/// The managers, by their numbers.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a>(pub(super) &'a [Manager]);

impl Numbers<'_> {
    /// Whether it is that of a manager that counts for no user beside others.
    pub(super) fn is_once(self, number: u32) -> bool {
        matches!(self.0.get(number as usize), Some(Manager::AccessOnce | Manager::NoReuse))
    }

    /// Whether it is that of a manager whose owners' uses never count.
    pub(super) fn is_no_reuse(self, number: u32) -> bool {
        self.0.get(number as usize) == Some(&Manager::NoReuse)
    }

    /// Whether users of one file under these managers agree: they are equal. Two that list files have lists of their own.
    pub(super) fn agree(self, one: u32, other: u32) -> bool {
        let manager = |number: u32| self.0.get(number as usize);
        one == other || manager(one).is_some_and(|manager| !manager.lists_files()) && manager(one) == manager(other)
    }
}

#[derive(Debug)]
pub(super) struct Users {
    files: Vec<File>,
    /// US1. By file; no list is empty, each owner is in it once, and the file's `stated` is set.
    open: HashMap<u32, Vec<Opener>>,
    window: u64,
}

impl File {
    pub(super) const NONE: Self = Self {
        owner: SHARED,
        rule: NOBODY,
        resident: 0,
        stated: false,
        several: false,
        last: NEVER,
        other: NEVER,
        disputed: NEVER,
    };

    /// Another owner has it, under the manager of this number; if that agrees with the one before, its pages stay where they are.
    fn pass_to(&mut self, owner: u32, rule: u32, numbers: Numbers<'_>) {
        let agree = self.resident > 0 && self.owner != SHARED && numbers.agree(rule, self.rule);
        self.several = agree && (self.several || owner != self.owner);
        if !(agree && owner != self.owner) {
            self.rule = rule;
        }
        self.owner = owner;
    }
}

impl Users {
    pub(super) fn new(window: u64) -> Self {
        Self { files: Vec::new(), open: HashMap::new(), window }
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    pub(super) fn of(&self, object: u32) -> File {
        self.files.get(object as usize).copied().unwrap_or(File::NONE)
    }

    /// The number of files that were ever known.
    pub(super) fn len(&self) -> u32 {
        self.files.len() as u32
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The numbers of managers of owners that have files open.
    pub(super) fn rules_of_openers(&self) -> impl Iterator<Item = u32> {
        self.open.values().flatten().map(|opener| opener.rule)
    }

    pub(super) fn of_mut(&mut self, object: u32) -> &mut File {
        lengthen(&mut self.files, object as usize + 1, File::NONE);
        &mut self.files[object as usize]
    }

    fn is_recent(&self, time: u64, now: u64) -> bool {
        time != NEVER && now.saturating_sub(time) <= self.window
    }

    /// Whose a file is now, and the number of the manager in charge of it; [`SHARED`] and [`NOBODY`] if it is several owners', and if these do
    /// not agree.
    pub(super) fn in_charge(&self, object: u32, now: u64) -> (u32, u32) {
        let file = self.of(object);
        if self.is_recent(file.disputed, now) {
            (SHARED, NOBODY)
        } else if self.is_recent(file.other, now) {
            (SHARED, file.rule)
        } else {
            (file.owner, file.rule)
        }
    }

    /// Whether several owners use a file.
    fn is_shared(&self, object: u32, now: u64) -> bool {
        self.is_recent(self.of(object).other, now)
    }

    /// An owner uses a file. `rule` is the number of its manager.
    pub(super) fn used(
        &mut self,
        (owner, object): (u32, u32),
        now: u64,
        rule: impl FnOnce() -> u32,
        numbers: Numbers<'_>,
    ) {
        let file = self.of_mut(object);
        if file.stated {
            if file.resident == 0 {
                self.settle(object, numbers);
            }
            return;
        }
        if file.resident == 0 || file.owner != owner {
            let rule = rule();
            let agree = numbers.agree(rule, file.rule);
            if file.resident == 0 || (!agree && numbers.is_once(file.rule)) {
                (file.other, file.disputed) = (NEVER, NEVER);
            } else {
                file.other = file.last;
                if !agree {
                    file.disputed = file.last;
                }
            }
            file.pass_to(owner, rule, numbers);
        }
        file.last = now;
    }

    /// Reports an open: from now on only openers are users of the file. `opener`: the owner, and the number of its manager.
    pub(super) fn open(&mut self, object: u32, opener: Option<(u32, u32)>, numbers: Numbers<'_>) {
        self.of_mut(object).stated = true;
        if let Some((owner, rule)) = opener {
            let openers = self.open.entry(object).or_default();
            openers.retain(|opener| opener.owner != owner);
            openers.push(Opener { owner, rule });
        }
        self.settle(object, numbers);
    }

    /// An owner has a file open no more.
    pub(super) fn close(&mut self, object: u32, owner: u32, numbers: Numbers<'_>) {
        if let Some(openers) = self.open.get_mut(&object) {
            openers.retain(|opener| opener.owner != owner);
            if openers.is_empty() {
                self.open.remove(&object);
            }
            self.settle(object, numbers);
        }
    }

    /// The files that an owner has open.
    pub(super) fn opened_by(&self, owner: u32) -> Vec<u32> {
        let of_owner = |openers: &Vec<Opener>| openers.iter().any(|opener| opener.owner == owner);
        self.open.iter().filter(|(_, openers)| of_owner(openers)).map(|(&object, _)| object).collect()
    }

    /// A file has gone: its number may come back as another's.
    pub(super) fn forget(&mut self, object: u32) {
        self.open.remove(&object);
        if let Some(file) = self.files.get_mut(object as usize) {
            *file = File { resident: file.resident, ..File::NONE };
        }
    }

    /// The managers in charge of a file's users have changed: `rule` has the number of each owner's.
    pub(super) fn rules_anew(&mut self, object: u32, now: u64, rule: impl Fn(u32) -> u32, numbers: Numbers<'_>) {
        let File { owner, stated, resident, .. } = self.of(object);
        if stated {
            self.open.get_mut(&object).into_iter().flatten().for_each(|opener| opener.rule = rule(opener.owner));
        }
        if resident > 0 && owner != SHARED && !self.is_shared(object, now) {
            let (file, rule) = (&mut self.files[object as usize], rule(owner));
            file.several &= numbers.agree(rule, file.rule);
            file.rule = rule;
        }
        if stated {
            self.settle(object, numbers);
        }
    }

    /// Users of a file whose openers are not stated have changed their minds: `agreed` is the number that all of them name, if they do.
    /// `silent`: nothing was said of the file's owner.
    pub(super) fn agree(&mut self, object: u32, now: u64, agreed: Option<u32>, silent: bool) {
        let shared = self.is_shared(object, now);
        let Some(file) = self.files.get_mut(object as usize).filter(|file| file.resident > 0 && !file.stated) else {
            return;
        };
        match agreed {
            Some(rule) if shared => (file.rule, file.disputed, file.several) = (rule, NEVER, true),
            // Whose pages they are has nothing to say any more.
            Some(rule) if silent => (file.rule, file.other, file.several) = (rule, now, true),
            None if shared => file.disputed = now,
            _ => {}
        }
    }

    /// A file is its openers': of those that use it once only if there are no others, and nobody else has pages of it. One that nobody
    /// has open stays whose it was.
    fn settle(&mut self, object: u32, numbers: Numbers<'_>) {
        let openers = self.open.get(&object).map_or(&[][..], |openers| openers);
        let file = &mut self.files[object as usize];
        let of_others = file.resident > 0 && file.owner != SHARED && !numbers.is_once(file.rule);
        let usual = || openers.iter().filter(|opener| !numbers.is_once(opener.rule));
        let once = || openers.iter().filter(|opener| numbers.is_once(opener.rule));
        let count = |all: &mut dyn Iterator<Item = &Opener>| {
            let first = *all.next()?;
            let (mut more, mut agree) = (false, true);
            all.for_each(|opener| (more, agree) = (true, agree && numbers.agree(opener.rule, first.rule)));
            Some((first, more, agree))
        };
        let counted = count(&mut usual()).or_else(|| if of_others { None } else { count(&mut once()) });
        (file.other, file.disputed) = (NEVER, NEVER);
        if let Some((first, more, agree)) = counted {
            file.pass_to(first.owner, first.rule, numbers);
            file.several |= more && agree;
            (file.other, file.disputed) = (if more { ALWAYS } else { NEVER }, if agree { NEVER } else { ALWAYS });
        } else if file.resident == 0 {
            (file.owner, file.rule, file.several) = (SHARED, NOBODY, false);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.files.capacity() * size_of::<File>()
            + self.open.capacity() * size_of::<(u32, Vec<Opener>)>()
            + self.open.values().map(|openers| openers.capacity() * size_of::<Opener>()).sum::<usize>()
    }

    pub(super) fn check(&self) {
        for (&object, openers) in &self.open {
            let mut owners: Vec<u32> = openers.iter().map(|opener| opener.owner).collect();
            owners.sort_unstable();
            assert!(!owners.is_empty() && owners.is_sorted_by(|one, two| one < two) && self.of(object).stated); // US1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: u32 = 3;
    /// Of owners: the first two agree.
    const RULES: [u32; 4] = [0, 0, 1, 2];

    /// None is equal to another, and none counts for no user.
    const MANAGERS: Numbers<'static> = Numbers(&[Manager::Mru, Manager::SameOrder, Manager::Sequential]);

    proptest! {
        #[test]
        fn two_times_of_a_file_say_as_much_as_the_last_uses_of_all_owners(
            window in 0u64..12,
            uses in prop::collection::vec((0u32..4, 1u64..6), 1..60),
        ) {
            let (mut users, mut now) = (Users::new(window), 0);
            let mut last = [None; 4];
            for (owner, after) in uses {
                // Other files are used meanwhile.
                now += after;
                users.used((owner, FILE), now, || RULES[owner as usize], MANAGERS);
                users.of_mut(FILE).resident = 1;
                last[owner as usize] = Some(now);
                for at in now..now + after {
                    let counts = |&other: &u32| {
                        other == owner || last[other as usize].is_some_and(|time| at - time <= window)
                    };
                    let counted: Vec<u32> = (0..4).filter(counts).collect();
                    let rule = RULES[owner as usize];
                    let agree = counted.iter().all(|&other| RULES[other as usize] == rule);
                    let expected = match counted.len() {
                        1 => (owner, rule),
                        _ if agree => (SHARED, rule),
                        _ => (SHARED, NOBODY),
                    };
                    prop_assert_eq!(users.in_charge(FILE, at), expected);
                }
            }
        }

        #[test]
        fn those_who_have_a_file_open_are_its_users_and_nobody_else(
            steps in prop::collection::vec((0u32..4, any::<bool>()), 1..40),
        ) {
            let (mut users, mut open) = (Users::new(1000), Vec::new());
            users.open(FILE, None, MANAGERS);
            users.of_mut(FILE).resident = 1;
            for (now, (owner, opens)) in (1..).zip(steps) {
                open.retain(|&other| other != owner);
                if opens {
                    open.push(owner);
                    users.open(FILE, Some((owner, RULES[owner as usize])), MANAGERS);
                } else {
                    users.close(FILE, owner, MANAGERS);
                }
                users.used((owner, FILE), now, || panic!("uses say nothing"), MANAGERS);
                users.check();
                let rules: Vec<u32> = open.iter().map(|&owner| RULES[owner as usize]).collect();
                let in_charge = users.in_charge(FILE, now);
                match (open.as_slice(), rules.iter().all(|&rule| rule == rules[0])) {
                    ([], _) => prop_assert!(in_charge.0 == SHARED || in_charge.1 == RULES[in_charge.0 as usize]),
                    (&[owner], _) => prop_assert_eq!(in_charge, (owner, rules[0])),
                    (_, true) => prop_assert_eq!(in_charge, (SHARED, rules[0])),
                    (_, false) => prop_assert_eq!(in_charge, (SHARED, NOBODY)),
                }
            }
        }
    }
}
