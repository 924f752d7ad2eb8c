//! The table of `forebay compare`, for a person.

use crate::advice::{advice, best_on_line};
use crate::by_owner;
use crate::compare::Comparison;
use crate::device::Device;
use crate::failure::Failure;
use crate::output::{grouped, percent};
use crate::sampling;
use comfy_table::{Attribute, Cell, CellAlignment, Table, presets};
use forebay_sim::size::show_bytes;
use forebay_sim::{Outcome, Size};
use std::io::Write;

/// Prints the comparison: policies by sizes, the best on-line policy of each size marked, the bounds below, and advice.
pub(crate) fn print(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { trace, warmup, sizes, sample, outcomes, .. } = comparison;
    let about = if sample.is_some() { "about " } else { "" };
    write!(
        out,
        "{}: {} references to {about}{} pages of {} ({})",
        trace.name,
        grouped(trace.references),
        grouped(u64::from(trace.pages)),
        show_bytes(trace.page_size),
        show_bytes(u64::from(trace.pages) * trace.page_size),
    )?;
    match warmup {
        0 => writeln!(out, "; hit ratios in percent")?,
        warmup => writeln!(out, "; hit ratios in percent after {} to warm up", grouped(*warmup))?,
    }
    if let Some((rate, pages)) = *sample {
        sampling::print(rate, pages, out)?;
    }

    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let bytes = |pages: u32| show_bytes(u64::from(pages) * trace.page_size);
    let share = |pages: u32| format!("{}%", significant(100.0 * f64::from(pages) / f64::from(trace.pages)));
    let asked = sizes.iter().map(|&(pages, size)| match size {
        Size::Percent(_) => right(size.to_string()),
        _ => right(share(pages)),
    });
    table.add_row(header("of the footprint", asked));
    table.add_row(header("pages", sizes.iter().map(|&(pages, _)| right(grouped(u64::from(pages))))));
    table.add_row(header("bytes", sizes.iter().map(|&(pages, _)| right(bytes(pages)))));
    let rule = vec![Cell::new("─".repeat(8)); sizes.len() + 1];
    table.add_row(rule.clone());
    let rows: Vec<&[Outcome]> = outcomes.chunks(sizes.len()).collect();
    let best: Vec<Option<&Outcome>> =
        (0..sizes.len()).map(|column| best_on_line(rows.iter().map(|row| &row[column]))).collect();
    for row in rows.iter().filter(|row| !row[0].off_line) {
        let cells = row.iter().zip(&best).map(|(outcome, best)| {
            let is_best = best.is_some_and(|best| best.counted.hits == outcome.counted.hits);
            let cell = right(format!("{}{}", percent(outcome.counted.hit_ratio()), if is_best { "*" } else { " " }));
            if is_best { cell.add_attribute(Attribute::Bold) } else { cell }
        });
        table.add_row(header(&row[0].policy, cells));
    }
    let off_line: Vec<_> = rows.iter().filter(|row| row[0].off_line).collect();
    if !off_line.is_empty() && off_line.len() < rows.len() {
        table.add_row(rule);
    }
    for row in off_line {
        let cells = row.iter().map(|outcome| right(format!("{} ", percent(outcome.counted.hit_ratio()))));
        table.add_row(header(&format!("{} ({})", row[0].policy, bound(&row[0].policy)), cells));
    }
    writeln!(out, "{}", table.trim_fmt())?;
    writeln!(out, "* the best of the policies that do not know the future")?;
    if let Some(device) = &comparison.device {
        print_device_times(comparison, device, out)?;
        print_costs(comparison, out)?;
    }
    if !comparison.readahead.is_none() {
        print_readahead(comparison, out)?;
    }
    if outcomes.iter().any(|outcome| outcome.by_distance.is_some()) {
        print_distances(comparison, out)?;
    }
    if !comparison.owners.is_empty() {
        by_owner::print(comparison, out)?;
    }
    writeln!(out, "\n{}", advice(comparison))?;
    Ok(())
}

/// Prints hits and misses by temporal distance, for each size.
fn print_distances(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { sizes, outcomes, .. } = comparison;
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    for (column, &(pages, _)) in sizes.iter().enumerate() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let titles = ["nearer: hits", "misses", "farther: hits", "misses"].into_iter();
        table.add_row(header("policy", titles.map(right)));
        table.add_row(vec![Cell::new("─".repeat(8)); 5]);
        for outcome in outcomes.iter().skip(column).step_by(sizes.len()) {
            let counts = outcome.by_distance.unwrap_or_default();
            let cells = [counts.near_hits, counts.near_misses, counts.far_hits, counts.far_misses].into_iter();
            table.add_row(header(&outcome.policy, cells.map(|count| right(&grouped(count)))));
        }
        let pages = grouped(u64::from(pages));
        writeln!(
            out,
            "\nhits and misses nearer or farther than {pages} references from the page's last use, {pages} pages"
        )?;
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}

