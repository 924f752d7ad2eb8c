//! What a mount that is root's alone allows and refuses, beside the file system below. The kernel does not check it there.

use crate::mounted::Mounted;
use forebay_fuse::Options;
use rustix::fs::{AtFlags, CWD, FileType, Mode, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

fn private(options: &mut Options) {
    options.allow_other = false;
}

/// What the script prints of a folder: it has made it before it was mounted, if it is.
#[track_caller]
fn script(words: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/permissions.pl");
    let done = Command::new("perl").arg(script).args(words).output().expect("perl runs: every Debian has it");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// The options of that mount, as the kernel says them.
fn mount_options(mounted: &Mounted) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("it can be read");
    let at = format!(" {} ", mounted.seen("").display().to_string().trim_end_matches('/'));
    mounts.lines().find(|line| line.contains(&at)).expect("it is mounted").to_owned()
}

#[test]
fn the_kernel_checks_permissions_unless_root_alone_gets_in() {
    for allow_other in [false, true] {
        let Some(mounted) = Mounted::start(|options, _| options.allow_other = allow_other) else { return };
        assert!(mounted.seen("").is_dir());
        assert_eq!(mount_options(&mounted).contains("default_permissions"), allow_other);
        mounted.stop();
    }
}

#[test]
fn root_is_allowed_and_refused_what_it_is_below() {
    let folder = tempfile::tempdir().expect("a folder");
    let [plain, source] = ["plain", "source"].map(|name| folder.path().join(name).display().to_string());
    [&plain, &source].iter().for_each(|name| fs::create_dir(name).expect("a folder"));
    if !crate::mounted::can_mount() {
        return;
    }
    [&plain, &source].iter().for_each(|name| drop(script(&["make", name, "0"])));
    let Some(mounted) = Mounted::over(folder, |options, _| private(options)) else { return };
    let expected = script(&["use", &plain]);
    let found = script(&["use", &mounted.seen("").display().to_string()]);
    let different: Vec<_> = expected.lines().zip(found.lines()).filter(|(expected, found)| expected != found).collect();
    assert!(different.is_empty() && expected == found, "below, and seen: {different:#?}");
    assert!(expected.contains("access own-0444 1: 13") && expected.contains("again 0: 0"), "{expected}");
    mounted.stop();
}

/// Opens, asks, cuts and changes: what each says.
fn changes(path: &Path) -> [Result<(), Option<i32>>; 7] {
    let code = |done: std::io::Result<()>| done.map_err(|error| error.raw_os_error());
    let open = |options: &mut fs::OpenOptions| code(options.open(path).map(drop));
    let below = |done: Result<(), Errno>| done.map_err(|error| Some(error.raw_os_error()));
    [
        open(File::options().read(true)),
        open(File::options().write(true)),
        code(cut(path)),
        below(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)),
        code(std::os::unix::fs::chown(path, Some(1), None)),
        code(fs::set_permissions(path, Permissions::from_mode(0o600))),
        below(rustix::fs::setxattr(path, "user.a", b"value", XattrFlags::empty())),
    ]
}

