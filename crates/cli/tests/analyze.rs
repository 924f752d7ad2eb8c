//! `forebay analyze` and `forebay mix` as a user runs them.

mod command;

use command::{answer, failure, forebay};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn analyses(arguments: &[&str]) -> Vec<Value> {
    serde_json::from_str(&answer(&[&["analyze", "--format", "json"], arguments].concat())).expect("the answer is JSON")
}

/// A path of the test's own.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn sum(values: &Value, key: &str) -> u64 {
    values.as_array().unwrap().iter().map(|point| point[key].as_u64().unwrap()).sum()
}

#[test]
fn every_section_of_the_sample_counts_every_reference() {
    let analysis = &analyses(&[])[0];
    let all = analysis["references"].as_u64().unwrap();
    let pages = analysis["footprint_pages"].as_u64().unwrap();
    let distances = &analysis["temporal_distance"];
    assert_eq!(distances["first_uses"], pages);
    assert_eq!(sum(&distances["points"], "references") + pages, all);
    let classes = &analysis["classes"];
    let graph = &analysis["space_time"];
    let mut cells = 0;
    for class in ["sequential", "looping", "other"] {
        let of_class = graph[class].as_array().unwrap();
        assert_eq!(of_class.len(), 512 * 256);
        let count = of_class.iter().map(|cell| cell.as_u64().unwrap()).sum::<u64>();
        assert_eq!(classes[class], count, "{class}");
        cells += count;
    }
    assert_eq!(cells, all);
    assert_eq!(analysis["frequency"][0]["references"], all);
    assert_eq!(analysis["footprint"].as_array().unwrap().last().unwrap()["pages"], pages);
    let largest_window = analysis["working_set"].as_array().unwrap().last().unwrap();
    assert!(largest_window["mean_pages"].as_f64().unwrap() < pages as f64);

    let compared = answer(&["compare", "-p", "lru,ubm,opt", "-s", "10%", "--by-distance", "--format", "json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    for (run, outcome) in compared[0]["runs"].as_array().unwrap().iter().enumerate() {
        let hits = &analysis["hits_by_distance"][run];
        assert_eq!(hits["policy"], outcome["policy"]);
        assert_eq!(sum(&hits["points"], "hits"), outcome["total"]["hits"].as_u64().unwrap());
        for count in ["near_hits", "near_misses", "far_hits", "far_misses"] {
            assert_eq!(hits[count], outcome["by_distance"][count], "{count}");
        }
        let owners = analysis["owners"]["owners"].as_array().unwrap();
        let misses: u64 = owners.iter().map(|owner| owner["runs"][run]["misses"].as_u64().unwrap()).sum();
        assert_eq!(outcome["total"]["misses"], misses);
        let after = &analysis["request_length"][run + 1]["requests"];
        let pages: u64 = after
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["length"].as_u64().unwrap() * point["count"].as_u64().unwrap())
            .sum();
        assert_eq!(outcome["total"]["misses"], pages);
    }
}

#[test]
fn the_table_has_the_sections_that_were_asked() {
    let all = answer(&["analyze", "loop:pages=100,references=1000"]);
    for title in [
        "footprint: ",
        "working set: ",
        "space and time: ",
        "temporal distance: ",
        "frequency: ",
        "reference classes",
        "ubm with 10 pages: ",
        "lengths in pages",
        "miss ratios in percent by owner",
    ] {
        assert!(all.contains(title), "{title}: {all}");
    }
    let one = answer(&["analyze", "loop:pages=100,references=1000", "--only", "classes"]);
    assert_eq!(
        one,
        "loop:pages=100,references=1000: 1,000 references to 100 pages of 8 KiB (800 KiB)\n\
         \n\
         reference classes, as UBM detects them\n \
         class       references     %\n \
         sequential          93   9.3  ██\n \
         looping            900  90.0  ██████████████████\n \
         other                7   0.7\n\
         \n\
         sequential runs at the end: 0 of 0 pages together\n\
         \n\
         loops at the end: 1 of 100 pages together\n \
         pages  first block  last block  period  object\n   \
         100            0          99     100  loop\n"
    );
}

