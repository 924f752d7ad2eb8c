//! What is written, when, and who learns that it was not.

use crate::mounted::{Mounted, PATIENCE, can_mount, pattern, wait_until};
use forebay_pool::WriteMode;
use forebay_pool::device::{Device, Fault, Faulty, Operation, Rule, When};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn fsync_o_dsync_and_write_through_put_bytes_below_and_nothing_else_does_at_once() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    let bytes = |name: &str| fs::metadata(mounted.below(name)).expect("attributes below").len();
    let mut file = File::create(mounted.seen("file")).expect("a file");
    file.write_all(&[1; 5000]).expect("a write");
    assert_eq!(bytes("file"), 0);
    file.sync_data().expect("a flush");
    assert_eq!(bytes("file"), 5000);
    let open = |flags| File::options().write(true).create(true).custom_flags(flags).open(mounted.seen("durable"));
    let mut durable = open(libc::O_DSYNC).expect("a file");
    durable.write_all(&[1; 5000]).expect("a write");
    assert_eq!(bytes("durable"), 5000);
    drop((file, durable));
    let folder = mounted.stop();
    let through = Mounted::over(folder, |options, _| options.mode = WriteMode::Through).expect("it was mounted before");
    fs::write(through.seen("through"), [1; 5000]).expect("a file");
    assert_eq!(fs::metadata(through.below("through")).expect("attributes below").len(), 5000);
    through.stop();
}

#[test]
fn what_is_deleted_or_cut_off_is_never_written() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    // New files are the file system below's when they are closed. What is written to them later stays here.
    let again = |name: &str| {
        fs::write(mounted.seen(name), b"new").expect("a file");
        let file = File::options().read(true).write(true).open(mounted.seen(name)).expect("it opens");
        file.write_all_at(&pattern(1, 50_000), 0).expect("a write");
        file
    };
    drop(again("deleted"));
    let open = again("open");
    let cut = again("cut");
    let before = mounted.mount.statistics().device.written_bytes;
    fs::remove_file(mounted.seen("deleted")).expect("it goes");
    fs::remove_file(mounted.seen("open")).expect("its name goes");
    open.write_all_at(b"more", 7).expect("a write");
    drop(open);
    cut.set_len(0).expect("a length");
    // One that is deleted before it is closed is never written at all.
    let unclosed = File::create(mounted.seen("unclosed")).expect("a file");
    unclosed.write_all_at(&pattern(1, 50_000), 0).expect("a write");
    fs::remove_file(mounted.seen("unclosed")).expect("it goes");
    drop((cut, unclosed));
    wait_until("nothing is dirty", || mounted.pool.statistics().dirty == 0);
    assert_eq!(mounted.mount.statistics().device.written_bytes, before);
    mounted.stop();
}

#[test]
fn what_takes_the_place_of_old_contents_is_below_when_it_is_closed_or_renamed() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    for name in ["renamed", "emptied"] {
        fs::write(mounted.below(name), b"old").expect("a file below");
    }
    fs::write(mounted.seen("new"), b"new contents").expect("a file");
    fs::rename(mounted.seen("new"), mounted.seen("renamed")).expect("it takes the other's place");
    assert_eq!(fs::read(mounted.below("renamed")).expect("a read below"), b"new contents");
    fs::write(mounted.seen("emptied"), b"new contents").expect("a file");
    assert_eq!(fs::read(mounted.below("emptied")).expect("a read below"), b"new contents");
    mounted.stop();
}

#[test]
fn changes_below_are_seen_when_a_file_is_opened() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.below("file"), pattern(1, 10_000)).expect("a file below");
    assert!(fs::read(mounted.seen("file")).expect("a read") == pattern(1, 10_000));
    let modified = fs::metadata(mounted.below("file")).expect("attributes below").modified().expect("a time");
    // Of the same length, and as old as before.
    let below = File::options().write(true).open(mounted.below("file")).expect("it opens below");
    below.write_all_at(&pattern(2, 10_000), 0).expect("a write below");
    below.set_modified(modified).expect("a time below");
    assert!(fs::read(mounted.seen("file")).expect("a read") == pattern(2, 10_000));
    fs::write(mounted.below("file"), pattern(3, 70_000)).expect("a longer file below");
    assert!(fs::read(mounted.seen("file")).expect("a read") == pattern(3, 70_000));
    fs::write(mounted.below("file"), pattern(4, 100)).expect("a shorter file below");
    assert!(fs::read(mounted.seen("file")).expect("a read") == pattern(4, 100));
    mounted.stop();
}

#[test]
fn files_that_are_opened_again_are_still_cached() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    for name in 0..100 {
        fs::write(mounted.below(&name.to_string()), pattern(name, 5000)).expect("a file below");
    }
    let read = || (0..100u8).for_each(|name| assert!(fs::read(mounted.seen(&name.to_string())).is_ok()));
    read();
    let misses = || (mounted.pool.statistics().misses, mounted.mount.statistics().device.reads);
    let before = misses();
    read();
    assert_eq!(misses(), before, "all pages were resident");
    mounted.stop();
}

