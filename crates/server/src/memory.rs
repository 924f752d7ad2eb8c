//! How much memory the server may take: the machine's, or less if a control group or `ulimit` limits this process.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::{Path, PathBuf};

/// What the program takes for itself.
pub(crate) const PROGRAM: u64 = 10 << 20;

/// What a mount takes beside its cache: the program, and buffers of requests that are under way.
pub(crate) const MOUNT: u64 = PROGRAM + (16 << 20);

/// What a connection takes beside what the buffers are for: its input, and its thread's stack.
pub(crate) const CONNECTION: u64 = 96 << 10;

/// Has the C library give large blocks back to the system when they are freed. It would keep them after a burst of requests, for each of
/// many threads.
pub(crate) fn keep_no_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the C library's allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 512 << 10);
    }
}

/// The machine's.
pub(crate) fn machine() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

/// The files that hold the limits of this process's groups and of those above them.
pub(crate) fn own_limit_files() -> Vec<PathBuf> {
    let [groups, mounts] =
        ["cgroup", "mountinfo"].map(|name| fs::read_to_string(Path::new("/proc/self").join(name)).unwrap_or_default());
    limit_files(&groups, &mounts)
}

/// The most bytes.
pub(crate) fn limit() -> u64 {
    let groups = own_limit_files().into_iter().filter_map(|file| read(&file));
    // The other half of the addresses is for stacks, buffers and what else the process needs.
    groups.chain(addresses().map(|bytes| bytes / 2)).fold(machine(), u64::min)
}

/// The most bytes that a cache of this size may grow to. Its addresses are taken at once, and are not to be spared where they are limited.
pub(crate) fn most_capacity(capacity: u64) -> u64 {
    if addresses().is_some() { capacity } else { limit() }
}

/// The same of a cache whose pages are another's, as the kernel's: limits of this process are none for them.
pub(crate) fn most_pages_elsewhere(capacity: u64) -> u64 {
    if addresses().is_some() { capacity } else { machine() }
}

/// The bytes of addresses that `ulimit -v` and `ulimit -d` let this process have.
fn addresses() -> Option<u64> {
    [Resource::As, Resource::Data].into_iter().filter_map(|limit| getrlimit(limit).current).min()
}

/// The bytes of addresses that `ulimit -v` still lets this process take, if it limits them.
pub(crate) fn addresses_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let taken = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kibibytes: u64 = taken.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(limit.saturating_sub(kibibytes << 10))
}

/// A file that says `max` has no number, and no limit.
fn read(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The files that hold the limits of a process's groups and of those above them. `groups` is its `/proc/self/cgroup`, with lines
/// `ID:CONTROLLERS:PATH`, where version 2 names no controllers; `mounts` its `/proc/self/mountinfo`.
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let names: &[&str] = if mount.version_2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
        let controls = |controllers: &str| match mount.version_2 {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller == "memory"),
        };
        for group in groups.lines() {
            let mut fields = group.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if !controls(controllers) {
                continue;
            }
            // In a container the mount may show the group alone, under a path that is of the world outside.
            let below = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(""));
            for folder in below.ancestors() {
                files.extend(names.iter().map(|name| mount.point.join(folder).join(name)));
            }
        }
    }
    files
}

/// Where groups that have limits of memory are seen.
struct Mount<'a> {
    root: &'a str,
    point: &'a Path,
    version_2: bool,
}

impl<'a> Mount<'a> {
    /// `ID PARENT DEVICE ROOT POINT OPTIONS [TAG…] - TYPE SOURCE OPTIONS`, if the line is of such a mount.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, Path::new(before.next()?));
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let version_2 = kind == "cgroup2";
        let version_1 = kind == "cgroup" && options.split(',').any(|option| option == "memory");
        (version_1 || version_2).then_some(Self { root, point, version_2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(groups: &str, mounts: &str) -> Vec<String> {
        limit_files(groups, mounts).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn a_group_of_version_2_has_its_limits_and_those_above_it() {
        let mounts = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
                      36 24 0:31 / /tmp rw - tmpfs tmpfs rw";
        assert_eq!(
            files("0::/system.slice/forebay.service", mounts),
            [
                "/sys/fs/cgroup/system.slice/forebay.service/memory.max",
                "/sys/fs/cgroup/system.slice/forebay.service/memory.high",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/system.slice/memory.high",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/memory.high",
            ]
        );
    }

    #[test]
    fn of_version_1_the_group_of_memory_counts() {
        let groups = "5:cpu,cpuacct:/a\n4:memory:/jobs/7\n0::/";
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
        let names = ["jobs/7/", "jobs/", ""].map(|path| format!("/sys/fs/cgroup/memory/{path}memory.limit_in_bytes"));
        assert_eq!(files(groups, mounts), names);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_root_of_the_mount() {
        let mounts = "35 31 0:32 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let limit = ["/sys/fs/cgroup/memory/memory.limit_in_bytes"];
        assert_eq!(files("4:memory:/docker/4f", mounts), limit);
        assert_eq!(files("4:memory:/elsewhere", mounts), limit);
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, read_as) in [("max\n", None), ("1048576\n", Some(1 << 20)), ("", None)] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(read(file.path()), read_as);
        }
        assert_eq!(read(Path::new("/nowhere")), None);
        assert!(limit() > 0);
    }
}
