//! Where each page of a trace is, in columns by page number.

use forebay_basis::Place;
use forebay_policy::prefetch::prefetch;

/// The places of pages: 8 bytes a page, and 4 more where there is more than one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    blocks: Vec<u64>,
    /// The objects; empty while all pages are of one.
    objects: Vec<u32>,
    /// The first page's object.
    object: u32,
}

impl Places {
    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Where a page is.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub fn of(&self, page: u32) -> Place {
        let object = if self.objects.is_empty() { self.object } else { self.objects[page as usize] };
        Place { object, block: self.blocks[page as usize] }
    }

    /// The page's place will be asked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.blocks, page as usize);
        if !self.objects.is_empty() {
            prefetch(&self.objects, page as usize);
        }
    }

    /// All places by page number.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        self.iter_from(0)
    }

    /// The places of the pages from number `first` on.
    pub(crate) fn iter_from(&self, first: usize) -> impl Iterator<Item = Place> {
        (first..self.len()).map(|page| self.of(page as u32))
    }

    /// The next page number is that of a page at `place`.
    pub fn push(&mut self, place: Place) {
        if self.is_empty() {
            self.object = place.object;
        }
        if self.objects.is_empty() && place.object != self.object {
            self.objects = vec![self.object; self.len()];
        }
        if !self.objects.is_empty() {
            make_room(&mut self.objects);
            self.objects.push(place.object);
        }
        make_room(&mut self.blocks);
        self.blocks.push(place.block);
    }

    /// The bytes of memory that the places take.
    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<u64>() + self.objects.capacity() * size_of::<u32>()
    }
}

impl Extend<Place> for Places {
    fn extend<I: IntoIterator<Item = Place>>(&mut self, places: I) {
        places.into_iter().for_each(|place| self.push(place));
    }
}

/// Growth by an eighth keeps the memory near what is stated; large vectors are moved by the system without copying.
fn make_room<T>(column: &mut Vec<T>) {
    if column.len() == column.capacity() {
        column.reserve_exact((column.len() / 8).max(64));
    }
}
