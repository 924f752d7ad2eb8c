//! The tables of `forebay levels`, for a person.

use super::grid::Grid;
use super::{say, to_width};
use crate::failure::Failure;
use forebay_basis::show_bytes;
use forebay_model::Cost;
use forebay_sim::Hierarchy;
use forebay_sim::levels::{Analysis, HierarchyOutcome, Passed};
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::{COST, LEVEL, READS, WAITS_AND_REQUESTS};
use forebay_sim::study::{Figure, Levels, Times, grouped, percent};
use std::io::Write;

/// Prints a row for each level of each hierarchy, and one for what is left for the storage.
pub(crate) fn print(levels: &Levels, out: &mut impl Write) -> Result<(), Failure> {
    let Levels { trace, device, runs, .. } = levels;
    let Some((first, _)) = runs.first() else { return Ok(()) };
    let writes: Vec<String> = first.levels.iter().map(|level| level.write.to_string()).collect();
    let alike = writes.iter().all(|write| *write == writes[0]);
    let writes = if alike { writes[0].clone() } else { format!("{} by level", writes.join(", ")) };
    say(out, format!("{}: {}; {}, writes {writes}", trace.name, trace.in_words(""), first.mode))?;
    let caches = runs.iter().map(|(hierarchy, _)| hierarchy.levels[0].caches).max().unwrap_or(0);
    if caches as usize > levels.owners {
        let owners = if levels.owners == 1 { "owner" } else { "owners" };
        say(
            out,
            format!("The trace has {} {owners}: some of {caches} first-level caches are not used.", levels.owners),
        )?;
    }
    let mut figures: Vec<&Figure<Passed>> = Vec::new();
    for figure in LEVEL.iter().filter(|figure| !["reads", "read_hits"].contains(&figure.name)) {
        figures.extend((figure.name != "hints_received" || levels.tells_hints()).then_some(figure));
        figures.extend((figure.name == "hit_ratio").then_some(&READS[0]));
    }
    let mut grid = Grid::of_figures("level", figures.iter().map(|figure| figure.heading));
    for (hierarchy, outcome) in runs {
        grid.rule();
        for (index, passed) in outcome.levels.iter().enumerate() {
            let name = name(hierarchy, index, trace.page_size);
            grid.figures(&name, figures.iter().map(|figure| figure.shown(passed)));
        }
        let storage = |figure: &&Figure<Passed>| match figure.name {
            "references" => grouped(outcome.storage_reads + outcome.storage_writes),
            "writes_received" => grouped(outcome.storage_writes),
            _ => String::new(),
        };
        grid.figures("storage", figures.iter().map(storage));
    }
    grid.print(out)?;
    if let Some(device) = device {
        say(out, format!("\nwhat the storage costs on {}: {}", device.name, device.model.title))?;
        print_costs(levels, out)?;
    }
    if let Some(advice) = levels.advice() {
        writeln!(out, "\n{}", to_width(&advice))?;
    }
    for (hierarchy, outcome) in runs {
        print_analyses(hierarchy, outcome, trace.page_size, out)?;
    }
    Ok(())
}

/// `1 lru 1,024 (8 MiB) * 12`
fn name(hierarchy: &Hierarchy, index: usize, page_size: u64) -> String {
    let level = &hierarchy.levels[index];
    let pages = u64::from(level.pages);
    let caches = if level.caches > 1 { format!(" * {}", level.caches) } else { String::new() };
    format!("{} {} {} ({}){caches}", index + 1, level.spec.label, grouped(pages), show_bytes(pages * page_size))
}

fn names(hierarchy: &Hierarchy, page_size: u64) -> Vec<String> {
    (0..hierarchy.levels.len()).map(|index| name(hierarchy, index, page_size)).collect()
}

fn print_costs(levels: &Levels, out: &mut impl Write) -> Result<(), Failure> {
    let priced = levels.runs.iter().any(|(_, outcome)| outcome.device.is_some_and(|cost| cost.price.is_some()));
    let names_of_figures = WAITS_AND_REQUESTS.into_iter().chain(priced.then_some("price"));
    let figures: Vec<&Figure<Cost>> = names_of_figures.map(|name| named(COST, name)).collect();
    let times = Times::of(levels.runs.iter().filter_map(|(_, outcome)| outcome.device).map(|cost| cost.device_ms));
    let headings = figures.iter().map(|figure| figure.heading.to_owned());
    let mut grid = Grid::of_figures("levels", [format!("device {}", times.unit())].into_iter().chain(headings));
    for (hierarchy, outcome) in &levels.runs {
        let Some(cost) = &outcome.device else { continue };
        let cells = [times.shown(cost.device_ms)].into_iter().chain(figures.iter().map(|figure| figure.shown(cost)));
        // A line for each level.
        grid.figures(&names(hierarchy, levels.trace.page_size).join("\n"), cells);
    }
    grid.print(out)
}

/// Prints the references that each level gets, by powers of two.
fn print_analyses(
    hierarchy: &Hierarchy,
    outcome: &HierarchyOutcome,
    page_size: u64,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let analyses: Vec<&Analysis> = outcome.levels.iter().filter_map(|passed| passed.analysis.as_ref()).collect();
    if analyses.is_empty() {
        return Ok(());
    }
    let levels = |titles: &[&str]| -> Vec<String> {
        let of_level = |level| titles.iter().map(move |title| format!("level {level}: {title}"));
        (1..=analyses.len()).flat_map(of_level).collect()
    };
    let names = names(hierarchy, page_size).join(", ");
    say(out, format!("\n{names}\nreferences by temporal distance, each power of two with those above half of it"))?;
    let counts = |analysis: &Analysis, power: usize| {
        vec![grouped(analysis.distances.get(power).map_or(0, |point| point.references))]
    };
    let rows = analyses.iter().map(|analysis| analysis.distances.len()).max().unwrap_or(0);
    print_by_powers("distance", levels(&["references"]), rows, &analyses, &counts, out)?;
    say(out, "\npages with at least this many references, and the references to these, in percent")?;
    let shares = |analysis: &Analysis, power: usize| match analysis.shares().nth(power) {
        Some((pages, references)) => vec![percent(pages), percent(references)],
        None => vec![String::new(); 2],
    };
    let rows = analyses.iter().map(|analysis| analysis.frequency.len()).max().unwrap_or(0);
    print_by_powers("frequency", levels(&["pages", "references"]), rows, &analyses, &shares, out)
}

fn print_by_powers(
    what: &str,
    titles: Vec<String>,
    rows: usize,
    analyses: &[&Analysis],
    cells: &dyn Fn(&Analysis, usize) -> Vec<String>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut grid = Grid::of_figures(what, titles);
    for power in 0..rows {
        grid.figures(&grouped(1 << power), analyses.iter().flat_map(|analysis| cells(analysis, power)));
    }
    grid.print(out)
}
