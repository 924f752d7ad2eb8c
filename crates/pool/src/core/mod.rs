//! What frames hold, and who decides it: pages and their states, the page table, the replacer, and where bytes lie.

pub(crate) mod awaited;
pub(crate) mod contained;
pub(crate) mod frames;
pub(crate) mod judge;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod page;
pub(crate) mod progress;
pub(crate) mod regions;
pub(crate) mod replacer;
pub(crate) mod search;
pub(crate) mod shares;
pub(crate) mod slots;
pub(crate) mod table;
pub(crate) mod waiters;

use crate::sync::{AtomicU32, Ordering};
use memory::Memory;
use page::{Pages, State};
use slots::Slots;
use std::sync::Arc;
use std::time::Duration;
use table::Table;
use waiters::Waiters;

/// How long pages that others hold are waited for. Pins held to copy a page are gone by then, even where their threads wait long for a
/// processor.
pub(crate) const HELD_MOST: Duration = Duration::from_secs(2);

/// What the replacer works on, which others read without its lock.
pub(crate) struct Core {
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) pages: Pages,
    pub(crate) table: Table,
    pub(crate) slots: Slots,
    pub(crate) waiters: Waiters,
    /// Pages in the laundry, written under the replacer's lock.
    pub(crate) laundered: AtomicU32,
}

impl Core {
    /// The bytes of metadata.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes() + self.table.bytes() + self.slots.bytes()
    }

    pub(crate) fn laundered(&self) -> u32 {
        self.laundered.load(Ordering::Relaxed)
    }

    /// Begins to hold the page exclusively, as [`Page::begin_exclusive`](crate::core::page::Page::begin_exclusive) does, without the
    /// replacer's lock.
    pub(crate) fn begin_exclusive(&self, number: u32, object: u32, block: u64) -> Result<(), State> {
        let page = self.pages.get(number);
        page.begin_exclusive(object, block)?;
        // Between the look at the key and the hold the number may have come to stand for another page, in an equal state.
        if page.is(object, block) {
            return Ok(());
        }
        self.waiters.wake(number, page.end_exclusive());
        Err(State::default())
    }
}
