//! Commands to a running policy that has managers: the menu and the free-lists of the paper's section on user-kernel
//! interaction (Cao, Felten and Li, USENIX Summer 1994). Priorities of files are its manager with relative weights.

use crate::managers::Manager;
use std::fmt;

/// A command to a policy that has managers.
#[derive(Clone, Debug, PartialEq)]
pub enum Control {
    /// This manager is in charge from now on where this owner uses this file, before the rules given at the start; `None` is any.
    /// Without a manager the owner abdicates: the kernel's default, LRU, decides. A page goes to its new manager at its next use. A file
    /// whose users had not agreed stays LRU's until no page of it is resident.
    Manage {
        /// Whose uses.
        owner: Option<u32>,
        /// Of which file.
        object: Option<u32>,
        /// Who is in charge.
        manager: Option<Manager>,
    },
    /// The owner's free-list gets these pages: whenever a page of the owner's is to go, they go first, in this order. One that is used again
    /// is on it no more.
    GiveUp {
        /// Whose pages.
        owner: u32,
        /// The pages' numbers.
        pages: Vec<u32>,
    },
    /// The owner has gone: its managers and its free-list are dropped.
    Leave {
        /// Who.
        owner: u32,
    },
}

/// Why a policy refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncontrolled {
    /// It has no managers.
    NoManagers,
    /// That manager must know the references to come.
    NeedsFuture,
    /// It keeps fewer uses of each page than that manager looks at.
    TooFewUses,
    /// The most managers are in use.
    TooMany,
}

impl fmt::Display for Uncontrolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoManagers => "it takes no managers: run lru-sp",
            Self::NeedsFuture => "that manager needs to know the future: it can be simulated, not run",
            Self::TooFewUses => {
                "it keeps fewer uses of each page than that manager needs: start it with such a manager"
            }
            Self::TooMany => "the most different managers are in use: let an owner leave first",
        })
    }
}

impl std::error::Error for Uncontrolled {}
