//! `forebay run`: programs do what they do without it, in less memory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library, where cargo puts what a test depends on.
fn library() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_forebay")).parent().expect("a folder").join("deps/libforebay_paged.so")
}

/// Whether memory can be paged here. Elsewhere the test says that it is skipped; in CI that is a failure.
fn can_page() -> bool {
    let root = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t"));
    let allowed = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    if root || allowed.is_ok_and(|allowed| allowed.trim() == "1") {
        return true;
    }
    let why = "skipped: paging a program needs root, or vm.unprivileged_userfaultfd=1\n";
    assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    std::io::stderr().write_all(why.as_bytes()).expect("standard error can be written to");
    false
}

/// A command that ends in time, whatever hangs.
fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "10", "100", env!("CARGO_BIN_EXE_forebay"), "run"]).args(options).arg("--").args(program);
    command.env("FOREBAY_PAGED_LIB", library()).env("LC_ALL", "C");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program writes, and what is said of it.
#[track_caller]
fn done(options: &[&str], program: &[&str]) -> (Vec<u8>, String) {
    let Output { status, stdout, stderr } = run(options, program).output().expect("it runs");
    let said = text(&stderr);
    assert!(status.success(), "{program:?}: {status}: {said}");
    (stdout, said)
}

/// The number before a word.
#[track_caller]
fn number(said: &str, word: &str) -> u64 {
    let before = said.split_once(word).unwrap_or_else(|| panic!("no {word:?} in {said}")).0.trim_end();
    let number = before.rsplit([' ', '(']).next().expect("a word").replace(',', "");
    number.parse().unwrap_or_else(|_| panic!("no number before {word:?} in {said}"))
}

/// A C program of the tests' own, built into a folder.
#[track_caller]
fn build(folder: &Path) -> String {
    let program = folder.join("memory").display().to_string();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory.c");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Werror", "-pthread", "-o", &program]).arg(source);
    let Output { status, stderr, .. } = command.output().expect("there is a compiler");
    assert!(status.success(), "{}", text(&stderr));
    program
}

#[test]
fn a_sort_of_more_than_its_memory_gives_the_same_lines() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines").display().to_string();
    let lines: Vec<String> =
        (0..120_000_u64).map(|line| format!("{:020}\n", line.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    std::fs::write(&path, lines.concat()).expect("there is room");
    let mut expected = lines;
    expected.sort_unstable();
    for threads in ["--parallel=1", "--parallel=4"] {
        let (sorted, said) = done(&["-m", "4MiB"], &["sort", "-S", "100M", threads, &path]);
        assert!(sorted == expected.concat().into_bytes(), "{threads}");
        assert!(number(&said, "major faults") > 0 && number(&said, "pages written") > 0, "{said}");
    }
}

#[test]
fn two_threads_that_compress_and_one_that_expands_lose_no_byte() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let data: Vec<u8> = (0..3_000_000_u64).map(|byte| ((byte * byte) >> 7) as u8).collect();
    std::fs::write(&path, &data).expect("there is room");
    let path = path.display().to_string();
    let packed = folder.path().join("data.xz").display().to_string();
    let (bytes, _) = done(&["-m", "32MiB", "--policy", "lru"], &["xz", "-2", "-T2", "--block-size=1MiB", "-c", &path]);
    std::fs::write(&packed, bytes).expect("there is room");
    let (expanded, _) = done(&["-m", "2MiB", "--page-size", "16KiB"], &["xz", "-dc", &packed]);
    assert!(expanded == data);
}

#[test]
fn functions_on_large_memory_do_what_their_manuals_say() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    for (part, options) in [
        ("functions", &["-m", "1MiB"][..]),
        ("functions", &["-m", "4MiB", "--page-size", "64KiB"]),
        ("threads", &["-m", "1MiB"]),
        ("files", &["-m", "1MiB"]),
        ("fork", &["-m", "1MiB"]),
        ("fork", &["-m", "4MiB", "--page-size", "64KiB"]),
    ] {
        let (said, _) = done(options, &[&program, part]);
        assert_eq!(text(&said), format!("{part}: all is well\n"), "{options:?}");
    }
}

