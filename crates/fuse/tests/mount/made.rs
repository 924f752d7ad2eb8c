//! Files that were just made, whose bytes nobody has used; names that go; and more files than descriptors are kept of.

use crate::mounted::{Mounted, pattern};
use forebay_policy::Spec;
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

fn make(mounted: &Mounted, name: &str) -> File {
    let made = File::options().read(true).write(true).create_new(true).open(mounted.seen(name));
    made.expect("a file that was not there")
}

#[test]
fn a_new_file_is_whole_whatever_is_done_with_it_first() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let bytes = pattern(3, 10_000);
    let synced = make(&mounted, "synced");
    synced.sync_all().expect("nothing is to be made durable");
    assert_eq!(fs::read(mounted.below("synced")).expect("a file below"), b"");

    let longer = make(&mounted, "longer");
    longer.set_len(10_000).expect("a length");
    longer.write_all_at(&bytes[..10], 5_000).expect("a write");
    let found = fs::read(mounted.seen("longer")).expect("a read");
    assert_eq!((found.len(), &found[5_000..5_010], found[5_010]), (10_000, &bytes[..10], 0));

    let shared = make(&mounted, "shared");
    fs::write(mounted.seen("shared"), &bytes).expect("another writes to it");
    let mut found = vec![0; bytes.len()];
    shared.read_exact_at(&mut found, 0).expect("a read");
    assert!(found == bytes);

    let moved = make(&mounted, "before");
    fs::rename(mounted.seen("before"), mounted.seen("after")).expect("a rename");
    moved.write_all_at(&bytes, 0).expect("a write");
    moved.sync_data().expect("it is durable");
    assert!(fs::read(mounted.below("after")).expect("a file below") == bytes);

    let gone = make(&mounted, "gone");
    fs::remove_file(mounted.seen("gone")).expect("its name goes");
    gone.write_all_at(&bytes, 0).expect("a write");
    found.fill(0);
    gone.read_exact_at(&mut found, 0).expect("a read");
    assert!(found == bytes && gone.metadata().expect("attributes").nlink() == 0);
    drop((synced, longer, shared, moved, gone));
    assert!(!mounted.below("gone").exists());
    mounted.stop();
}

#[test]
fn of_deleted_files_nothing_is_left_a_moment_later() {
    const FILES: usize = 3000;
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(600)) else { return };
    let deleted = || {
        let below = mounted.below("gone-").display().to_string();
        let of_below = |path: &Path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(&below));
        let nameless = |path: &Path| fs::metadata(path).is_ok_and(|found| found.nlink() == 0);
        let all = fs::read_dir("/proc/self/fd").expect("descriptors").flatten().map(|entry| entry.path());
        all.filter(|path| of_below(path) && nameless(path)).count()
    };
    let kept = make(&mounted, "gone-kept");
    kept.write_all_at(b"bytes", 0).expect("a write");
    for number in 0..FILES {
        let name = format!("gone-{number}");
        fs::write(mounted.seen(&name), b"bytes").expect("a file");
        if number % 7 == 0 {
            fs::hard_link(mounted.seen(&name), mounted.seen(&format!("kept-{number}"))).expect("a second name");
        }
        fs::remove_file(mounted.seen(&name)).expect("its name goes");
    }
    fs::remove_file(mounted.seen("gone-kept")).expect("its name goes");
    crate::mounted::wait_until("what nobody has open is closed", || deleted() == 1);
    crate::mounted::wait_until("its pages leave", || mounted.pool.statistics().dirty as usize <= FILES / 7 + 2);
    let mut found = [0; 5];
    kept.read_exact_at(&mut found, 0).expect("a read");
    assert_eq!((&found, kept.metadata().expect("attributes").nlink()), (b"bytes", 0));
    drop(kept);
    crate::mounted::wait_until("the last one is closed", || deleted() == 0);
    for number in (0..FILES).step_by(7) {
        assert_eq!(fs::read(mounted.seen(&format!("kept-{number}"))).expect("it has a name"), b"bytes");
    }
    mounted.stop();
}

