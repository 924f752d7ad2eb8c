//! What a policy keeps, as a picture: lists of pages in their order, the hands that stand in them, and numbers.
//!
//! ```text
//!   list         pages, each with its marks                     a mark is a bit that is set, a state or a number
//!   T2 (row)     MRU end  c  a*  LRU end
//!   B1 (row)     MRU end  (e)  LRU end                          ghosts in brackets
//!   frames       (circle) a  b*  c   hand at b                  in the order in which a hand meets them
//!   p = 2
//! ```
//!
//! A policy makes a picture only when it is asked, by [`Policy::draw`]: it keeps nothing for it. What the contract tests hold every picture to:
//!
//! - DR1. Exactly the resident pages are drawn as [`Standing::Resident`], each once.
//! - DR2. Exactly the ghosts are drawn as [`Standing::Ghost`], each once.
//! - DR3. A page that is drawn as [`Standing::Again`] is also drawn as one of these.
//! - DR4. Lists have different names, and so have numbers. No list holds a page twice. A hand is at a page of its list.

use crate::policy::Policy;
use std::borrow::Cow;

/// The ends of a list in the order of last use.
pub const RECENCY: [&str; 2] = ["MRU end", "LRU end"];
/// The ends of a list in the order of entry.
pub const ENTRY: [&str; 2] = ["new end", "old end"];
/// The ends of a queue that pages enter at its head.
pub const QUEUE: [&str; 2] = ["head", "tail"];
/// The ends of a list in the order of what pages are worth.
pub const WORTH: [&str; 2] = ["kept end", "victim end"];

/// A picture of a policy's structures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// The lists, in an order that stays.
    pub lists: Vec<DrawnList>,
    /// Targets and the like, by name.
    pub numbers: Vec<(&'static str, f64)>,
}

/// A list of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnList {
    /// What its paper calls it.
    pub name: Cow<'static, str>,
    /// Whether it is a circle, whose pages stand in the order in which hands meet them.
    pub circle: bool,
    /// What is before the first page and behind the last one.
    pub ends: [&'static str; 2],
    /// The pages in their order.
    pub pages: Vec<Drawn>,
    /// The hands that are at a page, by name.
    pub hands: Vec<(&'static str, u32)>,
}

/// A page in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The page.
    pub page: u32,
    /// Whether it is resident.
    pub standing: Standing,
    /// What the policy has noted of it.
    pub marks: Vec<Mark>,
}

/// What a page in a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Resident.
    Resident,
    /// Remembered, without a frame.
    Ghost,
    /// In a second list: it is drawn as resident or as a ghost in another.
    Again,
}

/// What a policy has noted of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// A bit of this name is set.
    Bit(&'static str),
    /// One of several states.
    State(&'static str),
    /// A number of this name.
    Number(&'static str, f64),
    /// Another page, and what it is to this one.
    Page(&'static str, u32),
}

impl Drawing {
    /// What this policy keeps now.
    pub fn of<P: Policy>(policy: &P) -> Self {
        let mut drawing = Self::default();
        policy.draw(&mut drawing);
        drawing
    }

    /// Draws a list with two ends.
    pub fn row(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        ends: [&'static str; 2],
        pages: impl IntoIterator<Item = Drawn>,
    ) -> &mut DrawnList {
        let list =
            DrawnList { name: name.into(), circle: false, ends, pages: pages.into_iter().collect(), hands: Vec::new() };
        self.lists.push(list);
        self.lists.last_mut().expect("one was pushed")
    }

    /// Draws a circle. Its ends are where the order begins and ends.
    pub fn circle(
        &mut self,
        name: &'static str,
        ends: [&'static str; 2],
        pages: impl IntoIterator<Item = Drawn>,
    ) -> &mut DrawnList {
        let list = self.row(name, ends, pages);
        list.circle = true;
        list
    }

    /// Shows a number.
    pub fn number(&mut self, name: &'static str, number: impl Into<f64>) {
        self.numbers.push((name, number.into()));
    }

    /// Draws the resident pages that wait apart for their first use. Of some the policy has a ghost, which is none as long as they wait.
    pub(crate) fn waiting(&mut self, pages: impl Iterator<Item = u32>) {
        let waiting: Vec<u32> = pages.collect();
        for drawn in self.lists.iter_mut().flat_map(|list| &mut list.pages) {
            if drawn.standing == Standing::Ghost && waiting.contains(&drawn.page) {
                drawn.standing = Standing::Again;
            }
        }
        self.row("pages read ahead", ENTRY, waiting.into_iter().map(Drawn::resident));
    }
}

impl DrawnList {
    /// Draws a hand, if it is at a page.
    pub fn hand(&mut self, name: &'static str, at: Option<u32>) -> &mut Self {
        self.hands.extend(at.map(|page| (name, page)));
        self
    }
}

impl Drawn {
    /// A resident page.
    pub fn resident(page: u32) -> Self {
        Self { page, standing: Standing::Resident, marks: Vec::new() }
    }

    /// A ghost.
    pub fn ghost(page: u32) -> Self {
        Self { standing: Standing::Ghost, ..Self::resident(page) }
    }

    /// A page that is drawn elsewhere, too.
    pub fn again(page: u32) -> Self {
        Self { standing: Standing::Again, ..Self::resident(page) }
    }

    /// With a bit, if that is set.
    pub fn bit(mut self, name: &'static str, set: bool) -> Self {
        self.marks.extend(set.then_some(Mark::Bit(name)));
        self
    }

    /// In a state.
    pub fn state(mut self, state: &'static str) -> Self {
        self.marks.push(Mark::State(state));
        self
    }

    /// With a number.
    pub fn number(mut self, name: &'static str, number: impl Into<f64>) -> Self {
        self.marks.push(Mark::Number(name, number.into()));
        self
    }

    /// With another page.
    pub fn page(mut self, name: &'static str, page: u32) -> Self {
        self.marks.push(Mark::Page(name, page));
        self
    }
}
