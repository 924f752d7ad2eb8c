//! What a mount allows and refuses, beside the file system below: to root that let nobody else in, and to a user who mounts for himself.

use crate::fuse_device::{USER, with_mode};
use crate::{Folder, text};
use rustix::fs::XattrFlags;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of the error "permission denied".
const EACCES: i32 = 13;

/// What the script prints of a folder, as a user.
#[track_caller]
fn script(user: u32, words: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuse/tests/mount/permissions.pl");
    // Others may be unable to read it where it lies.
    let script = fs::read_to_string(script).expect("the script");
    let mut perl = Command::new("perl");
    let done = perl.args(["-e", &script]).args(words).uid(user).gid(user).output().expect("perl runs");
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// `refused`: what is allowed below alone.
#[track_caller]
fn same_as_below(user: u32, arguments: &[&str], checked: bool, refused: &[&str]) {
    let Some(folder) = Folder::new() else { return };
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).expect("a mode");
    fs::create_dir(folder.path("plain")).expect("a folder");
    ["plain", "source"].iter().for_each(|name| drop(script(0, &["make", &folder.text(name), &user.to_string()])));
    std::os::unix::fs::chown(folder.path("seen"), Some(user), Some(user)).expect("it is the user's");
    with_mode(0o666);
    let running = folder.mount_by(Command::new(folder.program()).uid(user).gid(user), arguments);
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").expect("it can be read");
    let at = format!(" {} ", folder.text("seen"));
    let mount = mounts.lines().find(|line| line.contains(&at)).expect("it is mounted");
    assert_eq!(mount.contains("default_permissions"), checked, "{mount}");
    let expected = script(user, &["use", &folder.text("plain")]);
    let found = script(user, &["use", &folder.text("seen")]);
    assert_eq!(expected.lines().count(), found.lines().count());
    let different: Vec<_> = expected.lines().zip(found.lines()).filter(|(expected, found)| expected != found).collect();
    let refused: Vec<_> = refused.iter().map(|what| (format!("{what}: 0"), format!("{what}: {EACCES}"))).collect();
    assert!(
        different.iter().copied().eq(refused.iter().map(|(below, seen)| (&**below, &**seen))),
        "below, and seen: {different:#?}"
    );
    folder.unmount();
    assert_eq!(running.end(), Some(0));
}

#[test]
fn root_that_lets_nobody_else_in_is_allowed_what_it_is_below() {
    same_as_below(0, &["--private"], false, &[]);
}

#[test]
fn a_user_is_allowed_what_he_is_below_and_the_kernel_checks_it() {
    // The cache must read what it writes parts of.
    same_as_below(USER, &[], true, &["open own-0200 w", "open own-0200 a"]);
}

#[test]
fn a_user_does_not_see_the_names_of_attributes_that_are_for_root() {
    let Some(folder) = Folder::new() else { return };
    fs::set_permissions(folder.path(""), Permissions::from_mode(0o755)).expect("a mode");
    fs::write(folder.path("source/file"), b"bytes").expect("a file");
    for name in ["trusted.a", "user.b"] {
        rustix::fs::setxattr(folder.path("source/file"), name, b"value", XattrFlags::CREATE).expect("an attribute");
    }
    let running = folder.mount(&[]);
    for (user, expected) in [(USER, "['user.b']\n"), (0, "['trusted.a', 'user.b']\n")] {
        let list = format!("import os; print(sorted(os.listxattr('{}')))", folder.text("seen/file"));
        let done = Command::new("/usr/bin/python3").args(["-c", &list]).uid(user).gid(user).output();
        assert_eq!(text(&done.expect("python runs").stdout), expected);
    }
    assert!(folder.unmount());
    assert_eq!(running.end(), Some(0));
}
