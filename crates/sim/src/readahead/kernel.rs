//! The kernel's readahead as it is: `mm/readahead.c` of Linux 6.18, and `filemap_get_pages`, which asks it.
//!
//! The rule `linux` is one for real caches, and knows no open files, no folios and not what is cached. This one does:
//!
//! - Each open file has a window of its own, and knows where its last read ended. A trace does not tell open files apart: one is an owner and an object here.
//! - A read that misses at block 0, where the last one ended or one block behind, or that is longer than `max`, begins a window (`page_cache_sync_ra`). Of any
//!   other, the kernel counts the blocks before it that are cached. If these are more than the read has, a stream of another open file has most likely left
//!   them: the window is as long as they and the read are together. Else the read is random, and comes alone.
//! - A read that gets to a marked folio has the next window read behind the present one, and no smaller (`page_cache_async_ra`). If it is another open file's mark, the
//!   window begins at the next block that is not cached.
//! - A read that is longer than `max` has windows as long as itself, up to the longest request of the device.
//! - A window that is read ahead comes in folios: of 4 blocks at first, of 16 and more later, each at a multiple of its size (`page_cache_ra_order`). A window that meets
//!   a cached block goes on in folios of one.
//! - With a `max` of 0 each block that is not cached is a request of its own.
//! - A read takes what is cached up to a marked folio, has the next window read, and goes on. So each window is a request of its own.
//!
//! Where this departs from the kernel: reads begin and end with blocks here. So a read that goes on inside the last block looks like one behind it. Nothing is
//! congested, and nothing fails.

use foldhash::fast::RandomState;
use forebay_basis::Operation;
use forebay_policy::readahead::{following, initial};
use hashbrown::HashMap;
use std::ops::Range;

/// `MAX_PAGECACHE_ORDER`, with pages of 4 KiB.
const MOST_ORDER: u32 = 9;

/// Blocks that the cache has as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folio {
    pub(super) blocks: Range<u64>,
    /// A read that gets here has the next window read.
    pub(super) marked: bool,
}

/// What is cached of the object that is read.
pub(super) trait PageCache {
    /// The folio that has the block, if the block is cached.
    fn folio(&self, block: u64) -> Option<Folio>;

    /// Takes the mark of the folio that has the block away.
    fn unmark(&mut self, block: u64);

    /// Reads a folio none of whose blocks is cached. `false`: there is no room.
    fn read(&mut self, folio: Folio) -> bool;

    /// What was read since the last call is asked of the device.
    fn submit(&mut self);

    /// The block behind the object.
    fn end(&self) -> u64;
}

/// `struct file_ra_state`.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    size: u64,
    /// How many of its last blocks lie behind the mark, with the mark.
    ahead: u64,
    order: u32,
    /// The block behind the last read.
    next: Option<u64>,
}

/// The windows of all open files.
#[derive(Debug)]
pub(super) struct Kernel {
    /// By owner and object.
    windows: HashMap<(u32, u32), Window, RandomState>,
    most: u64,
    longest: u64,
}

impl Kernel {
    /// With the most that is read ahead at once, and the longest request of the device.
    pub(super) fn new(most: u64, longest: u64) -> Self {
        Self { windows: HashMap::default(), most, longest }
    }

    /// The block that an owner has read last of an object.
    pub(super) fn last(&self, owner: u32, object: u32) -> Option<u64> {
        self.windows.get(&(owner, object))?.next?.checked_sub(1)
    }

    /// An owner reads blocks of an object.
    pub(super) fn read<C: PageCache>(
        &mut self,
        (owner, object): (u32, u32),
        blocks: Range<u64>,
        operation: Operation,
        cache: &mut C,
    ) {
        let window = self.windows.entry((owner, object)).or_default();
        let most = if operation == Operation::SequentialRead { 2 * self.most } else { self.most };
        // `ractl_max_pages`
        let most_for = |count: u64| if count > most { count.min(self.longest).max(most) } else { most };
        let mut at = blocks.start;
        while at < blocks.end {
            let count = blocks.end - at;
            if cache.folio(at).is_none() {
                match operation {
                    _ if self.most == 0 => window.read_alone(at, 1, 0, cache),
                    Operation::RandomRead => window.read_alone(at, count, 0, cache),
                    _ => window.miss(at, count, most_for(count), cache),
                }
                if cache.folio(at).is_none() {
                    // There is no room for it, or it lies behind the end.
                    break;
                }
            }
            let (end, last) = batch(at..blocks.end, cache);
            if let Some(Folio { blocks: folio, marked: true }) = last {
                cache.unmark(folio.start);
                let count = blocks.end - folio.start;
                window.go_on(&folio, count, most_for(count), cache);
            }
            at = end;
        }
        window.next = Some(blocks.end);
    }
}

