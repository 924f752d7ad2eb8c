//! A program whose files or memory are steered: it runs in a control group of its own, below that of this process, so that limits of that one hold for it, too.

use crate::error::Error;
use crate::signals::Request;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin, Sent};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Signals that the program gets, too.
const PASSED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// How the names of groups begin; a process's number follows.
const PREFIX: &str = "forebay-";

/// How long a group may take to be empty once its last processes have been moved out of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A program may have this part more than its memory: pages on their way to swap space, page tables and what the kernel keeps for it.
const MORE: u64 = 32;
const LEAST_MORE: u64 = 2 << 20;

/// A control group that goes with this value.
pub(crate) struct Group {
    path: PathBuf,
    above: PathBuf,
    /// The file of its limit, and the hierarchy's version.
    limit: Option<PathBuf>,
}

impl Group {
    /// Makes one of version 2 for a program of this process.
    ///
    /// # Errors
    /// There is no version 2, or it cannot be made there.
    pub(crate) fn new() -> Result<Self, Error> {
        let [groups, mounts] = own_groups();
        let above = own_group(&groups, &mounts).ok_or_else(|| {
            let what = "a program is steered by its control group of version 2, and none is mounted: `mount -t cgroup2 none /sys/fs/cgroup`";
            Error::Failed(what.to_owned())
        })?;
        Self::below(above, None)
    }

    /// Makes one whose memory is limited, of the version that limits memory here.
    ///
    /// # Errors
    /// None does, or it cannot be made there.
    pub(crate) fn of_memory(bytes: u64) -> Result<Self, Error> {
        let [groups, mounts] = own_groups();
        if let Some(above) = own_memory_group(&groups, &mounts) {
            return Self::below(above, Some(("memory.limit_in_bytes", bytes)));
        }
        let above = own_group(&groups, &mounts).ok_or_else(|| {
            Error::Failed("a program's memory is steered by its control group, and none is mounted".to_owned())
        })?;
        let control = above.join("cgroup.subtree_control");
        fs::write(&control, "+memory").map_err(|error| {
            Error::Failed(format!(
                "{}: groups below cannot limit memory: {error}; run this in a group of its own, as by `systemd-run --scope -p Delegate=yes`",
                control.display()
            ))
        })?;
        // Programs are slowed down there, and not killed.
        Self::below(above, Some(("memory.high", bytes)))
    }

