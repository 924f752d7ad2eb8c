//! A copy of live memory that is mapped where a child of fork finds it: a child has the mappings of its parent, but not the files of the service.

use crate::real::system::{self, FAILED};
use libc::{MAP_NORESERVE, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_EXEC, PROT_READ, PROT_WRITE, c_int, c_void};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// Memory of the child's, where it lies until it is brought to its place.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) place: Range<usize>,
    staged: usize,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// It is moved.
    Moved,
    /// Its bytes are written over what lies there, which is protected so.
    Written(c_int),
}

impl Run {
    /// Brings it to its place; `false`: it cannot be done.
    ///
    /// # Safety
    /// This process is the child, and uses nothing of what lies at the place.
    pub(crate) unsafe fn bring(&self) -> bool {
        let (from, to, length) = (self.staged as *mut c_void, self.place.start as *mut c_void, self.place.len());
        match self.how {
            // SAFETY: the run is this process' own, and so is its place.
            How::Moved => unsafe { system::mremap(from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to) != FAILED },
            // SAFETY: as above; what lies there has been brought before, and is a private mapping.
            How::Written(protection) => unsafe {
                if system::mprotect(to, length, PROT_READ | PROT_WRITE) < 0 {
                    return false;
                }
                to.copy_from_nonoverlapping(from, length);
                system::mprotect(to, length, protection) == 0 && system::munmap(from, length) == 0
            },
        }
    }
}

/// All of it, mapped until this is dropped.
pub(crate) struct Staged {
    runs: Vec<Run>,
    protections: Vec<(Range<usize>, c_int)>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        for Run { place, staged, .. } in &self.runs {
            // SAFETY: it was mapped below, and is used in children alone, which have their own.
            unsafe { system::munmap(*staged as *mut c_void, place.len()) };
        }
    }
}

impl Staged {
    /// Each part will be protected as it is now where it comes from.
    pub(crate) fn new() -> Self {
        let protections = std::fs::read_to_string("/proc/self/maps").map(|maps| protected(&maps)).unwrap_or_default();
        Self { runs: Vec::new(), protections }
    }

    /// A place is to have what a file has from `offset` on.
    pub(crate) fn map(&mut self, place: &Range<usize>, file: &File, mut offset: u64) -> io::Result<()> {
        for (place, protection) in pieces(place, &self.protections) {
            let (length, staged) = (place.len(), map(file, offset, place.len(), protection)?);
            self.runs.push(Run { place, staged, how: How::Moved });
            offset += length as u64;
        }
        Ok(())
    }

    /// Over what is mapped at these places, which lie apart, are to be written the bytes that a file has from `offset` on, one place after another.
    pub(crate) fn write(&mut self, places: &[Range<usize>], file: &File, offset: u64) -> io::Result<()> {
        let length = places.iter().map(Range::len).sum();
        if length == 0 {
            return Ok(());
        }
        let mut staged = map(file, offset, length, PROT_READ)?;
        for (place, protection) in places.iter().flat_map(|place| pieces(place, &self.protections)) {
            let length = place.len();
            self.runs.push(Run { place, staged, how: How::Written(protection) });
            staged += length;
        }
        Ok(())
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }
}

/// Maps a part of a file privately, anywhere.
fn map(file: &File, offset: u64, length: usize, protection: c_int) -> io::Result<usize> {
    let (flags, fd, offset) = (MAP_PRIVATE | MAP_NORESERVE, file.as_raw_fd(), offset as i64);
    // SAFETY: a new mapping touches no memory that is in use.
    let mapped = unsafe { system::mmap(null_mut(), length, protection, flags, fd, offset) };
    if mapped == FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped as usize) }
}

/// What of a process' mappings is not just readable and writable, in order: a mapping a line.
fn protected(maps: &str) -> Vec<(Range<usize>, c_int)> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |word| usize::from_str_radix(word, 16).ok();
        let rights = words.next()?.as_bytes();
        let bits = [(b'r', PROT_READ), (b'w', PROT_WRITE), (b'x', PROT_EXEC)];
        let protection = bits.iter().filter(|(letter, _)| rights.contains(letter)).map(|(_, bit)| bit).sum();
        (protection != PROT_READ | PROT_WRITE).then_some((number(start)?..number(end)?, protection))
    };
    maps.lines().filter_map(line).collect()
}

/// A range in pieces by protection.
fn pieces(range: &Range<usize>, protected: &[(Range<usize>, c_int)]) -> Vec<(Range<usize>, c_int)> {
    let (mut pieces, mut from) = (Vec::new(), range.start);
    let first = protected.partition_point(|(part, _)| part.end <= range.start);
    for (part, protection) in protected[first..].iter().take_while(|(part, _)| part.start < range.end) {
        let part = part.start.max(range.start)..part.end.min(range.end);
        pieces.push((from..part.start, PROT_READ | PROT_WRITE));
        from = part.end;
        pieces.push((part, *protection));
    }
    pieces.push((from..range.end, PROT_READ | PROT_WRITE));
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::PROT_NONE;

    #[test]
    fn parts_keep_their_protection() {
        let maps = "\
1000-3000 rw-s 00000000 00:01 1025 /memfd:memory (deleted)
3000-4000 r--s 00002000 00:01 1025 /memfd:memory (deleted)
4000-6000 rw-s 00003000 00:01 1025 /memfd:memory (deleted)
6000-9000 ---s 00005000 00:01 1025
";
        let protected = protected(maps);
        let both = PROT_READ | PROT_WRITE;
        assert_eq!(pieces(&(0x1000..0x3000), &protected), [(0x1000..0x3000, both)]);
        let expected =
            [(0x2000..0x3000, both), (0x3000..0x4000, PROT_READ), (0x4000..0x6000, both), (0x6000..0x7000, PROT_NONE)];
        assert_eq!(pieces(&(0x2000..0x7000), &protected), expected);
        assert_eq!(pieces(&(0x7000..0x8000), &protected), [(0x7000..0x8000, PROT_NONE)]);
        assert_eq!(pieces(&(0x3000..0x8000), &[]), [(0x3000..0x8000, both)]);
    }
}
