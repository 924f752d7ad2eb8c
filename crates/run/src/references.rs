//! The references that processes have recorded, as one trace.

use forebay_basis::Operation;
use forebay_run_shared::log::{EXTENSION, Record};
use forebay_trace::{Names, Reader, Request, Unit};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

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
    use forebay_run_shared::log::{Log, ROOM};

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
