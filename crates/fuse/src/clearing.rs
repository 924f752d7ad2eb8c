//! Small files that were deleted are cleared a moment after the kernel has forgotten them, many at a time.
//!
//! The kernel forgets a file as soon as its last name has gone, while the program deletes the next one. To drop pages and to close the
//! file below then would hold that up: both want the same core. So the files wait, for a few milliseconds and a bounded number of them.
//! Large files wait for nothing: somebody may need their space.

use crate::nodes::Node;
use crate::shared::Shared;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long they wait.
const LINGER: Duration = Duration::from_millis(5);

/// The most that wait.
const MOST: usize = 1024;

/// The most bytes of one that waits.
const SMALL: u64 = 64 << 10;

/// Those that wait.
#[derive(Default)]
pub(crate) struct Clearing(Mutex<Vec<Arc<Node>>>);

impl Clearing {
    /// Adds one, unless there are too many. `Some(true)`: it is the first one.
    fn add(&self, node: &Arc<Node>) -> Option<bool> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (waiting.len() < MOST).then(|| {
            waiting.push(Arc::clone(node));
            waiting.len() == 1
        })
    }

    fn take(&self) -> Vec<Arc<Node>> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    /// The kernel forgets a file.
    pub(crate) fn forget(self: &Arc<Self>, number: u64, lookups: u64) {
        let Some(node) = self.nodes.forget(number, lookups) else { return };
        let small = || node.object().get().is_none_or(|object| object.volume.len() <= SMALL);
        let waits = if node.inode.is_deleted() && small() { self.clearing.add(&node) } else { None };
        match waits {
            None => self.let_go(&node),
            Some(false) => {}
            Some(true) => {
                let shared = Arc::clone(self);
                self.workers.run(move || {
                    std::thread::sleep(LINGER);
                    shared.clearing.take().iter().for_each(|node| shared.let_go(node));
                });
            }
        }
    }
}
