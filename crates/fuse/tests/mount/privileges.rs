//! Set-user-id, set-group-id and capabilities go when a file is changed, as on the file system below, and at once.

use crate::mounted::{Mounted, can_mount};
use forebay_fuse::Options;
use forebay_pool::WriteMode;
use std::path::Path;
use std::process::Command;

/// What the script prints of a folder.
#[track_caller]
fn script(folder: &Path) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/privileges.py");
    let done = Command::new("python3").arg(script).arg(folder).output().expect("python3 runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

#[track_caller]
fn check(change: impl FnOnce(&mut Options)) {
    if !can_mount() {
        return;
    }
    let plain = tempfile::tempdir().expect("a folder");
    open_to_all(plain.path());
    let expected = script(plain.path());
    let Some(mounted) = Mounted::start(|options, _| change(options)) else { return };
    open_to_all(mounted.seen("").parent().expect("it is in a folder"));
    open_to_all(&mounted.seen(""));
    let seen = script(&mounted.seen(""));
    // The writeback of what was written to a map is a write below, which takes capabilities away.
    let mapped = |line: &str| line.contains("write by mmap") && line.contains("capable");
    let bare = |line: &str| if mapped(line) { line.replace("capable", "bare") } else { line.to_owned() };
    let differ =
        |(seen, expected): (&str, &str)| (seen != bare(expected)).then(|| format!("{seen}\n    for {expected}\n"));
    let different: Vec<String> = seen.lines().zip(expected.lines()).filter_map(differ).collect();
    assert!(different.is_empty(), "{} lines differ:\n{}", different.len(), different.concat());
    assert_eq!(seen.lines().count(), expected.lines().count());
    mounted.stop();
}

fn open_to_all(folder: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o777);
    rustix::fs::chmod(folder, mode).expect("it is ours");
}

#[test]
fn privileges_go_as_below_under_write_back() {
    check(|_| {});
}

#[test]
fn privileges_go_as_below_under_write_through() {
    check(|options| options.mode = WriteMode::Through);
}

#[test]
fn privileges_go_as_below_through_the_page_cache_of_the_files() {
    check(|options| options.direct = false);
}
