//! Circles: pages at fixed places, which hands go past clockwise.
//!
//! A policy may keep its circle as a list, in which every page has another number after each move. So each drawing is turned until most pages stand
//! where they stood before: then hands move, and pages do not.

use super::{Look, escaped};
use forebay_policy::drawing::{Drawn, DrawnList};
use forebay_sim::study::explain::Explanation;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 260.0;
const RADIUS: f64 = 80.0;
const PAGE: f64 = 17.0;

/// The places of all circles, as they were last.
pub(super) struct Circles {
    /// By the name of the circle.
    last: BTreeMap<String, Places>,
}

struct Places {
    /// As many as the circle ever needs.
    count: usize,
    /// The place of the first page.
    first: usize,
    of_page: BTreeMap<u32, usize>,
}

impl Circles {
    pub(super) fn new(of: &Explanation) -> Self {
        let mut last: BTreeMap<String, Places> = BTreeMap::new();
        for list in of.steps.iter().flat_map(|step| &step.drawing.lists).filter(|list| list.circle) {
            let new = Places { count: 1, first: 0, of_page: BTreeMap::new() };
            let places = last.entry(list.name.to_string()).or_insert(new);
            places.count = places.count.max(list.pages.len());
        }
        Self { last }
    }

    /// Draws a circle near to how it was drawn last.
    pub(super) fn draw(&mut self, look: &Look<'_>, list: &DrawnList) -> String {
        let places = self.last.get_mut(&*list.name).expect("all circles were counted");
        places.turn(list);
        let svg = svg(look, list, places);
        let [first, last] = list.ends.map(escaped);
        let order = if list.pages.is_empty() {
            String::new()
        } else {
            format!(" <span>clockwise from {first} to {last}</span>")
        };
        let name = escaped(&list.name);
        format!("<figure class=\"circle\"><figcaption>{name}{order}</figcaption>\n{svg}</figure>\n")
    }
}

impl Places {
    /// Finds the place of the first page that leaves most pages where they were.
    fn turn(&mut self, list: &DrawnList) {
        let stay = |first: usize| {
            let at = |index: usize| (first + index) % self.count;
            list.pages
                .iter()
                .enumerate()
                .filter(|(index, drawn)| self.of_page.get(&drawn.page) == Some(&at(*index)))
                .count()
        };
        let turns = (0..self.count).map(|turn| (self.first + turn) % self.count);
        // The last of the best is the least turn.
        self.first = turns.rev().max_by_key(|&first| stay(first)).unwrap_or(0);
        let (first, count) = (self.first, self.count);
        self.of_page =
            list.pages.iter().enumerate().map(|(index, drawn)| (drawn.page, (first + index) % count)).collect();
    }

    /// From noon on, clockwise.
    fn angle(&self, place: f64) -> f64 {
        place / self.count as f64 * TAU
    }
}

fn point(angle: f64, radius: f64) -> (f64, f64) {
    (WIDTH / 2.0 + radius * angle.sin(), HEIGHT / 2.0 - radius * angle.cos())
}

fn svg(look: &Look<'_>, list: &DrawnList, places: &Places) -> String {
    let label = in_words(look, list);
    let (x, y) = point(0.0, 0.0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\"><circle class=\"ring\" cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\"/>\n"
    );
    if !list.pages.is_empty() {
        let angle = places.angle(places.first as f64 - 0.5);
        let ((x1, y1), (x2, y2)) = (point(angle, RADIUS - 14.0), point(angle, RADIUS + 14.0));
        let _ = writeln!(svg, "<line class=\"border\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }
    for drawn in &list.pages {
        svg += &page(look, drawn, places.angle(places.of_page[&drawn.page] as f64));
    }
    for (index, (name, at)) in list.hands.iter().enumerate() {
        let beside = list.hands[..index].iter().filter(|(_, other)| other == at).count();
        let angle = places.angle(places.of_page[at] as f64) + 0.28 * beside as f64;
        svg += &hand(index, name, &look.name(*at), angle);
    }
    svg + "</svg>\n"
}

fn page(look: &Look<'_>, drawn: &Drawn, angle: f64) -> String {
    let (x, y) = point(angle, RADIUS);
    let mut svg = format!(
        "<g class=\"{}\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{PAGE}\"/><text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        look.classes(drawn),
        look.name(drawn.page)
    );
    let (x, y) = point(angle, RADIUS + PAGE + 7.0);
    let side = angle.sin();
    let anchor = if side > 0.2 {
        "start"
    } else if side < -0.2 {
        "end"
    } else {
        "middle"
    };
    let marks = look.marks(drawn);
    for (line, mark) in marks.iter().enumerate() {
        // Lines stand above the ring at its top, below it at its bottom, and around the middle at its sides.
        let shift = line as f64 - (marks.len() as f64 - 1.0) * (1.0 + angle.cos()) / 2.0;
        let y = y + 11.0 * shift + 3.0;
        let _ = write!(svg, "<text class=\"mark\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{mark}</text>");
    }
    svg + "</g>\n"
}

/// A hand, named in the corner below.
fn hand(index: usize, name: &str, at: &str, angle: f64) -> String {
    let ((x1, y1), (x2, y2)) = (point(angle, 8.0), point(angle, RADIUS - PAGE - 4.0));
    let [(x3, y3), (x4, y4)] = [-0.14, 0.14].map(|turn| point(angle + turn, RADIUS - PAGE - 13.0));
    let y = HEIGHT - 6.0 - 13.0 * index as f64;
    format!(
        "<g class=\"hand h{index}\"><line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\
         <polygon points=\"{x2:.1},{y2:.1} {x3:.1},{y3:.1} {x4:.1},{y4:.1}\"/>\
         <text x=\"4\" y=\"{y}\">{} → {at}</text></g>\n",
        escaped(name)
    )
}

/// The circle for those who do not see it.
fn in_words(look: &Look<'_>, list: &DrawnList) -> String {
    let page = |drawn: &Drawn| {
        let marks = look.marks(drawn);
        let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
        format!("{}{marks}", look.name(drawn.page))
    };
    let pages: Vec<String> = list.pages.iter().map(page).collect();
    let hands = list.hands.iter().map(|(hand, at)| format!("; {} at {}", escaped(hand), look.name(*at)));
    let pages = if pages.is_empty() { "empty".to_owned() } else { pages.join(", ") };
    format!("{}: {pages}{}", escaped(&list.name), hands.collect::<String>())
}
