//! `forebay mount` as its users meet it: in the background and in the foreground, stopped, killed, steered and recorded.

mod full;
mod fuse_device;
mod hung;
mod inherited;
mod managers;
mod mapped;
mod nested;
mod permissions;
#[path = "../command/running.rs"]
mod running;
mod several;

use running::{PATIENCE, can_mount, lines_of, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().expect("forebay runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a source and a place to mount it.
struct Folder(tempfile::TempDir);

impl Drop for Folder {
    /// Nothing that is still mounted in the folder keeps it from being removed.
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let points = mounts.lines().rev().filter_map(|mount| mount.split(' ').nth(4));
        for point in points.filter(|point| Path::new(point).starts_with(self.0.path())) {
            let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

impl Folder {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        ["source", "seen"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).expect("a folder"));
        can_mount().then_some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The program where every user can run it.
    fn program(&self) -> PathBuf {
        let program = self.path("forebay");
        if !program.exists() && fs::hard_link(env!("CARGO_BIN_EXE_forebay"), &program).is_err() {
            // By a process of its own: a program that another test starts at this moment would have a copy of this one's descriptor, and
            // what is open for writing cannot run.
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_forebay")).arg(&program).status();
            assert!(copied.expect("cp runs").success());
        }
        program
    }

    /// A user owns the folder, the source and the place to mount it.
    fn belongs_to(&self, user: u32) {
        let own = |name: &str| std::os::unix::fs::chown(self.path(name), Some(user), Some(user)).expect("root may");
        ["", "source", "seen"].into_iter().for_each(own);
    }

    fn is_mounted(&self) -> bool {
        self.is_mounted_at("seen")
    }

    fn is_mounted_at(&self, name: &str) -> bool {
        let at = format!(" {} ", self.text(name));
        // The thread may have mounts of its own.
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        mounts.lines().any(|mount| mount.contains(&at) && mount.contains(" - fuse.forebay "))
    }

    /// Unmounts it, as any user does.
    fn unmount(&self) -> bool {
        self.unmount_at("seen")
    }

    fn unmount_at(&self, name: &str) -> bool {
        let mut failed = String::new();
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let done = Command::new("fusermount3").arg("-u").arg(self.path(name)).output().expect("fusermount3 runs");
            failed = text(&done.stderr);
            // A program that another test is starting has copies of this one's descriptors for a moment.
            if !failed.contains("busy") {
                return done.status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it is busy for {PATIENCE:?}: {failed}");
    }

    /// Mounts it in the foreground, and waits until it is.
    #[track_caller]
    fn mount(&self, arguments: &[&str]) -> Running<'_> {
        self.mount_by(&mut Command::new(env!("CARGO_BIN_EXE_forebay")), arguments)
    }

    /// The same by a command that runs forebay.
    #[track_caller]
    fn mount_by(&self, command: &mut Command, arguments: &[&str]) -> Running<'_> {
        command.args(["mount", &self.text("source"), &self.text("seen"), "--foreground"]).args(arguments);
        let mut running = Running { folder: self, process: running::Running::start(command) };
        running.wait_for("is mounted on");
        running
    }
}

/// A mount in the foreground.
struct Running<'f> {
    folder: &'f Folder,
    process: running::Running,
}

impl Running<'_> {
    /// Waits until the log has this text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        self.process.wait_for_once(text);
    }

    fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Waits until it has ended; its exit code.
    #[track_caller]
    fn end(mut self) -> Option<i32> {
        self.process.end()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // After a test that failed.
        if !self.process.has_ended() {
            let _ = self.process.child.kill();
            for name in ["above", "seen", "other-seen"].into_iter().filter(|name| self.folder.is_mounted_at(name)) {
                let _ = Command::new("umount").arg("-l").arg(self.folder.path(name)).status();
            }
        }
    }
}

#[test]
fn it_goes_to_the_background_once_mounted_and_an_unmount_flushes() {
    let Some(folder) = Folder::new() else { return };
    let log = folder.text("log");
    let [source, seen] = ["source", "seen"].map(|name| folder.text(name));
    let mounted = forebay(&["mount", &source, &seen, "--cache", "1MiB", "--policy", "ubm", "--log-file", &log]);
    assert!(mounted.status.success() && folder.is_mounted(), "{}", text(&mounted.stderr));
    fs::write(folder.path("seen/file"), [7; 100_000]).expect("a file");
    folder.unmount();
    wait_until("everything is flushed", || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("stopped: everything is flushed"))
    });
    assert!(fs::read(folder.path("source/file")).expect("a read below") == [7; 100_000]);
    assert!(text(&fs::read(&log).expect("a log")).contains("behind 1 MiB under ubm"));
}

