//! Users of files say who manages: by attributes, and by `ioctl` on an open file.

use crate::managers::{ALL, looped, misses, over, rules, under};
use crate::mounted::{Mounted, wait_until};
use crate::reader::Reader;
use libc::{EINVAL, ENOTTY, EOPNOTSUPP, EPERM, ESRCH, POSIX_FADV_NOREUSE, POSIX_FADV_NORMAL};
use rustix::fs::XattrFlags;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn set(path: &Path, name: &str, value: &str) -> rustix::io::Result<()> {
    rustix::fs::setxattr(path, name, value.as_bytes(), XattrFlags::empty())
}

const MANAGER: &str = "user.forebay.manager";
const HINT: &str = "user.forebay.hint";

#[test]
fn an_attribute_holds_at_once_for_all_users_until_it_is_removed() {
    let Some(mounted) = under("", &["file"]) else { return };
    let (mut one, mut two) = (Reader::new("one"), Reader::new("two"));
    let path = mounted.seen("file");
    let both = |one: &mut Reader, two: &mut Reader| {
        misses(&mounted, || {
            for page in (0..3).flat_map(|_| 0..30) {
                [&mut *one, &mut *two][page as usize % 2].read(&path, page);
            }
        })
    };
    both(&mut one, &mut two);
    assert_eq!(both(&mut one, &mut two), ALL, "LRU");
    set(&path, MANAGER, "mru").expect("it can be set");
    assert!(both(&mut one, &mut two) < ALL, "mru for both");
    set(&path, MANAGER, "none").expect("it can be set");
    both(&mut one, &mut two);
    assert_eq!(both(&mut one, &mut two), ALL, "nobody manages");
    set(&path, MANAGER, "lru-k:k=3").expect("it can be set");
    rustix::fs::removexattr(&path, MANAGER).expect("it can be removed");
    assert_eq!(mounted.mounts.managers(), []);
    drop((one, two));
    mounted.stop();
}

#[test]
fn an_attribute_outlasts_the_mount_and_is_inherited_from_directories() {
    let files = ["a/b/file", "a/b/own", "a/c/file", "file"];
    let Some(mounted) = under("", &files) else { return };
    set(&mounted.seen("a"), MANAGER, "mru").expect("it can be set");
    set(&mounted.seen("a/c"), MANAGER, "none").expect("it can be set");
    set(&mounted.seen("a/b/own"), HINT, "noreuse").expect("it can be set");
    // A rule holds where no attribute does.
    let text = "[[manager]]\nname = \"same-order\"\nfiles = [\"file\"]\n[[manager]]\nname = \"lru\"\n";
    let Some(mounted) = over(mounted.stop(), text) else { return };
    let mut reader = Reader::new("scan");
    for (file, managed) in [(files[0], true), (files[1], true), (files[2], false), (files[3], true)] {
        looped(&mounted, &mut reader, &mounted.seen(file));
        assert_eq!(looped(&mounted, &mut reader, &mounted.seen(file)) < ALL, managed, "{file}");
        reader.close(&mounted.seen(file));
        mounted.mount.drop_clean();
    }
    let attributes = mounted.mounts.managers().into_iter().filter(|one| one.by == "attribute");
    let attributes: Vec<_> = attributes.map(|one| (one.file.expect("it is of a file"), one.manager)).collect();
    let expected = [(files[0], "mru"), (files[1], "access-once"), (files[2], "none")];
    assert!(attributes.iter().map(|(file, manager)| (&**file, &**manager)).eq(expected), "{attributes:?}");
    // Of a directory, it holds at once, too.
    set(&mounted.seen("a/c"), MANAGER, "mru").expect("it can be set");
    assert!(looped(&mounted, &mut reader, &mounted.seen(files[2])) < ALL);
    drop(reader);
    mounted.stop();
}

#[test]
fn a_wrong_attribute_is_refused_and_other_users_cannot_set_one() {
    let Some(mounted) = under("", &["file"]) else { return };
    let path = mounted.seen("file");
    for (name, value) in [(MANAGER, "mruu"), (MANAGER, "rmin"), (MANAGER, "weights:weights=*=2"), (HINT, "often")] {
        assert_eq!(set(&path, name, value), Err(rustix::io::Errno::INVAL), "{value}");
    }
    assert_eq!(rustix::fs::getxattr(&path, MANAGER, &mut [0; 9][..]), Err(rustix::io::Errno::NODATA));
    let as_other = |mode: u32| {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        let path = path.clone();
        std::thread::spawn(move || {
            // SAFETY: it changes by which user the file system judges this thread, which ends soon.
            unsafe { libc::setfsuid(1234) };
            set(&path, MANAGER, "mru")
        })
        .join()
        .expect("no panic")
    };
    assert_eq!(as_other(0o644), Err(rustix::io::Errno::ACCESS));
    assert_eq!(as_other(0o666), Ok(()));
    mounted.stop();
}

