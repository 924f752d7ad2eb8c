//! Why nothing can be watched, and what to do.

use super::btf::BtfError;
use super::layout::Missing;
use std::fmt;
use std::io;

/// Why the page cache cannot be watched.
#[derive(Debug)]
pub enum WatchError {
    /// The options cannot be followed: why.
    Options(String),
    /// The process has not these capabilities.
    Unprivileged(Vec<&'static str>),
    /// The process has the capabilities, but the kernel is locked down.
    Lockdown,
    /// The kernel's description of its types cannot be read.
    NoDescription(io::Error),
    /// The kernel's description of its types cannot be understood: why.
    Unreadable(String),
    /// The kernel lacks something that is needed: what, and since which version it is there.
    TooOld(String),
    /// The kernel refused a program.
    Refused {
        /// What the program is attached to.
        program: &'static str,
        /// What the system call said.
        source: io::Error,
        /// The last lines of what the verifier wrote: empty if it wrote nothing.
        log: String,
    },
    /// The system refused something else.
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// Where the kernel describes its types.
pub(crate) const DESCRIPTION: &str = "/sys/kernel/btf/vmlinux";

const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Lines of the verifier's log that a message shows.
const LOG_LINES: usize = 12;

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::Options(why) => f.write_str(why),
            WatchError::Unprivileged(missing) => write!(
                f,
                "watching the page cache needs root, or the capabilities CAP_BPF and CAP_PERFMON of the host. This process lacks {}",
                missing.join(" and ")
            ),
            WatchError::Lockdown => write!(
                f,
                "this kernel is locked down ({LOCKDOWN}), so no program may watch it. Boot it without lockdown, or with lockdown=integrity"
            ),
            WatchError::NoDescription(source) if source.raw_os_error() == Some(libc::EMFILE) => {
                write!(f, "{DESCRIPTION} cannot be read: {source}. Allow this process more (`ulimit -n`)")
            }
            WatchError::NoDescription(source) => write!(
                f,
                "{DESCRIPTION} cannot be read: {source}. It is there in kernels built with CONFIG_DEBUG_INFO_BTF=y: boot one of those"
            ),
            WatchError::Unreadable(why) => write!(f, "{DESCRIPTION} cannot be understood: {why}"),
            WatchError::TooOld(what) => write!(f, "{what}. Boot a newer kernel to watch its page cache"),
            WatchError::Refused { program, source, log } => {
                write!(f, "the kernel refuses the program for {program}: {source}")?;
                if !log.is_empty() {
                    write!(f, ". Please report this, with the kernel's version and the verifier's last lines:\n{log}")?;
                }
                Ok(())
            }
            WatchError::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for WatchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WatchError::NoDescription(source)
            | WatchError::Refused { source, .. }
            | WatchError::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Missing> for WatchError {
    fn from(missing: Missing) -> WatchError {
        WatchError::TooOld(missing.to_string())
    }
}

impl From<BtfError> for WatchError {
    fn from(error: BtfError) -> WatchError {
        WatchError::Unreadable(error.to_string())
    }
}

impl WatchError {
    /// The error of a system call: if rights were missing, which.
    pub(crate) fn system(what: &'static str, source: io::Error) -> WatchError {
        forbidden(&source).unwrap_or(WatchError::System { what, source })
    }

    /// The error of a program that could not be loaded.
    pub(crate) fn refused(program: &'static str, (source, log): (io::Error, String)) -> WatchError {
        forbidden(&source).unwrap_or_else(|| {
            let lines: Vec<&str> = log.lines().collect();
            let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            WatchError::Refused { program, source, log }
        })
    }
}

/// Which rights are missing, if that was it.
fn forbidden(source: &io::Error) -> Option<WatchError> {
    if source.raw_os_error() != Some(libc::EPERM) {
        return None;
    }
    let missing = missing_capabilities(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    if !missing.is_empty() {
        return Some(WatchError::Unprivileged(missing));
    }
    let locked = std::fs::read_to_string(LOCKDOWN).is_ok_and(|state| state.contains("[confidentiality]"));
    locked.then_some(WatchError::Lockdown)
}

/// Which of the capabilities needed a process has not, from its `/proc/PID/status`.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    const ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
    let Some(effective) = effective_capabilities(status) else { return Vec::new() };
    let has = |bit: u32| effective >> bit & 1 != 0;
    NEEDED.iter().filter(|(bit, _)| !has(*bit) && !has(ADMIN)).map(|(_, name)| *name).collect()
}

/// The capabilities of a process, a bit each, from its `/proc/PID/status`.
pub(crate) fn effective_capabilities(status: &str) -> Option<u64> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(effective.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        let status = |effective: u64| format!("Name:\tx\nCapEff:\t{effective:016x}\nCapBnd:\t0\n");
        assert_eq!(missing_capabilities(&status(0)), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing_capabilities(&status(1 << 39)), ["CAP_PERFMON"]);
        assert!(missing_capabilities(&status(1 << 39 | 1 << 38)).is_empty());
        assert!(missing_capabilities(&status(1 << 21)).is_empty());
        assert!(missing_capabilities("").is_empty());
        let message = WatchError::Unprivileged(vec!["CAP_BPF", "CAP_PERFMON"]).to_string();
        assert!(message.ends_with("lacks CAP_BPF and CAP_PERFMON"), "{message}");
    }

    #[test]
    fn a_description_that_is_there_and_cannot_be_opened_is_not_taken_for_a_kernel_without() {
        let message = |error| WatchError::NoDescription(io::Error::from_raw_os_error(error)).to_string();
        assert!(message(libc::EMFILE).ends_with("(`ulimit -n`)"), "{}", message(libc::EMFILE));
        assert!(message(libc::ENOENT).contains("CONFIG_DEBUG_INFO_BTF"), "{}", message(libc::ENOENT));
    }

    #[test]
    fn a_refusal_shows_the_last_lines_of_the_log() {
        let log: String = (0..40).map(|line| format!("line {line}\n")).collect();
        let error = WatchError::refused("filemap_read", (io::Error::from_raw_os_error(libc::EACCES), log));
        let message = error.to_string();
        assert!(message.contains("filemap_read") && message.ends_with("line 38\nline 39"), "{message}");
        assert!(message.contains("line 28\n") && !message.contains("line 27\n"), "{message}");
    }
}