#[test]
fn a_wrong_section_or_grid_is_told_with_what_is_right() {
    assert!(failure(&["analyze", "--only", "colour"], 2).contains("temporal-distance"));
    for grid in ["0x9", "9", "5000x2", "axb"] {
        assert!(failure(&["analyze", "--grid", grid], 2).contains("512x256"), "{grid}");
    }
    assert!(failure(&["analyze", "no-such-file"], 1).contains("no-such-file"));
}

#[test]
fn a_mix_tells_faults_by_source() {
    let (one, other, both) = (path("one.csv"), path("other.csv"), path("mixed.csv"));
    std::fs::write(&one, "time,owner,page\n1,a,1\n2,b,2\n3,a,1\n4,b,2\n").unwrap();
    std::fs::write(&other, "page\n1\n2\n3\n4\n").unwrap();
    let [one, other, both] = [&one, &other, &both].map(|path| path.to_str().unwrap());
    let message = failure(&["mix", one, other, "-o", both, "--force"], 1);
    assert!(message.contains("other: has no times") && message.contains("--scale"), "{message}");
    answer(&["mix", one, other, other, "-o", both, "--force", "--scale"]);
    let owners = &analyses(&[both, "--only", "owners", "-p", "lru", "-s", "100"])[0]["owners"];
    let misses = |all: &Value| -> Vec<(String, u64)> {
        let of =
            |owner: &Value| (owner["owner"].as_str().unwrap().to_owned(), owner["runs"][0]["misses"].as_u64().unwrap());
        all.as_array().unwrap().iter().map(of).collect()
    };
    let named =
        |figures: &[(&str, u64)]| figures.iter().map(|&(name, misses)| (name.to_owned(), misses)).collect::<Vec<_>>();
    assert_eq!(misses(&owners["owners"]), named(&[("other", 4), ("other#2", 4), ("one/a", 1), ("one/b", 1)]));
    assert_eq!(misses(&owners["sources"]), named(&[("one", 2), ("other", 4), ("other#2", 4)]));
}

