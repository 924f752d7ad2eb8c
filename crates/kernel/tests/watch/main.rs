//! The programs in the real kernel, on real files. Needs root.

mod files;
mod verdicts;

use forebay_kernel::watch::{Event, Kind, Watch, WatchOptions, kernel_device};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether BPF programs may be loaded. Says why not, and that a test is skipped.
pub(crate) fn can_watch() -> bool {
    if std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t")) {
        return true;
    }
    skipped("watching the page cache needs root")
}

/// Whether a program is attached that a watch can do without. Says why not, and that a test is skipped: also in CI, whose kernel may let no program be attached
/// to its functions.
pub(crate) fn has(watch: &Watch, name: &str) -> bool {
    let state = watch.programs().iter().find(|state| state.name == name);
    let why = match state.map(|state| state.missing.as_deref()) {
        Some(None) => return true,
        Some(Some(why)) => why.to_owned(),
        None => format!("{name} is not used on this kernel"),
    };
    say_skipped(&why);
    false
}

pub(crate) fn skipped(why: &str) -> bool {
    assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
    say_skipped(why);
    false
}

/// Straight to the stream: what eprintln prints in a test that passes is not shown.
fn say_skipped(why: &str) {
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).expect("standard error can be written to");
}

/// A watch of the file system that `path` is on.
pub(crate) fn watch(path: &Path) -> Watch {
    start(&WatchOptions { devices: vec![device(path)], ..WatchOptions::default() })
}

pub(crate) fn start(options: &WatchOptions) -> Watch {
    Watch::start(options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn device(path: &Path) -> u32 {
    kernel_device(std::fs::metadata(path).unwrap().dev())
}

/// The events of the file at `path` that are in the ring.
pub(crate) fn events(watch: &mut Watch, path: &Path) -> Vec<Event> {
    let inode = std::fs::metadata(path).unwrap().ino();
    let mut events = Vec::new();
    watch.drain(usize::MAX, &mut |event| {
        if event.file.inode == inode {
            events.push(*event);
        }
    });
    events
}

/// Each event's kind, first page and number of pages.
pub(crate) fn ranges(events: &[Event]) -> Vec<(Kind, u64, u32)> {
    events.iter().map(|event| (event.kind, event.first, event.count)).collect()
}
