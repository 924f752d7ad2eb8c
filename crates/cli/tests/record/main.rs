//! `forebay record`: real programs, recorded by strace and valgrind, and a real block device, by the kernel's tracepoints.
//!
//! What a machine does not have is skipped with a word, and is a failure where `CI` is set.

#[path = "../command/mod.rs"]
mod command;
mod devices;
#[path = "../command/running.rs"]
mod running;

use command::{answer, failure};
use running::{PATIENCE, wait_until};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whether the machine has a program; without one the test skips.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("sh runs");
    skip_unless(found.status.success(), &format!("{program} is not installed"))
}

fn skip_unless(there: bool, why: &str) -> bool {
    assert!(there || std::env::var_os("CI").is_none(), "{why}");
    if !there {
        eprintln!("skipped: {why}");
    }
    there
}

/// A folder of the test's own, which goes with it.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// `forebay record -o OUT …`, in a process group of its own, as a shell starts it.
fn record(out: &Path, arguments: &[&str]) -> Command {
    // A shell's background jobs, and so what they start, ignore SIGINT otherwise; under nohup SIGHUP.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP", env!("CARGO_BIN_EXE_forebay"), "record", "-o"]).arg(out).args(arguments);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for the end of a recording, which has written little.
#[track_caller]
fn ended(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("waited {} s for the end of a recording", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("it has ended")
}

fn signal(name: &str, target: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), "--", target]).status().expect("kill runs");
    assert!(sent.success(), "{name} to {target}");
}

/// What is in a recording: owner, object, offset, length, operation of each request.
fn rows(trace: &Path) -> Vec<[String; 5]> {
    let csv = trace.with_extension("read.csv");
    answer(&["convert", trace.to_str().unwrap(), csv.to_str().unwrap(), "--force"]);
    let mut reader = csv::Reader::from_path(csv).expect("the CSV is there");
    let headers = reader.headers().expect("it has a header").clone();
    let column = |name: &str| headers.iter().position(|header| header.starts_with(name)).expect("the column");
    let columns = ["owner", "object", "offset", "length", "operation"].map(column);
    reader.records().map(|row| columns.map(|column| row.as_ref().expect("a row")[column].to_owned())).collect()
}

/// The files beside the recording that are being written.
fn unfinished(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| [".tmp", ".spool"].iter().any(|end| path.to_string_lossy().ends_with(end))).collect()
}