#[test]
fn hints_of_attributes_hold_for_who_opens_the_file() {
    let Some(mounted) = under("", &["early", "late"]) else { return };
    let resident = || mounted.pool.statistics().resident;
    set(&mounted.seen("late"), HINT, "dontneed").expect("it can be set");
    let mut reader = Reader::new("scan");
    (0..8).for_each(|page| reader.read(&mounted.seen("late"), page));
    assert_eq!(resident(), 8);
    reader.close(&mounted.seen("late"));
    wait_until("its pages leave when it is closed", || resident() == 0);
    set(&mounted.seen("early"), HINT, "willneed").expect("it can be set");
    let file = File::open(mounted.seen("early")).expect("it opens");
    wait_until("the file is read when it is opened", || resident() >= 20);
    drop(file);
    drop(reader);
    mounted.stop();
}

#[test]
fn an_own_word_goes_before_attributes_and_ends_with_the_open_file() {
    let Some(mounted) = under("", &["file"]) else { return };
    let path = mounted.seen("file");
    set(&path, MANAGER, "none").expect("it can be set");
    let mut reader = Reader::new("scan");
    assert_eq!(reader.manage(&path, "mru", 0), 0);
    assert!(looped(&mounted, &mut reader, &path) < ALL, "mru");
    let own: Vec<_> = mounted.mounts.managers().into_iter().filter(|one| one.by == "own word").collect();
    assert_eq!((own.len(), own[0].manager.as_str()), (1, "mru"));
    assert_eq!(own[0].owner, Some(format!("scan {}", reader.process())));
    assert_eq!(reader.manage(&path, "", 0), 0);
    looped(&mounted, &mut reader, &path);
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "it has abdicated");
    assert_eq!(reader.hint(&path, POSIX_FADV_NOREUSE as u32), 0);
    assert!(looped(&mounted, &mut reader, &path) < ALL, "access-once");
    assert_eq!(reader.hint(&path, POSIX_FADV_NORMAL as u32), 0);
    looped(&mounted, &mut reader, &path);
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "the hint is taken back");
    assert_eq!(reader.manage(&path, "mru", 0), 0);
    reader.close(&path);
    wait_until("the word ends", || mounted.mounts.managers().iter().all(|one| one.by != "own word"));
    looped(&mounted, &mut reader, &path);
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "the word has ended");
    drop(reader);
    mounted.stop();
}

#[test]
fn children_have_the_manager_that_their_parent_has_named() {
    let Some(mounted) = under("", &["file"]) else { return };
    let path = mounted.seen("file");
    let mut parent = Reader::new("parent");
    let own = File::open(&path).expect("it opens");
    let mut structure = [0u8; 128];
    structure[..3].copy_from_slice(b"mru");
    // SAFETY: the kernel reads 128 bytes, as the request's number says.
    let answer = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&own), 0x4080_fb02, structure.as_ptr()) };
    assert_eq!(answer, 0);
    assert!(looped(&mounted, &mut parent, &path) < ALL, "a child of this process");
    drop((parent, own));
    mounted.stop();
}

#[test]
fn a_process_lets_another_manage_for_it() {
    let Some(mounted) = under("", &["file"]) else { return };
    let path = mounted.seen("file");
    let (mut one, mut two) = (Reader::new("one"), Reader::new("two"));
    assert_eq!(two.manage(&path, "mru", 0), 0);
    assert_eq!(one.manage(&path, "", two.process().into()), 0);
    assert!(looped(&mounted, &mut one, &path) < ALL, "as the other's, under its manager");
    mounted.mount.drop_clean();
    assert_eq!(one.manage(&path, "", 0), 0, "it abdicates");
    looped(&mounted, &mut one, &path);
    assert_eq!(looped(&mounted, &mut one, &path), ALL, "its own uses again");
    drop((one, two));
    mounted.stop();
}

#[test]
fn what_a_process_cannot_say_is_refused() {
    let Some(mounted) = under("", &["file"]) else { return };
    let path = mounted.seen("file");
    std::fs::set_permissions(mounted.seen("").parent().expect("a folder"), Permissions::from_mode(0o755))
        .expect("a mode");
    let (mut own, mut stranger) = (Reader::new("own"), Reader::of_user("stranger", 1234));
    assert_eq!(own.manage(&path, "mruu", 0), EINVAL);
    assert_eq!(own.manage(&path, "foolish", 0), EINVAL);
    assert_eq!(own.manage(&path, "mru", 1 << 40), ESRCH);
    assert_eq!(own.manage(&path, "", stranger.process().into()), 0, "root may");
    assert_eq!(stranger.manage(&path, "mru", own.process().into()), EPERM);
    assert_eq!(stranger.manage(&path, "mru", 0), 0);
    drop((own, stranger));
    mounted.stop();
    let Some(mounted) = Mounted::start(|_, _| {}) else { return };
    std::fs::write(mounted.below("file"), "").expect("a file below");
    let mut own = Reader::new("own");
    assert_eq!(own.manage(&mounted.seen("file"), "mru", 0), EOPNOTSUPP, "lru has no managers");
    assert_eq!(own.manage(&mounted.below("file"), "mru", 0), ENOTTY, "another file system");
    assert_eq!(own.hint(&mounted.seen("file"), POSIX_FADV_NOREUSE as u32), 0, "a hint is only a hint");
    drop(own);
    mounted.stop();
}

