//! The command as a user runs it: its answers, its messages, its exit codes.

#[path = "../command/mod.rs"]
mod command;
mod terminal;
mod traces;

use command::{answer, failure, forebay};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the answer is text")
}

/// A file of the test's own, with this content.
fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the test's file is written");
    path
}

const LOOP: &str = "0\n1\n2\n3\n0\n1\n2\n3\n0\n1\n2\n3\n";

#[test]
fn csv_has_the_columns_that_are_promised() {
    let trace = file("columns.lirs", LOOP);
    let text = answer(&["compare", trace.to_str().unwrap(), "-p", "lru,mru,opt", "-s", "3", "--format", "csv"]);
    let mut rows = text.lines();
    assert_eq!(
        rows.next(),
        Some(
            "trace,policy,size_bytes,pages,page_size,references,hits,misses,compulsory_misses,hit_ratio,miss_ratio,seconds,device_ms,wait_mean_ms,wait_p99_ms,requests,read_requests,mean_request_pages,device_bytes,price,near_hits,near_misses,far_hits,far_misses,ahead_fetched,ahead_used,ahead_wasted,ahead_late"
        )
    );
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows[0][1..11], ["lru", "24576", "3", "8192", "12", "0", "12", "4", "0.000000", "1.000000"]);
    assert_eq!(rows[1][1..6], ["mru", "24576", "3", "8192", "12"]);
    // OPT: 3 replaces 2, which is used last; 0 1 hit; 2 replaces 1; 3 0 hit; 1 replaces 0; 2 3 hit.
    assert_eq!(rows[2][1..10], ["opt", "24576", "3", "8192", "12", "6", "6", "4", "0.500000"]);
    assert!(rows.iter().all(|row| row[11].parse::<f64>().is_ok_and(|seconds| seconds >= 0.0)));
    assert!(rows.iter().all(|row| row[12].is_empty()), "no device time was asked for");
}

#[test]
fn a_first_level_cache_and_distances_are_told_in_every_form() {
    let trace = file("behind.lirs", LOOP);
    let ask = |more: &[&str], form| {
        let command = ["compare", trace.to_str().unwrap(), "-p", "lru", "-s", "3", "--by-distance", "--format", form];
        answer(&[&command[..], more].concat())
    };
    let json: serde_json::Value = serde_json::from_str(&ask(&["--behind", "lru@1"], "json")).unwrap();
    let name = json[0]["trace"].as_str().unwrap();
    assert!(name.ends_with("behind lru of 1 pages"), "{name}");
    let counts = &json[0]["runs"][0]["by_distance"];
    // LRU hits at every distance below its size and, where pages repeat without others between them, at some above.
    assert_eq!(counts["near_misses"], 0);
    let sum: u64 = ["near_hits", "far_hits"].iter().map(|count| counts[count].as_u64().unwrap()).sum();
    assert_eq!(json[0]["runs"][0]["total"]["hits"], sum);
    assert!(ask(&[], "table").contains("farther: hits"));
    let refused = forebay(&["compare", "sample", "-p", "lru", "--behind", "opt@10"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("opt knows the future: it is no first-level cache"));
}

#[test]
fn states_are_taken_along_the_trace() {
    let trace = file("states.lirs", LOOP);
    let trace = trace.to_str().unwrap();
    let command = ["compare", trace, "-p", "clock-pro,lru", "-s", "3", "--states", "4", "--format", "json"];
    let json: serde_json::Value = serde_json::from_str(&answer(&command)).unwrap();
    let states = json[0]["runs"][0]["states"].as_array().unwrap();
    let references: Vec<u64> = states.iter().map(|state| state["references"].as_u64().unwrap()).collect();
    assert_eq!(references, [3, 6, 9, 12]);
    assert!(states.iter().all(|state| state["state"]["cold target"].as_f64().is_some_and(|target| target >= 2.0)));
    assert_eq!(states[3]["state"], json[0]["runs"][0]["state"]);
    assert_eq!(forebay(&command[..8]).status.code(), Some(2));
}

#[test]
fn the_page_of_policies_is_what_the_registry_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let page = std::fs::read_to_string(page).expect("docs/policies.md is there");
    let (registry, losses) = page.split_once("\n## Where the five lose\n").expect("the page ends with the losses");
    let made = answer(&["policies", "--format", "markdown"]);
    assert_eq!(registry, made, "make it again: papers/losses.py --registry");
    // Two tables of hits, two of device time: in each, over published traces and over recorded programs.
    for (rival, tables) in [("LRU", 4), ("CLOCK", 2), ("`linux`", 2), ("the best rival", 4)] {
        for policy in ["ubm", "dulo", "mq", "lru-sp", "clock-pro"] {
            let rows = losses.matches(&format!("| `{policy}` | {rival} |")).count();
            assert_eq!(rows, tables, "`{policy}` against {rival}: make the tables again: papers/losses.py");
        }
    }
}

