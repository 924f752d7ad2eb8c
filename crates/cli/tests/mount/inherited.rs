//! Limits, signals and a mask that a mount inherits.

use crate::Folder;
use crate::fuse_device::{USER, with_mode};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn who_writes_behind_the_longest_file_gets_an_error_and_the_mount_goes_on() {
    for mode in ["write-back", "write-through"] {
        let Some(folder) = Folder::new() else { return };
        let mut limited = Command::new("env");
        limited.args(["--default-signal=XFSZ", "prlimit", "--fsize=1048576", env!("CARGO_BIN_EXE_forebay")]);
        let running = folder.mount_by(&mut limited, &["--mode", mode, "--dirty-age", "1h"]);
        fs::write(folder.path("seen/short"), [7; 100_000]).expect("a file");
        let mut long = fs::File::create(folder.path("seen/long")).expect("a file");
        long.write_all(&[8; 1 << 20]).expect("up to the limit");
        let refused = long.write_all(&[9]).expect_err("behind it");
        assert_eq!(refused.raw_os_error(), Some(27), "{mode}: file too large");
        let longer = long.set_len(2 << 20).expect_err("behind it, too");
        assert_eq!(longer.raw_os_error(), Some(27), "{mode}");
        long.sync_all().expect("what was taken is written");
        drop(long);
        running.signal("TERM");
        assert_eq!(running.end(), Some(0), "{mode}");
        assert!(fs::read(folder.path("source/short")).expect("a read below") == [7; 100_000]);
        assert!(fs::read(folder.path("source/long")).expect("a read below") == [8; 1 << 20]);
    }
}

#[test]
fn a_user_s_mount_learns_of_its_helper_s_end_though_ends_were_ignored() {
    let Some(folder) = Folder::new() else { return };
    folder.belongs_to(USER);
    with_mode(0o666);
    let program = folder.program();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD", "--block-signal"]).arg(program).uid(USER).gid(USER);
    let running = folder.mount_by(&mut command, &[]);
    fs::write(folder.path("seen/file"), "bytes").expect_err("root has no business there");
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    assert!(!folder.is_mounted());
}

#[test]
fn the_mask_of_the_mount_is_not_that_of_its_users() {
    for mask in ["0", "077", "0777"] {
        let Some(folder) = Folder::new() else { return };
        let log = folder.text("log");
        let mut shell = Command::new("sh");
        let script = format!("umask {mask}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_forebay")]);
        shell.args(["mount", &folder.text("source"), &folder.text("seen"), "--log-file", &log]);
        assert!(shell.status().expect("it runs").success());
        let made = "umask 027; cd \"$0\"; echo >file; mkdir folder; mkfifo fifo";
        assert!(Command::new("sh").args(["-c", made, &folder.text("seen")]).status().expect("it runs").success());
        let mode = |name: &str| fs::metadata(folder.path(name)).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(["source/file", "source/folder", "source/fifo"].map(mode), [0o640, 0o750, 0o640], "{mask}");
        assert_eq!(mode("log"), if mask == "0" { 0o664 } else { 0o600 }, "{mask}");
        assert!(folder.unmount());
        crate::wait_until("it has ended", || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("everything is flushed"))
        });
    }
}
