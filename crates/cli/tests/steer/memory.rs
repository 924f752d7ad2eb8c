//! Programs whose memory is steered, with swap space in a file.

use crate::program::groups;
use crate::running::{Running, wait_until};
use crate::{PROCESSORS, can_steer, compiled, forebay, skip, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::Duration;

/// What a program may have, and what it uses in a loop, in MiB.
const MEMORY: u64 = 64;
const LOOP: u64 = 96;
const SECONDS: u64 = 4;

/// Swap space in a file, until this is dropped.
struct Swap(PathBuf);

impl Swap {
    /// None where there can be none. There the test says that it is skipped; in CI that is a failure.
    fn on() -> Option<Self> {
        // Not every file system has swap files.
        let mut why = String::new();
        for folder in [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"] {
            match Self::in_folder(Path::new(folder)) {
                Ok(swap) => return Some(swap),
                Err(error) => why = error,
            }
        }
        skip(&format!("no swap file can be used: {why}"));
        None
    }

    fn in_folder(folder: &Path) -> Result<Self, String> {
        let swap = Self(folder.join(format!("forebay-test-swap-{}", std::process::id())));
        let file = swap.0.to_str().expect("text");
        for words in
            [&["fallocate", "-l", "512M", file][..], &["chmod", "600", file], &["mkswap", file], &["swapon", file]]
        {
            let output = Command::new(words[0]).args(&words[1..]).output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(text(&output.stderr));
            }
        }
        Ok(swap)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        // What was not on is not there.
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = fs::remove_file(&self.0);
    }
}

/// A control group of a test's own, which goes with it.
struct Group(PathBuf);

