//! A program from its start to its end.

use crate::folder::Folder;
use crate::preload::{Library, command};
use crate::references::Recorded;
use forebay_basis::show_bytes;
use forebay_model::presets::{Named, NoDevice};
use forebay_pager::{Options, Pager};
use forebay_policy::Spec;
use forebay_record::{Error, OWN_FAILURE, ignored_signals};
use forebay_run_shared::{Figures, Settings, VARIABLE};
use forebay_trace::{Circumstances, ConvertOptions, convert, readahead_of, write};
use libc::SIGXFSZ;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin, Sent};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

/// What is preloaded.
const LIBRARY: Library =
    Library { file: "libforebay_paged.so", package: "forebay-paged", variable: "FOREBAY_PAGED_LIB" };

/// The fewest pages of a limit. An instruction may need four at once: two operands, each across the end of a page. It is tried again until all of them
/// are there, while other threads' pages push them out. Of 64 pages the policy has 46 at least: thirty threads of such instructions go on, with 32 pages they
/// bring pages without end.
const LEAST_PAGES: u64 = 64;

/// A program to be run.
pub struct Asked<'a> {
    /// The program and its arguments.
    pub program: &'a [OsString],
    /// The most bytes of each process' large memory that are resident.
    pub memory: u64,
    /// The bytes of a page.
    pub page_size: u32,
    /// The most bytes that are read ahead.
    pub readahead: u32,
    /// The policy.
    pub policy: Spec,
    /// The folder to whose file system pages go.
    pub swap: &'a Path,
    /// The device as slow as which that is.
    pub delay: Option<&'a str>,
    /// The trace to write.
    pub record: Option<&'a Path>,
}

/// What became of it.
pub struct Ended {
    /// The exit code, as shells have it.
    pub code: u8,
    /// Figures of each process that had large memory.
    pub processes: Vec<Figures>,
    /// What the library has to say.
    pub messages: String,
    /// The references in the trace, if one was asked for.
    pub recorded: Option<u64>,
}