/// `filemap_get_read_batch`: up to where blocks are cached, and no farther than a marked folio; and the last folio of these.
fn batch<C: PageCache>(blocks: Range<u64>, cache: &C) -> (u64, Option<Folio>) {
    let mut last: Option<Folio> = None;
    for block in blocks.clone() {
        let folio = cache.folio(block);
        let ends = last.as_ref().is_some_and(|last| last.marked && !last.blocks.contains(&block));
        if ends || folio.is_none() {
            return (block, last);
        }
        last = folio;
    }
    (blocks.end, last)
}

impl Window {
    /// `page_cache_sync_ra`: a read of `count` more blocks misses at `at`.
    fn miss<C: PageCache>(&mut self, at: u64, count: u64, most: u64, cache: &mut C) {
        let goes_on = self.next.is_some_and(|next| at.checked_sub(next).is_some_and(|gap| gap <= 1));
        if at == 0 || count > most || goes_on {
            let size = initial(count, most);
            let ahead = if size > count { size - count } else { size / 2 };
            (self.start, self.size, self.ahead) = (at, size, ahead);
        } else {
            let before =
                (0..at).rev().take(most as usize).take_while(|&block| cache.folio(block).is_some()).count() as u64;
            if before <= count {
                return self.read_alone(at, count, 0, cache);
            }
            // It is cached from the start: most likely all of it will be read.
            let before = if before == at { 2 * before } else { before };
            (self.start, self.size, self.ahead) = (at, (before + count).min(most), 1);
        }
        self.order = 0;
        self.fill(cache);
    }

    /// `page_cache_async_ra`: a read gets to a marked folio, and goes on for `count` blocks from its start.
    fn go_on<C: PageCache>(&mut self, folio: &Range<u64>, count: u64, most: u64, cache: &mut C) {
        let mark = self.end() - self.ahead;
        if folio.start == mark - mark % (folio.end - folio.start) {
            self.start = self.end();
            self.size = self.size.max(following(self.size, most));
        } else {
            let ahead = (folio.start + 1..).take(most as usize).find(|&block| cache.folio(block).is_none());
            let Some(start) = ahead else { return };
            self.start = start;
            self.size = following(start - folio.start + count, most);
        }
        self.order += 2;
        let align = 1 << self.order.min(most.trailing_zeros());
        let end = self.end();
        if end - end % align > self.start {
            self.size -= end % align;
        }
        self.ahead = self.size;
        self.fill(cache);
    }

    /// The block behind the window.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// `page_cache_ra_order`: reads the window.
    fn fill<C: PageCache>(&mut self, cache: &mut C) {
        let end = self.end().min(cache.end());
        let mark = self.end() - self.ahead;
        self.order = self.order.min(MOST_ORDER).min(self.size.ilog2());
        let mut at = self.start;
        while at < end {
            let mut order = if at == 0 { self.order } else { self.order.min(at.trailing_zeros()) };
            while end - at < 1 << order {
                order -= 1;
            }
            let blocks = at..at + (1 << order);
            if blocks.clone().any(|block| cache.folio(block).is_some()) {
                cache.submit();
                return self.read_alone(at, self.end() - at, self.ahead, cache);
            }
            let marked = at == mark - mark % (1 << order);
            if !cache.read(Folio { blocks: blocks.clone(), marked }) {
                break;
            }
            at = blocks.end;
        }
        cache.submit();
    }

