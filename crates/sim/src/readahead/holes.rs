//! Page numbers for blocks that the trace never refers to, given out when one is read ahead, taken back when the policy forgets it.

use forebay_policy::Place;
use std::collections::HashMap;

/// The holes that a policy knows, and their numbers, above those of the trace's pages.
#[derive(Debug)]
pub(super) struct Holes {
    first: u32,
    numbers: HashMap<Place, u32>,
    /// By number, from `first` on; of those not in use, what they stood for last.
    places: Vec<Place>,
    unused: Vec<u32>,
}

impl Holes {
    /// Numbers below `first` are those of the trace's pages.
    pub(super) fn new(first: u32) -> Self {
        Self { first, numbers: HashMap::new(), places: Vec::new(), unused: Vec::new() }
    }

    /// The number of a hole that the policy knows.
    pub(super) fn find(&self, place: Place) -> Option<u32> {
        self.numbers.get(&place).copied()
    }

    /// The number of a hole, which may be a new one.
    pub(super) fn number(&mut self, place: Place) -> u32 {
        *self.numbers.entry(place).or_insert_with(|| {
            if let Some(number) = self.unused.pop() {
                self.places[(number - self.first) as usize] = place;
                return number;
            }
            self.places.push(place);
            self.first + (self.places.len() - 1) as u32
        })
    }

    /// The number of a page that was `page` when it was looked for.
    pub(super) fn renumber(&mut self, page: u32, place: Place) -> u32 {
        if page < self.first { page } else { self.number(place) }
    }

    /// All numbers are below this.
    pub(super) fn end(&self) -> u32 {
        self.first + self.places.len() as u32
    }

    /// The policy forgets a page: if it is a hole, its number may be given to another.
    pub(super) fn forget(&mut self, page: u32) {
        if page >= self.first && self.numbers.remove(&self.places[(page - self.first) as usize]).is_some() {
            self.unused.push(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_keeps_its_number_until_it_is_forgotten() {
        let place = |block| Place { object: 1, block };
        let mut holes = Holes::new(10);
        assert_eq!([5, 6, 5].map(|block| holes.number(place(block))), [10, 11, 10]);
        holes.forget(3);
        holes.forget(10);
        assert_eq!((holes.find(place(5)), holes.find(place(6))), (None, Some(11)));
        assert_eq!([7, 5].map(|block| holes.number(place(block))), [10, 12]);
        assert_eq!(holes.end(), 13);
    }
}