#[test]
fn a_file_whose_end_is_never_read_is_read_ahead_to_its_end_in_a_forecast() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, data) = (folder.path().join("t.parquet"), folder.path().join("data"));
    fs::write(&data, vec![7; 10 * 4096]).unwrap();
    let read = format!("dd if={} of=/dev/null bs=4096 count=5 2>/dev/null", data.display());
    let output = ended(record(&out, &["--", "sh", "-c", &read]).spawn().expect("forebay runs"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let fetched = |trace: &Path| {
        let asked = ["compare", trace.to_str().unwrap(), "--files", data.to_str().unwrap(), "-p", "lru", "-s", "64"];
        let json = answer(&[&asked[..], &["--readahead", "linux:max=32", "-f", "json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        json[0]["runs"][0]["readahead"]["fetched"].as_u64().unwrap_or_else(|| panic!("{json}"))
    };
    assert_eq!(fetched(&out), 9, "all behind the first page");
    let csv = out.with_extension("csv");
    answer(&["convert", out.to_str().unwrap(), csv.to_str().unwrap()]);
    assert_eq!(fetched(&csv), 4, "a CSV file has no lengths: the file ends with what was read");
}

#[test]
fn a_program_is_recorded_with_its_children_and_keeps_its_input_output_and_exit_code() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, data, copy) = (folder.path().join("t.parquet"), folder.path().join("data"), folder.path().join("copy"));
    fs::write(&data, vec![7; 10_000]).unwrap();
    let script = format!(
        "read line; echo said $line; dd if={} of={} bs=4096 2>/dev/null; echo bad >&2; exit 7",
        data.display(),
        copy.display()
    );
    let mut command = record(&out, &["--", "sh", "-c", &script]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("forebay runs");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = ended(child);
    let err = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(7), "said hello\n"), "{err}");
    assert!(err.starts_with("bad\n") && err.contains("pages of 4 KiB, from the requests"), "{err}");
    assert!(err.ends_with(&format!("forebay: next: forebay compare {}\n", out.display())), "{err}");
    let rows = rows(&out);
    let seen = |path: &Path| -> Vec<String> {
        let of = rows.iter().filter(|row| Path::new(&row[1]) == path);
        of.map(|row| format!("{} {} {}+{}", row[0].split(' ').next().unwrap(), row[4], row[2], row[3])).collect()
    };
    assert_eq!(seen(&data), ["dd read 0+4096", "dd read 4096+4096", "dd read 8192+1808"]);
    assert_eq!(seen(&copy), ["dd write 0+4096", "dd write 4096+4096", "dd write 8192+1808"]);
    assert!(answer(&["compare", out.to_str().unwrap(), "-p", "lru", "-s", "50%"]).contains("lru"));
}

#[test]
fn every_format_that_is_written_can_be_recorded_and_mappings_count_if_asked() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    for name in ["t.csv.gz", "t.oracleGeneral", "t.lirs"] {
        let out = folder.path().join(name);
        let output = ended(record(&out, &["--", "cat", "/etc/passwd"]).spawn().unwrap());
        let err = text(&output.stderr);
        assert!(output.status.success(), "{err}");
        // What holds numbers of pages alone does not show their size.
        assert_eq!(err.contains("--page-size 4KiB"), name != "t.csv.gz", "{err}");
        assert!(answer(&["info", out.to_str().unwrap()]).contains("references"));
    }
    let bytes = |more: &[&str]| -> u64 {
        let out = folder.path().join("mapped.csv");
        ended(record(&out, &[more, &["--force", "--", "true"]].concat()).spawn().unwrap());
        rows(&out).iter().map(|row| row[3].parse::<u64>().unwrap()).sum()
    };
    assert!(bytes(&["--mapped"]) > 1_000_000 && bytes(&[]) < 100_000);
}

#[test]
fn what_cannot_be_recorded_is_said_before_anything_runs() {
    let folder = folder();
    let (ran, out, there) =
        (folder.path().join("ran"), folder.path().join("t.parquet"), folder.path().join("there.csv"));
    fs::write(&there, "kept").unwrap();
    let [ran, out, there] = [&ran, &out, &there].map(|path| path.to_str().unwrap());
    for (arguments, code, says) in [
        (&["-o", out, "--", "no-such-program"][..], 127, "there is no such program"),
        (&["-o", out, "--", "/etc/passwd"], 126, "it is not executable"),
        (&["-o", there, "--", "touch", ran], 125, "exists already; --force replaces it"),
        (&["-o", "t.xyz", "--", "touch", ran], 125, "its name does not say the format"),
        (&["-o", "/nowhere/t.csv", "--", "touch", ran], 125, "there is no folder /nowhere"),
        (&["-o", out, "--page-size", "5000", "--", "touch", ran], 125, "is no page size"),
        (&["-o", out, "--pid", "4194304"], 125, "there is no such process"),
        (&["-o", out, "--blocks", "/etc/passwd"], 125, "is no block device"),
        (&["-o", out], 2, "required"),
        (&["-o", out, "--memory", "--pid", "1"], 2, "cannot be used with"),
        (&["-o", out, "--duration", "soon", "--", "touch", ran], 2, "is no time"),
    ] {
        let message = failure(&[&["record"], arguments].concat(), code);
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
    assert!(!Path::new(ran).exists() && !Path::new(out).exists());
    assert_eq!(fs::read_to_string(there).unwrap(), "kept");
    let mut bare = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output = bare.env("PATH", folder.path()).args(["record", "-o", out, "--", "/bin/true"]).output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(125) && err.contains("apt install strace"), "{err}");
}

#[test]
fn where_tracing_is_forbidden_the_failure_says_so() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let out = folder.path().join("t.parquet");
    // What is traced cannot trace.
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-o", "/dev/null", env!("CARGO_BIN_EXE_forebay"), "record", "-o"])
        .arg(&out)
        .args(["--", "true"]);
    let output = traced.output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{err}");
    assert!(err.contains("Operation not permitted") && err.contains("--cap-add=SYS_PTRACE"), "{err}");
    assert!(!out.exists() && unfinished(folder.path()).is_empty());
}

