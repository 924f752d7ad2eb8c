//! Reads that are no new use, where the programs cannot tell.
//!
//! A program at `filemap_read` sees the open file, and so which page it used last. The tracepoint sees the file and the process alone,
//! and sees a long read once for each batch of folios, each time up to the read's end:
//!
//! ```text
//!   one read of pages 0 to 99    ->   0..=99, 15..=99, 30..=99, …    the first has all pages, so the rest are dropped
//!   two reads of page 7          ->   7..=7, 7..=7                   the same page twice running is one use
//! ```
//!
//! The last read is kept for a file and a process, in a table of fixed size. Where two share a place, or a process reads a file through
//! several descriptors by turns, a page may count twice.

use super::event::{Event, FileId, Kind};

/// Places in the table: a power of two.
const PLACES: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    file: FileId,
    process: u32,
    first: u64,
    last: u64,
}

/// The last reads.
pub(super) struct Repeats {
    places: Box<[Option<Last>]>,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats { places: vec![None; PLACES].into() }
    }
}

impl Repeats {
    /// Bytes of the table.
    pub(super) const BYTES: u64 = (PLACES * size_of::<Option<Last>>()) as u64;

    /// The event without pages that are no new use. `None` if nothing is left of it.
    pub(super) fn without(&mut self, mut event: Event) -> Option<Event> {
        if event.kind != Kind::Read || event.count == 0 {
            return Some(event);
        }
        let read = Last {
            file: event.file,
            process: event.process,
            first: event.first,
            last: event.first.saturating_add(u64::from(event.count) - 1),
        };
        let before = self.places[place(&read)].replace(read);
        let Some(before) = before.filter(|before| before.file == read.file && before.process == read.process) else {
            return Some(event);
        };
        if read.last == before.last && read.first > before.first {
            return None;
        }
        if read.first == before.last {
            event.first += 1;
            event.count -= 1;
        }
        (event.count > 0).then_some(event)
    }
}

/// Fibonacci hashing: the highest bits of a product.
fn place(read: &Last) -> usize {
    let key = read.file.inode ^ u64::from(read.process) << 40 ^ u64::from(read.file.device) << 20;
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inode: u64, process: u32, first: u64, last: u64) -> Event {
        Event {
            kind: Kind::Read,
            file: FileId { device: 1, inode, generation: 0 },
            first,
            count: (last - first + 1) as u32,
            order: 0,
            process,
            user: 0,
            group: 0,
            reclaim: false,
            own: false,
            judged: true,
        }
    }

    fn left(reads: &[Event]) -> Vec<(u64, u32)> {
        let mut repeats = Repeats::default();
        reads.iter().filter_map(|read| repeats.without(*read)).map(|event| (event.first, event.count)).collect()
    }

    #[test]
    fn a_long_read_counts_once() {
        let reads = [read(1, 1, 0, 99), read(1, 1, 15, 99), read(1, 1, 30, 99), read(1, 1, 100, 120)];
        assert_eq!(left(&reads), [(0, 100), (100, 21)]);
    }

    #[test]
    fn the_same_page_twice_running_counts_once() {
        let reads = [read(1, 1, 7, 7), read(1, 1, 7, 7), read(1, 1, 7, 9), read(1, 1, 9, 9), read(1, 1, 7, 7)];
        assert_eq!(left(&reads), [(7, 1), (8, 2), (7, 1)]);
    }

    #[test]
    fn other_files_and_processes_do_not_count_as_the_same() {
        let reads = [read(1, 1, 7, 7), read(2, 1, 7, 7), read(1, 2, 7, 7), read(1, 1, 7, 7)];
        assert_eq!(left(&reads), [(7, 1), (7, 1), (7, 1)]);
    }

    #[test]
    fn other_kinds_are_left_alone() {
        let added = Event { kind: Kind::Added, ..read(1, 1, 7, 7) };
        assert_eq!(left(&[added, added]), [(7, 1), (7, 1)]);
    }
}
