//! `forebay experiment`: figures of commands in tables, printed ones beside them.

mod grid;
mod plan;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::PageForm as Form;
use clap::Args;
use grid::Grid;
use plan::{Plan, Table};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Run an experiment: commands over traces, their figures as tables, beside printed ones where there are some.
///
/// The TOML file names for each table a command, a trace, and any options of the command (docs/experiments.md). The papers' tables and
/// figures are such files, in papers/.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Experiments
    #[arg(value_name = "FILE.toml", required = true)]
    files: Vec<PathBuf>,
    /// The folder that the traces' names start from; by default that of the experiment
    #[arg(long, value_name = "FOLDER", env = "FOREBAY_TRACES")]
    traces: Option<PathBuf>,
    /// Print the commands, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let plans: Vec<(&PathBuf, Plan)> =
        arguments.files.iter().map(|file| Ok((file, Plan::read(file)?))).collect::<Result<_, Failure>>()?;
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        return print_commands(&plans, arguments.traces.as_deref(), &mut out);
    }
    if arguments.format == Form::Csv {
        writeln!(out, "{}", grid::CSV_HEADER)?;
    }
    let mut answers = Vec::new();
    let mut stopped = None;
    interrupt::listen();
    for (file, plan) in &plans {
        let text = matches!(arguments.format, Form::Table | Form::Markdown);
        if text {
            print_head(plan, arguments.format, &mut out)?;
        }
        let mut grids = Vec::new();
        for table in &plan.tables {
            let grid = match fill(plan, table, arguments.traces.as_deref(), file) {
                Err(Failure::Stopped(message)) => {
                    stopped = Some(message);
                    break;
                }
                grid => grid?,
            };
            match arguments.format {
                Form::Table => grid.print(&mut out)?,
                Form::Markdown => grid.print_markdown(&mut out)?,
                Form::Csv => grid.print_csv(&plan.title, &mut out)?,
                Form::Json => {}
            }
            out.flush()?;
            grids.push(grid);
        }
        answers.push(json!({
            "file": file.display().to_string(),
            "title": plan.title,
            "source": plan.source,
            "finding": plan.finding,
            "tables": grids.iter().map(Grid::to_json).collect::<Vec<_>>(),
        }));
        if stopped.is_some() {
            break;
        }
        if let (Some(finding), true) = (&plan.finding, text) {
            writeln!(out, "\n{finding}")?;
        }
    }
    interrupt::ignore();
    if arguments.format == Form::Json {
        serde_json::to_writer_pretty(&mut out, &answers)?;
        writeln!(out)?;
    }
    out.flush()?;
    stopped.map_or(Ok(()), |message| Err(Failure::Stopped(message)))
}

fn print_commands(plans: &[(&PathBuf, Plan)], traces: Option<&Path>, out: &mut impl Write) -> Result<(), Failure> {
    for (file, plan) in plans {
        for table in &plan.tables {
            for seed in seeds(plan) {
                let words = words(table, seed, file, |trace| plan::find(trace, traces, file));
                writeln!(out, "forebay {}", shown(&words))?;
            }
        }
    }
    Ok(out.flush()?)
}

fn print_head(plan: &Plan, form: Form, out: &mut impl Write) -> Result<(), Failure> {
    let mark = if form == Form::Markdown { "## " } else { "" };
    writeln!(out, "{mark}{}", plan.title)?;
    if let Some(source) = &plan.source {
        writeln!(out, "{source}")?;
    }
    Ok(())
}

/// The seeds, or one run without.
fn seeds(plan: &Plan) -> Vec<Option<u64>> {
    if plan.seeds.is_empty() { vec![None] } else { plan.seeds.iter().copied().map(Some).collect() }
}

/// The words of a table's command line.
fn words(table: &Table, seed: Option<u64>, file: &Path, find: impl Fn(&str) -> PathBuf) -> Vec<String> {
    let trace = find(&plan::with_seed(&table.trace, seed));
    let mut words = vec![table.command.clone(), trace.display().to_string()];
    words.extend(table.arguments(seed, file));
    words
}

/// The words as one would type them.
fn shown(words: &[String]) -> String {
    let plain = |word: &str| word.chars().all(|c| c.is_alphanumeric() || "-_./:=,%@+".contains(c));
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Runs a table's command with each seed.
fn fill(plan: &Plan, table: &Table, traces: Option<&Path>, file: &Path) -> Result<Grid, Failure> {
    let mut grid = Grid::new(table, shown(&words(table, None, Path::new(""), |trace| trace.into())));
    for seed in seeds(plan) {
        let words = words(table, seed, file, |trace| plan::find(trace, traces, file));
        let trace = &words[1];
        if trace.contains('/') && !trace.contains('=') && !Path::new(trace).exists() {
            return Err(Failure::Failed(format!(
                "{}: there is no trace {trace}; name the folder of the traces with --traces",
                file.display()
            )));
        }
        let answer = answer(&words)?;
        grid.add(table, seed, &answer)
            .map_err(|what| Failure::Failed(format!("`forebay {}`: {what}", shown(&words))))?;
    }
    Ok(grid)
}

/// What this program answers to a command line. Each command is a process of its own, as if a person had typed it.
fn answer(words: &[String]) -> Result<Value, Failure> {
    let failed = |what: String| Failure::Failed(format!("`forebay {}` {what}", shown(words)));
    let program = std::env::current_exe().map_err(|error| failed(format!("cannot be started: {error}")))?;
    let output = Command::new(program)
        .args(words)
        .args(["--format", "json"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    match output.status.code() {
        // Ctrl-C reaches both processes: one that has nothing to tell is ended by it.
        code if interrupt::asked() || code == Some(i32::from(interrupt::EXIT_CODE)) => {
            Err(Failure::Stopped("the experiment is stopped; shown are the tables that are whole".to_owned()))
        }
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|error| failed(format!("answers no JSON: {error}"))),
        _ => Err(failed(format!("failed ({}): see above", output.status))),
    }
}