#[test]
fn a_new_file_has_its_directory_s_manager_from_its_first_use() {
    let lru_sp = |config: &mut forebay_pool::Config| config.policy = Spec::parse("lru-sp").expect("a policy");
    let Some(mounted) = Mounted::start(|_, config| lru_sp(config)) else { return };
    fs::create_dir(mounted.seen("folder")).expect("a folder");
    let (name, flags) = ("user.forebay.manager", XattrFlags::empty());
    rustix::fs::setxattr(mounted.seen("folder"), name, b"mru", flags).expect("an attribute");
    let file = make(&mounted, "folder/file");
    file.write_all_at(b"bytes", 0).expect("a write");
    let managers: Vec<_> = mounted.mounts.managers().into_iter().map(|one| (one.by, one.manager, one.file)).collect();
    assert_eq!(managers, [("attribute", "mru".to_owned(), Some("folder/file".to_owned()))]);
    drop(file);
    mounted.stop();
}

#[test]
fn a_new_file_is_found_by_whoever_is_to_manage_it_and_one_that_nobody_has_open_is_not() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let (file, finder) = (make(&mounted, "file"), mounted.mounts.finder());
    fs::write(mounted.below("other"), b"bytes").expect("a file below");
    let volume = |found: fs::Metadata| finder.volume(found.dev(), found.ino());
    let found = volume(file.metadata().expect("attributes")).expect("it is open");
    assert_eq!((found.name(), found.len()), ("file", 0));
    assert!(volume(fs::metadata(mounted.seen("other")).expect("attributes")).is_none());
    drop(file);
    mounted.stop();
}

#[test]
fn a_file_that_loses_one_of_its_names_keeps_what_is_to_be_written() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(600)) else { return };
    let bytes = pattern(5, 20_000);
    fs::write(mounted.seen("one"), &bytes).expect("a write");
    fs::hard_link(mounted.below("one"), mounted.below("other")).expect("another name, below");
    fs::remove_file(mounted.seen("one")).expect("a name goes");
    let folder = mounted.stop();
    assert!(fs::read(folder.path().join("source/other")).expect("a file below") == bytes);
}

#[test]
fn what_takes_a_name_below_is_what_is_opened_next() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::create_dir(mounted.below("folder")).expect("a folder below");
    fs::write(mounted.below("file"), b"old").expect("a file below");
    for name in ["file", "folder"] {
        assert!(mounted.seen(name).exists(), "the kernel knows {name}");
    }
    fs::write(mounted.below("new"), b"new").expect("a file below");
    fs::rename(mounted.below("new"), mounted.below("file")).expect("a rename below");
    fs::remove_dir(mounted.below("folder")).expect("the folder goes");
    fs::create_dir(mounted.below("folder")).expect("another folder");
    fs::write(mounted.below("folder/file"), b"new").expect("a file below");
    assert_eq!(fs::read(mounted.seen("file")).expect("a read"), b"new");
    assert_eq!(fs::read_dir(mounted.seen("folder")).expect("a folder").count(), 1);
    mounted.stop();
}

#[test]
fn files_are_the_same_files_when_their_descriptors_were_closed() {
    /// More than descriptors are kept of.
    const FILES: usize = 6000;
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let names: Vec<String> = (0..FILES).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| fs::write(mounted.below(name), name).expect("a file below"));
    let number = |path| fs::metadata(path).expect("attributes").ino();
    let first = rustix::fs::open(mounted.seen("0"), OFlags::PATH, Mode::empty()).expect("a path descriptor");
    for _ in 0..2 {
        for name in &names {
            assert_eq!(number(mounted.seen(name)), number(mounted.below(name)), "{name}");
        }
        // What the kernel knows of names it believes for a second.
        std::thread::sleep(Duration::from_millis(1100));
    }
    let descriptors = fs::read_dir("/proc/self/fd").expect("open descriptors").flatten();
    let below =
        |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|path| path.starts_with(mounted.below("")));
    let open = descriptors.filter(below).count();
    assert!((1..FILES).contains(&open), "{open} descriptors are open");
    for name in names.iter().step_by(97) {
        assert_eq!(&fs::read_to_string(mounted.seen(name)).expect("a read"), name);
    }
    rustix::fs::unlink(mounted.seen("0")).expect("its name goes");
    assert_eq!(rustix::fs::fstat(&first).expect("the kernel knows it still").st_nlink, 0);
    assert!(!mounted.seen("0").exists());
    drop(first);
    mounted.stop();
}

