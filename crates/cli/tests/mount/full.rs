//! Programs that replace files on a full disk, on a disk that fails, and where a quota is used up: what no call has reported as failed is there.

use crate::{Folder, text};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MIB: usize = 1 << 20;

/// What becomes of what is written to a disk.
#[derive(Clone, Copy, Debug)]
enum Storage {
    /// ext4 with 2 MiB left.
    Full,
    /// The same in blocks of 1 KiB: four of them are a page.
    FullOfShort,
    /// Btrfs with much left, of which a quota allows 2 MiB.
    Quota,
    /// ext4 with much left, on a device of which nothing more can be written.
    Failing,
}

/// A small file system in the place of a folder's source. It is unmounted when it is dropped.
struct Disk<'f> {
    folder: &'f Folder,
    mounted: Vec<PathBuf>,
}

#[track_caller]
fn run(command: &[&str]) -> Output {
    let done = Command::new(command[0]).args(&command[1..]).output();
    let done = done.unwrap_or_else(|error| panic!("{}: {error}: run tests/install-tools.sh", command[0]));
    assert!(done.status.success(), "{command:?}: {}", text(&done.stderr));
    done
}

/// As many bytes as a program writes, none of which is zero.
fn contents(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 251) as u8 | 1 ^ seed << 1).map(|byte| byte.max(1)).collect()
}

impl<'f> Disk<'f> {
    /// With a file `config` of 100,000 bytes.
    fn new(folder: &'f Folder, storage: Storage) -> Self {
        let mut disk = Self { folder, mounted: Vec::new() };
        let (image, source) = (folder.text("memory/image"), folder.text("source"));
        fs::create_dir(folder.path("memory")).expect("a folder");
        let room = if matches!(storage, Storage::Failing) { "size=8M" } else { "size=300M" };
        run(&["mount", "-t", "tmpfs", "-o", room, "none", &folder.text("memory")]);
        disk.mounted.push(folder.path("memory"));
        let size = if matches!(storage, Storage::Quota) { "300M" } else { "32M" };
        run(&["truncate", "-s", size, &image]);
        match storage {
            Storage::Full => run(&["mkfs.ext4", "-q", "-m", "0", "-b", "4096", &image]),
            Storage::FullOfShort => run(&["mkfs.ext4", "-q", "-m", "0", "-b", "1024", &image]),
            Storage::Failing => run(&["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", &image]),
            Storage::Quota => run(&["mkfs.btrfs", "-q", &image]),
        };
        run(&["mount", "-o", "loop", &image, &source]);
        disk.mounted.push(folder.path("source"));
        fs::write(folder.path("source/config"), contents(1, 100_000)).expect("a file");
        run(&["sync", "-f", &source]);
        match storage {
            Storage::Full | Storage::FullOfShort => {
                let free = rustix::fs::statvfs(&*source).expect("it is there");
                let fill = fs::File::create(folder.path("source/fill")).expect("a file");
                let length = free.f_bavail * free.f_frsize - 2 * MIB as u64;
                rustix::fs::fallocate(&fill, rustix::fs::FallocateFlags::empty(), 0, length).expect("it has room");
            }
            Storage::Quota => {
                run(&["btrfs", "quota", "enable", &source]);
                run(&["btrfs", "qgroup", "limit", "2M", &source]);
            }
            Storage::Failing => {
                // The device is a file of which parts are not there, and nothing can be added to it.
                let fill = fs::File::create(folder.path("memory/fill")).expect("a file");
                let mut filled = 0;
                while let Ok(length) = fill.write_at(&[1; 4096], filled) {
                    filled += length as u64;
                }
            }
        }
        disk
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if self.folder.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(self.folder.path("seen")).status();
        }
        for place in self.mounted.iter().rev() {
            let gone = Command::new("umount").arg("-l").arg(place).status().expect("umount runs");
            assert!(gone.success() || std::thread::panicking(), "{} cannot be unmounted", place.display());
        }
    }
}

/// How a program replaces `config`, which is in its working directory. Beside it, elsewhere, lies what it is to have then.
const REPLACE: [(&str, &str); 5] = [
    ("sed -i", "sed -i -e \"1r $NEW\" -e 1d config"),
    ("rsync", "rsync --whole-file $NEW config"),
    ("an editor", "cp $NEW .config.swp && mv .config.swp config"),
    ("an editor that syncs", "cp $NEW .config.swp && sync .config.swp && mv .config.swp config"),
    ("a shell", "cat $NEW >.new && mv .new config"),
];