#[test]
fn sigterm_unmounts_flushes_and_does_not_wait_for_ever_for_who_stays() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.mount(&["--dirty-age", "1h"]);
    fs::write(folder.path("seen/file"), [7; 100_000]).expect("a file");
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    assert!(!folder.is_mounted() && fs::read(folder.path("source/file")).expect("a read below") == [7; 100_000]);

    let running = folder.mount(&["--dirty-age", "1h"]);
    let mut stays = File::create(folder.path("seen/open")).expect("a file");
    stays.write_all(&[8; 100_000]).expect("a write");
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    assert!(!folder.is_mounted() && fs::read(folder.path("source/open")).expect("a read below") == [8; 100_000]);
    stays.write_all(b"more").expect_err("it would be lost");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let Some(folder) = Folder::new() else { return };
    let [source, seen] = ["source", "seen"].map(|name| folder.text(name));
    fs::create_dir(folder.path("source/inner")).expect("a folder");
    fs::write(folder.path("file"), b"cache = \"much\"").expect("a file");
    fs::create_dir_all(folder.path("full/of")).expect("folders");
    let [inner, missing, file, full] = ["source/inner", "missing", "file", "full"].map(|name| folder.text(name));
    let inside = folder.text("seen/socket");
    let managed = |more: &[&'static str]| [&[&*source, &*seen, "--policy", "lru-sp"], more].concat();
    for foreground in [&[][..], &["--foreground"]] {
        for (arguments, code, message) in [
            (managed(&["--managers", "/dev/zero"]), 2, "rules are a regular file of at most 1 MiB"),
            (managed(&["--manager-socket", "m", "--owners", "program"]), 2, "take --owners process or user"),
            (vec![&*source, &*seen, "--control", &*inside], 2, "it lies below the mount point"),
            (vec![&*source, &*inner], 2, "it would show itself"),
            (vec![&*inner, &*source], 2, "nobody would see it any more"),
            (vec![&*source, &*source], 2, "is the source and the mount point"),
            (vec![&*source, &*full], 2, "is not empty"),
            (vec![&*missing, &*seen], 1, "missing: the source: No such file"),
            (vec![&*source, &*missing], 1, "missing: the mount point: No such file"),
            (vec![&*file, &*seen], 2, "the source must be a directory"),
            (vec![&*source, &*seen, "--policy", "lruu"], 2, "there is no policy `lruu`"),
            (vec![&*source, &*seen, "--cache", "1TiB"], 2, "make --cache smaller"),
            (vec![&*source, &*seen, "--page", "5000"], 2, "page"),
            (vec![&*source, &*seen, "--page", "3"], 2, "a page of 3 bytes: it is a power of two from 4 KiB to 2 MiB"),
            (vec![&*source, &*seen, "--config", &*file], 2, "line 1, `cache = \"much\"`"),
            (vec![&*source, &*seen, "--delay", "floppy"], 2, "there is no such device"),
            (vec![&*source, &*seen, "--manager-socket", "managers"], 2, "clock-pro: it takes no managers: run lru-sp"),
            (vec![&*source, &*seen, "--record", "trace.txt"], 2, "let its name end in .parquet or .csv"),
        ] {
            let refused = forebay(&[&["mount"][..], &arguments, foreground].concat());
            let said = text(&refused.stderr);
            assert!(refused.status.code() == Some(code) && said.contains(message), "{arguments:?}: {said}");
            assert!(!folder.is_mounted(), "{arguments:?}");
        }
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = forebay(&["mount", &source, &seen, "--foreground", "--metrics", &address]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains(&format!("--metrics {address}: Address")), "{said}");
    assert!(!said.contains("mounted"), "it is not mounted to begin with: {said}");
    let sockets = ["--policy", "lru-sp", "--manager-socket", "/no/such/folder/socket"];
    let refused = forebay(&[&["mount", &source, &seen, "--foreground"][..], &sockets].concat());
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("/no/such/folder/socket"), "{said}");
    assert!(!said.contains("is flushed") && !folder.is_mounted(), "a start that fails is no stop: {said}");
    let running = folder.mount(&[]);
    // One that does not answer is not asked.
    running.signal("STOP");
    let twice = forebay(&["mount", &source, &seen]);
    running.signal("CONT");
    let said = text(&twice.stderr);
    assert!(twice.status.code() == Some(2) && said.contains("is mounted on") && said.contains("already"), "{said}");
    assert!(said.contains("fusermount3 -u") && said.contains("umount -f"), "{said}");
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn what_else_is_mounted_at_the_same_path_stays() {
    let Some(folder) = Folder::new() else { return };
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).arg(folder.path("seen")).status();
        assert!(done.expect("it runs").success(), "{program}");
    };
    let mount_another = || run("mount", &["-t", "tmpfs", "another"]);
    let mounts = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        mounts.lines().filter(|mount| mount.contains(&folder.text("seen"))).count()
    };
    mount_another();
    for signal in [false, true] {
        let running = folder.mount(&[]);
        assert_eq!(mounts(), 2);
        if signal {
            running.signal("TERM");
        } else {
            assert!(folder.unmount());
        }
        assert_eq!(running.end(), Some(0));
        assert_eq!(mounts(), 1, "what lies below is there, after a signal: {signal}");
    }
    run("umount", &[]);

    let mut running = folder.mount(&["--dirty-age", "1h"]);
    fs::write(folder.path("seen/file"), [7; 100_000]).expect("a file");
    mount_another();
    running.signal("TERM");
    running.wait_for("another mount lies over it");
    assert_eq!(running.end(), Some(1));
    assert!(fs::read(folder.path("source/file")).expect("a read below") == [7; 100_000]);
    fs::write(folder.path("seen/file"), "above").expect("what lies above is there");
    run("umount", &[]);
    run("umount", &[]);
    assert_eq!(mounts(), 0);
}

