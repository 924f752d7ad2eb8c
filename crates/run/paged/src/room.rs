//! Room in swap space for memory that the program has: `malloc` and `mmap` fail where there is none, rather than the write that needs it later.
//!
//! 1. As long as the file system has plenty, memory that is handed out is *promised* its room. Plenty is what is free, less what is promised, less a
//!    margin for other programs. A promise ends when its page is written, and when the memory is given back.
//! 2. Where it has not, the file system allocates what was promised (`fallocate`), and then what is asked for. If either fails, there is no memory.
//! 3. What is free is asked for once in a while ([`FRESH`]). Until then a budget counts, which is taken from without a system call.
//!
//! Memory mapped with `MAP_NORESERVE` has no promise. What other programs take of the margin and more, between two looks, is missing when pages are written.

use rustix::fs::fstatvfs;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds for which it counts what was free.
const FRESH: u64 = 50;

/// Free bytes that are never promised.
const MARGIN: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes that may be promised without a look at the file system, and when it was looked at.
    budget: AtomicU64,
    looked: AtomicU64,
    promised: AtomicU64,
}

impl Room {
    /// Takes bytes from the budget, if it has them.
    pub(crate) fn take(&self, length: u64) -> bool {
        let fresh = now().saturating_sub(self.looked.load(Ordering::Relaxed)) <= FRESH;
        let take = |budget: u64| budget.checked_sub(length);
        fresh && self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Looks at a file's file system, and takes bytes from the budget that it gives, if it has them.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn look(&self, file: &File, length: u64) -> io::Result<bool> {
        let system = fstatvfs(file)?;
        // One that does not count its blocks has no end.
        let free = if system.f_blocks == 0 { u64::MAX } else { system.f_bavail.saturating_mul(system.f_frsize) };
        let left = free.saturating_sub(self.promised()).saturating_sub(MARGIN);
        self.budget.store(left, Ordering::Relaxed);
        self.looked.store(now(), Ordering::Relaxed);
        Ok(self.take(length))
    }

    /// The bytes that are promised.
    pub(crate) fn promised(&self) -> u64 {
        self.promised.load(Ordering::Relaxed)
    }

    pub(crate) fn promise(&self, bytes: u64) {
        self.promised.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Promises end.
    pub(crate) fn end(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Milliseconds on a clock that is fast to read.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_is_not_promised_again() {
        let file = tempfile::tempfile().expect("a file");
        let system = fstatvfs(&file).expect("it answers");
        let free = system.f_bavail * system.f_frsize;
        let room = Room::default();
        assert!(!room.take(1), "nothing is known yet");
        assert!(room.look(&file, 4096).expect("it answers") && room.take(4096));
        room.promise(free);
        assert!(!room.look(&file, 4096).expect("it answers"));
        room.end(free);
        assert!(room.look(&file, 4096).expect("it answers"));
    }
}
