//! Programs whose files are steered.

use crate::{Folder, forebay, running::Running, running::wait_until, skip, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where version 2 of control groups is mounted. Elsewhere the test says that it is skipped; in CI that is a failure.
pub(crate) fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("there is one");
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let found = mount.and_then(|line| line.split(' ').nth(4)).map(PathBuf::from);
    if found.is_none() {
        skip("no version 2 of control groups is mounted");
    }
    found
}

/// Groups of this name below one.
fn named(below: &Path, name: &str) -> usize {
    let Ok(entries) = fs::read_dir(below) else { return 0 };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    folders.map(|entry| usize::from(entry.file_name() == name) + named(&entry.path(), name)).sum()
}

fn steer(cache: &str, script: &str) -> (Option<i32>, String) {
    let output = forebay(&["steer", "--cache", cache, "--", "sh", "-c", script]);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_program_s_exit_code_is_the_command_s() {
    let (Some(_folder), Some(_)) = (Folder::new(), groups()) else { return };
    let (code, said) = steer("1MiB", "echo said; exit 7");
    assert_eq!(code, Some(7), "{said}");
    assert!(said.starts_with("said\nforebay: ") && said.contains("the policy let "), "{said}");
    assert_eq!(steer("1MiB", "kill -9 $$").0, Some(128 + 9));
    assert_eq!(steer("1MiB", "true").0, Some(0));
    assert_eq!(forebay(&["steer", "--cache", "1MiB", "--", "/no/such/program"]).status.code(), Some(127));
    assert_eq!(forebay(&["steer", "--cache", "1MiB", "--", "/"]).status.code(), Some(126));
}

#[test]
fn what_a_program_and_its_children_read_is_steered_and_its_group_goes_with_it() {
    let (Some(folder), Some(groups)) = (Folder::new(), groups()) else { return };
    let out = folder.text("figures.json");
    let script = format!("cat {}/* > /dev/null; sleep 0.2; cat /proc/self/cgroup", folder.text("files"));
    let output = forebay(&["steer", "--cache", "4MiB", "--figures", &out, "--", "sh", "-c", &script]);
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert!(output.status.success(), "{said}");
    let group = printed.lines().find_map(|line| line.strip_prefix("0::")).expect("it is in a group");
    let name = Path::new(group).file_name().expect("it has a name").to_str().expect("text").to_owned();
    assert!(name.starts_with("forebay-"), "{group}");
    assert_eq!(named(&groups, &name), 0, "its group is gone");
    let figures: serde_json::Value = serde_json::from_slice(&fs::read(out).expect("it is written")).expect("JSON");
    let uses = figures["page_cache"]["kernel_hits"].as_u64().zip(figures["page_cache"]["kernel_misses"].as_u64());
    assert!(uses.is_some_and(|(hits, misses)| hits + misses >= crate::ALL >> 12), "{figures}");
    assert!(folder.resident() <= 4 << 20, "{} bytes are left", folder.resident());
}

#[test]
fn a_signal_is_the_program_s() {
    let (Some(_folder), Some(_)) = (Folder::new(), groups()) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let script = "trap 'exit 42' TERM; echo ready >&2; while :; do sleep 0.05; done";
    command.args(["steer", "--cache", "1MiB", "--", "sh", "-c", script]);
    let mut running = Running::start(&mut command);
    running.wait_for("ready");
    running.signal("TERM");
    assert_eq!(running.end(), Some(42), "{}", running.log);
}

/// Where the group of a script is, below where version 2 is mounted.
fn group_of(said: &str, groups: &Path) -> PathBuf {
    let group = said.lines().find_map(|line| line.strip_prefix("0::/")).expect("it was in a group");
    let name = Path::new(group).file_name().expect("it has a name");
    assert!(name.to_str().is_some_and(|name| name.starts_with("forebay-")), "{group}");
    groups.join(group)
}

#[test]
fn a_group_that_is_made_anew_is_steered_as_the_one_before() {
    let (Some(folder), Some(groups)) = (Folder::new(), groups()) else { return };
    let group = groups.join(format!("test-anew-{}", std::process::id()));
    fs::create_dir(&group).expect("a group");
    let socket = folder.text("steer.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["steer", "--cache", "1GiB", "--control", &socket, "--cgroup"]).arg(&group);
    let mut steering = Running::start(&mut command);
    steering.wait_for("steering ");
    fs::remove_dir(&group).expect("nobody is in it");
    steering.wait_for("was removed; a group that is made in its place is steered");
    fs::create_dir(&group).expect("a group");
    steering.wait_for("is another group now, which is steered");
    let read = format!("echo $$ > {}/cgroup.procs && cat {}/* > /dev/null", group.display(), folder.text("files"));
    let status = Command::new("sh").args(["-c", &read]).status().expect("sh runs");
    assert!(status.success());
    wait_until("its files are steered", || {
        let output = forebay(&["control", "-f", "json", "-s", &socket, "statistics"]);
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        // The shell's own are among them.
        figures["statistics"]["page_cache"]["files"].as_u64().is_some_and(|files| files >= 6)
    });
    steering.signal("TERM");
    steering.end();
    wait_until("the group is empty", || fs::remove_dir(&group).is_ok());
}

#[test]
fn groups_that_a_program_has_made_in_its_own_go_with_it() {
    let (Some(folder), Some(groups)) = (Folder::new(), groups()) else { return };
    let pid = folder.path("pid");
    let script = format!(
        "cat /proc/self/cgroup; group={}$(sed -n s/^0:://p /proc/self/cgroup); mkdir -p $group/a/b $group/c || exit 9
        sleep 600 > /dev/null 2>&1 & echo $! | tee {} > $group/a/b/cgroup.procs",
        groups.display(),
        pid.display()
    );
    let (code, said) = steer("1MiB", &script);
    assert_eq!(code, Some(0), "{said}");
    let left: String = fs::read_to_string(pid).expect("it is written").trim().to_owned();
    assert!(!group_of(&said, &groups).exists(), "it is gone: {said}");
    assert!(Command::new("kill").arg(&left).status().expect("kill runs").success(), "what it left runs");
}

#[test]
fn the_group_of_one_that_was_killed_goes_with_the_next_start() {
    let (Some(folder), Some(groups)) = (Folder::new(), groups()) else { return };
    let pid = folder.path("pid");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let group = format!("{}$(sed -n s/^0:://p /proc/self/cgroup)/a", groups.display());
    let script =
        format!("cat /proc/self/cgroup >&2; mkdir {group}; echo $$ > {}; exec sleep 600 2> /dev/null", pid.display());
    command.args(["steer", "--cache", "1MiB", "--", "sh", "-c", &script]);
    let mut running = Running::start(&mut command);
    let said = running.wait_for("0::");
    let group = group_of(&said, &groups);
    wait_until("the program has made a group", || fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    running.signal("KILL");
    running.end();
    assert_eq!(steer("1MiB", "true").0, Some(0));
    assert!(group.join("a").exists(), "its program runs in it");
    let left: String = fs::read_to_string(pid).expect("it is written").trim().to_owned();
    assert!(Command::new("kill").arg(&left).status().expect("kill runs").success());
    wait_until("its program has ended", || {
        fs::read_to_string(group.join("cgroup.events")).map_or(true, |events| events.contains("populated 0"))
    });
    assert_eq!(steer("1MiB", "true").0, Some(0));
    assert!(!group.exists(), "{}", group.display());
}

#[test]
fn what_a_program_leaves_running_goes_on_without_its_group() {
    let (Some(folder), Some(groups)) = (Folder::new(), groups()) else { return };
    let pid = folder.path("pid");
    let script = format!("sleep 600 > /dev/null 2>&1 & echo $! > {}; cat /proc/self/cgroup", pid.display());
    let (code, said) = steer("1MiB", &script);
    assert_eq!(code, Some(0), "{said}");
    let left: String = fs::read_to_string(pid).expect("it is written").trim().to_owned();
    let name = said.lines().find_map(|line| line.strip_prefix("0::")).and_then(|group| group.rsplit('/').next());
    assert_eq!(named(&groups, name.expect("it was in a group")), 0, "its group is gone");
    assert!(Path::new("/proc").join(&left).exists(), "what it left runs");
    assert!(Command::new("kill").arg(&left).status().expect("kill runs").success());
    wait_until("it has ended", || {
        let stat = fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}