#[test]
fn a_recording_is_replayed_with_what_the_mount_read_ahead() {
    let Some(folder) = Folder::new() else { return };
    let trace = folder.text("trace.parquet");
    fs::write(folder.path("source/file"), vec![7; 1 << 20]).expect("a file below");
    let running = folder.mount(&["--cache", "4MiB", "--policy", "lru", "--readahead", "64KiB", "--record", &trace]);
    let file = File::open(folder.path("seen/file")).expect("it opens");
    for page in 0..256 {
        file.read_exact_at(&mut [0; 4096], page * 4096).expect("a read");
    }
    drop(file);
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    let compared = |more: &[&str]| {
        let done = forebay(&[&["compare", &trace, "-p", "lru,opt", "-s", "2MiB"][..], more].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    let said = compared(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let mount = "at first a cache of 4 MiB (3.9 MiB for its policy), under lru, write-back, readahead linux:max=64KiB";
    assert!(said.contains(&format!("recorded by forebay mount: {mount}; replayed with the same")), "{said}");
    assert!(said.contains("(--readahead none has it): opt"), "{said}");
    let answer = |more: &[&str]| {
        let all: serde_json::Value = serde_json::from_str(&compared(&[more, &["-f", "json"]].concat())).expect("JSON");
        all[0].clone()
    };
    let [same, without] = [answer(&[]), answer(&["--readahead", "none"])];
    assert_eq!((&same["readahead"], &same["left_out"]), (&"linux:max=64KiB".into(), &vec!["opt"].into()));
    assert_eq!((&without["readahead"], &without["left_out"]), (&"none".into(), &Vec::<&str>::new().into()));
    // All but the first pages of the file come before they are asked for; without readahead each misses.
    let hits = |answer: &serde_json::Value| answer["runs"][0]["counted"]["hits"].as_u64().expect("a count");
    assert!(hits(&same) > 240 && hits(&without) == 0, "{same} {without}");
}

#[test]
fn a_running_mount_is_steered_measured_and_recorded() {
    let Some(folder) = Folder::new() else { return };
    let [socket, trace, source] = ["socket", "trace.csv", "source"].map(|name| folder.text(name));
    let mut running = folder.mount(&[
        "--cache",
        "8MiB",
        "--policy",
        "lru",
        "--readahead",
        "0",
        "--control",
        &socket,
        "--record",
        &trace,
        "--metrics",
        "127.0.0.1:0",
    ]);
    let address = &running.process.figures_at();
    fs::create_dir(folder.path("seen/folder")).expect("a folder");
    fs::write(folder.path("seen/folder/file"), [7; 40_960]).expect("a file");
    let read = || assert_eq!(fs::read(folder.path("seen/folder/file")).expect("a read").len(), 40_960);
    read();
    let control = |arguments: &[&str]| {
        let done = forebay(&[&["control", "--socket", &socket][..], arguments].concat());
        (done.status.code(), text(&done.stdout) + &text(&done.stderr))
    };
    let (code, said) = control(&["flush"]);
    assert!(code == Some(0) && said.contains("all files: durable"), "{said}");
    assert_eq!(fs::metadata(folder.path("source/folder/file")).expect("attributes below").len(), 40_960);
    let (code, said) = control(&["drop", &source]);
    assert!(code == Some(0) && said.contains("40 KiB of clean pages"), "{said}");
    read();
    let (code, said) = control(&["resize", "shared", "4MiB"]);
    assert!(code == Some(0) && said.contains("it has 4 MiB now"), "{said}");
    let winding = folder.text("seen/../source/.");
    for volume in [&*source, &*winding] {
        let (code, said) = control(&["flush", volume]);
        assert!(code == Some(0) && said.contains("all files: durable"), "{said}");
        let (code, said) = control(&["drop", volume]);
        assert!(code == Some(0) && said.contains("of clean pages have left"), "{said}");
    }
    read();
    let (code, said) = control(&["flush", "other"]);
    assert!(code == Some(2) && said.contains("there is no volume `other`"), "{said}");
    let (code, said) = control(&["detach", &source]);
    assert!(code == Some(2) && said.contains("is not for a mounted directory"), "{said}");
    let (code, said) = control(&["reload"]);
    assert!(code == Some(2) && said.contains("there is no file to read again"), "{said}");
    let (_, rows) = control(&["statistics", "--format", "csv"]);
    assert!(rows.starts_with("volume,cache,size_bytes,hit_ratio,"), "{rows}");
    let (_, refused) = control(&["flush", "--format", "csv"]);
    assert!(refused.contains("--format csv is for `statistics`"), "{refused}");
    let (_, figures) = control(&["statistics", "--format", "json"]);
    assert!(figures.contains(&format!("\"capacity\":{}", 4 << 20)), "the cache keeps its size: {figures}");
    let top = forebay(&["top", address, "--format", "csv"]);
    let figures = text(&top.stdout);
    assert!(figures.contains(&source) && figures.lines().count() == 2, "{figures}");
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    let recorded = fs::read_to_string(&trace).expect("a trace");
    let lines = |operation: &str| {
        let of = |line: &&str| line.contains("folder/file") && line.contains(operation);
        recorded.lines().filter(of).count()
    };
    // As many requests as the kernel makes of each.
    assert!(lines("write") >= 1 && lines("read") >= 2, "{recorded}");
    assert!(recorded.contains(&format!(" {}", std::process::id())), "the owner is this process:\n{recorded}");
    let compared = forebay(&["compare", &trace, "-p", "lru", "-s", "64KiB", "--page-size", "4KiB"]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
}

#[test]
fn many_known_files_need_few_descriptors() {
    const FILES: usize = 1000;
    let Some(folder) = Folder::new() else { return };
    (0..FILES).for_each(|name| fs::write(folder.path(&format!("source/{name}")), name.to_string()).expect("a file"));
    let mut limited = Command::new("prlimit");
    let running = folder.mount_by(limited.args(["--nofile=200:200", env!("CARGO_BIN_EXE_forebay")]), &[]);
    for _ in 0..2 {
        for name in 0..FILES {
            let read = fs::read_to_string(folder.path(&format!("seen/{name}"))).expect("a read");
            assert_eq!(read, name.to_string());
        }
    }
    for name in 0..FILES {
        fs::write(folder.path(&format!("seen/{name}")), format!("{name} again")).expect("a file");
    }
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    let below = |name: &usize| fs::read_to_string(folder.path(&format!("source/{name}"))).expect("a read below");
    assert!((0..FILES).all(|name| below(&name) == format!("{name} again")));
}

#[test]
fn a_disk_s_delay_is_felt_by_misses() {
    let Some(folder) = Folder::new() else { return };
    for name in 0..10 {
        fs::write(folder.path(&format!("source/{name}")), [7; 4096]).expect("a file");
    }
    let running = folder.mount(&["--delay", "nearline", "--readahead", "0"]);
    let read = || {
        let begun = Instant::now();
        (0..10).for_each(|name| assert!(fs::read(folder.path(&format!("seen/{name}"))).is_ok()));
        begun.elapsed()
    };
    // Ten files in ten places: the head moves, and the disk turns.
    assert!(read() > Duration::from_millis(20));
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn what_was_synced_survives_a_kill_of_the_mount() {
    let Some(folder) = Folder::new() else { return };
    for round in 0..3u8 {
        let running = folder.mount(&["--cache", "1MiB", "--dirty-age", "1h"]);
        for name in 0..20u8 {
            let mut file = File::create(folder.path(&format!("seen/{name}"))).expect("a file");
            file.write_all(&[name ^ round; 30_000]).expect("a write");
            if name % 2 == 0 {
                file.sync_all().expect("a flush");
            }
        }
        running.signal("KILL");
        assert_eq!(running.end(), None);
        folder.unmount();
        let running = folder.mount(&[]);
        for name in (0..20u8).step_by(2) {
            let bytes = fs::read(folder.path(&format!("seen/{name}"))).expect("a read");
            assert!(bytes == [name ^ round; 30_000], "round {round}: file {name}");
        }
        running.signal("TERM");
        assert_eq!(running.end(), Some(0));
    }
}

#[test]
fn sqlite_loses_no_commit_when_the_mount_is_killed() {
    const ROUNDS: usize = 4;
    let Some(folder) = Folder::new() else { return };
    if Command::new("sqlite3").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "sqlite3 is missing, and CI skips nothing");
        std::io::stderr().write_all(b"skipped: sqlite3 is missing\n").expect("standard error can be written to");
        return;
    }
    let query = |database: &Path, query: &str| {
        let done = Command::new("sqlite3").arg(database).arg(query).output().expect("sqlite3 runs");
        text(&done.stdout) + &text(&done.stderr)
    };
    let mut next = 0u64;
    for (round, journal) in ["delete", "wal"].iter().cycle().take(ROUNDS).enumerate() {
        let running = folder.mount(&["--cache", "256KiB", "--policy", "clock-pro"]);
        let made = format!("PRAGMA journal_mode={journal}; CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, b);");
        query(&folder.path("seen/db"), &made);
        let mut sqlite = Command::new("sqlite3")
            .arg("-batch")
            .arg(folder.path("seen/db"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sqlite3 runs");
        let (mut commands, answers) = (sqlite.stdin.take().expect("piped"), sqlite.stdout.take().expect("piped"));
        let committed = lines_of(answers);
        let first = next;
        let writer = std::thread::spawn(move || {
            for number in first..first + 100_000 {
                let insert = format!("INSERT INTO t VALUES({number}, zeroblob(3000)); SELECT {number};\n");
                if commands.write_all(insert.as_bytes()).is_err() {
                    break;
                }
            }
        });
        let wanted = first + 30 + 17 * round as u64;
        while next <= wanted {
            let line = committed.recv_timeout(PATIENCE).expect("commits go on");
            next = line.parse::<u64>().map_or(next, |number| number + 1);
        }
        running.signal("KILL");
        assert_eq!(running.end(), None);
        // It goes on until it fails.
        let _ = sqlite.kill();
        sqlite.wait().expect("it ends");
        writer.join().expect("no panic");
        next = committed.iter().filter_map(|line| line.parse::<u64>().ok()).last().map_or(next, |number| number + 1);
        folder.unmount();
        let database = folder.path("source/db");
        assert_eq!(query(&database, "PRAGMA integrity_check").trim(), "ok", "round {round}");
        let count: u64 = query(&database, "SELECT count(*) FROM t").trim().parse().expect("a number");
        assert!(count >= next, "round {round}: {count} rows of {next} that were committed");
        // One more may have been, without an answer.
        next = count;
    }
}
