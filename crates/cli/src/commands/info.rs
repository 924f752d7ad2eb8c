//! `forebay info`: what a trace holds.

use crate::failure::Failure;
use crate::input::{How, SAMPLE};
use crate::terminal::forms::{Form, records};
use crate::terminal::grid::Grid;
use crate::terminal::progress::Terminal;
use crate::terminal::{beside, end, short};
use clap::Args;
use forebay_basis::show_bytes;
use forebay_sim::study::info::figures;
use forebay_sim::study::{Monitor, counted, grouped, percent};
use forebay_sim::words::owner_name;
use forebay_trace::summary::Part;
use forebay_trace::{Origin, Summary};
use std::io::{self, Write};

/// Say what a trace holds: format, requests and their sizes, references, footprint, the largest files and owners, span.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces; by default the embedded sample
    #[arg(value_name = "TRACE", default_value = SAMPLE, hide_default_value = true)]
    traces: Vec<String>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    how: How,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.how.check()?;
    let mut out = io::stdout().lock();
    let (mut answers, mut failed) = (Vec::new(), None);
    for name in &arguments.traces {
        match summary(name, &arguments.how) {
            Ok((format, summary)) => answers.push((name, format, summary)),
            // What is known of the others is shown all the same.
            Err(failure) if arguments.traces.len() > 1 => {
                eprintln!("forebay: {failure}");
                failed = failed.or(Some(failure.exit_code()));
            }
            Err(failure) => return Err(failure),
        }
    }
    match arguments.format {
        Form::Table => {
            for (name, format, summary) in &answers {
                print(name, format, summary, &mut out)?;
            }
            if answers.len() > 1 {
                print_all(&answers, failed.is_some(), &mut out)?;
            }
        }
        form => {
            let figures = answers.iter().map(|(name, format, summary)| figures(name, format, summary));
            records(&mut out, form, figures.collect())?;
        }
    }
    out.flush()?;
    failed.map_or(Ok(()), |code| Err(Failure::Said(code)))
}

/// A trace's format, and what it holds.
fn summary(name: &str, how: &How) -> Result<(&'static str, Summary), Failure> {
    let (format, mut reader) = how.open(name)?;
    let progress = Terminal.begin(format!("reading {name}"), None, false);
    Ok((format.name, Summary::of(name, reader.as_mut(), how.page_size, &mut |done| progress.at(done))?))
}

fn print(name: &str, format: &str, summary: &Summary, out: &mut impl Write) -> Result<(), Failure> {
    let bytes = show_bytes(summary.pages.saturating_mul(summary.page_size));
    let span = summary.span.map_or("no times in it".to_owned(), |span| format!("{:.3} s", span as f64 / 1e9));
    writeln!(out, "{}", end(name, 0))?;
    writeln!(out, "  format      {format}")?;
    if let Some(recorded) = &summary.recorded {
        writeln!(out, "  recorded    {}", recorded.in_words())?;
    }
    writeln!(out, "  requests    {}", grouped(summary.requests))?;
    let origin = if summary.page_size_origin == Origin::Requests { ", from the requests" } else { "" };
    writeln!(
        out,
        "  references  {} to pages of {}{origin}",
        grouped(summary.references),
        show_bytes(summary.page_size)
    )?;
    writeln!(out, "  footprint   {bytes}, {}", counted(summary.pages, "page"))?;
    writeln!(out, "  objects     {}", grouped(summary.objects))?;
    writeln!(out, "  owners      {}", grouped(summary.owners))?;
    writeln!(out, "  reads       {}", grouped(summary.reads))?;
    writeln!(out, "  writes      {}", grouped(summary.writes))?;
    if summary.readaheads > 0 {
        writeln!(out, "  readaheads  {}", grouped(summary.readaheads))?;
    }
    writeln!(out, "  span        {span}")?;
    let share = |part: u64, all: u64| format!("{:>5} %", percent(part as f64 / all.max(1) as f64));
    let sizes = summary.request_sizes.iter();
    let sizes = sizes.map(|&(bytes, of)| {
        let none = if bytes == 0 { "they move nothing, and make no reference" } else { "" };
        (show_bytes(bytes), share(of, summary.requests), none.to_owned())
    });
    list("request sizes, and their share of the requests", sizes, out)?;
    if summary.objects > 1 {
        let object = |part: &Part| {
            let bytes = show_bytes(part.pages.unwrap_or(0) * summary.page_size);
            (bytes, share(part.references, summary.references), end(owner_name(&part.name), NAMES))
        };
        list("largest files, and their share of the references", summary.largest_objects.iter().map(object), out)?;
    }
    if summary.owners > 1 {
        let owner = |part: &Part| {
            let name = end(owner_name(&part.name), NAMES);
            (grouped(part.references), share(part.references, summary.references), name)
        };
        list("busiest owners: their references, and the share of all", summary.busiest_owners.iter().map(owner), out)?;
    }
    Ok(())
}

/// Prints a line for each of several traces, which may be `some` of those asked.
fn print_all(answers: &[(&String, &str, Summary)], some: bool, out: &mut impl Write) -> Result<(), Failure> {
    let heads = ["format", "requests", "references", "page", "footprint", "writes %", "objects", "owners", "span s"];
    let mut grid = Grid::of_figures("trace", heads);
    grid.rule();
    for (name, format, summary) in answers {
        let cells = [
            (*format).to_owned(),
            grouped(summary.requests),
            grouped(summary.references),
            show_bytes(summary.page_size),
            show_bytes(summary.pages.saturating_mul(summary.page_size)),
            percent(summary.writes as f64 / summary.requests.max(1) as f64),
            grouped(summary.objects),
            grouped(summary.owners),
            summary.span.map_or_else(String::new, |span| format!("{:.3}", span as f64 / 1e9)),
        ];
        grid.figures(&short(name), cells);
    }
    writeln!(out, "\nall traces{}", if some { " that can be read" } else { "" })?;
    grid.print(out)
}

/// The column where names begin in lists.
const NAMES: usize = 27;

/// Prints rows of a figure, a share and a name under a title that says of what the share is.
fn list(
    title: &str,
    rows: impl ExactSizeIterator<Item = (String, String, String)>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if rows.len() > 0 {
        writeln!(out, "  {title}")?;
    }
    for (figure, share, name) in rows {
        let line = beside(&format!("    {figure:>12}  {share}"), NAMES, &name);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
