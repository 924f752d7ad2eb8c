//! What a program, or a device, references, written as a trace while it happens.
//!
//! ```text
//!   strace, valgrind, the kernel  --lines-->  a reader of their format  --requests-->  any format that is written
//! ```
//!
//! The recorder's lines are never on disk. The file has its name once it is whole, however the recording ends: with its program, at a signal
//! (`ending.rs`), or because a line makes no sense.

mod blocks;
mod ending;
mod error;
mod folder;
mod lengths;
mod program;
mod reading;
mod running;
mod tools;

pub use ending::ignored_signals;
pub use error::{Error, OWN_FAILURE};
pub use folder::Folder;
pub use program::find;

use blocks::Blocks;
use ending::Event;
use forebay_trace::{ConvertOptions, Input, Options, Paging, Warn, reader, write};
use lengths::Lengths;
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
#[derive(Clone, Debug)]
pub enum What {
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
pub struct Asked<'a> {
    /// What of it.
    pub what: What,
    /// The program and its arguments; none for processes that run.
    pub program: &'a [OsString],
    /// Whether standard output is for an answer of ours: the program's goes to standard error then.
    pub answers: bool,
    /// Whether mapped files count.
    pub mapped: bool,
    /// It ends after this time, and the program with it.
    pub duration: Option<Duration>,
    /// The most requests.
    pub limit: Option<u64>,
    /// The page size to keep in the trace.
    pub page_size: Option<u64>,
    /// The file to write, whose name says the format.
    pub out: &'a Path,
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// What says to the user what happens meanwhile: one line.
    pub say: Warn,
}

/// A recording that is made.
pub struct Made {
    /// The exit code of the program; 0 if the limit or the duration ended it, or there is none.
    pub code: u8,
    /// The requests in the trace.
    pub requests: u64,
    /// The page size that a reader of the file must be given, because the file does not show it.
    pub page_size: Option<u64>,
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
    /// Records until all has ended. Ctrl-C and SIGTERM end it, and the program; `progress` learns how many requests there are.
    ///
    /// # Errors
    /// Why nothing is recorded: nothing ran then; or why the recording is lost.
    pub fn record(&self, progress: &mut dyn FnMut(u64)) -> Result<Made, Error> {
        let (output, _) = write::check(self.out, self.force)?;
        let (events, queue) = mpsc::channel();
        let signals = ending::listen(events.clone()).map_err(Error::begin)?;
        // Ctrl-C until now has reached no program: there is none yet.
        if let Some(stopped) = queue.try_iter().find_map(Event::stops) {
            return Err(stopped);
        }
        let asks = match &self.what {
            What::Files => true,
            What::Processes(pids) => Lengths::can_be_asked(pids),
            What::Memory | What::Blocks(_) => false,
        };
        let Source { format, mark, start, bytes, running, ended } = self.start()?;
        let (duration, say, saying) = (self.duration, &self.say, Arc::clone(&self.say));
        let ender = std::thread::spawn(move || ending::control(&queue, duration, &running, &*saying));
        let mut tap = Tap::new(bytes, mark);
        let memory_page = matches!(self.what, What::Memory).then(|| self.page_size.unwrap_or(MEMORY_PAGE));
        let options = ConvertOptions {
            page_size: self.page_size.or(memory_page),
            force: self.force,
            ..ConvertOptions::default()
        };
        let mut write = || {
            // Formats of pages are given the size that the front shows; the others need not wait for it.
            let input = if output.keeps_requests || options.page_size.is_some() {
                Input::live(format, tap.clone())
            } else {
                Input::from_reader(format, Box::new(tap.clone()))?
            };
            let (_, reader) = reader::read(input, &Options { format: Some(format.to_owned()), ..Options::default() })?;
            let paging = Paging::of(reader.as_ref(), options.page_size);
            let mut reader =
                Recorded::new(reader, tap.clone(), start, (self.limit, events.clone()), memory_page, Arc::clone(say));
            if asks {
                reader.ask_lengths();
            }
            let requests = forebay_trace::convert(&mut reader, self.out, &options, progress)?;
            Ok((requests, paging.ok().map(|paging| paging.page_size()).filter(|_| !output.keeps_requests)))
        };
        let written: forebay_trace::Result<_> = write();
        match &written {
            Err(error) if error.is_kept() => say(&error.to_string()),
            Err(error) if tap.any() => say(&format!("the recording is lost, and the program goes on: {error}")),
            _ => {}
        }
        // Where all is read there is nothing more.
        let _ = io::copy(&mut tap, &mut io::sink());
        let nothing = !tap.any();
        // Tracing in the kernel goes with it.
        drop(tap);
        let _ = events.send(Event::Over);
        let ending = ender.join().unwrap_or_default();
        signals.close();
        let status = ended.and_then(|ended| ended.join().ok()).transpose().map_err(Error::begin)?;
        if nothing {
            running::end_orphans();
            return Err(ending.signal.and_then(Event::stops).unwrap_or_else(|| self.nothing(status)));
        }
        let (requests, page_size) = written.map_err(|_| Error::Lost)?;
        // Of processes that run, the status is that of strace, which we have ended.
        let of_program = status.filter(|_| !ending.of_itself && !self.program.is_empty());
        let code = of_program.map_or(0, exit_code);
        Ok(Made { code, requests, page_size })
    }

    fn start(&self) -> Result<Source, Error> {
        match &self.what {
            What::Files => tools::files(self.program, self.mapped, self.answers),
            What::Memory => tools::memory(self.program),
            What::Processes(pids) => tools::processes(pids, self.mapped),
            What::Blocks(device) => self.device(device),
        }
    }

    fn device(&self, device: &Path) -> Result<Source, Error> {
        if let Some(program) = self.program.first() {
            find(program)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let blocks = Blocks::open(device, Arc::clone(&stop), &self.say)?;
        let (format, mark, start, bytes) = ("ftrace", b'+', blocks.start, Box::new(blocks));
        let Some((program, arguments)) = self.program.split_first() else {
            return Ok(Source { format, mark, start, bytes, running: Running::Device(stop), ended: None });
        };
        let failed = |error: io::Error| Error::Program(126, format!("{}: cannot be run: {error}", program.display()));
        let child = Command::new(program).args(arguments).spawn().map_err(failed)?;
        let running = Running::Program(hold(&child).map_err(|error| failed(error.into()))?);
        let ended = tools::wait(child, move || stop.store(true, Ordering::Relaxed));
        Ok(Source { format, mark, start, bytes, running, ended: Some(ended) })
    }

    /// Why there is nothing in a recording, by the status of the program or of the tool that ran it.
    fn nothing(&self, status: Option<ExitStatus>) -> Error {
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
        Error::Program(OWN_FAILURE, why)
    }
}

/// The exit code by which shells say how a program ended.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}
