//! `forebay info`: what a trace holds.

use crate::failure::Failure;
use crate::input::{How, SAMPLE};
use crate::terminal::forms::{Form, records};
use crate::terminal::progress::Terminal;
use clap::Args;
use forebay_policy::show_bytes;
use forebay_sim::study::{Monitor, grouped};
use forebay_trace::Summary;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Say what a trace holds: format, requests, references, footprint, objects, owners, reads and writes, span.
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
    let mut answers = Vec::new();
    for name in &arguments.traces {
        let (format, mut reader) = arguments.how.open(name)?;
        let progress = Terminal.begin(format!("reading {name}"), None, false);
        let summary = Summary::of(name, reader.as_mut(), arguments.how.page_size, &mut |done| progress.at(done))?;
        answers.push((name, format.name, summary));
    }
    match arguments.format {
        Form::Table => {
            for (name, format, summary) in &answers {
                print(name, format, summary, &mut out)?;
            }
        }
        form => {
            let figures = answers.iter().map(|(name, format, summary)| figures(name, format, summary));
            records(&mut out, form, figures.collect())?;
        }
    }
    Ok(out.flush()?)
}

fn figures(name: &str, format: &str, summary: &Summary) -> [(&'static str, Value); 12] {
    [
        ("trace", json!(name)),
        ("format", json!(format)),
        ("requests", json!(summary.requests)),
        ("references", json!(summary.references)),
        ("pages", json!(summary.pages)),
        ("page_size", json!(summary.page_size)),
        ("objects", json!(summary.objects)),
        ("owners", json!(summary.owners)),
        ("reads", json!(summary.reads)),
        ("writes", json!(summary.writes)),
        ("readaheads", json!(summary.readaheads)),
        ("span_seconds", json!(summary.span.map(|span| span as f64 / 1e9))),
    ]
}

fn print(name: &str, format: &str, summary: &Summary, out: &mut impl Write) -> Result<(), Failure> {
    let bytes = show_bytes(summary.pages.saturating_mul(summary.page_size));
    let span = summary.span.map_or("no times in it".to_owned(), |span| format!("{:.3} s", span as f64 / 1e9));
    writeln!(out, "{name}")?;
    writeln!(out, "  format      {format}")?;
    writeln!(out, "  requests    {}", grouped(summary.requests))?;
    writeln!(out, "  references  {} to pages of {}", grouped(summary.references), show_bytes(summary.page_size))?;
    writeln!(out, "  footprint   {} pages, {bytes}", grouped(summary.pages))?;
    writeln!(out, "  objects     {}", grouped(summary.objects))?;
    writeln!(out, "  owners      {}", grouped(summary.owners))?;
    writeln!(out, "  reads       {}", grouped(summary.reads))?;
    writeln!(out, "  writes      {}", grouped(summary.writes))?;
    if summary.readaheads > 0 {
        writeln!(out, "  readaheads  {}", grouped(summary.readaheads))?;
    }
    writeln!(out, "  span        {span}")?;
    Ok(())
}
