//! What one reference has changed, as the difference of two drawings.

use super::words::shown;
use forebay_policy::drawing::{Drawing, DrawnList, Mark, Standing};
use std::collections::{BTreeMap, BTreeSet};

/// A difference, of pages by their numbers and of lists by their names.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A bit of a page that stays resident was set, or cleared.
    Bit {
        /// The page.
        page: u32,
        /// The bit.
        bit: &'static str,
        /// Whether it is set now.
        set: bool,
    },
    /// A hand that was at one page is at another.
    Hand {
        /// The list, if lists have hands of this name.
        list: Option<String>,
        /// The hand.
        hand: &'static str,
        /// Where it was, if it was in the drawing.
        from: Option<u32>,
        /// Where it is.
        to: Option<u32>,
    },
    /// A page is in another state.
    State {
        /// The page.
        page: u32,
        /// What it was.
        from: &'static str,
        /// What it is.
        to: &'static str,
    },
    /// A page has lost its frame.
    Evicted {
        /// The page.
        page: u32,
        /// The lists that it was in.
        from: Vec<String>,
        /// The lists that it is in, as a ghost.
        to: Vec<String>,
    },
    /// A page has entered lists, left lists, or both.
    Moved {
        /// The page.
        page: u32,
        /// The lists that it has left.
        from: Vec<String>,
        /// The lists that it has entered, and where.
        to: Vec<(String, Spot)>,
    },
    /// A page has another place in its list.
    Reordered {
        /// The page.
        page: u32,
        /// The list.
        list: String,
        /// Where it is.
        spot: Spot,
    },
    /// A number of a page has changed.
    Noted {
        /// The page.
        page: u32,
        /// The number's name.
        name: &'static str,
        /// What it was.
        from: String,
        /// What it is.
        to: String,
    },
    /// A page is noted beside another.
    Points {
        /// The page.
        page: u32,
        /// How the other is noted.
        name: &'static str,
        /// The other page.
        to: u32,
    },
    /// A ghost is remembered no more.
    Forgotten {
        /// The page.
        page: u32,
        /// The lists that it was in.
        from: Vec<String>,
    },
    /// A number of the policy has changed.
    Number {
        /// Its name.
        name: &'static str,
        /// What it was, if there was one.
        from: Option<f64>,
        /// What it is, if there is one.
        to: Option<f64>,
    },
}

impl Change {
    /// The page that it is about, if it is about one.
    pub fn page(&self) -> Option<u32> {
        match self {
            Self::Bit { page, .. }
            | Self::State { page, .. }
            | Self::Evicted { page, .. }
            | Self::Moved { page, .. }
            | Self::Reordered { page, .. }
            | Self::Noted { page, .. }
            | Self::Points { page, .. }
            | Self::Forgotten { page, .. } => Some(*page),
            Self::Hand { .. } | Self::Number { .. } => None,
        }
    }

    /// The lists that a page has left and entered.
    pub(super) fn lists(&self) -> (Vec<String>, Vec<String>) {
        match self {
            Self::Moved { from, to, .. } => (from.clone(), to.iter().map(|(list, _)| list.clone()).collect()),
            _ => (Vec::new(), Vec::new()),
        }
    }
}

/// A place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The list holds no other page.
    Alone,
    /// At the end of this name.
    End(&'static str),
    /// Where this page was, in a circle.
    Of(u32),
    /// Between these pages.
    Between(u32, u32),
}

/// What a reference was, and what the policy told the cache.
pub(super) struct Events<'a> {
    pub(super) page: u32,
    pub(super) evicted: &'a [u32],
    pub(super) forgotten: &'a [u32],
}

/// What two drawings say of a page.
#[derive(Default)]
struct Known<'a> {
    lists: Vec<(&'a DrawnList, usize)>,
    marks: Vec<Mark>,
    resident: bool,
}

impl<'a> Known<'a> {
    fn names(&self) -> Vec<String> {
        self.lists.iter().map(|(list, _)| list.name.to_string()).collect()
    }

    fn is_in(&self, list: &DrawnList) -> bool {
        self.lists.iter().any(|(other, _)| other.name == list.name)
    }

    fn has(&self, bit: &str) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Bit(name) if *name == bit))
    }

    fn state(&self) -> Option<&'static str> {
        self.marks.iter().find_map(|mark| if let Mark::State(state) = mark { Some(*state) } else { None })
    }
}

fn known(drawing: &Drawing) -> BTreeMap<u32, Known<'_>> {
    let mut pages: BTreeMap<u32, Known> = BTreeMap::new();
    for list in &drawing.lists {
        for (place, drawn) in list.pages.iter().enumerate() {
            let known = pages.entry(drawn.page).or_default();
            known.lists.push((list, place));
            known.resident |= drawn.standing == Standing::Resident;
            let new = drawn.marks.iter().filter(|mark| !known.marks.contains(mark)).copied().collect::<Vec<_>>();
            known.marks.extend(new);
        }
    }
    pages
}

