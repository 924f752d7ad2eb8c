//! `--folio-limit`, on a disk of its own: a file that is a loop device.

use crate::{Running, can_steer, forebay, stop, text};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// What the disk reads ahead, in KiB, as long as nobody limits it.
const BEFORE: u64 = 1024;

/// A disk with two directories.
struct Disk {
    folder: tempfile::TempDir,
    device: String,
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

impl Disk {
    /// None where nothing can be steered.
    fn new() -> Option<Self> {
        if !can_steer() {
            return None;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        File::create(path("image")).and_then(|image| image.set_len(32 << 20)).expect("an image");
        fs::create_dir(path("mounted")).expect("a folder");
        run("mkfs.ext4", &["-q", &path("image")]);
        let device = run("losetup", &["-f", "--show", &path("image")]);
        let disk = Self { folder, device };
        run("mount", &[&disk.device, &disk.text("mounted")]);
        ["one", "two"].iter().for_each(|name| fs::create_dir(disk.path(&format!("mounted/{name}"))).expect("a folder"));
        disk.set(BEFORE);
        Some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn readahead(&self) -> PathBuf {
        let device = fs::metadata(self.path("mounted")).expect("it is mounted").dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"))
    }

    fn set(&self, kib: u64) {
        fs::write(self.readahead(), kib.to_string()).expect("it can be changed");
    }

    fn now(&self) -> u64 {
        fs::read_to_string(self.readahead()).expect("it is there").trim().parse().expect("a number")
    }

    fn steer(&self, directory: &str, limit: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let place = self.text(&format!("mounted/{directory}"));
        let mut running = Running::start(command.args(["steer", &place, "-c", "1MiB", "--folio-limit", limit]));
        running.wait_for(" are there");
        running
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // After a test that failed, too.
        let _ = Command::new("umount").arg("-l").arg(self.path("mounted")).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

#[test]
fn a_disk_reads_ahead_what_the_smallest_limit_says_and_again_as_before() {
    let Some(disk) = Disk::new() else { return };
    let wide = disk.steer("one", "64KiB");
    assert_eq!(disk.now(), 64);
    let mut narrow = disk.steer("two", "16KiB");
    assert_eq!(disk.now(), 16);
    let log = stop(wide);
    assert!(log.contains("reads ahead 64 KiB at most, and 1 MiB again at the end"), "{log}");
    assert_eq!(disk.now(), 16);
    narrow.signal("INT");
    assert_eq!(narrow.end(), Some(0), "{}", narrow.log);
    assert_eq!(disk.now(), BEFORE);
    let log = stop(disk.steer("one", "8MiB"));
    assert!(log.contains("--folio-limit 8 MiB: device ") && log.contains("reads ahead 1 MiB, and goes on so"), "{log}");
    assert_eq!(disk.now(), BEFORE);
}

#[test]
fn after_a_kill_the_next_puts_it_back_unless_somebody_else_has_changed_it() {
    let Some(disk) = Disk::new() else { return };
    let kill = || {
        let mut running = disk.steer("one", "64KiB");
        running.signal("KILL");
        running.end();
    };
    let place = disk.text("mounted/two");
    // Those that other tests start put it back, too.
    let next = || assert!(forebay(&["steer", "--once", &place, "-c", "1MiB"]).status.success());
    kill();
    next();
    assert_eq!(disk.now(), BEFORE);
    kill();
    disk.set(256);
    next();
    assert_eq!(disk.now(), 256);
}
