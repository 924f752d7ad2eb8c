//! Copies that the kernel keeps of files that programs map. When our page leaves, so do they.

use crate::protocol::Notifier;
use foldhash::HashMap;
use forebay_basis::Place;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How often the thread that invalidates looks whether the mount has gone.
const LOOK: Duration = Duration::from_millis(500);

/// Files with copies in the kernel.
pub(crate) struct Mapped {
    any: AtomicBool,
    /// The number for the kernel, by the pool's.
    files: RwLock<HashMap<u32, u64>>,
    left: Mutex<Sender<(u64, u64)>>,
}

impl Mapped {
    /// What comes out at the other end is for [`invalidate`].
    pub(crate) fn new() -> (Arc<Self>, Receiver<(u64, u64)>) {
        let (left, receiver) = channel();
        let mapped = Self { any: AtomicBool::new(false), files: RwLock::default(), left: Mutex::new(left) };
        (Arc::new(mapped), receiver)
    }

    pub(crate) fn add(&self, object: u32, number: u64) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(object, number);
        self.any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, object: u32) {
        if self.any.load(Ordering::Relaxed) {
            self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&object);
        }
    }

    /// Pages have left the pool.
    pub(crate) fn note(&self, places: &[Place]) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places {
            if let Some(&number) = files.get(&place.object) {
                // After the mount has gone there are no copies.
                let _ = left.send((number, place.block));
            }
        }
    }
}

/// Invalidates what comes, until the mount has gone. It waits for pages that the kernel is reading, so it has a thread of its own.
pub(crate) fn invalidate(left: &Receiver<(u64, u64)>, notifier: &Notifier, page_size: u64, gone: &AtomicBool) {
    while !gone.load(Ordering::Relaxed) {
        let Ok((number, block)) = left.recv_timeout(LOOK) else { continue };
        let (mut number, mut blocks) = (number, block..block + 1);
        let flush = |number: u64, blocks: &std::ops::Range<u64>| {
            let (offset, length) = (blocks.start * page_size, (blocks.end - blocks.start) * page_size);
            notifier.forget_bytes(number, offset, length);
        };
        for (next, block) in left.try_iter() {
            if next == number && block == blocks.end {
                blocks.end += 1;
                continue;
            }
            flush(number, &blocks);
            (number, blocks) = (next, block..block + 1);
        }
        flush(number, &blocks);
    }
}
