//! Where threads say which pages they hold: a line of slots for each handle, written by its owner alone.
//!
//! A count of pins in the page would be one cache line that all cores write, 177 ns from core to core, and the pages of a
//! skewed workload are touched by all cores. A slot is written by one core. Who wants a page for itself (to evict or to write it)
//! first marks the page and then looks through all slots; who wants to read first fills its slot and then looks at the mark. Both
//! orders are sequentially consistent, so one of the two sees the other (Dekker's argument; hazard pointers are the same idea,
//! M. Michael, IEEE TPDS 15(6), 2004).

use crate::sync::{AtomicU32, AtomicU64, Ordering, size};

/// Slots in a line: 64 bytes.
pub(crate) const SLOTS: usize = 16;

/// The most handles at a time.
pub(crate) const MOST_HANDLES: usize = size(4096, 8);

/// The slots of one handle.
#[repr(align(64))]
pub(crate) struct Line {
    slots: [AtomicU32; SLOTS],
}

/// With more handles than this, unused ones rest.
const MANY: u32 = size(64, 2) as u32;

/// The lines of all handles.
pub(crate) struct Slots {
    lines: Box<[Line]>,
    /// A bit for each line that a handle has.
    given: Box<[AtomicU64]>,
    /// A bit for each of these whose handle does not rest: a search looks at these lines alone. So its work follows the threads that are in
    /// the midst of something, and not the thousands that wait for their clients.
    active: Box<[AtomicU64]>,
    /// No bit of `active` was ever set behind this many words: a search looks no farther. It is raised before the first such bit is set, and never falls, so a
    /// search that stops before a line began before that line's slots were filled.
    words: AtomicU32,
    handles: AtomicU32,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        let line = || Line { slots: std::array::from_fn(|_| AtomicU32::new(0)) };
        let bits = || (0..most.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let lines = (0..most).map(|_| line()).collect();
        Self { lines, given: bits(), active: bits(), words: AtomicU32::new(0), handles: AtomicU32::new(0) }
    }

    /// A line for a new handle; `None` if all are taken.
    pub(crate) fn take_line(&self) -> Option<u32> {
        for (index, word) in self.given.iter().enumerate() {
            loop {
                let free = word.load(Ordering::Relaxed).trailing_ones();
                let line = index as u32 * 64 + free;
                if free == 64 || line as usize >= self.lines.len() {
                    break;
                }
                if word.fetch_or(1 << free, Ordering::SeqCst) & 1 << free == 0 {
                    self.handles.fetch_add(1, Ordering::Relaxed);
                    self.words.fetch_max(index as u32 + 1, Ordering::SeqCst);
                    self.wake(line);
                    return Some(line);
                }
            }
        }
        None
    }

    /// The handle has gone, and no slot of its line names a page.
    pub(crate) fn give_line(&self, line: u32) {
        self.rest(line);
        self.handles.fetch_sub(1, Ordering::Relaxed);
        self.given[line as usize / 64].fetch_and(!(1 << (line % 64)), Ordering::SeqCst);
    }

    /// Whether there are enough handles for resting to pay.
    pub(crate) fn many(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > MANY
    }

    /// No slot of the line names a page, and none will before it is woken.
    pub(crate) fn rest(&self, line: u32) {
        self.active[line as usize / 64].fetch_and(!(1 << (line % 64)), Ordering::SeqCst);
    }

    /// Before any slot of the line is filled, so that a search that could miss it began before, and who fills it sees the mark.
    pub(crate) fn wake(&self, line: u32) {
        self.active[line as usize / 64].fetch_or(1 << (line % 64), Ordering::SeqCst);
    }

    pub(crate) fn line(&self, line: u32) -> &Line {
        &self.lines[line as usize]
    }

    /// The bytes of all lines.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// The lines of handles that do not rest.
    fn active(&self) -> impl Iterator<Item = &Line> {
        let lines_of = |(index, word): (usize, &AtomicU64)| {
            let mut left = word.load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let line = (left != 0).then_some(index * 64 + left.trailing_zeros() as usize);
                left &= left.wrapping_sub(1);
                line
            })
        };
        let words = self.words.load(Ordering::SeqCst) as usize;
        self.active[..words].iter().enumerate().flat_map(lines_of).map(|line| &self.lines[line])
    }

    /// Whether a slot names the page. Asked after the page has been marked.
    pub(crate) fn hold(&self, page: u32) -> bool {
        self.active().any(|line| line.slots.iter().any(|slot| slot.load(Ordering::SeqCst) == page + 1))
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

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    #[test]
    fn a_search_looks_at_the_lines_that_are_given_out_and_finds_what_they_name() {
        let slots = Slots::new(100);
        let lines: Vec<u32> = std::iter::from_fn(|| slots.take_line()).collect();
        assert_eq!(lines, (0..100).collect::<Vec<_>>());
        slots.line(99).fill(15, 7);
        assert!(slots.hold(7) && !slots.hold(8));
        lines[1..99].iter().for_each(|&line| slots.give_line(line));
        assert_eq!(slots.active().count(), 2, "those that were given back are not searched");
        slots.rest(0);
        assert_eq!(slots.active().count(), 1, "nor is one that rests");
        slots.wake(0);
        assert!(slots.hold(7), "the last one is");
        slots.line(99).clear(15);
        assert!(!slots.hold(7));
        assert_eq!(slots.take_line(), Some(1));
        assert_eq!(slots.words.load(Ordering::Relaxed), 2, "the first word has 64 lines");
        let few = Slots::new(MOST_HANDLES);
        assert!(few.take_line().is_some() && !few.hold(7));
        assert_eq!(few.words.load(Ordering::Relaxed), 1, "a search for one handle's pages looks at one word");
    }
}
