//! What `/proc` says of processes.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// What `/proc/PROCESS/stat` says.
pub(crate) struct Stat {
    pub(crate) program: String,
    /// Its parent has not heard of it.
    pub(crate) ended: bool,
    /// 0 if it has none.
    pub(crate) parent: u32,
    /// In ticks of the kernel's clock, which are a hundredth of a second.
    pub(crate) began: u64,
}

impl Stat {
    pub(crate) fn of(process: u32) -> Option<Self> {
        let text = fs::read(format!("/proc/{process}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The program's name is in parentheses, and may have any text.
        let (before, after) = text.rsplit_once(") ")?;
        let (_, program) = before.split_once(" (")?;
        let mut fields = after.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        Some(Self { program: program.to_owned(), ended, parent, began: fields.nth(17)?.parse().ok()? })
    }
}

/// The process of a thread.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    value.trim().parse().ok()
}

/// The user in whose name a process runs.
pub fn user_of(process: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{process}")).ok().map(|found| found.uid())
}

/// The cgroup of a process: of version 2, or else of the first hierarchy of version 1.
pub(crate) fn cgroup_of(process: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let group = text.lines().find(|line| line.starts_with("0::")).or_else(|| text.lines().next())?;
    group.splitn(3, ':').nth(2).map(str::to_owned)
}
