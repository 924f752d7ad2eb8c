//! Linux's readahead: a window for each stream, which doubles as long as the stream goes on.
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
//! - A read that misses and is sequential (it goes on where another one ended, or is of an object's first block) gets an initial
//!   window: two to four times its own size. It holds the read itself; what is left of it is read ahead, and its first block there
//!   is the mark.
//! - The read that reaches the mark has the next window read ahead while the present one is used: twice as large, four times if that
//!   is small, at most `max`. Its mark is its first block.
//! - A miss inside the window: what was read ahead has been evicted before its use. The window is the initial one again.
//! - Any other read that misses is random. It is read alone.
//!
//! Where this departs from the kernel: it keeps one window for each open file and finds those of other streams by the marks on pages
//! and by what is cached before a miss. Traces tell of no open files, so there are up to [`OPEN`] streams in all, each known by
//! where it is; and a mark counts as reached by a read behind it as well.

use super::Extent;
use std::ops::Range;

/// The most streams, and places where one may begin.
const OPEN: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Stream {
    object: u32,
    /// The block behind its last read.
    next: u64,
    /// The window's size; 0 as long as there is none.
    size: u64,
    mark: u64,
    end: u64,
}

impl Stream {
    fn has(&self, read: &Extent) -> bool {
        let within = self.next <= read.start && read.start <= self.end.max(self.next);
        // A read may begin with the block that the one before ended with.
        self.object == read.object && (within || read.start.checked_add(1) == Some(self.next))
    }

    /// The initial window of a read; the blocks to be read ahead.
    fn begin(&mut self, read: &Extent, max: u64) -> Range<u64> {
        let blocks = read.end - read.start;
        self.size = initial(blocks, max);
        let ahead = if self.size > blocks { self.size - blocks } else { following(self.size, max) };
        (self.mark, self.end) = (read.end, read.end.saturating_add(ahead));
        read.end..self.end
    }

    /// The next window.
    fn go_on(&mut self, read: &Extent, max: u64) -> Range<u64> {
        self.size = following(self.size, max);
        self.mark = self.end.max(read.end);
        self.end = self.mark.saturating_add(self.size);
        self.mark..self.end
    }
}

/// `get_init_ra_size`.
fn initial(blocks: u64, max: u64) -> u64 {
    match blocks.next_power_of_two() {
        size if size <= max / 32 => 4 * size,
        size if size <= max / 4 => 2 * size,
        _ => max,
    }
}

/// `get_next_ra_size`.
fn following(size: u64, max: u64) -> u64 {
    let factor = if size < max / 16 { 4 } else { 2 };
    (factor * size).min(max)
}

/// The streams.
#[derive(Debug)]
pub(super) struct Linux {
    /// No more than `OPEN`, the one read last at the end.
    streams: Vec<Stream>,
    max: u64,
}

impl Linux {
    pub(super) fn new(max: u64) -> Self {
        Self { streams: Vec::with_capacity(OPEN), max }
    }

    /// A read is over: the blocks to be read ahead.
    pub(super) fn expect(&mut self, read: &Extent) -> Range<u64> {
        let max = self.max;
        let found = self.streams.iter().rposition(|stream| stream.has(read));
        let mut stream = match found {
            Some(index) => self.streams.remove(index),
            None => self.make_room(read),
        };
        let sequential = found.is_some() || read.start == 0 || read.end - read.start > max;
        let evicted = read.missed.is_some_and(|block| (stream.next..stream.end).contains(&block));
        let ahead = if stream.size == 0 || evicted {
            if sequential && read.missed.is_some() { stream.begin(read, max) } else { 0..0 }
        } else if read.end > stream.mark {
            stream.go_on(read, max)
        } else {
            0..0
        };
        stream.next = read.end;
        self.streams.push(stream);
        ahead
    }

