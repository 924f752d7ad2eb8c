//! Ctrl-C: what is done is told, on Unix, where a test can send the signal.
#![cfg(unix)]

use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs `forebay compare` on a trace that takes hours, and interrupts it once it has got going.
fn interrupted(arguments: &[&str], after: Duration) -> Output {
    // A shell's background jobs, and so what they start, ignore SIGINT unless told otherwise.
    let child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_forebay"), "compare"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("forebay runs");
    std::thread::sleep(after);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    child.wait_with_output().expect("forebay ends")
}

#[test]
fn an_interrupted_stream_tells_what_the_references_so_far_gave() {
    // However slow the machine, a chunk is done in a second or the signal waits for it.
    let output = interrupted(&["loop:pages=100,references=1000G", "-p", "lru,mru", "-s", "50"], Duration::from_secs(3));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("references to 100 pages") && out.contains("mru"), "{out}");
    assert!(err.contains("stopped after ") && err.contains("shown is what they gave"), "{err}");
}

#[test]
fn while_nothing_is_done_an_interrupt_ends_the_command() {
    let output = interrupted(&["loop:pages=100,references=2G", "-p", "opt", "-s", "50"], Duration::from_millis(500));
    assert!(output.stdout.is_empty());
    assert!(!output.status.success());
}
