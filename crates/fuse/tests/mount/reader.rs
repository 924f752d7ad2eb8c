//! A process that uses files, under a name of its own.

use crate::mounted::PATIENCE;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

pub(crate) struct Reader {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Reader {
    pub(crate) fn new(name: &str) -> Self {
        Self::of_user(name, 0)
    }

    /// In the name of a user of this number.
    pub(crate) fn of_user(name: &str, user: u32) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mount/reader.pl");
        let mut child = Command::new("perl")
            .args(["-e", &std::fs::read_to_string(script).expect("the script"), name])
            .uid(user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl runs: every Debian has it");
        let commands = child.stdin.take().expect("it is piped");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (sender, answers) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, commands, answers }
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    #[track_caller]
    fn ask(&mut self, command: &str) -> i32 {
        writeln!(self.commands, "{command}").expect("the process reads");
        let answer = self.answers.recv_timeout(PATIENCE);
        let answer = answer.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for an answer to {command}"));
        answer.parse().expect("a number")
    }

    /// Reads a page of a file, which stays open.
    #[track_caller]
    pub(crate) fn read(&mut self, path: &Path, page: u64) {
        assert_eq!(self.ask(&format!("read\t{}\t{}", path.display(), page * 4096)), 0, "a read of {}", path.display());
    }

    /// Says who manages its uses of a file, which stays open; the error number.
    #[track_caller]
    pub(crate) fn manage(&mut self, path: &Path, manager: &str, process: u64) -> i32 {
        let mut structure = [0; 128];
        structure[..manager.len()].copy_from_slice(manager.as_bytes());
        structure[120..].copy_from_slice(&process.to_ne_bytes());
        self.ioctl(path, 0x4080_fb02, &structure)
    }

    /// Gives a hint; the error number.
    #[track_caller]
    pub(crate) fn hint(&mut self, path: &Path, advice: u32) -> i32 {
        let mut structure = [0; 24];
        structure[16..20].copy_from_slice(&advice.to_ne_bytes());
        self.ioctl(path, 0x4018_fb01, &structure)
    }

    fn ioctl(&mut self, path: &Path, request: u32, structure: &[u8]) -> i32 {
        let hex: String = structure.iter().map(|byte| format!("{byte:02x}")).collect();
        self.ask(&format!("ioctl\t{}\t{request}\t{hex}", path.display()))
    }

    /// Closes a file.
    #[track_caller]
    pub(crate) fn close(&mut self, path: &Path) {
        assert_eq!(self.ask(&format!("close\t{}", path.display())), 0);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // After a test that failed it may have gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
