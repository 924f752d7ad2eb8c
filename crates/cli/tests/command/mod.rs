//! Running the command as a user does.

use std::process::{Command, Output};

pub(crate) fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().expect("forebay runs")
}

/// The answer of a run that succeeds.
#[track_caller]
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = forebay(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the answer is text")
}

/// The message of a run that fails with `code`: text on standard error, nothing on standard output, no panic.
#[track_caller]
pub(crate) fn failure(arguments: &[&str], code: i32) -> String {
    let output = forebay(arguments);
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    assert!(!message.contains("panicked"), "{message}");
    message
}
