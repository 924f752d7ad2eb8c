//! Things that are open, by the numbers that the kernel names them by.

use crate::protocol::Errno;
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct Slab<T>(RwLock<Places<T>>);

struct Places<T> {
    taken: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self(RwLock::new(Places { taken: Vec::new(), free: Vec::new() }))
    }
}

impl<T> Slab<T> {
    pub(crate) fn add(&self, item: T) -> u64 {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let item = Some(Arc::new(item));
        let place = match places.free.pop() {
            Some(place) => {
                places.taken[place] = item;
                place
            }
            None => {
                places.taken.push(item);
                places.taken.len() - 1
            }
        };
        place as u64
    }

    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>, Errno> {
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        places.taken.get(handle as usize).cloned().flatten().ok_or(Errno::EBADF)
    }

    /// One of which `is` says that it is meant.
    pub(crate) fn find(&self, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        places.taken.iter().flatten().find(|item| is(item)).cloned()
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let mut places = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let item = places.taken.get_mut(handle as usize)?.take()?;
        places.free.push(handle as usize);
        Some(item)
    }
}
