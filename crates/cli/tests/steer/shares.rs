//! Directories with a share of the size.

use crate::running::wait_until;
use crate::{Folder, stop, undisturbed};
use rustix::fs::Advice;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

/// What is used again and again, and what is scanned.
const USED: u64 = 4 << 20;
const SCANNED: u64 = 24 << 20;
/// Pages of the scan that are waited for: the reads of tar may meet in a page, which is one use then.
const MOST_OF_IT: u64 = (SCANNED >> 12) / 10 * 9;

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

/// The uses of a directory that the policy has seen.
#[track_caller]
fn uses_of(folder: &Folder, name: &str) -> u64 {
    let seen = seen(folder, name);
    ["hits", "misses"].iter().map(|count| seen[count].as_u64().expect("a number")).sum()
}

/// Uses some files, and then has `tar` read another directory, whose uses are counted under this name.
fn scan(folder: &Folder, name: &str) {
    for round in 1..=2 {
        use_some(folder);
        folder.wait_for_uses((round * USED) >> 12);
    }
    assert_eq!(folder.resident(), USED);
    let before = uses_of(folder, name);
    // What tar writes to /dev/null itself it does not read.
    let tar = format!("tar -cf - {} | wc -c", folder.text("scanned"));
    assert!(Command::new("sh").args(["-c", &tar]).output().expect("tar runs").status.success());
    wait_until("uses are counted", || uses_of(folder, name) >= before + MOST_OF_IT);
}

#[test]
fn a_scan_with_a_max_pushes_out_no_page_of_a_min() {
    undisturbed(|| {
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
        scan(&folder, &format!("{used}, {scanned}"));
        // Without shares the scan takes the place of the others.
        folder.wait_for_at_most(USED / 2);
        stop(running);
        cold();
        let shares = |of_used: &str| {
            format!(
                "cache = \"8MiB\"\n[[share]]\npath = \"{used}\"\n{of_used}\n[[share]]\npath = \"{scanned}\"\nmax = \"2MiB\"\n"
            )
        };
        fs::write(&config, shares("min = \"5MiB\"")).expect("it is written");
        let mut running = folder.steer(&options);
        scan(&folder, &scanned);
        // On a busy machine the kernel takes some itself.
        let kept = folder.resident() + (folder.figure("reclaimed") << 12);
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
    });
}
