//! `forebay compare --readahead` as a user runs it.

mod command;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Behind 0, 3 and 6, which miss, two pages each. Written once, for tests run side by side.
static TRACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readahead.lirs");
    std::fs::write(&trace, "0\n1\n2\n3\n4\n5\n6\n7\n8\n").expect("the test's file is written");
    trace
});

/// The trace, in a cache of 8 pages.
fn asked<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["compare", TRACE.to_str().expect("the path is text"), "-s", "8"], arguments].concat()
}

#[track_caller]
fn answer(arguments: &[&str]) -> String {
    command::answer(&asked(arguments))
}

#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    command::failure(&asked(arguments), 2)
}

#[test]
fn readahead_is_told_in_every_form() {
    let ask = |form| answer(&["-p", "lru", "--readahead", "fixed:pages=2", "-f", form]);
    assert!(ask("csv").lines().nth(1).is_some_and(|row| row.ends_with(",6,6,0,")), "{}", ask("csv"));
    let json: serde_json::Value = serde_json::from_str(&ask("json")).unwrap();
    assert_eq!((&json[0]["readahead"], &json[0]["runs"][0]["total"]["hits"]), (&"fixed:pages=2".into(), &6.into()));
    let expected = serde_json::json!({ "fetched": 6, "used": 6, "wasted": 0, "late": null });
    assert_eq!(json[0]["runs"][0]["readahead"], expected);
    let table = ask("table");
    let counts = table.split_once("pages read ahead by fixed:pages=2").expect("a table of its own").1;
    let row: Vec<&str> = counts.lines().find(|line| line.contains("lru")).unwrap().split_whitespace().collect();
    assert_eq!(row, ["lru", "6", "6", "66.7", "0"]);
    let late = answer(&["-p", "lru", "--readahead", "fixed:pages=2", "-d", "table-1", "--think", "1000", "-f", "csv"]);
    assert!(late.lines().nth(1).unwrap().rsplit(',').next().is_some_and(|late| late.parse::<u64>().is_ok()), "{late}");
}

#[test]
fn all_policies_are_those_that_take_readahead() {
    let rows = answer(&["--readahead", "linux", "-f", "csv"]);
    assert!(rows.lines().count() > 20 && !rows.contains(",opt,"), "{rows}");
    let table = answer(&["-p", "lru,opt", "--readahead", "linux"]);
    assert!(table.contains("(--readahead none has it): opt") && !table.contains("opt (the limit)"), "{table}");
    let said = refusal(&["-p", "opt", "--readahead", "linux"]);
    assert!(said.contains("opt knows what is referenced next, and not what is read ahead"), "{said}");
}

#[test]
fn a_wrong_rule_or_time_of_thinking_is_refused() {
    for (arguments, said) in [
        (&["--readahead", "lynux"][..], "there are none, fixed, linux, kernel, regular"),
        (&["--readahead", "linux:max=-1"], "max=PAGES|BYTES|PERCENT% (128KiB)"),
        (&["--device", "nvme", "--think=-1"], "write a number of microseconds"),
        (&["--think", "5"], "--device"),
    ] {
        let message = refusal(arguments);
        assert!(message.contains(said), "{message}");
    }
}
