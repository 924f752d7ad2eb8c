//! Files that a program maps and writes all the time, while the mount ends: nobody waits for ever.

use super::{Folder, PATIENCE};
use crate::running::{lines_of, wait_until};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Writes pages of a mapped file in random order; says `ready` when it has written some. It asks for the file's attributes now and then: pages
/// that the kernel has can be written though the mount has gone.
const WRITER: &str = "
import mmap, os, random, sys
file = open(sys.argv[1], 'r+b')
file.truncate(16 << 20)
mapped = mmap.mmap(file.fileno(), 16 << 20)
for turn in range(1 << 40):
    page = random.randrange(4096)
    mapped[page << 12] = turn & 255
    if turn % 1000 == 0:
        os.fstat(file.fileno())
    if turn == 1500:
        print('ready', flush=True)
";

/// Programs that write mapped files of a mount.
struct Writers(Vec<Child>);

impl Writers {
    #[track_caller]
    fn start(folder: &Folder) -> Self {
        let start = |number: u32| {
            let file = folder.path(&format!("seen/{number}"));
            std::fs::write(&file, "").expect("a file");
            let mut python = Command::new("python3");
            let child = python.args(["-c", WRITER]).arg(file).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let mut child = child.expect("python3 runs");
            let ready = lines_of(child.stdout.take().expect("piped")).recv_timeout(PATIENCE);
            assert_eq!(ready.as_deref(), Ok("ready"), "the writer has written for {PATIENCE:?}");
            child
        };
        Self((0..3).map(start).collect())
    }

    #[track_caller]
    fn wait_for_end(&mut self) {
        wait_until("the writers are ended by an error", || {
            self.0.iter_mut().all(|writer| writer.try_wait().expect("a child").is_some())
        });
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // After a test that failed.
        for writer in &mut self.0 {
            let _ = writer.kill();
        }
    }
}

#[test]
fn a_kill_of_the_mount_ends_it_and_its_users_get_errors() {
    let Some(folder) = Folder::new() else { return };
    for round in 0..4u64 {
        let mut running = folder.mount(&["--cache", "1MiB", "--dirty-age", "100ms"]);
        let mut writers = Writers::start(&folder);
        std::thread::sleep(Duration::from_millis(50 * round));
        running.signal("KILL");
        wait_until("the killed process has ended", || running.process.has_ended());
        writers.wait_for_end();
        assert!(folder.unmount(), "round {round}");
    }
}

#[test]
fn a_stop_ends_it_though_a_file_is_mapped() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.mount(&["--cache", "1MiB"]);
    let mut writers = Writers::start(&folder);
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
    writers.wait_for_end();
    assert!(!folder.is_mounted());
}

#[test]
fn its_guard_has_no_name_that_others_wait_for_and_goes_with_it() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.mount(&[]);
    let children = format!("/proc/{0}/task", running.process.child.id());
    let guards = || -> Vec<String> {
        let tasks = std::fs::read_dir(&children).into_iter().flatten().flatten();
        let listed = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        listed.flat_map(|pids| pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let mut found = Vec::new();
    wait_until("the guard is there", || {
        found = guards();
        let name = found.first().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
        name.is_some_and(|name| name.trim_end_matches('\0') == "mount-guard")
    });
    let guard = format!("/proc/{}", found[0]);
    let open = std::fs::read_dir(format!("{guard}/fd")).expect("its descriptors").count();
    assert_eq!(open, 1, "it keeps nothing but the connection");
    assert!(folder.unmount());
    assert_eq!(running.end(), Some(0));
    wait_until("the guard has gone", || !std::path::Path::new(&guard).exists());
}
