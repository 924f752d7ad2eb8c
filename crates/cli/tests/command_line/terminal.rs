//! Answers on a terminal of 80 columns.

use crate::command::answer;
use std::process::Command;

/// What a terminal of this width shows, as `script` of util-linux makes one.
fn on_terminal(columns: u32, arguments: &str) -> String {
    let command = format!("stty cols {columns} && exec {} {arguments} 2>/dev/null", env!("CARGO_BIN_EXE_forebay"));
    let output =
        Command::new("script").args(["-qec", &command, "/dev/null"]).output().expect("script (util-linux) runs");
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(output.status.success(), "{arguments}: {text}");
    // Bold figures.
    text.replace('\r', "").replace("\u{1b}[1m", "").replace("\u{1b}[0m", "")
}

#[test]
fn what_is_wider_than_the_terminal_comes_in_blocks_and_folded_lines() {
    let trace = "zipf:pages=3000,references=20000";
    for arguments in [
        &format!("compare {trace} --sizes 1%,2%,5%,10%,20%,30%,40%,50%,60%,70% --policies lru,arc,opt --device nvme"),
        &format!("compare {trace} --sizes 5%,10% --by file"),
        &format!("curve {trace} --policies lru,arc,opt,mq,ubm,clock-pro,lirs,sieve,s3-fifo,2q --points 4"),
        &format!("levels {trace} -l lru:1MiB,lru:2MiB -l lru:4MiB,mq:4MiB --device nearline"),
        &format!("analyze {trace}"),
        "policies",
        "devices",
        "formats",
    ] {
        let text = on_terminal(80, arguments);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{arguments}: {line}");
        }
        let words = |text: &str| -> Vec<String> {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort_unstable();
            words.dedup();
            words
        };
        // Nothing is left out: the plot of curves, and names in bold, are as wide as there is room.
        if !arguments.starts_with("curve") {
            let whole = words(&answer(&arguments.split(' ').collect::<Vec<_>>()));
            let missing: Vec<&String> = whole.iter().filter(|word| words(&text).binary_search(word).is_err()).collect();
            assert!(missing.is_empty(), "{arguments}: {missing:?}");
        }
    }
}

#[test]
fn each_block_of_columns_begins_with_the_names() {
    let text =
        on_terminal(60, "compare loop:pages=1000,references=9000 --policies lru,opt --sizes 10%,20%,30%,40%,50%,60%");
    let named = |name: &str| text.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!(["cache size", "lru ", "opt "].map(named), [2; 3], "{text}");
}
