//! strace and valgrind, which record programs; what they write comes by a pipe.

use crate::Source;
use crate::error::Error;
use crate::program::find;
use crate::running::{Running, adopt_orphans, hold, runs, status};
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;

/// The calls that name, move or copy a descriptor, those that move bytes, and those that make processes.
const CALLS: &str = "open,openat,openat2,creat,close,close_range,dup,dup2,dup3,fcntl,fcntl64,lseek,_llseek,\
    read,write,pread64,pwrite64,readv,writev,preadv,pwritev,preadv2,pwritev2,copy_file_range,sendfile,sendfile64,splice,\
    readahead,fadvise64,fadvise64_64,chdir,fchdir,getcwd,execve,execveat,fork,vfork,clone,clone2,clone3";
const MAPS: &str = "mmap,mmap2";

/// The formats that tools write, and what is in each line about a reference.
const STRACE: (&str, u8) = ("strace", b'(');
const LACKEY: (&str, u8) = ("lackey", b',');

/// What the kernel is asked to hold of what a tool has written.
const PIPE: usize = 1 << 20;

/// The file references of a program and its children.
pub(crate) fn files(program: &[OsString], mapped: bool, to_stderr: bool) -> Result<Source, Error> {
    find(&program[0])?;
    let mut command = strace(mapped)?;
    // Only the calls wanted stop the program.
    command.arg("--seccomp-bpf");
    if to_stderr {
        command.stdout(io::stderr());
    }
    adopt_orphans();
    let running = |child: &Child| Ok(Running::Traced { tracer: Pid::from_child(child) });
    start(command, STRACE, "--output=", program, running)
}

/// The file references of processes that run.
pub(crate) fn processes(pids: &[u32], mapped: bool) -> Result<Source, Error> {
    for &pid in pids {
        if !runs(pid) {
            return Err(Error::Usage(format!("--pid {pid}: there is no such process")));
        }
        if let Some(tracer) = status(&pid.to_string(), "TracerPid").filter(|tracer| tracer != "0") {
            let name = status(&tracer, "Name").unwrap_or_else(|| "another process".to_owned());
            let why = format!("--pid {pid}: {name} {tracer} traces it already, and only one can: end that first");
            return Err(Error::Failed(why));
        }
    }
    let mut command = strace(mapped)?;
    command.args(pids.iter().map(|pid| format!("--attach={pid}")));
    // Ctrl-C is for us: we end it.
    command.process_group(0);
    start(command, STRACE, "--output=", &[], |child| Ok(Running::Attached(hold(child)?)))
}

/// The memory references of a program.
pub(crate) fn memory(program: &[OsString]) -> Result<Source, Error> {
    find(&program[0])?;
    let mut command = Command::new(tool("valgrind")?);
    command.args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--child-silent-after-fork=yes"]);
    start(command, LACKEY, "--log-file=", program, |child| Ok(Running::Program(hold(child)?)))
}

/// strace with what the reader of its output wants.
fn strace(mapped: bool) -> Result<Command, Error> {
    let mut command = Command::new(tool("strace")?);
    // Not every machine has all calls: strace passes over those after a question mark.
    let calls = CALLS.split(',').chain(MAPS.split(',').filter(|_| mapped)).map(|call| format!("?{call}"));
    let calls = calls.collect::<Vec<_>>().join(",");
    command.args(["-f", "-q", "-y", "-ttt", "-s", "0", "-e", "signal=none", "-e", &format!("trace={calls}")]);
    Ok(command)
}

fn tool(name: &str) -> Result<PathBuf, Error> {
    let missing =
        |_| format!("{name} is not installed, and does the recording: install it (Debian: apt install {name})");
    find(OsStr::new(name)).map_err(|error| Error::Failed(missing(error)))
}

/// Starts a tool that writes to a file, and a program under it. The file is our end of a pipe: no program inherits it.
fn start(
    mut command: Command,
    (format, mark): (&'static str, u8),
    output: &str,
    program: &[OsString],
    running: impl Fn(&Child) -> io::Result<Running>,
) -> Result<Source, Error> {
    let (reader, writer) = io::pipe().map_err(Error::begin)?;
    // A smaller pipe serves, too.
    let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
    command.arg(format!("{output}/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd()));
    if !program.is_empty() {
        command.arg("--").args(program);
    }
    let child = command.spawn().map_err(Error::begin)?;
    let running = running(&child).map_err(Error::begin)?;
    // The pipe ends when the tool has closed its end and we ours: it may not have opened it before it ends.
    let ended = wait(child, move || drop(writer));
    Ok(Source { format, mark, start: 0, bytes: Box::new(reader), running, ended: Some(ended) })
}

/// Waits for a program in the background.
pub(crate) fn wait(mut child: Child, then: impl FnOnce() + Send + 'static) -> JoinHandle<io::Result<ExitStatus>> {
    std::thread::spawn(move || {
        let status = child.wait();
        then();
        status
    })
}
