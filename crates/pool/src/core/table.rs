//! The page table: from an object and a block to the number of its page, resident or ghost.
//!
//! One writer at a time (the holder of the replacer's lock), any number of readers without a lock. Open addressing with linear
//! probing, at most half full; an entry is 32 bits of the hash and the page's number. A reader may meet the table in the midst of
//! a change: it then may not find what is there, and asks again under the lock. What it does find it checks against the page.
//!
//! Every probe ends: a reader's looks at no more entries than there are, and the writer, who alone changes the table, meets an empty one, as
//! half of them are. It stays short: where a probe begins depends on a seed drawn for the process, so that blocks chosen against the hash
//! are as good as random ones.

use crate::sync::{AtomicU32, AtomicU64, Ordering, size};
use std::hash::BuildHasher;
use std::sync::{LazyLock, OnceLock};

/// The smallest table has 2^10 entries.
const SMALLEST: u32 = size(10, 4) as u32;
/// Sizes up to 2^33 entries.
const SIZES: usize = 24;

pub(crate) struct Table {
    /// The tables by size. A smaller one that was grown out of stays, as a reader may be in it; all of them are together
    /// smaller than the one in use. None is larger than was reserved or is needed.
    tables: [OnceLock<Box<[AtomicU64]>>; SIZES],
    /// Which is in use.
    current: AtomicU32,
    /// How many entries are in use.
    entries: AtomicU64,
}

/// The model checker repeats what it found, and so needs the same hash each time.
#[cfg(feature = "model-check")]
type Seed = foldhash::quality::FixedState;
#[cfg(not(feature = "model-check"))]
type Seed = foldhash::quality::RandomState;

static SEED: LazyLock<Seed> = LazyLock::new(Seed::default);

/// A key's hash.
#[inline]
pub(crate) fn hash(object: u32, block: u64) -> u64 {
    SEED.hash_one((object, block))
}

fn entry(hash: u64, page: u32) -> u64 {
    (hash & 0xffff_ffff_0000_0000) | u64::from(page + 1)
}

fn page_of(entry: u64) -> u32 {
    entry as u32 - 1
}

impl Table {
    /// A table for this many entries.
    pub(crate) fn new(entries: u32) -> Self {
        let size = size_for(entries);
        let table = Self {
            tables: std::array::from_fn(|_| OnceLock::new()),
            current: AtomicU32::new(size),
            entries: AtomicU64::new(0),
        };
        table.slots(size);
        table
    }

