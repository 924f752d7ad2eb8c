//! Recording: what a program, or a device, references, written as a trace while it happens.
//!
//! ```text
//!   strace, valgrind, the kernel  --lines-->  a reader of their format  --requests-->  any format that is written
//! ```
//!
//! The recorder's lines are never on disk. The file has its name once it is whole, however the recording ends: with its program, at a signal
//! ([`ending`]), or because a line makes no sense.

mod blocks;
mod ending;
mod reading;
mod running;
mod tools;

use crate::failure::Failure;
use crate::files::check_path;
use crate::terminal::interrupt;
use blocks::Blocks;
use ending::Event;
use forebay_policy::show_bytes;
use forebay_sim::study::{Progress, counted};
use forebay_trace::{ConvertOptions, Input, Options, Paging, reader, write};
use reading::{Recorded, Tap};
use running::{Running, hold, runs};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The page of memory.
const MEMORY_PAGE: u64 = 4096;

/// What is recorded.
pub(crate) enum What {
    /// The files of the program and its children.
    Files,
    /// The program's memory.
    Memory,
    /// The files of processes that run.
    Processes(Vec<u32>),
    /// A device, as long as the program runs if there is one.
    Blocks(PathBuf),
}

/// A recording to be made.
pub(crate) struct Asked<'a> {
    pub(crate) what: What,
    pub(crate) program: &'a [OsString],
    /// Whether standard output is for an answer of ours: the program's goes to standard error then.
    pub(crate) answers: bool,
    /// Whether mapped files count.
    pub(crate) mapped: bool,
    pub(crate) duration: Option<Duration>,
    /// The most requests.
    pub(crate) limit: Option<u64>,
    pub(crate) page_size: Option<u64>,
    pub(crate) out: &'a Path,
    pub(crate) force: bool,
}

/// A recording that is made.
pub(crate) struct Made {
    /// The exit code of the program; 0 if the limit or the duration ended it, or there is none.
    pub(crate) code: u8,
    pub(crate) requests: u64,
    /// The page size that a reader of the file must be given, because the file does not show it.
    pub(crate) page_size: Option<u64>,
}

/// Where lines come from.
struct Source {
    /// The format that they are in.
    format: &'static str,
    /// A character of each that is about a reference.
    mark: u8,
    /// What offsets are counted from.
    start: u64,
    bytes: Box<dyn Read + Send>,
    running: Running,
    /// The end of the program or of the tool that runs it.
    ended: Option<JoinHandle<io::Result<ExitStatus>>>,
}

