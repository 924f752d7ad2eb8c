//! The table of `forebay compare`, for a person.

use super::grid::Grid;
use super::{say, short, to_width};
use crate::failure::Failure;
use forebay_basis::show_bytes;
use forebay_model::presets::Named;
use forebay_sim::study::advice::{self, Take, best_on_line};
use forebay_sim::study::comparison::{Comparison, part_sum};
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::{BY_DISTANCE, COST, COUNTS, PART, READAHEAD, WAITS_AND_REQUESTS};
use forebay_sim::study::kernel::{BesideKernel, brought_in};
use forebay_sim::study::{Figure, Times, counted, grouped, percent};
use forebay_sim::words::{owner_name, sampled};
use forebay_sim::{By, RunOutcome, Size};
use std::io::Write;

/// A size asked as a share is whole pages: where the trace is small that is another share.
const HALF_A_PERCENT: f64 = 0.5;

/// The most policies that a table of programs or files has columns for, beside `lru`.
const BY_PART: usize = 5;

/// The most programs or files that are shown by name.
const PARTS: usize = 8;

/// Prints the comparison: policies by sizes, the best on-line policy of each size marked, the bounds below, and advice; waits and requests too, if wanted.
pub(crate) fn print(comparison: &Comparison, waits: bool, out: &mut impl Write) -> Result<(), Failure> {
    let Comparison { trace, warmup, sizes, sample, readahead, .. } = comparison;
    let about = if sample.is_some() { "about " } else { "" };
    let warm = if *warmup == 0 { String::new() } else { format!(" after {} to warm up", grouped(*warmup)) };
    // An answer is not looked for behind long tables.
    let more = comparison.device.is_some() || comparison.by.is_some() || !comparison.readahead.is_none();
    let long = more || waits || comparison.tells_distances();
    let head = format!("{}: {}", trace.name, trace.in_words(about));
    let ahead = if readahead.is_none() { String::new() } else { format!(" with readahead {}", readahead.label) };
    let figures = format!("hit ratios in percent{ahead}{warm}");
    say(out, if long { head } else { format!("{head}; {figures}") })?;
    for line in [comparison.recorded_in_words(), comparison.larger_blocks_in_words(), comparison.left_out_in_words()]
        .into_iter()
        .flatten()
    {
        writeln!(out, "{}", to_width(&line))?;
    }
    if let Some((rate, pages)) = *sample {
        writeln!(out, "{}", sampled(rate, pages))?;
    }

    let share = sizes.iter().map(|&(pages, size)| match size {
        Size::Percent(share) if (trace.share(pages) - share).abs() < HALF_A_PERCENT => size.to_string(),
        _ => trace.share_in_words(pages),
    });
    let mut grid = Grid::of_figures("cache size", sizes.iter().map(|&(pages, _)| trace.bytes_in_words(pages)));
    grid.figures("pages", sizes.iter().map(|&(pages, _)| grouped(u64::from(pages))));
    grid.figures("of the footprint", share);
    grid.rule();
    let hit_ratio = named(COUNTS, "hit_ratio");
    let best: Vec<Option<u64>> = comparison.by_size().map(|(_, outcomes)| best_of_several(&outcomes)).collect();
    add_policies(
        &mut grid,
        comparison.policies(),
        |row| row[0].off_line,
        |grid, row| {
            let cells = row.iter().zip(&best).map(|(outcome, best)| {
                let is_best = !outcome.off_line && *best == Some(outcome.counted.hits);
                (hit_ratio.shown(&outcome.counted) + if is_best { "*" } else { " " }, is_best)
            });
            let policy = &row[0].policy;
            let bound = if row[0].off_line { format!(" ({})", advice::bound(policy)) } else { String::new() };
            grid.marked_figures(&format!("{policy}{bound}"), cells);
        },
    );
    let advice = advice::of_comparison(comparison);
    let text = to_width(&advice.text);
    if long {
        writeln!(out, "\n{text}\n")?;
        say(out, figures)?;
    }
    grid.print(out)?;
    if best.iter().any(Option::is_some) {
        say(out, "* the best of the policies that do not know the future")?;
    }
    if let Some(beside) = &comparison.beside_kernel {
        print_beside_kernel(comparison, beside, advice.take.as_ref(), out)?;
    }
    if let Some(device) = &comparison.device {
        print_device_times(comparison, device, out)?;
    }
    if waits {
        print_costs(comparison, out)?;
    }
    if !comparison.readahead.is_none() {
        print_readahead(comparison, advice.take.as_ref().map(|take| take.pages), out)?;
    }
    if comparison.tells_distances() {
        print_distances(comparison, out)?;
    }
    if let Some(by) = comparison.by {
        print_parts(comparison, by, advice.take.as_ref().map(|take| take.pages), out)?;
    }
    if !long {
        writeln!(out, "\n{text}")?;
    }
    Ok(())
}

