//! Sizes that follow what a control group leaves.

use crate::running::wait_until;
use crate::{Folder, forebay, stop, text};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The limit of the group.
const LIMIT: u64 = 32 << 20;
/// What a process of it takes after a while.
const TAKEN: u64 = 16 << 20;

/// A control group with a limit, which goes with this value.
pub(crate) struct Group(PathBuf);

impl Group {
    /// Where groups that limit memory are mounted, one for this test. Elsewhere the test says that it is skipped; in CI that is a failure.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there is one");
        let is_of_memory = |line: &&str| line.ends_with(",memory") || line.contains(",memory,");
        let version_1 = mounts.lines().filter(|line| line.contains(" - cgroup ")).find(is_of_memory);
        let version_2 = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let point = |line: Option<&str>| line.and_then(|line| line.split(' ').nth(4)).map(PathBuf::from);
        let name = format!("forebay-test-{test}-{}", std::process::id());
        for (mount, limit) in [(point(version_1), "memory.limit_in_bytes"), (point(version_2), "memory.max")] {
            let Some(group) = mount.map(|mount| mount.join(&name)) else { continue };
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Self(group);
            if fs::write(group.0.join(limit), LIMIT.to_string()).is_ok() {
                return Some(group);
            }
        }
        assert!(std::env::var_os("CI").is_none(), "CI skips nothing: no control group can be given a limit of memory");
        eprintln!("skipped: no control group can be given a limit of memory");
        None
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }

    /// A shell in the group.
    pub(crate) fn shell(&self, script: &str) -> Child {
        let script = format!("echo $$ > {}/cgroup.procs && {script}", self.path());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdout(Stdio::piped()).spawn().expect("sh runs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes that have ended are in it for a moment.
        wait_until("the group is empty", || fs::remove_dir(&self.0).is_ok());
    }
}

#[test]
fn a_size_follows_what_a_control_group_leaves_to_page_cache() {
    let Some(folder) = Folder::new() else { return };
    let Some(group) = Group::new("size") else { return };
    let running = folder.steer(&["--cgroup", group.path(), "--cache", "auto"]);
    let size = || folder.figure("size") << 12;
    wait_until("all but a margin is left", || size() > LIMIT - LIMIT / 8);
    let before = size();
    assert!(before < LIMIT, "{before}");
    // It has all of its input in memory, and waits for a reader of its output.
    let mut taking = group.shell(&format!("head -c {TAKEN} /dev/zero | tail -c {TAKEN}"));
    wait_until("less is left", || size() < before - TAKEN / 4 * 3);
    assert!(folder.figure("asked") << 12 < before);
    drop(taking.stdout.take());
    taking.wait().expect("it ends");
    wait_until("all is left again", || size() > LIMIT - LIMIT / 8);
    let log = stop(running);
    assert!(log.contains("at most what control groups leave, "), "{log}");
}

#[test]
fn without_a_limit_there_is_no_size_to_follow() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there is one");
    let version_2 = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(unlimited) = version_2.and_then(|line| line.split(' ').nth(4)) else { return };
    let output = forebay(&["steer", "--cgroup", unlimited, "--cache", "auto"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("--cache auto: no limit of memory is set for {unlimited}, or above it")), "{said}");
}
