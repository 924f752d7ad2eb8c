//! An explanation on a terminal: each step in words, with all lists after it.

use super::{beside, say};
use crate::failure::Failure;
use forebay_policy::drawing::{Drawing, Drawn, DrawnList, Mark, Standing};
use forebay_sim::study::counted;
use forebay_sim::study::explain::{Explanation, shown};
use std::io::Write;

const LEGEND: &str =
    "Beside a page stand its bits that are set, its state and its counts. [x] is a ghost: remembered, without a frame.";

pub(crate) fn print(of: &Explanation, out: &mut impl Write) -> Result<(), Failure> {
    let info = of.spec.info;
    say(out, format!("{}  {}", of.spec.label, info.title))?;
    say(out, info.paper)?;
    say(out, format!("forebay explain {}", of.options()))?;
    let (hits, misses) = (counted(of.hits() as u64, "hit"), of.misses());
    let misses = format!("{misses} miss{}", if misses == 1 { "" } else { "es" });
    say(out, format!("{}: {hits}, {misses}. {LEGEND}", counted(of.steps.len() as u64, "reference")))?;
    let names = of.steps.iter().flat_map(|step| &step.drawing.lists).map(|list| list.name.chars().count());
    let width = names.max().unwrap_or_default() + 2;
    for (index, step) in of.steps.iter().enumerate() {
        writeln!(out)?;
        let number = format!("{}  {}", index + 1, of.name(step.page));
        writeln!(out, "{}", beside(&number, INDENT, &step.words))?;
        drawing(of, &step.drawing, width, out)?;
    }
    Ok(())
}

/// Where sentences and lists begin.
const INDENT: usize = 8;

fn drawing(of: &Explanation, drawing: &Drawing, width: usize, out: &mut impl Write) -> Result<(), Failure> {
    for list in &drawing.lists {
        let pages: Vec<String> = list.pages.iter().map(|drawn| page(of, list, drawn)).collect();
        let [first, last] = list.ends;
        let pages =
            if pages.is_empty() { "empty".to_owned() } else { format!("{first} | {} | {last}", pages.join("  ")) };
        let name = format!("{:INDENT$}{}", "", list.name);
        writeln!(out, "{}", beside(&name, INDENT + width, &pages))?;
    }
    for (name, number) in &drawing.numbers {
        let name = format!("{:INDENT$}{name}", "");
        writeln!(out, "{}", beside(&name, INDENT + width, &shown(*number)))?;
    }
    Ok(())
}

fn page(of: &Explanation, list: &DrawnList, drawn: &Drawn) -> String {
    let name = of.name(drawn.page);
    let mark = |mark: &Mark| match *mark {
        Mark::Bit(text) | Mark::State(text) => text.to_owned(),
        Mark::Number(name, number) => format!("{name} {}", shown(number)),
        Mark::Page(name, page) => format!("{name} {}", of.name(page)),
    };
    let marks: Vec<String> = drawn.marks.iter().map(mark).collect();
    let name = if drawn.standing == Standing::Ghost { format!("[{name}]") } else { name.to_owned() };
    let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
    let hands = list.hands.iter().filter(|(_, at)| *at == drawn.page);
    let hands: String = hands.map(|(hand, _)| format!(" <-{hand}")).collect();
    format!("{name}{marks}{hands}")
}