/// Runs each of them on a mount of such storage: where it succeeds, the new contents are there after the unmount, and else the old ones.
fn check(storage: Storage, mode: &str) {
    for (name, command) in REPLACE {
        let Some(folder) = Folder::new() else { return };
        let disk = Disk::new(&folder, storage);
        let new = contents(2, 8 * MIB);
        fs::write(folder.path("new"), &new).expect("a file");
        let running = folder.mount(&["--cache", "64MiB", "--stop-timeout", "2s", "--mode", mode]);
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("NEW", folder.path("new")).current_dir(folder.path("seen"));
        let done = shell.output().expect("it runs");
        assert!(folder.unmount());
        // With 1 it says that something is not durable.
        assert!(matches!(running.end(), Some(0 | 1)), "{name}");
        // Only what was in the page cache could differ from what the disk has.
        let found = fs::read(folder.path("source/config")).expect("one of both is there");
        let expected = if done.status.success() { new } else { contents(1, 100_000) };
        assert!(
            found == expected,
            "{storage:?}, {mode}: {name} has ended with {}, and there are {} bytes: {}",
            done.status,
            found.len(),
            text(&done.stderr)
        );
        assert!(!done.status.success(), "{storage:?}: {name} writes more than there is room for");
        drop(disk);
    }
}

#[test]
fn on_a_full_disk_a_program_that_fails_leaves_the_old_file() {
    check(Storage::Full, "write-back");
    check(Storage::Full, "write-through");
}

#[test]
fn where_a_quota_is_used_up_a_program_that_fails_leaves_the_old_file() {
    check(Storage::Quota, "write-back");
}

#[test]
fn on_a_disk_that_fails_a_program_that_fails_leaves_the_old_file() {
    check(Storage::Failing, "write-back");
}

#[test]
fn a_database_on_a_full_disk_keeps_what_was_committed() {
    // SQLite has no word of its own for a quota.
    for (storage, word) in [(Storage::Full, "full"), (Storage::Quota, "disk I/O error")] {
        let Some(folder) = Folder::new() else { return };
        let disk = Disk::new(&folder, storage);
        let running = folder.mount(&["--cache", "64MiB", "--stop-timeout", "2s"]);
        let insert = "insert into t select randomblob(1000) from generate_series(1, ";
        let sql = |statement: &str| {
            let done = Command::new("sqlite3").arg(folder.path("seen/base")).arg(statement).output();
            done.expect("sqlite3 runs: tests/install-tools.sh installs it")
        };
        assert!(sql(&format!("create table t(x); {insert}300)")).status.success(), "there is room for it");
        let full = sql(&format!("{insert}8000)"));
        assert!(!full.status.success() && text(&full.stderr).contains(word), "{storage:?}: {}", text(&full.stderr));
        assert_eq!(text(&sql("pragma integrity_check; select count(*) from t").stdout), "ok\n300\n");
        assert!(folder.unmount());
        assert_eq!(running.end(), Some(0), "{storage:?}: all of it is durable");
        let below = run(&["sqlite3", &folder.text("source/base"), "pragma integrity_check; select count(*) from t"]);
        assert_eq!(text(&below.stdout), "ok\n300\n", "{storage:?}");
        drop(disk);
    }
}

/// In pieces of whole blocks, and of parts of them, while the file is closed again and again. Writeback splits what was allocated, in ext4's map, which may need a block more: ext4 keeps some for that
/// (the limits in `forebay_pool`'s `space.rs`).
#[test]
fn a_write_for_which_there_is_no_room_fails_as_below() {
    let kib = 1 << 10;
    for (storage, piece) in [
        (Storage::Full, 64 * kib),
        (Storage::Full, MIB),
        (Storage::Full, 700),
        (Storage::FullOfShort, kib),
        (Storage::FullOfShort, 64 * kib),
        (Storage::FullOfShort, 700),
        (Storage::FullOfShort, 65_000),
    ] {
        let Some(folder) = Folder::new() else { return };
        let disk = Disk::new(&folder, storage);
        let running = folder.mount(&["--cache", "64MiB"]);
        let file = fs::File::create(folder.path("seen/file")).expect("a file");
        let (bytes, mut written) = (contents(3, piece), 0);
        let over = AtomicBool::new(false);
        let full = thread::scope(|scope| {
            // As a process does that was forked meanwhile: a mount hands over what there is when anybody closes a file.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    drop(file.try_clone().expect("one more descriptor"));
                }
            });
            let full = loop {
                match file.write_at(&bytes, written) {
                    Ok(length) => written += length as u64,
                    Err(error) => break error,
                }
                if written >= 8 * MIB as u64 {
                    break std::io::Error::other("there is no room for that");
                }
            };
            over.store(true, Ordering::Relaxed);
            full
        });
        let case = format!("{storage:?} in pieces of {piece}");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{case}");
        assert!(written >= MIB as u64, "{case}: {written} bytes");
        // Holes take no room.
        file.set_len(1 << 30).unwrap_or_else(|error| panic!("{case}: after {written} bytes: {error}"));
        file.sync_all().unwrap_or_else(|error| panic!("{case}: not all that was written has its place: {error}"));
        file.set_len(written).expect("a length");
        file.sync_all().expect("nothing is to be written");
        drop(file);
        assert!(folder.unmount());
        assert_eq!(running.end(), Some(0));
        let below = fs::read(folder.path("source/file")).expect("the file below");
        assert!(below.chunks(piece).all(|read| *read == bytes[..read.len()]), "{case}");
        // What was refused has no room either.
        let taken = fs::metadata(folder.path("source/file")).map(|file| file.blocks() * 512).expect("it is there");
        assert!(taken <= written + 64 * kib as u64, "{case}: {taken} bytes for {written}");
        drop(disk);
    }
}

