//! Pages that are one to the kernel.

/// Which pages are one folio. Memory: 4 bytes a page, from the first folio of several pages on.
#[derive(Debug, Default)]
pub(super) struct Folios {
    /// By page, the next one of its folio, in a ring. FO1. It is a permutation.
    next: Vec<u32>,
}

impl Folios {
    pub(super) fn bytes(&self) -> usize {
        self.next.capacity() * size_of::<u32>()
    }

    /// Pages, each of them alone, become one.
    pub(super) fn join(&mut self, pages: &[u32]) {
        let known = self.next.len() as u32;
        self.next.extend(known..pages.iter().max().map_or(known, |&page| known.max(page + 1)));
        for (&page, &next) in pages.iter().zip(pages.iter().cycle().skip(1)) {
            self.next[page as usize] = next;
        }
    }

    /// The next page of the folio: the page itself, if it is alone.
    fn next(&self, page: u32) -> u32 {
        self.next.get(page as usize).copied().unwrap_or(page)
    }

    /// The other pages of its folio.
    pub(super) fn others(&self, page: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(self.next(page)), |&other| Some(self.next(other)))
            .take_while(move |&other| other != page)
    }

    /// The page is alone from now on.
    pub(super) fn part(&mut self, page: u32) {
        let next = self.next(page);
        if next != page {
            let before = self.others(page).last().unwrap_or(page);
            self.next[before as usize] = next;
            self.next[page as usize] = page;
        }
    }

    pub(super) fn check(&self) {
        let mut pages = self.next.clone();
        pages.sort_unstable();
        assert!(pages.into_iter().eq(0..self.next.len() as u32)); // FO1
    }
}
