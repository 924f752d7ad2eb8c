//! Linux's active list (the paper's section 4.1): DULO orders the inactive list alone.
//!
//! ```text
//!                used again                          not used since
//! inactive list ------------> head [ active list ] tail ------------> head of the inactive list: the correlation buffer
//! ```
//!
//! A page of a file becomes active when it is used again. The use of a process's page sets a bit alone, and it becomes active when it has come to the tail of the
//! inactive list, in place of leaving.
//!
//! Each victim takes `active / (2 (inactive + 1))` pages off the tail, as in the policy `linux`, and more while the inactive list is shorter than
//! twice the eviction section: the paper's change of `refill_inactive_zone`.

use super::stack::{At, Block, STEP};
use crate::parts::list::{List, Nodes};

/// How many times the inactive list the active one is to be.
const RATIO: f64 = 2.0;

#[derive(Debug)]
pub(super) struct Active {
    /// Whether pages are used by calls, as those of files are, or by processes.
    pub(super) by_calls: bool,
    /// DX1. Its blocks are at [`At::Active`]; one that is young has been used since it came to the head.
    list: List,
    /// The part of a page that is still due, below 1.
    due: f64,
}

impl Active {
    pub(super) fn new(by_calls: bool) -> Self {
        Self { by_calls, list: List::new(), due: 0.0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.list.len()
    }

    /// `activate_page`, its referenced bit clear.
    pub(super) fn push(&mut self, nodes: &mut Nodes<Block>, slot: u32) {
        (nodes[slot].at, nodes[slot].young) = (At::Active, false);
        self.list.push_front(nodes, slot);
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes<Block>, slot: u32) {
        self.list.remove(nodes, slot);
    }

    /// How many pages are to be made inactive for one victim.
    pub(super) fn due(&mut self, inactive: u32, section: u32) -> u32 {
        let due = self.due + f64::from(self.len()) / (RATIO * f64::from(inactive + 1));
        self.due = due.fract();
        (due as u32).max((2 * section).saturating_sub(inactive).min(STEP)).min(self.len())
    }

    /// Takes the page off that is made inactive next, if there is one. Each page that it spares has been used since it was spared before.
    pub(super) fn pop(&mut self, nodes: &mut Nodes<Block>) -> Option<u32> {
        while let Some(slot) = self.list.back() {
            self.list.remove(nodes, slot);
            if !std::mem::take(&mut nodes[slot].young) {
                return Some(slot);
            }
            self.list.push_front(nodes, slot);
        }
        None
    }

    /// From the head on.
    pub(super) fn pages<'a>(&self, nodes: &'a Nodes<Block>) -> impl Iterator<Item = u32> + use<'a> {
        self.list.front_to_back(nodes)
    }

    pub(super) fn check(&self, nodes: &Nodes<Block>) {
        self.list.check(nodes);
        assert!(self.list.back_to_front(nodes).all(|slot| nodes[slot].at == At::Active)); // DX1
        assert!((0.0..1.0).contains(&self.due));
    }
}
