//! What an answer says to do, in words: which policy and size to take, and why.

use super::choice::{Choice, Field, Noise, Reason, Row};
use super::comparison::{Comparison, pages};
use super::curves::Curves;
use super::error::Stop;
use super::kernel::{self, brought_in};
use crate::input::trace::Dimensions;
use crate::replay::outcome::RunOutcome;
use crate::words::{counted, significant};
use forebay_basis::show_bytes;

const OFF_LINE_ALONE: &str =
    "Only policies that know the future were asked: they bound what a cache can do, none can be run.";
/// No page is used twice.
pub(super) const NOTHING_AGAIN: &str = "No page is used twice: a cache of any size and policy is of no use here.";
/// Reuse is of no account if it is less than this share of the references.
const LITTLE: f64 = 0.05;
/// The advice names first uses where they are at least this many percent of the references.
const MOSTLY: f64 = 50.0;
/// Policies nearer than this, in points, are equal for the purpose.
pub(super) const POINTS_THAT_MATTER: f64 = 0.1;
/// Where the best policy gains less than this over LRU, in points, and saves less than this share of LRU's misses, LRU will do.
const HARDLY: f64 = 1.0;
const HARDLY_OF_MISSES: f64 = 0.05;
/// The same for estimates.
const POINTS_OF_SAMPLE: f64 = 1.0;
/// The same for a device's time.
const SHARE_OF_TIME: f64 = 0.01;
/// This many of the tied policies are named.
const NAMED: usize = 3;
/// A cliff that is worth a word saves so much of all that can be saved.
const MUCH: f64 = 0.05;
/// Between two sizes the curve may bend where the larger one hits this many points more.
const WIDE: f64 = 10.0;
/// Among many sizes the next one is at least this many times as large.
const NEXT: f64 = 1.4;
/// So many sizes are many.
const MANY: usize = 16;

/// The on-line outcome with the most hits; the first one among equals.
pub fn best_on_line<'a>(outcomes: impl Iterator<Item = &'a RunOutcome>) -> Option<&'a RunOutcome> {
    outcomes.filter(|outcome| !outcome.off_line).fold(None, |best: Option<&RunOutcome>, outcome| match best {
        Some(best) if best.counted.hits >= outcome.counted.hits => Some(best),
        _ => Some(outcome),
    })
}

/// What an off-line policy is good for.
pub fn bound(policy: &str) -> &'static str {
    match policy {
        "opt" => "the limit",
        "worst" => "the floor",
        _ => "knows the future",
    }
}

/// The hits of a policy over all sizes.
pub fn hits(of_policy: &[RunOutcome]) -> u64 {
    of_policy.iter().map(|outcome| outcome.counted.hits).sum()
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// In words.
    pub text: String,
    /// What to take, if anything.
    pub take: Option<Take>,
}

/// A policy and a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Take {
    /// As the user named it.
    pub policy: String,
    /// In pages; it need not be one that was asked.
    pub pages: u32,
}

impl Advice {
    /// With a word on what is missing where it was stopped.
    fn stopped(mut self, at: Option<&Stop>) -> Self {
        if let Some(at) = at {
            let at = at.to_string();
            self.text = format!("S{}. By these runs: {}", at.trim_start_matches('s'), self.text);
        }
        self
    }

    fn none(text: &str) -> Self {
        Self { text: text.to_owned(), take: None }
    }
}

/// What is to be saved.
enum Measure<'a> {
    /// Misses, which are shown as hits. Costs are percent of the references.
    Hits,
    /// Misses. Costs are percent of the references.
    Misses,
    /// The time of the device of this name. Costs are milliseconds.
    Time(&'a str),
    /// Pages that miss or are read ahead. With readahead most references hit, so hits do not show what the device does. Costs are pages; this is their size in bytes.
    BroughtIn(u64),
}

