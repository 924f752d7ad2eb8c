//! `forebay compare --managers`, as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().expect("forebay runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("what is printed is text")
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the test's file is written");
    path
}

/// Two programs: `scan` reads the three pages of `table` again and again, `edit` uses the one page of `notes` now and then.
/// Written once, since the tests run side by side.
static TRACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    for round in 0..10 {
        for page in 0..3 {
            rows += &format!("{round},scan 7,/data/table,{},8192,read\n", page * 8192);
        }
        rows += &format!("{round},edit 8,/home/notes,0,8192,read\n");
    }
    file("managed.csv", &rows)
});

/// The hits of a cache of 3 pages, and what standard error says.
#[track_caller]
fn hits(name: &str, policy: &str, rules: &str) -> (u64, String) {
    let (trace, rules) = (&*TRACE, file(name, rules));
    let arguments = ["compare", trace.to_str().unwrap(), "-p", policy, "-s", "3", "-f", "csv", "--managers"];
    let output = forebay(&[&arguments[..], &[rules.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let hits = text(&output.stdout).lines().nth(1).unwrap().split(',').nth(6).unwrap();
    (hits.parse().unwrap(), text(&output.stderr).to_owned())
}

#[test]
fn rules_give_managers_to_owners_and_files() {
    // LRU misses always: four pages in turn, three frames.
    assert_eq!(hits("none.toml", "lru-sp", ""), (0, String::new()));
    // The scan gives up its own page used last, so that its two others and the note stay, but for one each round.
    let by_owner = hits("owner.toml", "lru-sp", "[[manager]]\nname = \"mru\"\nowners = [\"scan *\"]\n");
    let by_file = hits("file.toml", "lru-sp", "[[manager]]\nname = \"same-order\"\nfiles = [\"*/table\"]\n");
    assert_eq!(by_owner, by_file);
    assert!(by_owner.0 >= 15 && by_owner.1.is_empty(), "{by_owner:?}");
    // The first rule that fits holds.
    let lru_first = "[[manager]]\nname = \"lru\"\nfiles = [\"*/table\"]\n\n[[manager]]\nname = \"mru\"\n";
    assert_eq!(hits("first.toml", "lru-sp", lru_first).0, 0);
    // The default of the file takes the place of the parameter, which holds where the file has none.
    assert_eq!(hits("default.toml", "lru-sp", "default = \"mru\"\n").0, by_owner.0);
    assert_eq!(hits("parameter.toml", "lru-sp:manager=mru", "").0, by_owner.0);
    assert_eq!(hits("both.toml", "lru-sp:manager=mru", "default = \"lru\"\n").0, 0);
}

#[test]
fn managers_that_need_more_are_told_it() {
    let scan = |name: &str, rest: &str| {
        hits(name, "lru-sp", &format!("[[manager]]\nname = {rest}\nowners = [\"scan *\"]\n")).0
    };
    // All of them know that the scan returns to what it left first.
    let expected = scan("sequential.toml", "\"sequential\"");
    assert!(expected >= 15);
    assert_eq!(scan("file-order.toml", "\"file-order\"\norder = [\"0..2\", \"2..\"]"), expected);
    assert_eq!(scan("filter.toml", "\"filter\"\norder = [\"/data/*\"]"), expected);
    // What weighs little goes before the note of `edit` only if one owner has both: alone, it is LRU.
    assert_eq!(scan("weights.toml", "\"weights\"\nweights = [[\"*/table\", 0.5]]"), 0);
    assert_eq!(scan("lru-k.toml", "\"lru-k\"\nk = 1"), 0);
    assert!(scan("rmin.toml", "\"rmin\"") >= expected);
}

#[test]
fn a_manager_that_knows_the_future_is_no_policy_to_take() {
    let rules = file("off-line.toml", "[[manager]]\nname = \"rmin\"\n");
    let trace = &*TRACE;
    let output = forebay(&[
        "compare",
        trace.to_str().unwrap(),
        "-p",
        "lru,lru-sp",
        "-s",
        "3",
        "--managers",
        rules.to_str().unwrap(),
    ]);
    let table = text(&output.stdout);
    assert!(table.contains("lru-sp (knows the future)") && !table.contains("Take lru-sp"), "{table}");
}

#[test]
fn a_manager_that_knows_the_future_takes_no_readahead() {
    for rules in ["default = \"rmin\"\n", "[[manager]]\nname = \"foolish\"\n"] {
        let (trace, rules) = (&*TRACE, file("foresees.toml", rules));
        let of = ["compare", trace.to_str().unwrap(), "-p", "lru-sp", "-s", "3", "--readahead", "linux", "--managers"];
        let output = forebay(&[&of[..], &[rules.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("lru-sp knows what is referenced next"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_named() {
    let (_, message) = hits("nothing.toml", "lru-sp", "\n[[manager]]\nname = \"mru\"\nfiles = [\n  \"*.log\",\n]\n");
    assert!(message.contains("nothing.toml line 5: no file of ") && message.contains("is like `*.log`"), "{message}");
}

#[test]
fn a_bad_file_gives_one_sentence_with_its_line() {
    let trace = &*TRACE;
    let bad = |content: &str| {
        let rules = file("bad.toml", content);
        let output = forebay(&["compare", trace.to_str().unwrap(), "--managers", rules.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        let message = text(&output.stderr).to_owned();
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        assert!(message.starts_with("forebay: ") && message.contains("bad.toml line "), "{message}");
        message
    };
    let is = |content: &str, expected: &str| {
        let message = bad(content);
        assert!(message.contains(expected), "{message}");
    };
    is("[[manager]]\nowners = [\"a\"]\n\nname = \"mri\"\n", "line 4: there is no manager `mri`; there are lru, mru, ");
    is("[[manager]]\nowners = [\"a\"]\n", "missing field `name`");
    is("\n[[manager]]\nname = \"mru\"\nowner = [\"a\"]\n", "line 4: unknown field `owner`");
    is("[[manager]]\nname = \"mru\"\nfiles = [\"a\", \"[\"]\n", "line 3: `[` is no pattern");
    is("[[manager]]\nname = \"mru\"\nk = 2\n", "line 3: `mru` has no `k`");
    is("[[manager]]\nname = \"lru-k\"\nk = 9\n", "line 3: k is 1 to 8, not 9");
    is("[[manager]]\nname = \"filter\"\n", "line 2: `filter` needs `order`");
    is("[[manager]]\nname = \"file-order\"\norder = [\n\"0..4\",\n\"9..4\"]\n", "line 5: `9..4` is no range of blocks");
    is("[[manager]]\nname = \"weights\"\nweights = [[\"*\", -1]]\n", "line 3: a weight is a positive number, not -1");
    is(
        "[[manager]]\nname = \"weights\"\nweights = [[\"nothing\", 0]]\n",
        "line 3: a weight is a positive number, not 0",
    );
    is("default = \"nosuch\"\n", "line 1: there is no manager `nosuch`; there are lru, mru, ");
    is("default = \"filter\"\n", "line 1: `filter` cannot be the default");
    is("[[manager]\n", "line 1: ");
    is(&"[[manager]]\nname = \"lru\"\n".repeat(65), "line 130: there are more than 64 managers");
}

#[test]
fn managers_are_for_a_policy_that_has_them() {
    let (trace, rules) = (&*TRACE, file("unused.toml", ""));
    let output = forebay(&["compare", trace.to_str().unwrap(), "-p", "lru", "--managers", rules.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--managers is for lru-sp"));
    let output = forebay(&["compare", trace.to_str().unwrap(), "--managers", "no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-file.toml: No such file"));
}

const OWNERS: [&str; 2] = ["edit 8", "scan 7"];

#[test]
fn place_holders_keep_an_innocent_owner_from_a_foolish_one() {
    // In four frames LRU keeps the two pages of `edit` and the page that `scan` uses before and after each other one. `scan` gives
    // up that page, which it needs soonest.
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    for round in 0..200 {
        for page in [0, 1] {
            rows += &format!("{round},edit 8,/home/notes,{},8192,read\n", page * 8192);
        }
        for page in [0, 1 + round % 5, 0] {
            rows += &format!("{round},scan 7,/data/table,{},8192,read\n", page * 8192);
        }
    }
    let (trace, rules) = (file("foolish.csv", &rows), "[[manager]]\nname = \"foolish\"\nowners = [\"scan *\"]\n");
    let rules = file("foolish.toml", rules);
    let asked = ["-p", "lru,lru-sp,lru-sp:place-holders=off", "-s", "4", "--format", "json", "--managers"];
    let answer = |command: &[&str]| -> serde_json::Value {
        let output = forebay(&[command, &[trace.to_str().unwrap()], &asked, &[rules.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()[0].take()
    };
    let find = |list: &serde_json::Value, owner: &str| {
        list.as_array().unwrap().iter().find(|one| one["owner"] == owner).unwrap().clone()
    };
    let analysis = answer(&["analyze", "--only", "owners"]);
    let analyzed = OWNERS.map(|owner| -> Vec<u64> {
        let of_owner = find(&analysis["owners"]["owners"], owner);
        of_owner["runs"].as_array().unwrap().iter().map(|run| run["misses"].as_u64().unwrap()).collect()
    });
    let comparison = answer(&["compare"]);
    let compared = OWNERS.map(|owner| -> Vec<u64> {
        let runs = comparison["runs"].as_array().unwrap().iter();
        runs.map(|run| find(&run["by_owner"], owner)["misses"].as_u64().unwrap()).collect()
    });
    assert_eq!(analyzed, compared);
    let [innocent, foolish] = analyzed;
    assert_eq!(innocent, [2, 2, 398], "with place-holders as under global LRU, and without them nearly all miss");
    assert_eq!(foolish, [201, 400, 598], "a foolish owner pays for its choices");
}

#[test]
fn the_table_tells_misses_by_owner_under_managers() {
    let (trace, rules) = (&*TRACE, file("table.toml", "[[manager]]\nname = \"mru\"\nowners = [\"scan *\"]\n"));
    let arguments = ["compare", trace.to_str().unwrap(), "-p", "lru,lru-sp", "-s", "3", "--managers"];
    let output = forebay(&[&arguments[..], &[rules.to_str().unwrap()]].concat());
    let shown = text(&output.stdout);
    let row = |owner: &str| -> Vec<&str> {
        let row = shown.lines().find(|line| line.trim_start().starts_with(owner)).unwrap_or_else(|| panic!("{shown}"));
        row.split_whitespace().skip(2).collect()
    };
    assert!(shown.contains("misses by owner, 3 pages"), "{shown}");
    assert_eq!(row("scan 7"), ["30", "30", "12"]);
    assert_eq!(row("edit 8"), ["10", "10", "10"]);
}

#[test]
fn managers_that_are_suggested_have_the_misses_that_are_said() {
    let path = file("suggested.toml", "mine");
    let (trace, path) = (TRACE.to_str().unwrap(), path.to_str().unwrap());
    for (refused, why) in [(trace, "this is the trace"), (path, "exists; --force replaces it")] {
        let output = forebay(&["managers", trace, "-o", refused]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read(path).unwrap(), b"mine");
    let output = forebay(&["managers", trace, "-s", "3", "-o", path, "--force"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let suggested = std::fs::read_to_string(path).expect("the file is there");
    assert!(suggested.contains("[[manager]]\nname = \"mru\"\nowners = [\"scan *\"]\n"), "{suggested}");
    let output = forebay(&["managers", trace, "-s", "3", "-f", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (hits, warnings) = hits("as-suggested.toml", "lru-sp", &suggested);
    assert_eq!((answer["misses_lru"][0].as_u64(), warnings), (Some(40), String::new()));
    assert_eq!(answer["misses_managed"][0].as_u64(), Some(40 - hits));
    assert_eq!(answer["rules"][0]["saved"][0].as_u64(), Some(hits));

    let output = forebay(&["managers", "zipf:pages=100,references=10000", "-s", "100"]);
    assert!(text(&output.stdout).contains("# No manager saves a 200th"), "{}", text(&output.stdout));
    let output = forebay(&["managers", trace, "-s", "2KiB"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn files_that_programs_share_have_one_rule_for_all_of_them() {
    // Two programs read one file in turn, again and again. Neither's own rule would be in charge: its users disagree.
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    for round in 0..40 {
        for page in 0..20 {
            let owner = if (round + page / 5) % 2 == 0 { "cat 1" } else { "grep 2" };
            rows += &format!("{round},{owner},/data/table.db,{},4096,read\n", page * 4096);
        }
    }
    let trace = file("shared.csv", &rows);
    let output = forebay(&["managers", trace.to_str().unwrap(), "-s", "10", "--page-size", "4KiB", "-f", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rules = answer["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), 1, "{answer}");
    assert_eq!((&rules[0]["owners"], &rules[0]["files"]), (&serde_json::Value::Null, &"*.db".into()), "{answer}");
    let [lru, managed] = ["misses_lru", "misses_managed"].map(|key| answer[key][0].as_u64().unwrap());
    assert!(lru == 800 && managed < 600, "{answer}");
    assert_eq!(rules[0]["saved"][0], lru - managed);
}

#[test]
fn what_is_suggested_with_readahead_and_a_device_takes_the_time_that_is_said() {
    let path = file("timed.toml", "mine");
    let path = path.to_str().unwrap();
    let asked = ["sample", "-s", "20%", "--readahead", "linux", "--device", "nearline"];
    let suggest = |more: &[&str]| {
        let output = forebay(&[&["managers"], &asked[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    suggest(&["-o", path, "--force"]);
    let written = std::fs::read_to_string(path).expect("the file is there");
    assert!(written.contains("# By the time of nearline; readahead: linux.\n"), "{written}");
    let answer: serde_json::Value = serde_json::from_slice(&suggest(&["-f", "json"]).stdout).expect("JSON");
    assert_eq!((&answer["device"], &answer["readahead"]), (&"nearline".into(), &"linux".into()));
    assert!(answer["rules"].as_array().is_some_and(|rules| !rules.is_empty()), "{answer}");

    let compare = ["-p", "lru,lru-sp", "-f", "json", "--managers", path];
    let output = forebay(&[&["compare"], &asked[..], &compare].concat());
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (run, key) in ["device_us_lru", "device_us_managed"].into_iter().enumerate() {
        let milliseconds = compared[0]["runs"][run]["device"]["device_ms"].as_f64().expect("a time");
        assert_eq!(answer[key][0].as_u64(), Some((milliseconds * 1e3).round() as u64), "{key}");
    }
    assert!(answer["device_us_managed"][0].as_u64() < answer["device_us_lru"][0].as_u64());
}

#[test]
fn misses_are_split_by_program_or_by_file_without_managers() {
    let trace = TRACE.to_str().unwrap();
    let ask = |by: &str, form: &str| {
        let output = forebay(&["compare", trace, "-p", "lru,mru", "-s", "2,3", "--by", by, "-f", form]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    for (by, key, other) in [("owner", "by_owner", "by_file"), ("file", "by_file", "by_owner")] {
        // One table, at the largest size that was asked for: the advice takes a larger one.
        let table = ask(by, "table");
        assert!(table.contains(&format!("misses by {by}, 3 pages")), "{table}");
        assert_eq!(table.matches(&format!("misses by {by}, ")).count(), 1, "{table}");
        let json: serde_json::Value = serde_json::from_str(&ask(by, "json")).unwrap();
        for run in json[0]["runs"].as_array().unwrap() {
            let parts = run[key].as_array().unwrap();
            let misses: u64 = parts.iter().map(|part| part["misses"].as_u64().unwrap()).sum();
            assert!(parts.len() > 1 && parts.iter().all(|part| part[by].is_string()));
            assert_eq!(run["counted"]["misses"], misses);
            assert!(run[other].is_null());
        }
    }
}

#[test]
fn a_suggestion_says_that_a_mount_has_shorter_paths() {
    // Two programs loop over one file, whose name has no ending: a rule names it by its whole path.
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    for round in 0..100 {
        rows += &format!("{round},{} 1,/data/table,{},4096,read\n", ["one", "two"][round % 2], round % 5 * 4096);
    }
    let trace = file("table.csv", &rows);
    let suggested = |trace: &str| {
        let output = forebay(&["managers", trace, "-s", "3", "--page-size", "4KiB"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let (whole, others) = (suggested(trace.to_str().unwrap()), suggested(TRACE.to_str().unwrap()));
    assert!(whole.contains("files = [\"/data/table\"]\n"), "{whole}");
    assert!(whole.contains("# Paths are whole, as in the recording."), "{whole}");
    assert!(others.contains("[[manager]]") && !others.contains("# Paths are whole"), "{others}");
}

#[test]
fn a_rule_that_helps_once_a_scan_need_not_agree_is_found_beside_it() {
    // Reads of a skewed few pages, and of many that never come back, beside a scan of the same file.
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    let mut random = 1_u64;
    for round in 0..800 {
        random = (random * 1_103_515_245 + 12_345) & 0x7fff_ffff;
        let drawn = random >> 8 & 1023;
        let hot = drawn * drawn / 1024 * 24 / 1024 + round / 200 * 24;
        for (owner, page) in [("kv-get 1", hot), ("kv-get 1", 1000 + round), ("kv-scan 2", 9000 + round)] {
            rows += &format!("{round},{owner},/store/1.sst,{},4096,read\n", page * 4096);
        }
    }
    let trace = file("scanned.csv", &rows);
    let output = forebay(&["managers", trace.to_str().unwrap(), "-s", "16", "--page-size", "4KiB", "-f", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rules = answer["rules"].as_array().expect("rules");
    let of = |owner: &str| rules.iter().find(|rule| rule["owners"] == owner).unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(of("kv-scan *")["manager"], "access-once");
    assert!(of("kv-get *")["saved"][0].as_u64().is_some_and(|saved| saved > 0), "{answer}");
}