#[test]
fn a_user_does_not_get_the_space_that_is_kept_for_root() {
    const KEPT: u64 = 6 << 20;
    let Some(folder) = Folder::new() else { return };
    let (image, source, seen) = (folder.text("image"), folder.text("source"), folder.text("seen"));
    run(&["truncate", "-s", "32M", &image]);
    run(&["mkfs.ext4", "-q", "-m", "20", "-N", "5000", &image]);
    run(&["mount", "-o", "loop", &image, &source]);
    let disk = Disk { folder: &folder, mounted: vec![folder.path("source")] };
    for name in ["from", "links", "made", "moved"] {
        fs::create_dir(folder.path("source").join(name)).expect("a folder");
        run(&["chmod", "777", &folder.text(&format!("source/{name}"))]);
    }
    for at in 0..400 {
        let file = folder.path("source/from").join(at.to_string());
        fs::write(&file, "").and_then(|()| chown(&file, Some(65534), Some(0))).expect("a file of the user's");
    }
    run(&["chmod", "777", &source, &folder.text("")]);
    let running = folder.mount(&["--cache", "64MiB"]);
    let fill = |name: &str, user: &str| {
        let write = format!("exec dd if=/dev/urandom of={seen}/{name} bs=64k status=none");
        let ended = Command::new("setpriv").args(["--reuid", user, "--clear-groups", "sh", "-c", &write]).status();
        assert!(!ended.expect("setpriv runs").success(), "{user}: there is an end to the space");
        run(&["sync", "-f", &source]);
        let left = rustix::fs::statvfs(&*source).expect("it is there");
        left.f_bfree * left.f_frsize
    };
    let left = fill("user", "65534");
    assert!(left >= KEPT, "{left} bytes are left for root");
    // What is written to a map of a hole takes its space when the kernel hands it back.
    let map = format!(
        "import mmap, os\nfile = os.open('{seen}/hole', os.O_CREAT | os.O_RDWR)\nos.ftruncate(file, 4 << 20)\n\
         bytes = mmap.mmap(file, 4 << 20)\nbytes[:] = b'x' * (4 << 20)\nbytes.flush()"
    );
    let by_user = ["--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", &map];
    let mapped = Command::new("setpriv").args(by_user).output().expect("setpriv runs");
    assert!(text(&mapped.stderr).contains("No space left on device"), "{}", text(&mapped.stderr));
    let left = rustix::fs::statvfs(&*source).map(|left| left.f_bfree * left.f_frsize).expect("it is there");
    assert!(left >= KEPT, "{left} bytes are left for root");
    // So do names and attributes.
    let names = format!(
        "import os\nos.chdir('{seen}')\n\
         def fails(what, act):\n  try:\n    for at in range(2000): act(at)\n  except OSError as error: print(what, error.errno)\n\
         name = 'n' * 240 + '%d'\n\
         fails('setxattr', lambda at: os.setxattr('from/%d' % (at % 400), 'user.a%d' % (at // 400), b'%0900d' % at))\n\
         fails('link', lambda at: os.link('from/0', 'links/' + name % at))\n\
         fails('symlink', lambda at: os.symlink('t' * 200, 'links/%d' % at))\n\
         fails('mkdir', lambda at: os.mkdir('links/d%d' % at))\n\
         fails('create', lambda at: os.close(os.open('made/' + name % at, os.O_CREAT)))\n\
         fails('rename', lambda at: os.rename('from/%d' % at, 'moved/' + name % at))"
    );
    let by_user = ["--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", &names];
    let failed = Command::new("setpriv").args(by_user).output().expect("setpriv runs");
    let expected = "setxattr 28\nlink 28\nsymlink 28\nmkdir 28\ncreate 28\nrename 28\n";
    assert_eq!(text(&failed.stdout), expected, "{}", text(&failed.stderr));
    let left = rustix::fs::statvfs(&*source).map(|left| left.f_bfree * left.f_frsize).expect("it is there");
    assert!(left >= KEPT, "{left} bytes are left for root");
    let left = fill("root", "0");
    assert!(left < 1 << 20, "{left} bytes are left, and root may have them");
    assert!(folder.unmount());
    assert_eq!(running.end(), Some(0));
    drop(disk);
}
