//! `forebay managers`: the file of managers that suits a trace.

use crate::failure::Failure;
use crate::files::{check_path, write};
use crate::input::{How, parse_threads};
use crate::terminal::progress::Terminal;
use clap::{Args, ValueEnum};
use forebay_basis::show_bytes;
use forebay_model::presets::Named;
use forebay_sim::Size;
use forebay_sim::readahead::Readahead;
use forebay_sim::study::suggestion::{Asked, Suggestion};
use forebay_sim::study::{grouped, percent};
use serde_json::json;
use std::fmt::Write;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Suggest managers for the policy lru-sp: which programs, and which of their files, are better off with another rule than LRU.
///
/// Replays the trace with each manager in charge of each program and of each kind of its files, and prints those that help as the
/// TOML file that `forebay compare --managers` and `forebay mount --managers` take, with what each saves: misses or, with `--device`, the
/// device's time. A mount reads ahead, which its own recording in Parquet says: for one ask with `--device NAME`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The trace, with owners and files: a recording of programs or of a mount
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Cache sizes: pages (1000), bytes (64MiB) or percent of the distinct pages (10%); no manager hurts at any of them
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', default_value = "5%,10%,20%", value_parser = str::parse::<Size>)]
    sizes: Vec<Size>,
    /// Save this device's time instead of misses; `forebay devices` lists those known by name
    #[arg(short, long, value_name = "NAME|FILE.toml", value_parser = str::parse::<Named>)]
    device: Option<Named>,
    /// Read pages ahead: none, fixed[:pages=8], linux[:max=128KiB], kernel[:max=128KiB:request=1280KiB], regular[:max=128KiB]; by default what the cache
    /// read ahead that recorded the trace, or none
    #[arg(short, long, value_name = "RULE[:PARAMETER=VALUE]", value_parser = str::parse::<Readahead>)]
    readahead: Option<Readahead>,
    /// The file to write instead of standard output
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Threads; 0: one for each core
    #[arg(short, long, default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Form {
    /// A file of managers
    #[default]
    Toml,
    /// Rules and misses
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { trace, sizes, output, threads, how, .. } = arguments;
    how.check()?;
    if let Some(path) = output {
        check_path("--output", path, std::slice::from_ref(trace))?;
        if path.exists() && !arguments.force {
            return Err(Failure::Usage(format!("{} exists; --force replaces it", path.display())));
        }
    }
    let asked = Asked {
        sizes: sizes.clone(),
        page_size: how.page_size,
        device: arguments.device.clone(),
        readahead: arguments.readahead.clone(),
        threads: *threads,
    };
    let suggestion = asked.of(trace, how.read(trace)?.as_mut(), &Terminal)?;
    let text = match arguments.format {
        Form::Toml => toml(&suggestion),
        Form::Json => json(&suggestion),
    };
    match output {
        Some(path) => write(path, text.as_bytes()),
        None => Ok(io::stdout().lock().write_all(text.as_bytes())?),
    }
}

/// Columns of a comment, one for each size.
fn columns(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!("{cell:>12}")).collect()
}

fn toml(suggestion: &Suggestion) -> String {
    let Suggestion { trace, sizes, device, readahead, unmanaged, rules, managed } = suggestion;
    let bytes = sizes.iter().map(|&(pages, _)| show_bytes(u64::from(pages) * trace.page_size));
    let cost = |costs: &[u64]| match device {
        None => columns(costs.iter().map(|&misses| grouped(misses))),
        Some(_) => columns(costs.iter().map(|&microseconds| format!("{:.2} s", microseconds as f64 / 1e6))),
    };
    let what = if device.is_some() { "time,  " } else { "misses," };
    let share = |saved: &[u64]| {
        let shares = saved.iter().zip(unmanaged).map(|(&saved, &all)| saved as f64 / all.max(1) as f64);
        columns(shares.map(|share| format!("-{} %", percent(share))))
    };
    let mut text = format!("# Managers for {}: {}.\n", trace.name, trace.in_words(""));
    let _ = match (readahead, device) {
        (None, None) => {
            writeln!(
                text,
                "# Nothing is read ahead. For a mount, which does: --readahead linux:max=512KiB --device NAME."
            )
        }
        (None, Some(device)) => writeln!(text, "# By the time of {device}; nothing is read ahead."),
        (Some(rule), None) => {
            writeln!(text, "# Readahead: {rule}. Fewer misses may be more requests: --device NAME goes by time.")
        }
        (Some(rule), Some(device)) => writeln!(text, "# By the time of {device}; readahead: {rule}."),
    };
    text += "#\n";
    let _ = writeln!(text, "# cache of          {}", columns(bytes));
    let _ = writeln!(text, "# {what} LRU       {}", cost(unmanaged));
    if rules.is_empty() {
        text += "#\n# No manager saves a 200th at one of these sizes without costing more at another.\n";
        return text;
    }
    let _ = writeln!(text, "# {what} these     {}", cost(managed));
    if rules.iter().any(|rule| rule.files.as_ref().is_some_and(|files| files.starts_with('/'))) {
        text += "#\n# Paths are whole, as in the recording. A mount names files by their paths below its source: shorten them for one.\n";
    }
    for rule in rules {
        let _ = write!(text, "\n# saves, of LRU's   {}\n{}", share(&rule.saved), rule.toml());
    }
    text
}

fn json(suggestion: &Suggestion) -> String {
    let Suggestion { trace, sizes, device, readahead, unmanaged, rules, managed } = suggestion;
    let pages: Vec<u32> = sizes.iter().map(|&(pages, _)| pages).collect();
    let (lru, these) =
        if device.is_some() { ("device_us_lru", "device_us_managed") } else { ("misses_lru", "misses_managed") };
    let answer = json!({
        "trace": trace.name,
        "references": trace.references,
        "page_size": trace.page_size,
        "pages": pages,
        "device": device,
        "readahead": readahead,
        lru: unmanaged,
        these: managed,
        "rules": rules,
    });
    format!("{answer:#}\n")
}
