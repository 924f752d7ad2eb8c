//! References that processes have recorded, and all of them as one trace.

use crate::figures::create_new;
use forebay_basis::Operation;
use forebay_trace::{Names, Reader, Request, Unit};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const EXTENSION: &str = "references";

/// A reference: its place in memory, of which the last bit is that of a write, and nanoseconds since the system started. Where these are 0 there is none: the end.
type Record = [AtomicU64; 2];

/// References for which there is room at a time.
const ROOM: usize = 16 << 10;

/// The bytes of that.
const BYTES: usize = ROOM * size_of::<Record>();

/// Where a process writes its references down: a file of which it has a part mapped. So they are there however it ends.
#[derive(Debug)]
pub struct Log {
    part: Mutex<Part>,
}

#[derive(Debug)]
struct Part {
    file: File,
    /// Where in the file the next part begins.
    next: u64,
    /// What is mapped, if anything is.
    mapped: Option<NonNull<Record>>,
    /// How many references are there.
    used: usize,
}

// SAFETY: the mapping is this value's own.
unsafe impl Send for Part {}

impl Part {
    /// Maps the next part of the file.
    fn go_on(&mut self) -> io::Result<()> {
        // Else a full file system would show as SIGBUS.
        fallocate(&self.file, FallocateFlags::empty(), self.next, BYTES as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping touches no memory that is in use.
        let mapped = unsafe { mmap(null_mut(), BYTES, protection, MapFlags::SHARED, &self.file, self.next) }?;
        self.leave();
        self.mapped = NonNull::new(mapped.cast());
        self.next += BYTES as u64;
        self.used = 0;
        Ok(())
    }

    /// The part that is mapped has all its references.
    fn leave(&mut self) {
        if let Some(mapped) = self.mapped.take() {
            // SAFETY: the mapping is this value's own, and nobody has a reference to it.
            let _ = unsafe { munmap(mapped.as_ptr().cast(), BYTES) };
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Log {
    /// Makes the file.
    ///
    /// # Errors
    /// The system's.
    pub fn create(folder: &Path, process: u32) -> io::Result<Self> {
        let (file, _) = create_new(folder, process, EXTENSION)?;
        Ok(Self { part: Mutex::new(Part { file, next: 0, mapped: None, used: 0 }) })
    }

    /// Takes note of a reference to the byte at `offset`.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, offset: u64, write: bool) -> io::Result<()> {
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if part.mapped.is_none() || part.used == ROOM {
            part.go_on()?;
        }
        let Some(mapped) = part.mapped else { return Ok(()) };
        // The clock that all processes share.
        let now = clock_gettime(ClockId::Monotonic);
        let time = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        // SAFETY: the mapping has this many, and lives until the lock is let go.
        let [place, when] = unsafe { mapped.add(part.used).as_ref() };
        place.store(offset & !1 | u64::from(write), Ordering::Relaxed);
        // In this order: a process may be killed between them.
        when.store(time.max(1), Ordering::Release);
        part.used += 1;
        Ok(())
    }
}

/// The references of all processes, in the order of their times: a process is an owner and an object.
pub(crate) struct Recorded {
    processes: Vec<(String, BufReader<File>)>,
    /// The next reference of each.
    next: BinaryHeap<Reverse<(u64, usize, u64)>>,
    page_size: u32,
    began: Option<u64>,
}

impl Recorded {
    pub(crate) fn open(folder: &Path, page_size: u32) -> io::Result<Self> {
        let mut all = Self { processes: Vec::new(), next: BinaryHeap::new(), page_size, began: None };
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                // A second program of the same process is another.
                let name = name.strip_suffix("-1").unwrap_or(&name).to_owned();
                all.processes.push((name, BufReader::new(File::open(path)?)));
            }
        }
        all.processes.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        (0..all.processes.len()).try_for_each(|process| all.read(process))?;
        Ok(all)
    }

    /// Reads the next reference of a process.
    fn read(&mut self, process: usize) -> io::Result<()> {
        let mut record = [0; size_of::<Record>()];
        match self.processes[process].1.read_exact(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let word = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
                let (place, time) = (word(0), word(8));
                if time > 0 {
                    self.next.push(Reverse((time, process, place)));
                }
                Ok(())
            }
        }
    }
}

impl Reader for Recorded {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, names: &mut Names) -> forebay_trace::Result<Option<Request>> {
        let Some(Reverse((time, process, place))) = self.next.pop() else { return Ok(None) };
        self.read(process).map_err(|error| forebay_trace::Error::io("the recording", "reading", error))?;
        let name = &self.processes[process].0;
        let (owner, object) = (names.owner(name), names.object(name));
        let time = time - *self.began.get_or_insert(time);
        let operation = if place & 1 == 1 { Operation::Write } else { Operation::Read };
        Ok(Some(Request { time, owner, object, offset: place & !1, length: self.page_size.into(), operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_processes_are_one_trace_in_the_order_of_their_times() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = [5, 6].map(|process| Log::create(folder.path(), process).expect("a file"));
        for page in 0..3_u64 {
            logs[0].add(page << 12, false).expect("it is noted");
            logs[1].add(page << 12, true).expect("it is noted");
        }
        // They are there though nobody has ended.
        let (mut reader, mut names) = (Recorded::open(folder.path(), 4096).expect("it is read"), Names::new());
        let mut seen = Vec::new();
        while let Some(request) = reader.next(&mut names).expect("a request") {
            assert_eq!(request.length, 4096);
            seen.push((names.object_name(request.object).to_owned(), request.offset >> 12, request.operation));
        }
        let (read, write) = (Operation::Read, Operation::Write);
        let expected = (0..3).flat_map(|page| [("5".to_owned(), page, read), ("6".to_owned(), page, write)]);
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn more_than_there_is_room_for_at_a_time_is_all_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = Log::create(folder.path(), 5).expect("a file");
        let count = 2 * ROOM as u64 + 1;
        (0..count).for_each(|page| log.add(page << 12, false).expect("it is noted"));
        let (mut reader, mut names) = (Recorded::open(folder.path(), 4096).expect("it is read"), Names::new());
        let seen = std::iter::from_fn(|| reader.next(&mut names).expect("a request"));
        assert!(seen.map(|request| request.offset >> 12).eq(0..count));
    }
}