#[test]
fn an_error_of_a_device_reaches_who_reads_and_the_next_read_succeeds() {
    let fails = |device, _| {
        let rule = Rule { operation: Some(Operation::Read), when: When::Nth(1), ..Rule::new(Fault::Error(libc::EIO)) };
        Arc::new(Faulty::new(device, vec![rule], 0)) as Arc<dyn Device>
    };
    let Some(mounted) = Mounted::start(|options, _| options.wrap = Some(Box::new(fails))) else { return };
    fs::write(mounted.below("file"), pattern(1, 4096)).expect("a file below");
    let file = File::open(mounted.seen("file")).expect("it opens");
    let error = file.read_at(&mut [0; 4096], 0).expect_err("the device fails");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert_eq!(file.read_at(&mut [0; 4096], 0).expect("a read"), 4096);
    drop(file);
    mounted.stop();
}

#[test]
fn storage_that_hangs_holds_neither_readers_nor_a_stop_up() {
    let hangs = |device, _| {
        let rule = Rule { operation: Some(Operation::Write), ..Rule::new(Fault::Stall(Duration::from_secs(3600))) };
        Arc::new(Faulty::new(device, vec![rule], 0)) as Arc<dyn Device>
    };
    let mounted = Mounted::start(|options, config| {
        options.wrap = Some(Box::new(hangs));
        config.dirty_age = Duration::from_millis(50);
    });
    let Some(mounted) = mounted else { return };
    fs::write(mounted.below("other"), pattern(2, 10_000)).expect("a file below");
    // To close it would be to wait for storage: it is new.
    let stuck = File::create(mounted.seen("stuck")).expect("a file");
    stuck.write_all_at(&pattern(1, 10_000), 0).expect("the cache has room");
    assert!(fs::read(mounted.seen("stuck")).expect("a read") == pattern(1, 10_000));
    assert!(fs::read(mounted.seen("other")).expect("a read") == pattern(2, 10_000));
    let short = Duration::from_millis(200);
    let said = mounted.mount.stop(short, short).expect_err("it cannot be written").to_string();
    assert!(said.contains("not all that was written is durable") && said.contains("stuck"), "{said}");
}

/// A file system below, in memory, that can lose its space.
struct Shrinking<'m>(&'m Mounted);

impl<'m> Shrinking<'m> {
    fn new(mounted: &'m Mounted) -> Self {
        fs::create_dir(mounted.below("shrinking")).expect("a folder");
        let system = Self(mounted);
        system.mount("size=256m");
        system
    }

    fn mount(&self, options: &str) {
        let below = self.0.below("shrinking");
        let made = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(below).status();
        assert!(made.expect("mount runs").success(), "mount -o {options}");
    }
}

impl Drop for Shrinking<'_> {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(self.0.below("shrinking")).status();
        assert!(gone.expect("umount runs").success());
    }
}

#[test]
fn everybody_who_has_a_file_open_learns_once_of_a_writeback_that_failed() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    let system = Shrinking::new(&mounted);
    let path = mounted.seen("shrinking/file");
    // Not new when it is written: a new file would be handed to the file system below as `mount` starts, whose descriptors close.
    fs::write(&path, b"old").expect("a file");
    let open = || File::options().write(true).open(&path).expect("it opens");
    let (file, other) = (open(), open());
    file.write_all_at(&pattern(1, 40_000), 0).expect("there is space");
    // What was free as it was written is taken by others.
    system.mount("remount,size=16k");
    let full = file.sync_all().expect_err("the file system is full");
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    // Nothing is too much any more, and the other learns of what was.
    file.set_len(1000).expect("a length");
    let late = other.sync_all().expect_err("it does not know yet");
    assert_eq!(late.raw_os_error(), Some(libc::ENOSPC));
    other.sync_all().expect("now it has");
    file.sync_all().expect("and so has the first");
    assert!(fs::read(&path).expect("a read") == pattern(1, 40_000)[..1000]);
    drop((file, other));
    drop(system);
    mounted.stop();
}

#[test]
fn what_is_open_when_it_stops_is_flushed_and_cut_off() {
    if !can_mount() {
        return;
    }
    let mounted = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)).expect("it can be mounted");
    let path = mounted.seen("file");
    let mut file = File::create(&path).expect("a file");
    file.write_all(&pattern(1, 100_000)).expect("a write");
    let below = mounted.below("file");
    mounted.mount.stop(Duration::from_millis(200), PATIENCE).expect("everything is flushed");
    assert!(fs::read(&below).expect("a read below") == pattern(1, 100_000));
    assert!(fs::metadata(&path).is_err(), "it is out of sight");
    file.write_all(b"more").expect_err("it would be lost");
}
