//! Buffers that pages are read to before they get memory: a page that is written whole need not be zeroed, nor mapped for the pool.

use forebay_pool::Buffer;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All together have at most this part of the limit, between these.
const PART: usize = 64;
const LEAST: usize = 256 << 10;
const MOST: usize = 4 << 20;

/// How many times longer than it needs to be one may be that is used again.
const LONGER: usize = 4;

/// The bytes of all buffers, used or not, for a limit of memory.
pub(crate) fn most(limit: usize) -> usize {
    (limit / PART).clamp(LEAST, MOST)
}

#[derive(Debug)]
pub(crate) struct Buffers {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Those that nobody uses.
    idle: Vec<Buffer>,
    /// The bytes of all.
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new(limit: usize) -> Self {
        Self { most: most(limit), kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of this length at least; `None` if those in use leave no room for it.
    pub(crate) fn take(&self, length: usize) -> Option<Buffer> {
        // Few lengths, so that most fit the next time.
        let length = length.next_power_of_two();
        let mut kept = self.lock();
        // None that is much longer, which another may soon need.
        let fits = length..=LONGER * length;
        let fitting = kept.idle.iter().enumerate().filter(|(_, buffer)| fits.contains(&buffer.len()));
        if let Some((place, _)) = fitting.min_by_key(|(_, buffer)| buffer.len()) {
            return Some(kept.idle.swap_remove(place));
        }
        while kept.bytes + length > self.most {
            kept.bytes -= kept.idle.pop()?.len();
        }
        kept.bytes += length;
        drop(kept);
        Some(Buffer::new(length))
    }

    pub(crate) fn give(&self, buffer: Buffer) {
        self.lock().idle.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_never_more_than_their_limit() {
        let buffers = Buffers::new(1 << 20);
        let first = buffers.take(100 << 10).expect("there is room");
        assert_eq!(first.len(), 128 << 10);
        let second = buffers.take(128 << 10).expect("that fills it");
        assert!(buffers.take(1).is_none());
        let address = second.as_ptr();
        buffers.give(second);
        assert_eq!(buffers.take(65 << 10).expect("the same").as_ptr(), address);
        buffers.give(first);
        assert!(buffers.take(256 << 10).is_none(), "one is in use");
        assert!(buffers.take(64 << 10).is_some(), "an idle one made room");
    }
}
