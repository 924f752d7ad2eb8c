//! Traces as the command takes them: in files, pipes and parts, good, bad and cut; and how it writes them.

use crate::command::{answer, failure, forebay};
use crate::{LOOP, file, stdout};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const REQUESTS: &str = "time_ns,owner,object,offset,length,operation\n\
    1000,psql,data.db,8192,4096,read\n2500,psql,log,0,512,write\n4000,cp,data.db,12288,20000,readahead\n\
    5000,cp,data.db,8192,1,read\n";

#[test]
fn a_table_without_a_known_place_gets_the_option_that_names_it() {
    for (name, content, says) in [
        (
            "addr.csv",
            "addr,len\n4096,512\n8192,512\n",
            "--columns offset=addr (bytes), block=addr or page=addr (any key)",
        ),
        ("bare.csv", "1,2,3\n4,5,6\n", "say what its 3 columns mean: --columns offset=#1,length=#2"),
        ("keys.txt", "user:1,get\nuser:2,set\n", "say what its 2 columns mean: --columns offset=#1,length=#2"),
        (
            "passwd",
            "root:x:0:0:root:/root\ndaemon:x:1:1:daemon:/usr/sbin\n",
            "without a header, say what its column means",
        ),
        ("words", "some words\nof prose, and more\n", "`forebay formats` lists them"),
        ("one.csv", "1.5\n2.5\n", "say what its column means: --columns offset=#1"),
        ("wrong.lirs", "7\n8\n9x\n7\n", "line 3: `9x` makes no sense as lirs"),
        (
            "wrong.spc",
            "0,20,8192,W,0.5\n0,30,8192,X,0.6\n0,20,8192,r,0.7\n",
            "line 2: `0,30,8192,X,0.6` makes no sense as spc",
        ),
        ("words.jsonl", "{\"addr\": 1, \"n\": 2}\n", "JSON lines with the keys addr, n: say which is the place"),
        ("third.csv", "offset,length\n0,512\n3\n", "line 3: expected 2 columns, found 1"),
    ] {
        let trace = file(name, content);
        let message = failure(&["info", trace.to_str().unwrap()], 1);
        assert!(message.contains(says), "{name}: {message}");
    }
    let keys = file("named.txt", "user:1,get\nuser:2,set\nuser:1,get\n");
    assert!(answer(&["info", keys.to_str().unwrap(), "--columns", "page=#1,operation=#2"]).contains("2 pages"));
    assert!(failure(&["info", "zpif:pages=10"], 1).contains("(did you mean `zipf`?)"));
    assert!(!failure(&["info", "C:/none.csv"], 1).contains("did you mean"));
}

#[test]
fn a_trace_may_be_piped_in_or_synthetic() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["compare", "-", "-p", "opt", "-s", "3", "-f", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(LOOP.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).contains("-,opt,24576,3,8192,12,6,6,4,"), "{}", stdout(&output));

    let text = answer(&["compare", "loop:pages=100,references=1000", "-p", "lru", "-s", "50", "-f", "csv"]);
    assert!(text.contains(",lru,409600,50,8192,1000,0,1000,100,"), "{text}");
}

#[test]
fn a_trace_whose_end_is_cut_is_read_up_to_there_with_a_warning() {
    let whole = "17 0.1 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n17 0.2 read(3, \"x\"..., 4096) = 4096\n";
    let strace = file("cut.strace", format!("{whole}17 0.3 read(3, \"so"));
    let record =
        |page: u64| [&[0; 4][..], &page.to_le_bytes(), &4096u32.to_le_bytes(), &(-1i64).to_le_bytes()].concat();
    let binary = file("cut.oracleGeneral", [&record(1)[..], &record(2), &record(3)[..10]].concat());
    // Of compressed traces, one whose front is cut, and one whose end is.
    let part_of = |name: &str, part: f64| {
        let made = file(name, "");
        let (spec, out) = ("uniform:pages=20k,references=20k", made.to_str().unwrap());
        answer(&["convert", spec, out, "--force"]);
        let bytes = std::fs::read(&made).unwrap();
        file(&format!("cut-{name}"), &bytes[..(bytes.len() as f64 * part) as usize])
    };
    let [gzip, zstd, xz, front] = [("a.csv.gz", 0.7), ("a.csv.zst", 0.7), ("a.csv.xz", 0.7), ("b.csv.gz", 0.02)]
        .map(|(name, part)| part_of(name, part));
    let compressed = "the compressed file ends here";
    for (trace, references, place) in [
        (strace, "1 reference ", "line 3"),
        (binary, "2 references", "byte 48"),
        (gzip, " references", compressed),
        (zstd, " references", compressed),
        (xz, " references", compressed),
        (front, " references", compressed),
    ] {
        let output = forebay(&["compare", trace.to_str().unwrap(), "-p", "lru", "-s", "1"]);
        let warning = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout(&output).contains(references), "{warning}{}", stdout(&output));
        assert!(warning.contains(place) && warning.contains("all before it is taken"), "{warning}");
    }
}

