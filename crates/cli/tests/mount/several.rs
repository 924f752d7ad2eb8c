//! Several directories behind one cache.

use crate::fuse_device::{USER, with_mode};
use crate::running::{self, wait_until};
use crate::{Folder, Running, forebay, text};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 4096;

/// A folder with two sources and two places to mount them.
fn two() -> Option<Folder> {
    let folder = Folder::new()?;
    ["other", "other-seen"].iter().for_each(|name| fs::create_dir(folder.path(name)).expect("a folder"));
    Some(folder)
}

impl Folder {
    /// Mounts both.
    #[track_caller]
    fn mount_both(&self, arguments: &[&str]) -> Running<'_> {
        let also = ["--also", &self.text("other"), &self.text("other-seen")];
        let running = self.mount(&[&also[..], &["--control", &self.text("socket")], arguments].concat());
        assert!(self.is_mounted() && self.is_mounted_at("other-seen"));
        running
    }

    #[track_caller]
    fn control(&self, arguments: &[&str]) -> String {
        let done = forebay(&[&["control", "--socket", &self.text("socket")], arguments].concat());
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    fn figures(&self) -> serde_json::Value {
        serde_json::from_str(&self.control(&["--format", "json", "statistics"])).expect("JSON")
    }

    #[track_caller]
    fn stop(&self, running: Running<'_>) {
        running.signal("TERM");
        assert_eq!(running.end(), Some(0));
        assert!(!self.is_mounted() && !self.is_mounted_at("other-seen"));
    }
}

#[test]
fn a_recording_has_what_is_read_as_soon_as_a_directory_is_mounted() {
    let Some(folder) = two() else { return };
    fs::write(folder.path("source/file"), vec![7; PAGE]).expect("a file");
    let trace = folder.text("trace.csv");
    let (at_once, given_up) = (folder.path("seen/file"), AtomicBool::new(false));
    let running = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !given_up.load(Ordering::Relaxed) {
                // It is there as soon as it is mounted: the second directory is not mounted yet.
                if let Ok(file) = File::open(&at_once) {
                    return file.read_at(&mut [0; 100], 0).expect("a read");
                }
            }
            0
        });
        let mounted =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| folder.mount_both(&["--record", &trace])));
        given_up.store(mounted.is_err(), Ordering::Relaxed);
        assert_eq!(reader.join().expect("no panic"), 100);
        mounted.expect("it is mounted")
    });
    // Where nothing is mounted, there is no recording.
    let again =
        forebay(&["mount", &folder.text("source"), &folder.text("other-seen"), "--record", &folder.text("none.csv")]);
    assert!(!again.status.success());
    folder.stop(running);
    let recorded = fs::read_to_string(&trace).expect("a trace");
    let expected = format!(",{},0,100,read", folder.text("source/file"));
    assert!(recorded.contains(&expected), "{recorded}");
    let left = fs::read_dir(folder.path(".")).expect("a list").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("none")).count(), 0);
}

