//! What others change below, while files are open.

use crate::mounted::{Mounted, wait_until};
use forebay_fuse::{Mounts, Options};
use forebay_policy::Spec;
use forebay_pool::{Config, Pool};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn text(file: &File) -> String {
    let mut bytes = [0; 64];
    let length = file.read_at(&mut bytes, 0).expect("a read");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn a_change_below_is_seen_by_who_has_the_file_open() {
    let Some(mounted) = Mounted::start(|options, _| options.watch_below = true) else { return };
    std::fs::write(mounted.below("a"), "one").expect("a file below");
    let open = File::open(mounted.seen("a")).expect("it opens");
    assert_eq!(text(&open), "one");
    for round in ["two", "a longer text", "x"] {
        std::fs::write(mounted.below("a"), round).expect("a change below");
        wait_until("the change is seen", || text(&open) == round);
        wait_until("and the length", || open.metadata().expect("attributes").len() == round.len() as u64);
    }
    drop(open);
    mounted.stop();
}

#[test]
fn attributes_of_a_used_file_are_those_that_others_give_it() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    fs::write(mounted.below("a"), "one").expect("a file below");
    let open = File::open(mounted.seen("a")).expect("it opens");
    assert_eq!(text(&open), "one");
    for round in ["two", "a longer text", "x"] {
        fs::write(mounted.below("a"), round).expect("a change below");
        let modified = |path| fs::metadata(path).and_then(|found| found.modified()).expect("attributes");
        wait_until("who has it open sees the length", || {
            open.metadata().expect("attributes").len() == round.len() as u64
        });
        assert_eq!(text(&open), round, "and the bytes");
        wait_until("who asks by name sees the time", || modified(mounted.seen("a")) == modified(mounted.below("a")));
    }
    drop(open);
    fs::write(mounted.below("a"), "nobody has it open").expect("a change below");
    wait_until("nor must it be open", || fs::metadata(mounted.seen("a")).expect("attributes").len() == 18);
    mounted.stop();
}

#[test]
fn changes_of_many_files_at_once_are_all_seen() {
    let Some(mounted) = Mounted::start(|options, _| options.watch_below = true) else { return };
    let names: Vec<String> = (0..100).map(|number| format!("file {number}")).collect();
    let write = |text: &str| names.iter().for_each(|name| std::fs::write(mounted.below(name), text).expect("a file"));
    write("one");
    let open: Vec<File> = names.iter().map(|name| File::open(mounted.seen(name)).expect("it opens")).collect();
    assert!(open.iter().all(|file| text(file) == "one"));
    for round in ["two", "a longer text", "x"] {
        write(round);
        wait_until("all changes are seen", || open.iter().all(|file| text(file) == round));
    }
    drop(open);
    mounted.stop();
}

#[test]
fn a_change_of_ones_own_is_none_of_others() {
    let Some(mounted) = Mounted::start(|options, _| options.watch_below = true) else { return };
    let path = mounted.seen("a");
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path).expect("a file");
    for round in 0..200u64 {
        file.write_all(&[b'x'; 4096]).expect("a write");
        file.sync_data().expect("it is durable");
        let misses = mounted.pool.statistics().misses;
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, 4096 * (round / 8)).expect("a read");
        assert_eq!(page, [b'x'; 4096]);
        assert_eq!(mounted.pool.statistics().misses, misses, "no page has left, round {round}");
    }
    drop(file);
    mounted.stop();
}

#[test]
fn a_file_that_is_deleted_and_made_anew_below_is_watched_again() {
    let Some(mounted) = Mounted::start(|options, _| options.watch_below = true) else { return };
    for round in 0..20 {
        std::fs::write(mounted.below("a"), format!("{round} first")).expect("a file below");
        let open = File::open(mounted.seen("a")).expect("it opens");
        assert_eq!(text(&open), format!("{round} first"));
        let later = format!("{round} then");
        std::fs::write(mounted.below("a"), &later).expect("a change below");
        wait_until("the change is seen", || text(&open) == later);
        drop(open);
        std::fs::remove_file(mounted.seen("a")).expect("it is removed");
    }
    mounted.stop();
}

#[test]
fn a_change_on_both_sides_is_seen_once_ours_is_written_back() {
    for watch in [false, true] {
        let started = Mounted::start(|options, config| {
            options.watch_below = watch;
            config.dirty_age = Duration::from_millis(300);
        });
        let Some(mounted) = started else { return };
        std::fs::write(mounted.below("a"), [b'a'; 3 * 4096]).expect("a file below");
        let ours = OpenOptions::new().read(true).write(true).open(mounted.seen("a")).expect("it opens");
        let mut pages = [0; 3 * 4096];
        ours.read_exact_at(&mut pages, 0).expect("a read");
        ours.write_all_at(&[b'o'; 4096], 0).expect("a write");
        let theirs = OpenOptions::new().write(true).open(mounted.below("a")).expect("it opens below");
        theirs.write_all_at(&[b't'; 4097], 2 * 4096).expect("a write below, a byte longer");
        drop(theirs);
        wait_until("ours is written back", || std::fs::read(mounted.below("a")).expect("a read below")[0] == b'o');
        let right = [&[b'o'; 4096][..], &[b'a'; 4096], &[b't'; 4097]].concat();
        assert_eq!(std::fs::read(mounted.below("a")).expect("a read below"), right);
        if watch {
            let seen = || {
                (0..right.len() / 4096).all(|page| {
                    let mut bytes = [0; 4096];
                    ours.read_exact_at(&mut bytes, 4096 * page as u64).is_ok() && bytes == right[4096 * page..][..4096]
                })
            };
            wait_until("who has it open sees both", seen);
            wait_until("and the length", || ours.metadata().expect("attributes").len() == right.len() as u64);
        }
        wait_until("a new open sees both", || std::fs::read(mounted.seen("a")).expect("a read") == right);
        drop(ours);
        mounted.stop();
    }
}

