//! What goes on while it is recorded, and how it is ended.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper,
};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rounds in which traced processes are killed: one may make another meanwhile.
const ROUNDS: usize = 100;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(20);

pub(crate) enum Running {
    /// strace, and the programs that it runs: without it these cannot go on, for their system calls wait for it.
    Traced { tracer: Pid },
    /// strace at work on programs that go on without it.
    Attached(OwnedFd),
    /// A program that is not traced.
    Program(OwnedFd),
    /// A device, until this is set.
    Device(Arc<AtomicBool>),
}

/// What tracers leave becomes a child of this process.
pub(crate) fn adopt_orphans() {
    // Without it one may stay behind.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends what a tracer has left that Ctrl-C ended before it traced: its child waits for it, stopped, for ever.
pub(crate) fn end_orphans() {
    let own = Some(std::process::id().to_string());
    let is_stopped = |name: &str| status(name, "State").is_some_and(|state| state.starts_with(['T', 't']));
    for process in processes(|name| status(name, "PPid") == own && is_stopped(name)) {
        let _ = kill_process(process, Signal::KILL);
    }
}

/// A hold on a process, whose number may be another's once it has ended.
pub(crate) fn hold(child: &Child) -> Result<OwnedFd, Errno> {
    pidfd_open(Pid::from_child(child), PidfdFlags::empty())
}

impl Running {
    /// Whether Ctrl-C at a terminal reaches the program, too.
    pub(crate) fn is_in_foreground(&self) -> bool {
        matches!(self, Self::Traced { .. } | Self::Program(_))
    }

    /// Asks it to end.
    pub(crate) fn ask(&self) {
        // What has ended cannot be asked any more: here, and below.
        match self {
            Self::Traced { tracer } => {
                for process in traced(*tracer, true) {
                    let _ = kill_process(process, Signal::TERM);
                }
            }
            Self::Attached(process) | Self::Program(process) => {
                let _ = pidfd_send_signal(process, Signal::TERM);
            }
            Self::Device(stop) => stop.store(true, Ordering::Relaxed),
        }
    }

    /// Ends it.
    pub(crate) fn force(&self) {
        match self {
            Self::Traced { tracer } => {
                for _ in 0..ROUNDS {
                    let processes = traced(*tracer, false);
                    if processes.is_empty() {
                        break;
                    }
                    for process in processes {
                        let _ = kill_process(process, Signal::KILL);
                    }
                    std::thread::sleep(BETWEEN_ROUNDS);
                }
            }
            Self::Attached(process) | Self::Program(process) => {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            Self::Device(stop) => stop.store(true, Ordering::Relaxed),
        }
    }
}

/// The processes that a tracer traces, or those of them that it has started.
fn traced(tracer: Pid, children: bool) -> Vec<Pid> {
    let tracer = Some(tracer.as_raw_nonzero().to_string());
    processes(|name| status(name, "TracerPid") == tracer && (!children || status(name, "PPid") == tracer))
}

/// The processes of which this is so, by their numbers.
fn processes(is_so: impl Fn(&str) -> bool) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let process = name.parse().ok().and_then(Pid::from_raw)?;
        is_so(name).then_some(process)
    });
    processes.collect()
}

/// What the kernel says of a process under a name; `None` if it is not there.
pub(crate) fn status(process: &str, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// Whether a process is there and has not ended.
pub(crate) fn runs(pid: u32) -> bool {
    status(&pid.to_string(), "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}
