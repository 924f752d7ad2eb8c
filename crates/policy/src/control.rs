//! Commands to a running policy that has managers: the menu and the free-lists of the paper's section on user-kernel
//! interaction (Cao, Felten and Li, USENIX Summer 1994). Priorities of files are its manager with relative weights.

use crate::managers::{Listed, Manager};
use std::fmt;

/// A command to a policy that has managers.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// This manager is in charge from now on where this owner uses this file, before the rules given at the start; `None` is any.
    /// Without a manager the owner abdicates: the kernel's default, LRU, decides. A page goes to its new manager at its next use. A file
    /// whose users had not agreed stays LRU's until no page of it is resident, or until they agree.
    Manage {
        /// Whose uses.
        owner: Option<u32>,
        /// Of which file.
        object: Option<u32>,
        /// Who is in charge.
        manager: Option<Manager>,
    },
    /// A list of rules that the caller keeps puts somebody in charge where this owner uses this file.
    Assign {
        /// Whose uses; `None`: of all for whom nobody is in charge otherwise.
        owner: Option<u32>,
        /// Of which file.
        object: u32,
        /// Who is in charge; `None`: nobody any more.
        charge: Option<Charge>,
    },
    /// Users of a file have changed their minds. If all that was said of them names one manager, they agree on it from now on, also where
    /// its pages are an owner's of whom nothing was said. A user who does not agree ends that at the next use.
    Agree {
        /// Which file.
        object: u32,
    },
    /// Reports an open of a file. From the first report on, only owners that have the file open are its users; a file that no owner has open
    /// stays whose it was.
    Open {
        /// An owner that has it open from now on; `None`: no owner has it open yet.
        owner: Option<u32>,
        /// Which file.
        object: u32,
    },
    /// An owner has a file open no more.
    Close {
        /// Who.
        owner: u32,
        /// Which file.
        object: u32,
    },
    /// How many managers have lost their charge by their mistakes is asked, or whether that of one file has.
    ChargesEnded {
        /// Of which file; `None`: how many.
        object: Option<u32>,
    },
    /// The file has gone: what was said of its users is dropped.
    Forget {
        /// Which file.
        object: u32,
    },
    /// The owner's free-list gets those of these pages that are its own and resident: whenever a page of the owner's is to go, they go first,
    /// in this order. One that is used again is on it no more.
    GiveUp {
        /// Whose pages.
        owner: u32,
        /// The pages' numbers.
        pages: Vec<u32>,
    },
    /// The owner's free-list is emptied.
    TakeBack {
        /// Whose.
        owner: u32,
    },
    /// The owner has gone: its managers and its free-list are dropped.
    Leave {
        /// Who.
        owner: u32,
    },
}

/// Who is in charge by a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// The manager.
    pub manager: Manager,
    /// The rule's number for the caller; 0 is no rule. Equal managers are one, but each rule whose manager lists files has a list of its own.
    /// An owner that another rule names is judged anew, if mistakes end a manager's charge.
    pub rule: u32,
    /// What the rule lists the file as, for managers that have a list of files.
    pub listed: Option<Listed>,
}

/// Why a policy refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncontrolled {
    /// It has no managers.
    NoManagers,
    /// That manager must know the references to come.
    NeedsFuture,
    /// The most managers are in use.
    TooMany,
    /// It has panicked, and a built-in order decides.
    Panicked,
}

impl fmt::Display for Uncontrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoManagers => "it takes no managers: run lru-sp",
            Self::NeedsFuture => "that manager needs to know the future: it can be simulated, not run",
            Self::TooMany => "the most different managers are in use: let an owner leave first",
            Self::Panicked => "it panicked again: the cache goes on under a built-in order, and has lost no data",
        })
    }
}

impl std::error::Error for Uncontrolled {}