impl Measure<'_> {
    /// What a cache does at that cost.
    fn says(&self, cost: f64) -> String {
        match self {
            Self::Hits => format!("hits {:.1} % of the references", 100.0 - cost),
            Self::Misses => format!("misses {cost:.1} % of the references"),
            Self::Time(device) => format!("keeps {device} at work for {} s", significant(cost / 1e3)),
            Self::BroughtIn(page_size) => format!("brings in {}", show_bytes(cost as u64 * page_size)),
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::Time(_) => "takes",
            Self::BroughtIn(_) => "brings in",
        }
    }

    /// How much better `cost` is than `other`, or worse: `3.1 points less`, `as much`, `4.6 times as much`.
    fn gap(&self, cost: f64, other: f64) -> String {
        // Of what is shown, so that a reader who subtracts finds the same.
        let points = |cost: f64, other: f64| (10.0 * cost).round() / 10.0 - (10.0 * other).round() / 10.0;
        let (amount, unit, less) = match self {
            Self::Hits => (points(100.0 - cost, 100.0 - other), "points", cost > other),
            Self::Misses => (points(other, cost), "points", cost < other),
            Self::Time(_) | Self::BroughtIn(_) => {
                (if other > 0.0 { 100.0 * (other - cost) / other } else { 0.0 }, "%", cost < other)
            }
        };
        // A hundred percent and more are read as a factor.
        if unit == "%" && amount <= -100.0 {
            return format!("{:.1} times as much", cost / other);
        }
        match format!("{:.1}", amount.abs()).as_str() {
            "0.0" => "as much".to_owned(),
            amount => format!("{amount} {unit} {}", if less { "less" } else { "more" }),
        }
    }

    /// The row of LRU where the best policy at that size is hardly better. Time and what comes in are weighed by the noise alone.
    fn lru_will_do(&self, field: &Field, column: usize, best: usize) -> Option<usize> {
        let lru = field.row("lru").filter(|_| matches!(self, Self::Hits | Self::Misses))?;
        let [best, lru_s] = [best, lru].map(|row| field.cost(row, column));
        let gain = lru_s - best;
        (gain < HARDLY && gain < HARDLY_OF_MISSES * lru_s.max(f64::MIN_POSITIVE)).then_some(lru)
    }
}

/// Which policy and size to take, and why.
pub fn of_comparison(comparison: &Comparison) -> Advice {
    let mut advice = comparison
        .reached
        .as_ref()
        .map_or_else(|| of_what_is_known(comparison), |reached| reached.advice(&comparison.trace));
    if let Some(words) = advice.take.as_ref().and_then(|take| kernel::advice(comparison, take)) {
        advice.text += &words;
    }
    // With readahead a first use may hit.
    let any = comparison.outcomes.first().filter(|_| comparison.readahead.is_none());
    advice.text +=
        &any.map_or(String::new(), |any| of_first_uses(any.counted.compulsory_misses, any.counted.references));
    advice.stopped(comparison.stopped.as_ref())
}

/// What to say of a trace most of whose references are first uses.
fn of_first_uses(first: u64, references: u64) -> String {
    let share = 100.0 * first as f64 / references.max(1) as f64;
    if !(MOSTLY..100.0 * (1.0 - LITTLE)).contains(&share) {
        return String::new();
    }
    format!(
        " Most of the references, {share:.1} %, are first uses, and no cache hits more than the other {:.1} %. A longer trace says more, or one \
         whose start warms the caches (--warmup).",
        100.0 - share
    )
}

