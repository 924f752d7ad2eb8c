//! The files to look at: `--report` and `--plot`.

use crate::failure::Failure;
use crate::terminal::interrupt;
use clap::Args;
use forebay_basis::show_bytes;
use forebay_report::figure::{self, Draw};
use forebay_report::file::{self, FileError};
use forebay_report::study::trace_name;
use forebay_report::{Chart, Document, Key, Made, Section};
use forebay_sim::Readahead;
use forebay_sim::study::experiment::typed;
use forebay_sim::study::{Progress, counted};
use forebay_trace::{ConvertOptions, Origin, Paging, Reader, Unit};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A report to look at.
#[derive(Args)]
pub(crate) struct ReportFile {
    /// Also write a report to look at, charts and all figures in one HTML file that needs no network; it replaces an earlier report
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// A report, and a figure for a paper.
#[derive(Args)]
pub(crate) struct Files {
    #[command(flatten)]
    report: ReportFile,
    /// Also draw the curves of one trace for a paper, told apart in grey too; it replaces an earlier figure
    #[arg(long, value_name = "FILE.svg|.png|.pdf")]
    plot: Option<PathBuf>,
}

/// What is to be looked at of each trace, under the keys of all: what one of them shows at first is shown.
#[derive(Default)]
pub(crate) struct Pages {
    keys: Vec<Key>,
    sections: Vec<Section>,
}

impl Pages {
    pub(crate) fn add(&mut self, keys: Vec<Key>, section: Section) {
        if self.sections.is_empty() {
            self.keys = keys;
        } else {
            let shows = |name: &str| keys.iter().any(|key| key.shown && key.name == name);
            self.keys.iter_mut().for_each(|key| key.shown |= shows(&key.name));
        }
        self.sections.push(section);
    }
}

impl ReportFile {
    /// Whether it is asked for.
    pub(crate) fn wanted(&self) -> bool {
        self.report.is_some()
    }

    /// Checks before long work what would stop the file from being written after it.
    pub(crate) fn check(&self, traces: &[String]) -> Result<(), Failure> {
        let Some(path) = &self.report else { return Ok(()) };
        if !["html", "htm"].contains(&extension(path).as_str()) {
            return Err(Failure::Usage(format!(
                "--report {}: a report is an HTML file; let its name end in .html",
                path.display()
            )));
        }
        check_path("--report", path, traces)?;
        Ok(file::check_replaced(path)?)
    }

    /// Writes the report if it is asked for and there is something in it, and says so.
    pub(crate) fn write(&self, traces: &[String], pages: Pages) -> Result<(), Failure> {
        let Pages { keys, sections } = pages;
        let Some(path) = self.report.as_ref().filter(|_| !sections.is_empty()) else { return Ok(()) };
        let names: Vec<&str> = traces.iter().map(|trace| trace_name(trace)).collect();
        write(path, Document { title: names.join(", "), made: made(), keys, sections }.html().as_bytes())
    }
}

impl Files {
    /// Whether a report is asked for.
    pub(crate) fn report(&self) -> bool {
        self.report.wanted()
    }

    /// Whether any file is.
    pub(crate) fn wanted(&self) -> bool {
        self.report.wanted() || self.plot.is_some()
    }

    /// Checks before long work what would stop the files from being written after it.
    pub(crate) fn check(&self, traces: &[String]) -> Result<(), Failure> {
        self.report.check(traces)?;
        let Some(path) = &self.plot else { return Ok(()) };
        drawn_as(path)?;
        if traces.len() > 1 {
            return Err(Failure::Usage(
                "--plot draws the curves of one trace: name one, or take --report for all".to_owned(),
            ));
        }
        check_path("--plot", path, traces)?;
        Ok(file::check_replaced(path)?)
    }

