//! `forebay run`: programs do what they do without it, in less memory.

mod hung;
mod limits;
mod recordings;
#[path = "../command/running.rs"]
mod running;
mod signals;

use std::io::{BufRead, Write};
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

/// How long a command may take, in seconds, on a machine that has much else to do: longer than that, it hangs.
const PATIENCE: &str = "300";

/// A command that ends in time, whatever hangs.
fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "10", PATIENCE, env!("CARGO_BIN_EXE_forebay"), "run"]).args(options).arg("--").args(program);
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

/// Figures of each process, from the file of `--figures`.
#[track_caller]
fn figures_in(path: &str) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let figures = std::fs::read_to_string(path).expect("figures");
    serde_json::from_str(&figures).expect("JSON")
}

/// The C program of the tests' own that uses memory, built into a folder.
#[track_caller]
fn build(folder: &Path) -> String {
    build_named(folder, "memory")
}

#[track_caller]
fn build_named(folder: &Path, name: &str) -> String {
    let program = folder.join(name).display().to_string();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{name}.c"));
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
        ("mappings", &["-m", "1MiB"]),
        ("mappings", &["-m", "4MiB", "--page-size", "64KiB"]),
        ("forking", &["-m", "4MiB"]),
        ("forking", &["-m", "4MiB", "--page-size", "64KiB", "--policy", "lru"]),
    ] {
        let (said, _) = done(options, &[&program, part]);
        assert_eq!(text(&said), format!("{part}: all is well\n"), "{options:?}");
    }
}

#[test]
fn mappings_that_change_at_random_have_the_bytes_that_they_have_without_a_limit() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    for (seed, options) in [("1", &["-m", "2MiB"][..]), ("2", &["-m", "8MiB", "--page-size", "128KiB"])] {
        let part = ["change", seed, "300"];
        let Output { status, stdout, .. } = Command::new(&program).args(part).output().expect("it runs");
        assert!(status.success());
        let (said, _) = done(options, &[&[program.as_str()], &part[..]].concat());
        assert_eq!(text(&said), text(&stdout), "seed {seed}");
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
    let ways = ["malloc", "mmap", "mmap64", "mremap", "file"];
    let peaks = ways.map(|way| peak(&mut run(&["-m", "16MiB"], &[&program, "fill", "128", way])));
    let paged = peaks.into_iter().max().expect("there are several");
    // Regions are made longer by as much as there is: at most twice what is used.
    let (limit, pages) = (16 << 20, 2 * BYTES / 4096);
    let bar = outside + limit + limit / 50 + 64 * pages;
    assert!(paged <= bar, "{peaks:?} bytes of {ways:?}, {bar} at most, {outside} without");
    let plain = peak(Command::new(&program).args(["fill", "128"]));
    assert!(plain > BYTES, "{plain} bytes without a limit");
}

#[test]
fn files_that_are_mapped_privately_are_what_their_manual_says() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_named(folder.path(), "mapped");
    for part in ["reading", "writing", "parts", "forks", "many", "rounds 2000 1", "rounds 2000 4"] {
        let words: Vec<&str> = part.split(' ').collect();
        for options in [&["-m", "1MiB", "--policy", "lru"][..], &["-m", "4MiB", "--page-size", "64KiB"]] {
            let (said, _) = done(options, &[&[program.as_str()], &words[..]].concat());
            assert_eq!(text(&said), format!("{}: all is well\n", words[0]), "{options:?}");
        }
    }
}

