//! Pages whose bytes another cache holds, such as the kernel's page cache: the policy decides which of them stay, and frames hold no bytes.
//!
//! A front end that steers another cache says which pages are used there, and which have left it by themselves. It learns of the policy's victims by
//! [`Pool::on_leave`](crate::Pool::on_leave), and sees to it that they leave the other cache. Nothing here reads or writes a device, and no page is dirty, so
//! that no call waits. A pool is used in this way, made by [`Config::elsewhere`](crate::Config::elsewhere), or in the other, not in both.

use crate::access::handle::Handle;
use crate::core::memory::Memory;
use crate::core::replacer::Admitted;
use crate::core::table;
use crate::objects::volume::Volume;
use forebay_basis::{Operation, Place};
use forebay_policy::{Hit, Reference};
use std::ops::Range;
use std::sync::Arc;

/// Pages that are taken note of before others get a chance to have the replacer's lock.
const MANY: usize = 64;

/// What came of a use of consecutive pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Referred {
    /// Pages that were resident.
    pub hits: u32,
    /// Pages that were not, and are now.
    pub misses: u32,
    /// Pages that the policy does not admit: all others are held, or too many that were read ahead wait for their first use.
    pub refused: u32,
}

impl<M: Memory> Handle<M> {
    /// Takes note that pages are used in the other cache, or have been read ahead there ([`Operation::Readahead`], which is no use). Those that are not
    /// resident are admitted, and victims leave; blocks behind the volume's end are no error.
    pub fn refer(&self, volume: &Arc<Volume>, blocks: Range<u64>, operation: Operation) -> Referred {
        let referred = self.refer_all(volume, blocks, operation);
        let counters = &volume.counters;
        if operation == Operation::Readahead {
            counters.pages_read_ahead.add(referred.misses.into());
        } else {
            counters.hits.add(referred.hits.into());
            counters.misses.add((referred.misses + referred.refused).into());
        }
        referred
    }

    /// Takes note of pages that are found in the other cache, where they came before anybody took note. The policy learns of them as if each had been used
    /// once, and nothing is counted.
    pub fn find(&self, volume: &Arc<Volume>, blocks: Range<u64>) -> Referred {
        self.refer_all(volume, blocks, Operation::Read)
    }

    /// Counts uses of pages that the policy does not wait for, as [`on_await`](crate::Pool::on_await) says: it need not learn of them.
    pub fn refer_known(&self, volume: &Volume, pages: u64) {
        volume.counters.hits.add(pages);
    }

    fn refer_all(&self, volume: &Arc<Volume>, blocks: Range<u64>, operation: Operation) -> Referred {
        let mut referred = Referred::default();
        let mut start = blocks.start;
        while start < blocks.end && !volume.is_detached() {
            let end = blocks.end.min(start + MANY as u64);
            self.refer_some(volume, start..end, operation, &mut referred);
            start = end;
        }
        referred
    }

    fn refer_some(&self, volume: &Volume, blocks: Range<u64>, operation: Operation, referred: &mut Referred) {
        let core = &self.shared.core;
        let (object, owner, ahead) = (volume.id, self.owner(volume), operation == Operation::Readahead);
        let mut hits = self.hits.borrow_mut();
        let mut replacer = self.shared.replacer();
        for block in blocks {
            let place = Place { object, block };
            let found = replacer.find(core, place);
            if let Some(number) = found.filter(|&number| core.pages.get(number).state().valid()) {
                referred.hits += 1;
                if !ahead {
                    let first_use = core.pages.get(number).first_use();
                    volume.counters.readahead_used.add(first_use.into());
                    hits.push(Hit { reference: Reference { page: number, owner, place, operation }, first_use });
                }
                continue;
            }
            replacer.deliver(core, &mut hits);
            match replacer.admit(core, found, place, owner, operation) {
                Ok(Admitted::Loading(number)) => {
                    let page = core.pages.get(number);
                    page.loaded();
                    core.waiters.wake(number, page.end_exclusive());
                    referred.misses += 1;
                }
                Ok(Admitted::Rescued) => referred.misses += 1,
                Err(_) => referred.refused += 1,
            }
        }
        replacer.deliver(core, &mut hits);
        drop(replacer);
        self.shared.owners.admitted(referred.misses.into());
    }

