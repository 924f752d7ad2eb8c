//! References that a process records, in a file of which it has a part mapped.

use crate::figures::create_new;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How the names of the files end.
pub const EXTENSION: &str = "references";

/// A reference: its place in memory, of which the last bit is that of a write, and nanoseconds since the system started. Where these are 0 there is none: the end.
pub type Record = [AtomicU64; 2];

/// References for which there is room at a time.
pub const ROOM: usize = 16 << 10;

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
