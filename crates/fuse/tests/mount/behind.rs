//! Closed files whose bytes are in the page cache below: how many these are, and what becomes of bytes that the disk refuses.

use crate::mounted::{Mounted, pattern, wait_until};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The bytes of a file that is made and closed.
const FILE: usize = 16 << 10;

/// Of the cache, which has a mebibyte.
const MOST: u64 = (1 << 20) / 8;

/// Bytes that the page cache has of the files of a directory.
fn cached(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut fincore = Command::new("fincore");
    let output =
        fincore.args(["--bytes", "--noheadings", "--output", "RES"]).args(files).output().expect("fincore runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = String::from_utf8(output.stdout).expect("text");
    figures.lines().map(|line| line.trim().parse::<u64>().expect("a number")).sum()
}

fn closed(mounted: &Mounted, name: &str, seed: usize) {
    fs::write(mounted.seen(name), pattern(seed as u8, FILE)).expect("there is room");
}

#[test]
fn closed_files_are_below_and_take_no_more_than_an_eighth_of_the_cache_there() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    let folder = mounted.below("made");
    fs::create_dir(&folder).expect("a folder");
    let mut seen_there = 0;
    for number in 0..200 {
        closed(&mounted, &format!("made/{number}"), number);
        let there = cached(&folder);
        assert!(there <= MOST, "{there} bytes after {number} files");
        seen_there = there.max(seen_there);
    }
    assert!(seen_there > 0, "closed files go by way of the page cache");
    for number in 0..200 {
        fs::remove_file(mounted.seen(&format!("made/{number}"))).expect("it goes");
        closed(&mounted, &format!("made/{number}"), number + 1);
    }
    for number in 0..200 {
        let path = folder.join(number.to_string());
        assert!(fs::read(path).expect("a read below") == pattern((number + 1) as u8, FILE), "{number}");
    }
    mounted.stop();
}

#[test]
fn the_space_of_a_file_that_is_deleted_while_it_is_closed_is_free() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    for _ in 0..400 {
        let path = mounted.seen("deleted");
        let file = File::create(&path).expect("a file");
        (&file).write_all(&[1; FILE]).expect("there is room");
        let closing = std::thread::spawn(move || drop(file));
        fs::remove_file(path).expect("it goes");
        closing.join().expect("it closes");
    }
    let deleted = |link: &Path| link.to_string_lossy().contains("source/deleted (deleted)");
    let is_open = || {
        fs::read_dir("/proc/self/fd")
            .expect("its descriptors")
            .flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| deleted(&link)))
    };
    wait_until("no descriptor keeps a deleted file", || !is_open());
    mounted.stop();
}

/// A file system on a disk that has less space than it says: what it lacks it refuses to write.
struct Lying<'m> {
    mounted: &'m Mounted,
    device: String,
    /// The KiB of its longest requests, before, which the device keeps for whoever has it next.
    longest: String,
}

impl<'m> Lying<'m> {
    /// None where no loop device can be had; in CI that is a failure.
    fn new(mounted: &'m Mounted) -> Option<Self> {
        let [disk, image, files] = ["disk", "disk/image", "lying"].map(|name| mounted.below(name));
        for folder in [&disk, &files] {
            fs::create_dir(folder).expect("a folder");
        }
        let run = |words: &[&str], last: &[&Path]| {
            Command::new(words[0]).args(&words[1..]).args(last).output().ok().filter(|output| output.status.success())
        };
        run(&["mount", "-t", "tmpfs", "-o", "size=2m", "none"], &[&disk]).expect("root may");
        // Where little is left each write allocates its range, and closed files go past the page cache.
        File::create(&image).and_then(|file| file.set_len(512 << 20)).expect("it takes no space");
        let device = run(&["losetup", "--find", "--show"], &[&image]);
        let device = device.map_or_else(String::new, |output| String::from_utf8(output.stdout).expect("text"));
        let mut system = Self { mounted, device: device.trim().to_owned(), longest: String::new() };
        let made = ["mkfs.ext4", "-q", "-O", "^has_journal", "-N", "256", "-E", "nodiscard"];
        let ready = !system.device.is_empty()
            && system.shorten_requests().is_ok()
            && run(&made, &[Path::new(&system.device)]).is_some()
            && run(&["mount", &system.device], &[&files]).is_some();
        if ready {
            return Some(system);
        }
        assert!(std::env::var_os("CI").is_none(), "CI skips nothing: no image can be mounted");
        eprintln!("skipped: no image can be mounted");
        None
    }

    fn setting(&self) -> String {
        format!("/sys/block/{}/queue/max_sectors_kb", &self.device["/dev/".len()..])
    }

    /// To a page: the driver takes a write for done of which it has done a part.
    fn shorten_requests(&mut self) -> io::Result<()> {
        self.longest = fs::read_to_string(self.setting())?;
        fs::write(self.setting(), "4")
    }
}

impl Drop for Lying<'_> {
    fn drop(&mut self) {
        let [files, disk] = ["lying", "disk"].map(|name| self.mounted.below(name));
        let _ = Command::new("umount").arg("-l").arg(files).status();
        if !self.longest.is_empty() {
            let _ = fs::write(self.setting(), &self.longest);
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = Command::new("umount").arg("-l").arg(disk).status();
    }
}

/// What the disk has of a file.
fn on_disk(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut room = vec![0; FILE + 4096];
    let start = room.as_ptr().align_offset(4096);
    let read = file.read(&mut room[start..start + FILE])?;
    Ok(room[start..start + read].to_vec())
}

#[test]
fn what_a_disk_refuses_of_closed_files_fails_their_next_fsync() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    let Some(lying) = Lying::new(&mounted) else { return };
    let names: Vec<String> = (0..256 - 32).map(|number| format!("lying/{number}")).collect();
    let make = |(number, name): (usize, &String)| fs::write(mounted.seen(name), pattern(number as u8, FILE));
    let made: Vec<io::Result<()>> = names.iter().enumerate().map(make).collect();
    let (mut lost, mut durable) = (0, 0);
    for (number, (name, made)) in names.iter().zip(made).enumerate() {
        let synced = File::options().write(true).open(mounted.seen(name)).and_then(|file| file.sync_all());
        let there = on_disk(&mounted.below(name));
        let right = there.as_ref().is_ok_and(|bytes| *bytes == pattern(number as u8, FILE));
        let there = there.map(|bytes| bytes.len());
        assert!(
            right || made.is_err() || synced.is_err(),
            "{name} was said to be durable: {made:?}, {synced:?}, {there:?}"
        );
        *if right { &mut durable } else { &mut lost } += 1;
    }
    assert!(lost > 0 && durable > 0, "{lost} lost, {durable} durable");
    drop(lying);
    wait_until("it ends", || mounted.mount.stop(Duration::from_secs(5), Duration::from_secs(5)).is_err());
}