#[test]
fn the_readme_shows_what_the_program_prints_and_draws() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README.md is there");
    let (_, command) = readme.split_once("(`forebay compare --policies ").expect("README.md names a command");
    let (policies, _) = command.split_once("`)").expect("which ends");
    let printed = answer(&["compare", "--policies", policies]);
    let (shown, _) = printed.split_once("\nThis is the embedded sample.").expect("a word on the user's own traces");
    let indented = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {}\n", line.trim_end()) };
    let shown: String = shown.lines().map(indented).collect();
    assert!(readme.contains(&shown), "README.md: put in what `forebay compare` prints:\n{shown}");

    let script = std::fs::read_to_string(root.join("docs/sample.sh")).expect("docs/sample.sh is there");
    let words = script.split_whitespace().skip_while(|word| *word != "compare").take_while(|word| *word != "--plot");
    let picture = file("sample.svg", "");
    answer(&words.chain(["--plot", picture.to_str().expect("text")]).collect::<Vec<_>>());
    let (drawn, kept) = (std::fs::read(picture), std::fs::read(root.join("docs/sample.svg")));
    assert!(drawn.expect("it was drawn") == kept.expect("docs/sample.svg is there"), "make it again: docs/sample.sh");
}

#[test]
fn the_page_on_comparing_shows_what_is_printed_by_owner() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compare.md");
    let page = std::fs::read_to_string(page).expect("docs/compare.md is there");
    let printed = answer(&["compare", "sample", "-p", "lru,clock-pro,opt", "-s", "10%", "--by", "owner"]);
    let (_, table) = printed.split_once("misses by owner").expect("a table of its own");
    let (table, _) = table.split_once("\n\n").expect("the table ends");
    let shown: Vec<String> =
        format!("misses by owner{table}").lines().map(|line| format!("    {}\n", line.trim_end())).collect();
    assert!(page.contains(&shown.concat()), "docs/compare.md: put in\n{}", shown.concat());
}

#[test]
fn device_time_is_told_in_every_form() {
    // Each run of blocks that are missed in a row costs 9.5 ms: LRU misses all, in three runs; OPT misses 0 to 3, 1 and 2.
    let trace = file("device.lirs", LOOP);
    let run = |form| {
        answer(&[
            "compare",
            trace.to_str().unwrap(),
            "-p",
            "lru,opt",
            "-s",
            "3",
            "--device",
            "table-1",
            "--format",
            form,
        ])
    };
    let csv = run("csv");
    let times: Vec<&str> = csv.lines().skip(1).map(|row| row.split(',').nth(12).unwrap()).collect();
    assert_eq!(times, ["28.5", "28.5"]);
    let json: serde_json::Value = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(json[0]["runs"][0]["device"]["device_ms"], 28.5);
    let table = run("table");
    let times = table.split_once("device time in ms").expect("a table of its own").1;
    assert!(
        times.lines().any(|line| line.trim_start().starts_with("lru") && line.trim_end().ends_with(" 29")),
        "{table}"
    );
}

#[test]
fn the_page_of_devices_has_the_table_that_the_presets_make() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/devices.md");
    let page = std::fs::read_to_string(page).expect("docs/devices.md is there");
    assert!(page.contains(&answer(&["devices", "--format", "markdown"])), "take forebay devices --format markdown");
}

#[test]
fn a_device_printed_as_toml_is_the_device_and_a_wrong_one_is_named_by_line_and_key() {
    let trace = file("own.lirs", LOOP);
    let run = |device: &str| {
        answer(&["compare", trace.to_str().unwrap(), "-p", "lru", "-s", "3", "--device", device, "--format", "csv"])
    };
    let costs = |text: &str| text.lines().nth(1).unwrap().splitn(13, ',').last().unwrap().to_owned();
    let toml = answer(&["devices", "object-storage", "--format", "toml"]);
    let own = file("own.toml", &toml);
    assert_eq!(costs(&run(own.to_str().unwrap())), costs(&run("object-storage")));

    let wrong = file("wrong.toml", toml.replace("connections = 16", "connections = 0"));
    for (device, message) in
        [(wrong.to_str().unwrap(), "`connections = 0`: write a whole number"), ("floppy", "table-1")]
    {
        let said = failure(&["compare", trace.to_str().unwrap(), "--device", device], 2);
        assert!(said.contains(device) && said.contains(message), "{said}");
    }
}

