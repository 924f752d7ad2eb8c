//! Many transfers at a time by io_uring: 64 under way, the results in order.

use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Mutex;
use std::time::Duration;

/// How many transfers a ring has under way.
const DEPTH: u32 = 64;

/// The most that one transfer asks for; what is longer ends short.
const LONGEST: usize = 1 << 30;

/// What is read into, or written from, a place in a file.
#[derive(Debug)]
pub(super) enum Transfer<'a> {
    /// From the offset on, as many bytes as there is room.
    Read(u64, &'a mut [u8]),
    /// To the offset on.
    Write(u64, &'a [u8]),
}

impl Transfer<'_> {
    fn entry(&mut self, file: RawFd) -> io_uring::squeue::Entry {
        let file = types::Fd(file);
        match self {
            Self::Read(offset, buffer) => {
                let length = buffer.len().min(LONGEST) as u32;
                opcode::Read::new(file, buffer.as_mut_ptr(), length).offset(*offset).build()
            }
            Self::Write(offset, buffer) => {
                let length = buffer.len().min(LONGEST) as u32;
                opcode::Write::new(file, buffer.as_ptr(), length).offset(*offset).build()
            }
        }
    }
}

/// Rings that no thread uses at the moment. A thread takes one for a call, or makes one, so that threads do not wait for
/// each other.
pub(super) struct Rings(Mutex<Vec<IoUring>>);

/// Those of all files: a file that is not read or written costs none.
pub(super) static RINGS: Rings = Rings(Mutex::new(Vec::new()));

/// Rings that are kept while nobody uses them.
const KEPT: usize = 32;

impl Rings {
    /// Makes all transfers; how many bytes each moved, which may be fewer than asked for. Nothing: the kernel has no ring for us.
    pub(super) fn transfer(
        &self,
        file: BorrowedFd<'_>,
        transfers: &mut [Transfer<'_>],
    ) -> Option<Vec<io::Result<usize>>> {
        let idle = self.lock().pop();
        let mut ring = idle.or_else(|| IoUring::new(DEPTH).ok())?;
        let (results, sound) = run(&mut ring, file.as_raw_fd(), transfers);
        let mut idle = self.lock();
        if sound && idle.len() < KEPT {
            idle.push(ring);
        }
        Some(results)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<IoUring>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The results, and whether the ring can be used again.
fn run(ring: &mut IoUring, file: RawFd, transfers: &mut [Transfer<'_>]) -> (Vec<io::Result<usize>>, bool) {
    let mut results: Vec<io::Result<usize>> = Vec::with_capacity(transfers.len());
    results.resize_with(transfers.len(), || Err(io::Error::other("io_uring gave no answer")));
    let (mut next, mut under_way, mut sound) = (0, 0, true);
    while under_way > 0 || (sound && next < transfers.len()) {
        while sound && next < transfers.len() && under_way < DEPTH {
            let entry = transfers[next].entry(file).user_data(next as u64);
            // SAFETY: the file is borrowed and the buffers are borrowed, exclusively for reads, by the caller of this
            // function, which does not return, and does not panic, before every entry that the kernel took has its answer.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                break;
            }
            next += 1;
            under_way += 1;
        }
        if sound && let Err(error) = ring.submit_and_wait(1) {
            // Interrupted, or short of memory for a moment: what is under way goes on and the rest is submitted again.
            sound = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM));
            if !sound {
                // What the kernel did not take it will never see: the ring is closed after this.
                under_way -= ring.submission().len() as u32;
            }
        } else if !sound {
            std::thread::sleep(Duration::from_millis(1));
        }
        for answer in ring.completion() {
            under_way -= 1;
            if let Some(result) = results.get_mut(answer.user_data() as usize) {
                let moved = answer.result();
                *result = usize::try_from(moved).map_err(|_| io::Error::from_raw_os_error(-moved));
            }
        }
    }
    (results, sound)
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn more_transfers_than_the_ring_is_deep_are_made_and_answered_in_order() {
        let file = tempfile::tempfile().expect("a file");
        let count = DEPTH as usize * 3 + 5;
        let written: Vec<Vec<u8>> = (0..count).map(|number| vec![number as u8; number + 1]).collect();
        let offset = |number: usize| number as u64 * 1024;
        let rings = &RINGS;
        let mut writes: Vec<_> =
            written.iter().enumerate().map(|(number, bytes)| Transfer::Write(offset(number), bytes)).collect();
        let Some(results) = rings.transfer(file.as_fd(), &mut writes) else {
            eprintln!("skipped: this kernel refuses io_uring");
            return;
        };
        let moved: Vec<usize> = results.into_iter().map(|result| result.expect("the disk has room")).collect();
        assert_eq!(moved, (1..=count).collect::<Vec<_>>());
        let mut read: Vec<Vec<u8>> = written.iter().map(|bytes| vec![0; bytes.len()]).collect();
        let mut reads: Vec<_> =
            read.iter_mut().enumerate().map(|(number, bytes)| Transfer::Read(offset(number), bytes)).collect();
        assert!(rings.transfer(file.as_fd(), &mut reads).is_some());
        assert_eq!(read, written);
    }

    #[test]
    fn an_error_is_that_transfers_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("read-only");
        std::fs::write(&path, b"bytes").expect("the disk has room");
        let file = std::fs::File::open(&path).expect("it was written");
        let mut room = [0; 5];
        let mut transfers = [Transfer::Write(0, b"other"), Transfer::Read(0, &mut room)];
        let Some(results) = RINGS.transfer(file.as_fd(), &mut transfers) else {
            eprintln!("skipped: this kernel refuses io_uring");
            return;
        };
        assert_eq!(results[0].as_ref().expect_err("not opened for writing").raw_os_error(), Some(libc::EBADF));
        assert_eq!(*results[1].as_ref().expect("it can be read"), 5);
        assert_eq!(&room, b"bytes");
    }
}
