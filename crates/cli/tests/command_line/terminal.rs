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
fn a_terminal_that_does_not_know_its_width_gets_whole_lines() {
    let arguments = ["compare", "sample", "--policies", "lru,opt", "--sizes", "5%"];
    assert_eq!(on_terminal(0, &arguments.join(" ")), answer(&arguments));
}

#[test]
fn long_names_are_folded_or_show_their_ends() {
    let folder = "a/folder/whose/name/fills/more/than/half/of/any/line/of/a/terminal/that/is/as/narrow/as/these";
    let rows: String = (0..40).map(|row| format!("{row},reader,{folder}/{}.txt,0,4096,read\n", row % 4)).collect();
    let trace = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("long-names.csv");
    std::fs::write(&trace, format!("time_ns,owner,object,offset,length,operation\n{rows}")).expect("there is room");
    let trace = trace.to_str().expect("text");
    let levels = "-l lru:128MiB,clock-pro:256MiB,clock-pro:512MiB -l 2q:4MiB --device nearline";
    for columns in [60, 80] {
        let info = on_terminal(columns, &format!("info {trace}"));
        assert!((0..4).all(|name| info.contains(&format!("as/these/{name}.txt"))), "{info}");
        let costs = on_terminal(columns, &format!("levels zipf:pages=3000,references=20000 {levels}"));
        assert!(costs.contains("1 clock-pro 65,536 (512 MiB)"), "{costs}");
        for line in info.lines().chain(costs.lines()) {
            assert!(line.chars().count() <= columns as usize, "{columns}: {line}");
        }
    }
}

#[test]
fn times_on_a_device_stand_in_the_order_of_the_hits_and_in_one_unit() {
    let text = answer(&["compare", "sample", "--policies", "opt,lru,mru", "--sizes", "5%,10%", "--device", "nearline"]);
    let (hits, times) = text.split_once("device time in s on nearline").expect("the times are long");
    let order = |table: &str| -> Vec<String> {
        let names = table.lines().filter_map(|line| line.split_whitespace().next());
        let rule = |name: &str| if name.starts_with('─') { "rule".to_owned() } else { name.to_owned() };
        names.map(rule).filter(|name| ["rule", "lru", "mru", "opt"].contains(&name.as_str())).collect()
    };
    assert_eq!(order(hits), ["rule", "lru", "mru", "rule", "opt"]);
    assert_eq!(order(times), order(hits));
}

#[test]
fn each_block_of_columns_begins_with_the_names() {
    let text =
        on_terminal(60, "compare loop:pages=1000,references=9000 --policies lru,opt --sizes 10%,20%,30%,40%,50%,60%");
    let named = |name: &str| text.lines().filter(|line| line.trim_start().starts_with(name)).count();
    assert_eq!(["cache size", "lru ", "opt "].map(named), [2; 3], "{text}");
}
