//! A miss and what is read ahead right behind it are one request to the device.

use crate::common::wait_until;
use forebay_policy::Spec;
use forebay_pool::device::{Device, Fault, Faulty, MemoryDevice, Operation, Rule};
use forebay_pool::{Config, Error, Handle, Pool, Volume, VolumeConfig, WriteMode};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u64 = 4096;

/// Reads of a volume of 64 blocks, of which at most 16 are read ahead at once. Returns how many requests met a rule, and how many pages
/// were read ahead.
fn reading(rules: Vec<Rule>, read: impl Fn(&Handle, &Arc<Volume>)) -> (u64, u64) {
    let device = Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE), rules, 1));
    let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
    let config = VolumeConfig { readahead: 64 << 10, ..VolumeConfig::new("test") };
    let volume = pool.attach(Arc::clone(&device) as Arc<dyn Device>, config);
    read(&pool.handle().expect("a handle"), &volume);
    wait_until("all is read", || !pool.is_reading_ahead());
    let ahead = pool.statistics().volumes[0].pages_read_ahead;
    pool.close().expect("nothing was written");
    (device.struck(), ahead)
}

/// A fault that only counts.
fn counted() -> Rule {
    Rule { operation: Some(Operation::Read), ..Rule::new(Fault::Stall(Duration::ZERO)) }
}

#[test]
fn a_miss_and_the_first_window_behind_it_are_one_request() {
    let by_bytes = |handle: &Handle, volume: &Arc<Volume>| {
        let mut bytes = [7; 4 * PAGE as usize];
        handle.read_at(volume, 0, &mut bytes).expect("a read of the first page begins a stream");
        assert_eq!(bytes, [0; 4 * PAGE as usize]);
        assert!(
            handle.read_at_if_resident(volume, 4 * PAGE, &mut bytes[..PAGE as usize]),
            "it has come with the others"
        );
    };
    // Four pages get a window of eight; the read of the fifth one has the next sixteen read.
    assert_eq!(reading(vec![counted()], by_bytes), (2, 4 + 16));
    let by_page = |handle: &Handle, volume: &Arc<Volume>| {
        assert_eq!(handle.read(volume, 0).expect("a page").len(), PAGE as usize);
    };
    assert_eq!(reading(vec![counted()], by_page), (1, 1));
}

#[test]
fn a_miss_does_not_fail_with_what_was_to_be_read_ahead() {
    let bad =
        Rule { operation: Some(Operation::Read), range: 2 * PAGE..64 * PAGE, ..Rule::new(Fault::Error(libc::EIO)) };
    let read = |handle: &Handle, volume: &Arc<Volume>| {
        let mut bytes = [7; 2 * PAGE as usize];
        handle.read_at(volume, 0, &mut bytes).expect("these blocks are well");
        assert_eq!(bytes, [0; 2 * PAGE as usize]);
        let failed = handle.read_at(volume, 2 * PAGE, &mut bytes).expect_err("and these are not");
        assert!(matches!(failed, Error::Device { offset, .. } if offset == 2 * PAGE), "{failed}");
    };
    let (struck, ahead) = reading(vec![bad], read);
    assert!(struck >= 2, "the window and the second read");
    assert_eq!(ahead, 0);
}

#[test]
fn a_program_that_goes_forward_writing_in_memory_has_pages_read_ahead_and_other_writers_have_none() {
    let touched = |handle: &Handle, volume: &Arc<Volume>| {
        for block in 0..8 {
            handle.write_touched(volume, block).expect("a page").commit().expect("it is dirty");
        }
        handle.flush(volume).expect("it is written");
    };
    let (requests, ahead) = reading(vec![counted()], touched);
    assert!(requests <= 4 && ahead >= 8, "{requests} reads, {ahead} pages ahead");
    let written = |handle: &Handle, volume: &Arc<Volume>| {
        for block in 0..8 {
            handle.write(volume, block).expect("a page").commit().expect("it is dirty");
        }
        handle.flush(volume).expect("it is written");
    };
    assert_eq!(reading(vec![counted()], written), (8, 0));
}

#[test]
fn a_page_that_was_read_ahead_is_used_ahead_once() {
    let read = |handle: &Handle, volume: &Arc<Volume>| {
        assert!(handle.use_ahead(volume, 0).is_none(), "it is absent");
        let first = handle.read(volume, 0).expect("a page");
        assert!(handle.use_ahead(volume, 0).is_none(), "it was not read ahead");
        assert!(handle.use_ahead(volume, 1).is_some_and(|page| page[..] == first[..]), "it was");
        assert!(handle.use_ahead(volume, 1).is_none(), "it was used");
    };
    let (_, ahead) = reading(vec![counted()], read);
    assert!(ahead > 1, "its use has the next read");
}

#[test]
fn a_page_that_was_read_ahead_is_written_ahead_once() {
    let written = |handle: &Handle, volume: &Arc<Volume>| {
        assert!(handle.write_ahead(volume, 0).is_none(), "it is absent");
        handle.write_touched(volume, 0).expect("a page").commit().expect("it is dirty");
        assert!(handle.write_ahead(volume, 0).is_none(), "it was not read ahead");
        let mut page = handle.write_ahead(volume, 1).expect("it was");
        page[0] = 7;
        page.commit().expect("it is dirty");
        assert!(handle.write_ahead(volume, 1).is_none(), "it was used");
        assert_eq!(handle.read(volume, 1).expect("a page")[0], 7);
        handle.flush(volume).expect("it is written");
    };
    let (_, ahead) = reading(vec![counted()], written);
    assert!(ahead > 1, "its use has the next read");
}

#[test]
fn what_is_written_through_or_not_at_all_is_not_written_ahead() {
    let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
    let handle = pool.handle().expect("a handle");
    for (mode, read_only) in [(WriteMode::Through, false), (WriteMode::Back, true)] {
        let config = VolumeConfig { mode, read_only, ..VolumeConfig::new("test") };
        let volume = pool.attach(Arc::new(MemoryDevice::new(64 * PAGE)), config);
        drop(handle.read(&volume, 0).expect("a page"));
        wait_until("all is read", || !pool.is_reading_ahead());
        assert!(handle.write_ahead(&volume, 1).is_none(), "{mode:?}");
        assert!(handle.use_ahead(&volume, 1).is_some(), "it has been read ahead");
    }
}