#[test]
fn no_more_of_a_mapped_file_is_resident_than_the_limit() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let program = build_named(folder.path(), "mapped");
    let path = folder.path().join("data").display().to_string();
    let words = (0..8_u64 << 20).flat_map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_ne_bytes());
    std::fs::write(&path, words.collect::<Vec<u8>>()).expect("there is room");
    let figures = folder.path().join("figures.json").display().to_string();
    let summed = |megabytes: &str| {
        let (said, told) = done(&["-m", "16MiB", "--figures", &figures], &[&program, "sum", &path, megabytes]);
        let sum = text(&said).split(':').next().expect("a sum").to_owned();
        (sum, number(&text(&said), "KiB at most") << 10, told)
    };
    let (_, outside, _) = summed("1");
    let (sum, most, told) = summed("64");
    let plain = Command::new(&program).args(["sum", &path, "64"]).output().expect("it runs");
    assert_eq!(text(&plain.stdout).split(':').next(), Some(sum.as_str()));
    let (limit, pages) = (16 << 20, (64 << 20) / 4096);
    let bar = outside + limit + limit / 50 + 64 * pages;
    assert!(most <= bar, "{most} bytes, {bar} at most, {outside} without");
    assert!(number(&text(&plain.stdout), "KiB at most") << 10 > 64 << 20);
    let figures = figures_in(&figures);
    let count = |name: &str| figures[0][name].as_u64().expect("a count");
    // 16,384 pages twice, of which few stay; none is written. Most are read ahead. Whether a fault waits for the disk depends on how fast that is.
    assert!(count("file_read") > 24_000 && count("major") > 0, "{figures:?}");
    assert!(count("major") + count("minor") >= count("file_reads"), "each request is for a fault: {figures:?}");
    assert!(count("file_reads") >= count("file_read") / 32, "128 KiB are read at once at the most: {figures:?}");
    assert!(count("readahead_used") > 20_000, "what has been unmapped is counted: {figures:?}");
    assert_eq!([count("read"), count("written"), count("compulsory")], [0; 3]);
    assert!(told.contains("files: ") && told.contains("64 MiB allocated at most"), "{told}");
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
    let figures = folder.path().join("figures.json").display().to_string();
    let (said, told) = done(&["-m", "1MiB", "--stats", "--figures", &figures], &["sh", "-c", &script]);
    assert!(text(&said).starts_with("1\n") && text(&said).contains("KiB at most"), "{}", text(&said));
    assert!(told.contains("3 processes") && told.matches("forebay: process ").count() == 3, "{told}");
    let figures = figures_in(&figures);
    assert_eq!(figures.len(), 3, "{figures:?}");
    for of_one in &figures {
        let count = |name: &str| of_one[name].as_u64().expect("a count");
        // The sequences have all reads; each begins with one.
        let lengths = of_one.keys().filter(|name| name.starts_with("sequences"));
        let sequences: u64 = lengths.map(|name| count(name)).sum();
        assert!(0 < sequences && sequences <= count("reads") && count("reads") <= count("read"), "{of_one:?}");
        assert!(0 < count("writes") && count("writes") <= count("written"), "{of_one:?}");
        assert!(count("hand_millisteps") > 0, "CLOCK-Pro has hands: {of_one:?}");
    }
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
fn who_gives_up_rights_or_folders_keeps_its_memory_and_says_what_is_not_paged() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let empty = folder.path().join("empty").display().to_string();
    std::fs::create_dir(&empty).expect("a folder");
    // A folder of root's alone: no file can be made there later.
    let private = tempfile::tempdir().expect("a folder");
    let private = private.path().to_str().expect("text");
    for (what, swap) in [("rights", "/var/tmp"), ("rights", private), (&empty, "/var/tmp")] {
        let (said, told) = done(&["-m", "2MiB", "--swap", swap], &[&program, "lose", what]);
        assert_eq!(text(&said), format!("lost {what}: all is well\n"));
        // The child, that is.
        assert!(told.contains("its memory is not paged") && told.contains("major faults"), "{told}");
    }
    let mapped = build_named(folder.path(), "mapped");
    assert_eq!(text(&done(&["-m", "1MiB"], &[&mapped, "rights"]).0), "rights: all is well\n");
    for (limit, why) in [("-v 600000", "ulimit -v"), ("-f 1000", "File too large")] {
        let limited = format!("ulimit {limit}; exec {program} functions");
        let (said, told) = done(&["-m", "1MiB"], &["sh", "-c", &limited]);
        assert_eq!(text(&said), "functions: all is well\n");
        assert!(told.contains("its memory is not paged") && told.contains(why), "{told}");
        assert!(!told.contains("no memory in pieces"), "{told}");
    }
}

/// Whether this is root; elsewhere the test says that it is skipped, which CI does not.
fn is_root() -> bool {
    let root = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t"));
    if !root {
        let why = "skipped: it mounts a file system, changes its root and its user: that takes root\n";
        assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
        std::io::stderr().write_all(why.as_bytes()).expect("standard error can be written to");
    }
    root
}

