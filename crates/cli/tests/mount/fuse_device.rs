//! `/dev/fuse` as a test needs it, and what is said where a user may not open it.

use crate::{Folder, text};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `nobody`: a user without rights, whose name `fusermount3` asks for.
pub(crate) const USER: u32 = 65534;

/// The kernel's number of the device.
const FUSE: (u32, u32) = (10, 229);

/// Gives this test's thread and the programs that it starts a `/dev/fuse` of their own with this mode, in a mount namespace of their own:
/// the machine's device stays as it is, and nothing is left when the test ends, however it ends.
pub(crate) fn with_mode(mode: u32) {
    let said = format!("this test has a /dev/fuse of its own, with mode {mode:04o}, in a mount namespace of its own\n");
    std::io::stderr().write_all(said.as_bytes()).expect("standard error can be written to");
    own_mounts();
    let folder = tempfile::tempdir().expect("a folder");
    let device = folder.path().join("fuse");
    mount("none", folder.path(), "tmpfs", MountFlags::empty(), None).expect("root mounts");
    mknodat(CWD, &device, FileType::CharacterDevice, Mode::from_raw_mode(mode), makedev(FUSE.0, FUSE.1))
        .expect("root makes devices");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(&device, mode).expect("whatever the umask is");
    mount_bind(&device, "/dev/fuse").expect("root mounts");
    unmount(folder.path(), UnmountFlags::DETACH).expect("it stays where it is bound");
}

/// Gives this test's thread and the programs that it starts a mount namespace of their own: what they mount goes with them.
pub(crate) fn own_mounts() {
    // SAFETY: no descriptor is shared or closed by this; the thread is this test's alone, and so is its current folder from here on.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }.expect("root may");
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("root may");
    // Copies of other tests' mounts would keep those from ending.
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").expect("mounts");
    for mount in mounts.lines().rev() {
        let (before, file_system) = mount.split_once(" - ").expect("a type of file system");
        if file_system.starts_with("fuse") || file_system.contains(" /dev/loop") {
            let at = before.split(' ').nth(4).expect("a mount point");
            // Whoever made it may be faster.
            let _ = unmount(at, UnmountFlags::DETACH);
        }
    }
}

/// What `forebay mount` says to a user.
fn refused(folder: &Folder) -> String {
    let program = folder.program();
    let arguments = ["mount", &folder.text("source"), &folder.text("seen"), "--foreground"];
    let refused = Command::new(program).args(arguments).uid(USER).gid(USER).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    text(&refused.stderr)
}

#[test]
fn a_user_who_may_not_open_the_device_learns_what_root_is_to_do() {
    let Some(folder) = Folder::new() else { return };
    folder.belongs_to(USER);
    for (mode, why) in [(0o600, "only root may open it"), (0o660, "its mode is 0660, which does not let this user")] {
        with_mode(mode);
        let said = refused(&folder);
        assert!(said.starts_with("forebay: /dev/fuse cannot be opened: ") && said.contains(why), "{said}");
        assert!(said.contains("chmod 0666 /dev/fuse") && said.contains("KERNEL==\"fuse\", MODE=\"0666\""), "{said}");
    }
}

#[test]
fn a_device_that_is_missing_or_has_no_driver_needs_the_module() {
    let Some(folder) = Folder::new() else { return };
    own_mounts();
    mount("none", "/dev", "tmpfs", MountFlags::empty(), None).expect("root mounts");
    let said = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["mount", &folder.text("source"), &folder.text("seen"), "--foreground"]);
        // There is no /dev/null here.
        let refused = command.stdin(Stdio::piped()).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(1));
        text(&refused.stderr)
    };
    let missing = said();
    assert!(missing.contains("/dev/fuse cannot be opened: the kernel's module is not loaded"), "{missing}");
    assert!(missing.contains("`modprobe fuse`"), "{missing}");
    let none = makedev(FUSE.0, 254);
    mknodat(CWD, Path::new("/dev/fuse"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), none)
        .expect("a device");
    assert_eq!(said(), missing);
}