/// Makes a file empty, by its path.
fn cut(path: &Path) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: the path is a string that ends.
    if unsafe { libc::truncate(path.as_ptr(), 0) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Changes an attribute of a file: `+i` makes it immutable. `false` where its file system knows no such thing.
fn fix(path: &Path, attribute: &str) -> bool {
    let done = Command::new("chattr").arg(attribute).arg(path).output();
    done.is_ok_and(|done| done.status.success())
}

#[test]
fn a_file_that_nobody_may_change_below_is_not_changed_by_a_descriptor_from_before() {
    for allow_other in [false, true] {
        // Elsewhere than in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let Some(mounted) = Mounted::over(folder, |options, _| options.allow_other = allow_other) else { return };
        fs::write(mounted.seen("file"), b"bytes").expect("a file");
        let held = File::options().read(true).write(true).open(mounted.seen("file")).expect("it opens");
        if fix(&mounted.below("file"), "+i") {
            let [seen, below] = [mounted.seen("file"), mounted.below("file")].map(|path| changes(&path));
            // It has to go, whatever comes of this.
            assert!(fix(&mounted.below("file"), "-i"));
            if allow_other {
                // The kernel answers `access` by what it knows.
                assert_eq!((&seen[..3], &seen[4..]), (&below[..3], &below[4..]));
            } else {
                assert_eq!(seen, below);
            }
            assert_eq!(seen[1..3], [Err(Some(libc::EPERM)); 2]);
        }
        drop(held);
        mounted.stop();
    }
}

#[test]
fn a_file_that_is_only_appended_to_below_is_not_opened_for_other_writes_by_a_descriptor_from_before() {
    for allow_other in [false, true] {
        // Elsewhere than in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let Some(mounted) = Mounted::over(folder, |options, _| options.allow_other = allow_other) else { return };
        fs::write(mounted.seen("file"), b"bytes").expect("a file");
        let held = File::options().read(true).write(true).open(mounted.seen("file")).expect("it opens");
        if fix(&mounted.below("file"), "+a") {
            let [seen, below] = [mounted.seen("file"), mounted.below("file")].map(|path| {
                let code = |done: std::io::Result<()>| done.map_err(|error| error.raw_os_error());
                let open = |options: &mut fs::OpenOptions| code(options.open(&path).map(drop));
                [
                    open(File::options().read(true)),
                    open(File::options().append(true)),
                    open(File::options().write(true)),
                    open(File::options().read(true).write(true)),
                    open(File::options().write(true).truncate(true)),
                    code(cut(&path)),
                ]
            });
            let shorter = held.set_len(1).map_err(|error| error.raw_os_error());
            // It has to go, whatever comes of this.
            assert!(fix(&mounted.below("file"), "-a"));
            assert_eq!(seen, below);
            assert_eq!((seen[1], seen[2], shorter), (Ok(()), Err(Some(libc::EPERM)), Err(Some(libc::EPERM))));
            assert_eq!(fs::read(mounted.seen("file")).expect("a read"), b"bytes");
        }
        drop(held);
        mounted.stop();
    }
}

#[test]
fn access_lists_are_inherited_without_the_kernel() {
    let Some(mounted) = Mounted::start(|options, _| private(options)) else { return };
    // Version 2: owner rwx, user 65534 r-x, group ---, mask r-x, others ---.
    let list = [(1u16, 7u16, u32::MAX), (2, 5, 65534), (4, 0, u32::MAX), (16, 5, u32::MAX), (32, 0, u32::MAX)]
        .into_iter()
        .flat_map(|(tag, rights, who)| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat());
    let list: Vec<u8> = 2u32.to_le_bytes().into_iter().chain(list).collect();
    let read = |path: &Path, name: &str| {
        let mut value = vec![0; 256];
        let length = rustix::fs::getxattr(path, name, &mut value[..]);
        length.map(|length| value[..length].to_owned())
    };
    let (own, inherited) = ("system.posix_acl_access", "system.posix_acl_default");
    let seen = [mounted.below("plain"), mounted.seen("folder")].map(|folder| {
        fs::create_dir(&folder).expect("a folder");
        rustix::fs::setxattr(&folder, inherited, &list, XattrFlags::empty()).expect("a default list");
        fs::create_dir(folder.join("inner")).expect("a folder");
        File::create(folder.join("inner/file")).expect("a file");
        rustix::fs::mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a fifo");
        let of = |name: &str| {
            let path = folder.join(name);
            let mode = fs::metadata(&path).expect("attributes").mode();
            (mode, read(&path, own), read(&path, inherited))
        };
        // The mode is its mask's at once, whatever the kernel knew of it.
        rustix::fs::setxattr(folder.join("inner/file"), own, &list, XattrFlags::empty()).expect("a list");
        [of("inner"), of("fifo"), of("inner/file")]
    });
    assert_eq!(seen[0], seen[1]);
    assert_eq!((seen[1][2].0 & 0o777, seen[1][0].2.as_ref()), (0o750, Ok(&list)));
    mounted.stop();
}

#[test]
fn a_program_that_may_not_run_any_more_by_its_list_does_not() {
    let Some(mounted) = Mounted::start(|options, _| private(options)) else { return };
    let path = mounted.seen("program");
    fs::write(&path, b"#!/bin/true\n").expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("a mode");
    assert!(Command::new(&path).status().expect("it runs").success());
    // Below: the kernel believes the mode of before for a while.
    fs::set_permissions(mounted.below("program"), Permissions::from_mode(0o644)).expect("a mode");
    let refused = Command::new(&path).status().expect_err("nobody may run it");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    mounted.stop();
}

#[test]
fn who_acts_in_another_s_name_is_refused_and_keeps_what_is_open() {
    let Some(mounted) = Mounted::start(|options, _| private(options)) else { return };
    let path = mounted.seen("file");
    fs::write(&path, b"bytes").expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("a mode");
    let held = File::options().read(true).write(true).open(&path).expect("it opens");
    let folder = mounted.seen("");
    let refused = std::thread::spawn(move || {
        // SAFETY: it changes by which user the file system judges this thread, which ends soon.
        unsafe { libc::setfsuid(1234) };
        let mut read = [0; 5];
        held.read_exact_at(&mut read, 0).expect("what is open stays so");
        held.write_all_at(b"more", 0).and_then(|()| held.sync_all()).expect("for writes, too");
        let code = |done: std::io::Result<()>| done.expect_err("another's name").raw_os_error();
        let at = |name: &str| folder.join(name);
        [
            code(File::open(&path).map(drop)),
            code(File::create(at("new")).map(drop)),
            code(fs::read_dir(&folder).map(drop)),
            code(fs::create_dir(at("new"))),
            code(fs::remove_file(&path)),
            code(fs::rename(&path, at("other"))),
            code(fs::hard_link(&path, at("other"))),
            code(std::os::unix::fs::symlink("file", at("link"))),
            code(cut(&path)),
            code(rustix::fs::accessat(CWD, &path, rustix::fs::Access::READ_OK, AtFlags::EACCESS).map_err(Into::into)),
            code(rustix::fs::setxattr(&path, "user.a", b"", XattrFlags::empty()).map_err(Into::into)),
            code(rustix::fs::getxattr(&path, "user.a", &mut [0; 9][..]).map(drop).map_err(Into::into)),
        ]
    })
    .join()
    .expect("no panic");
    assert_eq!(refused, [Some(libc::EACCES); 12]);
    assert_eq!(fs::read(mounted.seen("file")).expect("root reads"), b"mores");
    mounted.stop();
}

#[test]
fn a_mount_that_only_reads_changes_nothing_without_the_kernel_s_checks() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("source")).expect("a folder");
    fs::write(folder.path().join("source/file"), b"bytes").expect("a file");
    let read_only = |options: &mut Options| {
        private(options);
        options.read_only = true;
    };
    let Some(mounted) = Mounted::over(folder, |options, _| read_only(options)) else { return };
    let found = changes(&mounted.seen("file"));
    assert_eq!((found[0], &found[1..]), (Ok(()), &[Err(Some(libc::EROFS)); 6][..]));
    assert_eq!(rustix::fs::access(mounted.seen("file"), rustix::fs::Access::READ_OK), Ok(()));
    mounted.stop();
}