    /// Where a stream may begin. If there are too many, it takes the place of the oldest one, of those without a window if these
    /// are the more: so random reads do not end streams.
    fn make_room(&mut self, read: &Extent) -> Stream {
        if self.streams.len() == OPEN {
            let unproven = |stream: &Stream| stream.size == 0;
            let crowded = 2 * self.streams.iter().filter(|stream| unproven(stream)).count() > OPEN;
            let oldest = if crowded { self.streams.iter().position(unproven) } else { None };
            self.streams.remove(oldest.unwrap_or(0));
        }
        Stream { object: read.object, next: read.end, size: 0, mark: 0, end: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read ahead behind each read, of blocks that miss unless it says that they hit.
    fn ahead(linux: &mut Linux, reads: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        let mut one = |(blocks, hit): &(Range<u64>, bool)| {
            let missed = if *hit { None } else { Some(blocks.end - 1) };
            linux.expect(&Extent { object: 7, start: blocks.start, end: blocks.end, missed })
        };
        reads.iter().map(&mut one).collect()
    }

    #[test]
    fn a_window_begins_at_the_second_read_and_doubles_at_each_mark() {
        let mut linux = Linux::new(32);
        // Blocks 100 and 101 miss. A window of four holds 101: 102 to 104 are read ahead, the mark at 102.
        assert_eq!(ahead(&mut linux, &[(100..101, false), (101..102, false)]), [0..0, 102..105]);
        // At 102 the next eight, marked at 105; there sixteen, and then no more than 32 at once.
        let reads: Vec<_> = (102..180).map(|block| (block..block + 1, true)).collect();
        let windows: Vec<_> =
            ahead(&mut linux, &reads).into_iter().enumerate().filter(|(_, w)| !w.is_empty()).collect();
        let expected = [(102, 105..113), (105, 113..129), (113, 129..161), (129, 161..193), (161, 193..225)];
        assert!(windows.into_iter().eq(expected.map(|(block, window)| (block - 102, window))));
    }

    #[test]
    fn a_read_of_the_first_block_begins_a_stream_and_a_random_one_does_not() {
        let mut linux = Linux::new(32);
        assert_eq!(ahead(&mut linux, &[(0..2, false), (500..502, false), (90..91, false)]), [2..4, 0..0, 0..0]);
        // Twice the size of the read, and all that may be for a long one; one longer than that is sequential by itself.
        assert_eq!(ahead(&mut linux, &[(502..506, false), (1000..1040, false)]), [506..510, 1040..1072]);
    }

    #[test]
    fn a_miss_inside_the_window_makes_it_small_again() {
        let mut linux = Linux::new(32);
        let reads: Vec<_> = (0..20).map(|block| (block..block + 1, block > 0)).collect();
        ahead(&mut linux, &reads);
        assert_eq!(ahead(&mut linux, &[(20..21, false), (21..22, true)]), [21..24, 24..32]);
    }

    #[test]
    fn streams_of_one_object_take_turns_and_random_reads_do_not_end_them() {
        let mut linux = Linux::new(32);
        assert_eq!(ahead(&mut linux, &[(100..101, false), (900..901, false)]), [0..0, 0..0]);
        assert_eq!(ahead(&mut linux, &[(101..102, false), (901..902, false)]), [102..105, 902..905]);
        let random: Vec<_> = (0..200).map(|step| (5000 + 10 * step..5001 + 10 * step, false)).collect();
        assert!(ahead(&mut linux, &random).iter().all(|window| window.is_empty()));
        assert_eq!(ahead(&mut linux, &[(102..103, true), (902..903, true)]), [105..113, 905..913]);
    }

    #[test]
    fn sizes_are_those_of_the_kernel() {
        assert_eq!([1, 2, 3, 5, 9].map(|blocks| initial(blocks, 32)), [4, 4, 8, 16, 32]);
        assert_eq!([1, 2, 4, 16, 32].map(|size| following(size, 32)), [4, 4, 8, 32, 32]);
        assert_eq!([1, 2].map(|size| (initial(size, 1), following(size, 1))), [(1, 1), (1, 1)]);
    }
}
