//! What an object costs beside its pages: one test alone in its process, whose allocations it counts.

#[path = "all/common/mod.rs"]
mod common;

use common::Zeroes;
use forebay_policy::Spec;
use forebay_pool::{Config, Durability, Pool, Volume, VolumeConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: u64 = 4096;
/// A million of them take ten times as much, and as much time.
const OBJECTS: u64 = 100_000;

/// The system's allocator, which counts what it gives with what that takes of its own: 8 bytes, in units of 16.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes allocated for this many pages, each tenth of them dirty, of this many objects.
fn allocated(objects: u64) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let policy = Spec::parse("lru").expect("a policy");
    let pool = Pool::new(Config::new((OBJECTS + OBJECTS / 16) * PAGE, policy)).expect("a pool");
    let handle = pool.handle().expect("a handle");
    let device = Arc::new(Zeroes::default());
    let together = Some(pool.count_together());
    let config = |object| VolumeConfig {
        together: together.clone(),
        readahead: 0,
        ..VolumeConfig::new(format!("file {object}"))
    };
    let volumes: Vec<Arc<Volume>> = (0..objects).map(|object| pool.attach(device.clone(), config(object))).collect();
    for number in 0..OBJECTS {
        let (volume, block) = (&volumes[(number % objects) as usize], number / objects);
        if number % 10 == 0 {
            handle.write_at(volume, block * PAGE, &[1; PAGE as usize], Durability::Flush).expect("a write");
        } else {
            drop(handle.read(volume, block).expect("zeroes"));
        }
    }
    let statistics = pool.statistics();
    assert_eq!((u64::from(statistics.resident), statistics.misses), (OBJECTS, OBJECTS));
    let taken = ALLOCATED.load(Ordering::Relaxed) - before - volumes.capacity() * size_of::<Arc<Volume>>();
    for volume in volumes {
        pool.detach(&volume).expect("nothing fails");
    }
    assert_eq!(pool.statistics().resident, 0);
    taken
}

#[test]
fn an_object_takes_at_most_400_bytes_beside_its_pages() {
    let (one, many) = (allocated(1), allocated(OBJECTS));
    let each = (many - one) as u64 / OBJECTS;
    println!("{each} bytes an object");
    assert!(each <= 400, "{each} bytes an object");
}
