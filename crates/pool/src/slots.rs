//! Where threads say which pages they hold: a line of slots for each handle, written by its owner alone.
//!
//! A count of pins in the page would be one cache line that all cores write, 177 ns from core to core, and the pages of a
//! skewed workload are touched by all cores. A slot is written by one core. Who wants a page for itself (to evict or to write it)
//! first marks the page and then looks through all slots; who wants to read first fills its slot and then looks at the mark. Both
//! orders are sequentially consistent, so one of the two sees the other (Dekker's argument; hazard pointers are the same idea,
//! M. Michael, IEEE TPDS 15(6), 2004).

use crate::sync::{AtomicU32, Mutex, Ordering, lock, size};

/// Slots in a line: 64 bytes.
pub(crate) const SLOTS: usize = 16;

/// The most handles at a time.
pub(crate) const MOST_HANDLES: usize = size(4096, 8);

/// The slots of one handle.
#[repr(align(64))]
pub(crate) struct Line {
    slots: [AtomicU32; SLOTS],
}

/// The lines of all handles.
pub(crate) struct Slots {
    lines: Box<[Line]>,
    /// Lines from this one on have never been given out.
    used: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        let line = || Line { slots: std::array::from_fn(|_| AtomicU32::new(0)) };
        Self { lines: (0..most).map(|_| line()).collect(), used: AtomicU32::new(0), free: Mutex::new(Vec::new()) }
    }

    /// A line for a new handle; `None` if all are taken.
    pub(crate) fn take_line(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        free.pop().or_else(|| {
            let line = self.used.load(Ordering::Relaxed);
            ((line as usize) < self.lines.len()).then(|| {
                // Before any slot of the line is filled, so that a search that could miss it began before.
                self.used.store(line + 1, Ordering::SeqCst);
                line
            })
        })
    }

    pub(crate) fn give_line(&self, line: u32) {
        lock(&self.free).push(line);
    }

    pub(crate) fn line(&self, line: u32) -> &Line {
        &self.lines[line as usize]
    }

    fn used(&self) -> &[Line] {
        &self.lines[..self.used.load(Ordering::SeqCst) as usize]
    }

    /// Whether a slot names the page. Asked after the page has been marked.
    pub(crate) fn hold(&self, page: u32) -> bool {
        self.used().iter().any(|line| line.slots.iter().any(|slot| slot.load(Ordering::SeqCst) == page + 1))
    }
}

impl Line {
    /// Names the page in a slot; then its state is to be read.
    #[inline]
    pub(crate) fn fill(&self, slot: usize, page: u32) {
        self.slots[slot].swap(page + 1, Ordering::SeqCst);
    }

    /// The page is no longer held.
    #[inline]
    pub(crate) fn clear(&self, slot: usize) {
        self.slots[slot].store(0, Ordering::Release);
    }

    /// Whether a slot of this line names the page.
    pub(crate) fn holds(&self, page: u32) -> bool {
        self.slots.iter().any(|slot| slot.load(Ordering::Relaxed) == page + 1)
    }
}