#[test]
fn a_file_that_comes_below_as_it_is_made_is_judged_as_any_other() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    // The kernel knows for a second that there is no such name.
    assert!(fs::metadata(mounted.seen("file")).is_err());
    fs::write(mounted.below("file"), b"theirs").expect("a file below");
    let open = |options: &mut fs::OpenOptions| options.read(true).write(true).create(true).open(mounted.seen("file"));
    let mut found = [0; 6];
    open(&mut fs::File::options()).expect("it is opened, not made").read_exact_at(&mut found, 0).expect("a read");
    assert_eq!(&found, b"theirs");
    let made = fs::File::options().write(true).create_new(true).open(mounted.seen("file"));
    assert_eq!(made.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    mounted.stop();
}

#[test]
fn a_file_that_is_held_and_was_never_used_outlives_its_name_below_among_many_others() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let held = make(&mounted, "held");
    fs::remove_file(mounted.below("held")).expect("it goes, below");
    for number in 0..6000 {
        drop(make(&mounted, &format!("other {number}")));
    }
    held.write_all_at(b"bytes", 0).expect("it is there for who has it");
    let mut found = [0; 5];
    held.read_exact_at(&mut found, 0).expect("a read");
    assert_eq!(&found, b"bytes");
    drop(held);
    mounted.stop();
}

#[test]
fn a_file_without_a_name_gets_one_later_or_goes() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let bytes = pattern(4, 10_000);
    let unnamed = |flags: OFlags| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | flags;
        File::from(rustix::fs::open(mounted.seen(""), flags, Mode::from_raw_mode(0o640)).expect("a file"))
    };
    let link = |file: &File, name: &str| {
        let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, from, rustix::fs::CWD, mounted.seen(name), follow)
    };
    let file = unnamed(OFlags::empty());
    file.write_all_at(&bytes, 0).expect("a write");
    assert_eq!(file.metadata().expect("attributes").nlink(), 0);
    assert_eq!(fs::read_dir(mounted.seen("")).expect("a list").count(), 0);
    link(&file, "named").expect("a name");
    assert_eq!(file.metadata().expect("attributes").nlink(), 1);
    drop(file);
    assert!(fs::read(mounted.seen("named")).expect("a read") == bytes);
    assert_eq!(fs::metadata(mounted.below("named")).expect("it is below").mode() & 0o777, 0o640);

    let never = unnamed(OFlags::EXCL);
    never.write_all_at(&bytes, 0).expect("a write");
    assert_eq!(link(&never, "never"), Err(rustix::io::Errno::NOENT), "as below");
    let (unused, gone) = (unnamed(OFlags::empty()), unnamed(OFlags::empty()));
    link(&unused, "unused").expect("a name");
    gone.write_all_at(&bytes, 0).expect("a write");
    drop((never, unused, gone));
    fs::write(mounted.seen("unused"), &bytes).expect("a write");
    let folder = mounted.stop();
    let below = folder.path().join("source");
    let mut names: Vec<_> = fs::read_dir(&below).expect("a list").map(|entry| entry.expect("it").file_name()).collect();
    names.sort();
    assert_eq!(names, ["named", "unused"]);
    assert!(names.iter().all(|name| fs::read(below.join(name)).expect("a read") == bytes));
}

#[test]
fn a_file_was_born_when_it_was_below() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.seen("file"), b"bytes").expect("a write");
    let born =
        |path: std::path::PathBuf| fs::metadata(path).expect("attributes").created().expect("the file system keeps it");
    assert_eq!(born(mounted.seen("file")), born(mounted.below("file")));
    assert_eq!(born(mounted.seen("")), born(mounted.below("")));
    mounted.stop();
}
