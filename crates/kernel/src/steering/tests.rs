//! Against the kernel itself: real files, a turn after each use. They need root, and say so where there is none.

use super::*;
use crate::file_system::FileSystem;
use crate::steered::PAGE;
use forebay_basis::Place;
use forebay_policy::{Layout, Spec};
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Pool, VolumeConfig};
use rustix::fs::Advice;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages of the cache, and of the file that is read.
const CACHE: u64 = 96;
const FILE: u64 = 160;

/// A folder on a file system that can be steered, if this process may do that.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    let why = match FileSystem::of(folder.path()) {
        _ if !rustix::process::geteuid().is_root() => "steering needs root".to_owned(),
        Ok(_) => return Some(folder),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("CI").is_none(), "CI skips nothing: {why}");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    writeln!(std::io::stderr(), "skipped: {why}").expect("standard error can be written to");
    None
}

fn pool(policy: &str, layout: Option<Arc<dyn Layout>>) -> Arc<Pool> {
    let spec = Spec { layout, ..Spec::parse(policy).expect("a policy") };
    Arc::new(Pool::new(Config::elsewhere(CACHE * PAGE, spec)).expect("a pool"))
}

fn state(policy: &str, directory: &Path) -> State {
    let scopes = vec![Scope::Directory(directory.to_owned())];
    state_of(policy, Options { scopes, ..Options::default() })
}

fn state_of(policy: &str, options: Options) -> State {
    let pool = pool(policy, options.extents.as_ref().map(|(extents, _)| Arc::clone(extents) as _));
    let shares = shares::make(&pool, &options).expect("they fit");
    let mut state = State::new(Common::new(pool).expect("its only user"), options, &shares, &Shared::new(CACHE, None))
        .expect("a state");
    state.begin_walks();
    state.look_up_all(&mut || false);
    state
}

/// A file of this many pages that is durable, with nothing of it in the cache, and of which nothing is read ahead.
fn cold(path: PathBuf, pages: u64) -> File {
    fs::write(&path, vec![7; (pages * PAGE) as usize]).expect("a file");
    let file = File::open(&path).expect("a file");
    file.sync_all().expect("a flush");
    act::drop_pages(file.as_fd(), &(0..pages)).expect("a call");
    assert!(there(&file).is_empty(), "it is cold");
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("a call");
    file
}

fn there(file: &File) -> Vec<u64> {
    let mut pages = Vec::new();
    let bytes = file.metadata().expect("a length").len();
    act::look(file, bytes, &mut |range| pages.extend(range)).expect("a look");
    pages
}

fn read(file: &File, page: u64) {
    file.read_exact_at(&mut [0; 8], page * PAGE).expect("a read");
}

/// A trace with hot pages, scans and loops.
fn trace() -> Vec<u64> {
    let mut state = 12345u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut pages = Vec::new();
    for round in 0..6 {
        pages.extend((0..300).map(|_| (next() % 40) * (next() % 40) / 10));
        pages.extend(if round % 2 == 0 { 0..FILE } else { 20..130 });
    }
    // The kernel, too, takes the same page twice running for one use.
    pages.dedup();
    pages
}

/// Reads the trace, with a turn after each read. `None`: events were lost, as other programs on a busy machine make many, or the kernel has reclaimed pages by itself (DAMON).
fn steered_by(policy: &str, folder: &Path) -> Option<Pages> {
    let file = cold(folder.join("file"), FILE);
    let mut state = state(policy, folder);
    for page in trace() {
        read(&file, page);
        state.turn(Instant::now());
    }
    if state.watch.lost() > 0 || state.counts.pages.reclaimed > 0 {
        return None;
    }
    assert_eq!(there(&file).len() as u64, state.counts.there, "{policy}");
    assert!(state.counts.there <= CACHE, "{policy}");
    Some(state.counts.pages)
}