#[test]
fn traces_of_different_times_are_mixed_one_after_the_other_unless_from_their_starts() {
    let (early, late, both) = (path("early.csv"), path("late.csv"), path("both.csv"));
    std::fs::write(&early, "time_ns,page\n10,1\n30,2\n").unwrap();
    std::fs::write(&late, "time_ns,page\n1000,1\n1010,2\n").unwrap();
    let [early, late, both] = [&early, &late, &both].map(|path| path.to_str().unwrap());
    let mix = |more: &[&str]| {
        let output = forebay(&[&["mix", late, early, "-o", both, "--force"], more].concat());
        assert!(output.status.success());
        (std::fs::read_to_string(both).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (rows, message) = mix(&[]);
    let expected = "10,early,early,1,read\n30,early,early,2,read\n1000,late,late,1,read\n1010,late,late,2,read\n";
    assert!(rows.ends_with(expected), "{rows}");
    assert!(message.contains("early ends before late begins"), "{message}");
    let (rows, message) = mix(&["--from-start"]);
    let expected = "0,late,late,1,read\n0,early,early,1,read\n10,late,late,2,read\n20,early,early,2,read\n";
    assert!(rows.ends_with(expected), "{rows}");
    assert!(message.starts_with("forebay: wrote ") && message.contains("(4 requests, "), "{message}");
}

#[test]
fn mix_says_what_it_cannot_do() {
    let out = path("never.csv");
    let out = out.to_str().unwrap();
    assert!(failure(&["mix", "sample", "-o", out], 2).contains("2 values required"));
    assert!(failure(&["mix", "sample", "-", "-o", out], 2).contains("standard input"));
    assert!(failure(&["mix", "sample", "sample", "-o", "x.unknown"], 2).contains("does not say the format"));
    assert!(!Path::new(out).exists());
}

/// Runs only where the programs are: `make test` installs them, and CI skips nothing. Not gnuplot, which takes minutes.
#[test]
fn memory_traces_of_real_programs_are_recorded() {
    let out = path("memory-traces");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/record_memory.sh");
    let named = ["--only", "gzip", "--only", "matvec", "--only", "sort", "--forebay", env!("CARGO_BIN_EXE_forebay")];
    let recorded = Command::new(script).args(named).arg(&out).output().expect("the script runs");
    let message = String::from_utf8_lossy(&recorded.stderr);
    if message.contains("record_memory.sh: missing:") && std::env::var_os("CI").is_none() {
        // Straight to the stream: what eprintln prints in a test that passes is not shown.
        std::io::stderr()
            .write_all(format!("skipped: {message}").as_bytes())
            .expect("standard error can be written to");
        return;
    }
    assert!(recorded.status.success(), "{message}");
    // The matrix alone has 80,000 elements of 12 bytes.
    for (name, least) in [("gzip", 50), ("matvec", 234), ("sort", 50)] {
        let trace = out.join(name).with_extension("parquet");
        let analysis = &analyses(&[trace.to_str().unwrap(), "--page-size", "4KiB", "--only", "footprint"])[0];
        assert!(analysis["footprint_pages"].as_u64().unwrap() >= least, "{name}: {}", analysis["footprint_pages"]);
    }
}

#[test]
fn csv_has_a_row_for_each_number_of_the_json() {
    let asked = ["zipf:pages=200,references=3000", "-p", "lru,opt"];
    let text = answer(&[&["analyze", "-f", "csv"], &asked[..]].concat());
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let head = ["trace", "section", "name", "policy", "pages", "at", "figure", "value"];
    assert_eq!(rows.headers().unwrap().iter().collect::<Vec<_>>(), head);
    let rows: Vec<csv::StringRecord> = rows.records().collect::<Result<_, _>>().unwrap();
    let sum = |section: &str, policy: &str, figures: &[&str]| -> u64 {
        let rows = rows.iter().filter(|row| &row[1] == section && &row[3] == policy && figures.contains(&&row[6]));
        rows.map(|row| row[7].parse::<u64>().unwrap()).sum()
    };
    assert_eq!(sum("temporal-distance", "", &["references", "first_uses"]), 3000);
    let near_and_far = ["near_hits", "far_hits", "near_misses", "far_misses"];
    let analysis = &analyses(&asked)[0];
    for (run, policy) in analysis["hits_by_distance"].as_array().unwrap().iter().zip(["lru", "opt"]) {
        let expected: u64 = near_and_far.map(|figure| run[figure].as_u64().unwrap()).iter().sum();
        assert_eq!(sum("hits-by-distance", policy, &near_and_far), expected, "{policy}");
        assert_eq!(sum("owners", policy, &["hits", "misses"]), 3000, "{policy}");
    }
}

#[test]
fn several_traces_end_in_a_line_each() {
    for command in ["analyze", "info"] {
        let text = answer(&[command, "loop:pages=10,references=100", "zipf:pages=200,references=3000"]);
        let (_, summary) = text.split_once("\nall traces").expect("there is a summary");
        assert_eq!(summary.lines().count(), 5, "{summary}");
        assert!(summary.lines().nth(4).unwrap().contains("3,000"), "{summary}");
    }
    assert!(!answer(&["info", "loop:pages=10,references=100"]).contains("all traces"));
}

#[test]
fn info_of_several_shows_those_that_can_be_read() {
    let output = forebay(&["info", "loop:pages=10,references=100", "/none.csv", "zipf:pages=200,references=3000"]);
    assert_eq!(output.status.code(), Some(1));
    let [shown, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(shown.split_once("\nall traces").expect("there is a summary").1.lines().count(), 5, "{shown}");
    assert!(said.contains("/none.csv") && said.lines().count() == 1, "{said}");
}
