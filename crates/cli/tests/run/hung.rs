//! A mapped file whose storage hangs: a mount whose process is stopped.

use crate::running::{PATIENCE, Running, can_mount, lines_of, wait_until};
use crate::{build_named, can_page, run};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A mount, which goes on and is unmounted when this is dropped.
struct Mount<'a> {
    running: Running,
    place: &'a Path,
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        self.running.signal("CONT");
        self.running.signal("TERM");
        self.running.end();
        let left = Command::new("mountpoint").arg("-q").arg(self.place).status().is_ok_and(|status| status.success());
        assert!(!left || std::thread::panicking(), "{} is mounted still", self.place.display());
    }
}

#[test]
fn forks_large_blocks_and_unmapping_do_not_wait_for_the_hung_storage_of_a_mapped_file() {
    if !can_page() || !can_mount() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let program = build_named(folder.path(), "hung");
    let [source, seen] = ["source", "seen"].map(|name| folder.path().join(name));
    for path in [&source, &seen] {
        std::fs::create_dir(path).expect("a folder");
    }
    std::fs::write(source.join("file"), vec![5; 8 << 20]).expect("there is room");
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("mount").args([&source, &seen]).args(["--cache", "16MiB", "--foreground"]);
    let mut mount = Mount { running: Running::start(&mut command), place: &seen };
    mount.running.wait_for("is mounted on");
    let file = seen.join("file").display().to_string();
    let mut command = run(&["-m", "1MiB"], &[&program, &file]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = lines_of(child.stdout.take().expect("a pipe"));
    assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("hang"), "it has mapped the file");
    mount.running.signal("STOP");
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
    // Before the storage goes on.
    assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("hung: all is well"), "it waits for nothing");
    mount.running.signal("CONT");
    wait_until("the program ends", || child.try_wait().expect("it can be asked").is_some());
}
