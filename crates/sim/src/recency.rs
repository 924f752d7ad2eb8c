//! Temporal distances: the references from one use of a page to its next.

use forebay_policy::prefetch::prefetch;

/// When each page was used last: 8 bytes a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recency {
    /// The first reference is 1; 0: not yet.
    last: Vec<u64>,
    now: u64,
}

impl Recency {
    pub(crate) fn new(pages: u32) -> Self {
        Self { last: vec![0; pages as usize], now: 0 }
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        self.last.resize(pages as usize, 0);
    }

    /// A page is going to be referenced soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.last, page as usize);
    }

    /// A page is referenced: its temporal distance, unless it is the first time.
    #[inline]
    pub(crate) fn refer(&mut self, page: u32) -> Option<u64> {
        self.now += 1;
        let last = std::mem::replace(&mut self.last[page as usize], self.now);
        (last > 0).then(|| self.now - last)
    }

    /// From the last use of each page that was used to the end of the references.
    pub(crate) fn to_end(&self) -> impl Iterator<Item = u64> {
        self.last.iter().filter(|&&last| last > 0).map(|last| self.now + 1 - last)
    }
}