    /// `do_page_cache_ra`: reads those of `count` blocks that are not cached, in folios of one, the mark at the last `ahead` of them.
    fn read_alone<C: PageCache>(&self, at: u64, count: u64, ahead: u64, cache: &mut C) {
        let end = at.saturating_add(count).min(cache.end());
        let mark = end.saturating_sub(ahead);
        for block in at..end {
            if cache.folio(block).is_some() {
                cache.submit();
            } else if !cache.read(Folio { blocks: block..block + 1, marked: block == mark }) {
                break;
            }
        }
        cache.submit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MOST: u64 = 32;
    const LONGEST: u64 = 320;

    /// One object in a cache that has room for all.
    struct Played {
        kernel: Kernel,
        cache: Roomy,
    }

    #[derive(Default)]
    struct Roomy {
        /// By block.
        folios: BTreeMap<u64, Range<u64>>,
        marks: Vec<u64>,
        open: Option<Range<u64>>,
        requests: Vec<Range<u64>>,
        end: u64,
    }

    impl PageCache for Roomy {
        fn folio(&self, block: u64) -> Option<Folio> {
            let blocks = self.folios.get(&block)?.clone();
            Some(Folio { marked: self.marks.contains(&blocks.start), blocks })
        }

        fn unmark(&mut self, block: u64) {
            self.marks.retain(|&mark| mark != block);
        }

        fn read(&mut self, folio: Folio) -> bool {
            let start = self.open.take().map_or(folio.blocks.start, |open| open.start);
            self.open = Some(start..folio.blocks.end);
            self.folios.extend(folio.blocks.clone().map(|block| (block, folio.blocks.clone())));
            self.marks.extend(folio.marked.then_some(folio.blocks.start));
            true
        }

        fn submit(&mut self) {
            self.requests.extend(self.open.take());
        }

        fn end(&self) -> u64 {
            self.end
        }
    }

    impl Played {
        fn new(end: u64) -> Self {
            Self { kernel: Kernel::new(MOST, LONGEST), cache: Roomy { end, ..Roomy::default() } }
        }

        /// What an owner's read has the device read: where each request starts and ends.
        fn read(&mut self, owner: u32, blocks: Range<u64>) -> Vec<(u64, u64)> {
            self.hinted(owner, blocks, Operation::Read)
        }

        fn hinted(&mut self, owner: u32, blocks: Range<u64>, operation: Operation) -> Vec<(u64, u64)> {
            self.kernel.read((owner, 7), blocks, operation, &mut self.cache);
            let requests = std::mem::take(&mut self.cache.requests);
            requests.into_iter().map(|blocks| (blocks.start, blocks.end)).collect()
        }

        /// The lengths of the requests of reads of one block each.
        fn lengths(&mut self, blocks: Range<u64>) -> Vec<u64> {
            blocks.flat_map(|block| self.read(1, block..block + 1)).map(|(start, end)| end - start).collect()
        }
    }

    #[test]
    fn without_readahead_each_block_is_a_request() {
        let mut played = Played { kernel: Kernel::new(0, LONGEST), ..Played::new(100) };
        for operation in [Operation::Read, Operation::SequentialRead, Operation::RandomRead] {
            played.cache.folios.clear();
            assert_eq!(played.hinted(0, 0..3, operation), [(0, 1), (1, 2), (2, 3)], "{operation:?}");
            assert_eq!(played.hinted(0, 2..5, operation), [(3, 4), (4, 5)], "{operation:?}");
        }
    }

    #[test]
    fn a_file_in_order_is_read_in_the_requests_that_linux_6_18_was_seen_to_make() {
        let mut played = Played::new(192);
        assert_eq!(played.lengths(0..192), [4, 8, 4, 8, 8, 16, 16, 32, 32, 32, 32]);
        let mut short = Played::new(30);
        assert_eq!(short.lengths(0..30), [4, 8, 4, 8, 6]);
    }

    #[test]
    fn a_read_longer_than_a_window_has_windows_of_its_own_size_as_linux_was_seen_to_read() {
        let mut played = Played::new(2000);
        for blocks in [0..1, 1..2, 4..8, 8..9] {
            played.read(1, blocks);
        }
        assert_eq!(played.read(1, 9..100), [(16, 32), (32, 64), (64, 128), (128, 192)]);
        assert_eq!(played.read(1, 500..516), [(500, 516)], "a shorter one elsewhere comes alone");
        let mut played = Played::new(2000);
        assert_eq!(played.read(1, 500..540), [(500, 540)], "a longer one has a window as long as itself");
        assert_eq!(played.read(1, 1000..1400).first(), Some(&(1000, 1320)), "up to the longest request");
    }

    #[test]
    fn a_read_behind_cached_blocks_gets_a_window_as_long_as_these() {
        let mut played = Played::new(1000);
        assert_eq!(played.read(1, 100..104), [(100, 104)]);
        // Another open file: four blocks before are cached, and it reads one.
        assert_eq!(played.read(2, 104..105), [(104, 109)]);
        assert_eq!(played.read(3, 109..119), [(109, 119)], "it reads more than there are before");
        // All from the start is there: twice as many.
        let mut played = Played::new(1000);
        assert_eq!(played.read(1, 0..1), [(0, 4)]);
        assert_eq!(played.read(2, 4..5), [(4, 13)]);
    }

    #[test]
    fn another_open_file_s_mark_goes_on_behind_what_is_cached() {
        let mut played = Played::new(1000);
        assert_eq!(played.read(1, 0..1), [(0, 4)]);
        // Its mark is at 1, and 4 is the first block that is not there: 4 - 1 + 1, doubled.
        assert_eq!(played.read(2, 1..2), [(4, 12)]);
        assert_eq!(played.read(1, 1..2), Vec::new(), "the mark is gone");
    }

    #[test]
    fn hints_and_the_end_hold() {
        let mut played = Played::new(40);
        assert_eq!(played.hinted(1, 0..1, Operation::RandomRead), [(0, 1)]);
        assert_eq!(played.hinted(1, 1..2, Operation::SequentialRead), [(1, 5)]);
        assert_eq!(played.read(2, 38..50), [(38, 40)]);
    }
}
