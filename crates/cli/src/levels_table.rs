//! The tables of `forebay levels`, for a person.

use crate::failure::Failure;
use crate::levels::{Levels, mode, write};
use crate::output::{grouped, percent};
use crate::table::significant;
use comfy_table::{Cell, CellAlignment, Table, presets};
use forebay_sim::Hierarchy;
use forebay_sim::levels::{Analysis, Outcome};
use forebay_sim::size::show_bytes;
use std::io::Write;

/// Prints a row for each level of each hierarchy, and one for what is left for the storage.
pub(crate) fn print(levels: &Levels, out: &mut impl Write) -> Result<(), Failure> {
    let Levels { trace, device, runs, .. } = levels;
    let Some((first, _)) = runs.first() else { return Ok(()) };
    let writes: Vec<String> = first.levels.iter().map(|level| write(level.write)).collect();
    writeln!(
        out,
        "{}: {} references to {} pages of {} ({}); {}, writes {}",
        trace.name,
        grouped(trace.references),
        grouped(u64::from(trace.pages)),
        show_bytes(trace.page_size),
        show_bytes(u64::from(trace.pages) * trace.page_size),
        mode(first.mode),
        writes.join(", "),
    )?;
    let caches = runs.iter().map(|(hierarchy, _)| hierarchy.levels[0].caches).max().unwrap_or(0);
    if caches as usize > levels.owners {
        let owners = if levels.owners == 1 { "owner" } else { "owners" };
        writeln!(out, "The trace has {} {owners}: some of {caches} first-level caches are not used.", levels.owners)?;
    }
    let mut titles =
        vec!["references", "hits", "hit ratio %", "of reads %", "writes received", "writes sent", "demotions received"];
    let hints = runs.iter().any(|(_, outcome)| outcome.levels.iter().any(|passed| passed.hints_received > 0));
    titles.extend(hints.then_some("hints received"));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(row("level", titles.iter().map(|&title| title.to_owned())));
    for (hierarchy, outcome) in runs {
        table.add_row(vec![Cell::new("─".repeat(8)); titles.len() + 1]);
        for (index, passed) in outcome.levels.iter().enumerate() {
            let mut cells = vec![
                grouped(passed.references),
                grouped(passed.hits),
                percent(passed.hit_ratio()),
                percent(passed.read_hit_ratio()),
                grouped(passed.writes_received),
                grouped(passed.writes_sent),
                grouped(passed.demotions_received),
            ];
            cells.extend(hints.then(|| grouped(passed.hints_received)));
            table.add_row(row(&name(hierarchy, index, trace.page_size), cells.into_iter()));
        }
        let mut cells = vec![String::new(); titles.len()];
        cells[0] = grouped(outcome.storage_reads + outcome.storage_writes);
        cells[4] = grouped(outcome.storage_writes);
        table.add_row(row("storage", cells.into_iter()));
    }
    writeln!(out, "{}", table.trim_fmt())?;
    if let Some(device) = device {
        writeln!(out, "\nwhat the storage costs on {}: {}", device.name, device.model.title)?;
        print_costs(levels, out)?;
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

fn names(hierarchy: &Hierarchy, page_size: u64) -> String {
    let names: Vec<String> = (0..hierarchy.levels.len()).map(|index| name(hierarchy, index, page_size)).collect();
    names.join(", ")
}

fn print_costs(levels: &Levels, out: &mut impl Write) -> Result<(), Failure> {
    let priced = levels.runs.iter().any(|(_, outcome)| outcome.device.is_some_and(|cost| cost.price.is_some()));
    let mut titles = vec!["device ms", "wait, mean ms", "99 % wait at most", "requests", "pages each"];
    titles.extend(priced.then_some("price"));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(row("levels", titles.iter().map(|&title| title.to_owned())));
    for (hierarchy, outcome) in &levels.runs {
        let Some(cost) = outcome.device else { continue };
        let mut cells = vec![
            grouped(cost.device_ms.round() as u64),
            significant(cost.wait_mean_ms),
            significant(cost.wait_p99_ms),
            grouped(cost.requests),
            significant(cost.mean_request_pages),
        ];
        cells.extend(cost.price.map(|price| format!("{price:.4}")));
        table.add_row(row(&names(hierarchy, levels.trace.page_size), cells.into_iter()));
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

/// Prints the references that each level gets, by powers of two.
fn print_analyses(
    hierarchy: &Hierarchy,
    outcome: &Outcome,
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
    writeln!(
        out,
        "\n{}\nreferences by temporal distance, each power of two with those above half of it",
        names(hierarchy, page_size)
    )?;
    let counts =
        |analysis: &Analysis, power: usize| vec![grouped(analysis.distances.counts().get(power).copied().unwrap_or(0))];
    let rows = analyses.iter().map(|analysis| analysis.distances.counts().len()).max().unwrap_or(0);
    print_by_powers("distance", levels(&["references"]), rows, &analyses, &counts, out)?;
    writeln!(out, "\npages with at least so many references, and the references to these, in percent")?;
    let shares = |analysis: &Analysis, power: usize| {
        let share = |shares: Vec<f64>| shares.get(power).map_or_else(String::new, |&share| percent(share));
        vec![share(analysis.pages.at_least()), share(analysis.references.at_least())]
    };
    let rows = analyses.iter().map(|analysis| analysis.pages.counts().len()).max().unwrap_or(0);
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
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(row(what, titles.into_iter()));
    for power in 0..rows {
        let cells = analyses.iter().flat_map(|analysis| cells(analysis, power));
        table.add_row(row(&grouped(1 << power), cells));
    }
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

fn row(title: &str, cells: impl Iterator<Item = String>) -> Vec<Cell> {
    let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
    std::iter::once(Cell::new(title)).chain(cells.map(right)).collect()
}