/// Of many policies those with the fewest misses, and LRU; in their order.
fn fewest_misses<'a>(all: &[&'a RunOutcome]) -> Vec<&'a RunOutcome> {
    let mut shown: Vec<usize> = (0..all.len()).collect();
    if all.len() > BY_PART + 1 {
        shown.sort_by_key(|&index| all[index].counted.misses);
        let lru = shown[BY_PART..].iter().copied().find(|&index| all[index].policy == "lru");
        shown.truncate(BY_PART);
        shown.extend(lru);
        shown.sort_unstable();
    }
    shown.into_iter().map(|index| all[index]).collect()
}

/// Adds a row for each policy, in the order of all tables: those that can be run, and below a rule those that know the future.
fn add_policies<T>(
    grid: &mut Grid,
    policies: impl Iterator<Item = T>,
    off_line: impl Fn(&T) -> bool,
    add: impl Fn(&mut Grid, &T),
) {
    let (foreseeing, on_line): (Vec<T>, Vec<T>) = policies.partition(off_line);
    on_line.iter().for_each(|policy| add(grid, policy));
    if !on_line.is_empty() && !foreseeing.is_empty() {
        grid.rule();
    }
    foreseeing.iter().for_each(|policy| add(grid, policy));
}

/// The most hits of an on-line policy, where they are not those of all.
fn best_of_several(outcomes: &[&RunOutcome]) -> Option<u64> {
    let best = best_on_line(outcomes.iter().copied())?.counted.hits;
    let is_less = |outcome: &&RunOutcome| !outcome.off_line && outcome.counted.hits < best;
    outcomes.iter().any(is_less).then_some(best)
}

/// Prints how many bytes come into the front end's cache, and into the kernel's own: under what the advice takes, and under LRU.
fn print_beside_kernel(
    comparison: &Comparison,
    beside: &BesideKernel,
    take: Option<&Take>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let Comparison { trace, sizes, .. } = comparison;
    let front_end = comparison.front_end();
    let column = take.and_then(|take| sizes.iter().position(|&(pages, _)| pages == take.pages));
    let steered = column.and_then(|column| beside.best_steered(column)).map(|outcome| &*outcome.policy);
    let mut grid = Grid::of_figures("cache size", sizes.iter().map(|&(pages, _)| trace.bytes_in_words(pages)));
    grid.rule();
    let mut row = |name: &str, outcomes: &[RunOutcome]| {
        grid.figures(name, outcomes.iter().map(|outcome| show_bytes(brought_in(outcome) * trace.page_size)));
    };
    let shown = |policy: &str, best: Option<&str>| policy == "lru" || best == Some(policy);
    let at = column.unwrap_or(sizes.len() - 1);
    let mut least: Vec<u64> = comparison.policies().map(|of| brought_in(&of[at])).collect();
    least.sort_unstable();
    let few = |of: &[RunOutcome]| brought_in(&of[at]) <= least[least.len().min(BY_PART) - 1] && !of[0].off_line;
    let taken = take.map(|take| &*take.policy);
    for of_policy in comparison.policies().filter(|of| few(of) || shown(&of[0].policy, taken)) {
        row(&format!("{}, {front_end}", of_policy[0].policy), of_policy);
    }
    row("the kernel alone", &beside.alone);
    for of_policy in beside.steered().filter(|of| shown(&of[0].policy, steered)) {
        row(&format!("{}, steer", of_policy[0].policy), of_policy);
    }
    let ahead = &beside.readahead.label;
    say(
        out,
        format!(
            "\nwhat comes into the cache, missed or read ahead; the kernel has the same memory, and readahead {ahead}"
        ),
    )?;
    grid.print(out)
}

