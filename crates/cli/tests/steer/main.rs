//! `forebay steer` as its users meet it: sizes, programs, figures, commands, recordings and refusals, on the kernel's real page cache.

mod folio_limit;
mod frozen;
mod limits;
mod managers;
mod memory;
mod own_managers;
mod program;
mod recorded;
mod refused;
#[path = "../command/running.rs"]
mod running;
mod shares;

use running::{Running, wait_until};
use rustix::fs::Advice;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// The files of a folder: six of 2 MiB.
const FILES: u64 = 6;
const FILE: u64 = 2 << 20;
const ALL: u64 = FILES * FILE;

/// Two thirds of them.
const CACHE: u64 = 8 << 20;

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().expect("forebay runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Why it cannot be steered here, if it cannot: not as root, or the kernel has no such tracepoints.
static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
    let folder = Folder::make();
    let output = forebay(&["steer", "--once", "--cache", "1GiB", &folder.text("files")]);
    (!output.status.success()).then(|| text(&output.stderr).trim().to_owned())
});

/// Whether it can be steered here. Elsewhere the test says that it is skipped; in CI that is a failure.
fn can_steer() -> bool {
    let Some(why) = &*MISSING else { return true };
    skip(why);
    false
}

/// Says why a test is skipped. In CI that is a failure.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).expect("standard error can be written to");
}

/// Held for writing by a test whose figures others' use of the processors would change, and for reading by those others.
static PROCESSORS: RwLock<()> = RwLock::new(());

/// A folder with files that are in storage, and not in the page cache.
struct Folder(tempfile::TempDir, #[expect(dead_code, reason = "it is held")] RwLockReadGuard<'static, ()>);

impl Folder {
    /// None where nothing can be steered.
    fn new() -> Option<Self> {
        let folder = can_steer().then(Self::make)?;
        folder.cool();
        Some(folder)
    }

    /// Has nothing of its files in the page cache.
    fn cool(&self) {
        // Pages that the kernel still has in its lists' batches stay at the first advice.
        for path in self.files() {
            let file = File::open(&path).expect("it is there");
            wait_until("a new file has left the page cache", || {
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("it may leave");
                resident([&path]) == 0
            });
        }
    }

    fn make() -> Self {
        // The temporary folder of a system may be in memory, which cannot be steered.
        let processors = PROCESSORS.read().unwrap_or_else(PoisonError::into_inner);
        let folder = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"), processors);
        fs::create_dir(folder.path("files")).expect("a folder");
        for path in folder.files() {
            let mut file = File::create(path).expect("a file");
            (0..FILE >> 12).try_for_each(|page| file.write_all(&[page as u8; 4096])).expect("there is room");
            file.sync_all().expect("it is in storage");
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("it may leave");
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        let folder = self.path("files");
        (0..FILES).map(move |number| folder.join(number.to_string()))
    }

    /// The bytes of the files that are in the page cache.
    fn resident(&self) -> u64 {
        resident(self.files())
    }

    /// Waits until at most this many bytes are in the page cache.
    #[track_caller]
    fn wait_for_at_most(&self, bytes: u64) {
        wait_until("pages leave", || self.resident() <= bytes);
    }

    /// Reads all files page by page, without readahead.
    fn read(&self) {
        for path in self.files() {
            let file = File::open(path).expect("it is there");
            rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice is taken");
            let mut page = [0; 4096];
            for at in (0..FILE).step_by(4096) {
                file.read_exact_at(&mut page, at).expect("it can be read");
                assert_eq!(page, [(at >> 12) as u8; 4096], "what was written");
            }
        }
    }

    /// Steers the files, and waits until that has begun.
    #[track_caller]
    fn steer(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["steer", &self.text("files"), "--control", &self.text("control")]).args(arguments);
        let mut running = Running::start(&mut command);
        running.wait_for(" are there");
        running
    }

    /// Asks for something at the socket of `--control`: the answer as JSON.
    #[track_caller]
    fn control(&self, command: &[&str]) -> serde_json::Value {
        let output = forebay(&[&["control", "-f", "json", "-s", &self.text("control")], command].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    }

    /// A figure of the page cache.
    #[track_caller]
    fn figure(&self, name: &str) -> u64 {
        let answer = self.control(&["statistics"]);
        answer["statistics"]["page_cache"][name].as_u64().unwrap_or_else(|| panic!("{name}: {answer}"))
    }

    /// Waits until all events of the reads so far have been taken: this many uses of pages in all.
    #[track_caller]
    fn wait_for_uses(&self, uses: u64) {
        let counted = std::cell::Cell::new(0);
        let all_are = || {
            counted.set(self.figure("kernel_hits") + self.figure("kernel_misses"));
            counted.get() >= uses
        };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until("uses are counted", all_are)));
        if let Err(why) = waited {
            eprintln!("{} of {uses}, and {} events were lost", counted.get(), self.figure("lost"));
            std::panic::resume_unwind(why);
        }
    }
}

