//! A bit for each page: those of all pages stay in the processor's caches, so that asking for one hardly waits for memory.

/// Pages that are marked.
#[derive(Debug)]
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// No page below `pages` is marked.
    pub(super) fn new(pages: u32) -> Self {
        Self(vec![0; pages.div_ceil(u64::BITS) as usize])
    }

    /// Pages below `pages` may be marked.
    pub(super) fn reserve(&mut self, pages: u32) {
        self.0.resize(pages.div_ceil(u64::BITS) as usize, 0);
    }

    #[inline]
    pub(super) fn set(&mut self, page: u32) {
        self.0[(page / u64::BITS) as usize] |= 1 << (page % u64::BITS);
    }

    #[inline]
    pub(super) fn has(&self, page: u32) -> bool {
        self.0[(page / u64::BITS) as usize] & 1 << (page % u64::BITS) != 0
    }

    /// Takes the page's mark away; whether it had one.
    #[inline]
    pub(super) fn take(&mut self, page: u32) -> bool {
        let bits = &mut self.0[(page / u64::BITS) as usize];
        let mark = 1 << (page % u64::BITS);
        let marked = *bits & mark != 0;
        if marked {
            *bits ^= mark;
        }
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_once_and_stays_when_there_are_more_pages() {
        let mut marks = Marks::new(64);
        marks.set(63);
        marks.reserve(200);
        marks.set(64);
        marks.set(199);
        assert!(marks.has(64) && !marks.has(65));
        let taken = [62, 63, 64, 65, 199, 63, 64, 199].map(|page| marks.take(page));
        assert_eq!(taken, [false, true, true, false, true, false, false, false]);
    }
}