/// A heading, and the cell of a run under it.
type Column = (&'static str, Box<dyn Fn(&RunOutcome) -> String>);

fn column<T: 'static>(figure: &'static Figure<T>, part: fn(&RunOutcome) -> Option<T>) -> Column {
    (figure.heading, Box::new(move |of| part(of).map_or_else(String::new, |part| figure.shown(&part))))
}

/// Prints a table for each size, with a row for each policy. The title is told the size.
fn print_by_size(
    comparison: &Comparison,
    columns: &[Column],
    title: impl Fn(String) -> String,
    out: &mut impl Write,
) -> Result<(), Failure> {
    print_sizes(comparison.by_size(), columns, title, out)
}

fn print_sizes<'a>(
    by_size: impl Iterator<Item = (u32, Vec<&'a RunOutcome>)>,
    columns: &[Column],
    title: impl Fn(String) -> String,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for (pages, outcomes) in by_size {
        let mut grid = Grid::of_figures("policy", columns.iter().map(|(heading, _)| *heading));
        grid.rule();
        add_policies(
            &mut grid,
            outcomes.into_iter(),
            |outcome| outcome.off_line,
            |grid, outcome| grid.figures(&outcome.policy, columns.iter().map(|(_, cell)| cell(outcome))),
        );
        say(out, format!("\n{}", title(counted(pages.into(), "page"))))?;
        grid.print(out)?;
    }
    Ok(())
}

/// Prints hits and misses by temporal distance, for each size.
fn print_distances(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let columns: Vec<Column> = BY_DISTANCE.iter().map(|figure| column(figure, |of| of.by_distance)).collect();
    let title = |pages: String| {
        let references = pages.replace("page", "reference");
        format!("hits and misses nearer or farther than {references} from the page's last use, {pages}")
    };
    print_by_size(comparison, &columns, title, out)
}

/// Prints what became of the pages read ahead, at the size that the advice names, or the largest one.
fn print_readahead(comparison: &Comparison, size: Option<u32>, out: &mut impl Write) -> Result<(), Failure> {
    let [fetched, used, wasted, late] =
        ["fetched", "used", "wasted", "late"].map(|name| column(named(READAHEAD, name), |of| of.readahead));
    let share = |of: &RunOutcome| {
        let used = of.readahead.unwrap_or_default().used;
        percent(used as f64 / of.counted.references as f64)
    };
    let mut columns = vec![fetched, used, ("of references %", Box::new(share)), wasted];
    columns.extend(comparison.device.is_some().then_some(late));
    let label = &comparison.readahead.label;
    let title = |pages| format!("pages read ahead by {label}, with {pages}; those used are hits thanks to it");
    let at = comparison.at_size(size);
    print_sizes(at.into_iter(), &columns, title, out)?;
    if comparison.sizes.len() > 1 {
        say(out, "The other sizes: --sizes with one of them, or --format json.")?;
    }
    Ok(())
}

/// Prints the time that the device takes for the misses of each policy at each size, the least of the on-line ones marked.
fn print_device_times(comparison: &Comparison, device: &Named, out: &mut impl Write) -> Result<(), Failure> {
    let time = |outcome: &RunOutcome| outcome.device.map_or(0.0, |cost| cost.device_ms);
    let on_line = |outcomes: Vec<&RunOutcome>| {
        let times: Vec<f64> = outcomes.into_iter().filter(|outcome| !outcome.off_line).map(time).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        times.iter().any(|&time| time > least).then_some(least)
    };
    let least: Vec<Option<f64>> = comparison.by_size().map(|(_, outcomes)| on_line(outcomes)).collect();
    let mut grid =
        Grid::of_figures("pages", comparison.sizes.iter().map(|&(pages, _)| grouped(u64::from(pages)) + " "));
    grid.rule();
    let times = Times::of(comparison.outcomes.iter().map(time));
    add_policies(
        &mut grid,
        comparison.policies(),
        |row| row[0].off_line,
        |grid, row| {
            let cells = row.iter().zip(&least).map(|(outcome, &least)| {
                let is_least = !outcome.off_line && Some(time(outcome)) == least;
                let time = outcome.device.map_or_else(String::new, |cost| times.shown(cost.device_ms));
                (time + if is_least { "*" } else { " " }, is_least)
            });
            grid.marked_figures(&row[0].policy, cells);
        },
    );
    say(out, format!("\ndevice time in {} on {}: {}", times.unit(), device.name, device.model.title))?;
    grid.print(out)
}

