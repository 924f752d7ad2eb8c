//! `forebay top`: what a running server does, second by second.

use crate::failure::Failure;
use crate::terminal::width;
use crate::top::{Figures, fetch, show};
use clap::Args;
use forebay_server::Report;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Show what a running `forebay serve`, `forebay mount` or `forebay steer` with --metrics does: volumes, page cache, hit ratios, throughput, waits, the policy's state.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What the server's --metrics says; `--metrics HOST:PORT` is the same
    #[arg(default_value = "127.0.0.1:9100", value_name = "HOST:PORT", value_parser = address)]
    address: String,
    /// The same as HOST:PORT, by the name that services have for it
    #[arg(long, hide = true, value_name = "HOST:PORT", value_parser = address)]
    metrics: Option<String>,
    /// Show figures since the server's start, once, as a plain table
    #[arg(long)]
    once: bool,
    /// The form of the answer; JSON and CSV are given once
    #[arg(short, long, value_enum, default_value_t)]
    format: crate::terminal::forms::Form,
    /// How often the view is renewed, in seconds
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    every: f64,
}

fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
    port.map(|_| text.to_owned()).ok_or_else(|| format!("`{text}` is no HOST:PORT: write 127.0.0.1:9100"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no number of seconds from 0.1 to 3600");
    text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds)).ok_or_else(wrong)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    use crate::terminal::forms::Form;
    let address = arguments.metrics.as_ref().unwrap_or(&arguments.address);
    let now = fetch(address)?;
    let mut out = io::stdout();
    match arguments.format {
        Form::Json => {
            serde_json::to_writer_pretty(&mut out, &now)?;
            writeln!(out)?;
        }
        Form::Csv => Figures::new(&now, &Report::default()).write_csv(&mut out)?,
        Form::Table if arguments.once || !out.is_terminal() => {
            write!(out, "{}", Figures::new(&now, &Report::default()).table(width()))?;
        }
        Form::Table => show(address, now, Duration::from_secs_f64(arguments.every))?,
    }
    Ok(())
}
