//! A mounted directory, with figures.

use crate::running::{PATIENCE, Running, can_mount, lines_of};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

/// A mount in the foreground.
pub(crate) struct Mounted {
    folder: tempfile::TempDir,
    process: Running,
    address: String,
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command
            .arg("mount")
            .args([path("source"), path("seen")])
            .args(["--foreground", "--cache", "4MiB", "--readahead", "0", "--metrics", "127.0.0.1:0"])
            .arg("--manager-socket")
            .arg(path("managers"))
            .args(arguments);
        let mut process = Running::start(&mut command);
        process.wait_for("is mounted on");
        let address = process.figures_at();
        Some(Self { folder, process, address })
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
        self.process.signal("TERM");
        assert_eq!(self.process.end(), Some(0));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a test that failed.
        if !self.process.has_ended() {
            let _ = self.process.child.kill();
            let _ = Command::new("umount").arg("-l").arg(self.path("seen")).status();
        }
    }
}

/// A child whose standard input and output are lines, ended when it is dropped.
pub(crate) struct Talker {
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Talker {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = lines_of(child.stdout.take().expect("it is piped"));
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