/// Prints what the misses cost besides, for each size.
fn print_costs(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let priced = comparison.outcomes.iter().any(|outcome| outcome.device.is_some_and(|cost| cost.price.is_some()));
    let names = WAITS_AND_REQUESTS.into_iter().chain(priced.then_some("price"));
    let columns: Vec<Column> = names.map(|name| column(named(COST, name), |of| of.device)).collect();
    print_by_size(comparison, &columns, |pages| format!("what references wait, and requests, with {pages}"), out)
}

/// Prints the misses of the programs or files with the most references under each policy, at the size that the advice names, or the
/// largest one.
fn print_parts(comparison: &Comparison, by: By, size: Option<u32>, out: &mut impl Write) -> Result<(), Failure> {
    let what = by.in_words();
    let parts = comparison.parts_together(by);
    let (shown, others) = parts.split_at(parts.len().min(PARTS));
    let rest: Vec<usize> = others.iter().flat_map(|(_, of)| of).copied().collect();
    let [references, misses] = ["references", "misses"].map(|name| named(PART, name));
    if let Some((pages, all)) = comparison.at_size(size) {
        let outcomes = fewest_misses(&all);
        let policies = outcomes.iter().map(|outcome| outcome.policy.as_str());
        let mut grid = Grid::of_figures(what, [references.heading].into_iter().chain(policies));
        grid.rule();
        let mut row = |name: &str, of: &[usize]| {
            let misses = outcomes.iter().map(|outcome| misses.shown(&part_sum(outcome, of)));
            grid.figures(name, [references.shown(&part_sum(outcomes[0], of))].into_iter().chain(misses));
        };
        for (name, of) in shown {
            match of[..] {
                [alone] => row(&short(owner_name(&comparison.parts[alone])), of),
                _ => row(&format!("{name} ({} processes)", grouped(of.len() as u64)), of),
            }
        }
        if !rest.is_empty() {
            row(&counted(others.len() as u64, "other"), &rest);
        }
        say(out, format!("\nmisses by {what}, {}", counted(pages.into(), "page")))?;
        grid.print(out)?;
        if outcomes.len() < all.len() {
            let left = all.len() - outcomes.len();
            say(out, format!("The {left} other policies miss no less; --format json has them."))?;
        }
    }
    if comparison.sizes.len() > 1 {
        say(out, format!("The {what}s at the other sizes: --sizes with one of them, or --format json."))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_policies_the_five_with_the_fewest_misses_and_lru_are_shown_by_part() {
        let outcome = |(policy, misses): &(&str, u64)| {
            let mut outcome = RunOutcome { policy: (*policy).to_owned(), ..RunOutcome::default() };
            outcome.counted.misses = *misses;
            outcome
        };
        let all = [("lru", 9), ("arc", 5), ("fifo", 8), ("mq", 5), ("car", 5), ("clock", 5), ("lirs", 5), ("opt", 1)];
        let all: Vec<RunOutcome> = all.iter().map(outcome).collect();
        let shown = |count: usize| -> Vec<&str> {
            fewest_misses(&all[..count].iter().collect::<Vec<_>>()).iter().map(|outcome| &*outcome.policy).collect()
        };
        assert_eq!(shown(8), ["lru", "arc", "mq", "car", "clock", "opt"]);
        assert_eq!(shown(6), ["lru", "arc", "fifo", "mq", "car", "clock"], "one more is no table of two screens");
    }
}
