//! The page table: from an object and a block to the number of its page, resident or ghost.
//!
//! One writer at a time (the holder of the replacer's lock), any number of readers without a lock. Open addressing with linear
//! probing, at most half full; an entry is the page's number and as many bits of the hash as 32 bits have room for beside it. A reader may meet the table in the
//! midst of a change: it then may not find what is there, and asks again under the lock. What it does find it checks against the page.
//!
//! Every probe ends: a reader's looks at no more entries than there are, and the writer, who alone changes the table, meets an empty one, as
//! half of them are. It stays short: where a probe begins depends on a seed drawn for the process, so that blocks chosen against the hash
//! are as good as random ones.

use crate::sync::{AtomicU32, Ordering, size};
use std::hash::BuildHasher;
use std::sync::{LazyLock, OnceLock};

/// Entries of the smallest table.
const SMALLEST: usize = size(1 << 10, 1 << 4);
/// Each table has at least twice the entries of the one before, and the largest 2^33.
const SIZES: usize = 24;

pub(crate) struct Table {
    /// The tables in the order in which they were made. A smaller one that was grown out of stays, as a reader may be in it; all of them are together
    /// smaller than the one in use.
    tables: [OnceLock<Box<[AtomicU32]>>; SIZES],
    /// Which is in use.
    current: AtomicU32,
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

/// What entries of a table look like.
#[derive(Clone, Copy)]
struct Layout {
    slots: usize,
    /// The bits of the page's number, and one more than it: 0 is no entry.
    number: u32,
}

impl Layout {
    #[inline]
    fn of(slots: &[AtomicU32]) -> Self {
        let slots = slots.len();
        // A page's number is less than half of the entries.
        Self { slots, number: 1u32.checked_shl(slots.ilog2()).map_or(u32::MAX, |first| first - 1) }
    }

    /// Where the search for a hash begins: by its high bits.
    #[inline]
    fn home(self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots as u128) >> 64) as usize
    }

    #[inline]
    fn next(self, index: usize) -> usize {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    /// How many entries lie between two, around the end.
    fn between(self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots - from }
    }

    /// What of the hash an entry holds: its low bits have no part in where the search begins.
    #[inline]
    fn tag(self, hash: u64) -> u32 {
        hash as u32 & !self.number
    }

    fn entry(self, hash: u64, page: u32) -> u32 {
        self.tag(hash) | (page + 1)
    }

    #[inline]
    fn page_of(self, entry: u32) -> u32 {
        (entry & self.number) - 1
    }
}

impl Table {
    /// A table for pages whose numbers are below this.
    pub(crate) fn new(numbers: u32) -> Self {
        let table = Self { tables: std::array::from_fn(|_| OnceLock::new()), current: AtomicU32::new(0) };
        table.make(0, slots_for(numbers));
        table
    }

    fn make(&self, index: u32, slots: usize) -> &[AtomicU32] {
        self.tables[index as usize].get_or_init(|| (0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    #[inline]
    fn current(&self) -> &[AtomicU32] {
        let current = self.current.load(Ordering::Acquire);
        self.tables[current as usize].get().expect("the table in use has been made")
    }

    /// The page with that hash of which `is` says that it is the one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let slots = self.current();
        let layout = Layout::of(slots);
        let tag = layout.tag(hash);
        let mut index = layout.home(hash);
        for _ in 0..slots.len() {
            let entry = slots[index].load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            if entry & !layout.number == tag && is(layout.page_of(entry)) {
                return Some(layout.page_of(entry));
            }
            index = layout.next(index);
        }
        None
    }

    /// Adds a page. By the one writer. `hash_of` gives the hash of each page that is in the table.
    pub(crate) fn insert(&self, hash: u64, page: u32, hash_of: impl Fn(u32) -> u64) {
        self.reserve(page + 1, hash_of);
        put(self.current(), hash, page);
    }

    /// Makes room for pages whose numbers are below this. By the one writer.
    pub(crate) fn reserve(&self, numbers: u32, hash_of: impl Fn(u32) -> u64) {
        let old = self.current();
        let needed = slots_for(numbers);
        if needed <= old.len() {
            return;
        }
        let index = self.current.load(Ordering::Relaxed) + 1;
        let new = self.make(index, needed.max(2 * old.len()));
        let layout = Layout::of(old);
        for entry in old.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&entry| entry != 0) {
            put(new, hash_of(layout.page_of(entry)), layout.page_of(entry));
        }
        self.current.store(index, Ordering::Release);
    }

    /// Removes a page. By the one writer.
    pub(crate) fn remove(&self, hash: u64, page: u32, hash_of: impl Fn(u32) -> u64) {
        let slots = self.current();
        let layout = Layout::of(slots);
        let wanted = layout.entry(hash, page);
        let mut hole = layout.home(hash);
        while slots[hole].load(Ordering::Relaxed) != wanted {
            assert_ne!(slots[hole].load(Ordering::Relaxed), 0, "a page that is removed is in the table");
            hole = layout.next(hole);
        }
        // Entries behind the hole move into it where their home does not lie behind it: no probe then ends too soon.
        let mut index = hole;
        loop {
            index = layout.next(index);
            let entry = slots[index].load(Ordering::Relaxed);
            if entry == 0 {
                break;
            }
            let home = layout.home(hash_of(layout.page_of(entry)));
            if layout.between(home, index) >= layout.between(hole, index) {
                slots[hole].store(entry, Ordering::Release);
                hole = index;
            }
        }
        slots[hole].store(0, Ordering::Release);
    }

    /// The bytes of the tables.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().filter_map(OnceLock::get).map(|slots| slots.len() * size_of::<AtomicU32>()).sum()
    }
}

/// The entries of a table that this many pages leave half empty.
fn slots_for(numbers: u32) -> usize {
    (2 * numbers as usize).max(SMALLEST)
}

fn put(slots: &[AtomicU32], hash: u64, page: u32) {
    let layout = Layout::of(slots);
    let mut index = layout.home(hash);
    while slots[index].load(Ordering::Relaxed) != 0 {
        index = layout.next(index);
    }
    slots[index].store(layout.entry(hash, page), Ordering::Release);
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
            let layout = Layout::of(slots);
            let entries =
                slots.iter().map(|slot| slot.load(Ordering::Relaxed)).enumerate().filter(|&(_, entry)| entry != 0);
            let away =
                |(index, entry): (usize, u32)| layout.between(layout.home(hash_of(layout.page_of(entry))), index);
            let (sum, most) = entries.map(away).fold((0, 0), |(sum, most), away| (sum + away, most.max(away)));
            // Linear probing half full: half an entry away on average.
            assert!(sum < blocks.len() * 6 / 10 && most < 200, "kind {kind}: {sum} in sum, {most} at most");
        }
    }
}
