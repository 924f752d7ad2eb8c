//! Shortens the readahead of devices while this runs: what is read ahead comes in large folios, and a folio leaves as a whole.
//!
//! A device's readahead is one number, which several commands may want smaller. In the folder of what is steered there is
//!
//! ```text
//! readahead-8:0            the note: the KiB before all of them, then those that they have set
//! readahead-8:0.4711.0     the KiB that process 4711 wants at most; locked as long as it runs
//! ```
//!
//! 1. The folder is locked while any of this is read or changed.
//! 2. The device has the least that commands which run want. With the last of them the value before comes back.
//! 3. A value is noted before it is set. So a command that was killed leaves a note of all that it may have set, and whoever comes next puts back what was there before.
//! 4. A value that is not in the note is somebody else's, and stays.

use crate::error::Error;
use crate::steering::claim::{FOLDER, READAHEAD, opened_in, private};
use forebay_basis::show_bytes;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Bytes of the unit in which the system says it.
const KIB: u64 = 1024;

/// Where the system and the notes are.
#[derive(Clone, Debug)]
struct Places {
    system: PathBuf,
    folder: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { system: "/sys".into(), folder: FOLDER.into() }
    }
}

/// Devices whose readahead is shortened until this is dropped.
#[derive(Debug)]
pub(crate) struct FolioLimit {
    places: Places,
    wanted: Vec<Wanted>,
}

/// What this command wants of a device.
#[derive(Debug)]
struct Wanted {
    device: String,
    name: String,
    #[allow(dead_code, reason = "the lock goes with the file")]
    locked: File,
}

impl FolioLimit {
    /// Shortens the readahead of devices, by their numbers, to this many bytes at most. What is less stays.
    ///
    /// # Errors
    /// It cannot be changed; then that of no device is.
    pub(crate) fn new(devices: &[(u32, u32)], bytes: u64) -> Result<Self, Error> {
        Self::of(Places::default(), devices, bytes)
    }

    fn of(places: Places, devices: &[(u32, u32)], bytes: u64) -> Result<Self, Error> {
        let mut disks: Vec<String> = devices.iter().map(|device| places.disk_of(*device)).collect();
        disks.sort_unstable();
        disks.dedup();
        let folder = places.locked()?;
        let mut made = Self { places, wanted: Vec::new() };
        for device in disks {
            match made.places.shorten(&folder, device, bytes / KIB) {
                Ok(wanted) => made.wanted.extend(wanted),
                Err(error) => {
                    // Others may be in order, and are put back under the same lock.
                    drop(folder);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }
}

impl Drop for FolioLimit {
    fn drop(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        if wanted.is_empty() {
            return;
        }
        let put_back = self.places.locked().and_then(|folder| {
            let results = wanted.into_iter().map(|Wanted { device, name, locked }| {
                remove(&folder, &name);
                drop(locked);
                self.places.settle(&folder, &device, false)
            });
            Error::of_all(results.filter_map(Result::err))
        });
        if let Err(error) = put_back {
            tracing::warn!("the readahead stays shortened until the next forebay steer starts: {error}");
        }
    }
}

/// Puts back what commands that were killed have changed. Where it cannot, as without rights, the log says so.
pub(crate) fn put_back_left() {
    if let Err(error) = Places::default().put_back_left() {
        tracing::warn!("what a --folio-limit that was killed may have changed is not put back: {error}");
    }
}

/// What is known of a device's readahead, in KiB.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    before: u64,
    /// What commands have set, or were about to.
    ours: Vec<u64>,
}

impl Places {
    /// The folder, locked until it is dropped.
    fn locked(&self) -> Result<File, Error> {
        let folder = private(&self.folder)?;
        folder.lock().map_err(|error| self.in_folder(error))?;
        Ok(folder)
    }

    fn in_folder(&self, error: io::Error) -> Error {
        Error::Failed(format!("{}: {error}", self.folder.display()))
    }

    /// The disk that a device is, or is a part of, by its numbers.
    fn disk_of(&self, (major, minor): (u32, u32)) -> String {
        let device = format!("{major}:{minor}");
        let Ok(path) = self.system.join("dev/block").join(&device).canonicalize() else { return device };
        if !path.join("partition").exists() {
            return device;
        }
        let disk = path.parent().and_then(|disk| fs::read_to_string(disk.join("dev")).ok());
        disk.map_or(device, |disk| disk.trim().to_owned())
    }

    fn path_of(&self, device: &str) -> PathBuf {
        self.system.join("class/bdi").join(device).join("read_ahead_kb")
    }

    fn read(&self, device: &str) -> Result<u64, Error> {
        let path = self.path_of(device);
        let read = fs::read_to_string(&path)
            .and_then(|text| text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData)));
        read.map_err(|error| Error::Failed(format!("{}: {error}", path.display())))
    }

