//! Limits of the shell, and closed standard streams: the program's are its own, and the pager lives with them.

use crate::{build, can_page, run, text};
use std::process::{Command, Output, Stdio};

/// What a program does, and what is said of it, where forebay has been started by these words.
#[track_caller]
fn by(words: &[&str], program: &[&str]) -> (Option<i32>, String, String) {
    let inner = run(&["-m", "1MiB"], program);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    (status.code(), text(&stdout), text(&stderr))
}

#[test]
fn a_limit_that_leaves_the_pager_no_room_leaves_the_program_as_it_is() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let cases = [
        ("--fsize=0", "its memory is not paged"),
        ("--fsize=65536", "File too large"),
        ("--fsize=100000000", "major faults"),
        ("--nofile=8", "Too many open files"),
        ("--nofile=24", "major faults"),
        ("--as=600000000", "ulimit -v"),
        ("--as=3000000000", "major faults"),
    ];
    for (limit, message) in cases {
        let within = format!("prlimit {limit} --core=0 {program} functions");
        let words = ["env", "--default-signal=XFSZ"];
        let (code, stdout, said) = by(&words, &["sh", "-c", &format!("exec {within}")]);
        assert_eq!((code, stdout.as_str()), (Some(0), "functions: all is well\n"), "{limit}: {said}");
        assert!(said.contains(message), "{limit}: {said}");
    }
}

#[test]
fn a_program_is_told_in_its_own_name_that_swap_space_may_be_no_longer() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let (code, _, said) = by(&["prlimit", "--fsize=20000000"], &[&program, "fill", "64"]);
    assert!(code == Some(1) && said.contains("Cannot allocate memory") && said.contains("File too large"), "{said}");
}

#[test]
fn a_line_that_standard_error_has_no_room_for_does_not_change_the_exit_code() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (program, log) = (build(folder.path()), folder.path().join("log"));
    let script = "exec env --default-signal=XFSZ prlimit --fsize=0 \"$@\" 2>\"$0\"";
    let log = log.display().to_string();
    let (code, stdout, _) = by(&["sh", "-c", script, &log], &[&program, "functions"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "functions: all is well\n"));
    assert_eq!(std::fs::metadata(&log).expect("a file").len(), 0);
    for streams in ["2>&-", "<&- 2>&-"] {
        let script = format!("exec \"$@\" {streams}");
        let (code, stdout, _) = by(&["sh", "-c", &script, "sh"], &[&program, "functions"]);
        assert_eq!((code, stdout.as_str()), (Some(0), "functions: all is well\n"), "{streams}");
        let inner = format!("{program} fill 4 {streams} >/dev/null");
        let mut command = run(&["-m", "1MiB"], &["sh", "-c", &inner]);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it runs");
        assert!(status.success(), "{streams}: {status}");
    }
}