fn of_what_is_known(comparison: &Comparison) -> Advice {
    let Comparison { trace, device, sample, at_most, .. } = comparison;
    let on_line = || comparison.outcomes.iter().filter(|outcome| !outcome.off_line);
    if let Some(advice) = on_line().next().and_then(|any| {
        let references = any.counted.references;
        of_little_use(references.saturating_sub(any.counted.compulsory_misses), references)
    }) {
        return advice;
    }
    if on_line().next().is_some() && on_line().all(|outcome| outcome.counted.hits == 0) {
        return nothing_hit(trace);
    }
    let rows = |cost: fn(&RunOutcome) -> f64| {
        let row = |of: &[RunOutcome]| (of[0].policy.clone(), of[0].off_line, of.iter().map(cost).collect());
        comparison.policies().map(row).map(|(policy, off_line, costs)| Row { policy, off_line, costs }).collect()
    };
    let misses = |outcomes: Vec<&RunOutcome>| {
        let on_line = outcomes.into_iter().filter(|outcome| !outcome.off_line);
        on_line.map(|outcome| 1.0 - outcome.counted.hit_ratio()).fold(1.0, f64::min)
    };
    let least: Vec<f64> = comparison.by_size().map(|(_, outcomes)| misses(outcomes)).collect();
    let counted = on_line().map(|outcome| outcome.counted.references).next().unwrap_or(0);
    let field = |rows, ends, noise| {
        let chance = least.iter().map(|&misses| by_chance(misses, counted)).collect();
        let sizes = pages(&comparison.sizes);
        let named = !comparison.has_usual_sizes();
        Field { asked: sizes.len(), sizes, named, footprint: trace.pages, rows, ends, noise, chance }
    };
    let ends = comparison.ends.as_ref();
    // What is read ahead is no first use.
    let with_all = ends.map(|ends| missed(&ends.with_all));
    let first_uses = || on_line().map(|outcome| percent(outcome.counted.compulsory_misses, outcome)).next();
    let noise = if sample.is_some() { POINTS_OF_SAMPLE } else { POINTS_THAT_MATTER };
    let ends_of_hits = (100.0, with_all.or_else(first_uses).unwrap_or(0.0));
    let by_hits = field(rows(missed), ends_of_hits, Noise::Difference(noise));
    let (cost, measure): (fn(&RunOutcome) -> f64, _) = match device {
        Some(device) => (device_time, Measure::Time(&device.name)),
        None if comparison.readahead.is_none() => {
            return words(&all_sizes(by_hits, *at_most), &Measure::Hits, trace, sample.is_some());
        }
        None => (|outcome| brought_in(outcome) as f64, Measure::BroughtIn(trace.page_size)),
    };
    let cheapest = || on_line().min_by(|one, other| cost(one).total_cmp(&cost(other)));
    let ends = ends.map(|ends| (cost(&ends.without), cost(&ends.with_all)));
    let ends = ends.or_else(|| cheapest().map(|outcome| ends_by_misses(outcome, cost(outcome)))).unwrap_or_default();
    let mut by_cost = field(rows(cost), ends, Noise::Share(SHARE_OF_TIME));
    // Of percent of the references to what the cost's noise is.
    let costs = (0..least.len()).map(|column| by_cost.least(column).unwrap_or(0.0));
    let costs: Vec<f64> = costs.zip(&least).map(|(cost, misses)| cost / (100.0 * misses.max(1e-9))).collect();
    by_cost.chance.iter_mut().zip(costs).for_each(|(chance, cost)| *chance *= cost);
    words(&all_sizes(by_cost, *at_most), &measure, trace, sample.is_some())
}

/// What to say where hardly anything is used again.
fn of_little_use(again: u64, references: u64) -> Option<Advice> {
    if again == 0 {
        return Some(Advice::none(NOTHING_AGAIN));
    }
    let share = again as f64 / references.max(1) as f64;
    let text = format!(
        "Hardly any page is used twice: {:.1} % of the references are to pages that were there before. A cache of any size and policy \
         is of little use here.",
        100.0 * share
    );
    (share < LITTLE).then(|| Advice::none(&text))
}

/// What to say where no policy hits anything at the sizes asked, and something is used again.
fn nothing_hit(trace: &Dimensions) -> Advice {
    let all = trace.bytes_in_words(trace.pages);
    let hits = 100.0 * (1.0 - f64::from(trace.pages) / trace.references.max(1) as f64);
    Advice::none(&format!(
        "No policy hits anything at these sizes: try larger ones. A cache of all pages has {all} ({}), and hits {hits:.1} % of the references.",
        counted(trace.pages.into(), "page")
    ))
}

/// The sizes up to the footprint, with the footprint where several are to be weighed against each other and it may be that large.
fn all_sizes(field: Field, at_most: bool) -> Field {
    let field = field.up_to_footprint();
    if field.sizes.len() > 1 && !at_most { field.with_footprint() } else { field }
}

/// What miss ratios of this many references may differ by, in percent, if every reference is a draw of its own.
fn by_chance(miss_ratio: f64, references: u64) -> f64 {
    100.0 * (2.0 * miss_ratio * (1.0 - miss_ratio) / references.max(1) as f64).sqrt()
}

fn percent(part: u64, of: &RunOutcome) -> f64 {
    100.0 * part as f64 / of.counted.references.max(1) as f64
}

fn missed(outcome: &RunOutcome) -> f64 {
    percent(outcome.counted.misses, outcome)
}

fn device_time(outcome: &RunOutcome) -> f64 {
    outcome.device.map_or(0.0, |cost| cost.device_ms)
}

/// What all references and the first uses cost, if a miss costs as much as in this run: one size is not weighed against
/// others, and this tells whether it hits as much as its share of the pages.
fn ends_by_misses(outcome: &RunOutcome, cost: f64) -> (f64, f64) {
    let of = |misses: u64| cost * misses as f64 / outcome.counted.misses.max(1) as f64;
    (of(outcome.counted.references), of(outcome.counted.compulsory_misses))
}

