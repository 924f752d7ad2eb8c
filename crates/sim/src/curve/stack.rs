//! Stacks, and the distances of the references to them.

use crate::walk::walk;

/// A policy's stack, which tells the stack distance of each reference.
pub trait Stack {
    /// An empty stack for page numbers below `pages`.
    fn new(pages: u32) -> Self;

    /// A page is referenced: the smallest cache, in pages, that hits; 0 if none does, as for a first use.
    fn reference(&mut self, page: u32) -> u32;

    /// A page will be referenced soon: what that will read may be fetched.
    fn prefetch(&self, page: u32);

    /// Page numbers below `pages` may occur.
    fn reserve(&mut self, pages: u32);
}

/// How many references have each stack distance. At 0: those that no size hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distances {
    pub(super) counts: Vec<u64>,
}

impl Distances {
    /// Those of some references. `progress` is notified of each further number of references done; `false` stops the count.
    pub fn count<S: Stack>(
        stack: &mut S,
        references: &[u32],
        pages: u32,
        progress: &dyn Fn(u64) -> bool,
    ) -> Option<Self> {
        let mut distances = Self::new(pages);
        distances.add(stack, references, progress).then_some(distances)
    }

    /// None, for distances up to `pages`.
    pub(crate) fn new(pages: u32) -> Self {
        Self { counts: vec![0; pages as usize + 1] }
    }

    /// Distances up to `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        self.counts.resize(self.counts.len().max(pages as usize + 1), 0);
    }

    /// Adds those of some references; whether that was not stopped.
    pub(crate) fn add<S: Stack>(&mut self, stack: &mut S, references: &[u32], progress: &dyn Fn(u64) -> bool) -> bool {
        walk(references, 0..references.len(), progress, |_, page, soon| {
            if let Some(soon) = soon {
                stack.prefetch(soon);
            }
            self.counts[stack.reference(page) as usize] += 1;
        })
    }

    /// The hits of a cache of each of these sizes.
    pub fn hits(&self, sizes: &[u32]) -> Vec<u64> {
        let mut rising: Vec<usize> = (0..sizes.len()).collect();
        rising.sort_by_key(|&index| sizes[index]);
        let mut hits = vec![0; sizes.len()];
        let (mut sum, mut from) = (0, 1);
        for index in rising {
            let to = (sizes[index] as usize + 1).clamp(from, self.counts.len().max(from));
            sum += self.counts.get(from..to).into_iter().flatten().sum::<u64>();
            from = to;
            hits[index] = sum;
        }
        hits
    }
}