    /// Writes the files asked for, and says so. The figure is the first chart.
    pub(crate) fn write(&self, traces: &[String], pages: Pages) -> Result<(), Failure> {
        if let (Some(path), Some(section)) = (&self.plot, pages.sections.first()) {
            let Section { title, charts, .. } = section;
            let chart = Chart { title: format!("{}: {title}", charts[0].title), ..charts[0].clone() };
            let figure = drawn_as(path)?(&chart);
            write(path, &figure.map_err(|error| FileError::NotDrawn(path.clone(), error))?)?;
        }
        self.report.write(traces, pages)
    }
}

/// Whether a file can be written there, and is not a trace that is read.
pub(crate) fn check_path(option: &str, path: &Path, traces: &[String]) -> Result<(), Failure> {
    if let Some(trace) = traces.iter().find(|trace| same_file(path, Path::new(trace))) {
        return Err(Failure::Usage(format!("{option} {}: this is the trace {trace} itself", path.display())));
    }
    if path.is_dir() {
        return Err(Failure::Usage(format!("{option} {}: is a directory; name a file", path.display())));
    }
    Ok(file::check(path)?)
}

/// This command, now.
fn made() -> Made {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    // To the minute: 2026-11-23T01:12:04Z.
    let date = time.get(..16).unwrap_or(&time).replace('T', " ") + " UTC";
    Made { command: format!("forebay {}", typed(&words)), date }
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

fn drawn_as(path: &Path) -> Result<Draw, Failure> {
    let wrong =
        || format!("--plot {}: its name does not say the format; let it end in .svg, .png or .pdf", path.display());
    figure::by_extension(&extension(path)).ok_or_else(|| Failure::Usage(wrong()))
}

/// Whether both are there and are one, by whatever names.
fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Writes a trace, and says so.
pub(crate) fn write_trace(
    reader: &mut dyn Reader,
    out: &Path,
    options: &ConvertOptions,
    progress: &dyn Progress,
) -> Result<(), Failure> {
    let (output, _) = forebay_trace::write::check(out, options.force)?;
    let size = Paging::of(reader, options.page_size).map_or(0, |paging| paging.page_size());
    let hides_size = !output.keeps_requests && (reader.unit() != Unit::Pages || options.page_size.is_some());
    // A table of other programs' has no place for it, and it would be inferred.
    let forgets_size = output.name == "csv" && reader.page_size().is_some_and(|size| size.origin == Origin::Recorded);
    let readahead = reader.circumstances().and_then(|circumstances| circumstances.readahead.clone());
    interrupt::writing(out);
    let requests = forebay_trace::convert(reader, out, options, &mut |done| progress.at(done))?;
    let bytes = std::fs::metadata(out).map_or(0, |metadata| metadata.len());
    eprintln!("forebay: wrote {} ({}, {})", out.display(), counted(requests, "request"), show_bytes(bytes));
    if hides_size {
        let (size, option) = (show_bytes(size), page_size_option(size));
        eprintln!("forebay: {} holds the numbers of pages of {size}: read it with{option}", out.display());
    } else if forgets_size {
        let (size, option) = (show_bytes(size), page_size_option(size));
        eprintln!("forebay: {} does not say that pages have {size}: read it with{option}", out.display());
    }
    if let Some(rule) = readahead.filter(|rule| output.name != "parquet" && rule.parse::<Readahead>().is_ok()) {
        let out = out.display();
        eprintln!("forebay: {out} does not say how it was recorded: compare it with --readahead {rule}");
    }
    Ok(())
}

/// Writes a trace as CSV to standard output.
pub(crate) fn print_trace(reader: &mut dyn Reader, progress: &dyn Progress) -> Result<(), Failure> {
    io::stdout().lock().flush()?;
    let out = io::stdout().as_fd().try_clone_to_owned()?;
    forebay_trace::write::convert_to(reader, "standard output", out.into(), &mut |done| progress.at(done))?;
    Ok(())
}

/// The option that says a page size.
pub(crate) fn page_size_option(size: u64) -> String {
    format!(" --page-size {}", show_bytes(size).replace(' ', ""))
}

/// Writes the file, and says so.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    file::write(path, content)?;
    eprintln!("forebay: wrote {} ({})", path.display(), show_bytes(content.len() as u64));
    Ok(())
}