#[test]
fn every_policy_has_the_simulator_s_hits_in_the_kernel_s_cache() {
    let Some(folder) = folder() else { return };
    for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
        let pages = (0..20).find_map(|_| steered_by(&spec.label, folder.path()));
        let Pages { kernel_hits, kernel_misses, .. } = pages.expect("events are lost each of 20 times");
        let simulator = pool(&spec.label, None);
        let volume = simulator.attach(Arc::new(MemoryDevice::new(0)), VolumeConfig::new("simulated"));
        let handle = simulator.handle().expect("a handle");
        for page in trace() {
            handle.refer(&volume, page..page + 1, Operation::Read);
        }
        let simulated = simulator.statistics();
        let ratio = |hits: u64, misses: u64| 100.0 * hits as f64 / (hits + misses) as f64;
        let (ours, theirs) = (ratio(kernel_hits, kernel_misses), ratio(simulated.hits, simulated.misses));
        assert!((ours - theirs).abs() < 0.5, "{}: {ours:.1} % in the kernel, {theirs:.1} % simulated", spec.label);
    }
}

#[test]
fn what_is_used_through_a_mapping_is_held_to_the_cache_too() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), FILE);
    let mut state = state("lru", folder.path());
    let length = (FILE * PAGE) as usize;
    let (read, shared) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
    // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use.
    let mapping = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, read, shared, &file, 0) }.expect("a mapping");
    // SAFETY: the mapping is `length` bytes long.
    unsafe { rustix::mm::madvise(mapping, length, rustix::mm::Advice::Random) }.expect("advice is taken");
    for _ in 0..3 {
        for page in 0..FILE {
            // SAFETY: the page lies within the mapping, whose file is as long and is not changed.
            let byte = unsafe { mapping.cast::<u8>().add((page * PAGE) as usize).read_volatile() };
            assert_eq!(byte, 7);
            state.turn(Instant::now());
        }
        let begin = Instant::now();
        while there(&file).len() as u64 > CACHE {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} pages stay", there(&file).len());
            std::thread::sleep(PAUSE);
            state.turn(Instant::now());
        }
    }
    assert_eq!(state.counts.pages.reclaimed, 0, "they have left at our word");
    assert!(state.counts.pages.dropped > FILE);
    // SAFETY: it was mapped above, and nothing refers to it.
    unsafe { rustix::mm::munmap(mapping, length) }.expect("it was mapped");
}

#[test]
fn what_is_there_at_the_start_is_found_and_what_is_too_much_leaves() {
    let Some(folder) = folder() else { return };
    fs::create_dir(folder.path().join("below")).expect("a folder");
    let file = cold(folder.path().join("below/file"), FILE);
    (0..FILE).for_each(|page| read(&file, page));
    let state = state("lru", folder.path());
    assert_eq!((there(&file).len() as u64, state.counts.there), (CACHE, CACHE));
}

#[test]
fn dirty_pages_leave_once_they_are_written() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), 1);
    let mut state = state("lru", folder.path());
    let writer = File::options().write(true).open(folder.path().join("file")).expect("a file");
    for page in 0..FILE {
        writer.write_all_at(&[1; PAGE as usize], page * PAGE).expect("a write");
        state.turn(Instant::now());
    }
    let begin = Instant::now();
    while there(&file).len() as u64 > CACHE {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited 30 s in vain: dirty pages are written and leave");
        state.turn(Instant::now());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut bytes = vec![0; (FILE * PAGE) as usize];
    file.read_exact_at(&mut bytes, 0).expect("a read");
    assert!(bytes.iter().all(|&byte| byte == 1), "nothing is lost");
}

