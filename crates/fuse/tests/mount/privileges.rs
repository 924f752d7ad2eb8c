//! Set-user-id, set-group-id and capabilities go when a file is changed, as on the file system below, and at once.

use crate::mounted::{Mounted, PATIENCE, can_mount, pattern};
use forebay_fuse::Options;
use forebay_pool::WriteMode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

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

#[test]
fn capabilities_that_a_file_gets_before_it_is_closed_stay() {
    let Some(mounted) = Mounted::start(|_, config| config.dirty_age = Duration::from_secs(3600)) else { return };
    let [name, capable] = ["security.capability", "capable"];
    let file = File::create(mounted.seen(capable)).expect("a file");
    file.write_all_at(&pattern(1, 10_000), 0).expect("the cache has room");
    // CAP_NET_RAW, permitted and effective, in the second form.
    let value: Vec<u8> = [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::fs::fsetxattr(&file, name, &value, rustix::fs::XattrFlags::empty()).expect("root may");
    drop(file);
    mounted.mount.flush(PATIENCE).expect("all is written");
    for path in [mounted.seen(capable), mounted.below(capable)] {
        let mut found = [0; 32];
        let length = rustix::fs::getxattr(&path, name, &mut found[..]).expect("it is there");
        assert_eq!(found[..length], value, "{}", path.display());
    }
    mounted.stop();
}
