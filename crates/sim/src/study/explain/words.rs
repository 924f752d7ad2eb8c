//! A step in sentences, from its changes alone.

use super::change::{Change, Spot};
use super::references::References;
use forebay_policy::drawing::{Drawing, DrawnList, Standing};

/// A number as drawings and sentences show it: whole, or with up to three digits that matter.
pub fn shown(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    let digits = number.abs().log10().floor();
    let decimals = (2.0 - digits).clamp(0.0, 12.0) as usize;
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// What a reference to a page was, and what it has changed.
pub(super) fn of(page: u32, hit: bool, before: &Drawing, changes: &[Change], references: &References) -> String {
    let words = Words { page, references };
    let mut sentences = vec![words.reference(hit, before)];
    let mut rest = changes;
    while let Some((first, others)) = rest.split_first() {
        // Changes of one kind that differ in their pages alone are one sentence.
        let alike = others.iter().take_while(|other| same_but_page(first, other)).count();
        let pages: Vec<u32> = rest[..=alike].iter().filter_map(Change::page).collect();
        sentences.push(words.change(first, &pages));
        rest = &others[alike..];
    }
    if changes.is_empty() {
        sentences.push("Nothing changes.".to_owned());
    }
    sentences.join(" ")
}

fn same_but_page(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Bit { bit, set, .. }, Change::Bit { bit: b, set: s, .. }) => (bit, set) == (b, s),
        (Change::State { from, to, .. }, Change::State { from: f, to: t, .. }) => (from, to) == (f, t),
        (Change::Forgotten { from, .. }, Change::Forgotten { from: f, .. }) => from == f,
        (Change::Noted { name, from, to, .. }, Change::Noted { name: n, from: f, to: t, .. }) => {
            (name, from, to) == (n, f, t)
        }
        (Change::Moved { .. }, Change::Moved { .. }) => one.lists() == other.lists(),
        _ => false,
    }
}

struct Words<'a> {
    page: u32,
    references: &'a References,
}

impl Words<'_> {
    fn name(&self, page: u32) -> &str {
        self.references.name(page)
    }

    /// A page as a sentence begins with it.
    fn names(&self, pages: &[u32]) -> String {
        joined(&pages.iter().map(|&page| self.name(page).to_owned()).collect::<Vec<_>>())
    }

    fn reference(&self, hit: bool, before: &Drawing) -> String {
        let page = self.name(self.page);
        let home = |standing| {
            let holds = |list: &&DrawnList| {
                list.pages.iter().any(|drawn| drawn.page == self.page && drawn.standing == standing)
            };
            before.lists.iter().find(holds).map(|list| &*list.name)
        };
        match (hit, home(Standing::Resident), home(Standing::Ghost)) {
            (true, Some(list), _) => format!("Hit: {page} is in {}.", named(list)),
            (false, _, Some(list)) => format!("Miss: {page} is a ghost in {}.", named(list)),
            _ => format!("Miss: {page} is unknown."),
        }
    }

    fn change(&self, change: &Change, pages: &[u32]) -> String {
        let names = self.names(pages);
        let many = pages.len() > 1;
        let is = if many { "are" } else { "is" };
        match change {
            Change::Bit { bit, set, .. } => {
                let plural = if many { "s" } else { "" };
                format!("The {bit}{plural} of {names} {is} {}.", if *set { "set" } else { "cleared" })
            }
            Change::Hand { list, hand, from, to } => {
                let article = if hand.starts_with(char::is_uppercase) { "" } else { "The " };
                let of = list.as_ref().map(|list| format!(" of {}", named(list))).unwrap_or_default();
                let hand = format!("{article}{hand}{of}");
                match (from, to) {
                    (Some(from), Some(to)) => format!("{hand} goes from {} to {}.", self.name(*from), self.name(*to)),
                    (None, Some(to)) => format!("{hand} is at {}.", self.name(*to)),
                    (_, None) => format!("{hand} has no page to be at."),
                }
            }
            Change::State { from, to, .. } => {
                format!("{names} {is} {to} now, no longer {from}.")
            }
            Change::Evicted { from, to, .. } => {
                let left: Vec<String> = from.iter().filter(|list| !to.contains(list)).cloned().collect();
                match (left.is_empty(), to.is_empty()) {
                    (_, true) => format!("{names} is evicted from {} and forgotten.", lists(from)),
                    (true, false) => format!("{names} is evicted and stays in {} as a ghost.", lists(to)),
                    (false, false) => {
                        format!("{names} is evicted from {} and is a ghost in {}.", lists(&left), lists(to))
                    }
                }
            }
            Change::Forgotten { from, .. } => {
                format!("The ghost{} {names} {is} forgotten from {}.", if many { "s" } else { "" }, lists(from))
            }
            Change::Moved { from, to, .. } => {
                // Of several pages the places are in the drawing.
                let entered = |(list, spot): &(String, Spot)| match many {
                    true => named(list),
                    false => format!("{}{}", named(list), self.at(spot)),
                };
                let to = joined(&to.iter().map(entered).collect::<Vec<_>>());
                let (go, enter, leave) = if many { ("go", "enter", "leave") } else { ("goes", "enters", "leaves") };
                match (from.is_empty(), to.is_empty()) {
                    (false, false) => format!("{names} {go} from {} to {to}.", lists(from)),
                    (true, _) => format!("{names} {enter} {to}."),
                    (false, true) => format!("{names} {leave} {}.", lists(from)),
                }
            }
            Change::Reordered { list, spot: Spot::End(end), .. } => {
                format!("{names} moves to the {end} of {}.", named(list))
            }
            Change::Reordered { list, spot, .. } => format!("{names} moves within {}{}.", named(list), self.at(spot)),
            Change::Noted { name, from, to, .. } => format!("The {name} of {names} goes from {from} to {to}."),
            Change::Points { name, to, .. } => format!("{names} {name} {}.", self.name(*to)),
            Change::Number { name, from, to } => {
                let article = if name.contains(' ') { "The " } else { "" };
                match (from, to) {
                    (Some(from), Some(to)) => {
                        let way = if to > from { "rises" } else { "falls" };
                        format!("{article}{name} {way} from {} to {}.", shown(*from), shown(*to))
                    }
                    (None, Some(to)) => format!("{article}{name} is {} now.", shown(*to)),
                    (_, None) => format!("There is no {name} now."),
                }
            }
        }
    }

    fn at(&self, spot: &Spot) -> String {
        match spot {
            Spot::Alone => String::new(),
            Spot::End(end) => format!(" at the {end}"),
            Spot::Of(page) => format!(" in the place of {}", self.name(*page)),
            Spot::Between(one, other) => format!(" between {} and {}", self.name(*one), self.name(*other)),
        }
    }
}

/// A list in a sentence: names of papers stand alone, words have an article.
fn named(list: &str) -> String {
    let is_word = list.starts_with(char::is_lowercase) && !list.ends_with(|letter: char| letter.is_ascii_digit());
    if is_word { format!("the {list}") } else { list.to_owned() }
}

fn lists(names: &[String]) -> String {
    joined(&names.iter().map(|name| named(name)).collect::<Vec<_>>())
}

/// `a`, `a and b`, `a, b and c`.
fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_have_three_digits() {
        let numbers = [3.0, 0.0, -2.0, 1.5, 2.0 / 3.0, 0.001_234_5, 1234.56, 99.96];
        assert_eq!(numbers.map(shown), ["3", "0", "-2", "1.5", "0.667", "0.00123", "1235", "100"]);
    }
}