#[test]
fn mapped_pages_that_cannot_leave_are_the_policy_s_again() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), FILE);
    let mut state = state("lru", folder.path());
    (0..8).for_each(|page| read(&file, page));
    let length = 8 * PAGE as usize;
    let protection = rustix::mm::ProtFlags::READ;
    let flags = rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::POPULATE;
    // SAFETY: a new mapping at addresses of the kernel's choice touches no memory that is in use.
    let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, &file, 0) }.expect("a map");
    for page in 8..FILE {
        read(&file, page);
        state.turn(Instant::now());
    }
    // Each is tried some times, at most a second apart.
    let mut now = Instant::now();
    for _ in 0..20 {
        now += Duration::from_secs(1);
        state.turn(now);
    }
    assert!(there(&file)[..8] == [0, 1, 2, 3, 4, 5, 6, 7], "they are mapped, and the process alone may know for what");
    assert!(state.counts.refused >= 8, "{:?}", state.counts);
    // SAFETY: it was mapped above, and nothing refers to it.
    unsafe { rustix::mm::munmap(mapped, length) }.expect("it is mapped");
}

#[test]
fn a_deleted_file_is_not_kept_open() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), FILE);
    let mut state = state("lru", folder.path());
    for page in 0..FILE {
        read(&file, page);
        state.turn(Instant::now());
    }
    let open = || {
        let files = fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
        files.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(folder.path()))).count()
    };
    assert_eq!(open(), 3, "the folder twice, and this test's file");
    drop(file);
    fs::remove_file(folder.path().join("file")).expect("it is there");
    state.turn(Instant::now());
    assert_eq!(state.counts.there, 0, "its pages have gone with it");
}

#[test]
fn files_that_came_while_events_were_lost_are_found() {
    let Some(folder) = folder() else { return };
    let mut state = state("lru", folder.path());
    let file = cold(folder.path().join("file"), FILE);
    // As if they had been: what has happened is not told.
    state.watch.drain(usize::MAX, &mut |_| {});
    (0..FILE).for_each(|page| read(&file, page));
    state.watch.drain(usize::MAX, &mut |_| {});
    assert_eq!(there(&file).len() as u64, FILE);
    state.lost = u64::MAX;
    let begin = Instant::now();
    state.turn(begin + TEND);
    while !state.lookup.is_done() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "waited 30 s in vain: a folder of one file is looked through"
        );
        state.turn(Instant::now());
    }
    assert_eq!(there(&file).len() as u64, CACHE);
    assert_eq!(state.counts.there, CACHE);
}

#[test]
fn a_file_that_is_renamed_out_of_the_directory_is_left_alone() {
    let Some(folder) = folder() else { return };
    let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
    [&inside, &outside].into_iter().for_each(|path| fs::create_dir(path).expect("a folder"));
    let (leaves, comes) = (cold(inside.join("leaves"), 8), cold(outside.join("comes"), 8));
    let mut state = state("lru", &inside);
    let mut look = |now| {
        [&leaves, &comes].into_iter().for_each(|file| read(file, 1));
        state.turn(now);
        (state.counts.files, state.counts.there)
    };
    let now = Instant::now();
    assert_eq!(look(now), (1, 1));
    fs::rename(inside.join("leaves"), outside.join("leaves")).expect("a rename");
    fs::rename(outside.join("comes"), inside.join("comes")).expect("a rename");
    look(now + VERDICT);
    // The kernel was to ask again at the end of that turn.
    [&leaves, &comes].into_iter().for_each(|file| read(file, 2));
    look(now + VERDICT);
    let names: Vec<_> = state.files.iter().map(|file| file.id.inode).collect();
    assert_eq!(names, [comes.metadata().expect("it is there").ino()]);
}