#[test]
fn no_more_of_large_memory_is_resident_than_the_limit() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let peak = |command: &mut Command| {
        let Output { status, stdout, stderr } = command.output().expect("it runs");
        assert!(status.success(), "{}", text(&stderr));
        number(&text(&stdout), "KiB at most") << 10
    };
    // What the program and the library have besides.
    let outside = peak(&mut run(&["-m", "16MiB"], &[&program, "fill", "1"]));
    const BYTES: u64 = 128 << 20;
    let paged = peak(&mut run(&["-m", "16MiB"], &[&program, "fill", "128"]));
    // Regions are made longer by as much as there is: at most twice what is used.
    let (limit, pages) = (16 << 20, 2 * BYTES / 4096);
    let bar = outside + limit + limit / 50 + 64 * pages;
    assert!(paged <= bar, "{paged} bytes, {bar} at most, {outside} without");
    let plain = peak(Command::new(&program).args(["fill", "128"]));
    assert!(plain > BYTES, "{plain} bytes without a limit");
}

#[test]
fn scripts_and_what_they_start_run_each_with_a_limit() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let script =
        format!("x=$(echo a | tr a b); {program} fill 3 >/dev/null; ({program} fill 2) | wc -l; exec {program} fill 4");
    let (said, told) = done(&["-m", "1MiB", "--stats"], &["sh", "-c", &script]);
    assert!(text(&said).starts_with("1\n") && text(&said).contains("KiB at most"), "{}", text(&said));
    assert!(told.contains("3 processes") && told.matches("forebay: process ").count() == 3, "{told}");
    let (_, told) = done(&["-m", "1MiB"], &["true"]);
    assert!(told.contains("nothing was paged"), "{told}");
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    if !can_page() {
        return;
    }
    let code = |program: &[&str]| run(&["-m", "1MiB"], program).status().expect("it runs").code();
    assert_eq!(code(&["sh", "-c", "exit 77"]), Some(77));
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(code(&["sh", "-c", "trap 'exit 5' TERM; kill -TERM $PPID; while :; do sleep 0.1; done"]), Some(5));
}

#[test]
fn what_cannot_be_run_so_is_refused_with_its_reason() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing").display().to_string();
    let existing = folder.path().join("there.parquet");
    std::fs::write(&existing, "x").expect("a file");
    let cases: [(&[&str], &str, i32, &str); 8] = [
        (&["-m", "4KiB"], "true", 2, "take 16 pages or more"),
        (&["-m", "1MiB", "--page-size", "5000"], "true", 2, "page"),
        (&["-m", "1MiB", "--policy", "opt"], "true", 2, "needs the future"),
        (&["-m", "1MiB", "--swap", &missing], "true", 2, "is no folder"),
        (&["-m", "1MiB", "--delay", "nothing"], "true", 2, "--delay nothing"),
        (&["-m", "1MiB", "--record", existing.to_str().expect("text")], "true", 1, "exists"),
        (&["-m", "1MiB"], "no-such-program", 127, "there is no such program"),
        (&["-m", "1MiB"], "/etc/passwd", 126, "it is not executable"),
    ];
    for (options, program, code, message) in cases {
        let Output { status, stderr, .. } = run(options, &[program]).output().expect("it runs");
        let said = text(&stderr);
        assert!(status.code() == Some(code) && said.contains(message), "{options:?} {program}: {status}: {said}");
    }
    let mut without = run(&["-m", "1MiB"], &["true"]);
    let Output { status, stderr, .. } = without.env("FOREBAY_PAGED_LIB", &missing).output().expect("it runs");
    assert!(status.code() == Some(1) && text(&stderr).contains("set FOREBAY_PAGED_LIB"));
}

#[test]
fn a_recording_has_what_the_policy_saw() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let out = folder.path().join("fill.parquet").display().to_string();
    let (_, said) = done(&["-m", "1MiB", "--record", &out], &[&program, "fill", "8"]);
    assert!(said.contains("now: forebay compare"), "{said}");
    let compared = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["compare", &out, "--policies", "lru,opt", "--sizes", "1MiB"])
        .output()
        .expect("it runs");
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    // 8 MiB are 2,048 pages.
    assert!(text(&compared.stdout).contains("to 2,0"), "{}", text(&compared.stdout));
}
