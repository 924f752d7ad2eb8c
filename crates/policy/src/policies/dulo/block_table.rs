//! The block table (the paper's section 3.2): when each block of the disk was last fetched, and the time before.
//!
//! ```text
//! global directory          middle directory        leaf
//! (object, LBN >> 12)  -->  LBN >> 6 & 63      -->  LBN & 63
//! newest timestamp          newest timestamp        newest timestamp, the one before
//! ```
//!
//! A radix tree of two directory levels and leaves, like a page table, its nodes allocated when a block in them is first
//! fetched. The global directory is a B-tree, because objects and high block numbers are sparse: whatever the blocks, it is searched and added
//! to in logarithmic time, and below it each step is an index. The *disk access
//! clock* ticks with each fetch. A directory entry holds the newest timestamp below it, so what is old is found without
//! looking into it: when the nodes are used up, every entry older than a threshold is removed with all that is below it. The
//! threshold is the median of the leaves: what a reclamation costs is spread over the fetches that made half of them.

use forebay_basis::Place;
use std::collections::BTreeMap;
use std::ops::Range;

const BITS: u32 = 6;
/// Entries of a node: fewer than the paper's 512, so that blocks which lie apart waste less.
const FAN_OUT: usize = 1 << BITS;
/// A node, with its shares of the global directory, of the free nodes and of the timestamps that a reclamation compares.
const BYTES_PER_NODE: usize = size_of::<Node>() + 64;
/// Nodes that even the smallest cache may have.
const LEAST_NODES: usize = 64;

/// By how much the clock is set back.
const SET_BACK: u32 = 1 << 31;
/// By how much an interruption moves the clock at the most.
pub(super) const MOST_GAP: u32 = 1024;

type Node = [Entry; FAN_OUT];

/// An entry of a leaf (BTE) or of the middle directory; both are 0 if it is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    newest: u32,
    /// In a leaf the timestamp before, 0, or [`WRITTEN`]; in the directory the index of the leaf.
    other: u32,
}

/// What a block's entry has in place of an older timestamp if the block was written and not yet fetched: no timestamp is later than the newest.
const WRITTEN: u32 = u32::MAX;

impl Entry {
    fn is_empty(&self) -> bool {
        self.newest == 0 && self.other == 0
    }

    /// In a leaf.
    fn is_written(&self) -> bool {
        self.newest == 0 && self.other == WRITTEN
    }
}

/// The object, and the bits of the block number above those of the nodes.
type Key = (u32, u64);

/// An entry of the global directory.
#[derive(Clone, Copy, Debug)]
struct Global {
    newest: u32,
    directory: u32,
}

/// When a block was fetched, 0 standing for no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timestamps {
    pub(super) newest: u32,
    pub(super) older: u32,
}

impl Timestamps {
    /// The clock is [set back](BlockTable::set_back).
    pub(super) fn set_back(&mut self) {
        (self.newest, self.older) = (self.newest.saturating_sub(SET_BACK), self.older.saturating_sub(SET_BACK));
    }
}

#[derive(Debug)]
pub(super) struct BlockTable {
    /// DT1. Each is a directory, a leaf or free; at most `limit`.
    nodes: Vec<Node>,
    free: Vec<u32>,
    limit: usize,
    /// DT2. The disk access clock: no timestamp is later, and no entry has one later than the entry above it.
    clock: u32,
    /// DT3. `global` names the directories that have a leaf, and no others: when no node is left there are leaves to reclaim.
    global: BTreeMap<Key, Global>,
    /// The timestamps that a reclamation compares, kept lest it allocate.
    of_leaves: Vec<u32>,
}

impl BlockTable {
    /// A table of at most `bytes`, but that it may always have [`LEAST_NODES`].
    pub(super) fn new(bytes: usize) -> Self {
        let (global, nodes, free, of_leaves) = Default::default();
        let mut table = Self { global, nodes, free, limit: 0, clock: 0, of_leaves };
        table.limit(bytes);
        table
    }

    #[cfg(test)]
    pub(super) fn set_clock(&mut self, clock: u32) {
        self.clock = clock;
    }

    /// Sets the limit, which may grow alone.
    pub(super) fn limit(&mut self, bytes: usize) {
        self.limit = self.limit.max(bytes / BYTES_PER_NODE).max(LEAST_NODES);
    }

    /// A block is fetched: the clock ticks, and the block and the directories above it are stamped. Returns the block's timestamps.
    pub(super) fn record(&mut self, place: Place) -> Timestamps {
        self.clock += 1;
        let newest = self.clock;
        let entry = self.stamp(place);
        let older = entry.newest;
        *entry = Entry { newest, other: older };
        Timestamps { newest, older }
    }

