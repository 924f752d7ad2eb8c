//! Reads that are no new use, where the programs cannot tell.
//!
//! A program at `filemap_read` sees the open file, and so which page it used last. The tracepoint sees the file and the thread alone, and
//! sees a long read once for each batch of folios, each time up to the read's end:
//!
//! ```text
//!   one read of pages 0 to 99    ->   0..=99, 15..=99, 30..=99, …    the first has all pages, so the rest are dropped
//!   two reads of page 7          ->   7..=7, 7..=7                   the same page twice running is one use
//!   reads of 0 to 99, 100 to 199 ->   0..=99, 130..=199              the second began at 100
//! ```
//!
//! The kernel tells nothing of a batch whose last folio is still on its way from the disk. So a read is seen too late if it begins among pages that were read ahead.
//! It is taken to begin where the read before ended, if it is as long as that one then. This finds the reads of a program that takes a file in pieces of one size. It
//! does not join two reads of equal length between which pages are left out.
//!
//! The last read of each thread is kept, in a table of fixed size. A thread that reads two files in small pieces by turns counts pages
//! twice, and one that opens a file anew for the same page counts it once.

use super::event::{Event, FileId, Kind};

/// Places in the table: threads' numbers are mostly in sequence.
const PLACES: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    file: FileId,
    thread: u32,
    first: u64,
    last: u64,
    /// Of the whole read.
    pages: u64,
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
    pub(super) fn without(&mut self, mut event: Event, thread: u32) -> Option<Event> {
        if event.kind != Kind::Read || event.count == 0 {
            return Some(event);
        }
        let (first, count) = (event.first, u64::from(event.count));
        let read = Last { file: event.file, thread, first, last: first.saturating_add(count - 1), pages: count };
        let place = &mut self.places[thread as usize % PLACES];
        let before = place.replace(read).filter(|before| before.file == read.file && before.thread == thread);
        let (Some(before), Some(read)) = (before, place) else { return Some(event) };
        if read.last == before.last && read.first > before.first {
            read.pages = before.pages;
            return None;
        }
        if read.first == before.last {
            event.first += 1;
            event.count -= 1;
        } else if read.first.saturating_sub(before.last) > 1 && read.last - before.last == before.pages {
            read.pages = before.pages;
            event.first = before.last + 1;
            event.count = u32::try_from(before.pages).unwrap_or(u32::MAX);
        }
        (event.count > 0).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inode: u64, thread: u32, first: u64, last: u64) -> (Event, u32) {
        let event = Event {
            kind: Kind::Read,
            file: FileId { device: 1, inode, generation: 0 },
            first,
            count: (last - first + 1) as u32,
            order: 0,
            program: [0; 16],
            process: 1,
            user: 0,
            group: 0,
            reclaim: false,
            own: false,
            judged: true,
        };
        (event, thread)
    }

    fn left(reads: &[(Event, u32)]) -> Vec<(u64, u32)> {
        let mut repeats = Repeats::default();
        reads
            .iter()
            .filter_map(|(read, thread)| repeats.without(*read, *thread))
            .map(|event| (event.first, event.count))
            .collect()
    }

    #[test]
    fn a_long_read_counts_once() {
        let reads = [read(1, 1, 0, 99), read(1, 1, 15, 99), read(1, 1, 30, 99), read(1, 1, 100, 120)];
        assert_eq!(left(&reads), [(0, 100), (100, 21)]);
    }

    #[test]
    fn a_read_of_which_the_first_pages_are_not_told_begins_where_the_one_before_ended_if_they_are_as_long() {
        let reads =
            [read(1, 1, 0, 99), read(1, 1, 15, 99), read(1, 1, 130, 199), read(1, 1, 160, 199), read(1, 1, 299, 299)];
        assert_eq!(left(&reads), [(0, 100), (100, 100), (200, 100)]);
        for apart in [
            [read(1, 1, 0, 3), read(1, 1, 8, 11)],
            [read(1, 1, 0, 3), read(1, 1, 5, 6)],
            [read(1, 1, 0, 3), read(1, 2, 6, 7)],
        ] {
            assert_eq!(left(&apart)[1], (apart[1].0.first, apart[1].0.count));
        }
        let at_the_end = [read(1, 1, u64::MAX - 1, u64::MAX - 1), read(1, 1, u64::MAX, u64::MAX), read(1, 1, 0, 9)];
        assert_eq!(left(&at_the_end), [(u64::MAX - 1, 1), (u64::MAX, 1), (0, 10)]);
    }

    #[test]
    fn the_same_page_twice_running_counts_once() {
        let reads = [read(1, 1, 7, 7), read(1, 1, 7, 7), read(1, 1, 7, 9), read(1, 1, 9, 9), read(1, 1, 7, 7)];
        assert_eq!(left(&reads), [(7, 1), (8, 2), (7, 1)]);
    }

    #[test]
    fn a_page_counts_anew_after_another_file_and_in_another_thread() {
        let reads = [read(1, 1, 7, 7), read(1, 2, 7, 7), read(1, 1, 7, 7), read(2, 1, 7, 7), read(1, 1, 7, 7)];
        assert_eq!(left(&reads), [(7, 1), (7, 1), (7, 1), (7, 1)]);
    }

    #[test]
    fn other_kinds_are_left_alone() {
        let added = Event { kind: Kind::Added, ..read(1, 1, 7, 7).0 };
        assert_eq!(left(&[(added, 1), (added, 1)]), [(7, 1), (7, 1)]);
    }
}