/// A shell's program that reads a file again and again for half a minute, and makes the file `on` each time.
fn reading(on: &Path, trap: &str) -> String {
    let on = on.display();
    format!("trap '{trap}' INT; for i in $(seq 600); do cat /etc/passwd >/dev/null; touch {on}; sleep 0.05; done")
}

/// Whether a recording holds references to a file.
fn holds(out: &Path, object: &str) -> bool {
    rows(out).iter().any(|row| row[1] == object)
}

#[test]
fn ctrl_c_is_for_the_program_and_a_second_one_for_all_that_it_started() {
    if !has("strace") {
        return;
    }
    // A program that dies of it, one that ends in its own way, and one that goes on.
    for (name, trap, code) in [("dies", "-", 130), ("ends", "cat /etc/group >/dev/null; exit 5", 5), ("stays", "", 137)]
    {
        let folder = folder();
        let (out, on) = (folder.path().join("t.parquet"), folder.path().join("on"));
        let mut child = record(&out, &["--", "sh", "-c", &reading(&on, trap)]).spawn().unwrap();
        let group = format!("-{}", child.id());
        wait_until("the program runs", || on.exists());
        signal("INT", &group);
        if name == "stays" {
            fs::remove_file(&on).unwrap();
            wait_until("the program is seen to go on", || on.exists());
            assert!(child.try_wait().unwrap().is_none());
            signal("INT", &group);
        }
        let output = ended(child);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        assert!(holds(&out, "/etc/passwd"), "{name}");
        assert_eq!(holds(&out, "/etc/group"), name == "ends");
        assert!(unfinished(folder.path()).is_empty());
        fs::remove_file(&on).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(!on.exists(), "{name}: the program goes on");
    }
}

#[test]
fn a_recording_is_whole_when_its_program_or_it_is_ended() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let on = folder.path().join("on");
    let program = reading(&on, "-");
    let out = |name: &str| folder.path().join(name);
    let shell = ["--", "sh", "-c"];
    // By a signal of its own, by a limit and after a time; without these, by SIGTERM.
    for (name, more, program, code) in [
        ("dies", &[][..], "cat /etc/passwd >/dev/null; kill -SEGV $$", 139),
        ("limit", &["--limit", "40"], &program, 0),
        ("time", &["--duration", "700ms"], &program, 0),
    ] {
        let out = out(&format!("{name}.parquet"));
        let output = ended(record(&out, &[more, &shell, &[program]].concat()).spawn().unwrap());
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        assert!(holds(&out, "/etc/passwd"), "{name}");
    }
    assert_eq!(rows(&out("limit.parquet")).len(), 40);
    fs::remove_file(&on).unwrap();
    let child = record(&out("term.csv"), &[&shell[..], &[&program]].concat()).spawn().unwrap();
    wait_until("the program runs", || on.exists());
    signal("TERM", &child.id().to_string());
    assert_eq!(ended(child).status.code(), Some(143));
    assert!(holds(&out("term.csv"), "/etc/passwd") && unfinished(folder.path()).is_empty());
}

#[test]
fn a_killed_recorder_leaves_no_file_under_the_name_and_the_next_one_clears_what_it_left() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, on) = (folder.path().join("t.csv"), folder.path().join("on"));
    // It ends by itself: without its recorder its calls fail.
    let program = format!("cat /etc/passwd >/dev/null; touch {}; sleep 2", on.display());
    let child = record(&out, &["--", "sh", "-c", &program]).spawn().unwrap();
    wait_until("the program runs", || on.exists());
    signal("KILL", &child.id().to_string());
    ended(child);
    assert!(!out.exists() && unfinished(folder.path()).len() == 1);
    // What another writes at this time stays: it is locked.
    let others = folder.path().join("t.csv.1.tmp");
    let held = fs::File::create(&others).unwrap();
    held.lock().unwrap();
    let output = ended(record(&out, &["--", "cat", "/etc/passwd"]).spawn().unwrap());
    assert!(output.status.success() && holds(&out, "/etc/passwd"), "{}", text(&output.stderr));
    assert_eq!(unfinished(folder.path()), [others]);
}