    /// A block gets its place on the disk: it is written, and was not fetched from there yet.
    pub(super) fn write(&mut self, place: Place) {
        self.clock = self.clock.max(1);
        let entry = self.stamp(place);
        if entry.newest == 0 {
            entry.other = WRITTEN;
        }
    }

    /// Whether the block has a place on the disk, from which it was fetched or to which it was written.
    pub(super) fn knows(&self, place: Place) -> bool {
        self.leaf(place).is_some_and(|leaf| !self.nodes[leaf][low(place)].is_empty())
    }

    /// Stamps the directories above a block, and makes them if they are not there. Returns its entry.
    fn stamp(&mut self, place: Place) -> &mut Entry {
        // Before the walk: what is found on the way must stay. A walk takes a directory and a leaf at most.
        if self.free.len() + self.limit - self.nodes.len() < 2 {
            self.reclaim();
        }
        let directory = if let Some(global) = self.global.get_mut(&key(place)) {
            global.newest = self.clock;
            global.directory
        } else {
            let directory = self.take_node();
            self.global.insert(key(place), Global { newest: self.clock, directory });
            directory
        };
        let (directory, middle) = (directory as usize, middle(place));
        if self.nodes[directory][middle].newest == 0 {
            self.nodes[directory][middle].other = self.take_node();
        }
        self.nodes[directory][middle].newest = self.clock;
        let leaf = self.nodes[directory][middle].other as usize;
        &mut self.nodes[leaf][low(place)]
    }

    /// What is fetched next is not fetched together with what came before: their timestamps differ by more than `gap`.
    pub(super) fn interrupt(&mut self, gap: u32) {
        self.clock += gap;
    }

    /// Whether the clock must be [set back](Self::set_back) before the next fetch, and the interruption before it: no timestamp is the latest that there could be.
    pub(super) fn is_late(&self) -> bool {
        self.clock > u32::MAX - (MOST_GAP + 2)
    }

    /// When the block was fetched.
    #[cfg(test)]
    pub(super) fn timestamps(&self, place: Place) -> Timestamps {
        let leaf = self.leaf(place);
        leaf.map_or_else(Timestamps::default, |leaf| {
            let Entry { newest, other } = self.nodes[leaf][low(place)];
            Timestamps { newest, older: if newest == 0 { 0 } else { other } }
        })
    }

    /// The block's place on the disk is given up: what comes there next does not inherit its timestamps.
    pub(super) fn reset(&mut self, place: Place) {
        self.clear(place.object, place.block, place.block);
    }

    /// So are the places of a range of blocks. Takes time by the directories that the table has of the range, not by its length.
    pub(super) fn reset_all(&mut self, object: u32, blocks: Range<u64>) {
        if let Some(last) = blocks.end.checked_sub(1) {
            self.clear(object, blocks.start, last);
        }
    }

