//! Programs that manage the pages of processes in the kernel's cache.

use crate::running::{PATIENCE, lines_of, wait_until};
use crate::{FILE, Folder, forebay, stop, text};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;

/// Three quarters of the file that is read.
const CACHE: u64 = FILE * 3 / 4;
const ROUNDS: u64 = 6;

/// Reads a file from beginning to end, again and again, once a line comes; a manager learns of it some milliseconds later.
const READER: &str = "
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
print('ready', flush=True)
sys.stdin.readline()
for round in range(int(sys.argv[2])):
    for block in range(os.fstat(file).st_size // 4096):
        os.pread(file, 4096, block * 4096)
        if block % 16 == 0:
            time.sleep(0.01)
print('done', flush=True)
sys.stdin.readline()
";

/// Registers for itself, adds a file, and says how each was answered.
const STRANGER: &str = "
import os, socket, struct, sys
manager = socket.socket(socket.AF_UNIX)
manager.settimeout(60)
manager.connect(sys.argv[1])
def answer(*message):
    manager.sendall(struct.pack('=IIQQ', *message))
    return struct.unpack('=IIQQ', manager.recv(24, socket.MSG_WAITALL))[:3]
print(answer(1, 1, 0, 0)[0])
file = os.open(sys.argv[2], os.O_RDONLY)
print(answer(2, 0, file, 0))
";

/// A child whose standard input and output are lines, ended when it is dropped.
struct Talker {
    child: Child,
    lines: Receiver<String>,
}

impl Talker {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        Self { child, lines }
    }

    #[track_caller]
    fn hear(&self, what: &str) {
        assert_eq!(self.lines.recv_timeout(PATIENCE).as_deref(), Ok(what), "waited {PATIENCE:?} for it");
    }

    fn say(&mut self) {
        self.child.stdin.as_mut().expect("it is piped").write_all(b"go\n").expect("it reads");
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Folder {
    /// The hits of a loop over a file, whose manager is the example, if it has one.
    fn hits_of_loop(&self, has_manager: bool) -> u64 {
        let cache = CACHE.to_string();
        let socket = self.text("managers");
        let running = self.steer(&["--cache", &cache, "--policy", "lru-sp", "--manager-socket", &socket]);
        let file = self.files().next().expect("there are some");
        let mut reader = Talker::start(Command::new("python3").args(["-c", READER]).arg(&file).arg(ROUNDS.to_string()));
        reader.hear("ready");
        let manager = has_manager.then(|| {
            let mut command = Command::new(self.path("same_order"));
            let manager = Talker::start(command.arg(&socket).arg(reader.child.id().to_string()).arg(&file));
            manager.hear("ready");
            manager
        });
        reader.say();
        reader.hear("done");
        self.wait_for_uses(ROUNDS * (FILE >> 12));
        let (hits, counts) =
            (self.figure("kernel_hits"), self.control(&["statistics"])["statistics"]["managers"].clone());
        assert_eq!(counts["registered"].as_u64(), Some(u64::from(has_manager)), "{counts}");
        if let Some(mut manager) = manager {
            drop(reader);
            wait_until("the manager ends when its process has", || {
                manager.child.try_wait().is_ok_and(|ended| ended.is_some_and(|status| status.success()))
            });
        }
        stop(running);
        forebay(&["steer", "--once", "--cache", "256KiB", &self.text("files")]);
        hits
    }
}

#[test]
fn a_manager_of_a_program_s_own_keeps_what_a_loop_needs() {
    let Some(folder) = Folder::new() else { return };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(examples.join("../include")).arg("-o").arg(folder.path("same_order"));
    let built = compiler.arg(examples.join("same_order.c")).output().expect("cc runs");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let (lru, own) = (folder.hits_of_loop(false), folder.hits_of_loop(true));
    let most = (ROUNDS - 1) * (CACHE >> 12);
    println!("{own} hits by the manager, {lru} by LRU; MRU has {most}");
    assert!(lru < most / 10 && own > most / 2, "{own} hits by the manager, {lru} by LRU; MRU has {most}");
}

#[test]
fn a_manager_names_steered_files_alone_under_a_policy_that_has_managers() {
    let Some(folder) = Folder::new() else { return };
    let (socket, files) = (folder.text("managers"), folder.text("files"));
    let running = folder.steer(&["--cache", "1MiB", "--policy", "lru-sp", "--manager-socket", &socket]);
    let answers = |file: &str| {
        let output = Command::new("python3").args(["-c", STRANGER, &socket, file]).output().expect("it runs");
        text(&output.stdout) + &text(&output.stderr)
    };
    let first = folder.files().next().expect("there are some").display().to_string();
    assert_eq!(answers(&first), format!("101\n(102, 0, {})\n", FILE >> 12), "its pages, whether they are there or not");
    assert_eq!(answers("/etc/passwd"), "101\n(109, 6, 2)\n", "it is not steered");
    assert_eq!(answers("/dev/null"), "101\n(109, 6, 2)\n");
    stop(running);
    for (arguments, why) in [
        (&[][..], "--manager-socket: "),
        (&["--policy", "lru-sp", "--owners", "program"], "a manager of its own is one process's or one user's"),
    ] {
        let given = ["steer", &files, "-c", "1MiB", "--manager-socket", &socket];
        let output = forebay(&[&given, arguments].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}