#[test]
fn what_a_reader_skips_is_told_once() {
    let keys = file("kv.csv", "key,op,op_count\na,GET,2\na,TOUCH,1\nb,SET,1\n");
    let log = file("own.lackey", "I  10,1\nI  11,1\nhello\n L 20,1\n");
    for (trace, references, says, lines) in [
        // That its objects' sizes are not used is another line.
        (keys, "3 references", "skipped 1 row with unknown operations: TOUCH (1)", 2),
        (log, "3 references", "line 3: `hello` is no memory access; skipped 1 such line", 1),
    ] {
        let output = forebay(&["compare", trace.to_str().unwrap(), "-p", "lru,opt", "-s", "1,2"]);
        let warning = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout(&output).contains(references), "{warning}{}", stdout(&output));
        assert!(warning.trim_end().ends_with(says) && warning.lines().count() == lines, "{warning}");
    }
}

#[test]
fn a_bad_trace_gives_one_clear_sentence() {
    let bad = |name: &str, content: &[u8]| {
        let path = file(name, content);
        let message = failure(&["compare", path.to_str().unwrap()], 1);
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        assert!(message.starts_with("forebay: ") && message.contains(name), "{message}");
        message
    };
    assert!(bad("empty", b"").contains("is empty"));
    assert!(bad("garbage", &[0x80, 0xff, 0, 1, 2, 3, 0xfe].repeat(100)).contains("no known trace format"));
    let columns = bad("columns.lis", &["1 2 3 4\n".repeat(30).as_bytes(), b"1 2 3\n"].concat());
    assert!(columns.contains("line 31"), "{columns}");
    let letters = bad("letters.lirs", &[LOOP.repeat(10).as_bytes(), b"seven\n"].concat());
    assert!(letters.contains("line 121"), "{letters}");
    assert!(bad("nothing.lis", b"1 0 0 0\n").contains("no references"));
    assert!(failure(&["compare", "no-such-trace"], 1).contains("No such file"));
    assert!(failure(&["compare", env!("CARGO_TARGET_TMPDIR")], 1).contains("is a directory"));
}

