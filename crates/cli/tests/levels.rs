//! `forebay levels` as a user runs it.

mod command;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

#[track_caller]
fn answer(arguments: &[&str]) -> String {
    command::answer(&[&["levels"], arguments].concat())
}

#[track_caller]
fn failure(arguments: &[&str], code: i32) -> String {
    command::failure(&[&["levels"], arguments].concat(), code)
}

/// Pages 0 and 1 by turns, three times. Written once, for tests run side by side.
static BY_TURNS: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("by-turns.lirs");
    std::fs::write(&path, "0\n1\n0\n1\n0\n1\n").expect("the test's file is written");
    path
});

#[test]
fn every_combination_of_alternatives_is_told() {
    let trace = &*BY_TURNS;
    let trace = trace.to_str().unwrap();
    let csv = answer(&[trace, "-l", "lru:1", "-l", "lru:1,gclock:max=3:2", "--format", "csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let told: Vec<_> = rows.iter().map(|row| row[1..=11].to_vec()).collect();
    assert_eq!(
        told,
        [
            ["inclusive", "1", "1", "lru", "8192", "1", "8192", "1", "back", "6", "0"],
            ["inclusive", "1", "2", "lru", "8192", "1", "8192", "1", "back", "6", "0"],
            ["inclusive", "2", "1", "lru", "8192", "1", "8192", "1", "back", "6", "0"],
            ["inclusive", "2", "2", "gclock:max=3", "16384", "2", "8192", "1", "back", "6", "4"],
        ]
    );
    // What is left for the storage stands with the last level.
    let storage: Vec<&str> = rows.iter().map(|row| row[19]).collect();
    assert_eq!(storage, ["", "6", "", "2"]);
    assert!(rows.iter().all(|row| row.len() == csv.lines().next().unwrap().split(',').count()));
}

#[test]
fn of_several_combinations_the_one_with_the_least_work_for_the_storage_is_advised() {
    let trace = BY_TURNS.to_str().unwrap();
    let text = answer(&[trace, "-l", "lru:1", "-l", "lru:1,gclock:max=3:2"]);
    let advice = "Take lru with 8 KiB above gclock:max=3 with 16 KiB: it leaves 2 reads and 0 writes to the storage, 67 % less than the runner-up, lru with 8 KiB above \
                  lru with 8 KiB, which has 8 KiB less memory.";
    assert!(text.replace('\n', " ").contains(advice), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&answer(&[trace, "-l", "lru:1", "-l", "lru:1", "--format", "json"])).unwrap();
    assert!(json[0]["advice"].is_null(), "of one there is nothing to choose");
}

#[test]
fn modes_differ_as_they_should() {
    let trace = &*BY_TURNS;
    let trace = trace.to_str().unwrap();
    let hits = |mode| {
        let json = answer(&[trace, "-l", "lru:1", "-l", "lru:1", "--mode", mode, "-a", "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let level = &json[0]["runs"][0]["levels"][1];
        // 0 and 1 come again after two references each.
        assert_eq!(
            level["analysis"]["temporal_distance"]["points"][1],
            serde_json::json!({ "distance": 2, "references": 4 })
        );
        assert_eq!(json[0]["runs"][0]["mode"], mode);
        (level["hits"].as_u64().unwrap(), level["demotions_received"].as_u64(), level["hints_received"].as_u64())
    };
    assert_eq!(hits("inclusive"), (0, Some(0), Some(0)));
    assert_eq!(hits("exclusive"), (4, Some(5), Some(0)));
    assert_eq!(hits("hints"), (0, Some(0), Some(5)));
}

#[test]
fn the_table_tells_levels_storage_cost_and_analysis() {
    let command =
        ["sample", "-l", "lru:1%*3", "-l", "mq:10%", "-w", "back:10000,through", "--device", "nvme", "--analyze"];
    let text = answer(&command);
    for told in ["inclusive, writes back:10000, through", "1 lru 89 (712 KiB) * 3", "2 mq 894", "storage ", "An NVMe"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(text.contains("level 2: references"), "{text}");
    let of_one_owner = answer(&[BY_TURNS.to_str().unwrap(), "-l", "lru:1*12"]);
    assert!(of_one_owner.contains("The trace has 1 owner: some of 12"), "{of_one_owner}");
}

#[test]
fn a_wrong_level_is_refused_with_what_is_right() {
    for (arguments, message) in [
        (&["sample"][..], "--level"),
        (&["sample", "-l", "lru"], "write POLICY:SIZE"),
        (&["sample", "-l", "lru@100"], "write POLICY:SIZE"),
        (&["sample", "-l", "parrot:100"], "there is no policy `parrot`"),
        (&["sample", "-l", "lru:0"], "holds nothing"),
        (&["sample", "-l", "lru:1B"], "holds no page"),
        (&["sample", "-l", "lru:100*0"], "write 1 to 4096 caches"),
        (&["sample", "-l", "lru:100*x"], "write 1 to 4096 caches"),
        (&["sample", "-l", "opt:100"], "opt knows the future"),
        (&["sample", "-l", "lru:100", "-l", "lru:100*2"], "are for the first --level"),
        (&["sample", "-l", "lru:100", "-w", "sideways"], "take through, back or back:REFERENCES"),
        (&["sample", "-l", "lru:100", "-w", "back:0"], "at least 1"),
        (&["sample", "-l", "lru:100", "-w", "back,through"], "--write names 2 levels, and --level 1"),
        (&["sample", "-l", "lru:100", "--mode", "both"], "inclusive, exclusive, hints"),
        (&["sample", "-l", "lru:100", "--device", "drum"], "there is no such device"),
    ] {
        let told = failure(arguments, 2);
        assert!(told.contains(message), "{arguments:?}: {told}");
    }
    assert!(failure(&["no-such-trace", "-l", "lru:1"], 1).contains("no-such-trace"));
}
