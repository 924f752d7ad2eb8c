//! The examples of managers of programs' own, on a real mount.

use crate::mounted::{Mounted, Talker};
use crate::running::wait_until;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const BLOCKS: usize = 1500;
const ROUNDS: usize = 6;

/// Reads the file from beginning to end, again and again, once a line comes.
const READER: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
while sys.stdin.readline():
    for round in range(int(sys.argv[2])):
        for block in range(int(sys.argv[3])):
            os.pread(file, 4096, block * 4096)
    print('done', flush=True)
";

fn reader(mounted: &Mounted) -> Talker {
    let mut command = Command::new("python3");
    command.args(["-c", READER]).arg(mounted.path("seen/data")).args([ROUNDS.to_string(), BLOCKS.to_string()]);
    let reader = Talker::start(&mut command);
    reader.hear("ready");
    reader
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// An example, built into a folder.
fn build(language: &str, folder: &Path) -> PathBuf {
    let (program, source) =
        (folder.join(format!("same_order_{language}")), examples().join("same_order").with_extension(language));
    let mut command = Command::new(if language == "c" { "cc" } else { "rustc" });
    match language {
        "c" => command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(examples().join("../include")),
        _ => command.args(["--edition", "2024", "-O"]),
    };
    let built = command.arg("-o").arg(&program).arg(&source).output().expect("the compiler runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Sources and cscope's database of them, larger than the cache.
fn index(folder: &Path) {
    let function = |file: usize, line: usize| {
        format!("int name_{file}_{line}(int first_{line}) {{ return name_{line}_{file}(first_{line} + {line}); }}\n")
    };
    for file in 0..100 {
        let text: String = (0..700).map(|line| function(file, line)).collect();
        std::fs::write(folder.join(format!("{file}.c")), text).expect("a file");
    }
    let built = Command::new("cscope").args(["-b", "-c", "-R"]).current_dir(folder).output();
    assert!(built.expect("cscope runs").status.success());
    let length = std::fs::metadata(folder.join("cscope.out")).expect("a database").len();
    assert!(length > 5 << 20, "{length} bytes");
}

/// The misses of cscope that answers questions, each by reading its database from beginning to end; it has this manager, if any.
fn misses_of_cscope(policy: &str, manager: Option<&Path>) -> Option<u64> {
    let mounted = Mounted::over(&["--policy", policy], index)?;
    let mut cscope = Talker::start(Command::new("cscope").args(["-d", "-l"]).current_dir(mounted.path("seen")));
    // It opens its database before it asks.
    let descriptors = format!("/proc/{}/fd", cscope.child.id());
    wait_until("cscope opens its database", || {
        let open = std::fs::read_dir(&descriptors).expect("it runs").flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| path.ends_with("cscope.out"))
    });
    let manager = manager.map(|program| {
        let mut command = Command::new(program);
        command.arg(mounted.path("managers")).arg(cscope.child.id().to_string()).arg(mounted.path("seen/cscope.out"));
        let manager = Talker::start(&mut command);
        manager.hear("ready");
        manager
    });
    (0..6).for_each(|question| cscope.say(&format!("0name_{question}_x")));
    cscope.say("q");
    wait_until("cscope has answered", || cscope.child.try_wait().is_ok_and(|ended| ended.is_some()));
    let misses = mounted.of_cache("misses");
    drop(manager);
    mounted.stop();
    Some(misses)
}

#[test]
fn cscope_has_as_few_misses_by_the_example_as_by_the_same_order_that_is_built_in() {
    if Command::new("cscope").arg("-V").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "cscope is installed by tests/install-tools.sh, and CI skips nothing"
        );
        std::io::stderr().write_all(b"skipped: there is no cscope\n").expect("it can be written to");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(lru) = misses_of_cscope("lru-sp", None) else { return };
    let built_in = misses_of_cscope("lru-sp:manager=same-order", None).expect("it can be mounted");
    let own = misses_of_cscope("lru-sp", Some(&build("c", folder.path()))).expect("it can be mounted");
    println!("cscope: {own} misses; same-order: {built_in}; LRU: {lru}");
    assert!(own <= built_in + 5 * BEHIND && own < lru, "{own} misses, same-order has {built_in}, LRU {lru}");
}

/// The hits of a reader, whose manager is this program, if there is one.
fn hits(policy: &str, manager: Option<&Path>) -> Option<u64> {
    let mounted = Mounted::start(BLOCKS, &["--policy", policy])?;
    let mut reader = reader(&mounted);
    let manager = manager.map(|program| {
        let mut command = Command::new(program);
        command.arg(mounted.path("managers")).arg(reader.child.id().to_string()).arg(mounted.path("seen/data"));
        let manager = Talker::start(&mut command);
        manager.hear("ready");
        manager
    });
    reader.say("go");
    reader.hear("done");
    // The last hits may not be counted yet.
    let hits = (ROUNDS * BLOCKS) as u64 - mounted.of_cache("misses");
    drop(reader);
    if let Some(mut manager) = manager {
        wait_until("the manager ends when its process has", || {
            manager.child.try_wait().is_ok_and(|ended| ended.is_some())
        });
        assert!(manager.child.wait().expect("it has ended").success());
        let counts = &mounted.statistics()["managers"];
        assert_eq!((counts["registered"].as_u64(), counts["lost"].as_u64()), (Some(1), Some(0)));
    }
    mounted.stop();
    Some(hits)
}

/// A manager learns of a reference some time after it, so its list may be of blocks used most recently a little while ago: in each round it has
/// no more misses beyond same-order's than there are on the list, an eighth of the cache.
const BEHIND: u64 = 1024 / 8;

#[test]
fn the_examples_come_near_the_same_order_that_is_built_in() {
    let Some(lru) = hits("lru-sp", None) else { return };
    let built_in = hits("lru-sp:manager=same-order", None).expect("it can be mounted");
    assert_eq!(lru, 0, "LRU drops what a loop needs next");
    let folder = tempfile::tempdir().expect("a folder");
    for language in ["c", "rs"] {
        let own = hits("lru-sp", Some(&build(language, folder.path()))).expect("it can be mounted");
        println!("{language}: {own} hits; same-order: {built_in}");
        let bound = built_in - (ROUNDS as u64 - 1) * BEHIND;
        assert!(own >= bound && own > lru, "{language}: {own} hits, same-order has {built_in}");
    }
}

#[test]
fn a_manager_that_is_killed_leaves_its_process_to_lru() {
    let Some(mounted) = Mounted::start(BLOCKS, &["--policy", "lru-sp"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = build("c", folder.path());
    let mut reader = reader(&mounted);
    let mut command = Command::new(&program);
    command.arg(mounted.path("managers")).arg(reader.child.id().to_string()).arg(mounted.path("seen/data"));
    let mut manager = Talker::start(&mut command);
    manager.hear("ready");
    reader.say("go");
    wait_until("it gives up blocks", || mounted.statistics()["managers"]["given_up"].as_u64() > Some(0));
    manager.child.kill().expect("it runs");
    reader.hear("done");
    wait_until("its process abdicates", || mounted.statistics()["managers"]["ended"].as_u64() == Some(1));
    // What its list had kept goes as LRU wants it to.
    reader.say("go");
    reader.hear("done");
    let before = mounted.of_cache("misses");
    reader.say("go");
    reader.hear("done");
    assert_eq!(mounted.of_cache("misses") - before, (ROUNDS * BLOCKS) as u64, "LRU drops what a loop needs next");
    drop(reader);
    mounted.stop();
}

/// Registers for a process, adds a file, and says how it was answered.
const STRANGER: &str = "
import os, socket, struct, sys
manager = socket.socket(socket.AF_UNIX)
manager.settimeout(60)
manager.connect(sys.argv[1])
def answer(*message):
    manager.sendall(struct.pack('=IIQQ', *message))
    return struct.unpack('=IIQQ', manager.recv(24, socket.MSG_WAITALL))[:2]
print(answer(1, 1, int(sys.argv[2]), 0))
file = os.open(sys.argv[3], os.O_RDONLY)
print(answer(2, 0, file, 0))
";

#[test]
fn a_user_speaks_for_its_own_processes_and_files_of_the_mount_alone() {
    const READY: u32 = 101;
    const FILE: u32 = 102;
    const REFUSED: u32 = 109;
    let Some(mounted) = Mounted::start(10, &["--policy", "lru-sp"]) else { return };
    let root = reader(&mounted);
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", STRANGER];
    // It drops its rights without running another program, as daemons do.
    let dropped = format!("import os; os.setgid(65534); os.setuid(65534){STRANGER}");
    let dropped = ["/usr/bin/python3", "-c", &dropped];
    let (own, data) = ("0".to_owned(), mounted.path("seen/data").display().to_string());
    let others = root.child.id().to_string();
    let (first, second) = (format!("({READY}, 1)\n"), format!("({FILE}, 0)\n"));
    for (program, process, file, answers) in [
        (&nobody[..], &own, &*data, first.clone() + &second),
        (&dropped[..], &own, &*data, first.clone() + &second),
        (&nobody[..], &others, &*data, format!("({REFUSED}, 3)\n")),
        (&nobody[..], &own, "/dev/null", first.clone() + &format!("({REFUSED}, 6)\n")),
        (&["/usr/bin/python3", "-c", STRANGER][..], &others, &*data, first.clone() + &second),
    ] {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(mounted.path("managers")).args([process, file]);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.starts_with(&answers),
            "{program:?} of {process}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    drop(root);
    mounted.stop();
}