#[test]
fn json_tells_counts_before_and_after_the_warm_up() {
    let trace = file("warmup.lirs", LOOP);
    let text =
        answer(&["compare", trace.to_str().unwrap(), "-p", "opt", "-s", "3", "--warmup", "4", "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let run = &answer[0]["runs"][0];
    assert_eq!((&answer[0]["footprint_pages"], &answer[0]["warmup"]), (&4.into(), &4.into()));
    assert_eq!((&run["total"]["references"], &run["total"]["compulsory_misses"]), (&12.into(), &4.into()));
    assert_eq!((&run["counted"]["references"], &run["counted"]["hits"]), (&8.into(), &6.into()));
    assert_eq!(run["counted"]["compulsory_misses"], 0);
    assert!(answer[0]["advice"].as_str().unwrap().contains("know the future"));
}

#[test]
fn the_table_marks_the_best_and_closes_with_advice() {
    let trace = file("table.lirs", LOOP.repeat(50));
    let text = answer(&["compare", trace.to_str().unwrap(), "--policies", "lru,mru,opt", "--sizes", "2,3,4"]);
    let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).expect(start);
    // Where all pages fit none is better.
    assert_eq!(line("lru").matches('*').count(), 0, "{text}");
    assert_eq!(line("mru").matches('*').count(), 2, "{text}");
    assert!(line("opt").contains("the limit"), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("Take lru with 32 KiB (4 pages, 100% of the footprint): it hits 99.3 %"), "{text}");
    assert!(last.contains("is the simplest of those within 0.1 points (mru)"), "{text}");
    assert!(
        last.contains("The last 8 KiB, from 24 KiB on, bring the best policy 33.0 points (4.1 for each KiB)"),
        "{text}"
    );
}

#[test]
fn advice_goes_by_time_with_a_device_and_is_about_the_size_of_a_single_policy() {
    let advice = |more: &[&str]| {
        let text = answer(&[&["compare", "sample", "-s", "5%,20%", "-f", "json", "-p"], more].concat());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json[0]["advice"].as_str().unwrap().to_owned()
    };
    let time = advice(&["lru,dulo", "-d", "nearline"]);
    assert!(
        time.starts_with("Take dulo with 14.0 MiB (1,787 pages, 20% of the footprint): it keeps nearline at work"),
        "{time}"
    );
    assert!(
        time.contains("% less than the runner-up, lru. Of the sizes asked this one gains the most for its memory"),
        "{time}"
    );
    let size = advice(&["lru,opt"]);
    assert!(size.starts_with("Take 14.0 MiB (1,787 pages, 20% of the footprint) for lru: it hits 74.5 %"), "{size}");
    assert!(size.contains("11.1 points less than the limit"), "{size}");
}

#[test]
fn a_comparison_points_to_the_curve_where_the_next_size_gains_much() {
    let trace = "zipf:pages=20000,references=300000";
    let told = format!("`forebay curve {trace} -p lru` looks at the sizes between.");
    let says = |arguments: &[&str]| answer(arguments).contains(&told);
    assert!(says(&["compare", trace, "-p", "lru", "-s", "1%,50%"]));
    assert!(!says(&["compare", trace, "-p", "lru", "-s", "1%"]), "there is no next size");
    assert!(!says(&["compare", trace, "-p", "lru", "-s", "20%,25%"]), "the next size gains little");
    assert!(!says(&["curve", trace, "-p", "lru", "--sizes", "1%,50%"]));
}

#[test]
fn the_best_policies_are_marked_where_they_differ() {
    let marked = |policies: &str| {
        let text = answer(&["compare", "loop:pages=100,references=1000", "-p", policies, "-s", "50%", "-d", "nvme"]);
        let marks = text.matches('*').count();
        assert_eq!(marks > 0, text.contains("* the best of the policies"), "{text}");
        marks
    };
    // Of a loop lru and fifo hit nothing; mru's hits, its time, and the line that explains the mark.
    assert_eq!([marked("lru,fifo"), marked("lru,opt"), marked("lru,mru")], [0, 0, 3]);
}

#[test]
fn whoever_names_sizes_is_told_what_to_take_of_these_first() {
    let loops = ["compare", "loop:pages=1000,references=10000", "-p", "lru,mru"];
    let usual = answer(&loops);
    for part in
        ["100% of the footprint", "None of the sizes asked, which are smaller, gains more", "references=10000 -p mru`"]
    {
        assert!(usual.contains(part), "no {part} in: {usual}");
    }
    let named = answer(&[&loops[..], &["-s", "10%,50%"]].concat());
    let all =
        "A cache of all pages, 7.8 MiB, hits 90.0 % of the references under every policy: no size asked gains as much";
    for part in ["Take mru with 3.9 MiB (500 pages, 50% of the footprint)", all] {
        assert!(named.contains(part), "no {part} in: {named}");
    }
    // Those of whoever names none, named, are no other.
    assert_eq!(answer(&[&loops[..], &["-s", "1%,2%,5%,10%,20%,50%"]].concat()), usual);
}

#[test]
fn sizes_are_pages_bytes_or_percent() {
    let trace = file("sizes.lis", "0 100 0 0\n0 100 0 1\n");
    let text = answer(&["compare", trace.to_str().unwrap(), "-p", "lru", "-s", "7,5KiB,50%", "-f", "csv"]);
    let pages: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').nth(3).unwrap()).collect();
    assert_eq!(pages, ["7", "10", "50"]);
}

#[test]
fn policies_are_listed_with_their_papers_and_parameters() {
    let text = answer(&["policies"]);
    assert!(text.contains("clock-pro") && text.contains("USENIX 2005") && text.contains("max=1..255 (5)"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&answer(&["policies", "--format", "json"])).unwrap();
    assert!(json.as_array().unwrap().iter().any(|policy| policy["name"] == "opt" && policy["off_line"] == true));
}

#[test]
fn formats_are_listed_in_every_form() {
    assert!(answer(&["formats"]).contains("lirs"));
    assert!(answer(&["formats", "-f", "csv"]).starts_with("name,title,source\n"));
    let json: serde_json::Value = serde_json::from_str(&answer(&["formats", "-f", "json"])).unwrap();
    assert!(json.as_array().unwrap().iter().any(|format| format["name"] == "vscsi"));
}

#[test]
fn a_wrong_command_line_is_refused_with_what_is_right() {
    let trace = file("usage.lirs", LOOP);
    let trace = trace.to_str().unwrap();
    assert!(failure(&["compare", trace, "-p", "lru2"], 2).contains("there are lru, fifo, mru"));
    let parameters = failure(&["compare", trace, "-p", "gclock:maxi=3"], 2);
    assert!(parameters.contains("there are initial=0..255 (1), max=1..255 (5)"), "{parameters}");
    assert!(failure(&["compare", trace, "-p", "lfu:ageing=-1"], 2).contains("ageing=0..1000000000 (0)"));
    assert!(failure(&["compare", trace, "-s", "0"], 2).contains("take at least 1 page"));
    assert!(failure(&["compare", trace, "-s", "100B"], 2).contains("holds no page"));
    assert!(failure(&["compare", trace, "-s", "900TiB"], 2).contains("too large"));
    assert!(failure(&["compare", trace, "-s", "ten"], 2).contains("pages (1000), bytes (64MiB) or percent"));
    assert!(failure(&["compare", trace, "--page-size", "1000"], 2).contains("power of two"));
    assert!(failure(&["compare", trace, "--warmup", "12"], 2).contains("leaves nothing to count"));
    assert!(failure(&["compare", trace, "--trace-format", "cvs"], 2).contains("there are "));
    assert!(failure(&["compare", trace, "--format", "xml"], 2).contains("table, csv, json"));
    assert!(failure(&["compare", trace, "-s", "10.5"], 2).contains("pages (1000), bytes (64MiB) or percent"));
    assert!(failure(&["compare", trace, "-p", "mq:out=1:out=2"], 2).contains("`out` is given twice"));
    assert!(failure(&["compare", trace, "-t", "100000"], 2).contains("to 256"));
    failure(&["compair"], 2);
    for (option, told) in [
        (["--think", "-5", "-d", "nvme"], "write a number of microseconds"),
        (["--warmup", "-5", "-p", "lru"], "invalid value '-5'"),
        (["--page-size", "-4096", "-p", "lru"], "invalid value '-4096'"),
        (["-s", "1EiB", "-p", "lru"], "too large"),
    ] {
        let said = failure(&[&["compare", trace], &option[..]].concat(), 2);
        assert!(said.contains(told) && !said.contains("tip:"), "{option:?}: {said}");
    }
    assert!(failure(&["compare", "zipf:pages=x"], 2).contains("zipf cannot take `pages=x`"));
    assert!(failure(&["compare", trace, "-p", "lru-sp", "--managers", trace], 2).contains("line 1"));
    assert!(failure(&["control", "statistics"], 2).contains("--socket PATH is what its --control says"));
    let experiment = concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/acfc/applications.toml");
    assert!(
        failure(&["experiment", experiment, "--traces", "/no/such"], 2).contains("/no/such: there is no such folder")
    );
}

#[test]
fn names_are_known_by_their_letters_and_a_typo_is_suggested() {
    let text = answer(&["compare", "loop:pages=10,references=100", "-p", "LRU,S3FIFO", "-s", "10", "-d", "NVMe"]);
    assert!(text.contains(" lru ") && text.contains(" s3-fifo ") && text.contains("keeps nvme at work"), "{text}");
    assert!(failure(&["compare", "-p", "clok-pro"], 2).contains("(did you mean `clock-pro`?)"));
    assert!(failure(&["compare", "-d", "nearlin"], 2).contains("(did you mean `nearline`?)"));
    assert!(failure(&["compare", "--trace-format", "strase"], 2).contains("(did you mean `strace`?)"));
    assert!(failure(&["compare", "-p", "gclock:initial=6"], 2).contains("initial=6 is more than max=5"));
    assert!(failure(&["compare", "-p", "fbr:new=0.6:old=0.5"], 2).contains("together more than the whole stack"));
}

#[test]
fn one_policy_and_one_format_are_explained() {
    let policy = answer(&["policies", "MQ"]);
    assert!(
        policy.starts_with("mq ")
            && policy.contains("bytes of metadata for each page number")
            && !policy.contains("sieve"),
        "{policy}"
    );
    let format = answer(&["formats", "strace"]);
    assert!(format.starts_with("strace ") && format.contains("openat(AT_FDCWD"), "{format}");
    assert!(failure(&["policies", "mqq"], 2).contains("did you mean `mq`"));
    let trace = file("no-command.lirs", LOOP);
    let trace = trace.to_str().unwrap();
    assert!(failure(&[trace], 2).contains(&format!("as in `forebay compare {trace}`")));
    assert!(failure(&["comprae"], 2).contains("compare"));
}

#[test]
fn tables_of_waits_come_on_request_and_a_cache_beyond_the_footprint_is_shown_as_such() {
    let ask = |more: &[&str]| {
        let trace = "loop:pages=10,references=100";
        answer(&[&["compare", trace, "-p", "lru,mru", "-s", "5,1GiB", "-d", "nvme"], more].concat())
    };
    assert!(!ask(&[]).contains("what references wait") && ask(&[]).contains(">100%"), "{}", ask(&[]));
    assert_eq!(ask(&["--waits"]).matches("what references wait").count(), 2);
}

#[test]
fn a_server_is_named_by_its_address_or_by_its_own_option() {
    for address in [&["127.0.0.1:1"][..], &["--metrics", "127.0.0.1:1"]] {
        let refused = failure(&[&["top", "--once"], address].concat(), 1);
        assert!(refused.contains("http://127.0.0.1:1/statistics"), "{refused}");
    }
}

#[test]
fn the_embedded_sample_is_compared_without_any_argument() {
    let text = answer(&[]);
    assert!(text.starts_with("sample: 166,266 references to 8,935 pages of 8 KiB"), "{text}");
    assert!(text.contains("\nTake ") && text.contains("This is the embedded sample."), "{text}");
}

#[test]
fn completions_are_scripts_that_know_every_command() {
    for (shell, mark) in [("bash", "forebay__subcmd__record"), ("zsh", "_forebay__subcmd__record"), ("fish", "record")]
    {
        let script = answer(&["completions", shell]);
        assert!(script.contains(mark) && script.contains("by-distance"), "{shell}: {}", &script[..500]);
    }
    let script = answer(&["completions", "bash"]);
    let path = file("completions.bash", &script);
    let checked = Command::new("bash").arg("-n").arg(&path).output().expect("bash runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_scan_with_hardly_any_reuse_gets_no_policy() {
    let scan: String = (0..1000).chain([7]).map(|page| format!("{page}\n")).collect();
    let trace = file("scan.lirs", scan);
    for command in ["compare", "curve"] {
        let text = answer(&[command, trace.to_str().unwrap(), "-p", "lru,arc"]);
        assert!(text.contains("Hardly any page is used twice: 0.1 % of the references"), "{text}");
        assert!(!text.contains("Take "), "{text}");
    }
}

#[test]
fn a_report_is_written_though_the_reader_of_the_table_has_gone() {
    let report = file("unread.html", "");
    std::fs::remove_file(&report).expect("it is there");
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["compare", "-p", "lru", "--report", report.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("forebay runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("forebay ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read_to_string(report).expect("the report").contains("</html>"));
}
