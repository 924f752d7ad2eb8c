//! Places in their order: which is the last one at a place or before it?
//!
//! A treap: places rise from left to right, priorities fall from the root down. A slot's priority is a hash of its number and of a seed
//! that each set draws anew. So the depth is about 2 ln n for any places, and a client that chooses them cannot find a bad order. What the
//! set answers does not depend on its shape.
//!
//! Each operation goes down from the root once, O(log n) steps, and ends, as every step leads to a child; a search that begins near its end
//! takes one or two. Nothing is allocated up to the slots that were reserved. 24 bytes a slot.

use forebay_basis::Place;
use std::hash::{BuildHasher, Hasher, RandomState};

const NONE: u32 = u32::MAX;
/// What a slot out of use has on its left.
const UNUSED: u32 = NONE - 1;

/// The key is apart, so that no space is lost between the fields.
#[derive(Clone, Copy, Debug)]
struct Node {
    block: u64,
    object: u32,
    left: u32,
    right: u32,
    /// The slot of the next place, or, out of use, the next slot that is.
    next: u32,
}

impl Node {
    #[inline]
    fn key(&self) -> Place {
        Place { object: self.object, block: self.block }
    }

    /// One number that orders as the place does.
    #[inline]
    fn rank(&self) -> u128 {
        rank(self.key())
    }
}

#[inline]
fn rank(key: Place) -> u128 {
    u128::from(key.object) << 64 | u128::from(key.block)
}

/// A set of places, each in a slot of its own.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// OR1. Keys rise from left to right and along `next`, no two are equal. OR2. No child's priority is above its parent's.
    nodes: Vec<Node>,
    root: u32,
    unused: u32,
    seed: u64,
}