#[test]
fn where_there_is_no_room_the_program_or_the_command_says_so() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let small = folder.path().join("small").display().to_string();
    std::fs::create_dir(&small).expect("a folder");
    // In a file system of its own, of 16 MiB: what is run there, and what is done before.
    let within = |options: &[&str], program: &[&str], before: &str| {
        let script =
            format!("mount -t tmpfs -o size=16m none {small} && export TMPDIR={small} && {before} exec \"$@\"");
        let mut unshared = Command::new("unshare");
        unshared.args(["-m", "sh", "-c", &script, "sh"]);
        let inner = run(options, program);
        unshared.arg(inner.get_program()).args(inner.get_args());
        unshared.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let Output { status, stderr, .. } = unshared.output().expect("it runs");
        (status.code(), text(&stderr))
    };
    let (code, said) = within(&["-m", "4MiB", "--swap", &small], &[&program, "fill", "8"], "");
    assert_eq!(code, Some(0), "{said}");
    // The program learns that there is no room when it asks for memory, and has what it had.
    for way in ["malloc", "mmap", "mremap"] {
        let (code, said) = within(&["-m", "4MiB", "--swap", &small], &[&program, "fill", "24", way], "");
        assert!(
            code == Some(1) && said.contains("Cannot allocate memory") && said.contains("swap space: No space left"),
            "{way}: {code:?} {said}"
        );
    }
    let again = "for _ in range(500):\n  try: bytearray(32 << 20)\n  except MemoryError: pass";
    let (code, said) = within(&["-m", "4MiB", "--swap", &small], &["/usr/bin/python3", "-c", again], "");
    assert_eq!((code, said.matches("there is no more memory").count()), (Some(0), 1), "{said}");
    let kept =
        format!("{program} fill 10; for round in 1 2 3; do {program} functions >/dev/null || exit 9; done; exec");
    let (code, said) =
        within(&["-m", "4MiB", "--swap", &small], &["sh", "-c", &format!("{kept} {program} fill 24")], "");
    assert!(code == Some(1) && said.contains("No space left"), "what is given back can be had again: {code:?} {said}");
    let (code, said) = within(&["-m", "4MiB", "--swap", &small], &[&program, "fill", "64", "noreserve"], "");
    assert!(
        code == Some(128 + 7) && said.contains("No space left") && said.contains("ended by SIGBUS"),
        "{code:?} {said}"
    );
    // What led to its end is in the figures.
    assert!(said.contains(", 1 with SIGBUS") && number(&said, "new page") > 3000, "{said}");
    let full = format!("dd if=/dev/zero of={small}/full 2>/dev/null;");
    let (code, said) = within(&["-m", "4MiB"], &["true"], &full);
    assert!(code == Some(125) && said.contains("there is no room for figures and messages"), "{code:?} {said}");
    // The file system is filled by the program itself, once there is room for messages.
    let filled = format!("dd if=/dev/zero of={small}/full bs=64k 2>/dev/null; exec {program} fill 8");
    let (code, said) = within(&["-m", "4MiB"], &["sh", "-c", &filled], "");
    assert!(code == Some(0) && said.contains("has no figures"), "{code:?} {said}");
}

#[test]
fn what_a_killed_command_leaves_is_removed_by_the_next() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let left = || std::fs::read_dir(folder.path()).expect("it is read").count();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["run", "-m", "1MiB", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    command.env("FOREBAY_PAGED_LIB", library()).env("TMPDIR", folder.path()).stdout(std::process::Stdio::piped());
    let mut killed = command.spawn().expect("it runs");
    let mut process = String::new();
    std::io::BufReader::new(killed.stdout.take().expect("a pipe")).read_line(&mut process).expect("it begins");
    killed.kill().expect("it can be killed");
    killed.wait().expect("it has been");
    assert!(Command::new("kill").arg(process.trim()).status().expect("it runs").success());
    assert_eq!(left(), 1);
    let status = run(&["-m", "1MiB"], &["true"]).env("TMPDIR", folder.path()).status().expect("it runs");
    assert!(status.success());
    assert_eq!(left(), 0);
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
    let cases: [(&[&str], &str, i32, &str); 10] = [
        (&["-m", "1MiB", "--recrod", "x"], "true", 2, "there is no option `--recrod`"),
        (&["-m", "64KiB"], "true", 2, "give at least 64 pages, 256 KiB, or smaller"),
        (&["-m", "31MiB", "--page-size", "512KiB"], "true", 2, "give at least 64 pages, 32 MiB, or smaller"),
        (&["-m", "1MiB", "--page-size", "5000"], "true", 2, "page"),
        (&["-m", "1MiB", "--policy", "opt"], "true", 2, "needs the future"),
        (&["-m", "1MiB", "--swap", &missing], "true", 2, "is no folder"),
        (&["-m", "1MiB", "--delay", "nothing"], "true", 2, "--delay nothing"),
        (&["-m", "1MiB", "--record", existing.to_str().expect("text")], "true", 125, "exists already: name another"),
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
    assert!(status.code() == Some(125) && text(&stderr).contains("set FOREBAY_PAGED_LIB"));
}

#[test]
fn figures_are_written_though_nobody_reads_the_line_at_the_end() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let figures = folder.path().join("figures.json").display().to_string();
    let mut command = run(&["-m", "1MiB", "--figures", &figures], &[&program, "fill", "4"]);
    let (read, written) = std::io::pipe().expect("a pipe");
    drop(read);
    let status = command.stdout(std::process::Stdio::null()).stderr(written).status().expect("it runs");
    assert!(status.success(), "{status}");
    assert_eq!(figures_in(&figures).len(), 1);
}