impl Asked<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// Why it is not run; or why there is no trace.
    pub fn run(&self) -> Result<Ended, Error> {
        let mut command = command(&LIBRARY, self.program)?;
        let began = |error: io::Error| Error::Failed(format!("signals cannot be passed on: {error}"));
        // Before the program is there, so that none is lost. What is ignored here, as by `nohup`, is ignored there.
        let ignored = ignored_signals();
        let passed = PASSED.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let signals = SignalsInfo::with_exfiltrator(passed, WithOrigin::default()).map_err(began)?;
        self.check()?;
        let folder = Folder::new(&std::env::temp_dir())?;
        let absolute = |path: &Path| path.canonicalize().map_err(|error| Error::File(path.to_owned(), error));
        let settings = Settings {
            memory: self.memory,
            page_size: self.page_size,
            readahead: self.readahead,
            policy: self.policy.label.clone(),
            swap: absolute(self.swap)?,
            delay: self.delay.map(device).transpose()?,
            folder: folder.path().to_owned(),
            record: self.record.is_some(),
        };
        let path = command.get_program().to_owned();
        let child = command.env(VARIABLE, settings.to_value()).spawn();
        let child =
            child.map_err(|error| Error::Program(126, format!("{}: cannot be run: {error}", path.display())))?;
        let status =
            wait(child, signals).map_err(|error| Error::Failed(format!("waiting for the program: {error}")))?;
        let failed = |error: io::Error| Error::File(folder.path().to_owned(), error);
        let processes = Figures::read_all(folder.path()).map_err(failed)?;
        let messages = folder.messages();
        let recorded = self.record.map(|out| {
            let mut recorded = Recorded::open(folder.path(), self.page_size).map_err(failed)?;
            let circumstances = Circumstances {
                front_end: "run".to_owned(),
                readahead: Some(readahead_of(self.readahead.into())),
                policy: Some(self.policy.label.clone()),
                cache: Some(self.memory),
                policy_bytes: if let [one] = &processes[..] { Some(one.policy_capacity) } else { None },
                ..Circumstances::default()
            };
            let (page_size, circumstances) = (Some(self.page_size.into()), Some(circumstances));
            let options = ConvertOptions { page_size, circumstances, ..ConvertOptions::default() };
            Ok::<_, Error>(convert(&mut recorded, out, &options, &mut |_| {})?)
        });
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Ended {
            code: u8::try_from(code).unwrap_or(OWN_FAILURE),
            processes,
            messages,
            recorded: recorded.transpose()?,
        })
    }

    /// Refuses what would not work in the program.
    fn check(&self) -> Result<(), Error> {
        if self.policy.needs_future() {
            return Err(Error::Usage(format!("{} needs the future, which no program has", self.policy.label)));
        }
        if let Some(out) = self.record {
            if out.exists() {
                return Err(Error::Failed(format!("{}: exists already: name another file", out.display())));
            }
            write::check(out, false)?;
        }
        for path in [self.swap.to_owned(), std::env::temp_dir()] {
            if !path.is_dir() {
                return Err(Error::Usage(format!("{}: is no folder", path.display())));
            }
            let probe = path.join(format!(".forebay-run-{}", std::process::id()));
            if let Err(error) = File::create_new(&probe).and_then(|_| std::fs::remove_file(&probe)) {
                return Err(Error::Usage(format!(
                    "{}: no file can be made there: {error}; take another folder",
                    path.display()
                )));
            }
            if path.to_str().is_none_or(|path| path.contains('\n')) {
                return Err(Error::Usage(format!("{}: is no text of one line: take another folder", path.display())));
            }
        }
        let least = LEAST_PAGES * u64::from(self.page_size);
        if self.memory < least && self.page_size.is_power_of_two() {
            return Err(Error::Usage(format!(
                "--memory {} is too little: give at least {LEAST_PAGES} pages, {}, or smaller pages; with less, threads take each other's pages and none goes on",
                show_bytes(self.memory),
                show_bytes(least)
            )));
        }
        let options = Options { page_size: self.page_size, ..Options::new(self.memory, self.policy.clone()) };
        let pager = Pager::new(&options).map_err(|error| match error {
            forebay_pager::Error::Configuration(_) | forebay_pager::Error::Pool(_) => Error::Usage(error.to_string()),
            error => Error::Failed(error.to_string()),
        })?;
        if !pager.serves_system_calls() {
            return Err(Error::Failed(
                "system calls of the program cannot wait for pages that are not resident: run this as root, or set \
                `sysctl vm.unprivileged_userfaultfd=1`"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// The name of a device by which each process finds it, wherever it has gone.
fn device(name: &str) -> Result<String, Error> {
    let named: Result<Named, NoDevice> = name.parse();
    match named {
        Ok(_) => Ok(Path::new(name).canonicalize().ok().and_then(as_text).unwrap_or_else(|| name.to_owned())),
        Err(error @ NoDevice::Unreadable(_)) => Err(Error::Failed(format!("--delay {name}: {error}"))),
        Err(error) => Err(Error::Usage(format!("--delay {name}: {error}"))),
    }
}

fn as_text(path: PathBuf) -> Option<String> {
    path.is_file().then(|| path.to_str().map(str::to_owned)).flatten()
}

/// The signals that the program gets, too. SIGXFSZ among them: where a limit of files' lengths is in force, it would end this process at the first line on
/// standard error that is too much, and take the program's exit code with it. The kernel's own are not passed on.
const PASSED: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ];

/// Waits for the end of the program. Signals go to it, but those of the terminal, which it has got.
fn wait(mut child: Child, mut signals: SignalsInfo<WithOrigin>) -> io::Result<ExitStatus> {
    // Its number may be another's once it has ended.
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let handle = signals.handle();
    let pass = move |signal| {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may have ended.
            let _ = pidfd_send_signal(&process, signal);
        }
    };
    // Before the program was there, those of the terminal came here alone.
    signals.pending().for_each(|Origin { signal, .. }| pass(signal));
    let passing = std::thread::spawn(move || {
        for Origin { signal, cause, .. } in signals.forever() {
            if matches!(cause, Cause::Sent(Sent::User | Sent::TKill | Sent::Queue)) {
                pass(signal);
            }
        }
    });
    let status = child.wait();
    handle.close();
    let _ = passing.join();
    status
}
