//! Directories with a share of the size.

use crate::running::wait_until;
use crate::{Folder, stop};
use rustix::fs::Advice;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

/// What is used again and again, and what is scanned.
const USED: u64 = 4 << 20;
const SCANNED: u64 = 24 << 20;

/// Reads two of the files page by page, without readahead.
fn use_some(folder: &Folder) {
    for path in folder.files().take(2) {
        let file = File::open(path).expect("it is there");
        rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice is taken");
        for at in (0..USED / 2).step_by(4096) {
            file.read_exact_at(&mut [0; 8], at).expect("it can be read");
        }
    }
}

/// What the policy has seen of a directory.
#[track_caller]
fn seen(folder: &Folder, name: &str) -> serde_json::Value {
    let answer = folder.control(&["statistics"]);
    let volumes = answer["statistics"]["volumes"].as_array().expect("a list");
    let found = volumes.iter().find(|volume| volume["name"].as_str() == Some(name));
    found.unwrap_or_else(|| panic!("{name}: {answer}")).clone()
}

#[track_caller]
fn wait_for_uses_of(folder: &Folder, name: &str, pages: u64) {
    let count = |of: &serde_json::Value, what: &str| of[what].as_u64().expect("a number");
    wait_until("uses are counted", || {
        let seen = seen(folder, name);
        count(&seen, "hits") + count(&seen, "misses") >= pages
    });
}

/// Uses some files, and has `tar` read another directory: how many bytes of these files are still there, or were taken by the kernel itself.
fn kept_beside_a_scan(folder: &Folder, [used, scanned]: [&str; 2]) -> u64 {
    for round in 1..=2 {
        use_some(folder);
        folder.wait_for_uses(round * USED >> 12);
    }
    assert_eq!(folder.resident(), USED);
    let before = folder.figure("kernel_hits") + folder.figure("kernel_misses");
    // What tar writes to /dev/null itself it does not read.
    let scan = format!("tar -cf - {} | wc -c", folder.text("scanned"));
    assert!(Command::new("sh").args(["-c", &scan]).output().expect("tar runs").status.success());
    folder.wait_for_uses(before + (SCANNED >> 12));
    if used != scanned {
        wait_for_uses_of(folder, scanned, SCANNED >> 12);
    }
    wait_until("pages leave", || folder.figure("kept") == 0);
    folder.resident() + (folder.figure("reclaimed") << 12)
}

#[test]
fn a_scan_with_a_max_pushes_out_no_page_of_a_min() {
    let Some(folder) = Folder::new() else { return };
    let [used, scanned, config] = ["files", "scanned", "steer.toml"].map(|name| folder.text(name));
    fs::create_dir(&scanned).expect("a folder");
    let file = File::create(folder.path("scanned/file")).expect("a file");
    file.write_all_at(&vec![7; SCANNED as usize], 0).and_then(|()| file.sync_all()).expect("there is room");
    let cold = || rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("it may leave");
    cold();
    let options = [&scanned, "--policy", "lru", "--config", &config];
    fs::write(&config, "cache = \"8MiB\"\n").expect("it is written");
    let running = folder.steer(&options);
    let both = format!("{used}, {scanned}");
    assert!(kept_beside_a_scan(&folder, [&both, &both]) < USED / 2, "without shares the scan takes its place");
    stop(running);
    cold();
    let shares = |of_used: &str| {
        format!(
            "cache = \"8MiB\"\n[[share]]\npath = \"{used}\"\n{of_used}\n[[share]]\npath = \"{scanned}\"\nmax = \"2MiB\"\n"
        )
    };
    fs::write(&config, shares("min = \"5MiB\"")).expect("it is written");
    let mut running = folder.steer(&options);
    let kept = kept_beside_a_scan(&folder, [&used, &scanned]);
    assert!(kept >= USED, "{kept} of {USED} are there");
    let share = &seen(&folder, &scanned)["share"];
    assert_eq!((share["min"].as_u64(), share["max"].as_u64()), (Some(0), Some(2 << 20)));
    assert!(share["resident"].as_u64().is_some_and(|resident| resident <= 2 << 20), "{share}");
    let refused = folder.control(&["resize", "shared", "4MiB"]);
    assert!(refused["message"].as_str().is_some_and(|why| why.contains("the mins of all shares")), "{refused}");
    // A share changes while it is used.
    fs::write(&config, shares("max = \"1MiB\"")).expect("it is written");
    running.signal("HUP");
    running.wait_for("the share of ");
    folder.wait_for_at_most(1 << 20);
    fs::write(&config, "cache = \"8MiB\"\n").expect("it is written");
    running.signal("HUP");
    running.wait_for("share: only a restart gives one or takes one away");
    stop(running);
}
