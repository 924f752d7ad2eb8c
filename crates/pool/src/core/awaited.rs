//! Which pages' uses the policy waits to see, for a memory that learns of no others, and for a front end that need not tell of others.
//!
//! Where the bytes lie in a program's address space a use of a mapped page is seen by nobody. The policy says when it has cleared a page's reference
//! bit; the memory takes the page's mapping away, and its next use is a fault. A page whose bit is set stays mapped: its uses change nothing.

use crate::core::Core;
use crate::core::replacer::{Replacer, place_of};

impl Replacer {
    /// After the page's admission: whether its next use is to be seen. Whoever tells of uses tells of the first one in any case.
    pub(crate) fn note_admitted(&mut self, core: &Core, number: u32) {
        if self.awaits_uses {
            self.note_awaited(core, number);
        }
    }

    /// After a hit: whether its next use is to be seen.
    pub(crate) fn note_awaited(&mut self, core: &Core, number: u32) {
        if !self.notes_awaited() {
            return;
        }
        let page = core.pages.get(number);
        if !page.state().absent() {
            let awaited = self.call(core, |policy, _| policy.awaits_use(number));
            if self.awaits_uses {
                core.memory.await_use(page.frame(), awaited);
            }
            if self.announces_awaited {
                // The first use of what was read ahead is counted.
                self.awaited.push((place_of(core, number), awaited || page.state().ahead()));
            }
        }
    }

    /// Whether anybody is to be told which pages the policy waits to see used.
    pub(super) fn notes_awaited(&self) -> bool {
        self.awaits_uses || self.announces_awaited
    }

    /// After the policy was asked: pages whose bits it has cleared, as far as they are still there.
    pub(crate) fn note_all_awaited(&mut self, core: &Core) {
        let awaited = std::mem::take(&mut self.events.awaited);
        for &number in &awaited {
            self.note_awaited(core, number);
        }
        self.events.awaited = awaited;
        self.events.awaited.clear();
    }
}