/// Which of the policies whose curves were made to take, and how large.
pub fn of_curves(curves: &Curves) -> Advice {
    let mut advice = of_known_curves(curves);
    advice.text += &of_first_uses(curves.trace.pages.into(), curves.trace.references);
    advice.stopped(curves.stopped.as_ref())
}

fn of_known_curves(curves: &Curves) -> Advice {
    let Curves { trace, sizes, sample, lines, .. } = curves;
    let row = |line: &super::curves::Line| Row {
        policy: line.policy.clone(),
        off_line: line.off_line,
        costs: sizes.iter().map(|&size| 100.0 * line.curve.miss_ratio(size)).collect(),
    };
    let rows: Vec<Row> = lines.iter().map(row).collect();
    let on_line = || rows.iter().filter(|row| !row.off_line);
    if let Some(advice) = of_little_use(trace.references.saturating_sub(trace.pages.into()), trace.references) {
        return advice;
    }
    if on_line().next().is_some() && on_line().all(|row| row.costs.iter().all(|&cost| cost >= 100.0)) {
        return nothing_hit(trace);
    }
    let noise = Noise::Difference(if sample.is_some() { POINTS_OF_SAMPLE } else { POINTS_THAT_MATTER });
    let first_uses = 100.0 * f64::from(trace.pages) / trace.references.max(1) as f64;
    let least = |column: usize| on_line().map(|row| row.costs[column]).fold(100.0, f64::min);
    let chance = (0..sizes.len()).map(|column| by_chance(least(column) / 100.0, trace.references)).collect();
    let (asked, footprint, ends) = (sizes.len(), trace.pages, (100.0, first_uses));
    let field = Field { sizes: sizes.clone(), asked, named: false, footprint, rows, ends, noise, chance };
    words(&all_sizes(field, false), &Measure::Misses, trace, sample.is_some())
}

fn words(field: &Field, measure: &Measure<'_>, trace: &Dimensions, sampled: bool) -> Advice {
    let Some(choice) = field.choose() else { return Advice::none(OFF_LINE_ALONE) };
    if field.named && choice.column >= field.asked {
        // Whoever names sizes is told first what to take of these.
        let mut advice = words(&field.of_those_asked(), measure, trace, sampled);
        advice.text += &of_all_pages(field, measure, trace, &choice);
        return advice;
    }
    let Choice { column, tied, runner_up, .. } = &choice;
    let column = *column;
    let name = |row: usize| field.rows[row].policy.as_str();
    let best = field.best(column).unwrap_or(choice.row);
    let lru = measure.lru_will_do(field, column, best).filter(|&lru| lru != best && !choice.no_locality);
    let row = lru.unwrap_or(choice.row);
    let cost = field.cost(row, column);
    let (size, policy) = (trace.size_in_words(field.sizes[column]), name(row));
    let alone = field.on_line().count() == 1;
    let take = if alone { format!("Take {size} for {policy}") } else { format!("Take {policy} with {size}") };
    let mut text = format!("{take}: it {}", measure.says(cost));
    if sampled {
        text += " by estimate";
    }
    let against = |row: usize| match field.noise.covers(field.cost(row, column), cost) {
        true => "as much as".to_owned(),
        false => {
            let gap = measure.gap(cost, field.cost(row, column));
            let word = if gap.ends_with("as much") { "as" } else { "than" };
            format!("{gap} {word}")
        }
    };
    let holds_all = column >= field.asked && !alone;
    if choice.no_locality && !holds_all {
        text += ", and all policies as much but for chance";
    } else if holds_all {
        text += ", as every policy does that holds all pages";
    } else if lru.is_none() {
        if let Some(others) = named(&tied.iter().map(|&row| name(row)).collect::<Vec<_>>()) {
            text += &format!(", and is the simplest of those within {} ({others})", field.noise.in_words());
        }
        if let Some(second) = *runner_up {
            text += &format!(", {} the runner-up, {}", against(second), name(second));
        }
        let known = |other: &usize| *other == row || tied.contains(other) || *runner_up == Some(*other);
        if let Some(lru) = field.row("lru").filter(|row| !known(row)) {
            text += &format!(", {} lru", against(lru));
        }
    }
    if let Some(opt) = field.row("opt").filter(|_| !holds_all) {
        let bound = match measure {
            Measure::Time(_) => "opt, which counts misses and not time",
            _ => "the limit",
        };
        text += &format!(", {} {bound}", against(opt));
    }
    text += ".";
    if lru.is_some() && !holds_all {
        text += &match measure.gap(field.cost(best, column), cost).as_str() {
            "as much" => {
                format!(" Another policy than lru hardly matters here: none {} 0.1 points more.", measure.verb())
            }
            gap => format!(
                " Another policy than lru hardly matters here: the best, {}, {} {gap}.",
                name(best),
                measure.verb()
            ),
        };
    }
    if choice.no_locality {
        text += " No policy matters at these sizes: no page is likelier to come back than another.";
    }
    if policy.split(':').next() == Some("mru") && !alone && !holds_all {
        text += " mru keeps its oldest pages whatever comes later: it is for references that stay like these.";
    }
    text += &why(field, measure, trace, &choice);
    Advice { text, take: Some(Take { policy: policy.to_owned(), pages: field.sizes[column] }) }
}