#[test]
fn appends_are_kept_beside_others_who_write_below() {
    let Some(mounted) = Mounted::start(|options, _| options.watch_below = true) else { return };
    std::fs::write(mounted.below("a"), [b'a'; 4096]).expect("a file below");
    let theirs = OpenOptions::new().write(true).open(mounted.below("a")).expect("it opens below");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                theirs.write_all_at(b"t", 7).expect("a write below");
            }
        });
        let mut ours = OpenOptions::new().append(true).open(mounted.seen("a")).expect("it opens");
        for round in 0..3000u32 {
            ours.write_all(&[round as u8; 4096]).expect("an append");
            if round % 16 == 0 {
                ours.sync_data().expect("it is durable");
            }
        }
        ended.store(true, Ordering::Relaxed);
        ours.sync_all().expect("it is durable");
    });
    let below = std::fs::read(mounted.below("a")).expect("a read below");
    assert_eq!(below.len(), 3001 * 4096);
    for (round, page) in below[4096..].chunks_exact(4096).enumerate() {
        let wrong = page.iter().position(|&byte| byte != round as u8);
        let found = wrong.map(|at| (at, page[at], page.iter().filter(|&&byte| byte != round as u8).count()));
        assert_eq!(found, None, "append {round} was lost: at this byte is this one, and so many are wrong");
    }
    drop(theirs);
    mounted.stop();
}

#[test]
fn a_change_of_attributes_hides_nothing_that_others_have_written() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let no_flags = rustix::fs::XattrFlags::empty();
    type Change<'c> = (&'c str, &'c dyn Fn(&Path));
    let changes: [Change<'_>; 5] = [
        ("chmod", &|file| fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("a mode")),
        ("link", &|file| fs::hard_link(file, file.with_extension("linked")).expect("another name")),
        ("rename", &|file| {
            let away = file.with_extension("renamed");
            fs::rename(file, &away).and_then(|()| fs::rename(away, file)).expect("another name, and back");
        }),
        ("setxattr", &|file| rustix::fs::setxattr(file, "user.word", b"said", no_flags).expect("an attribute")),
        ("unlink", &|file| fs::remove_file(file.with_extension("other")).expect("a name goes")),
    ];
    for (name, change) in changes {
        let (seen, below) = (mounted.seen(name), mounted.below(name));
        fs::write(&below, vec![b'A'; 3000]).expect("a file below");
        fs::hard_link(&below, below.with_extension("other")).expect("another name");
        assert!(fs::read(&seen).expect("a read") == [b'A'; 3000], "{name}");
        fs::File::options()
            .write(true)
            .open(&below)
            .and_then(|file| file.write_all_at(&[b'B'; 3000], 0))
            .expect("below");
        change(&seen);
        let mut appending = fs::File::options().append(true).open(&seen).expect("it is opened");
        appending.write_all(b"x").and_then(|()| appending.sync_all()).expect("an append");
        let found = fs::read(&below).expect("a file below");
        assert!(found == [&[b'B'; 3000][..], b"x"].concat(), "{name}: {} bytes", found.len());
    }
    mounted.stop();
}

#[test]
fn a_new_length_holds_after_others_have_changed_it() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let (seen, below) = (mounted.seen("file"), mounted.below("file"));
    fs::write(&below, [b'A'; 50]).expect("a file below");
    assert_eq!(fs::read(&seen).expect("a read").len(), 50);
    fs::write(&below, [b'B'; 1000]).expect("others write more");
    let path = std::ffi::CString::new(seen.as_os_str().as_encoded_bytes()).expect("a path");
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), 100) }, 0);
    assert!(fs::read(&seen).expect("a read") == [b'B'; 100]);
    let folder = mounted.stop();
    assert!(fs::read(folder.path().join("source/file")).expect("a file below") == [b'B'; 100]);
}

#[test]
fn a_directory_is_mounted_once_unless_it_is_only_read() {
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    let other = tempfile::tempdir().expect("a folder");
    let second = |read_only| {
        let pool = Arc::new(Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool"));
        let options = Options { read_only, ..Options::new(mounted.below(""), other.path()) };
        Mounts::new(pool, Vec::new()).expect("a pool for mounts").add(options, || {})
    };
    for read_only in [false, true] {
        let refused = second(read_only).err().expect("it is refused").to_string();
        assert!(refused.contains("is mounted already"), "{refused}");
    }
    mounted.stop();
}
