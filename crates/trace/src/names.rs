//! The names of a trace's owners and objects, each given a small number.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Owners and objects, numbered in the order of their first mention. Number 0 is the unnamed one.
#[derive(Clone, Debug, Default)]
pub struct Names {
    owners: Interner,
    objects: Interner,
    /// By object, its length in bytes; [`UNKNOWN`] for those that have none.
    lengths: Vec<u64>,
}

const UNKNOWN: u64 = u64::MAX;

impl Names {
    /// No names but the unnamed ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the owner called `name`.
    pub fn owner(&mut self, name: &str) -> u32 {
        self.owners.number(name)
    }

    /// The number of the object called `name`.
    pub fn object(&mut self, name: &str) -> u32 {
        self.objects.number(name)
    }

    /// What an owner is called; empty for the unnamed one.
    pub fn owner_name(&self, owner: u32) -> &str {
        &self.owners.names[owner as usize]
    }

    /// What an object is called; empty for the unnamed one.
    pub fn object_name(&self, object: u32) -> &str {
        &self.objects.names[object as usize]
    }

    /// An object has a length from now on, in bytes.
    pub fn set_length(&mut self, object: u32, bytes: u64) {
        let index = object as usize;
        if self.lengths.len() <= index {
            self.lengths.resize(self.objects.names.len().max(index + 1), UNKNOWN);
        }
        self.lengths[index] = bytes;
    }

    /// How many bytes an object had when it was last recorded, where the trace says so.
    pub fn length(&self, object: u32) -> Option<u64> {
        self.lengths.get(object as usize).copied().filter(|&bytes| bytes != UNKNOWN)
    }

    /// The owners' names by number.
    pub fn owners(&self) -> &[String] {
        &self.owners.names
    }

    /// The objects' names by number.
    pub fn objects(&self) -> &[String] {
        &self.objects.names
    }
}

#[derive(Clone, Debug)]
struct Interner {
    names: Vec<String>,
    numbers: HashMap<String, u32, RandomState>,
    last: u32,
}

impl Default for Interner {
    fn default() -> Self {
        let numbers = HashMap::from_iter([(String::new(), 0)]);
        Self { names: vec![String::new()], numbers, last: 0 }
    }
}

impl Interner {
    fn number(&mut self, name: &str) -> u32 {
        // Runs of one name are the rule in traces: the last one needs no look-up.
        if self.names[self.last as usize] == name {
            return self.last;
        }
        self.last = match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), number);
                number
            }
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_by_first_mention_and_the_unnamed_is_zero() {
        let mut names = Names::new();
        assert_eq!([names.object("a"), names.object("b"), names.object("a"), names.object("")], [1, 2, 1, 0]);
        assert_eq!(names.owner("a"), 1);
        assert_eq!(names.object_name(2), "b");
        assert_eq!(names.objects(), ["", "a", "b"]);
    }

    #[test]
    fn an_object_has_the_length_that_was_said_last() {
        let mut names = Names::new();
        let (a, b, c) = (names.object("a"), names.object("b"), names.object("c"));
        names.set_length(b, 10);
        names.set_length(c, 0);
        names.set_length(b, 20);
        assert_eq!([a, b, c, c + 1].map(|object| names.length(object)), [None, Some(20), Some(0), None]);
    }
}