#[test]
fn a_recording_replaces_none_that_was_finished_meanwhile_unless_it_is_forced() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, on, go) = (folder.path().join("t.csv"), folder.path().join("on"), folder.path().join("go"));
    let program = format!(
        "touch {}; for i in $(seq 600); do test -e {} && break; sleep 0.05; done; cat /etc/group >/dev/null",
        on.display(),
        go.display()
    );
    let during = |more: &[&str]| {
        let child = record(&out, &[more, &["--", "sh", "-c", &program]].concat()).spawn().unwrap();
        wait_until("the program runs", || on.exists());
        let output = ended(record(&out, &["--force", "--", "cat", "/etc/passwd"]).spawn().unwrap());
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::write(&go, "").unwrap();
        let output = ended(child);
        [&on, &go].iter().for_each(|path| fs::remove_file(path).unwrap());
        assert!(unfinished(folder.path()).is_empty());
        (output.status.code(), text(&output.stderr))
    };
    for number in [2, 3] {
        let kept = folder.path().join(format!("{number}-t.csv"));
        let (code, err) = during(&[]);
        let says =
            format!("t.csv: was made by another meanwhile, and stays; this trace is kept as {}\n", kept.display());
        assert!(code == Some(125) && err.ends_with(&says), "{err}");
        assert!(holds(&out, "/etc/passwd") && !holds(&out, "/etc/group"));
        assert!(holds(&kept, "/etc/group"));
        fs::remove_file(&out).unwrap();
    }
    let (code, err) = during(&["--force"]);
    assert!(code == Some(0) && holds(&out, "/etc/group"), "{err}");
}

#[test]
fn a_full_disk_loses_the_recording_and_not_the_program() {
    if !(has("strace") && skip_unless(is_root(), "only root mounts a small disk")) {
        return;
    }
    let folder = folder();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let (done, disk) = (folder.path().join("done"), disk.display());
    let mount = format!("mount -t tmpfs -o size=16k tmpfs {disk} && exec \"$@\"");
    let program = format!("for i in $(seq 2000); do read line </etc/passwd; done; echo x > {}; exit 3", done.display());
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        &mount,
        "sh",
        env!("CARGO_BIN_EXE_forebay"),
        "record",
        "-o",
        &format!("{disk}/t.csv"),
    ]);
    let child = command.args(["--", "sh", "-c", &program]).stderr(Stdio::piped()).spawn().unwrap();
    let output = ended(child);
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(125) && err.contains("the program goes on: "), "{err}");
    assert!(err.contains("No space left") && done.exists(), "{err}");
}

fn is_root() -> bool {
    text(&Command::new("id").arg("-u").output().expect("id runs").stdout).trim() == "0"
}

/// Whether a process is traced.
fn traced(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
}

#[test]
fn a_process_that_runs_is_recorded_and_goes_on() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, on) = (folder.path().join("t.parquet"), folder.path().join("on"));
    let program = Command::new("sh").args(["-c", &reading(&on, "-")]).spawn().map(Program).unwrap();
    let pid = program.0.id().to_string();
    for way in ["time", "Ctrl-C"] {
        let more: &[&str] = if way == "time" { &["--duration", "700ms"] } else { &[] };
        let child = record(&out, &[&["--force", "--pid", &pid], more].concat()).spawn().unwrap();
        if way == "Ctrl-C" {
            wait_until("the process is traced", || traced(&pid));
            fs::remove_file(&on).unwrap();
            wait_until("it has read", || on.exists());
            signal("INT", &format!("-{}", child.id()));
        }
        let output = ended(child);
        let err = text(&output.stderr);
        assert!(holds(&out, "/etc/passwd"), "{way}: {err}");
        assert_eq!(output.status.code(), Some(0), "{way}: {err}");
        fs::remove_file(&on).unwrap();
        wait_until("the process is seen to go on", || on.exists());
    }
}

