//! A program that runs while a test does, what it logs, and what is waited for.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a directory can be mounted here. Elsewhere the test says that it is skipped; in CI that is a failure.
pub(crate) fn can_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    if status.is_ok_and(|status| status.contains("\nUid:\t0\t0\t")) && Path::new("/dev/fuse").exists() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "a mount needs root and /dev/fuse, and CI skips nothing");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    std::io::stderr()
        .write_all(b"skipped: a mount needs root and /dev/fuse\n")
        .expect("standard error can be written to");
    false
}

/// The lines of an output, read as they come, so that whoever writes them never waits.
pub(crate) fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    let read = move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
    std::thread::spawn(read);
    lines
}

/// A program that logs on standard error. It is killed when it is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    /// What has been read of it so far.
    pub(crate) log: String,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let lines = lines_of(child.stderr.take().expect("it is piped"));
        Self { child, lines, log: String::new() }
    }

    fn keep(&mut self, line: &str) {
        self.log += line;
        self.log.push('\n');
    }

    /// Waits until one more line is logged that has this text, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                panic!("`{text}` is not logged:\n{}", self.log)
            };
            self.keep(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until the log has this text.
    #[track_caller]
    pub(crate) fn wait_for_once(&mut self, text: &str) {
        if !self.log.contains(text) {
            self.wait_for(text);
        }
    }

    /// Whether the log has this text, or gets it in a moment.
    pub(crate) fn log_has(&mut self, text: &str) -> bool {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(20)) {
            self.keep(&line);
        }
        self.log.contains(text)
    }

    /// Where it serves figures, as its log says: host and port.
    #[track_caller]
    pub(crate) fn figures_at(&mut self) -> String {
        self.wait_for_once("figures at http://");
        let address = self.log.split("figures at http://").nth(1).and_then(|rest| rest.split('/').next());
        address.expect("an address").to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits until it has ended, and reads the rest of its log; its exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("it ends", || {
            status = self.child.try_wait().expect("it can be asked");
            status.is_some()
        });
        while let Ok(line) = self.lines.recv() {
            self.keep(&line);
        }
        status.expect("it has just been seen").code()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