/// Why this size, and what others would give.
fn why(field: &Field, measure: &Measure<'_>, trace: &Dimensions, choice: &Choice) -> String {
    let Choice { column, reason, .. } = *choice;
    let (sizes, last) = (&field.sizes, column.max(field.asked - 1));
    if last == 0 {
        return String::new();
    }
    let best = |column: usize| field.least(column).unwrap_or(0.0);
    let far = |&other: &usize| {
        if field.asked < MANY {
            return true;
        }
        let [one, other] = [column.min(other), column.max(other)].map(|column| f64::from(sizes[column]));
        other >= NEXT * one
    };
    let before = (0..column).rev().find(far).or(column.checked_sub(1));
    let next = (column + 1..=last).find(far).or((column < last).then_some(last));
    // Behind the next size there may be a cliff: the size that gains half of what is left, if that is much.
    let left = best(column) - best(last);
    let cliff = (column + 1..=last).find(|&other| best(column) - best(other) >= left / 2.0);
    let cliff = cliff.filter(|_| left >= MUCH * (field.ends.0 - field.ends.1));
    let cliff = choice.cliff.or(cliff).filter(|&cliff| next < Some(cliff));
    let reason = match reason {
        Reason::Knee if column == last && column + 1 == field.asked && sizes[last] < trace.pages => {
            "Of the sizes asked this one gains the most for its memory."
        }
        Reason::Knee if matches!(measure, Measure::Misses) => {
            "Of the sizes drawn this is the knee: from here on more memory gains less."
        }
        Reason::Knee => "Of the sizes asked this is the knee: from here on more memory gains less.",
        Reason::Cliff => "A smaller size gains more for its memory, but this one gains at least twice as much in all.",
        Reason::Step if column >= field.asked => {
            "None of the sizes asked, which are smaller, gains more for its memory."
        }
        Reason::Step if matches!(measure, Measure::Misses) => {
            "Of the sizes drawn none is a knee: no smaller one gains more for its memory."
        }
        Reason::Step => "Of the sizes asked none is a knee: no smaller one gains more for its memory.",
    };
    let mut text = format!(" {reason}");
    if matches!(measure, Measure::Time(_) | Measure::BroughtIn(_)) {
        for (other, verb) in [before, next, cliff].into_iter().flatten().zip([measure.verb(), "", ""]) {
            let gap = measure.gap(best(other), best(column));
            let all = holds_all(field, other);
            let bytes = trace.bytes_in_words(sizes[other]) + all + if all.is_empty() { "" } else { "," };
            text += &match verb {
                "" => format!(", with {bytes} {gap}"),
                verb => format!(" With {bytes} the best policy {verb} {gap}"),
            };
        }
    } else {
        text += &gains(field, trace, column, before, [next, cliff]);
    }
    let more = if column == last && sizes[last] < trace.pages { "; no larger size was asked." } else { "." };
    text += more;
    // What a curve has between its sizes is known.
    let gaps = [before.map(|before| best(before) - best(column)), next.map(|next| best(column) - best(next))];
    let wide = matches!(measure, Measure::Hits) && gaps.into_iter().flatten().any(|gap| gap >= WIDE);
    // Where all pages fit every policy is as good: what is between is told by the best below.
    let below = field.asked - 1;
    let best_below =
        || field.on_line().min_by(|&one, &other| field.cost(one, below).total_cmp(&field.cost(other, below)));
    let row = if column > below { best_below().unwrap_or(choice.row) } else { choice.row };
    let policy = &field.rows[row].policy;
    if wide {
        text + &format!(" `forebay curve {} -p {policy}` looks at the sizes between.", quoted(&trace.name))
    } else {
        text
    }
}

