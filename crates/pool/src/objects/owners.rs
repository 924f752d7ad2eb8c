//! Who uses pages: processes, users, managers, under the keys that a front end knows them by.
//!
//! A policy knows owners by small numbers. They are given out here, apart from those of volumes: without an owner, a volume's number is used.
//! A number is reused when its owner has been dropped and twice as many pages as there are frames have been admitted since: by then the owner's
//! pages have most likely gone, and the next owner does not inherit them.

use crate::core::memory::Memory;
use crate::pool::Pool;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use foldhash::HashMap;
use forebay_figures::Total;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// A number rests until as many pages have been admitted as there are frames, times this.
const ROUNDS: u64 = 2;

/// Somebody who uses pages, until the last copy of this is dropped. Equal keys give equal owners.
#[derive(Clone)]
pub struct Owner(Arc<Entry>);

struct Entry {
    key: u64,
    number: u32,
    pages_read_ahead: Total,
    pages_written_back: Total,
    registry: Arc<Owners>,
}

/// The owners that somebody holds.
#[derive(Default)]
pub(crate) struct Owners {
    known: Mutex<Known>,
    /// Pages admitted since the pool was made.
    admitted: AtomicU64,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<u64, Weak<Entry>>,
    by_number: HashMap<u32, Weak<Entry>>,
    /// Numbers of owners that have gone, and when.
    resting: VecDeque<(u64, u32)>,
}

impl Owners {
    pub(crate) fn admitted(&self, pages: u64) {
        self.admitted.fetch_add(pages, Ordering::Relaxed);
    }

    /// Counts pages that an owner, if it is known, has had read ahead or written back.
    fn count(&self, number: u32, pages: u64, of: impl Fn(&Entry) -> &Total) {
        let owner = lock(&self.known).by_number.get(&number).and_then(Weak::upgrade);
        // Its last copy may be this one, whose end takes the lock.
        if let Some(owner) = owner {
            of(&owner).add(pages);
        }
    }

    pub(crate) fn read_ahead(&self, number: u32, pages: u64) {
        self.count(number, pages, |owner| &owner.pages_read_ahead);
    }

    pub(crate) fn written_back(&self, number: u32, pages: u64) {
        self.count(number, pages, |owner| &owner.pages_written_back);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let now = self.registry.admitted.load(Ordering::Relaxed);
        let mut known = lock(&self.registry.known);
        // Another may have come under its key since.
        if known.by_key.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            known.by_key.remove(&self.key);
        }
        known.by_number.remove(&self.number);
        known.resting.push_back((now, self.number));
    }
}

impl Owner {
    /// The number by which policies know it.
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Pages that were read ahead for it.
    pub fn pages_read_ahead(&self) -> u64 {
        self.0.pages_read_ahead.get()
    }

    /// Pages that it made dirty, and that have been written back.
    pub fn pages_written_back(&self) -> u64 {
        self.0.pages_written_back.get()
    }
}

impl<M: Memory> Pool<M> {
    /// The owner that a front end knows by this key, such as a process's number.
    pub fn owner(&self, key: u64) -> Owner {
        let registry = &self.shared.owners;
        let mut known = lock(&registry.known);
        if let Some(entry) = known.by_key.get(&key).and_then(Weak::upgrade) {
            return Owner(entry);
        }
        let rested = registry.admitted.load(Ordering::Relaxed).saturating_sub(ROUNDS * self.shared.frames());
        let number = match known.resting.front() {
            Some(&(since, number)) if since < rested => {
                known.resting.pop_front();
                self.forget_owner(number);
                number
            }
            _ => self.shared.numbers.take(),
        };
        let (pages_read_ahead, pages_written_back) = (Total::default(), Total::default());
        let registry = Arc::clone(registry);
        let entry = Arc::new(Entry { key, number, pages_read_ahead, pages_written_back, registry });
        known.by_key.insert(key, Arc::downgrade(&entry));
        known.by_number.insert(number, Arc::downgrade(&entry));
        Owner(entry)
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use crate::device::MemoryDevice;
    use crate::{Config, Durability, Hint, Pool, VolumeConfig};
    use forebay_policy::Spec;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const PAGE: u64 = 4096;

    fn pool() -> Pool {
        Pool::new(Config::new(64 * PAGE, Spec::parse("lru-sp").expect("a policy"))).expect("a pool")
    }

    #[test]
    fn equal_keys_are_one_owner_and_a_number_rests_before_it_comes_back() {
        let pool = pool();
        let volume = pool.attach(Arc::new(MemoryDevice::new(1000 * PAGE)), VolumeConfig::new("test"));
        let (one, other) = (pool.owner(7), pool.owner(9));
        assert_eq!((one.number(), other.number()), (pool.owner(7).number(), pool.owner(9).number()));
        assert!(one.number() != other.number() && one.number() != volume.id() && other.number() != volume.id());
        let number = one.number();
        drop(one);
        assert_ne!(pool.owner(8).number(), number, "pages of its may be there");
        let handle = pool.handle().expect("a handle");
        (0..200).for_each(|block| drop(handle.read(&volume, block).expect("a read")));
        assert_eq!(pool.owner(10).number(), number);
    }

    #[test]
    fn readahead_and_writeback_are_their_owner_s() {
        let pool = pool();
        let volume = pool.attach(Arc::new(MemoryDevice::new(64 * PAGE)), VolumeConfig::new("test"));
        let (writer, reader) = (pool.owner(1), pool.owner(2));
        let handle = pool.handle().expect("a handle");
        handle.use_owner(Some(&writer));
        handle.write_at(&volume, 0, &[1; 5 * PAGE as usize], Durability::Flush).expect("a write");
        handle.use_owner(Some(&reader));
        handle.write_at(&volume, 20 * PAGE, &[1], Durability::Flush).expect("a write");
        handle.flush(&volume).expect("memory is written");
        assert_eq!((writer.pages_written_back(), reader.pages_written_back()), (5, 1));
        handle.hint(&volume, Hint::WillNeed { offset: 30 * PAGE, length: 3 * PAGE }).expect("a hint");
        let deadline = Instant::now() + Duration::from_secs(60);
        while reader.pages_read_ahead() < 3 {
            assert!(Instant::now() < deadline, "waited 60 s in vain: pages are read ahead");
            std::thread::yield_now();
        }
        assert_eq!(writer.pages_read_ahead(), 0);
    }
}