    /// A page will be referred to soon. Where several are expected before the first is referred to, the memory that the pool knows them by comes to the processor
    /// together; else each is waited for.
    #[inline]
    pub fn expect(&self, object: u32, block: u64) {
        let core = &self.shared.core;
        let found = core.table.find(table::hash(object, block), |number| core.pages.get(number).is(object, block));
        std::hint::black_box(found);
    }

    /// Takes note that pages have left the other cache by themselves. The policy knows nothing of them any more. Returns how many were resident.
    pub fn left_elsewhere(&self, volume: &Volume, blocks: Range<u64>) -> u32 {
        let core = &self.shared.core;
        let mut left = 0;
        let mut start = blocks.start;
        while start < blocks.end {
            let mut replacer = self.shared.replacer();
            let end = blocks.end.min(start + MANY as u64);
            for block in start..end {
                let found = replacer.find(core, Place { object: volume.id, block });
                let held = found.filter(|&number| core.pages.get(number).begin_exclusive(volume.id, block).is_ok());
                if let Some(number) = held {
                    replacer.drop_page(core, number);
                    left += 1;
                }
            }
            start = end;
        }
        left
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::{Config, Pool, VolumeConfig};
    use forebay_policy::Spec;
    use std::collections::HashSet;
    use std::sync::Mutex;

    fn pool(policy: &str, pages: u64) -> (Pool, Arc<Volume>, Arc<Mutex<Vec<u64>>>) {
        let spec = Spec::parse(policy).expect("a policy");
        let pool = Pool::new(Config::elsewhere(pages * 4096, spec)).expect("a pool");
        let volume = pool.attach(Arc::new(MemoryDevice::new(0)), VolumeConfig::new("elsewhere"));
        let left = Arc::new(Mutex::new(Vec::new()));
        let leaving = Arc::clone(&left);
        pool.on_leave(move |places| leaving.lock().expect("a list").extend(places.iter().map(|place| place.block)));
        (pool, volume, left)
    }

    #[test]
    fn victims_are_announced_and_nothing_is_read() {
        let (pool, volume, left) = pool("lru", 4);
        let handle = pool.handle().expect("a handle");
        assert_eq!(handle.refer(&volume, 0..4, Operation::Read), Referred { misses: 4, ..Referred::default() });
        assert_eq!(handle.refer(&volume, 0..1, Operation::Write), Referred { hits: 1, ..Referred::default() });
        assert_eq!(handle.refer(&volume, 4..6, Operation::Read), Referred { misses: 2, ..Referred::default() });
        assert_eq!(*left.lock().expect("a list"), [1, 2], "page 0 was used since");
        let figures = pool.statistics();
        assert_eq!((figures.hits, figures.misses, figures.resident, figures.dirty), (1, 6, 4, 0));
        assert_eq!(figures.volumes[0].device.reads, 0);
    }

    #[test]
    fn a_page_that_left_by_itself_is_unknown_and_gives_its_room() {
        let (pool, volume, left) = pool("lru", 4);
        let handle = pool.handle().expect("a handle");
        handle.refer(&volume, 0..4, Operation::Read);
        assert_eq!(handle.left_elsewhere(&volume, 1..9), 3);
        left.lock().expect("a list").clear();
        assert_eq!(handle.refer(&volume, 5..8, Operation::Read).misses, 3);
        assert_eq!(*left.lock().expect("a list"), [0; 0], "there was room");
        assert_eq!(handle.left_elsewhere(&volume, 1..4), 0);
    }

    #[test]
    fn a_page_that_is_found_was_used_once_and_is_not_counted() {
        let (pool, volume, left) = pool("arc", 8);
        let handle = pool.handle().expect("a handle");
        assert_eq!(handle.find(&volume, 0..4), Referred { misses: 4, ..Referred::default() });
        assert_eq!((pool.statistics().hits, pool.statistics().misses), (0, 0));
        handle.refer(&volume, 0..2, Operation::Read);
        handle.refer(&volume, 10..20, Operation::Read);
        assert!(left.lock().expect("a list").iter().all(|block| *block > 1), "pages that were used twice stay");
    }

    #[test]
    fn the_first_use_of_a_page_read_ahead_is_its_admission() {
        let (pool, volume, left) = pool("2q", 64);
        let handle = pool.handle().expect("a handle");
        assert_eq!(handle.refer(&volume, 0..8, Operation::Readahead).misses, 8);
        assert_eq!(handle.refer(&volume, 0..8, Operation::Readahead).hits, 8, "it is there already");
        assert_eq!(handle.refer(&volume, 0..8, Operation::Read).hits, 8);
        let volumes = pool.statistics().volumes;
        assert_eq!((volumes[0].pages_read_ahead, volumes[0].readahead_used), (8, 8));
        handle.refer(&volume, 100..200, Operation::Read);
        assert_eq!(left.lock().expect("a list").len(), 44);
    }

    #[test]
    fn uses_that_the_policy_does_not_await_need_not_be_told() {
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 33) % below
        };
        let steps: Vec<(u64, u64)> = (0..30_000).map(|_| (next(20), next(100).min(next(400)))).collect();
        for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
            let run = |tells_all: bool| {
                let (pool, volume, left) = pool(&spec.label, 64);
                let awaited = Arc::new(Mutex::new(HashSet::new()));
                let changed = Arc::clone(&awaited);
                let says = pool.on_await(move |pages| {
                    let mut known = changed.lock().expect("a set");
                    pages.iter().for_each(|(place, awaited)| {
                        if *awaited {
                            known.remove(&place.block)
                        } else {
                            known.insert(place.block)
                        };
                    });
                });
                assert_eq!(says, spec.info.awaits_uses, "{}", spec.label);
                let (handle, mut told, mut found) = (pool.handle().expect("a handle"), 0, Vec::new());
                for (step, &(what, block)) in steps.iter().enumerate() {
                    let known = handle.is_resident(&volume, block) && awaited.lock().expect("a set").contains(&block);
                    match what {
                        0 => drop(handle.refer(&volume, block..block + 4, Operation::Readahead)),
                        1 => drop(handle.left_elsewhere(&volume, block..block + 1)),
                        _ if known && !tells_all => handle.refer_known(&volume, 1),
                        _ => {
                            told += 1;
                            handle.refer(&volume, block..block + 1, Operation::Read);
                        }
                    }
                    if step % 10_000 == 9_999 {
                        pool.resize((64 - step as u64 / 1000) * 4096).expect("it is smaller");
                    }
                    let mut left = left.lock().expect("a list");
                    awaited.lock().expect("a set").retain(|block| !left.contains(block));
                    found.append(&mut left);
                }
                let figures = pool.statistics();
                (told, (found, figures.hits, figures.misses, figures.volumes[0].readahead_used))
            };
            let (all, some) = (run(true), run(false));
            assert_eq!(all.1, some.1, "{}", spec.label);
            assert_eq!(some.0 < all.0, spec.info.awaits_uses, "{}: of {} uses {} are told", spec.label, all.0, some.0);
        }
    }

    #[test]
    fn hits_are_those_of_the_simulator() {
        let trace: Vec<u64> = (0..20_000u64).map(|step| (step * step + step / 7) % 300).collect();
        for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
            let config = Config::elsewhere(64 * 4096, spec.clone());
            let pool = Pool::new(config).expect("a pool");
            let volume = pool.attach(Arc::new(MemoryDevice::new(300 * 4096)), VolumeConfig::new("elsewhere"));
            let other = Pool::new(Config::new(66 * 4096, spec.clone())).expect("a pool");
            assert_eq!(other.statistics().policy_frames, 64);
            let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("here") };
            let here = other.attach(Arc::new(MemoryDevice::new(300 * 4096)), config);
            let (handle, other_handle) = (pool.handle().expect("a handle"), other.handle().expect("a handle"));
            for &block in &trace {
                handle.refer(&volume, block..block + 1, Operation::Read);
                drop(other_handle.read(&here, block).expect("memory is read"));
            }
            other_handle.settle();
            let [steered, read] = [&pool, &other].map(|pool| pool.statistics().hits);
            assert_eq!(steered, read, "{}: the same policy decides", spec.label);
        }
    }
}
