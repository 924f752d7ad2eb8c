//! What is asked of the machine about a process's memory: which pages are there and were used, and that pages leave.

use crate::maps::advise;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Pages of a table of the lowest level: what one look at it shows.
pub(crate) const TABLE: u64 = 512;
/// Words of 64 bits for these.
pub(crate) const WORDS: usize = TABLE as usize / 64;
/// Tables of a table of the next level.
pub(crate) const TABLES: u64 = 512;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) number: u32,
    /// Held, so that its number is not another's; none for a fake.
    pub(crate) held: Option<OwnedFd>,
}

/// The 512 pages of a table, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// They are in memory, in the process's table.
    pub(crate) present: [u64; WORDS],
    /// They were used since their reference bits were cleared: only those that are present.
    pub(crate) young: [u64; WORDS],
    /// They are in swap space.
    pub(crate) out: [u64; WORDS],
}

/// What is there of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Something.
    Seen(Seen),
    /// Nothing.
    Absent,
}

/// A machine whose processes have memory.
pub(crate) trait Machine: Send {
    /// Looks at tables of a process, each by its first page's number divided by [`TABLE`], and shows what is there. `false`: the process has no memory, or another
    /// than at the beginning of this look; then what was shown means nothing.
    ///
    /// # Errors
    /// The system's.
    fn look(&mut self, process: &Process, tables: &[u64], show: &mut dyn FnMut(u64, Table)) -> io::Result<bool>;

    /// Shows which tables there are, a bit each, by the tables of the next level that they lie in: `above` are these tables' numbers, a table's divided by [`TABLES`]. What has
    /// none is left out. `false`: as [`look`](Self::look).
    ///
    /// # Errors
    /// The system's.
    fn tables(&mut self, process: &Process, above: &[u64], show: &mut dyn FnMut(u64, [u64; WORDS]))
    -> io::Result<bool>;

    /// Clears the reference bits of pages, where the pages are the process's alone.
    ///
    /// # Errors
    /// The process has ended, or may not be asked.
    fn cool(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()>;

    /// Clears the reference bits of all pages of a process, and changes nothing else.
    ///
    /// # Errors
    /// The process has ended, or may not be asked.
    fn cool_all(&mut self, process: &Process) -> io::Result<()>;

    /// Has pages leave memory. Which of them have left is to be looked up: locked pages, and those that several processes have, stay without a word.
    ///
    /// # Errors
    /// The process has ended, or may not be asked.
    fn page_out(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()>;

    /// Bytes of memory that this takes.
    fn memory(&self) -> u64;
}

/// Gives advice on a process's pages by the system.
///
/// # Errors
/// The process has ended, or may not be asked.
pub(crate) fn advise_on(process: &Process, pages: &[Range<u64>], advice: libc::c_int) -> io::Result<()> {
    let Some(held) = &process.held else { return Err(io::ErrorKind::NotFound.into()) };
    let range = |pages: &Range<u64>| libc::iovec {
        iov_base: (pages.start * crate::steered::PAGE) as *mut libc::c_void,
        iov_len: ((pages.end - pages.start) * crate::steered::PAGE) as usize,
    };
    let ranges: Vec<libc::iovec> = pages.iter().map(range).collect();
    advise(held, &ranges, advice)
}

/// The runs of ones in words of bits, from a first page or table on; those that are no farther than `gap` from each other are one.
pub(crate) fn runs(words: &[u64; WORDS], first: u64, gap: u64, add: &mut dyn FnMut(Range<u64>)) {
    let mut run: Option<Range<u64>> = None;
    for (index, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            let from = rest.trailing_zeros();
            let length = (rest >> from).trailing_ones();
            rest &= if from + length == 64 { 0 } else { u64::MAX << (from + length) };
            let start = first + index as u64 * 64 + u64::from(from);
            let end = start + u64::from(length);
            match &mut run {
                Some(run) if start <= run.end + gap => run.end = end,
                _ => run.replace(start..end).into_iter().for_each(&mut *add),
            }
        }
    }
    run.into_iter().for_each(add);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_hold_all_ones_and_no_more_than_their_gaps(words in any::<[u64; WORDS]>(), sparse in any::<[u64; WORDS]>(), gap in 0u64..40) {
            let words: [u64; WORDS] = std::array::from_fn(|at| words[at] & sparse[at]);
            let mut found: Vec<Range<u64>> = Vec::new();
            runs(&words, 1024, gap, &mut |run| found.push(run));
            let is_one = |page: u64| words[(page - 1024) as usize / 64] >> ((page - 1024) % 64) & 1 == 1;
            let ones: Vec<u64> = (1024..1024 + TABLE).filter(|&page| is_one(page)).collect();
            let held: Vec<u64> = found.iter().cloned().flatten().filter(|&page| is_one(page)).collect();
            prop_assert_eq!(held, ones);
            prop_assert!(found.windows(2).all(|pair| pair[0].end + gap < pair[1].start));
            prop_assert!(found.iter().all(|run| is_one(run.start) && is_one(run.end - 1)));
        }
    }
}