/// All differences, in the order of the sentences: what the policy looked at, then the pages that left, moved and entered, then the rest.
pub(super) fn between(before: &Drawing, after: &Drawing, events: &Events<'_>) -> Vec<Change> {
    let (was, is) = (known(before), known(after));
    // A miss whose own ghost was forgotten to make room finds its page unknown.
    let forgot_itself = events.forgotten.contains(&events.page);
    let known_before = |(page, ..): &(u32, &Known, &Known)| *page != events.page || !forgot_itself;
    let both = || was.iter().filter_map(|(&page, was)| Some((page, was, is.get(&page)?)));
    let mut changes = Vec::new();
    for (page, was, is) in both().filter(|(_, was, is)| was.resident && is.resident) {
        changes.extend(bits(page, was, is));
    }
    // What a hand passed comes before who left for it; where it comes to the page that enters, after that.
    let (passing, coming): (Vec<_>, Vec<_>) = hands(before, after).into_iter().partition(|change| match change {
        Change::Hand { from: Some(_), to: Some(to), .. } => was.contains_key(to),
        _ => false,
    });
    changes.extend(passing);
    for (page, was, is) in both().filter(known_before) {
        if let (Some(from), Some(to)) = (was.state(), is.state())
            && from != to
        {
            changes.push(Change::State { page, from, to });
        }
    }
    for &page in events.evicted {
        let names = |drawn: Option<&Known>| drawn.map(Known::names).unwrap_or_default();
        changes.push(Change::Evicted { page, from: names(was.get(&page)), to: names(is.get(&page)) });
    }
    for (&page, was) in &was {
        if !events.evicted.contains(&page) && (!is.contains_key(&page) || page == events.page && forgot_itself) {
            changes.push(Change::Forgotten { page, from: was.names() });
        }
    }
    let unknown = Known::default();
    let mut moved: Vec<Change> = Vec::new();
    for (&page, is) in is.iter().filter(|(page, _)| !events.evicted.contains(page)) {
        let was = was.get(&page).filter(|_| page != events.page || !forgot_itself).unwrap_or(&unknown);
        let left = was.lists.iter().filter(|(list, _)| !is.is_in(list)).map(|(list, _)| list.name.to_string());
        let entered = is.lists.iter().filter(|(list, _)| !was.is_in(list));
        let entered = entered.map(|&(list, place)| (list.name.to_string(), spot(list, place, before)));
        let (from, to): (Vec<_>, Vec<_>) = (left.collect(), entered.collect());
        if !from.is_empty() || !to.is_empty() {
            moved.push(Change::Moved { page, from, to });
        }
    }
    // The page that is referenced comes last: others made room for it.
    moved.sort_by_cached_key(|change| (change.page() == Some(events.page), change.lists()));
    changes.extend(moved);
    let noted: Vec<Change> = both().filter(known_before).flat_map(|(page, was, is)| noted(page, was, is)).collect();
    let touched: BTreeSet<u32> = changes.iter().chain(&noted).filter_map(Change::page).collect();
    for list in &after.lists {
        let old = before.lists.iter().find(|old| old.name == list.name);
        changes.extend(old.into_iter().flat_map(|old| reordered(old, list, events.page, &touched)));
    }
    changes.extend(coming);
    changes.extend(noted);
    for (&page, is) in &is {
        for mark in &is.marks {
            if let Mark::Page(name, to) = *mark
                && !was.get(&page).is_some_and(|was| was.marks.contains(mark))
            {
                changes.push(Change::Points { page, name, to });
            }
        }
    }
    changes.extend(numbers(before, after));
    changes
}

fn bits(page: u32, was: &Known<'_>, is: &Known<'_>) -> Vec<Change> {
    let names = was.marks.iter().chain(&is.marks).filter_map(|mark| match mark {
        Mark::Bit(name) => Some(*name),
        _ => None,
    });
    let names: BTreeSet<&'static str> = names.collect();
    let changed = names.into_iter().filter(|bit| was.has(bit) != is.has(bit));
    changed.map(|bit| Change::Bit { page, bit, set: is.has(bit) }).collect()
}

fn hands(before: &Drawing, after: &Drawing) -> Vec<Change> {
    let all = |drawing: &Drawing| -> BTreeMap<(String, &'static str), u32> {
        let of_list = |list: &DrawnList| {
            let name = list.name.to_string();
            list.hands.iter().map(move |&(hand, page)| ((name.clone(), hand), page)).collect::<Vec<_>>()
        };
        drawing.lists.iter().flat_map(of_list).collect()
    };
    let (was, is) = (all(before), all(after));
    let keys: BTreeSet<_> = was.keys().chain(is.keys()).cloned().collect();
    let shared = |hand: &str| keys.iter().filter(|(_, other)| *other == hand).count() > 1;
    let changed = keys.iter().filter_map(|key| {
        let (from, to) = (was.get(key).copied(), is.get(key).copied());
        let list = shared(key.1).then(|| key.0.clone());
        (from != to).then_some(Change::Hand { list, hand: key.1, from, to })
    });
    changed.collect()
}