#[test]
fn a_file_that_is_renamed_into_a_directory_with_another_share_has_that() {
    let Some(folder) = folder() else { return };
    let places = ["one", "two"].map(|name| folder.path().join(name));
    places.iter().for_each(|path| fs::create_dir(path).expect("a folder"));
    let file = cold(places[0].join("file"), FILE);
    let scopes: Vec<Scope> = places.iter().cloned().map(Scope::Directory).collect();
    let share = |pages: u64| Share { min: 0, max: pages * PAGE };
    let shares = scopes.iter().cloned().zip([share(16), share(64)]).collect();
    let mut state = state_of("lru", Options { scopes, shares, ..Options::default() });
    let mut read_all = |now| {
        for page in 0..FILE {
            read(&file, page);
            state.turn(now);
        }
        (there(&file).len(), state.counts.files)
    };
    let now = Instant::now();
    assert_eq!(read_all(now), (16, 1));
    fs::rename(places[0].join("file"), places[1].join("file")).expect("a rename");
    read_all(now + VERDICT);
    // The kernel was to ask again at the end of a turn.
    assert_eq!(read_all(now + 2 * VERDICT), (64, 1));
}

#[test]
fn a_directory_that_is_renamed_is_steered_on() {
    let Some(folder) = folder() else { return };
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    fs::create_dir(&before).expect("a folder");
    let file = cold(before.join("file"), FILE);
    let mut state = state("lru", &before);
    fs::rename(&before, &after).expect("a rename");
    for seen in [TEND, 2 * VERDICT] {
        let now = Instant::now() + seen;
        state.turn(now);
        for page in 0..FILE {
            read(&file, page);
            state.turn(now);
        }
        assert_eq!((there(&file).len() as u64, state.counts.there, state.counts.files), (CACHE, CACHE, 1));
    }
}

#[test]
fn looking_for_what_is_there_ends_when_it_is_to_stop() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), FILE);
    let mut state = state("lru", folder.path());
    state.look_all_up_anew();
    state.look_up_all(&mut || true);
    assert!(!state.lookup.is_done(), "no turn was taken");
    (0..FILE).for_each(|page| read(&file, page));
    state.look_up_all(&mut || false);
    assert!(state.lookup.is_done());
}

#[test]
fn a_file_of_several_names_is_known_as_such_while_a_walk_finds_it() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), 1);
    fs::hard_link(folder.path().join("file"), folder.path().join("again")).expect("a link");
    let mut state = state("lru", folder.path());
    assert_eq!(state.linked.len(), 1);
    fs::remove_file(folder.path().join("again")).expect("it is there");
    state.look_all_up_anew();
    assert_eq!(state.linked.len(), 1, "nothing is forgotten before all was walked through");
    state.look_up_all(&mut || false);
    assert!(state.linked.is_empty());
    drop(file);
}

#[test]
fn dulo_learns_where_files_lie_and_that_one_was_cut() {
    let Some(folder) = folder() else { return };
    let file = cold(folder.path().join("file"), FILE);
    let (scopes, (extents, asked)) = (vec![Scope::Directory(folder.path().to_owned())], Extents::new(CACHE));
    let mut state =
        state_of("dulo", Options { scopes, extents: Some((Arc::clone(&extents), asked)), ..Options::default() });
    let read = |state: &mut State, page: u64| {
        file.read_exact_at(&mut [0; 1], page * PAGE).expect("a read");
        state.turn(Instant::now());
    };
    (0..FILE).for_each(|page| read(&mut state, page));
    let object = state.files.iter().next().expect("it is steered").volume.id();
    let at = |block| extents.on_disk(Place { object, block });
    let end = Instant::now() + Duration::from_secs(20);
    while at(0).is_none() {
        assert!(Instant::now() < end, "where the file lies was not found within 20 s");
        state.turn(Instant::now());
    }
    let [first, next] = [0, 1].map(|block| at(block).expect("it is known"));
    assert_eq!((next.object, next.block), (first.object, first.block + 1), "it was written in order");
    assert!(at(FILE).is_none(), "it ends there");
    // What this process does itself is taken for steering.
    let cut = Command::new("truncate").args(["--size", "0"]).arg(folder.path().join("file")).status();
    assert!(cut.expect("it runs").success());
    state.turn(Instant::now());
    assert!(at(0).is_none(), "it lies nowhere any more");
}