impl Asked<'_> {
    /// Records until all has ended.
    ///
    /// # Errors
    /// Why nothing is recorded: nothing ran then; or why the recording is lost.
    pub(crate) fn record(&self, progress: Option<&dyn Progress>) -> Result<Made, Failure> {
        let (output, _) = write::check(self.out, self.force)?;
        check_path("--output", self.out, &[])?;
        let (events, queue) = mpsc::channel();
        let failed = |error: io::Error| Failure::from(format!("the recording cannot begin: {error}"));
        let signals = ending::listen(events.clone()).map_err(failed)?;
        let Source { format, mark, start, bytes, running, ended } = self.start()?;
        let duration = self.duration;
        let ender = std::thread::spawn(move || ending::control(&queue, duration, &running));
        let mut tap = Tap::new(bytes, mark);
        let memory_page = matches!(self.what, What::Memory).then(|| self.page_size.unwrap_or(MEMORY_PAGE));
        let options = ConvertOptions { page_size: self.page_size.or(memory_page), force: self.force };
        let write = || {
            // Formats of pages are given the size that the front shows; the others need not wait for it.
            let input = if output.keeps_requests || options.page_size.is_some() {
                Input::live(format, tap.clone())
            } else {
                Input::from_reader(format, Box::new(tap.clone()))?
            };
            let (_, reader) = reader::read(input, &Options { format: Some(format.to_owned()), ..Options::default() })?;
            let paging = Paging::of(reader.as_ref(), options.page_size);
            let mut reader = Recorded::new(reader, tap.clone(), start, self.limit, events.clone(), memory_page);
            let mut at = |done| progress.into_iter().for_each(|progress| progress.at(done));
            let requests = forebay_trace::convert(&mut reader, self.out, &options, &mut at)?;
            Ok((requests, paging.ok().map(|paging| paging.page_size()).filter(|_| !output.keeps_requests)))
        };
        let written: forebay_trace::Result<_> = write();
        match &written {
            Err(error) if error.is_kept() => eprintln!("forebay: {error}"),
            Err(error) if tap.any() => eprintln!("forebay: the recording is lost, and the program goes on: {error}"),
            _ => {}
        }
        // Where all is read there is nothing more.
        let _ = io::copy(&mut tap, &mut io::sink());
        let nothing = !tap.any();
        // Tracing in the kernel goes with it.
        drop(tap);
        let _ = events.send(Event::Over);
        let of_itself = ender.join().unwrap_or(false);
        signals.close();
        // From now on Ctrl-C ends the command.
        interrupt::install();
        let status = ended.and_then(|ended| ended.join().ok()).transpose().map_err(failed)?;
        if nothing {
            return Err(self.nothing(status));
        }
        let (requests, page_size) = written.map_err(|_| Failure::Said(OWN_FAILURE))?;
        // Of processes that run, the status is that of strace, which we have ended.
        let of_program = status.filter(|_| !of_itself && !self.program.is_empty());
        let code = of_program.map_or(0, exit_code);
        let bytes = std::fs::metadata(self.out).map_or(0, |metadata| metadata.len());
        eprintln!("forebay: wrote {} ({}, {})", self.out.display(), counted(requests, "request"), show_bytes(bytes));
        Ok(Made { code, requests, page_size })
    }

    fn start(&self) -> Result<Source, Failure> {
        match &self.what {
            What::Files => tools::files(self.program, self.mapped, self.answers),
            What::Memory => tools::memory(self.program),
            What::Processes(pids) => tools::processes(pids, self.mapped),
            What::Blocks(device) => self.device(device),
        }
    }

    fn device(&self, device: &Path) -> Result<Source, Failure> {
        if let Some(program) = self.program.first() {
            crate::program::find(program)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let blocks = Blocks::open(device, Arc::clone(&stop))?;
        let (format, mark, start, bytes) = ("ftrace", b'+', blocks.start, Box::new(blocks));
        let Some((program, arguments)) = self.program.split_first() else {
            return Ok(Source { format, mark, start, bytes, running: Running::Device(stop), ended: None });
        };
        let failed = |error: io::Error| Failure::Program(126, format!("{}: cannot be run: {error}", program.display()));
        let child = Command::new(program).args(arguments).spawn().map_err(failed)?;
        let running = Running::Program(hold(&child).map_err(|error| failed(error.into()))?);
        let ended = tools::wait(child, move || stop.store(true, Ordering::Relaxed));
        Ok(Source { format, mark, start, bytes, running, ended: Some(ended) })
    }

    /// Why there is nothing in a recording, by the status of the program or of the tool that ran it.
    fn nothing(&self, status: Option<ExitStatus>) -> Failure {
        let listed = |pids: &[u32]| pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        // strace ends by our signal, or with its processes.
        let failed = status.and_then(|status| status.code()).is_some_and(|code| code != 0);
        let why = match &self.what {
            What::Blocks(device) => format!("no request to {} was seen", device.display()),
            What::Memory => "valgrind recorded nothing; what it says is above".to_owned(),
            What::Processes(pids) if !pids.iter().any(|&pid| runs(pid)) => {
                format!("process {} has ended, and was not seen to reference a file", listed(pids))
            }
            What::Processes(pids) if !failed => format!("process {} used no file in that time", listed(pids)),
            What::Files | What::Processes(_) => {
                "strace recorded nothing; what it says is above. Where it may not trace: a container needs \
                --cap-add=SYS_PTRACE, and a process of others, or one that runs already, needs root"
                    .to_owned()
            }
        };
        Failure::Program(OWN_FAILURE, why)
    }
}

/// The exit code for a failure that is not the program's, as `env` and `timeout` have it.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The exit code by which shells say how a program ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}