    /// Clears the entries of the blocks from `at` to `last`, and frees the leaves and directories that this empties (DT3).
    fn clear(&mut self, object: u32, mut at: u64, last: u64) {
        let Self { global, nodes, free, .. } = self;
        while at <= last {
            let keys = (object, at >> (2 * BITS))..=(object, last >> (2 * BITS));
            let Some((&key, &Global { directory, .. })) = global.range(keys).next() else { return };
            let first = key.1 << (2 * BITS);
            let end = first + ((1 << (2 * BITS)) - 1);
            for (middle, start) in (first..=end).step_by(FAN_OUT).enumerate() {
                let entry = nodes[directory as usize][middle];
                let stop = start + (FAN_OUT as u64 - 1);
                if entry.newest == 0 || stop < at || start > last {
                    continue;
                }
                let (from, to) = (at.max(start) - start, last.min(stop) - start);
                let leaf = &mut nodes[entry.other as usize];
                leaf[from as usize..=to as usize].fill(Entry::default());
                if is_empty(leaf) {
                    free.push(entry.other);
                    nodes[directory as usize][middle] = Entry::default();
                }
            }
            if is_empty(&nodes[directory as usize]) {
                free.push(directory);
                global.remove(&key);
            }
            let Some(next) = end.checked_add(1) else { return };
            at = next;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        // The nodes of a B-tree are at least half full.
        self.global.len() * 2 * size_of::<(Key, Global)>()
            + self.nodes.capacity() * size_of::<Node>()
            + (self.free.capacity() + self.of_leaves.capacity()) * size_of::<u32>()
    }

    pub(super) fn check(&self) {
        let mut used = 0;
        for global in self.global.values() {
            used += 1;
            assert!(global.newest <= self.clock); // DT2
            assert!(!is_empty(&self.nodes[global.directory as usize])); // DT3
            for entry in self.nodes[global.directory as usize].iter().filter(|entry| entry.newest > 0) {
                used += 1;
                assert!(entry.newest <= global.newest); // DT2
                let leaf = &self.nodes[entry.other as usize];
                let in_order = |block: &Entry| block.newest <= entry.newest && block.other <= block.newest;
                assert!(leaf.iter().all(|block| in_order(block) || block.is_written())); // DT2
            }
        }
        assert_eq!(used + self.free.len(), self.nodes.len()); // DT1
        assert!(self.nodes.len() <= self.limit); // DT1
    }

    /// The index of the leaf with the block's entry.
    fn leaf(&self, place: Place) -> Option<usize> {
        let directory = self.global.get(&key(place))?.directory;
        let entry = self.nodes[directory as usize][middle(place)];
        (entry.newest > 0).then_some(entry.other as usize)
    }

    fn take_node(&mut self) -> u32 {
        if let Some(node) = self.free.pop() {
            self.nodes[node as usize] = [Entry::default(); FAN_OUT];
            return node;
        }
        if self.nodes.len() == self.nodes.capacity() {
            self.nodes.reserve_exact((self.nodes.len() / 2).max(LEAST_NODES).min(self.limit - self.nodes.len()));
        }
        self.nodes.push([Entry::default(); FAN_OUT]);
        self.nodes.len() as u32 - 1
    }

    /// Sets the clock back, and all timestamps with it. A time 2^31 fetches ago is no longer known.
    pub(super) fn set_back(&mut self) {
        self.reclaim_before(SET_BACK + 1);
        let set_back = |time: &mut u32| *time = time.saturating_sub(SET_BACK);
        let Self { global, nodes, .. } = self;
        for global in global.values_mut() {
            set_back(&mut global.newest);
            for middle in 0..FAN_OUT {
                let entry = &mut nodes[global.directory as usize][middle];
                if entry.newest == 0 {
                    continue;
                }
                set_back(&mut entry.newest);
                let leaf = entry.other as usize;
                let fetched = nodes[leaf].iter_mut().filter(|block| !block.is_written());
                fetched.flat_map(|block| [&mut block.newest, &mut block.other]).for_each(set_back);
            }
        }
        set_back(&mut self.clock);
    }

    /// Removes the older half of the leaves, of which there are nearly half as many as nodes or more (DT3). Blocks that were written have the timestamp of the
    /// fetch before: leaves that are as old as each other go together.
    fn reclaim(&mut self) {
        self.of_leaves.clear();
        for global in self.global.values() {
            let entries = &self.nodes[global.directory as usize];
            self.of_leaves.extend(entries.iter().map(|entry| entry.newest).filter(|&newest| newest > 0));
        }
        let median = self.of_leaves.len() / 2;
        let (older, &mut threshold, _) = self.of_leaves.select_nth_unstable(median);
        let some_are_older = older.iter().any(|&newest| newest < threshold);
        self.reclaim_before(if some_are_older { threshold } else { threshold + 1 });
    }

    /// Removes the entries whose timestamp is smaller than the threshold, with all that is below them.
    fn reclaim_before(&mut self, threshold: u32) {
        let Self { global, nodes, free, .. } = self;
        global.retain(|_, global| {
            let directory = &mut nodes[global.directory as usize];
            for entry in directory.iter_mut().filter(|entry| 0 < entry.newest && entry.newest < threshold) {
                free.push(entry.other);
                *entry = Entry::default();
            }
            // Its own timestamp may be that of a leaf that was cleared.
            let kept = !is_empty(directory);
            if !kept {
                free.push(global.directory);
            }
            kept
        });
    }
}

fn is_empty(node: &Node) -> bool {
    node.iter().all(Entry::is_empty)
}

fn key(place: Place) -> Key {
    (place.object, place.block >> (2 * BITS))
}

fn middle(place: Place) -> usize {
    (place.block >> BITS) as usize % FAN_OUT
}

fn low(place: Place) -> usize {
    place.block as usize % FAN_OUT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(object: u32, block: u64) -> Place {
        Place { object, block }
    }

    #[test]
    fn the_two_latest_fetches_of_each_block_are_known() {
        let mut table = BlockTable::new(0);
        // The paper's example, and blocks that share with it a leaf, the directory, or nothing.
        let places =
            [at(0, 2_631_710), at(0, 2_631_711), at(0, 2_631_800), at(0, 0), at(1, 2_631_710), at(9, u64::MAX)];
        for place in [&places[..], &places, &places[..1]].concat() {
            table.record(place);
            table.check();
        }
        assert_eq!(table.timestamps(places[0]), Timestamps { newest: 13, older: 7 });
        for (place, newest) in places.into_iter().zip(7..).skip(1) {
            assert_eq!(table.timestamps(place), Timestamps { newest, older: newest - 6 });
        }
        assert_eq!(table.timestamps(at(0, 1)), Timestamps::default());
        assert_eq!(table.timestamps(at(2, 0)), Timestamps::default());
        table.reset(places[1]);
        table.record(places[1]);
        assert_eq!(table.timestamps(places[1]), Timestamps { newest: 14, older: 0 });
        table.check();
    }

    #[test]
    fn a_block_that_was_written_is_known_and_has_no_timestamps_until_it_is_fetched() {
        let mut table = BlockTable::new(0);
        let (written, fetched) = (at(0, 7), at(0, 8));
        table.write(written);
        table.record(fetched);
        table.write(fetched);
        table.check();
        assert!(table.knows(written) && table.knows(fetched) && !table.knows(at(0, 9)) && !table.knows(at(1, 7)));
        assert_eq!(table.timestamps(written), Timestamps::default());
        assert_eq!(table.timestamps(fetched), Timestamps { newest: 2, older: 0 });
        table.set_clock(u32::MAX);
        table.set_back();
        table.check();
        assert!(!table.knows(written) && !table.knows(fetched));
        table.set_clock(u32::MAX);
        table.write(written);
        table.set_back();
        table.check();
        assert!(table.knows(written));
        table.record(written);
        assert_eq!(table.timestamps(written).older, 0);
        table.reset(written);
        assert!(!table.knows(written));
        table.write(written);
        table.reset_all(0, 0..4096);
        table.check();
        assert!(!table.knows(written) && table.global.is_empty());
    }

    #[test]
    fn blocks_fetched_after_an_interruption_are_farther_apart_than_the_gap() {
        let mut table = BlockTable::new(0);
        let before = table.record(at(0, 1));
        table.interrupt(5);
        assert_eq!(table.record(at(0, 2)).newest, before.newest + 6);
        table.set_clock(u32::MAX - MOST_GAP - 2);
        assert!(!table.is_late());
        table.interrupt(MOST_GAP);
        assert_eq!(table.record(at(0, 2)).newest, u32::MAX - 1);
        assert!(table.is_late());
        table.check();
    }

    #[test]
    fn discarded_blocks_have_no_timestamps_and_what_is_empty_is_used_again() {
        let recorded = || {
            let mut table = BlockTable::new(0);
            let blocks = [0, 63, 64, 127, 128, 4095, 4096, 8191, 8192, u64::MAX - 1, u64::MAX];
            for (object, block) in [0, 1].iter().flat_map(|&object| blocks.map(|block| (object, block))) {
                table.record(at(object, block));
            }
            (table, blocks)
        };
        for range in [0..1, 1..64, 63..65, 0..4096, 5..9000, 64..128, 4096..u64::MAX, 0..u64::MAX, 7..7, 200..300] {
            let (mut table, blocks) = recorded();
            table.reset_all(1, range.clone());
            table.check();
            for block in blocks {
                assert_ne!(table.timestamps(at(0, block)).newest, 0);
                assert_eq!(table.timestamps(at(1, block)).newest == 0, range.contains(&block), "{range:?} {block}");
            }
        }
        let (mut table, _) = recorded();
        let (global, nodes) = (table.global.len(), table.nodes.len());
        table.reset_all(0, 0..8192);
        assert_eq!((table.global.len(), table.free.len()), (global - 2, 8));
        table.record(at(0, 0));
        assert_eq!(table.nodes.len(), nodes);
        table.check();
    }

    #[test]
    fn years_of_trims_leave_no_empty_nodes_and_end_in_no_panic() {
        // How much is fetched before a trim, and trimmed: a leaf, part of one, and all leaves of a directory but one.
        for (fetched, trimmed) in [(0..1, 0..64), (10..12, 10..20), (0..4096, 64..5000)] {
            let bytes = 1000 * BYTES_PER_NODE;
            let mut table = BlockTable::new(bytes);
            for round in 0..5000u64 {
                let start = round << (2 * BITS);
                for block in fetched.clone().step_by(FAN_OUT) {
                    table.record(at(0, start + block));
                }
                table.reset_all(0, start + trimmed.start..start + trimmed.end);
                assert!(table.bytes() <= bytes, "{} bytes", table.bytes());
            }
            table.check();
            let all_trimmed = trimmed.start <= fetched.start;
            assert_eq!(table.global.is_empty(), all_trimmed, "{fetched:?} {trimmed:?}");
            assert!(table.nodes.len() < 80 || !all_trimmed, "{} nodes", table.nodes.len());
        }
    }

    #[test]
    fn a_directory_whose_newest_blocks_are_discarded_is_reclaimed_by_those_that_are_left() {
        let mut table = BlockTable::new(0);
        for round in 0..10_000u64 {
            let start = round << (2 * BITS);
            table.record(at(0, start));
            // The directory keeps this block's timestamp.
            table.record(at(0, start + 64));
            table.reset(at(0, start + 64));
        }
        table.check();
        assert!(table.nodes.len() <= LEAST_NODES);
        assert_eq!(table.timestamps(at(0, 9_999 << (2 * BITS))), Timestamps { newest: 19_999, older: 0 });
    }

    #[test]
    fn the_oldest_blocks_are_reclaimed_when_the_table_is_full() {
        let bytes = 1000 * BYTES_PER_NODE;
        let mut table = BlockTable::new(bytes);
        let place = |i: u64| at(i as u32 % 3, (i * 1_000_003) << 13);
        for i in 0..20_000 {
            table.record(place(i));
            assert!(table.bytes() <= bytes, "{} bytes", table.bytes());
        }
        table.check();
        // Each block has a directory and a leaf of its own: 500 fit, and after a reclamation 250 are left.
        assert!((19_750..20_000).all(|i| table.timestamps(place(i)).newest == i as u32 + 1));
        assert!((0..19_500).all(|i| table.timestamps(place(i)) == Timestamps::default()));
    }

    #[test]
    fn blocks_that_are_written_and_never_fetched_are_reclaimed_when_the_table_is_full() {
        let bytes = 1000 * BYTES_PER_NODE;
        for clock in [0, u32::MAX - 1] {
            let mut table = BlockTable::new(bytes);
            table.set_clock(clock);
            for i in 0..5_000 {
                table.write(at(0, i << 13));
                assert!(table.bytes() <= bytes, "{} bytes", table.bytes());
            }
            table.check();
            assert!(table.knows(at(0, 4_999 << 13)));
        }
    }

    #[test]
    fn what_was_fetched_long_ago_is_forgotten_when_the_clock_is_set_back_and_the_rest_keeps_its_distances() {
        let mut table = BlockTable::new(0);
        // Blocks of a directory of their own, and of one, and of one leaf with blocks that are fetched again.
        for place in [at(1, 9), at(0, 64), at(0, 1), at(0, 2)] {
            table.record(place);
        }
        table.clock = u32::MAX - 3;
        for block in [2, 3, 3] {
            table.record(at(0, block));
        }
        let mut resident = table.timestamps(at(0, 3));
        assert_eq!(resident, Timestamps { newest: u32::MAX, older: u32::MAX - 1 });
        table.set_back();
        resident.set_back();
        assert_eq!(resident, table.timestamps(at(0, 3)));
        table.record(at(0, 3));
        table.check();
        for place in [at(1, 9), at(0, 64), at(0, 1)] {
            assert_eq!(table.timestamps(place), Timestamps::default());
        }
        assert_eq!(table.timestamps(at(0, 2)), Timestamps { newest: (1 << 31) - 3, older: 0 });
        assert_eq!(table.timestamps(at(0, 3)), Timestamps { newest: 1 << 31, older: (1 << 31) - 1 });
    }

    #[test]
    fn ten_thousand_sets_of_blocks_are_known_by_their_latest_fetches() {
        for set in 0..10_000u64 {
            let stride = (set.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (set % 64)) | 1;
            let place = |n: u64| match set % 4 {
                0 => at(0, n * (1 + set % 200)),
                1 => at((n % 3) as u32, n.wrapping_mul(stride)),
                2 => at(0, u64::MAX - (n << (set % 20))),
                _ => at(n as u32, stride),
            };
            // At most half the nodes of the table are needed, a directory and a leaf for each block.
            let mut table = BlockTable::new(600 * BYTES_PER_NODE);
            for n in (0..150).chain(0..75) {
                table.record(place(n));
            }
            for n in 0..150u32 {
                let expected = if n < 75 {
                    Timestamps { newest: 151 + n, older: 1 + n }
                } else {
                    Timestamps { newest: 1 + n, older: 0 }
                };
                assert_eq!(table.timestamps(place(u64::from(n))), expected, "set {set}, block {n}");
            }
            assert_eq!(table.timestamps(at(4_000_000, 1)), Timestamps::default());
            table.check();
        }
    }
}