fn holds_all(field: &Field, column: usize) -> &'static str {
    if column >= field.asked { ", which holds all pages" } else { "" }
}

/// What memory gains for the best policy: what came last up to the chosen size, and what would come next.
/// ` The last 64.0 MiB, from 64.0 MiB on, bring the best policy 19.0 points (0.3 for each MiB), the next 128 MiB, up to 256 MiB, 9.0 (0.07)`
fn gains(
    field: &Field,
    trace: &Dimensions,
    column: usize,
    before: Option<usize>,
    behind: [Option<usize>; 2],
) -> String {
    let last = before.map(|before| (before, column));
    let mut from = column;
    let next = behind.into_iter().flatten().map(|to| (std::mem::replace(&mut from, to), to));
    let pairs: Vec<(usize, usize)> = last.into_iter().chain(next).collect();
    let bytes = |&(from, to): &(usize, usize)| trace.bytes(field.sizes[to]) - trace.bytes(field.sizes[from]);
    let least = pairs.iter().map(bytes).min().unwrap_or(0);
    let units = ["KiB", "MiB", "GiB"].into_iter().zip([10, 20, 30]).filter(|_| !trace.has_objects());
    let unit = units.rev().find(|&(_, power)| least >> power > 0);
    // Of what is shown, so that a reader who subtracts finds the same.
    let shown = |column: usize| (10.0 * field.least(column).unwrap_or(0.0)).round() / 10.0;
    let mut text = String::new();
    for (index, pair @ &(from, to)) in pairs.iter().enumerate() {
        let points = shown(from) - shown(to);
        let more = if trace.has_objects() {
            counted((field.sizes[to] - field.sizes[from]).into(), "object")
        } else {
            show_bytes(bytes(pair))
        };
        let size = |column: usize| trace.bytes_in_words(field.sizes[column]);
        text += &match (index, to == column) {
            (0, true) => format!(" The last {more}, from {} on, bring the best policy", size(from)),
            (0, false) => {
                format!(" The next {more}, up to {}{}, bring the best policy", size(to), holds_all(field, to))
            }
            (_, _) if from == column => format!(", the next {more}, up to {}{},", size(to), holds_all(field, to)),
            (_, _) => format!(", the {more} behind them, up to {}{},", size(to), holds_all(field, to)),
        };
        text += &if points < POINTS_THAT_MATTER / 2.0 { " nothing".to_owned() } else { format!(" {points:.1} points") };
        if let Some((unit, power)) = unit.filter(|_| points >= POINTS_THAT_MATTER) {
            let each = if index == 0 { format!(" for each {unit}") } else { String::new() };
            text += &format!(" ({}{each})", significant(points * (1_u64 << power) as f64 / bytes(pair) as f64));
        }
    }
    text
}

/// What a cache of all pages would do that gains more than any size asked does.
fn of_all_pages(field: &Field, measure: &Measure<'_>, trace: &Dimensions, choice: &Choice) -> String {
    let (bytes, cost) = (trace.bytes_in_words(field.sizes[choice.column]), field.cost(choice.row, choice.column));
    format!(
        " A cache of all pages, {bytes}, {} under every policy: no size asked gains as much for its memory.",
        measure.says(cost)
    )
}

/// A trace's name as a shell takes it.
fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// The names, the first few of many.
fn named(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some((*one).to_owned()),
        // One other is named as briefly as it is counted.
        [first @ .., last] if names.len() <= NAMED + 1 => Some(format!("{} and {last}", first.join(", "))),
        _ => Some(format!("{} and {} others", names[..NAMED].join(", "), names.len() - NAMED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_two_others_are_counted() {
        let names = ["lru", "arc", "lirs", "2q", "mq"];
        let listed = [1, 2, 4, 5].map(|count| named(&names[..count]).unwrap());
        assert_eq!(listed, ["lru", "lru and arc", "lru, arc, lirs and 2q", "lru, arc, lirs and 2 others"]);
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn differences_beyond_a_hundred_percent_are_factors() {
        let gap = |cost, other| Measure::Time("nvme").gap(cost, other);
        assert_eq!(
            [gap(90.0, 100.0), gap(150.0, 100.0), gap(460.0, 100.0)],
            ["10.0 % less", "50.0 % more", "4.6 times as much"]
        );
        assert_eq!([gap(100.0, 100.01), Measure::Hits.gap(40.0, 30.0)], ["as much", "10.0 points less"]);
    }
}