#[test]
fn two_directories_have_one_limit_and_each_its_figures_and_its_name_in_traces() {
    let Some(folder) = two() else { return };
    let [trace, source, other] = ["trace.csv", "source", "other"].map(|name| folder.text(name));
    let cache = ["--cache", "1MiB", "--policy", "lru", "--readahead", "0"];
    let mut running = folder.mount_both(&[&cache[..], &["--record", &trace, "--metrics", "127.0.0.1:0"]].concat());
    for name in ["seen/file", "other-seen/file"] {
        fs::write(folder.path(name), vec![7; 10 * PAGE]).expect("a file");
    }
    let dirty = |figures: &serde_json::Value| [0, 1].map(|row| figures["statistics"]["volumes"][row]["dirty"].clone());
    folder.control(&["flush", &other]);
    assert_eq!(fs::metadata(folder.path("other/file")).expect("attributes below").len(), 10 * PAGE as u64);
    assert_eq!(dirty(&folder.figures())[1], 0);
    folder.control(&["flush"]);
    assert_eq!(dirty(&folder.figures()), [0, 0]);
    let said = folder.control(&["drop", &folder.text("other-seen")]);
    assert!(said.contains("40 KiB of clean pages"), "the other's files alone: {said}");
    fs::write(folder.path("other/large"), vec![7; 512 * PAGE]).expect("a file below");
    assert!(fs::read(folder.path("other-seen/large")).is_ok());
    let said = folder.control(&["drop", &source]);
    assert!(said.contains("0 bytes of clean pages"), "what is read of one takes the frames of the other: {said}");
    folder.control(&["hint", &folder.text("other-seen/file"), "willneed"]);
    let figures = folder.figures();
    let caches = figures["statistics"]["caches"].as_array().expect("caches");
    assert_eq!((caches.len(), caches[0]["capacity"].as_u64()), (1, Some(1 << 20)));
    let top = forebay(&["top", &running.process.figures_at(), "--format", "csv"]);
    let rows: Vec<String> = text(&top.stdout).lines().skip(1).map(str::to_owned).collect();
    assert!(rows.len() == 2 && rows[0].contains(&source) && rows[1].contains(&other), "{rows:?}");
    folder.stop(running);
    let recorded = fs::read_to_string(&trace).expect("a trace");
    for file in ["source/file", "other/file", "other/large"] {
        assert!(recorded.contains(&folder.text(file)), "{file}:\n{recorded}");
    }
}

#[test]
fn rules_of_managers_see_which_directory_a_file_is_in() {
    let Some(folder) = two() else { return };
    let rules = format!("[[manager]]\nname = \"mru\"\nfiles = [\"{}/*\"]\n", folder.text("other"));
    fs::write(folder.path("managers.toml"), rules).expect("rules");
    for name in ["source/file", "other/file"] {
        fs::write(folder.path(name), vec![7; 40 * PAGE]).expect("a file below");
    }
    // 32 frames, for a loop over 40 pages.
    let managers = folder.text("managers.toml");
    let cache = ["--cache", "132KiB", "--policy", "lru-sp", "--readahead", "0"];
    let running = folder.mount_both(&[&cache[..], &["--managers", &managers]].concat());
    let hits = |name: &str, row: usize| {
        let file = File::open(folder.path(name)).expect("it opens");
        for page in (0..4).flat_map(|_| 0..40) {
            file.read_exact_at(&mut [0; PAGE], page * PAGE as u64).expect("a read");
        }
        folder.figures()["statistics"]["volumes"][row]["hits"].as_u64().expect("a number")
    };
    assert_eq!(hits("seen/file", 0), 0, "LRU has what a loop needs last");
    assert!(hits("other-seen/file", 1) > 40, "MRU keeps most of it");
    folder.control(&["manage", "--file", &format!("{}/*", folder.text("source")), "mru"]);
    assert!(hits("seen/file", 0) > 40);
    let said = folder.control(&["managers"]);
    assert!(said.contains(&folder.text("other")) && said.contains(&folder.text("source")), "{said}");
    folder.stop(running);
}

