//! Linux's readahead: a window for each stream, which doubles as long as the stream goes on. One rule for the simulator and for real caches.
//!
//! F. Wu, H. Xi and C. Xu, "On the Design of a New Linux Readahead Framework", ACM SIGOPS Operating Systems Review 42(5), 2008;
//! `ondemand_readahead`, `get_init_ra_size` and `get_next_ra_size` in `mm/readahead.c` since 2.6.23.
//!
//! ```text
//!            start          next    mark                 end
//!   stream     |--- read ----|---- read ahead ----|
//!                                    `-- the read that gets here has the next window read, of twice the size
//! ```
//!
//! As the kernel is, the rule is asked at a read that misses, and at one that is the first to use a page read ahead. All other reads
//! cost it nothing. Writes do not ask it.
//!
//! - A read that misses and is sequential (it goes on where another one ended, or is of an object's first block) gets an initial
//!   window: two to four times its own size. It holds the read itself; what is left of it is read ahead, and its first block there
//!   is the mark.
//! - The read that reaches the mark has the next window read ahead while the present one is used: twice as large, four times if that
//!   is small, at most `most`. Its mark is its first block.
//! - A miss inside the window: what was read ahead has been evicted before its use. The window is the initial one again.
//! - A stream of which, from mark to mark, less than a quarter was read, or less than three blocks, has no window any more: those
//!   were random reads that happened to lie in it.
//! - Any other read that misses is random. It is read alone.
//! - A program that says that it reads in order gets the longest window at its first miss, and so do uses of a mapped file, which ask for a page at a time. But once
//!   100 more of an object's such reads have missed than were the first to use a page read ahead, they are not in order, and are taken as any others. The kernel counts
//!   so for mapped files, by the open file (`mmap_miss` in `mm/filemap.c`), and its window lies around the miss, not behind it.
//!
//! Where this departs from the kernel:
//!
//! - The kernel keeps one window for each open file and finds those of other streams by the marks on pages and by what is cached before
//!   a miss. Here each object has up to 64 streams, each known by where it is, and a mark counts as reached by a read behind
//!   it as well. So a random read may reach one, where there is none in the kernel: hence the quarter. Reads of 65,536 blocks in random order had 1.4 blocks
//!   read ahead for each without it.
//! - The kernel knows where the last read of an open file ended even if that was a plain hit. Here a stream begins at the second of two
//!   reads that ask the rule.
//!
//! Memory: 48 bytes a stream, for the objects that asked last, at most 1024 of them.

mod waiting;

use std::collections::BTreeMap;
use std::ops::Range;
pub use waiting::{BYTES_A_FRAME, BYTES_A_PAGE, WithReadahead};

/// The most streams of an object, and places where one may begin.
const STREAMS: usize = 64;

/// The part of its blocks that a stream reads at least, and how many they are at least.
const USED: u64 = 4;
const LEAST: u64 = 3;

/// As many more reads in order may miss than use what was read ahead: `MMAP_LOTSAMISS`. No more than ten times as many are counted, as in the kernel.
const MANY_MISSES: u16 = 100;

/// Half of the objects whose streams are remembered.
const OBJECTS: usize = 512;

/// A read that misses, or is the first to use a page read ahead: its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The file or volume.
    pub object: u32,
    /// The first block.
    pub start: u64,
    /// The block behind the last one.
    pub end: u64,
    /// The first block that missed.
    pub missed: Option<u64>,
    /// The program has said that it reads in order, or uses a mapped file.
    pub in_order: bool,
}

/// The streams of the objects that were read last.
#[derive(Debug, Default)]
pub struct Streams {
    young: BTreeMap<u32, ObjectStreams>,
    /// Those that were young before there were too many.
    old: BTreeMap<u32, ObjectStreams>,
}

