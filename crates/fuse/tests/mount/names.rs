//! Names, attributes and what else a directory has.

use crate::mounted::Mounted;
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, Timespec, Timestamps, XattrFlags};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

#[test]
fn what_is_made_on_a_mount_is_made_below_and_the_other_way_round() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::create_dir(mounted.seen("folder")).expect("a folder");
    fs::write(mounted.seen("folder/file"), b"bytes").expect("a file");
    symlink("folder/file", mounted.seen("link")).expect("a link");
    fs::hard_link(mounted.seen("folder/file"), mounted.seen("other")).expect("a name");
    assert_eq!(fs::read(mounted.seen("link")).expect("a read"), b"bytes");
    assert_eq!(
        fs::read_link(mounted.below("link")).expect("a link below"),
        fs::read_link(mounted.seen("link")).expect("a link")
    );
    let [one, other] = ["folder/file", "other"].map(|name| fs::metadata(mounted.seen(name)).expect("attributes"));
    assert_eq!((one.ino(), one.nlink(), one.size()), (other.ino(), 2, 5));
    assert_eq!(one.ino(), fs::metadata(mounted.below("other")).expect("attributes below").ino());
    fs::write(mounted.below("below"), b"made below").expect("a file below");
    assert_eq!(fs::read(mounted.seen("below")).expect("a read"), b"made below");
    rustix::fs::mkfifoat(CWD, mounted.seen("fifo"), 0o640.into()).expect("a fifo");
    assert!(fs::metadata(mounted.below("fifo")).expect("attributes below").file_type().is_fifo());
    mounted.stop();
}

#[test]
fn modes_owners_and_times_are_those_of_the_tree_below() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let path = mounted.seen("file");
    fs::write(&path, b"bytes").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6751)).expect("a mode");
    std::os::unix::fs::chown(&path, Some(12), Some(34)).expect("owners");
    let before_1970 = Timespec { tv_sec: -7, tv_nsec: 250_000_000 };
    let times =
        Timestamps { last_access: before_1970, last_modification: Timespec { tv_sec: 5, tv_nsec: 123_456_789 } };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("times");
    for found in [&path, &mounted.below("file")].map(|path| fs::metadata(path).expect("attributes")) {
        assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o751, 12, 34), "chown drops set-user-id");
        assert_eq!((found.atime(), found.atime_nsec()), (-7, 250_000_000));
        assert_eq!((found.mtime(), found.mtime_nsec()), (5, 123_456_789));
    }
    mounted.stop();
}

#[test]
fn a_file_is_as_old_as_its_last_write_and_not_as_its_writeback() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_millis(100)) else { return };
    let path = mounted.seen("file");
    let mut file = File::create(&path).expect("a file");
    file.write_all(&[1; 10_000]).expect("a write");
    let written = fs::metadata(&path).expect("attributes").modified().expect("a time");
    crate::mounted::wait_until("the pages are written back", || mounted.pool.statistics().dirty == 0);
    crate::mounted::wait_until("the time below is put right", || {
        fs::metadata(mounted.below("file")).expect("attributes below").modified().expect("a time") == written
    });
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    file.write_all(b"more").expect("a write");
    file.set_modified(old).expect("a time");
    file.sync_all().expect("a flush");
    let found =
        [&path, &mounted.below("file")].map(|path| fs::metadata(path).expect("attributes").modified().expect("a time"));
    assert_eq!(found, [old, old], "what tar or cp -p says lasts");
    drop(file);
    mounted.stop();
}

#[test]
fn names_move_and_open_files_stay() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let path = |name: &str| mounted.seen(name);
    for name in ["a", "b", "c"] {
        fs::write(path(name), name).expect("a file");
    }
    let rename = |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, path(from), CWD, path(to), flags);
    let refused = rename("a", "b", RenameFlags::NOREPLACE).expect_err("b is there");
    assert_eq!(refused, rustix::io::Errno::EXIST);
    rename("a", "b", RenameFlags::EXCHANGE).expect("they change places");
    assert_eq!(fs::read(path("a")).expect("a read"), b"b");
    let mut open = File::options().read(true).write(true).open(path("c")).expect("it opens");
    rename("b", "c", RenameFlags::empty()).expect("it takes c's place");
    assert_eq!(fs::read(path("c")).expect("a read"), b"a");
    open.write_all(b"still there").expect("a write to a file without a name");
    open.sync_all().expect("a flush");
    assert_eq!(open.metadata().expect("attributes").nlink(), 0);
    let mut text = String::new();
    std::io::Seek::rewind(&mut open).expect("it is a file");
    open.read_to_string(&mut text).expect("a read");
    assert_eq!(text, "still there");
    drop(open);
    assert_eq!(fs::read_dir(mounted.below("")).expect("the folder below").count(), 2);
    mounted.stop();
}

