//! Counters that several threads raise.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, or a struct of them.
pub trait Tally {
    /// What is read from it.
    type Read;

    /// What it holds now.
    fn read(&self) -> Self::Read;

    /// Adds what was counted elsewhere.
    fn absorb(&self, more: &Self::Read);
}

/// A number.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

impl Total {
    /// Adds to it.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes from what was added to it.
    #[inline]
    pub fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// What it holds now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally for Total {
    type Read = u64;

    fn read(&self) -> u64 {
        self.get()
    }

    /// Nothing is written when there is nothing to add: a number that two cores share travels between them with every write.
    #[inline]
    fn absorb(&self, &more: &u64) {
        if more > 0 {
            self.add(more);
        }
    }
}