/// A program of this folder's, compiled.
fn compiled(source: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source).with_extension("");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/steer").join(source);
    // Another test may run it.
    let new = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file").into_temp_path();
    let compiled = Command::new("cc").arg("-o").arg(&new).arg(source).status();
    assert!(compiled.expect("cc runs").success());
    new.persist(&program).expect("it has its name");
    program
}

/// The bytes of files that are in the page cache.
fn resident(files: impl IntoIterator<Item = impl AsRef<OsStr>>) -> u64 {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| compiled("resident.c"));
    let output = Command::new(&*PROGRAM).args(files).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().parse::<u64>().expect("a number") << 12
}

/// Ends it by SIGTERM, which must succeed; its log.
#[track_caller]
fn stop(mut running: Running) -> String {
    running.signal("TERM");
    assert_eq!(running.end(), Some(0), "{}", running.log);
    std::mem::take(&mut running.log)
}

/// Pages of files that the kernel has reclaimed so far.
fn stolen() -> u64 {
    let counts = fs::read_to_string("/proc/vmstat").expect("there is one");
    let of_files = counts.lines().find_map(|line| line.strip_prefix("pgsteal_file "));
    of_files.map_or(0, |count| count.parse().expect("a number"))
}

/// Whether this machine reclaims what it takes for cold all the time (DAMON), whole ranges of physical memory with what has just come into them. No counter tells of it.
fn reclaims_always() -> bool {
    let states = fs::read_dir("/sys/kernel/mm/damon/admin/kdamonds").into_iter().flatten().flatten();
    states.filter_map(|of| fs::read_to_string(of.path().join("state")).ok()).any(|state| state.trim() == "on")
}

/// Runs a test of what is in the page cache. It is run again, three times at most, if it fails where the kernel reclaims all the time, or has reclaimed pages of files
/// meanwhile, for other tests' small groups for example. What steering itself drops is not among these pages.
#[track_caller]
fn undisturbed(test: impl Fn()) {
    const TRIES: u32 = 4;
    for attempt in 1..=TRIES {
        let before = stolen();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(why) if attempt == TRIES || stolen() == before && !reclaims_always() => std::panic::resume_unwind(why),
            Err(_) => eprintln!("pages were reclaimed meanwhile: it is tried again"),
        }
    }
}

#[test]
fn a_loop_over_more_than_the_cache_leaves_no_more_than_the_cache() {
    undisturbed(|| {
        let Some(folder) = Folder::new() else { return };
        // The first round hits nothing, and each of the others what was kept: the kernel's own lists would hit nothing.
        let (hits, uses, expected) = (hits_of_a_loop(&folder), 4 * (ALL >> 12), 3 * (CACHE >> 12));
        assert!(hits.abs_diff(expected) < uses / 20, "{hits} hits of {uses} uses, for {expected}");
    });
}

