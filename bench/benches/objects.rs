//! What a million objects of one page each cost: processor time of attach, of a first read or write, and of detach.
//!
//! `cargo bench -p forebay-bench --bench objects [-- OBJECTS]`. Frames take 4 KiB an object.

use forebay_policy::Spec;
use forebay_pool::device::Device;
use forebay_pool::{Config, Durability, Pool, Volume, VolumeConfig};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

const PAGE: u64 = 4096;

/// The processor time of this thread in nanoseconds, which others on the machine do not lengthen.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A file of one page that reads as zeroes.
struct Page;

impl Device for Page {
    fn len(&self) -> u64 {
        PAGE
    }

    fn read(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "a page".to_owned()
    }
}

fn main() {
    let objects: usize = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let policy = Spec::parse("clock-pro").expect("a policy");
    let pool = Pool::new(Config::new((objects + objects / 16) as u64 * PAGE, policy)).expect("a pool");
    let handle = pool.handle().expect("a handle");
    let device: Arc<dyn Device> = Arc::new(Page);
    let together = Some(pool.count_together());
    let config = VolumeConfig { together, ..VolumeConfig::new("file") };
    let mut volumes: Vec<Arc<Volume>> = Vec::with_capacity(objects);
    let time = |what: &str, begin: u64, count: usize| {
        println!("{what}: {} ns", (now() - begin) / count as u64);
    };
    let begin = now();
    volumes.extend((0..objects).map(|_| pool.attach(Arc::clone(&device), config.clone())));
    time("attach", begin, objects);
    let begin = now();
    for (number, volume) in volumes.iter().enumerate() {
        if number.is_multiple_of(10) {
            handle.write_at(volume, 0, &[1; PAGE as usize], Durability::Flush).expect("a write");
        } else {
            drop(handle.read(volume, 0).expect("a read"));
        }
    }
    time("first use, a tenth of them writes", begin, objects);
    let begin = now();
    volumes.iter().for_each(|volume| drop(handle.read(volume, 0).expect("a read")));
    time("hit", begin, objects);
    println!("{} dirty", pool.statistics().dirty);
    // In another order than they came.
    let shuffled = (0..objects).map(|number| number * 7_919 % objects);
    let (dirty, clean): (Vec<usize>, Vec<usize>) = shuffled.partition(|number| number.is_multiple_of(10));
    let begin = now();
    clean.iter().for_each(|&number| pool.detach(&volumes[number]).expect("nothing fails"));
    time("detach of a clean one", begin, clean.len());
    let begin = now();
    dirty.iter().for_each(|&number| pool.discard(&volumes[number]).expect("nothing fails"));
    time("discard of a dirty one", begin, dirty.len());
    assert_eq!(pool.statistics().resident, 0);
    let begin = now();
    drop(volumes);
    volumes = (0..objects).map(|_| pool.attach(Arc::clone(&device), config.clone())).collect();
    time("drop, and attach again", begin, objects);
    assert!(volumes.iter().all(|volume| (volume.id() as usize) < objects));
}