#[test]
fn a_process_that_cannot_be_recorded_is_said_with_its_reason() {
    if !has("strace") {
        return;
    }
    let folder = folder();
    let (out, on) = (folder.path().join("t.parquet"), folder.path().join("on"));
    let refused = |process: &Program| {
        let output = ended(record(&out, &["--pid", &process.0.id().to_string()]).spawn().unwrap());
        assert!(output.status.code() == Some(125) && !out.exists());
        text(&output.stderr)
    };
    let program = Command::new("sh").args(["-c", &reading(&on, "-")]).spawn().map(Program).unwrap();
    wait_until("the program runs", || on.exists());
    let pid = program.0.id().to_string();
    let _tracer = Command::new("strace").args(["-q", "-o", "/dev/null", "-p", &pid]).spawn().map(Program).unwrap();
    wait_until("it is traced", || traced(&pid));
    let err = refused(&program);
    assert!(err.contains(": strace ") && err.contains(" traces it already"), "{err}");
    // It is there until it is waited for.
    let ended = Command::new("true").spawn().map(Program).unwrap();
    let stat = format!("/proc/{}/stat", ended.0.id());
    wait_until("it has ended", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(" Z ")));
    let err = refused(&ended);
    assert!(err.contains("there is no such process"), "{err}");
    // One that ends without a call that is recorded.
    let idle = Command::new("sleep").arg("60").spawn().map(Program).unwrap();
    let pid = idle.0.id().to_string();
    let output = self::ended(record(&out, &["--pid", &pid, "--duration", "300ms"]).spawn().unwrap());
    let none = format!("forebay: process {pid} used no file in that time\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(125), none));
    let child = record(&out, &["--pid", &pid]).spawn().unwrap();
    wait_until("it is traced", || traced(&pid));
    drop(idle);
    let output = self::ended(child);
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(125) && err.contains("has ended, and was not seen to"), "{err}");
}

#[test]
fn where_a_process_may_not_be_traced_the_failure_says_so() {
    if !(has("strace") && has("setpriv") && skip_unless(is_root(), "only root can drop the right to trace")) {
        return;
    }
    let folder = folder();
    let idle = Command::new("sleep").arg("60").spawn().map(Program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_ptrace", env!("CARGO_BIN_EXE_forebay"), "record", "-o"]);
    command.arg(folder.path().join("t.parquet")).args(["--pid", &idle.0.id().to_string(), "--duration", "5s"]);
    let output = ended(command.stderr(Stdio::piped()).spawn().unwrap());
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{err}");
    assert!(err.contains("Operation not permitted") && err.contains("needs root"), "{err}");
}

/// A program that is killed when it is dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn memory_is_recorded_in_pages_that_the_trace_keeps() {
    if !has("valgrind") {
        return;
    }
    let folder = folder();
    let out = folder.path().join("t.parquet");
    let output = ended(record(&out, &["--memory", "--", "sh", "-c", "exit 9"]).spawn().unwrap());
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{err}");
    assert!(err.contains("pages of 4 KiB: "), "{err}");
    let rows = rows(&out);
    assert!(rows.len() > 1000 && rows.iter().any(|row| row[4] == "write"));
    // What only reads the page referenced last is left out.
    let pages = |row: &[String; 5]| {
        let [offset, length] = [2, 3].map(|column| row[column].parse::<u64>().unwrap());
        [offset / 4096, (offset + length - 1) / 4096]
    };
    let repeats = |pair: &[[String; 5]]| pair[1][4] == "read" && pages(&pair[1]) == [pages(&pair[0])[1]; 2];
    assert!(!rows.windows(2).any(repeats));
    assert!(!answer(&["info", out.to_str().unwrap()]).contains("from the requests"));
}

#[test]
fn compare_records_and_says_how_to_keep_the_recording() {
    let refused = failure(&["compare", "--record"], 2);
    assert!(refused.contains("--record needs a program"), "{refused}");
    if !has("strace") {
        return;
    }
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args([
        "compare",
        "--record",
        "-p",
        "lru,opt",
        "-s",
        "50%",
        "-f",
        "csv",
        "--",
        "sh",
        "-c",
        "cat /etc/passwd; exit 3",
    ]);
    let output = command.env("TMPDIR", folder.path()).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("/sh.parquet,lru,"), "{out}{err}");
    // Standard output holds the answer alone.
    assert!(out.starts_with("trace,policy,") && err.contains("root:"), "{out}{err}");
    assert!(err.contains("sh ended with exit code 3"), "{err}");
    let kept = err
        .lines()
        .find_map(|line| line.strip_prefix("forebay: to keep the recording: mv ")?.strip_suffix(" ."))
        .expect("a word");
    assert!(Path::new(kept).starts_with(folder.path()) && holds(Path::new(kept), "/etc/passwd"));
}
