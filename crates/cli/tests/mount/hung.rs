//! Storage below that does not answer: a mount over another one, whose process is stopped.

use crate::running::{self, PATIENCE, wait_until};
use crate::{Folder, Running, text};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The mount below, which is mounted again.
struct Hung<'f> {
    below: Running<'f>,
    above: Running<'f>,
    folder: &'f Folder,
}

impl<'f> Hung<'f> {
    /// Mounts one over the other, and has the one below answer no more.
    fn start(folder: &'f Folder, options: &[&str]) -> Self {
        fs::create_dir(folder.path("above")).expect("a folder");
        fs::create_dir(folder.path("source/folder")).expect("a folder");
        for number in 0..200 {
            fs::write(folder.path(&format!("source/folder/{number}")), vec![number as u8; 100_000]).expect("a file");
        }
        let below = folder.mount(&[]);
        let mut above = Command::new(env!("CARGO_BIN_EXE_forebay"));
        above.args(["mount", &folder.text("seen"), &folder.text("above"), "--foreground", "--stop-timeout", "1s"]);
        let above = Running { folder, process: running::Running::start(above.args(options)) };
        wait_until("the second mount is there", || folder.is_mounted_at("above"));
        // It is known, and so it need not be looked for.
        assert_eq!(fs::read_dir(folder.path("above")).expect("a list").count(), 1);
        below.signal("STOP");
        Self { below, above, folder }
    }

    fn spawn(&self, program: &str, name: &str) -> Child {
        let path = self.folder.path(&format!("above/folder/{name}"));
        Command::new(program).arg(path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs")
    }

    /// The one below answers again, and both end in order.
    fn end(self) {
        self.below.signal("CONT");
        assert!(self.folder.unmount_at("above"));
        assert_eq!(self.above.end(), Some(0));
        assert!(self.folder.unmount());
        assert_eq!(self.below.end(), Some(0));
    }
}

#[test]
fn programs_that_wait_for_hung_storage_can_be_killed() {
    let Some(folder) = Folder::new() else { return };
    let hung = Hung::start(&folder, &[]);
    // More than there are threads that receive requests, or wait for storage.
    let mut waiting: Vec<Child> = (0..150).map(|number| hung.spawn("cat", &number.to_string())).collect();
    waiting.extend((0..10).map(|_| hung.spawn("ls", "")));
    let waits = |child: &Child| {
        fs::read_to_string(format!("/proc/{}/wchan", child.id())).is_ok_and(|at| at.contains("request"))
    };
    wait_until("programs wait", || waiting.iter().filter(|child| waits(child)).count() > 4);
    let begun = Instant::now();
    waiting.iter_mut().for_each(|child| child.kill().expect("it runs"));
    for child in &mut waiting {
        while child.try_wait().expect("it is ours").is_none() {
            assert!(begun.elapsed() < PATIENCE, "a killed program has not ended for {PATIENCE:?}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    hung.end();
}

#[test]
fn a_request_that_storage_does_not_answer_in_time_fails() {
    let Some(folder) = Folder::new() else { return };
    let hung = Hung::start(&folder, &["--device-timeout", "1s"]);
    let failed = hung.spawn("cat", "7").wait_with_output().expect("it ends by itself");
    assert!(!failed.status.success());
    assert!(text(&failed.stderr).contains("Connection timed out"), "{}", text(&failed.stderr));
    hung.end();
}