impl Group {
    fn new(above: &Path) -> Self {
        let group = Self(above.join(format!("test-memory-{}", std::process::id())));
        fs::create_dir(&group.0).expect("a group");
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs the loop under a policy: how many faults a round has, and the most KiB that the program had once it was brought down.
fn looped(pages: &str, policy: &str) -> (u64, u64) {
    let figures = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}.json", std::process::id()));
    let size = format!("{MEMORY}MiB");
    let figures_to = figures.to_str().expect("text");
    let words = ["steer", "--memory", &size, "--policy", policy, "--figures", figures_to, "--"];
    let output = forebay(&[&words[..], &[pages, &LOOP.to_string(), &SECONDS.to_string()]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("faults on pages that were not there; the policy let "), "{said}");
    let read: Value = serde_json::from_slice(&fs::read(&figures).expect("it is written")).expect("JSON");
    let _ = fs::remove_file(figures);
    let printed = text(&output.stdout);
    let (rounds, most) = printed.trim().split_once(' ').expect("two numbers");
    let faults = read["memory"]["misses"].as_u64().expect("a count");
    (faults / rounds.parse::<u64>().expect("a number"), most.parse().expect("a number"))
}

/// All of it in one test: swap space is the machine's.
#[test]
fn a_program_s_memory_has_its_size_and_its_policy_and_nothing_is_lost() {
    let (true, Some(groups)) = (can_steer(), groups()) else { return };
    let pages = compiled("pages.c");
    let pages = pages.to_str().expect("text");
    if fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() < 2) {
        let refused = forebay(&["steer", "--memory", "32MiB", "--", "true"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("no swap space"), "{}", text(&refused.stderr));
    }
    let root = groups.to_str().expect("text");
    let group = Group::new(&groups);
    let unlimited = group.0.to_str().expect("text");
    for (words, what) in [
        (&["--memory", "16MiB", "--", "true"][..], "take 32 MiB or more"),
        (&["--memory", "32MiB", "--cgroup", root], "it holds all processes of this machine"),
        (&["--memory", "32MiB", "--turns", "--observe", "--", "true"], "--turns: with --observe nothing leaves"),
        (
            &["--cache", "32MiB", "--turns", "/tmp"],
            "--turns: the kernel has turns where memory is steered: give --memory",
        ),
        (&["--memory", "32MiB", "--turns", "--cgroup", unlimited], "take --memory auto"),
        (&["--memory", "32MiB"], "name a control group by --cgroup, or a program"),
        (&["--memory", "auto", "--cgroup", unlimited], "no limit of memory is set"),
        (&["--memory", "32MiB", "--cache", "auto", "--cgroup", root], "--cache auto: beside the other it is a size"),
        (&["--memory", "32MiB", "--cache", "1MiB", "/tmp"], "there is no memory to steer"),
        (&["--memory", "32MiB", "/tmp", "--", "true"], "steers no files, and a DIRECTORY is for them"),
        (&["--memory", "32MiB", "--cache", "1MiB", "--cgroup", root], "it holds all processes of this machine"),
    ] {
        let refused = forebay(&[&["steer"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(what), "{words:?}: {}", text(&refused.stderr));
    }
    drop(group);
    let Some(_swap) = Swap::on() else { return };

    let alone = PROCESSORS.write().unwrap_or_else(PoisonError::into_inner);
    let (mru, lru) = (looped(pages, "mru"), looped(pages, "lru"));
    has_one_size_with_files(pages);
    drop(alone);
    for (_, most) in [mru, lru] {
        assert!(most <= (MEMORY << 10) * 21 / 20, "{most} KiB were in memory");
    }
    assert!(mru.0 < lru.0 * 3 / 4, "faults a round: {} under MRU, {} under LRU", mru.0, lru.0);
    has_turns();
    survives_kills(pages, &groups);
    ["KILL", "TERM"].into_iter().for_each(|end| lives_at_a_limit_of_its_own(pages, end));
    observes(pages);
}

/// With `--turns` the kernel chooses first, and then the policy.
fn has_turns() {
    // It computes for long enough on each page that turns are short.
    let program = "memory = bytearray(96 << 20)\nwhile True:\n  for at in range(0, len(memory), 4096): memory[at] = sum(memory[at:at + 4096]) & 1";
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .args(["steer", "--memory", "64MiB", "--turns", "--policy", "mru", "--log", "info", "--control"])
        .arg(&socket);
    let mut steering = Running::start(command.args(["--", "python3", "-c", program]));
    steering.wait_for("in turns with the kernel");
    let count = |name: &str| {
        let output = forebay(&["control", "-f", "json", "-s", socket.to_str().expect("text"), "statistics"]);
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        figures["statistics"]["memory"][name].as_u64()
    };
    wait_until("the kernel has turns, in which nothing leaves by the policy", || {
        count("kernel_chose") > Some(500_000) && count("policy_chooses") == Some(0) && count("dropped") == Some(0)
    });
    wait_until("the policy has turns", || count("policy_chooses") == Some(1) && count("dropped") > Some(0));
    let there = (count("there"), count("others"));
    let most = 64 << 8;
    assert!(there.0.zip(there.1).is_some_and(|(there, others)| there + others <= most + most / 20), "{there:?}");
    steering.signal("TERM");
    steering.end();
}

/// A program's memory and its files have one size. Memory in use stays while a file is read again and again, though it is more than `--memory`. Beside others
/// that have the processors and disks, the program may use its memory less often than the file is read.
fn has_one_size_with_files(pages: &str) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [file, figures] = ["file", "figures.json"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&file, vec![7; 96 << 20]).expect("a file");
    fs::File::open(&file).and_then(|file| file.sync_all()).expect("a flush");
    let dropped =
        Command::new("dd").args([&format!("if={file}"), "iflag=nocache", "count=0"]).output().expect("dd runs");
    assert!(dropped.status.success(), "{}", text(&dropped.stderr));
    let reads = compiled("reads.c").display().to_string();
    let script = format!("{reads} {file} 64 4 & {pages} 56 7; wait");
    let words = ["steer", "--memory", "32MiB", "--cache", "48MiB", "--figures", &figures, "--", "sh", "-c", &script];
    let output = forebay(&words);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let read: Value = serde_json::from_slice(&fs::read(&figures).expect("it is written")).expect("JSON");
    let count = |part: &str, name: &str| read[part][name].as_u64().unwrap_or_else(|| panic!("no {part}.{name}"));
    let asked = 80 << 20 >> 12;
    assert_eq!((count("memory", "asked"), count("page_cache", "asked")), (asked, asked));
    let first = 56 << 20 >> 12;
    let faults = count("memory", "misses");
    assert!(
        faults < first + first / 4,
        "{faults} faults on {first} pages, which fit beside a file that does not: {said}"
    );
    assert!(count("page_cache", "let_go") > 96 << 20 >> 12, "the file has left time and again: {said}");
    let there = count("page_cache", "there");
    assert!(there <= asked + asked / 50, "{there} pages of files are there, {asked} may be");
    let volumes = read["volumes"].as_array().expect("two").len();
    assert_eq!((volumes, read["caches"].as_array().expect("one").len()), (2, 1));
}

/// The process that steers is killed again and again, and the program goes on.
fn survives_kills(pages: &str, groups: &Path) {
    let group = Group::new(groups);
    let members = group.0.join("cgroup.procs");
    let script = format!("echo $$ > {}; exec {pages} {LOOP} 8 2>&1", members.display());
    let mut program = Running::start(Command::new("sh").args(["-c", &script]));
    for policy in ["clock-pro", "lru", "mru", "arc"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["steer", "--memory", "32MiB", "--policy", policy, "--cgroup"]).arg(&group.0);
        let mut steering = Running::start(&mut command);
        steering.wait_for("steering the memory of");
        std::thread::sleep(Duration::from_millis(300));
        steering.signal("KILL");
        steering.end();
    }
    assert_eq!(program.end(), Some(0), "a byte is wrong: {}", program.log);
}

/// Steering of a group at its limit ends, and the kernel does not kill the program there, which pages hard: the guard has it count what it may reclaim.
fn lives_at_a_limit_of_its_own(pages: &str, end: &str) {
    let above = Path::new("/sys/fs/cgroup/memory");
    if !above.exists() {
        return skip("version 1 of control groups does not limit memory here");
    }
    let group = Group::new(above);
    fs::write(group.0.join("memory.limit_in_bytes"), "34M").expect("it is limited");
    let script = format!("echo $$ > {}; exec {pages} 128 8 2>&1", group.0.join("cgroup.procs").display());
    let mut program = Running::start(Command::new("sh").args(["-c", &script]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    // The guard is in another directory, and is to know the group all the same.
    let name = group.0.file_name().expect("it has a name");
    command.current_dir(above).args(["steer", "--memory", "32MiB", "--cgroup"]).arg(name);
    let mut steering = Running::start(&mut command);
    steering.wait_for("steering the memory of");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(guards(&group.0), 1, "one waits for the end of the process that steers");
    let twice = forebay(&["steer", "--memory", "32MiB", "--cgroup", group.0.to_str().expect("text")]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(text(&twice.stderr).contains("is steered by another forebay steer"), "{}", text(&twice.stderr));
    steering.signal(end);
    steering.end();
    assert_eq!(program.end(), Some(0), "it was killed, or a byte is wrong: {}", program.log);
    wait_until("the guard has nothing left to do", || guards(&group.0) == 0);
}

/// How many guards a group has.
fn guards(group: &Path) -> usize {
    let group = group.to_str().expect("text");
    let processes = fs::read_dir("/proc").expect("there are processes").flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains("\0steer-guard\0") && line.contains(group)).count()
}

/// Nothing leaves, and it is seen what is there.
fn observes(pages: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["steer", "--memory", "32MiB", "--observe", "--log", "info", "--control"]).arg(&socket);
    // A shell would free pages of its own meanwhile, which count as dropped.
    let mut steering = Running::start(command.args(["--", pages, &LOOP.to_string(), "60"]));
    steering.wait_for("observing the memory of");
    let memory = || {
        let output = forebay(&["control", "-f", "json", "-s", socket.to_str().expect("text"), "statistics"]);
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        figures["statistics"]["memory"].clone()
    };
    wait_until("the program has used all of its memory", || {
        memory()["there"].as_u64().is_some_and(|there| there >= LOOP << 8)
    });
    let dropped = memory()["dropped"].as_u64();
    assert_eq!(dropped, Some(0), "something has left: {}", memory());
    steering.signal("TERM");
    steering.end();
}