fn noted(page: u32, was: &Known<'_>, is: &Known<'_>) -> Vec<Change> {
    let number = |marks: &[Mark], name: &str| {
        marks.iter().find_map(|mark| match mark {
            Mark::Number(other, number) if *other == name => Some(shown(*number)),
            _ => None,
        })
    };
    let names = is.marks.iter().filter_map(|mark| if let Mark::Number(name, _) = mark { Some(*name) } else { None });
    let changed = names.filter_map(|name| {
        let (from, to) = (number(&was.marks, name)?, number(&is.marks, name)?);
        (from != to).then_some(Change::Noted { page, name, from, to })
    });
    changed.collect()
}

fn numbers(before: &Drawing, after: &Drawing) -> Vec<Change> {
    let find = |drawing: &Drawing, name: &str| {
        drawing.numbers.iter().find(|(other, _)| *other == name).map(|&(_, number)| number)
    };
    let mut names: Vec<&'static str> = Vec::new();
    for &(name, _) in after.numbers.iter().chain(&before.numbers) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let changed = names.into_iter().filter_map(|name| {
        let (from, to) = (find(before, name), find(after, name));
        (from.map(shown) != to.map(shown)).then_some(Change::Number { name, from, to })
    });
    changed.collect()
}

/// Where the page at this place is.
fn spot(list: &DrawnList, place: usize, before: &Drawing) -> Spot {
    let page = |place: usize| list.pages[place].page;
    let replaced = before.lists.iter().find(|old| list.circle && old.name == list.name);
    let replaced = replaced.and_then(|old| old.pages.get(place)).map(|old| old.page);
    let replaced = replaced.filter(|old| list.pages.iter().all(|drawn| drawn.page != *old));
    match (replaced, place) {
        _ if list.pages.len() == 1 => Spot::Alone,
        (Some(old), _) => Spot::Of(old),
        (None, 0) => Spot::End(list.ends[0]),
        (None, place) if place + 1 == list.pages.len() => Spot::End(list.ends[1]),
        (None, place) => Spot::Between(page(place - 1), page(place + 1)),
    }
}

/// The pages of which it is said that they have moved within a list: as few as can be, and rather the one that is referenced, or others of which
/// more has changed, than those that merely stood there.
fn reordered(old: &DrawnList, new: &DrawnList, referenced: u32, touched: &BTreeSet<u32>) -> Vec<Change> {
    let place = |page: u32| old.pages.iter().position(|drawn| drawn.page == page);
    let common: Vec<u32> = new.pages.iter().map(|drawn| drawn.page).filter(|&page| place(page).is_some()).collect();
    let places: Vec<usize> = common.iter().filter_map(|&page| place(page)).collect();
    let worth = |page: &u32| match (*page == referenced, touched.contains(page)) {
        (true, _) => 1,
        (false, true) => MANY,
        (false, false) => MANY * MANY,
    };
    let staying = heaviest_in_order(&places, &common.iter().map(worth).collect::<Vec<_>>(), new.circle);
    let moved = common.iter().enumerate().filter(|(index, _)| !staying.contains(index));
    let moved = moved.map(|(_, &page)| {
        let at = new.pages.iter().position(|drawn| drawn.page == page).expect("it is in the list");
        let spot = match at {
            0 => Spot::End(new.ends[0]),
            at if at + 1 == new.pages.len() => Spot::End(new.ends[1]),
            at => Spot::Between(new.pages[at - 1].page, new.pages[at + 1].page),
        };
        Change::Reordered { page, list: new.name.to_string(), spot }
    });
    moved.collect()
}

/// More pages than a list has.
const MANY: u64 = 1 << 20;

/// Of the subsequences of rising places the one with the greatest sum of weights, by its indices. Of equal ones it is the one that begins last, as pages
/// enter rows at their beginnings; in a circle the one that begins first.
fn heaviest_in_order(places: &[usize], weights: &[u64], circle: bool) -> Vec<usize> {
    // By where it begins, from the end on: its weight, and its next index.
    let mut best: Vec<(u64, Option<usize>)> = weights.iter().map(|&weight| (weight, None)).collect();
    for at in (0..places.len()).rev() {
        let following = (at + 1..places.len()).filter(|&next| places[at] < places[next]);
        if let Some(next) = following.max_by_key(|&next| best[next].0) {
            best[at] = (weights[at] + best[next].0, Some(next));
        }
    }
    let start = (0..places.len()).max_by_key(|&at| (best[at].0, if circle { places.len() - at } else { at }));
    std::iter::successors(start, |&at| best[at].1).collect()
}
