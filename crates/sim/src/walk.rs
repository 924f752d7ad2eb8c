//! The way over references, in their order.

use std::ops::Range;

/// How many references ahead what they need is fetched: about as many as pass while memory answers.
pub(crate) const AHEAD: usize = 24;
/// References between two reports of progress.
const STRIDE: usize = 1 << 18;

/// Visits the references of a range: index, page, and the page that is referenced soon. `progress` gets each further number of references
/// done; `false` stops there, and is the answer.
#[inline(always)]
pub(crate) fn walk(
    references: &[u32],
    range: Range<usize>,
    progress: &dyn Fn(u64) -> bool,
    mut visit: impl FnMut(usize, u32, Option<u32>),
) -> bool {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + STRIDE);
        for (offset, &page) in references[start..end].iter().enumerate() {
            visit(start + offset, page, references.get(start + offset + AHEAD).copied());
        }
        if !progress((end - start) as u64) {
            return false;
        }
        start = end;
    }
    true
}