/// The hits of four rounds over all files, under MRU.
fn hits_of_a_loop(folder: &Folder) -> u64 {
    let running = folder.steer(&["--cache", &CACHE.to_string(), "--policy", "mru"]);
    let pages = ALL >> 12;
    for round in 1..=4 {
        folder.read();
        folder.wait_for_uses(round * pages);
        folder.wait_for_at_most(CACHE + CACHE / 50);
    }
    let (hits, uses) = (folder.figure("kernel_hits"), 4 * pages);
    assert!(folder.figure("let_go") >= folder.figure("dropped"));
    assert_eq!(folder.figure("lost"), 0);
    let log = stop(running);
    assert!(log.contains("steering ") && log.contains(": at most 8 MiB under mru; 0 bytes are there"), "{log}");
    assert!(log.contains("stopped: ") && log.contains(&format!(" {uses} uses of pages: ")), "{log}");
    hits
}

#[test]
fn what_is_observed_stays() {
    undisturbed(observe);
}

fn observe() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.steer(&["--observe", "--cache", "1MiB"]);
    folder.read();
    folder.wait_for_uses(ALL >> 12);
    wait_until("the policy lets pages go", || folder.figure("let_go") >= (ALL - (1 << 20)) >> 12);
    assert_eq!(folder.figure("dropped"), 0);
    // A turn after the last page was let go.
    std::thread::sleep(Duration::from_millis(50));
    // On a busy machine the kernel takes some itself.
    wait_until("what is missing was reclaimed", || folder.resident() + (folder.figure("reclaimed") << 12) == ALL);
    assert_eq!(folder.figure("dropped"), 0);
    let log = stop(running);
    assert!(log.contains("nothing leaves; clock-pro thinks of a cache of 1 MiB"), "{log}");
    assert!(log.contains("stopping: nothing has left by this") && !log.contains("decide again"), "{log}");
}

#[test]
fn what_is_there_at_the_start_is_brought_down_once() {
    undisturbed(|| {
        let Some(folder) = Folder::new() else { return };
        folder.read();
        assert_eq!(folder.resident(), ALL);
        let out = folder.text("figures.json");
        let output = forebay(&["steer", "--once", "--cache", "4MiB", &folder.text("files"), "--figures", &out]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).contains(" are in the page cache, of 4 MiB that may be"),
            "{}",
            text(&output.stdout)
        );
        assert!(folder.resident() <= 4 << 20);
        let figures: serde_json::Value = serde_json::from_slice(&fs::read(out).expect("it is written")).expect("JSON");
        assert_eq!(figures["size_bytes"], 4 << 20);
        assert!(figures["there_bytes"].as_u64().is_some_and(|there| there <= 4 << 20), "{figures}");
    });
}

#[test]
fn a_file_of_options_says_all_that_the_command_line_does() {
    let Some(folder) = Folder::new() else { return };
    folder.read();
    let (config, out) = (folder.text("steer.toml"), folder.text("figures.json"));
    let said = format!(
        "directories = [{:?}]\ncache = \"4MiB\"\nonce = true\nfigures = {out:?}\nlog = \"off\"\n",
        folder.text("files")
    );
    fs::write(&config, said).expect("it is written");
    let output = forebay(&["steer", "--config", &config]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&fs::read(out).expect("it is written")).expect("JSON");
    assert_eq!(figures["size_bytes"], 4 << 20);
    assert!(folder.resident() <= 4 << 20);
}

#[test]
fn without_a_file_there_is_nothing_to_read_again_and_that_is_said_once() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.steer(&["--cache", "1GiB"]);
    let answer = folder.control(&["reload"]);
    assert!(
        answer["answer"] == "refused" && answer["message"].as_str().is_some_and(|said| said.contains("no file")),
        "{answer}"
    );
    let log = stop(running);
    assert!(!log.contains("ERROR") && log.matches("nothing has changed").count() == 1, "{log}");
}

