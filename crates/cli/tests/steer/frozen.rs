//! A file system that is frozen, with dirty pages: steering of another goes on beside it, and stops in order. One that is unmounted while a group is steered.

use crate::limits::Group;
use crate::running::{Running, wait_until};
use crate::{ALL, CACHE, Folder, stop};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// The bytes of the file system's image, and of the file on it.
const IMAGE: u64 = 64 << 20;
const DIRTY: usize = 4 << 20;

/// An ext4 file system on a loop device. It thaws, and goes, with this value.
struct Mounted(PathBuf);

impl Mounted {
    /// None where no loop device can be had; in CI that is a failure.
    fn new(folder: &Folder) -> Option<Self> {
        let image = folder.text("image");
        File::create(&image).and_then(|file| file.set_len(IMAGE)).expect("there is room");
        let point = folder.path("frozen");
        fs::create_dir(&point).expect("a folder");
        let runs = |command: &str, arguments: &[&str]| {
            Command::new(command).args(arguments).output().is_ok_and(|output| output.status.success())
        };
        if runs("mkfs.ext4", &["-q", &image]) && runs("mount", &["-o", "loop", &image, &point.display().to_string()]) {
            return Some(Self(point));
        }
        assert!(std::env::var_os("CI").is_none(), "CI skips nothing: no image can be mounted");
        eprintln!("skipped: no image can be mounted");
        None
    }

    fn freeze(&self, option: &str) -> bool {
        Command::new("fsfreeze").arg(option).arg(&self.0).output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.freeze("-u");
        let unmounted = || Command::new("umount").arg(&self.0).output().is_ok_and(|output| output.status.success());
        wait_until("it is unmounted", unmounted);
    }
}

#[test]
fn a_frozen_file_system_holds_up_neither_another_nor_the_end() {
    let Some(folder) = Folder::new() else { return };
    let Some(mounted) = Mounted::new(&folder) else { return };
    let file = mounted.0.join("dirty");
    let mut written = File::create(&file).expect("a file");
    written.write_all(&vec![1; DIRTY]).expect("there is room");
    written.sync_all().expect("it is in storage");
    let running = folder.steer(&[&mounted.0.display().to_string(), "--cache", &CACHE.to_string(), "--policy", "lru"]);
    // These are dirty when it is frozen, which writes them. A program that writes then waits in the kernel until it thaws.
    written.write_all(&vec![2; DIRTY]).expect("there is room");
    assert!(mounted.freeze("-f"), "it can be frozen");
    let waits = std::thread::spawn(move || written.write_all(&[3; 4096]));
    assert_eq!(fs::read(&file).expect("it can be read").len(), 2 * DIRTY);
    for _ in 0..3 {
        folder.read();
        folder.wait_for_at_most(CACHE + CACHE / 50);
    }
    assert!(folder.figure("let_go") > (ALL - CACHE) >> 12);
    let log = stop(running);
    assert!(log.contains("stopped: "), "{log}");
    // It can be brought down while it is frozen, too.
    let point = mounted.0.display().to_string();
    let mut once = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let mut lowered = Running::start(once.args(["steer", "--once", "--cache", "4MiB", &point]));
    assert_eq!(lowered.end(), Some(0), "{}", lowered.log);
    assert!(!waits.is_finished(), "it was frozen all the time");
    assert!(mounted.freeze("-u"), "it thaws");
    waits.join().expect("it ends").expect("there is room");
}

#[test]
fn a_file_system_can_be_unmounted_while_a_group_that_has_used_it_is_steered() {
    let Some(folder) = Folder::new() else { return };
    let Some(mounted) = Mounted::new(&folder) else { return };
    let Some(group) = Group::new("unmounted") else { return };
    let file = mounted.0.join("file");
    fs::write(&file, vec![1; DIRTY]).expect("there is room");
    let running = folder.steer(&["--cgroup", group.path(), "--cache", "1MiB"]);
    let mut reads = group.shell(&format!("cat {0} {0} > /dev/null", file.display()));
    assert!(reads.wait().expect("it ends").success());
    wait_until("pages of the file have left", || folder.figure("let_go") << 12 >= (DIRTY - (1 << 20)) as u64);
    drop(mounted);
    let log = stop(running);
    assert!(log.contains("stopped: "), "{log}");
}
