//! A policy that goes by the disk's block numbers learns where the files of a mount lie.

use crate::mounted::{Mounted, pattern, wait_until};
use forebay_basis::Place;
use forebay_extents::{Extents, runs_of};
use forebay_policy::{Layout, Spec};
use std::fs::{self, File};
use std::sync::Arc;

const PAGE: u64 = 4096;
const PAGES: u64 = 16;

/// A mount under DULO in which files lie, and what it knows of them; `None` where file systems do not say it.
fn mounted(files: &[&str]) -> Option<(Mounted, Arc<Extents>)> {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    fs::create_dir(&source).expect("a folder");
    for name in files {
        fs::write(source.join(name), pattern(7, (PAGES * PAGE) as usize)).expect("there is room");
        let file = File::open(source.join(name)).expect("it is there");
        file.sync_all().expect("it is durable");
        if runs_of(&file, PAGE).is_err() && std::env::var_os("CI").is_none() {
            eprintln!("skipped: this file system does not say where files lie");
            return None;
        }
    }
    let (extents, asked) = Extents::new(256);
    let layout = Some(Arc::clone(&extents) as Arc<dyn Layout>);
    let by_disk = Some((Arc::clone(&extents), asked));
    let policy = Spec { layout, ..Spec::parse("dulo").expect("a policy") };
    Mounted::knowing(by_disk, folder, |_, config| config.policy = policy).map(|mounted| (mounted, extents))
}

/// The numbers of files that the pool has, with where their first blocks lie.
fn known(extents: &Extents) -> Vec<(u32, Place)> {
    let lies = |object| Some((object, extents.on_disk(Place { object, block: 0 })?));
    (0..8).filter_map(lies).collect()
}

#[test]
fn where_files_lie_is_known_once_they_are_read_until_they_are_cut_or_deleted() {
    let Some((mounted, extents)) = mounted(&["one", "other"]) else { return };
    for (count, name) in ["one", "other"].into_iter().enumerate() {
        fs::read(mounted.seen(name)).expect("a read");
        wait_until("it is known where it lies", || known(&extents).len() == count + 1);
    }
    let [(one, first), (other, second)] = known(&extents)[..] else { panic!("there are two") };
    assert!(first.object == second.object && first.block != second.block, "{first:?} {second:?}: on one disk");
    assert!(first.object > u32::MAX / 2, "{}: the number of no file", first.object);
    let next = extents.on_disk(Place { object: one, block: 1 }).expect("it is known");
    assert_eq!((next.object, next.block), (first.object, first.block + 1), "it was written in order");
    assert!(extents.on_disk(Place { object: one, block: PAGES }).is_none(), "it ends there");

    File::options().write(true).open(mounted.seen("one")).and_then(|file| file.set_len(0)).expect("it is cut");
    wait_until("it lies nowhere", || known(&extents).iter().all(|(object, _)| *object == other));
    fs::remove_file(mounted.seen("other")).expect("it goes");
    wait_until("nothing is known of it", || known(&extents).is_empty());
    mounted.stop();
}

#[test]
fn what_a_program_writes_has_a_place_once_it_is_written_back() {
    let Some((mounted, extents)) = mounted(&["one"]) else { return };
    let file = File::create(mounted.seen("made")).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &pattern(3, (PAGES * PAGE) as usize), 0).expect("there is room");
    file.sync_all().expect("it is durable");
    let below = runs_of(File::open(mounted.below("made")).expect("it is there"), PAGE).expect("it says");
    assert!(!below.is_empty());
    wait_until("it is asked for again, and known", || !known(&extents).is_empty());
    let (object, _) = known(&extents)[0];
    wait_until("all of it is known", || (0..PAGES).all(|block| extents.on_disk(Place { object, block }).is_some()));
    drop(file);
    mounted.stop();
}