#[test]
fn one_is_unmounted_and_the_other_goes_on_until_it_is_unmounted_too() {
    let Some(folder) = two() else { return };
    let mut running = folder.mount_both(&["--dirty-age", "1h"]);
    let names = ["seen/file", "other-seen/file"];
    for name in names {
        // A new file is below when it is closed, and what is written to it later is not.
        fs::write(folder.path(name), b"new").expect("a file");
        let file = File::options().write(true).open(folder.path(name)).expect("it opens");
        file.write_all_at(&[7; 100_000], 0).expect("a write");
    }
    assert!(folder.unmount_at("other-seen"));
    running.wait_for("has been unmounted, and is flushed; still mounted: ");
    assert!(fs::read(folder.path("other/file")).expect("a read below") == [7; 100_000]);
    assert!(fs::read(folder.path("source/file")).map_or(0, |bytes| bytes.len()) < 100_000, "it is not flushed yet");
    let figures = folder.figures();
    let volumes = figures["statistics"]["volumes"].as_array().expect("volumes");
    assert!(volumes.len() == 1 && volumes[0]["name"] == *folder.text("source"), "{volumes:?}");
    let held = fs::read_dir(format!("/proc/{}/fd", running.process.child.id())).expect("descriptors").flatten();
    let held = held.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|path| path.starts_with(folder.path("other")));
    assert!(!held, "nothing of it is open any more");
    assert!(fs::read(folder.path("seen/file")).expect("a read") == [7; 100_000]);
    let again =
        forebay(&["mount", &folder.text("other"), &folder.text("other-seen"), "--log-file", &folder.text("log")]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(fs::read(folder.path("other-seen/file")).expect("a read") == [7; 100_000]);
    assert!(folder.unmount_at("other-seen") && folder.unmount());
    assert_eq!(running.end(), Some(0));
    assert!(fs::read(folder.path("source/file")).expect("a read below") == [7; 100_000]);
    wait_until("the second mount has ended", || {
        fs::read_to_string(folder.path("log")).is_ok_and(|log| log.contains("stopped: everything is flushed"))
    });
}

#[test]
fn sigterm_unmounts_all_though_files_are_open() {
    let Some(folder) = two() else { return };
    let running = folder.mount_both(&["--dirty-age", "1h"]);
    let write = |name: &&str| {
        let mut file = File::create(folder.path(name)).expect("a file");
        file.write_all(&[7; 100_000]).map(|()| file).expect("a write")
    };
    let _open: Vec<File> = ["seen/file", "other-seen/file"].iter().map(write).collect();
    folder.stop(running);
    for name in ["source/file", "other/file"] {
        assert!(fs::read(folder.path(name)).expect("a read below") == [7; 100_000], "{name}");
    }
}

#[test]
fn what_was_synced_survives_a_kill_and_all_are_mounted_again() {
    let Some(folder) = two() else { return };
    let running = folder.mount_both(&["--dirty-age", "1h"]);
    let names = ["seen/file", "other-seen/file"];
    for name in names {
        let mut file = File::create(folder.path(name)).expect("a file");
        file.write_all(&[7; 100_000]).and_then(|()| file.sync_all()).expect("a durable write");
    }
    running.signal("KILL");
    assert_eq!(running.end(), None);
    assert!(folder.unmount() && folder.unmount_at("other-seen"));
    let running = folder.mount_both(&[]);
    for name in names {
        assert!(fs::read(folder.path(name)).expect("a read") == [7; 100_000], "{name}");
    }
    folder.stop(running);
}

#[test]
fn one_that_cannot_be_mounted_keeps_the_others_from_it() {
    let Some(folder) = two() else { return };
    fs::create_dir_all(folder.path("source/inner")).expect("a folder");
    let [source, seen, other, other_seen] = ["source", "seen", "other", "other-seen"].map(|name| folder.text(name));
    let [inner, missing] = ["source/inner", "missing"].map(|name| folder.text(name));
    for (also, code, message) in [
        ([&source, &other_seen], 2, "of two mounts: choose directories of which none lies in another"),
        ([&inner, &other_seen], 2, "of two mounts: choose directories of which none lies in another"),
        ([&other, &seen], 2, "of two mounts: choose directories of which none lies in another"),
        ([&missing, &other_seen], 1, "missing: the source: No such file"),
        ([&other, &missing], 1, "missing: the mount point: No such file"),
    ] {
        let refused = forebay(&["mount", &source, &seen, "--also", also[0], also[1], "--foreground"]);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(code) && said.contains(message), "{also:?}: {said}");
        assert!(!folder.is_mounted() && !folder.is_mounted_at("other-seen"), "{also:?}");
    }
}