#[test]
fn other_rules_change_nothing_of_what_processes_say() {
    let Some(mounted) = under("[[manager]]\nname = \"lru\"\n", &["file"]) else { return };
    let path = mounted.seen("file");
    let mut reader = Reader::new("scan");
    assert_eq!(reader.manage(&path, "mru", 0), 0);
    assert!(looped(&mounted, &mut reader, &path) < ALL);
    mounted.mounts.set_rules(rules("default = \"lru-k\""));
    assert!(looped(&mounted, &mut reader, &path) < ALL, "own words go before rules");
    assert!(mounted.mounts.managers().iter().any(|one| one.by == "own word"));
    drop(reader);
    mounted.stop();
}

#[test]
fn the_example_in_c_names_its_manager() {
    let Some(mounted) = under("", &["file"]) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = mounted.below("scan");
    let compiled = Command::new("gcc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .args([&root.join("include"), Path::new("-o"), &program, &root.join("contrib/examples/scan.c")])
        .output()
        .expect("gcc runs: Rust needs it to link");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let path = mounted.seen("file");
    let scan = |path: &Path, manager: &str| {
        let done = Command::new(&program).arg(path).args(["3", manager]).output().expect("the example runs");
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let scanned = |manager: &str| {
        mounted.mount.drop_clean();
        misses(&mounted, || assert_eq!(scan(&path, manager), (Some(0), format!("{} bytes\n", 3 * 64 * 4096))))
    };
    assert_eq!(scanned("lru"), 3 * 64);
    assert!(scanned("mru") < 3 * 64);
    assert_eq!(scan(&mounted.below("file"), "mru").0, Some(0), "on another file system nobody manages");
    let (code, said) = scan(&path, "mruu");
    assert!(code == Some(1) && said.contains("manager mruu: Invalid argument"), "{said}");
    mounted.stop();
}

#[test]
fn a_command_hints_at_a_whole_file() {
    use forebay_fuse::Advice::{DoNotNeed, NoReuse, Normal, WillNeed};
    let Some(mounted) = under("", &["a/file"]) else { return };
    std::fs::write(mounted.below("a/small"), vec![7; 8 * 4096]).expect("a file below");
    let (path, resident) = (Path::new("a/small"), || mounted.pool.statistics().resident);
    let hint = |path: &Path, advice| mounted.mount.hint(path, advice);
    hint(path, WillNeed).expect("a hint");
    wait_until("it is read ahead", || resident() == 8);
    // A page that is still being read is in use, and stays.
    wait_until("it leaves", || {
        hint(path, DoNotNeed).expect("a hint");
        resident() == 0
    });
    let attribute = || {
        let mut value = [0; 16];
        rustix::fs::getxattr(mounted.below("a/small"), HINT, &mut value[..]).map(|length| value[..length].to_vec())
    };
    hint(path, NoReuse).expect("a hint");
    assert_eq!(attribute().expect("it is set"), b"noreuse");
    hint(path, Normal).expect("a hint");
    assert_eq!(attribute(), Err(rustix::io::Errno::NODATA));
    hint(path, Normal).expect("there is nothing to take back");
    let failed = |path: &str, advice| hint(Path::new(path), advice).expect_err("it is no file").raw_os_error();
    assert_eq!(failed("a", WillNeed), Some(libc::EISDIR));
    assert_eq!(failed("b", WillNeed), Some(libc::ENOENT));
    assert_eq!(failed("../seen", NoReuse), Some(libc::EXDEV), "it is not below the source");
    mounted.stop();
}

#[test]
fn a_command_changes_no_attribute_of_a_mount_that_is_read_only() {
    use forebay_fuse::Advice::{NoReuse, WillNeed};
    let Some(mounted) = Mounted::start(|options, _| options.read_only = true) else { return };
    std::fs::write(mounted.below("file"), [7; 4096]).expect("a file below");
    let refused = mounted.mount.hint(Path::new("file"), NoReuse).expect_err("nothing may be changed");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    mounted.mount.hint(Path::new("file"), WillNeed).expect("that changes nothing");
    mounted.stop();
}