#[test]
fn a_file_renamed_below_is_still_the_open_one() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.seen("file"), b"old").expect("a file");
    let mut open = File::options().append(true).open(mounted.seen("file")).expect("it opens");
    fs::rename(mounted.below("file"), mounted.below("moved")).expect("it moves below");
    open.write_all(b" and new").expect("a write");
    open.sync_all().expect("a flush");
    assert_eq!(fs::read(mounted.below("moved")).expect("a read below"), b"old and new");
    drop(open);
    mounted.stop();
}

#[test]
fn a_large_directory_lists_each_name_once() {
    const NAMES: usize = 3000;
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let name = |number: usize| format!("a name of some length with the number {number}");
    (0..NAMES).for_each(|number| drop(File::create(mounted.below(&name(number))).expect("a file below")));
    let listed = || fs::read_dir(mounted.seen("")).expect("the folder").map(|entry| entry.expect("an entry"));
    let names: Vec<String> = listed().map(|entry| entry.file_name().into_string().expect("text")).collect();
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), different.len()), (NAMES, NAMES));
    // With a look at each the kernel asks for names and attributes at once.
    assert!(listed().all(|entry| entry.metadata().expect("attributes").is_file()));
    mounted.stop();
}

#[test]
fn extended_attributes_and_access_lists_are_kept_below() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let path = mounted.seen("file");
    fs::write(&path, b"bytes").expect("a file");
    rustix::fs::setxattr(&path, "user.a", b"value", XattrFlags::CREATE).expect("an attribute");
    let again = rustix::fs::setxattr(&path, "user.a", b"other", XattrFlags::CREATE).expect_err("it is there");
    assert_eq!(again, rustix::io::Errno::EXIST);
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(mounted.below("file"), "user.a", &mut value[..]), Ok(5));
    let short = rustix::fs::getxattr(&path, "user.a", &mut value[..3]).expect_err("too little room");
    assert_eq!(short, rustix::io::Errno::RANGE);
    // Version 2: owner rw-, user 65534 r--, group ---, mask r--, others ---.
    let list: Vec<u8> = [(1u16, 6u16, u32::MAX), (2, 4, 65534), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
        .into_iter()
        .flat_map(|(tag, rights, who)| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat())
        .collect();
    let list = [&2u32.to_le_bytes()[..], &list].concat();
    rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty()).expect("an access list");
    assert_eq!(
        fs::metadata(mounted.below("file")).expect("attributes below").mode() & 0o777,
        0o640,
        "the mask is its group's"
    );
    rustix::fs::removexattr(&path, "user.a").expect("it goes");
    let gone = rustix::fs::getxattr(mounted.below("file"), "user.a", &mut value[..]).expect_err("it has gone");
    assert_eq!(gone, rustix::io::Errno::NODATA);
    mounted.stop();
}

#[test]
fn locks_keep_others_out() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.seen("file"), b"bytes").expect("a file");
    let open = || File::options().read(true).write(true).open(mounted.seen("file")).expect("it opens");
    let (one, other) = (open(), open());
    one.lock().expect("a lock");
    assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
    one.unlock().expect("it is ours");
    other.try_lock().expect("it is free");
    drop((one, other));
    mounted.stop();
}

#[test]
fn figures_of_the_file_system_are_those_below() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let [seen, below] = [mounted.seen(""), mounted.below("")].map(|path| rustix::fs::statvfs(path).expect("figures"));
    assert_eq!((seen.f_blocks, seen.f_bsize, seen.f_namemax), (below.f_blocks, below.f_bsize, below.f_namemax));
    let file = File::create(mounted.seen("file")).expect("a file");
    let collapsed = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096).expect_err("FUSE has none");
    assert_eq!(collapsed, rustix::io::Errno::OPNOTSUPP);
    drop(file);
    mounted.stop();
}
