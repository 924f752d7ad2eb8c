//! Ctrl-C, on Unix, where a test can send the signal: what is done is shown. And readers of standard output that go away.
#![cfg(unix)]

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs `forebay` on a trace that takes hours, and interrupts it and what it has started once it has got going, as a terminal does.
fn interrupted(arguments: &[&str], after: Duration) -> Output {
    // A shell's background jobs, and so what they start, ignore SIGINT unless told otherwise.
    let child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_forebay")])
        .args(arguments)
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("forebay runs");
    std::thread::sleep(after);
    let sent = Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().expect("kill runs");
    assert!(sent.success());
    child.wait_with_output().expect("forebay ends")
}

#[test]
fn an_interrupted_stream_tells_what_the_references_so_far_gave() {
    // However slow the machine, a chunk is done in a second or the signal waits for it.
    let output = interrupted(
        &["compare", "loop:pages=100,references=1000G", "-p", "lru,mru", "-s", "50"],
        Duration::from_secs(3),
    );
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("references to 100 pages") && out.contains("mru"), "{out}");
    // Once, whichever stream a terminal shows first.
    let said = [&*out, &*err].concat().replace('\n', " ");
    assert_eq!(said.matches("topped after ").count(), 1, "{out}{err}");
    assert!(out.contains("shown is what they gave. By these runs: "), "{out}");
}

#[test]
fn while_nothing_is_done_an_interrupt_ends_the_command() {
    let output =
        interrupted(&["compare", "loop:pages=100,references=2G", "-p", "opt", "-s", "50"], Duration::from_millis(500));
    assert!(output.stdout.is_empty());
    assert!(!output.status.success());
}

#[test]
fn an_interrupted_experiment_shows_the_tables_that_are_whole() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted.toml");
    let table = |trace: &str| format!("[[table]]\ntrace = \"{trace}\"\npolicies = \"lru\"\nsizes = 5\n");
    let tables = [table("loop:pages=10,references=100"), table("loop:pages=10,references=1000G")].concat();
    std::fs::write(&file, format!("title = \"Two loops\"\nfinding = \"All told.\"\n{tables}")).unwrap();
    let file = file.to_str().unwrap();
    for form in ["table", "json"] {
        let output = interrupted(&["experiment", file, "--format", form], Duration::from_secs(3));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{out}{err}");
        assert!(out.contains("references=100") && !out.contains("references=1000G"), "{out}");
        assert!(err.contains("shown are the tables that are whole"), "{err}");
        assert!(form == "json" || !out.contains("All told."), "{out}");
    }
}

#[test]
fn an_interrupted_conversion_leaves_no_file_behind() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted-conversion");
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("out.csv");
    let output =
        interrupted(&["convert", "loop:pages=100,references=100G", out.to_str().unwrap()], Duration::from_secs(2));
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("out.csv is not written"), "{err}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn an_interrupted_curve_shows_the_policies_that_are_done() {
    let output = interrupted(
        &[
            "curve",
            "loop:pages=1000,references=20M",
            "-p",
            "lru,arc,lirs,ubm,clock-pro,lrfu,lru-k",
            "-t",
            "1",
            "-f",
            "csv",
        ],
        Duration::from_secs(6),
    );
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("stopped after ") && !out.contains(",lru-k,"), "{out}{err}");
}

#[test]
fn what_was_answered_of_earlier_traces_is_kept_while_another_is_read() {
    let report = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("earlier.html");
    let traces = ["loop:pages=10,references=100", "loop:pages=100,references=4G"];
    let (to, path) = ("--report", report.to_str().unwrap());
    for command in [
        &["compare", "-p", "lru,opt", "-s", "50%"][..],
        &["curve"],
        &["analyze", "-p", "lru"],
        &["levels", "-l", "lru:5"],
    ] {
        let _ = std::fs::remove_file(&report);
        let asked = [&command[..1], &traces, &command[1..], &["-f", "json", to, path]].concat();
        let output = interrupted(&asked, Duration::from_secs(2));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(130), "{command:?}: {out}{err}");
        assert!(err.contains("stopped after reading") && err.contains("references=4G"), "{command:?}: {err}");
        let answers: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        assert_eq!(answers.as_array().map(Vec::len), Some(1), "{command:?}");
        assert!(report.exists(), "{command:?}: the report of the first trace");
    }
}

#[test]
fn an_interrupt_says_what_it_stopped() {
    for command in [&["info"][..], &["curve", "--sample", "0.001%"]] {
        let output = interrupted(&[command, &["loop:pages=100,references=100G"]].concat(), Duration::from_secs(1));
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{command:?}: {err}");
        assert!(err.contains("stopped while ") && err.contains("references=100G"), "{command:?}: {err}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure_in_any_form() {
    let commands: [&[&str]; 9] = [
        &["compare"],
        &["compare", "-d", "nvme", "--waits"],
        &["curve"],
        &["levels", "-l", "lru:10%"],
        &["analyze"],
        &["info"],
        &["policies"],
        &["formats"],
        &["devices"],
    ];
    for command in commands {
        for form in ["table", "csv", "json"] {
            let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
                .args(command)
                .args(["-f", form])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("forebay runs");
            drop(child.stdout.take());
            let output = child.wait_with_output().expect("forebay ends");
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && err.is_empty(), "{command:?} {form}: {err}");
        }
    }
}