/// Prints what became of the pages read ahead, for each size.
fn print_readahead(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { sizes, readahead, outcomes, .. } = comparison;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for (column, &(pages, _)) in sizes.iter().enumerate() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut titles = vec!["fetched", "used", "wasted", "% of references"];
        titles.extend(comparison.device.is_some().then_some("late"));
        table.add_row(header("policy", titles.iter().map(|&title| right(title.to_owned()))));
        table.add_row(vec![Cell::new("─".repeat(8)); titles.len() + 1]);
        for outcome in outcomes.iter().skip(column).step_by(sizes.len()) {
            let counts = outcome.readahead.unwrap_or_default();
            let mut cells = [counts.fetched, counts.used, counts.wasted].map(grouped).to_vec();
            cells.push(percent(counts.used as f64 / outcome.counted.references as f64));
            cells.extend(counts.late.map(grouped));
            table.add_row(header(&outcome.policy, cells.into_iter().map(right)));
        }
        let (label, pages) = (&readahead.label, grouped(u64::from(pages)));
        writeln!(out, "\npages read ahead by {label}, with {pages} pages; those used are hits thanks to it")?;
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}

/// Prints the time that the device takes for the misses of each policy at each size, the least of the on-line ones marked.
fn print_device_times(comparison: &Comparison, device: &Device, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { sizes, outcomes, .. } = comparison;
    let time = |outcome: &Outcome| outcome.device.map_or(0.0, |cost| cost.device_ms);
    let least: Vec<f64> = (0..sizes.len())
        .map(|column| {
            let column = outcomes.iter().skip(column).step_by(sizes.len());
            column.filter(|outcome| !outcome.off_line).map(time).fold(f64::INFINITY, f64::min)
        })
        .collect();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(header("pages", sizes.iter().map(|&(pages, _)| right(grouped(u64::from(pages)) + " "))));
    table.add_row(vec![Cell::new("─".repeat(8)); sizes.len() + 1]);
    for row in outcomes.chunks(sizes.len()) {
        let cells = row.iter().zip(&least).map(|(outcome, &least)| {
            let is_least = !outcome.off_line && time(outcome) == least;
            let cell = right(format!("{}{}", grouped(time(outcome).round() as u64), if is_least { "*" } else { " " }));
            if is_least { cell.add_attribute(Attribute::Bold) } else { cell }
        });
        table.add_row(header(&row[0].policy, cells));
    }
    writeln!(out, "\ndevice time in ms on {}: {}", device.name, device.model.title)?;
    writeln!(out, "{}", table.trim_fmt())?;
    Ok(())
}

/// Prints what the misses cost besides, for each size.
fn print_costs(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { sizes, outcomes, .. } = comparison;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for (column, &(pages, _)) in sizes.iter().enumerate() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut titles = vec!["wait, mean ms", "99 % wait at most", "requests", "pages each"];
        let priced = outcomes.iter().any(|outcome| outcome.device.is_some_and(|cost| cost.price.is_some()));
        titles.extend(priced.then_some("price"));
        table.add_row(header("policy", titles.iter().map(|&title| right(title.to_owned()))));
        table.add_row(vec![Cell::new("─".repeat(8)); titles.len() + 1]);
        for outcome in outcomes.iter().skip(column).step_by(sizes.len()) {
            let Some(cost) = outcome.device else { continue };
            let mut cells = vec![
                significant(cost.wait_mean_ms),
                significant(cost.wait_p99_ms),
                grouped(cost.requests),
                significant(cost.mean_request_pages),
            ];
            cells.extend(cost.price.map(|price| format!("{price:.4}")));
            table.add_row(header(&outcome.policy, cells.into_iter().map(right)));
        }
        writeln!(out, "\nwhat references wait, and requests, with {} pages", grouped(u64::from(pages)))?;
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}

fn header(title: &str, cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    std::iter::once(Cell::new(title)).chain(cells).collect()
}

/// What an off-line policy is good for.
fn bound(policy: &str) -> &'static str {
    match policy {
        "opt" => "the limit",
        "worst" => "worst possible",
        _ => "knows the future",
    }
}

/// About two digits that matter: 0.013, 0.52, 1.0, 10, 150.
pub(crate) fn significant(number: f64) -> String {
    let decimals = if number >= 9.95 || number == 0.0 { 0 } else { (1.0 - number.log10().floor()).max(0.0) as usize };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::significant;

    #[test]
    fn shares_are_shown_with_the_digits_that_matter() {
        assert_eq!(
            [0.0134, 0.5, 1.0, 2.04, 9.96, 10.2, 150.0].map(significant),
            ["0.013", "0.5", "1", "2", "10", "10", "150"]
        );
    }
}
