//! LRU, the kernel's default: the manager never overrules, so it keeps nothing and is never asked.

/// In place of a rule: nobody manages these pages, so that they are LRU's too.
pub(super) const NOBODY: u32 = u32::MAX;
