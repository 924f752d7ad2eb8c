//! An explanation as one page: every step stands in it as text and drawing, and a small program shows one at a time. Without the program, and on
//! paper, it is a list of all steps.

mod circle;

use crate::page::{GENERATOR, STYLE, THEME, escaped};
use circle::Circles;
use forebay_policy::drawing::{Drawn, DrawnList, Mark, Standing};
use forebay_sim::study::explain::change::Change;
use forebay_sim::study::explain::{Explanation, Step, shown};
use std::collections::BTreeSet;
use std::fmt::Write;

const OWN_STYLE: &str = include_str!("../../assets/explain.css");
const SCRIPT: &str = include_str!("../../assets/explain.js");
/// Pages have this many colours, in turn.
const COLORS: u32 = 8;

/// The page, whole: it asks for nothing from a network.
pub fn html(of: &Explanation) -> String {
    let label = escaped(&of.spec.label);
    let (title, paper) = (escaped(of.spec.info.title), escaped(of.spec.info.paper));
    let version = env!("CARGO_PKG_VERSION");
    let mut circles = Circles::new(of);
    let steps: String = (0..of.steps.len()).map(|index| step(of, index, &mut circles)).collect();
    let (count, hits, misses) = (of.steps.len(), of.hits(), of.misses());
    let options = escaped(&of.options());
    let references = references(of);
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR} {version}">
<title>{label}, step by step – Forebay</title>
<link rel="icon" href="data:,">
<script>{THEME}</script>
<style>
{STYLE}{OWN_STYLE}</style>
</head>
<body>
<header>
<h1>{label}, step by step</h1>
<button id="theme" type="button">Dark</button>
</header>
<p class="subtitle">{title}<br>{paper}</p>
<p class="made"><code>forebay explain {options}</code> <span>Forebay {version}</span></p>
<p>{count} references: {hits} hits, {misses} misses. Each step shows what the policy keeps <em>after</em> its reference.</p>
<nav aria-label="Steps">
<ol class="references">
{references}</ol>
<div class="stepper" hidden>
<button id="first" type="button" aria-label="First step">|&lt;</button>
<button id="back" type="button">Back</button>
<button id="next" type="button">Next</button>
<button id="last" type="button" aria-label="Last step">&gt;|</button>
<input id="slider" type="range" min="1" max="{count}" value="1" aria-label="Step">
<span class="hint">keys: <kbd>←</kbd> <kbd>→</kbd> <kbd>Home</kbd> <kbd>End</kbd></span>
</div>
</nav>
<p id="said" class="unseen" aria-live="polite"></p>
<main>
{steps}</main>
<footer>
<ul class="legend">
<li><span class="page"><b>a</b></span> resident</li>
<li><span class="page ghost"><b>a</b></span> a ghost: remembered, without a frame</li>
<li><span class="page bit"><b>a</b></span> its bit is set</li>
<li><span class="page now"><b>a</b></span> the page that is referenced</li>
</ul>
</footer>
<script>
{SCRIPT}</script>
</body>
</html>
"##
    )
}

/// The string, each reference a link to its step.
fn references(of: &Explanation) -> String {
    let link = |(index, step): (usize, &Step)| {
        let (class, name) = (outcome(step), escaped(of.name(step.page)));
        format!(
            "<li><a class=\"{class}\" href=\"#step-{0}\" aria-label=\"step {0}: {name}, {class}\">{name}</a></li>\n",
            index + 1
        )
    };
    of.steps.iter().enumerate().map(link).collect()
}

fn outcome(step: &Step) -> &'static str {
    if step.hit { "hit" } else { "miss" }
}

fn step(of: &Explanation, index: usize, circles: &mut Circles) -> String {
    let step = &of.steps[index];
    let (name, class, words) = (escaped(of.name(step.page)), outcome(step), escaped(&step.words));
    let mut html = format!(
        "<section class=\"step\" id=\"step-{0}\" tabindex=\"-1\">\n<h2>{0}. <b>{name}</b> <span class=\"{class}\">{class}</span></h2>\n\
         <p class=\"words\">{words}</p>\n<div class=\"lists\">\n",
        index + 1
    );
    let moved: BTreeSet<u32> = step.changes.iter().flat_map(Change::page).collect();
    for list in &step.drawing.lists {
        let look = Look { of, referenced: step.page, changed: &moved };
        html += &if list.circle { circles.draw(&look, list) } else { row(&look, list) };
    }
    html += "</div>\n";
    if !step.drawing.numbers.is_empty() {
        let number = |(name, number): &(&str, f64)| format!("<li>{} = <b>{}</b></li>", escaped(name), shown(*number));
        let numbers: String = step.drawing.numbers.iter().map(number).collect();
        let _ = writeln!(html, "<ul class=\"numbers\">{numbers}</ul>");
    }
    html + "</section>\n"
}

/// How pages look in a step.
struct Look<'a> {
    of: &'a Explanation,
    referenced: u32,
    changed: &'a BTreeSet<u32>,
}

impl Look<'_> {
    /// The classes of a page: its colour, what it is and what has happened to it.
    fn classes(&self, drawn: &Drawn) -> String {
        let mut classes = format!("page p{}", drawn.page % COLORS);
        let has_bit = drawn.marks.iter().any(|mark| matches!(mark, Mark::Bit(_)));
        for (is, class) in [
            (drawn.standing == Standing::Ghost, "ghost"),
            (has_bit, "bit"),
            (drawn.page == self.referenced, "now"),
            (self.changed.contains(&drawn.page), "changed"),
        ] {
            if is {
                let _ = write!(classes, " {class}");
            }
        }
        classes
    }

    fn name(&self, page: u32) -> String {
        escaped(self.of.name(page))
    }

    /// What is noted of a page, bits last.
    fn marks(&self, drawn: &Drawn) -> Vec<String> {
        let mut marks: Vec<String> = Vec::new();
        let (bits, others): (Vec<&Mark>, Vec<&Mark>) =
            drawn.marks.iter().partition(|mark| matches!(mark, Mark::Bit(_)));
        for mark in others.into_iter().chain(bits) {
            marks.push(match *mark {
                Mark::Bit(text) | Mark::State(text) => escaped(text),
                Mark::Number(name, number) => format!("{} {}", escaped(name), shown(number)),
                Mark::Page(name, page) => format!("{} {}", escaped(name), self.name(page)),
            });
        }
        marks
    }
}

fn row(look: &Look<'_>, list: &DrawnList) -> String {
    let [first, last] = list.ends.map(escaped);
    let page = |drawn: &Drawn| {
        let mut inner = format!("<b>{}</b>", look.name(drawn.page));
        for mark in look.marks(drawn) {
            let _ = write!(inner, "<small>{mark}</small>");
        }
        for (hand, _) in list.hands.iter().filter(|(_, at)| *at == drawn.page) {
            let _ = write!(inner, "<i>▲ {}</i>", escaped(hand));
        }
        format!("<li class=\"{}\">{inner}</li>\n", look.classes(drawn))
    };
    let pages: String = list.pages.iter().map(page).collect();
    let pages = match pages.is_empty() {
        true => "<li class=\"empty\">empty</li>\n".to_owned(),
        false => format!("<li class=\"end\">{first}</li>\n{pages}<li class=\"end\">{last}</li>\n"),
    };
    format!("<figure><figcaption>{}</figcaption>\n<ol class=\"row\">\n{pages}</ol></figure>\n", escaped(&list.name))
}

#[cfg(test)]
mod tests;
