//! LRU, the kernel's default: the manager never overrules, so it keeps nothing and is never asked.

/// The place of this manager among an assignment's: whom nobody manages.
pub(super) const NOBODY: u32 = u32::MAX;