    fn set(&self, device: &str, value: u64) -> Result<(), Error> {
        let path = self.path_of(device);
        let written =
            File::options().write(true).truncate(true).open(&path).and_then(|mut file| write!(file, "{value}"));
        written.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    "; where /sys is read-only, as in containers, set it outside, by `blockdev --setra`"
                }
                _ => "",
            };
            Error::Failed(format!("{}: the readahead cannot be changed: {error}{hint}", path.display()))
        })
    }

    /// Has a device read ahead this many KiB at most. Nothing where it reads ahead less.
    fn shorten(&self, folder: &File, device: String, limit: u64) -> Result<Option<Wanted>, Error> {
        self.settle(folder, &device, true)?;
        let before = read_note(folder, &device).map_or_else(|| self.read(&device), |note| Ok(note.before))?;
        let [limit_bytes, before_bytes] = [limit, before].map(|value| show_bytes(value * KIB));
        if limit >= before {
            tracing::info!("--folio-limit {limit_bytes}: device {device} reads ahead {before_bytes}, and goes on so");
            return Ok(None);
        }
        let (name, mut locked) = self.reserve(folder, &device)?;
        let settled = write!(locked, "{limit}").map_err(|error| self.in_folder(error));
        let settled = settled.and_then(|()| self.settle(folder, &device, true));
        if let Err(error) = settled {
            remove(folder, &name);
            drop(locked);
            // What cannot be changed is as it was.
            let _ = self.settle(folder, &device, false);
            return Err(error);
        }
        tracing::info!("device {device} reads ahead {limit_bytes} at most, and {before_bytes} again at the end");
        Ok(Some(Wanted { device, name, locked }))
    }

    /// A file of this process's for a device, locked.
    fn reserve(&self, folder: &File, device: &str) -> Result<(String, File), Error> {
        let mut number = 0;
        loop {
            let name = format!("{READAHEAD}{device}.{}.{number}", std::process::id());
            let file = opened_in(folder, &name).map_err(|error| self.in_folder(error))?;
            // Another's of this number, in another namespace, has it otherwise.
            if file.try_lock().is_ok() {
                // A process of this number may have left it.
                file.set_len(0).map_err(|error| self.in_folder(error))?;
                return Ok((name, file));
            }
            number += 1;
        }
    }

    /// Has a device read ahead what the commands that run leave, and drops what others have left. `joins`: one is about to run, for which a value of somebody else is the one before.
    fn settle(&self, folder: &File, device: &str, joins: bool) -> Result<(), Error> {
        let least = limits(folder, device).into_iter().min();
        let note = read_note(folder, device);
        if note.is_none() && least.is_none() {
            return Ok(());
        }
        let file = format!("{READAHEAD}{device}");
        if note.is_some() && !self.path_of(device).exists() {
            // The device has gone.
            remove(folder, &file);
            return Ok(());
        }
        let now = self.read(device)?;
        let note = note.unwrap_or(Note { before: now, ours: Vec::new() });
        let is_ours = note.ours.contains(&now);
        let mut before = note.before;
        if !is_ours && now != before {
            let path = self.path_of(device);
            tracing::warn!(
                "{}: somebody else has set it to {now} since --folio-limit had, and it stays",
                path.display()
            );
            before = now;
        }
        // What somebody else has set stays beside commands that run: another one begins anew from there.
        let stays = !is_ours && !joins && !note.ours.is_empty();
        let value = if stays { now } else { before.min(least.unwrap_or(before)) };
        if value != now {
            self.write_note(folder, device, &Note { before, ours: vec![value, now] })?;
            self.set(device, value)?;
        }
        if least.is_none() {
            remove(folder, &file);
            return Ok(());
        }
        self.write_note(folder, device, &Note { before, ours: vec![value] })
    }

    fn put_back_left(&self) -> Result<(), Error> {
        if !self.folder.exists() {
            return Ok(());
        }
        let folder = self.locked()?;
        let devices = names(&folder).into_iter().filter_map(|name| {
            let device = name.strip_prefix(READAHEAD)?;
            (!device.contains('.')).then(|| device.to_owned())
        });
        Error::of_all(devices.filter_map(|device| self.settle(&folder, &device, false).err()))
    }

    /// Replaces the note: a process that is killed meanwhile leaves the one before.
    fn write_note(&self, folder: &File, device: &str, note: &Note) -> Result<(), Error> {
        let name = format!("{READAHEAD}{device}");
        let new = format!("{name}.new");
        let numbers: Vec<String> = [note.before].iter().chain(&note.ours).map(u64::to_string).collect();
        let written = || {
            remove(folder, &new);
            opened_in(folder, &new)?.write_all(numbers.join(" ").as_bytes())?;
            Ok(renameat(folder, &*new, folder, &*name)?)
        };
        written().map_err(|error| self.in_folder(error))
    }
}

