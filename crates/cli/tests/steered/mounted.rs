//! A mounted directory, with figures.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A mount in the foreground.
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
    child: Child,
    address: String,
}

/// Whether a directory can be mounted here. Elsewhere the test says that it is skipped; in CI that is a failure.
fn can_mount() -> bool {
    let root = fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("\nUid:\t0\t0\t"));
    if root && Path::new("/dev/fuse").exists() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "a mount needs root and /dev/fuse, and CI skips nothing");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    std::io::stderr()
        .write_all(b"skipped: a mount needs root and /dev/fuse\n")
        .expect("standard error can be written to");
    false
}

impl Mounted {
    /// Behind 4 MiB, without readahead; `data` has as many blocks of 4 KiB.
    #[track_caller]
    pub(crate) fn start(blocks: usize, arguments: &[&str]) -> Option<Self> {
        Self::over(arguments, |source| {
            let bytes: Vec<u8> = (0..blocks * 4096).map(|at| (at / 4096 * 31 + at / 512) as u8).collect();
            fs::write(source.join("data"), bytes).expect("a file");
        })
    }

    /// The same over files that `fill` makes.
    #[track_caller]
    pub(crate) fn over(arguments: &[&str], fill: impl FnOnce(&Path)) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        ["source", "seen"].iter().for_each(|name| fs::create_dir(path(name)).expect("a folder"));
        fill(&path("source"));
        // Other users come in.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .arg("mount")
            .args([path("source"), path("seen")])
            .args(["--foreground", "--cache", "4MiB", "--readahead", "0", "--metrics", "127.0.0.1:0"])
            .arg("--manager-socket")
            .arg(path("managers"))
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("forebay runs");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut mounted = Self { folder, child, address: String::new() };
        let (mut log, end) = (String::new(), Instant::now() + PATIENCE);
        while !log.contains("is mounted on") {
            let line = lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            log += &line.unwrap_or_else(|_| panic!("it is not mounted:\n{log}"));
            log.push('\n');
        }
        let address = log.split("figures at http://").nth(1).and_then(|rest| rest.split('/').next());
        mounted.address = address.expect("an address").to_owned();
        // The rest of the log must be taken, too.
        std::thread::spawn(move || lines.iter().for_each(drop));
        Some(mounted)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The figures, as JSON.
    pub(crate) fn statistics(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.address).expect("figures are served");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.write_all(b"GET /statistics HTTP/1.0\r\n\r\n").expect("it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON")
    }

    /// A figure of the cache.
    pub(crate) fn of_cache(&self, name: &str) -> u64 {
        self.statistics()["caches"][0][name].as_u64().expect("a number")
    }

    /// Unmounts it in order.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let mut status = None;
        wait_until("the mount ends", || {
            status = self.child.try_wait().expect("it can be asked");
            status.is_some()
        });
        assert!(status.expect("it has just been seen").success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // After a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount").arg("-l").arg(self.path("seen")).status();
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child whose standard input and output are lines, ended when it is dropped.
pub(crate) struct Talker {
    pub(crate) child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Talker {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    #[track_caller]
    pub(crate) fn hear(&self, what: &str) {
        let line = self.lines.recv_timeout(PATIENCE);
        assert_eq!(line.as_deref(), Ok(what), "waited {PATIENCE:?} for it");
    }

    pub(crate) fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(line.as_bytes()).and_then(|()| input.write_all(b"\n")).expect("it reads");
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
