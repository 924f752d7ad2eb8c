//! `forebay experiment`: figures of commands in tables, printed ones beside them.

use crate::failure::Failure;
use crate::terminal::forms::{self, PageForm as Form};
use crate::terminal::grid::Grid;
use crate::terminal::{interrupt, say};
use clap::Args;
use forebay_sim::study::experiment::{HEADER, Plan, Table, Wanted, find, typed};
use serde_json::Value;
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
    if let Some(folder) = arguments.traces.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::Usage(format!("--traces {}: there is no such folder", folder.display())));
    }
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        return print_commands(&plans, arguments.traces.as_deref(), &mut out);
    }
    if arguments.format == Form::Csv {
        forms::csv(&mut out, [HEADER])?;
    }
    let mut answers = Vec::new();
    let mut stopped = false;
    let mut failed = 0;
    interrupt::listen();
    'experiments: for (file, plan) in &plans {
        let text = matches!(arguments.format, Form::Table | Form::Markdown);
        if text {
            print_head(plan, arguments.format, &mut out)?;
        }
        let mut tables = Vec::new();
        for wanted in &plan.tables {
            let table = match fill(plan, wanted, arguments.traces.as_deref(), file) {
                Err(Failure::ExperimentStopped) => {
                    stopped = true;
                    break;
                }
                // The other experiments may do well.
                Err(failure) if plans.len() > 1 => {
                    eprintln!("forebay: {failure}");
                    failed += 1;
                    continue 'experiments;
                }
                table => table?,
            };
            match arguments.format {
                Form::Table => print(&table, &mut out)?,
                Form::Markdown => write!(out, "{}", table.markdown())?,
                Form::Csv => forms::csv(&mut out, table.csv(&plan.title))?,
                Form::Json => {}
            }
            out.flush()?;
            tables.push(table);
        }
        answers.push(plan.json(file, &tables));
        if stopped {
            break;
        }
        if let (Some(finding), true) = (&plan.finding, text) {
            writeln!(out, "\n{finding}")?;
        }
    }
    interrupt::ignore();
    if arguments.format == Form::Json {
        forms::json(&mut out, &answers)?;
    }
    out.flush()?;
    match failed {
        _ if stopped => Err(Failure::ExperimentStopped),
        0 => Ok(()),
        failed => Err(Failure::from(format!("{failed} of {} experiments failed", plans.len()))),
    }
}

fn print_commands(plans: &[(&PathBuf, Plan)], traces: Option<&Path>, out: &mut impl Write) -> Result<(), Failure> {
    for (file, plan) in plans {
        for table in &plan.tables {
            for seed in plan.seeds() {
                let words = table.words(seed, file, |trace| find(trace, traces, file));
                writeln!(out, "forebay {}", typed(&words))?;
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

fn print(table: &Table, out: &mut impl Write) -> Result<(), Failure> {
    let mut grid = Grid::of_figures("", table.columns());
    grid.rule();
    for (name, cells) in table.rows() {
        grid.figures(name, cells);
    }
    writeln!(out, "\n{}", table.title)?;
    grid.print(out)?;
    if let Some(difference) = table.difference() {
        writeln!(out, "{difference}")?;
    }
    if let Some(note) = table.note() {
        say(out, note)?;
    }
    Ok(writeln!(out, "forebay {}", table.command)?)
}

/// Runs a table's command with each seed.
fn fill(plan: &Plan, wanted: &Wanted, traces: Option<&Path>, file: &Path) -> Result<Table, Failure> {
    let mut table = Table::new(plan, wanted);
    for seed in plan.seeds() {
        let words = wanted.words(seed, file, |trace| find(trace, traces, file));
        let trace = &words[1];
        if trace.contains('/') && !trace.contains('=') && !Path::new(trace).exists() {
            let what = match traces {
                Some(_) => "the experiment's source says how it is recorded or where it comes from",
                None => "name the folder of the traces with --traces",
            };
            return Err(Failure::from(format!("{}: there is no trace {trace}; {what}", file.display())));
        }
        let answer = answer(&words)?;
        let failed = |what| Failure::from(format!("`forebay {}`: {what}", typed(&words)));
        table.add(wanted, seed, &answer).map_err(failed)?;
    }
    Ok(table)
}

/// What this program answers to a command line. Each command is a process of its own, as if a person had typed it.
fn answer(words: &[String]) -> Result<Value, Failure> {
    let failed = |what: String| Failure::from(format!("`forebay {}` {what}", typed(words)));
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
        code if interrupt::asked() || code == Some(i32::from(interrupt::EXIT_CODE)) => Err(Failure::ExperimentStopped),
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|error| failed(format!("answers no JSON: {error}"))),
        _ => Err(failed(format!("failed ({}): see above", output.status))),
    }
}