    fn slots(&self, size: u32) -> &[AtomicU64] {
        self.tables[size as usize].get_or_init(|| (0..1usize << (SMALLEST + size)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn current(&self) -> &[AtomicU64] {
        let current = self.current.load(Ordering::Acquire);
        self.tables[current as usize].get().expect("the table in use has been made")
    }

    /// The page with that hash of which `is` says that it is the one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let slots = self.current();
        let mask = slots.len() - 1;
        let tag = hash >> 32;
        let mut index = hash as usize & mask;
        for _ in 0..slots.len() {
            let entry = slots[index].load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            if entry >> 32 == tag && is(page_of(entry)) {
                return Some(page_of(entry));
            }
            index = (index + 1) & mask;
        }
        None
    }

    /// Adds a page. By the one writer. `hash_of` gives the hash of each page that is in the table.
    pub(crate) fn insert(&self, hash: u64, page: u32, hash_of: impl Fn(u32) -> u64) {
        let entries = self.entries.load(Ordering::Relaxed) + 1;
        if entries as usize * 2 > self.current().len() {
            self.grow(self.current.load(Ordering::Relaxed) + 1, hash_of);
        }
        put(self.current(), hash, page);
        self.entries.store(entries, Ordering::Relaxed);
    }

    /// Makes room for this many entries. By the one writer.
    pub(crate) fn reserve(&self, entries: u32, hash_of: impl Fn(u32) -> u64) {
        let size = size_for(entries);
        if size > self.current.load(Ordering::Relaxed) {
            self.grow(size, hash_of);
        }
    }

    fn grow(&self, size: u32, hash_of: impl Fn(u32) -> u64) {
        let old = self.current();
        let new = self.slots(size);
        for entry in old.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&entry| entry != 0) {
            put(new, hash_of(page_of(entry)), page_of(entry));
        }
        self.current.store(size, Ordering::Release);
    }

    /// Removes a page. By the one writer.
    pub(crate) fn remove(&self, hash: u64, page: u32, hash_of: impl Fn(u32) -> u64) {
        let slots = self.current();
        let mask = slots.len() - 1;
        let wanted = entry(hash, page);
        let mut hole = hash as usize & mask;
        while slots[hole].load(Ordering::Relaxed) != wanted {
            assert_ne!(slots[hole].load(Ordering::Relaxed), 0, "a page that is removed is in the table");
            hole = (hole + 1) & mask;
        }
        // Entries behind the hole move into it where their home does not lie behind it: no probe then ends too soon.
        let mut index = hole;
        loop {
            index = (index + 1) & mask;
            let entry = slots[index].load(Ordering::Relaxed);
            if entry == 0 {
                break;
            }
            let home = hash_of(page_of(entry)) as usize & mask;
            if (index.wrapping_sub(home) & mask) >= (index.wrapping_sub(hole) & mask) {
                slots[hole].store(entry, Ordering::Release);
                hole = index;
            }
        }
        slots[hole].store(0, Ordering::Release);
        self.entries.store(self.entries.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// The bytes of the tables.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().filter_map(OnceLock::get).map(|slots| slots.len() * size_of::<AtomicU64>()).sum()
    }
}

/// The size of a table that this many entries leave half empty.
fn size_for(entries: u32) -> u32 {
    (u64::from(entries) * 2).next_power_of_two().ilog2().saturating_sub(SMALLEST)
}

fn put(slots: &[AtomicU64], hash: u64, page: u32) {
    let mask = slots.len() - 1;
    let mut index = hash as usize & mask;
    while slots[index].load(Ordering::Relaxed) != 0 {
        index = (index + 1) & mask;
    }
    slots[index].store(entry(hash, page), Ordering::Release);
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..3000), 1..6000)) {
            let table = Table::new(0);
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut keys: Vec<u64> = Vec::new();
            for (insert, block) in steps {
                let find = |keys: &[u64]| table.find(hash(7, block), |page| keys[page as usize] == block);
                prop_assert_eq!(find(&keys), model.get(&block).copied());
                if insert && !model.contains_key(&block) {
                    let page = keys.len() as u32;
                    keys.push(block);
                    model.insert(block, page);
                    table.insert(hash(7, block), page, |page| hash(7, keys[page as usize]));
                } else if let Some(page) = (!insert).then(|| model.remove(&block)).flatten() {
                    table.remove(hash(7, block), page, |page| hash(7, keys[page as usize]));
                }
            }
            for block in 0..3000 {
                let found = table.find(hash(7, block), |page| keys[page as usize] == block);
                prop_assert_eq!(found, model.get(&block).copied());
            }
        }
    }

    /// Blocks of many kinds, by their number in the set and by what differs between sets.
    const KINDS: [fn(u64, u64) -> u64; 6] = [
        |n, set| n + set,
        |n, set| n.wrapping_mul(set),
        |n, set| n << (set % 50),
        |n, set| ((n / 16) << 30) | (n % 16) << (set % 8),
        |n, set| {
            (n ^ set << 32).wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29).wrapping_mul(0x9e6c_63d0_876a_46b1)
        },
        // The inverse of the golden ratio: multiples of it collide in tables that multiply by that.
        |n, set| ((n << 20) | (set % 1024)).wrapping_mul(0xf1de_83e1_9937_733d),
    ];

    #[test]
    fn ten_thousand_sets_of_blocks_go_in_and_out_through_every_growth() {
        const PAGES: u64 = 1200;
        for set in 0..10_000u64 {
            let block = KINDS[set as usize % KINDS.len()];
            let blocks: Vec<u64> = (0..PAGES).map(|n| block(n, (set * 0x9e37_79b9) | 1)).collect();
            let hash_of = |page: u32| hash(page % 3, blocks[page as usize]);
            let table = Table::new(0);
            let first = table.current().len();
            let found = |page: u32| {
                let mut looked_at = 0;
                let found = table.find(hash_of(page), |candidate| {
                    looked_at += 1;
                    candidate == page
                });
                assert!(looked_at < 8, "set {set}: {looked_at} pages of one hash");
                found
            };
            (0..PAGES as u32).for_each(|page| table.insert(hash_of(page), page, hash_of));
            assert_eq!(table.current().len(), first * 4, "it grew twice");
            assert!((0..PAGES as u32).all(|page| found(page) == Some(page)), "set {set}");
            (0..PAGES as u32).step_by(2).for_each(|page| table.remove(hash_of(page), page, hash_of));
            assert!((0..PAGES as u32).all(|page| found(page) == (page % 2 == 1).then_some(page)), "set {set}");
        }
    }

    #[test]
    fn probes_stay_short_for_blocks_of_every_kind() {
        for (kind, block) in KINDS.into_iter().enumerate() {
            let blocks: Vec<u64> = (0..500_000).map(|n| block(n, 1_000_003)).collect();
            let hash_of = |page: u32| hash(0, blocks[page as usize]);
            let table = Table::new(0);
            (0..blocks.len() as u32).for_each(|page| table.insert(hash_of(page), page, hash_of));
            let slots = table.current();
            let mask = slots.len() - 1;
            let entries = slots
                .iter()
                .enumerate()
                .filter_map(|(index, slot)| Some((index, slot.load(Ordering::Relaxed).checked_sub(1)?)));
            let away = |(index, entry): (usize, u64)| index.wrapping_sub(hash_of(entry as u32) as usize) & mask;
            let (sum, most) = entries.map(away).fold((0, 0), |(sum, most), away| (sum + away, most.max(away)));
            // Linear probing half full: half an entry away on average.
            assert!(sum < blocks.len() * 6 / 10 && most < 200, "kind {kind}: {sum} in sum, {most} at most");
        }
    }
}
