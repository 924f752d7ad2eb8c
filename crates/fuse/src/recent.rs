//! A bounded set of things that hold a descriptor: when one more comes than there may be, one that was not used lately closes its own.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, Weak};

/// Something whose descriptor can be closed, and opened again.
pub(crate) trait Closable {
    /// Whether it was used since it was asked last.
    fn take_used(&self) -> bool;

    /// Closes its descriptor, unless it is needed now.
    fn close(&self);
}

/// A clock of those that are open.
pub(crate) struct Recent<T> {
    most: usize,
    open: Mutex<VecDeque<Weak<T>>>,
}

impl<T: Closable> Recent<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// Adds one that has just opened its descriptor.
    pub(crate) fn add(&self, item: Weak<T>) {
        let mut closed = Vec::new();
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push_back(item);
            // Each is passed by once at most.
            let mut passed = 0;
            while open.len() > self.most {
                let Some(oldest) = open.pop_front() else { break };
                let Some(item) = oldest.upgrade() else { continue };
                if item.take_used() && passed < self.most {
                    passed += 1;
                    open.push_back(oldest);
                } else {
                    closed.push(item);
                }
            }
        }
        closed.iter().for_each(|item| item.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Item {
        used: AtomicBool,
        closed: AtomicBool,
    }

    impl Closable for Item {
        fn take_used(&self) -> bool {
            self.used.swap(false, Ordering::Relaxed)
        }

        fn close(&self) {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_oldest_that_was_not_used_is_closed() {
        let recent = Recent::new(2);
        let items: Vec<Arc<Item>> = (0..4).map(|_| Arc::default()).collect();
        items[0].used.store(true, Ordering::Relaxed);
        let closed = || items.iter().map(|item| item.closed.load(Ordering::Relaxed)).collect::<Vec<_>>();
        items[..3].iter().for_each(|item| recent.add(Arc::downgrade(item)));
        assert_eq!(closed(), [false, true, false, false]);
        recent.add(Arc::downgrade(&items[3]));
        assert_eq!(closed(), [false, true, true, false]);
    }
}