    fn below(above: PathBuf, limit: Option<(&str, u64)>) -> Result<Self, Error> {
        remove_left(&above);
        let path = above.join(format!("{PREFIX}{}", std::process::id()));
        match fs::create_dir(&path) {
            // A process of this number, which was killed, has left it behind, with a program that runs.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::Failed(format!(
                    "{}: the program's control group cannot be made: {error}; run this as root",
                    path.display()
                )));
            }
            _ => {}
        }
        let group = Self { limit: limit.map(|(file, _)| path.join(file)), path, above };
        if let (Some(file), Some((_, bytes))) = (&group.limit, limit) {
            set_limit(file, bytes, true)?;
        }
        Ok(group)
    }

    /// The file of its limit, if it has one.
    pub(crate) fn limit(&self) -> Option<&Path> {
        self.limit.as_deref()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a program in it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let members = File::options().write(true).open(self.path.join("cgroup.procs"))?;
        let enter = move || {
            // SAFETY: the descriptor is open in the child, too, until it runs the program; the byte is there as long as the program's text.
            match unsafe { libc::write(members.as_raw_fd(), c"0".as_ptr().cast(), 1) } {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec, it makes one system call, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command.spawn()
    }
}

impl Drop for Group {
    /// What the program has left running goes on beside this process.
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = remove(&self.path) {
            if Instant::now() >= end {
                tracing::warn!("{}: the program's control group stays: {error}", self.path.display());
                return;
            }
            for group in within(&self.path) {
                let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                for member in members.lines() {
                    // It may have ended.
                    let _ = fs::write(self.above.join("cgroup.procs"), member);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Sets the limit of a group whose programs may have `bytes` in memory, by its file.
///
/// # Errors
/// The system's.
pub(crate) fn set_limit(file: &Path, bytes: u64, more: bool) -> Result<(), Error> {
    let most = bytes.saturating_add(if more { (bytes / MORE).max(LEAST_MORE) } else { 0 });
    let failed = |error| Error::Failed(format!("{}: the limit cannot be set: {error}", file.display()));
    fs::write(file, most.to_string()).map_err(failed)
}

/// A group and those in it, each before the one that it is in.
fn within(group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while let Some(group) = all.get(next) {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below: Vec<PathBuf> = groups.map(|entry| entry.path()).collect();
        all.extend(below);
        next += 1;
    }
    all.reverse();
    all
}

/// Removes a group with those in it.
///
/// # Errors
/// A process is in one of them.
fn remove(group: &Path) -> io::Result<()> {
    for group in within(group) {
        match fs::remove_dir(&group) {
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

/// Removes groups of processes that were killed, if their programs have ended.
fn remove_left(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|number| number.parse().ok());
        let left = number.is_some_and(|number: u32| {
            number == std::process::id() || !Path::new("/proc").join(number.to_string()).exists()
        });
        let members = |group: PathBuf| fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        if left && within(&entry.path()).into_iter().all(|group| members(group).is_empty()) {
            // What stays is in nobody's way.
            let _ = remove(&entry.path());
        }
    }
}

/// This process's `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_groups() -> [String; 2] {
    ["cgroup", "mountinfo"].map(|name| fs::read_to_string(Path::new("/proc/self").join(name)).unwrap_or_default())
}

/// The directory of a process's group of version 1's controller `memory`, by the same files.
fn own_memory_group(groups: &str, mounts: &str) -> Option<PathBuf> {
    let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
    let own = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has_memory(controllers).then_some(path)
    })?;
    let mount =
        mounts.lines().find(|line| line.contains(" - cgroup ") && line.rsplit(' ').next().is_some_and(has_memory))?;
    below_mount(mount, own)
}

/// The directory of a process's group of version 2. `groups` is its `/proc/self/cgroup`, `mounts` its `/proc/self/mountinfo`.
fn own_group(groups: &str, mounts: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    below_mount(mounts.lines().find(|line| line.contains(" - cgroup2 "))?, own)
}

/// Where a group lies, by the line of its mount.
fn below_mount(mount: &str, own: &str) -> Option<PathBuf> {
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, Path::new(fields.next()?));
    // A container sees its own group at the root of the mount.
    let below = Path::new(own).strip_prefix(root).ok();
    let below = below.filter(|below| !below.components().any(|part| part.as_os_str() == ".."));
    let below = below.filter(|below| *below != Path::new(""));
    Some(below.map_or_else(|| point.to_owned(), |below| point.join(below)))
}

/// What has become of a program: its exit code, or why it could not be run.
pub(crate) type Outcome = OnceLock<Result<u8, String>>;

/// Runs a program in its group. When it has ended, it is kept what has become of it, and the service is asked to stop.
///
/// # Errors
/// The system has no more threads.
pub(crate) fn run(
    mut command: Command,
    group: &Group,
    passing: Passing,
    asking: Sender<Request>,
    outcome: &Arc<Outcome>,
) -> Result<(), Error> {
    let program = command.get_program().display().to_string();
    let child = match group.start(&mut command) {
        Ok(child) => child,
        Err(error) => {
            let _ = outcome.set(Err(format!("{program}: cannot be run: {error}")));
            let _ = asking.send(Request::Stop);
            return Ok(());
        }
    };
    let outcome = Arc::clone(outcome);
    let wait = move || {
        let status = passing.until_end_of(child);
        let result = status.map(code).map_err(|error| format!("{program}: cannot be waited for: {error}"));
        let _ = outcome.set(result);
        // It may be stopping already.
        let _ = asking.send(Request::Stop);
    };
    let thread = std::thread::Builder::new().name("program".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Error::Failed(format!("no thread to wait for the program: {error}")))
}

/// Signals, which go to a program from now on.
pub(crate) struct Passing {
    signals: SignalsInfo<WithOrigin>,
    /// Those that came before the program was there.
    early: Vec<i32>,
}

impl Passing {
    /// Those that this process does not ignore, as by `nohup`: the program ignores them, too.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin() -> Result<Self, Error> {
        let ignored = ignored();
        let passed = PASSED.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let signals = SignalsInfo::with_exfiltrator(passed, WithOrigin::default());
        signals
            .map(|signals| Self { signals, early: Vec::new() })
            .map_err(|error| Error::Failed(format!("signals cannot be passed on: {error}")))
    }

    /// Whether a signal has come by which most programs end. The program gets it once it is there.
    pub(crate) fn is_asked_to_end(&mut self) -> bool {
        self.early.extend(self.signals.pending().map(|Origin { signal, .. }| signal));
        self.early.iter().any(|signal| [SIGINT, SIGQUIT, SIGTERM].contains(signal))
    }

    /// Waits for the end of the program. Signals go to it, but those of the terminal, which it has got.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn until_end_of(mut self, mut child: Child) -> io::Result<ExitStatus> {
        // Its number may be another's once it has ended.
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let handle = self.signals.handle();
        let pass = move |signal| {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It may have ended.
                let _ = pidfd_send_signal(&process, signal);
            }
        };
        // Before the program was there, those of the terminal came here alone.
        self.early.drain(..).for_each(&pass);
        self.signals.pending().for_each(|Origin { signal, .. }| pass(signal));
        let passing = std::thread::spawn(move || {
            for Origin { signal, cause, .. } in self.signals.forever() {
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
}

/// The signals that this process ignores, a bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The exit code of a program, as shells have it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited_in_version_1_where_that_has_the_controller() {
        let mounts = "36 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = |groups: &str| own_memory_group(groups, mounts).map(|path| path.display().to_string());
        assert_eq!(found("4:memory:/a\n0::/b\n").as_deref(), Some("/sys/fs/cgroup/memory/a"));
        assert_eq!(found("4:cpu,memory:/\n0::/b\n").as_deref(), Some("/sys/fs/cgroup/memory"));
        assert_eq!(found("4:cpu:/a\n0::/b\n"), None);
        assert_eq!(own_memory_group("4:memory:/a\n", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), None);
    }

    #[test]
    fn a_program_s_group_lies_below_the_one_of_this_process() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let found = |groups: &str| own_group(groups, mounts).unwrap().display().to_string();
        assert_eq!(found("4:memory:/a\n0::/user.slice/b\n"), "/sys/fs/cgroup/unified/user.slice/b");
        assert_eq!(found("4:memory:/a\n"), "/sys/fs/cgroup/unified");
        assert_eq!(found("0::/../elsewhere\n"), "/sys/fs/cgroup/unified", "outside of what is seen here");
        let inside = "41 31 0:38 /docker/4f /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        assert_eq!(own_group("0::/docker/4f/a", inside), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(own_group("0::/", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw"), None);
    }
}