#[test]
fn a_part_of_a_trace_is_that_of_some_owners_or_files() {
    let path = file("part.csv", "pid,file,block,op\nmake,a,1,r\nmake,b,2,r\ncc 7,a,1,r\ncc 7,a,3,r\n");
    let path = path.to_str().unwrap();
    let misses = |part: &[&str]| {
        let rows = answer(&[&["compare", path, "-p", "lru", "-s", "9", "-f", "csv"], part].concat());
        rows.lines().nth(1).unwrap().split(',').skip(5).take(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(misses(&[]), "4 1 3");
    assert_eq!(misses(&["--owners", "cc *"]), "2 0 2");
    assert_eq!(misses(&["--files", "a"]), "3 1 2");
    assert_eq!(misses(&["--owners", "make", "--owners", "cc *", "--files", "b"]), "1 0 1");
    let message = failure(&["compare", path, "--owners", "ld"], 1);
    assert!(message.contains("no request matches --owners and --files; its owners are make, cc 7"), "{message}");
}

#[test]
fn a_file_of_one_line_is_a_trace() {
    let trace = file("one.lirs", "42\n");
    let text = answer(&["compare", trace.to_str().unwrap(), "-s", "1,100%"]);
    assert!(text.contains("No page is used twice"), "{text}");
}

#[test]
fn what_a_name_does_not_say_and_what_a_format_does_not_keep_is_said() {
    let start = file("few.csv", REQUESTS);
    let start = start.to_str().unwrap();
    let refused = failure(&["convert", start, "out.txt"], 2);
    assert!(refused.contains("its name does not say the format; let it end in .parquet"), "{refused}");
    let refused = failure(&["convert", start, "/no/such/out.csv"], 1);
    assert!(refused.contains("there is no folder /no/such"), "{refused}");
    let pages = file("few.lirs", "");
    let written = forebay(&["convert", start, pages.to_str().unwrap(), "--page-size", "4KiB", "--force"]);
    let said = String::from_utf8_lossy(&written.stderr);
    assert!(said.contains("holds the numbers of pages of 4 KiB: read it with --page-size 4KiB"), "{said}");
    let empty = file("empty-requests.csv", format!("{REQUESTS}6000,cp,log,7,0,read\n"));
    let info = answer(&["info", empty.to_str().unwrap()]);
    assert!(info.contains(" 20.0 %  they move nothing, and make no reference"), "{info}");
}

#[test]
fn what_is_converted_there_and_back_is_the_same() {
    let start = file("requests.csv", REQUESTS);
    let folder = start.parent().unwrap();
    let [parquet, csv] = ["there.parquet", "back.csv.xz"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    let written = forebay(&["convert", start.to_str().unwrap(), &parquet, "--force"]);
    assert!(String::from_utf8_lossy(&written.stderr).contains("there.parquet (4 requests, "));
    answer(&["convert", &parquet, &csv, "--force"]);
    let info = |trace: &str| -> serde_json::Value {
        let mut info: serde_json::Value = serde_json::from_str(&answer(&["info", trace, "-f", "json"])).unwrap();
        let figures = info[0].as_object_mut().unwrap();
        figures.remove("trace");
        figures.remove("format");
        info[0].clone()
    };
    let expected = serde_json::json!({
        "requests": 4, "references": 8, "pages": 7, "page_size": 4096, "objects": 2, "owners": 2,
        "reads": 2, "writes": 1, "readaheads": 1, "recorded": null, "span_seconds": 4e-6,
        "request_sizes": [
            { "bytes": 20000, "requests": 1 }, { "bytes": 4096, "requests": 1 },
            { "bytes": 512, "requests": 1 }, { "bytes": 1, "requests": 1 },
        ],
        "largest_objects": [
            { "name": "data.db", "references": 7, "pages": 6 }, { "name": "log", "references": 1, "pages": 1 },
        ],
        "busiest_owners": [
            { "name": "cp", "references": 6, "pages": null }, { "name": "psql", "references": 2, "pages": null },
        ],
    });
    assert_eq!(info(start.to_str().unwrap()), expected);
    assert_eq!(info(&parquet), expected);
    assert_eq!(info(&csv), expected);
}

#[test]
fn the_page_size_is_that_of_the_requests_unless_it_was_recorded_or_is_given() {
    let rows: String = (0..100).map(|number| format!("{},16384\n", number % 7 * 16384)).collect();
    let trace = file("pages-of-16k.csv", format!("offset,length\n{rows}"));
    let [trace, kept] = [trace.to_str().unwrap().to_owned(), trace.with_extension("parquet").display().to_string()];
    let first_line = |arguments: &[&str]| answer(arguments).lines().next().unwrap().to_owned();
    let compare = first_line(&["compare", &trace, "-p", "lru"]);
    assert!(compare.contains("100 references to 7 pages (112 KiB); 16 KiB pages, from the requests"), "{compare}");
    let curve = first_line(&["curve", &trace, "-p", "lru"]);
    assert!(curve.contains("16 KiB pages, from the requests"), "{curve}");
    answer(&["convert", &trace, &kept, "--page-size", "8KiB", "--force"]);
    let recorded = first_line(&["compare", &kept, "-p", "lru"]);
    assert!(recorded.contains("200 references to 14 pages of 8 KiB"), "{recorded}");
    let given = forebay(&["compare", &kept, "-p", "lru", "--page-size", "64KiB"]);
    assert!(stdout(&given).contains("to 2 pages of 64 KiB"));
    let warning = String::from_utf8_lossy(&given.stderr).into_owned();
    assert!(warning.contains("--page-size 64 KiB") && warning.contains("take 16 KiB"), "{warning}");
}

#[test]
fn pages_are_numbered_by_first_use_in_lirs_text_and_oracle_general() {
    let start = file("pages.csv", REQUESTS);
    let folder = start.parent().unwrap();
    let [lirs, oracle] = ["pages.lirs", "pages.oracleGeneral"].map(|name| folder.join(name));
    // Pages of data.db: 1; of log: 0; of data.db: 1 2 3; and 1 again.
    let convert = |out: &Path| {
        let paths = [start.to_str().unwrap(), out.to_str().unwrap()];
        answer(&["convert", paths[0], paths[1], "--page-size", "8KiB", "--force"]);
    };
    convert(&lirs);
    assert_eq!(std::fs::read_to_string(&lirs).unwrap(), "0\n1\n0\n2\n3\n0\n");
    convert(&oracle);
    let records = std::fs::read(&oracle).unwrap();
    let field = |record: &[u8]| {
        let object = u64::from_le_bytes(record[4..12].try_into().unwrap());
        let size = u32::from_le_bytes(record[12..16].try_into().unwrap());
        (object, size, i64::from_le_bytes(record[16..24].try_into().unwrap()))
    };
    let found: Vec<_> = records.chunks(24).map(field).collect();
    assert_eq!(found, [(0, 8192, 2), (1, 8192, -1), (0, 8192, 5), (2, 8192, -1), (3, 8192, -1), (0, 8192, -1)]);
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    let start = file("broken.lirs", "1\n2\nthree\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("left-behind");
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("out.parquet");
    let out = out.to_str().unwrap();
    assert!(failure(&["convert", start.to_str().unwrap(), out, "--trace-format", "lirs"], 1).contains("line 3"));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);

    let whole = file("whole.lirs", LOOP);
    let kept = file("kept.lirs", "7\n");
    let kept_name = kept.to_str().unwrap();
    assert!(failure(&["convert", whole.to_str().unwrap(), kept_name], 2).contains("--force"));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "7\n");
    assert!(failure(&["convert", whole.to_str().unwrap(), "out.xml"], 2).contains(".parquet"));
}

#[test]
fn a_trace_is_printed_as_csv_and_a_reader_that_goes_is_no_failure() {
    let start = file("printed.csv", REQUESTS);
    let printed = answer(&["convert", start.to_str().unwrap(), "-"]);
    let again = file("printed-again.csv", &printed);
    assert_eq!(hits(again.to_str().unwrap(), "1,2"), hits(start.to_str().unwrap(), "1,2"));
    let mut long = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["convert", "zipf:pages=100,references=1M", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(long.stdout.take());
    let ended = long.wait_with_output().expect("it ends");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_csv_of_a_trace_that_knows_its_pages_says_how_to_read_it() {
    let csv = file("sample-of-8-kib.csv", "");
    let written = forebay(&["convert", "sample", csv.to_str().unwrap(), "--force"]);
    let said = String::from_utf8_lossy(&written.stderr);
    assert!(said.contains("does not say that pages have 8 KiB: read it with --page-size 8KiB"), "{said}");
    assert_eq!(hits(csv.to_str().unwrap(), "5%"), hits("sample", "5%"));
}

/// What LRU hits of a trace with pages of 8 KiB, of how many references.
fn hits(trace: &str, sizes: &str) -> Vec<(String, String)> {
    let rows = answer(&["compare", trace, "-p", "lru", "-s", sizes, "-f", "csv", "--page-size", "8KiB"]);
    let figures = |row: &str| {
        let cells: Vec<&str> = row.split(',').collect();
        (cells[5].to_owned(), cells[6].to_owned())
    };
    rows.lines().skip(1).map(figures).collect()
}
