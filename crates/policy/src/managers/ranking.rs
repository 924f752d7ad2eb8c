//! Pages in the order of their ranks: any number of ordered sets over one array, a treap each.
//!
//! A set is a search tree by (rank, page) and at the same time a heap by a hash of the page, which keeps it about as deep as
//! the logarithm of its pages (R. Seidel and C. R. Aragon, "Randomized Search Trees", Algorithmica 16, 1996). A page is in
//! one set at most. Every operation takes logarithmic time and allocates nothing. Memory: 16 bytes a page.

/// No page: the root of an empty set.
pub(super) const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    rank: u64,
    lower: u32,
    higher: u32,
}

#[derive(Debug)]
pub(super) struct Ranking(Vec<Node>);

impl Ranking {
    pub(super) const BYTES_PER_PAGE: usize = size_of::<Node>();

    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        if pages as usize > self.0.len() {
            self.0.resize(pages as usize, Node { rank: 0, lower: EMPTY, higher: EMPTY });
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Node>()
    }

    /// The rank of a page that is in a set.
    pub(super) fn rank(&self, page: u32) -> u64 {
        self.0[page as usize].rank
    }

    /// Clears the lowest bit of the rank of a page in a set, where no two pages' ranks differ in that bit alone.
    pub(super) fn clear_lowest_bit(&mut self, page: u32) {
        self.0[page as usize].rank &= !1;
    }

    pub(super) fn insert(&mut self, root: &mut u32, page: u32, rank: u64) {
        self.0[page as usize] = Node { rank, lower: EMPTY, higher: EMPTY };
        let (lower, higher) = self.split(*root, (rank, page));
        let lower = self.join(lower, page);
        *root = self.join(lower, higher);
    }

    pub(super) fn remove(&mut self, root: &mut u32, page: u32) {
        *root = self.without(*root, page);
    }

    /// The page with the highest rank below `bound`, among equals the one with the highest number.
    fn below(&self, root: u32, bound: (u64, u32)) -> Option<u32> {
        let (mut tree, mut best) = (root, None);
        while tree != EMPTY {
            let Node { lower, higher, .. } = self.0[tree as usize];
            if self.key(tree) < bound {
                best = Some(tree);
                tree = higher;
            } else {
                tree = lower;
            }
        }
        best
    }

    /// The pages with ranks up to `most`, from the highest down.
    pub(super) fn down_from(&self, root: u32, most: u64) -> impl Iterator<Item = u32> {
        // No page has the number `EMPTY`, so this is behind all pages of rank `most`.
        let first = self.below(root, (most, EMPTY));
        std::iter::successors(first, move |&page| self.below(root, self.key(page)))
    }

    fn key(&self, page: u32) -> (u64, u32) {
        (self.0[page as usize].rank, page)
    }

    /// The parts of a tree below and above a key.
    fn split(&mut self, tree: u32, key: (u64, u32)) -> (u32, u32) {
        if tree == EMPTY {
            return (EMPTY, EMPTY);
        }
        let Node { lower, higher, .. } = self.0[tree as usize];
        if self.key(tree) < key {
            let (middle, above) = self.split(higher, key);
            self.0[tree as usize].higher = middle;
            (tree, above)
        } else {
            let (below, middle) = self.split(lower, key);
            self.0[tree as usize].lower = middle;
            (below, tree)
        }
    }

    /// One tree of two, all of `lower` ranking below all of `higher`.
    fn join(&mut self, lower: u32, higher: u32) -> u32 {
        if lower == EMPTY {
            higher
        } else if higher == EMPTY {
            lower
        } else if weight(lower) > weight(higher) {
            self.0[lower as usize].higher = self.join(self.0[lower as usize].higher, higher);
            lower
        } else {
            self.0[higher as usize].lower = self.join(lower, self.0[higher as usize].lower);
            higher
        }
    }

    fn without(&mut self, tree: u32, page: u32) -> u32 {
        let Node { lower, higher, .. } = self.0[tree as usize];
        if tree == page {
            return self.join(lower, higher);
        }
        if self.key(page) < self.key(tree) {
            self.0[tree as usize].lower = self.without(lower, page);
        } else {
            self.0[tree as usize].higher = self.without(higher, page);
        }
        tree
    }
}

/// The heap's order: no two pages alike, and without any regularity (the finisher of MurmurHash3, a bijection).
fn weight(page: u32) -> u32 {
    let mixed = (page ^ (page >> 16)).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xc2b2_ae35);
    mixed ^ (mixed >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set(steps in prop::collection::vec((0u32..40, 0u64..30, any::<bool>()), 0..200)) {
            let mut ranking = Ranking::new();
            ranking.reserve(40);
            let mut roots = [EMPTY; 2];
            let mut models = [BTreeSet::new(), BTreeSet::new()];
            for (page, rank, insert) in steps {
                let set = page as usize % 2;
                if let Some(&old) = models[set].iter().find(|&&(_, other)| other == page) {
                    ranking.remove(&mut roots[set], page);
                    models[set].remove(&old);
                }
                if insert {
                    ranking.insert(&mut roots[set], page, rank);
                    models[set].insert((rank, page));
                }
                for most in [0, rank, u64::MAX] {
                    let down: Vec<u32> = ranking.down_from(roots[set], most).collect();
                    let model = models[set].range(..=(most, u32::MAX)).rev().map(|&(_, page)| page);
                    prop_assert_eq!(down, model.collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn a_million_pages_in_rising_order_are_no_deep_tree() {
        let mut ranking = Ranking::new();
        ranking.reserve(1_000_000);
        let mut root = EMPTY;
        for page in 0..1_000_000 {
            ranking.insert(&mut root, page, u64::from(page));
        }
        let mut depth = 0;
        let mut below = vec![(root, 1)];
        while let Some((tree, at)) = below.pop() {
            if tree != EMPTY {
                depth = depth.max(at);
                below.extend([(ranking.0[tree as usize].lower, at + 1), (ranking.0[tree as usize].higher, at + 1)]);
            }
        }
        assert!(depth < 80, "{depth}");
    }
}
