use crate::files::{PAGE, make};
use crate::{can_watch, device, events, ranges, skipped, start, watch};
use forebay_kernel::watch::{FileId, GroupsBy, Kind, Watch, WatchError, WatchOptions};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reads page 2.
fn read(path: &Path) {
    File::open(path).unwrap().read_exact_at(&mut [0; 10], 2 * PAGE as u64).unwrap();
}

/// Reads pages 0 and 1 by turns, each once, and returns how many events of them there are, and whether all were judged.
fn uses(watch: &mut Watch, path: &Path) -> (usize, bool) {
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    file.read_exact_at(&mut [0; 10], PAGE as u64).unwrap();
    let events = events(watch, path);
    (events.len(), events.iter().all(|event| event.judged))
}

#[test]
fn a_verdict_follows_a_file_or_silences_it_until_it_is_taken_back() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    make(&path, 3 * PAGE);
    let mut watch = watch(folder.path());
    read(&path);
    let file = events(&mut watch, &path)[0].file;
    assert_eq!(file.device, device(&path));
    watch.judge_file(file, true).unwrap();
    assert_eq!(uses(&mut watch, &path), (2, true));
    watch.judge_file(file, false).unwrap();
    assert_eq!(uses(&mut watch, &path).0, 0);
    watch.forget_files();
    assert_eq!(uses(&mut watch, &path), (2, false));
    watch.judge_file(FileId { generation: file.generation.wrapping_add(1), ..file }, false).unwrap();
    assert_eq!(uses(&mut watch, &path), (2, false));
}

#[test]
fn only_the_file_systems_asked_for_are_seen() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    make(&path, 3 * PAGE);
    let elsewhere = (7 << 20) | 77_777;
    let mut watch = start(&WatchOptions { devices: vec![elsewhere], ..WatchOptions::default() });
    assert_eq!(uses(&mut watch, &path).0, 0);
    watch.set_devices(&[elsewhere, device(&path)]).unwrap();
    assert_eq!(uses(&mut watch, &path), (2, false));
    watch.set_devices(&[]).unwrap();
    assert_eq!(uses(&mut watch, &path).0, 0);
    let file = FileId { device: device(&path), inode: std::fs::metadata(&path).unwrap().ino(), generation: 0 };
    watch.judge_file(file, true).unwrap();
    watch.set_devices(&[device(&path)]).unwrap();
    read(&path);
    let file = events(&mut watch, &path)[0].file;
    watch.set_devices(&[]).unwrap();
    watch.judge_file(file, true).unwrap();
    assert_eq!(uses(&mut watch, &path), (2, true));
}

#[test]
fn a_full_ring_counts_what_is_lost() {
    if !can_watch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = make(&path, 3 * PAGE);
    let mut first = watch(folder.path());
    read(&path);
    let id = events(&mut first, &path)[0].file;
    drop(first);
    // Without a list of file systems, nothing else fills the ring.
    let mut watch = start(&WatchOptions { ring_bytes: PAGE as u32, ..WatchOptions::default() });
    watch.judge_file(id, true).unwrap();
    for page in 0..200 {
        file.read_exact_at(&mut [0; 10], page % 2 * PAGE as u64).unwrap();
    }
    assert_eq!(events(&mut watch, &path).len() as u64 + watch.lost(), 200);
    assert!(watch.lost() >= 100, "{} lost", watch.lost());
    read(&path);
    assert_eq!(ranges(&events(&mut watch, &path)), [(Kind::Read, 2, 1)]);
}

/// A control group of a test's own, which goes with it.
struct Group(PathBuf);

impl Group {
    /// Makes one where a hierarchy with this file in its root is mounted. `None` if none is.
    fn make(roots: &[&str], with: &str, name: &str) -> Option<Group> {
        let root = roots.iter().map(Path::new).find(|root| root.join(with).exists())?;
        let group = Group(root.join(format!("forebay-test-{}-{name}", std::process::id())));
        std::fs::create_dir(&group.0).unwrap();
        Some(group)
    }

    fn number(&self) -> u64 {
        std::fs::metadata(&self.0).unwrap().ino()
    }

    /// Runs `cat` on a file in the group.
    fn cat(&self, path: &Path) {
        let script = "echo $$ >\"$0/cgroup.procs\" && exec cat \"$1\"";
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]).arg(&self.0).arg(path).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn only_a_group_is_followed(groups: GroupsBy, group: &Group) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    make(&path, PAGE);
    let mut watch = start(&WatchOptions { groups, ..WatchOptions::default() });
    let seen = |watch: &mut Watch| {
        group.cat(&path);
        let events = events(watch, &path);
        let ours = events.iter().filter(|event| event.group == group.number());
        ours.map(|event| (event.kind, event.judged, event.own)).collect::<Vec<_>>()
    };
    assert_eq!(seen(&mut watch), [(Kind::Read, false, false)]);
    watch.judge_group(group.number(), false).unwrap();
    assert_eq!(seen(&mut watch), []);
    watch.judge_group(group.number(), true).unwrap();
    assert_eq!(seen(&mut watch).len(), 1);
    watch.forget_groups();
    assert_eq!(seen(&mut watch), [(Kind::Read, false, false)]);
}

#[test]
fn a_unified_control_group_is_followed() {
    if !can_watch() {
        return;
    }
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    match Group::make(&roots, "cgroup.controllers", "unified") {
        Some(group) => only_a_group_is_followed(GroupsBy::Unified, &group),
        None => drop(skipped("no version 2 of control groups is mounted")),
    }
}

#[test]
fn a_memory_control_group_is_followed() {
    if !can_watch() {
        return;
    }
    match Group::make(&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes", "memory") {
        Some(group) => only_a_group_is_followed(GroupsBy::Memory, &group),
        // A system with version 2 alone has none, and needs none.
        None if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {}
        None => drop(skipped("no version 1 of the memory controller is mounted")),
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options| match Watch::start(&options) {
        Err(WatchError::Options(why)) => why,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("started"),
    };
    let devices = (1..=17).collect();
    let why = refused(WatchOptions { devices, ..WatchOptions::default() });
    assert!(why.contains("at most 16"), "{why}");
    let why = refused(WatchOptions { ring_bytes: 5000, ..WatchOptions::default() });
    assert!(why.contains("power of two"), "{why}");
}