impl Ordered {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), root: NONE, unused: NONE, seed: RandomState::new().build_hasher().finish() }
    }

    /// Makes room for this many places.
    pub(crate) fn reserve(&mut self, slots: u32) {
        self.nodes.reserve_exact((slots as usize).saturating_sub(self.nodes.len()));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    /// The place in a slot that is in use.
    #[inline]
    pub(crate) fn key(&self, slot: u32) -> Place {
        self.nodes[slot as usize].key()
    }

    /// The slot of the last place that is not behind this one. Quick where that is in the slot `near`, or in the next place's.
    #[inline]
    pub(crate) fn at_or_before(&self, key: Place, near: u32) -> Option<u32> {
        let wanted = rank(key);
        if let Some(node) = self.nodes.get(near as usize)
            && node.left != UNUSED
            && node.rank() <= wanted
        {
            let mut at = near;
            for _ in 0..2 {
                let next = self.nodes[at as usize].next;
                if next == NONE || self.nodes[next as usize].rank() > wanted {
                    return Some(at);
                }
                at = next;
            }
        }
        self.last(wanted)
    }

    /// The slot of the last place before this one.
    #[inline]
    pub(crate) fn before(&self, key: Place) -> Option<u32> {
        rank(key).checked_sub(1).and_then(|wanted| self.last(wanted))
    }

    /// Without a branch that depends on the keys: none could be foreseen.
    #[inline]
    fn last(&self, wanted: u128) -> Option<u32> {
        let (mut at, mut found) = (self.root, NONE);
        while at != NONE {
            let node = &self.nodes[at as usize];
            let fits = node.rank() <= wanted;
            found = if fits { at } else { found };
            at = if fits { node.right } else { node.left };
        }
        (found != NONE).then_some(found)
    }

    /// Gives a slot's place another value that has no place of the set between it and the old one.
    #[inline]
    pub(crate) fn move_to(&mut self, slot: u32, key: Place) {
        let node = &mut self.nodes[slot as usize];
        (node.object, node.block) = (key.object, key.block);
    }

    /// Puts a place that is not in the set into a slot.
    pub(crate) fn insert(&mut self, key: Place) -> u32 {
        let slot = if self.unused == NONE { self.nodes.len() as u32 } else { self.unused };
        let node = Node { block: key.block, object: key.object, left: NONE, right: NONE, next: NONE };
        match self.nodes.get_mut(slot as usize) {
            Some(unused) => self.unused = std::mem::replace(unused, node).next,
            None => self.nodes.push(node),
        }
        // Down to where its priority belongs; what hangs there is split around its key.
        let priority = self.priority(slot);
        let (mut parent, mut at) = (None, self.root);
        let (mut previous, mut next) = (NONE, NONE);
        while at != NONE && self.priority(at) >= priority {
            let right = self.key(at) < key;
            *if right { &mut previous } else { &mut next } = at;
            parent = Some((at, right));
            at = self.child(at, right);
        }
        self.hang(parent, slot);
        let (mut into_left, mut into_right) = ((slot, false), (slot, true));
        while at != NONE {
            let before = self.key(at) < key;
            *if before { &mut previous } else { &mut next } = at;
            let side = if before { &mut into_left } else { &mut into_right };
            let hung = std::mem::replace(side, (at, before));
            self.hang(Some(hung), at);
            at = self.child(at, before);
        }
        self.hang(Some(into_left), NONE);
        self.hang(Some(into_right), NONE);
        self.nodes[slot as usize].next = next;
        if previous != NONE {
            self.nodes[previous as usize].next = slot;
        }
        slot
    }

    /// Takes a slot's place out of the set.
    pub(crate) fn remove(&mut self, slot: u32) {
        let key = self.key(slot);
        let (mut parent, mut at) = (None, self.root);
        let mut previous = NONE;
        while at != slot {
            let right = self.key(at) < key;
            previous = if right { at } else { previous };
            parent = Some((at, right));
            at = self.child(at, right);
        }
        let Node { mut left, mut right, next, .. } = self.nodes[slot as usize];
        let mut below = left;
        while below != NONE {
            (previous, below) = (below, self.child(below, true));
        }
        if previous != NONE {
            self.nodes[previous as usize].next = next;
        }
        // Its two subtrees are joined in its place.
        while left != NONE && right != NONE {
            if self.priority(left) >= self.priority(right) {
                self.hang(parent, left);
                parent = Some((left, true));
                left = self.child(left, true);
            } else {
                self.hang(parent, right);
                parent = Some((right, false));
                right = self.child(right, false);
            }
        }
        self.hang(parent, if left == NONE { right } else { left });
        let node = &mut self.nodes[slot as usize];
        (node.left, node.next) = (UNUSED, self.unused);
        self.unused = slot;
    }

    fn priority(&self, slot: u32) -> u32 {
        let mixed = (u64::from(slot) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    }

    fn child(&self, slot: u32, right: bool) -> u32 {
        let Node { left, right: other, .. } = self.nodes[slot as usize];
        if right { other } else { left }
    }

    /// Hangs `child` below a slot, on its right side or its left; without one, as the root.
    fn hang(&mut self, parent: Option<(u32, bool)>, child: u32) {
        match parent {
            None => self.root = child,
            Some((parent, true)) => self.nodes[parent as usize].right = child,
            Some((parent, false)) => self.nodes[parent as usize].left = child,
        }
    }

    /// Recounts the set: says how many places it has, and how deep it is.
    pub(crate) fn check(&self) -> (u32, u32) {
        let (mut path, mut at, mut before) = (Vec::new(), self.root, None);
        let (mut count, mut deepest) = (0, 0);
        let mut next = NONE;
        loop {
            while at != NONE {
                path.push(at);
                deepest = deepest.max(path.len() as u32);
                let left = self.child(at, false);
                assert!(left == NONE || self.priority(left) <= self.priority(at)); // OR2
                at = left;
            }
            let Some(slot) = path.pop() else {
                assert_eq!(next, NONE); // OR1
                return (count, deepest);
            };
            assert!(before < Some(self.key(slot)) && (before.is_none() || next == slot)); // OR1
            (before, next) = (Some(self.key(slot)), self.nodes[slot as usize].next);
            count += 1;
            at = self.child(slot, true);
            assert!(at == NONE || self.priority(at) <= self.priority(slot)); // OR2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn place(number: u64) -> Place {
        Place { object: (number / 40) as u32, block: number % 40 }
    }

    proptest! {
        #[test]
        fn answers_are_those_of_a_sorted_map(steps in prop::collection::vec((0u64..120, 0u64..120, 0u32..100), 1..200)) {
            let mut set = Ordered::new();
            let mut model = BTreeMap::new();
            for (number, asked, near) in steps {
                match model.remove(&place(number)) {
                    Some(slot) => set.remove(slot),
                    None => drop(model.insert(place(number), set.insert(place(number)))),
                }
                let asked = place(asked);
                prop_assert_eq!(set.at_or_before(asked, near), model.range(..=asked).next_back().map(|(_, &slot)| slot));
                prop_assert_eq!(set.before(asked), model.range(..asked).next_back().map(|(_, &slot)| slot));
                prop_assert_eq!(set.check().0 as usize, model.len());
            }
        }
    }

    /// The depth that a treap of 2^16 places has but once in more than 10^9 times: its mean is about 38.
    const DEEP: u32 = 100;

    #[test]
    fn no_order_of_places_makes_it_deep() {
        let from_both_ends = |step: u64| if step.is_multiple_of(2) { step } else { (1 << 40) - step };
        let bits_reversed = |step: u64| step.reverse_bits() >> 24;
        let orders: [&dyn Fn(u64) -> u64; 4] =
            [&|step| step, &|step| (1 << 40) - step, &from_both_ends, &bits_reversed];
        for order in orders {
            let mut set = Ordered::new();
            let slots: Vec<u32> =
                (0..1 << 16).map(|step| set.insert(Place { object: 0, block: order(step) })).collect();
            assert!(set.check() <= (1 << 16, DEEP));
            // Those that leave and come again get their slots in another order.
            slots.iter().step_by(2).for_each(|&slot| set.remove(slot));
            for step in (0..1 << 16).step_by(2) {
                set.insert(Place { object: 0, block: order(step) });
            }
            assert!(set.check() <= (1 << 16, DEEP));
        }
    }
}