#[test]
fn the_mounts_before_one_that_fails_are_undone() {
    let Some(folder) = two() else { return };
    // A user of files that are not its own: it sees that the second source is a directory, and cannot open it.
    folder.belongs_to(USER);
    std::os::unix::fs::chown(folder.path("other-seen"), Some(USER), Some(USER)).expect("root may");
    let mode = |name: &str, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(folder.path(name), mode).expect("root may");
    };
    mode("other", 0o700);
    with_mode(0o666);
    let mut command = Command::new(folder.program());
    let [source, seen, other, other_seen] = ["source", "seen", "other", "other-seen"].map(|name| folder.text(name));
    command.uid(USER).gid(USER).args(["mount", "--foreground", &source, &seen, "--also", &other, &other_seen]);
    let mut refused = running::Running::start(&mut command);
    assert_eq!(refused.end(), Some(1), "{}", refused.log);
    assert!(refused.log.contains("other: cannot be opened: Permission denied"), "{}", refused.log);
    let undone = format!("{source}: unmounted again, and flushed");
    assert!(refused.log.contains(&undone), "the first was mounted: {}", refused.log);
    assert!(!folder.is_mounted() && !folder.is_mounted_at("other-seen"));
}

#[test]
fn a_file_names_directories_with_options_of_their_own() {
    let Some(folder) = two() else { return };
    let [source, seen, other, other_seen] = ["source", "seen", "other", "other-seen"].map(|name| folder.text(name));
    let table = |source: &str, mountpoint: &str, more: &str| {
        format!("[[mount]]\nsource = \"{source}\"\nmountpoint = \"{mountpoint}\"\n{more}")
    };
    let both = table(&source, &seen, "") + &table(&other, &other_seen, "read-only = true\n");
    let file = folder.text("mounts.toml");
    fs::write(&file, format!("cache = \"1MiB\"\n{both}")).expect("a file");
    let socket = folder.text("socket");
    let arguments = ["mount", "--foreground", "--config", &file, "--control", &socket];
    let process = running::Running::start(Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments));
    let mut running = Running { folder: &folder, process };
    running.wait_for(&format!("{other} is mounted on {other_seen}, behind 1 MiB"));
    fs::write(folder.path("seen/file"), "written").expect("a file");
    let refused = fs::write(folder.path("other-seen/file"), "written").expect_err("it is read-only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let reload = |changed: &str| {
        fs::write(&file, changed).expect("a file");
        let reloaded = forebay(&["control", "--socket", &socket, "reload"]);
        (reloaded.status.code(), text(&reloaded.stdout) + &text(&reloaded.stderr))
    };
    let changed =
        format!("cache = \"2MiB\"\npolicy = \"lru\"\nmetrics = \"127.0.0.1:0\"\n{}", table(&source, &seen, ""));
    let (code, said) = reload(&changed);
    let waiting = "mount, policy, metrics: only a restart changes that; the rest is in force\n";
    assert!(code == Some(1) && said.ends_with(waiting), "{said}");
    assert_eq!(folder.figures()["statistics"]["caches"][0]["capacity"], 2 << 20, "the rest is in force");
    let (code, said) = reload(&format!("cache = \"1MiB\"\ndirty-age = \"2s\"\n{both}"));
    assert_eq!((code, said.as_str()), (Some(0), "the configuration was read again\n"));
    folder.stop(running);
    fs::write(&file, "cache = \"1MiB\"\n").expect("a file");
    let none = forebay(&["mount", "--foreground", "--config", &file]);
    assert!(
        none.status.code() == Some(2) && text(&none.stderr).contains("there is no directory to mount; name SOURCE")
    );
    let half = forebay(&["mount", &source]);
    assert!(half.status.code() == Some(2) && text(&half.stderr).contains("MOUNTPOINT"), "{}", text(&half.stderr));
}
