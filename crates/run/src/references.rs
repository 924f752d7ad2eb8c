//! References that processes have recorded, and all of them as one trace.

use crate::figures::create_new;
use forebay_trace::{Names, Operation, Reader, Request, Unit};
use rustix::time::{ClockId, clock_gettime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const EXTENSION: &str = "references";

/// References that are written at once.
const BATCH: usize = 4096;

/// A reference: nanoseconds since the system started, and its place in memory; the last bit is that of a write.
type Record = [u8; 16];

/// Where a process writes its references down.
#[derive(Debug)]
pub struct Log {
    waiting: Mutex<(File, Vec<Record>)>,
}

impl Log {
    /// Makes the file.
    ///
    /// # Errors
    /// The system's.
    pub fn create(folder: &Path, process: u32) -> io::Result<Self> {
        let (file, _) = create_new(folder, process, EXTENSION)?;
        Ok(Self { waiting: Mutex::new((file, Vec::with_capacity(BATCH))) })
    }

    /// Takes note of a reference to the byte at `offset`.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, offset: u64, write: bool) -> io::Result<()> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock that all processes share.
        let now = clock_gettime(ClockId::Monotonic);
        let time = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut record = [0; 16];
        record[..8].copy_from_slice(&time.to_ne_bytes());
        record[8..].copy_from_slice(&(offset & !1 | u64::from(write)).to_ne_bytes());
        waiting.1.push(record);
        if waiting.1.len() >= BATCH { write_all(&mut waiting) } else { Ok(()) }
    }

    /// Writes down what waits.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&self) -> io::Result<()> {
        write_all(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn write_all((file, records): &mut (File, Vec<Record>)) -> io::Result<()> {
    let written = file.write_all(records.as_flattened());
    records.clear();
    written
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
        let mut record: Record = [0; 16];
        match self.processes[process].1.read_exact(&mut record) {
            // A process that was killed may have left a part of one.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                let word = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
                self.next.push(Reverse((word(0), process, word(8))));
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
        logs.iter().for_each(|log| log.flush().expect("it is written"));
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
}
