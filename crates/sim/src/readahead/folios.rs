//! What is cached, by place, and which folio it belongs to.

use super::kernel::Folio;
use foldhash::fast::RandomState;
use forebay_basis::Place;
use hashbrown::HashMap;
use std::ops::Range;

/// The cached pages. A folio's mark is at its first block, and goes with it.
#[derive(Debug, Default)]
pub(super) struct Folios {
    cached: HashMap<Place, Page, RandomState>,
    /// By page number.
    places: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Page {
    number: u32,
    folio: Range<u64>,
    marked: bool,
}

impl Folios {
    /// The folio of a cached block.
    pub(super) fn of(&self, place: Place) -> Option<Folio> {
        let Page { folio, marked, .. } = self.cached.get(&place)?.clone();
        let first = Place { block: folio.start, ..place };
        let marked = if first == place { marked } else { self.cached.get(&first).is_some_and(|first| first.marked) };
        Some(Folio { blocks: folio, marked })
    }

    /// A page comes into the cache as part of a folio.
    pub(super) fn add(&mut self, page: u32, place: Place, folio: &Folio) {
        if self.places.len() <= page as usize {
            self.places.resize(page as usize + 1, Place::default());
        }
        self.places[page as usize] = place;
        self.cached.insert(place, Page { number: page, folio: folio.blocks.clone(), marked: folio.marked });
    }

    /// It has left. One that a request missed may leave before it came: then what is known of its number is of no page, or of another.
    pub(super) fn remove(&mut self, page: u32) {
        let Some(place) = self.places.get(page as usize) else { return };
        if self.cached.get(place).is_some_and(|cached| cached.number == page) {
            self.cached.remove(place);
        }
    }

    /// The folio that begins at a place has a mark no more.
    pub(super) fn unmark(&mut self, first: Place) {
        if let Some(page) = self.cached.get_mut(&first) {
            page.marked = false;
        }
    }
}