/// The names in the folder.
fn names(folder: &File) -> Vec<String> {
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)).collect()
}

fn remove(folder: &File, name: &str) {
    // It may have gone.
    let _ = unlinkat(folder, name, AtFlags::empty());
}

fn read_text(folder: &File, name: &str) -> io::Result<(File, String)> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder.as_fd(), name, flags, Mode::empty())?);
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((file, text))
}

/// A device's note. One that cannot be read says nothing.
fn read_note(folder: &File, device: &str) -> Option<Note> {
    let (_, text) = read_text(folder, &format!("{READAHEAD}{device}")).ok()?;
    let mut numbers = text.split(' ').map(|number| number.parse().ok());
    let (before, ours) = (numbers.next()??, numbers.collect::<Option<Vec<u64>>>()?);
    Some(Note { before, ours })
}

/// What the commands that run want of a device. The files of others go.
fn limits(folder: &File, device: &str) -> Vec<u64> {
    let prefix = format!("{READAHEAD}{device}.");
    let mut found = Vec::new();
    for name in names(folder).into_iter().filter(|name| name.starts_with(&prefix)) {
        let Ok((file, text)) = read_text(folder, &name) else { continue };
        if file.try_lock().is_ok() {
            remove(folder, &name);
        } else {
            found.extend(text.parse::<u64>());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const DISK: (u32, u32) = (8, 0);
    const PART: (u32, u32) = (8, 1);

    /// A system with a disk, which has a partition, and a second disk.
    struct Played(#[allow(dead_code, reason = "it goes with this")] tempfile::TempDir, Places);

    impl Played {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let system = folder.path().join("sys");
            let places = Places { system: system.clone(), folder: folder.path().join("notes") };
            for (disk, its_part) in [("8:0", "8:1"), ("8:16", "8:17")] {
                let path = system.join(format!("devices/{disk}"));
                let part = path.join("part");
                fs::create_dir_all(&part).unwrap();
                fs::write(path.join("dev"), format!("{disk}\n")).unwrap();
                fs::write(part.join("partition"), "1\n").unwrap();
                fs::create_dir_all(system.join("class/bdi").join(disk)).unwrap();
                fs::create_dir_all(system.join("dev/block")).unwrap();
                symlink(&path, system.join("dev/block").join(disk)).unwrap();
                symlink(&part, system.join("dev/block").join(its_part)).unwrap();
            }
            let played = Self(folder, places);
            played.set("8:0", 8192);
            played.set("8:16", 128);
            played
        }

        fn set(&self, disk: &str, value: u64) {
            fs::write(self.1.path_of(disk), format!("{value}\n")).unwrap();
        }

        fn now(&self, disk: &str) -> u64 {
            self.1.read(disk).unwrap()
        }

        fn limit(&self, devices: &[(u32, u32)], kib: u64) -> Result<FolioLimit, Error> {
            FolioLimit::of(self.1.clone(), devices, kib * KIB)
        }

        /// What is left in the folder of notes.
        fn left(&self) -> usize {
            fs::read_dir(&self.1.folder).unwrap().count()
        }

        /// A command that is killed: what it has locked is not locked any more, and what it has noted is there.
        fn kill(limit: FolioLimit) {
            let mut limit = limit;
            limit.wanted.clear();
        }
    }

    #[test]
    fn a_disk_and_its_partitions_are_one_and_have_the_value_before_at_the_end() {
        let played = Played::new();
        let limit = played.limit(&[PART, DISK], 64).unwrap();
        assert_eq!((limit.wanted.len(), played.now("8:0"), played.now("8:16")), (1, 64, 128));
        drop(limit);
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
    }

    #[test]
    fn of_several_commands_the_least_holds_and_the_last_puts_back_the_first_value() {
        let played = Played::new();
        let [wide, narrow] = [512, 64].map(|kib| played.limit(&[DISK], kib).unwrap());
        let middle = played.limit(&[DISK], 128).unwrap();
        assert_eq!(played.now("8:0"), 64);
        drop(narrow);
        assert_eq!(played.now("8:0"), 128);
        drop(middle);
        assert_eq!(played.now("8:0"), 512);
        drop(wide);
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
    }

    #[test]
    fn a_device_that_reads_ahead_no_more_stays_as_it_is() {
        let played = Played::new();
        let limit = played.limit(&[DISK, (8, 16)], 128).unwrap();
        assert_eq!((limit.wanted.len(), played.now("8:0"), played.now("8:16")), (1, 128, 128));
        played.set("8:16", 256);
        drop(limit);
        assert_eq!((played.now("8:0"), played.now("8:16")), (8192, 256));
    }

    #[test]
    fn what_a_killed_command_has_changed_is_put_back_by_the_next() {
        let played = Played::new();
        assert!(played.1.put_back_left().is_ok(), "there was none");
        Played::kill(played.limit(&[DISK], 64).unwrap());
        assert_eq!(played.now("8:0"), 64);
        played.1.put_back_left().unwrap();
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
        // One that goes on keeps its own.
        let other = played.limit(&[DISK], 512).unwrap();
        Played::kill(played.limit(&[DISK], 64).unwrap());
        played.1.put_back_left().unwrap();
        assert_eq!(played.now("8:0"), 512);
        Played::kill(other);
        let next = played.limit(&[DISK], 256).unwrap();
        assert_eq!(played.now("8:0"), 256);
        drop(next);
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
    }

    #[test]
    fn one_that_is_killed_between_its_note_and_the_value_leaves_neither() {
        let played = Played::new();
        let limit = played.limit(&[DISK], 512).unwrap();
        let folder = File::open(&played.1.folder).unwrap();
        for (now, ours) in [(512, vec![64, 512]), (64, vec![64, 512])] {
            played.1.write_note(&folder, "8:0", &Note { before: 8192, ours }).unwrap();
            played.set("8:0", now);
            played.1.put_back_left().unwrap();
            assert_eq!(played.now("8:0"), 512, "the other's");
        }
        Played::kill(limit);
        played.set("8:0", 8192);
        played.1.put_back_left().unwrap();
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
    }

    #[test]
    fn what_somebody_else_has_set_stays() {
        let played = Played::new();
        let limit = played.limit(&[DISK], 64).unwrap();
        played.set("8:0", 1024);
        drop(limit);
        assert_eq!((played.now("8:0"), played.left()), (1024, 0));
        Played::kill(played.limit(&[DISK], 64).unwrap());
        played.set("8:0", 2048);
        played.1.put_back_left().unwrap();
        assert_eq!((played.now("8:0"), played.left()), (2048, 0));
        // It is the value before for whoever comes later.
        let [first, second] = [64, 128].map(|kib| {
            let limit = played.limit(&[DISK], kib).unwrap();
            played.set("8:0", 4096);
            limit
        });
        drop(first);
        assert_eq!(played.now("8:0"), 4096);
        let third = played.limit(&[DISK], 256).unwrap();
        assert_eq!(played.now("8:0"), 128, "the second's");
        drop(second);
        assert_eq!(played.now("8:0"), 256);
        drop(third);
        assert_eq!((played.now("8:0"), played.left()), (4096, 0));
    }

    #[test]
    fn it_is_put_back_when_a_thread_panics() {
        let played = Played::new();
        let panics = || {
            let _limit = played.limit(&[DISK], 64).unwrap();
            panic!("as a policy may");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(played.now("8:0"), 8192);
    }

    #[test]
    fn a_device_without_a_value_is_an_error_and_the_others_stay_as_they_were() {
        let played = Played::new();
        let path = played.1.path_of("8:16");
        fs::remove_file(&path).unwrap();
        let refused = || played.limit(&[DISK, (8, 16)], 64).unwrap_err().to_string();
        assert!(refused().starts_with(&format!("{}: No such file", path.display())), "{}", refused());
        // Whatever may not be written, a folder among them.
        fs::create_dir(&path).unwrap();
        assert!(refused().contains("class/bdi/8:16/read_ahead_kb: Is a directory"), "{}", refused());
        assert_eq!((played.now("8:0"), played.left()), (8192, 0));
        Played::kill(played.limit(&[DISK], 64).unwrap());
        fs::remove_file(played.1.path_of("8:0")).unwrap();
        played.1.put_back_left().unwrap();
        let left: Vec<_> = fs::read_dir(&played.1.folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.contains(&"readahead-8:0".into()), "a device that has gone has nothing to put back: {left:?}");
    }
}