impl Streams {
    /// A read is over: the blocks to be read ahead, at most `most` of them.
    pub fn expect(&mut self, read: &Read, most: u64) -> Range<u64> {
        if !self.young.contains_key(&read.object) {
            let streams = self.old.remove(&read.object).unwrap_or_default();
            if self.young.len() == OBJECTS {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(read.object, streams);
        }
        self.young.get_mut(&read.object).map_or(0..0, |streams| streams.expect(read, most))
    }

    /// Of a window that was to end at `end` there was no room from block `at` on: the stream goes on from there.
    pub fn shorten(&mut self, object: u32, end: u64, at: u64) {
        let streams = self.young.get_mut(&object).into_iter().flat_map(|streams| &mut streams.streams);
        if let Some(stream) = streams.rev().find(|stream| stream.end == end && stream.mark <= at) {
            stream.end = at;
        }
    }

    /// The object has gone.
    pub fn forget(&mut self, object: u32) {
        self.young.remove(&object);
        self.old.remove(&object);
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The block behind its last read.
    next: u64,
    /// The window's size; 0 as long as there is none.
    size: u64,
    mark: u64,
    end: u64,
    /// Blocks read since the last mark was reached, and how many there were from that to this one.
    read: u64,
    due: u64,
}

impl Stream {
    /// Where one may begin.
    fn at(read: &Read) -> Self {
        Self { next: read.end, size: 0, mark: 0, end: 0, read: 0, due: 0 }
    }

    fn has(&self, read: &Read) -> bool {
        // A read may begin with the block that the one before ended with.
        (self.next..=self.end.max(self.next)).contains(&read.start) || read.start.checked_add(1) == Some(self.next)
    }

    /// The initial window of a read; the blocks to be read ahead.
    fn begin(&mut self, read: &Read, in_order: bool, most: u64) -> Range<u64> {
        let blocks = read.end - read.start;
        self.size = if in_order { most } else { initial(blocks, most) };
        let ahead = if self.size > blocks { self.size - blocks } else { following(self.size, most) };
        (self.mark, self.end) = (read.end, read.end.saturating_add(ahead));
        (self.read, self.due) = (0, 0);
        read.end..self.end
    }

    /// The next window, if the last one was of use.
    fn go_on(&mut self, read: &Read, most: u64) -> Range<u64> {
        if self.read < self.due.div_ceil(USED).max(self.due.min(LEAST)) {
            *self = Self::at(read);
            return 0..0;
        }
        self.size = following(self.size, most);
        let mark = self.end.max(read.end);
        (self.read, self.due) = (0, mark - self.mark);
        self.mark = mark;
        self.end = self.mark.saturating_add(self.size);
        self.mark..self.end
    }
}

/// The first window of a stream, by how many blocks its read has: `get_init_ra_size`.
pub fn initial(blocks: u64, most: u64) -> u64 {
    match blocks.next_power_of_two() {
        size if size <= most / 32 => 4 * size,
        size if size <= most / 4 => 2 * size,
        _ => most,
    }
}

/// The window behind one of that size: `get_next_ra_size`.
pub fn following(size: u64, most: u64) -> u64 {
    let factor = if size < most / 16 { 4 } else { 2 };
    (factor * size).min(most)
}

#[derive(Debug, Default)]
struct ObjectStreams {
    /// No more than `STREAMS`, the one read last at the end.
    streams: Vec<Stream>,
    /// Reads in order that missed, beyond those that were the first to use what was read ahead.
    misses: u16,
}

impl ObjectStreams {
    fn expect(&mut self, read: &Read, most: u64) -> Range<u64> {
        let found = self.streams.iter().rposition(|stream| stream.has(read));
        let mut stream = match found {
            Some(index) => self.streams.remove(index),
            None => self.make_room(read),
        };
        let in_order = read.in_order && self.misses <= MANY_MISSES;
        if read.in_order {
            self.misses = match read.missed {
                Some(_) => (self.misses + 1).min(10 * MANY_MISSES),
                None => self.misses.saturating_sub(1),
            };
        }
        let sequential = found.is_some() || read.start == 0 || read.end - read.start > most || in_order;
        let evicted = read.missed.is_some_and(|block| (stream.next..stream.end).contains(&block));
        stream.read += read.end - read.start;
        let ahead = if stream.size == 0 || evicted {
            if sequential && read.missed.is_some() { stream.begin(read, in_order, most) } else { 0..0 }
        } else if read.end > stream.mark {
            stream.go_on(read, most)
        } else {
            0..0
        };
        stream.next = read.end;
        self.streams.push(stream);
        ahead
    }

    /// Where a stream may begin. If there are too many, it takes the place of the oldest one, of those without a window if these
    /// are the more: so random reads do not end streams.
    fn make_room(&mut self, read: &Read) -> Stream {
        if self.streams.len() == STREAMS {
            let unproven = |stream: &Stream| stream.size == 0;
            let crowded = 2 * self.streams.iter().filter(|stream| unproven(stream)).count() > STREAMS;
            let oldest = if crowded { self.streams.iter().position(unproven) } else { None };
            self.streams.remove(oldest.unwrap_or(0));
        }
        Stream::at(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 32;

    fn read(object: u32, blocks: Range<u64>, hit: bool) -> Read {
        let missed = if hit { None } else { Some(blocks.end - 1) };
        Read { object, start: blocks.start, end: blocks.end, missed, in_order: false }
    }

    /// What is read ahead behind each read, of blocks that miss unless it says that they hit.
    fn ahead(streams: &mut Streams, reads: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        reads.iter().map(|(blocks, hit)| streams.expect(&read(7, blocks.clone(), *hit), MOST)).collect()
    }

    #[test]
    fn a_window_begins_at_the_second_read_and_doubles_at_each_mark() {
        let mut streams = Streams::default();
        // Blocks 100 and 101 miss. A window of four holds 101: 102 to 104 are read ahead, the mark at 102.
        assert_eq!(ahead(&mut streams, &[(100..101, false), (101..102, false)]), [0..0, 102..105]);
        // At 102 the next eight, marked at 105; there sixteen, and then no more than 32 at once.
        let reads: Vec<_> = (102..180).map(|block| (block..block + 1, true)).collect();
        let windows: Vec<_> =
            ahead(&mut streams, &reads).into_iter().enumerate().filter(|(_, w)| !w.is_empty()).collect();
        let expected = [(102, 105..113), (105, 113..129), (113, 129..161), (129, 161..193), (161, 193..225)];
        assert!(windows.into_iter().eq(expected.map(|(block, window)| (block - 102, window))));
    }

    #[test]
    fn a_read_of_the_first_block_begins_a_stream_and_a_random_one_does_not() {
        let mut streams = Streams::default();
        assert_eq!(ahead(&mut streams, &[(0..2, false), (500..502, false), (90..91, false)]), [2..4, 0..0, 0..0]);
        // Twice the size of the read, and all that may be for a long one; one longer than that is sequential by itself.
        assert_eq!(ahead(&mut streams, &[(502..506, false), (1000..1040, false)]), [506..510, 1040..1072]);
    }

    #[test]
    fn reads_in_order_that_miss_again_and_again_are_taken_as_any_others_until_they_use_what_is_read_ahead() {
        let mut streams = Streams::default();
        let mut in_order = |block: u64, hit: bool| {
            let read = Read { in_order: true, ..read(7, block..block + 1, hit) };
            streams.expect(&read, MOST).count()
        };
        let windows: Vec<usize> = (1..=300).map(|place| in_order(1000 * place, false)).collect();
        assert!(windows[..101].iter().all(|&blocks| blocks == 31), "{windows:?}");
        assert!(windows[101..].iter().all(|&blocks| blocks == 0), "{windows:?}");
        // Of 300 misses 199 first uses leave 101, which is one too many.
        (0..199).for_each(|use_| _ = in_order(5_000_000 + 1000 * use_, true));
        assert_eq!([in_order(1, false), in_order(900_000, false)], [0, 0]);
        (0..2).for_each(|use_| _ = in_order(6_000_000 + 1000 * use_, true));
        assert_eq!([in_order(910_000, false), in_order(920_000, false)], [0, 0]);
        (0..3).for_each(|use_| _ = in_order(7_000_000 + 1000 * use_, true));
        assert_eq!(in_order(930_000, false), 31);
    }

    #[test]
    fn a_miss_inside_the_window_makes_it_small_again() {
        let mut streams = Streams::default();
        let reads: Vec<_> = (0..20).map(|block| (block..block + 1, block > 0)).collect();
        ahead(&mut streams, &reads);
        assert_eq!(ahead(&mut streams, &[(20..21, false), (21..22, true)]), [21..24, 24..32]);
    }

    #[test]
    fn a_stream_goes_on_where_its_window_was_cut_short() {
        let mut streams = Streams::default();
        // Behind 0 blocks 1 to 3; at 1, 4 to 11; at 4, 12 to 27; and at 12, 28 to 59, of which 28 and 29 find room.
        let reads: Vec<_> = (0..28).map(|block| (block..block + 1, block > 0)).collect();
        assert_eq!(ahead(&mut streams, &reads)[12], 28..60);
        streams.shorten(7, 60, 30);
        assert_eq!(ahead(&mut streams, &[(28..29, true)]).first(), Some(&(30..62)));
        // None of them does: the read that misses at their start has the next window read behind it.
        streams.shorten(7, 62, 30);
        assert_eq!(ahead(&mut streams, &[(29..30, true), (30..31, false)]), [0..0, 31..63]);
    }

    #[test]
    fn streams_of_one_object_take_turns_and_random_reads_do_not_end_them() {
        let mut streams = Streams::default();
        assert_eq!(ahead(&mut streams, &[(100..101, false), (900..901, false)]), [0..0, 0..0]);
        assert_eq!(ahead(&mut streams, &[(101..102, false), (901..902, false)]), [102..105, 902..905]);
        let random: Vec<_> = (0..200).map(|step| (5000 + 10 * step..5001 + 10 * step, false)).collect();
        assert!(ahead(&mut streams, &random).iter().all(|window| window.is_empty()));
        assert_eq!(ahead(&mut streams, &[(102..103, true), (902..903, true)]), [105..113, 905..913]);
    }

    #[test]
    fn reads_in_random_order_read_next_to_nothing_ahead() {
        use std::collections::HashSet;
        let (mut streams, mut there, mut ahead) = (Streams::default(), HashSet::new(), 0);
        let mut state = 1_u64;
        for _ in 0..65_536 {
            // Xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let block = state % 65_536;
            let missed = !there.remove(&block);
            let window = streams.expect(&read(7, block..block + 1, !missed), 128);
            ahead += window.end - window.start;
            there.extend(window);
        }
        assert!(ahead < 65_536 / 50, "{ahead} blocks are read ahead");
    }

    #[test]
    fn sizes_are_those_of_the_kernel() {
        assert_eq!([1, 2, 3, 5, 9].map(|blocks| initial(blocks, 32)), [4, 4, 8, 16, 32]);
        assert_eq!([1, 2, 4, 16, 32].map(|size| following(size, 32)), [4, 4, 8, 32, 32]);
        assert_eq!([1, 2].map(|size| (initial(size, 1), following(size, 1))), [(1, 1), (1, 1)]);
    }

    #[test]
    fn a_program_that_says_it_reads_in_order_gets_the_longest_window_at_once() {
        let mut streams = Streams::default();
        let in_order = |start| Read { in_order: true, ..read(7, start..start + 1, false) };
        assert_eq!(streams.expect(&in_order(100), MOST), 101..132);
        assert_eq!(ahead(&mut streams, &[(101..102, true)]).first(), Some(&(132..164)));
    }

    #[test]
    fn the_streams_of_the_objects_read_last_are_remembered() {
        let mut streams = Streams::default();
        for object in 10..5000 {
            streams.expect(&read(object, 100..101, false), MOST);
            let block = u64::from(object);
            let ahead = streams.expect(&read(7, block..block + 1, false), MOST);
            assert_eq!(ahead.is_empty(), object == 10, "object 7 is read all the time");
        }
        assert!(streams.young.len() + streams.old.len() <= 2 * OBJECTS);
        assert_eq!(streams.expect(&read(4999, 101..102, false), MOST), 102..105);
        assert_eq!(streams.expect(&read(10, 101..102, false), MOST), 0..0, "it is forgotten");
        streams.forget(4998);
        assert_eq!(streams.expect(&read(4998, 101..102, false), MOST), 0..0, "another object may have its number");
    }
}