#[test]
fn a_size_changes_while_it_runs_and_what_only_a_restart_changes_is_named() {
    undisturbed(|| {
        let Some(folder) = Folder::new() else { return };
        let config = folder.path("steer.toml");
        fs::write(&config, "cache = \"12MiB\"\n").expect("it is written");
        let mut running = folder.steer(&["--config", config.to_str().expect("text")]);
        folder.read();
        folder.wait_for_uses(ALL >> 12);
        assert_eq!(folder.resident(), ALL);
        assert_eq!(folder.control(&["resize", "shared", "2MiB"])["figures"]["bytes"], 2 << 20);
        folder.wait_for_at_most((2 << 20) + (2 << 20) / 50);
        assert_eq!(folder.figure("asked"), (2 << 20) >> 12);
        fs::write(&config, "cache = \"4MiB\"\npolicy = \"mq\"\n").expect("it is written");
        running.signal("HUP");
        running.wait_for("policy: only a restart changes that; the rest is in force");
        wait_until("the size of the file is in force", || folder.figure("asked") == (4 << 20) >> 12);
        for (command, why) in [
            (["resize", "shared", "1KiB"], "too small: take 64 pages or more"),
            (["resize", "other", "1MiB"], "there is no cache `other`; there is shared"),
            (["drop", "files", ""], "resize it, and resize it back"),
            (["flush", "", ""], "to flush all volumes is not for a steered page cache"),
            (["dirty", "shared", ""], "is not for a steered page cache"),
        ] {
            let words: Vec<&str> = command.into_iter().filter(|word| !word.is_empty()).collect();
            let answer = folder.control(&words);
            let refused =
                answer["answer"] == "refused" && answer["message"].as_str().is_some_and(|said| said.contains(why));
            assert!(refused, "{command:?}: {answer}");
        }
        assert_eq!(folder.control(&["restart-policy", "shared"])["answer"], "done");
        stop(running);
    });
}

#[test]
fn a_recording_has_the_files_below_the_directory_and_who_used_them() {
    undisturbed(record_files);
}

fn record_files() {
    let Some(folder) = Folder::new() else { return };
    let trace = folder.text("uses.parquet");
    let running = folder.steer(&["--cache", "1GiB", "--record", &trace]);
    let read = Command::new("cat").arg(folder.path("files/0")).arg(folder.path("files/3")).output();
    assert!(read.expect("cat runs").status.success());
    folder.wait_for_uses(2 * (FILE >> 12));
    let log = stop(running);
    assert!(log.contains("recorded ") && log.contains(" requests in "), "{log}");
    let output = forebay(&["info", &trace]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let objects: Vec<&str> =
        said.lines().map(str::trim_end).filter(|line| line.ends_with("  0") || line.ends_with("  3")).collect();
    assert!(objects.len() >= 2 && said.contains("pages of 4 KiB"), "{said}");
    let rows = folder.text("uses.csv");
    let output = forebay(&["convert", &trace, &rows]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = fs::read_to_string(rows).expect("it is there");
    assert!(rows.lines().skip(1).all(|row| row.contains(",cat ")), "{rows}");
}

#[test]
fn a_line_break_in_a_file_s_name_ends_no_recording() {
    let Some(folder) = Folder::new() else { return };
    let trace = folder.text("uses.csv");
    let named = folder.path("files/a\nb (deleted)");
    fs::copy(folder.path("files/0"), &named).expect("it is written");
    let running = folder.steer(&["--cache", "1GiB", "--record", &trace]);
    let read = Command::new("cat").args([&named, &folder.path("files/3")]).output();
    assert!(read.expect("cat runs").status.success());
    folder.wait_for_uses(2 * (FILE >> 12));
    let log = stop(running);
    assert!(log.contains("recorded ") && !log.contains("recording has stopped"), "{log}");
    let rows = fs::read_to_string(&trace).expect("it is there");
    assert!([r",a\nb (deleted),", ",3,"].iter().all(|name| rows.contains(name)), "{rows}");
    let output = forebay(&["info", &trace]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn figures_are_served_and_top_shows_them() {
    let Some(folder) = Folder::new() else { return };
    let mut running = folder.steer(&["--cache", "1GiB", "--metrics", "127.0.0.1:0"]);
    folder.read();
    folder.wait_for_uses(ALL >> 12);
    let address = running.figures_at();
    let table = forebay(&["top", "--once", &address]);
    let shown = text(&table.stdout);
    assert!(
        shown.contains("6 files steered") && shown.contains("page cache of") && shown.contains("12.0 MiB"),
        "{shown}"
    );
    let csv = text(&forebay(&["top", "--once", "-f", "csv", &address]).stdout);
    assert!(csv.starts_with("page_cache,there_bytes,size_bytes,"), "{csv}");
    stop(running);
}
