//! The dirty pages of all objects in one queue: by place, for requests in the order of blocks, and by age.

use crate::access::load::Held;
use crate::objects::volume::Volume;
use crate::sync::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// This many ages may be left over of pages that were dirty, beside as many again as there are dirty pages.
const MOST_STALE: usize = 1024;

/// Which pages have `DIRTY` set.
#[derive(Default)]
pub(crate) struct DirtyPages {
    /// Their numbers, and who made them dirty, by object and block.
    by_place: BTreeMap<(u32, u64), (u32, u32)>,
    /// When pages became dirty; some are clean again since.
    ages: VecDeque<(Instant, u32, u64)>,
    /// When pages are to be looked at again that were too old and could not be written.
    again: VecDeque<(Instant, u32, u64)>,
    /// The object from which on the next are written when too much is dirty.
    turn: u32,
}

impl DirtyPages {
    /// A page has become dirty, by that owner.
    pub(crate) fn add(&mut self, volume: &Volume, block: u64, number: u32, owner: u32) {
        if self.by_place.insert((volume.id, block), (number, owner)).is_none() {
            volume.dirty.fetch_add(1, Ordering::Relaxed);
            volume.counters.dirty.add(1);
        }
        if self.ages.len() > 2 * self.by_place.len() + MOST_STALE {
            self.forget_stale_ages();
        }
        self.ages.push_back((Instant::now(), volume.id, block));
    }

    /// A page is dirty no more. Who made it so, if it was.
    pub(crate) fn remove(&mut self, volume: &Volume, block: u64) -> Option<u32> {
        let removed = self.by_place.remove(&(volume.id, block));
        if removed.is_some() {
            volume.dirty.fetch_sub(1, Ordering::Relaxed);
            volume.counters.dirty.subtract(1);
        }
        if self.by_place.is_empty() {
            self.ages.clear();
            self.again.clear();
        }
        removed.map(|(_, owner)| owner)
    }

    /// Keeps the latest age of each dirty page alone.
    fn forget_stale_ages(&mut self) {
        let mut seen = BTreeSet::new();
        let ages = std::mem::take(&mut self.ages).into_iter().rev();
        let mut latest: Vec<_> = ages
            .filter(|&(_, object, block)| self.by_place.contains_key(&(object, block)) && seen.insert((object, block)))
            .collect();
        latest.reverse();
        self.ages = latest.into();
    }

    /// Those of an object that lie in a range of blocks, by block.
    pub(crate) fn of(&self, object: u32, blocks: Range<u64>) -> impl DoubleEndedIterator<Item = Held> {
        let pages = self.by_place.range((object, blocks.start)..(object, blocks.end.max(blocks.start)));
        pages.map(|(&(_, block), &(number, _))| (block, number))
    }

    /// Takes note that pages which are too old could not be written, and are to be looked at again after a pause that is always the same.
    pub(crate) fn put_off(&mut self, object: u32, pages: &[Held], pause: Duration) {
        let when = Instant::now() + pause;
        self.again.extend(pages.iter().map(|&(block, _)| (when, object, block)));
    }

    /// They were being written to when their writeback was due: they are as if they had become dirty now.
    pub(crate) fn renew(&mut self, object: u32, pages: &[Held]) {
        let now = Instant::now();
        self.ages.extend(pages.iter().map(|&(block, _)| (now, object, block)));
    }

    /// At most `most` pages that have been dirty for longer than `age`; each is returned once.
    pub(crate) fn aged(&mut self, age: Duration, most: usize) -> Vec<(u32, Held)> {
        let now = Instant::now();
        let mut aged = Vec::new();
        for (queue, age) in [(&mut self.again, Duration::ZERO), (&mut self.ages, age)] {
            while aged.len() < most
                && let Some(&(since, object, block)) = queue.front()
                && since <= now
                && now - since >= age
            {
                queue.pop_front();
                aged.extend(self.by_place.get(&(object, block)).map(|&(number, _)| (object, (block, number))));
            }
        }
        aged
    }

    /// At most `most` objects that have dirty pages, in turn: each call returns others, where there are others.
    pub(crate) fn next_objects(&mut self, most: usize) -> Vec<u32> {
        let objects = self.objects(most);
        self.turn = objects.last().map_or(0, |&last| last.wrapping_add(1));
        objects
    }

    /// The same, and the next time the same.
    pub(crate) fn objects(&self, most: usize) -> Vec<u32> {
        let after = |object: u32| {
            let mut pages = self.by_place.range((object, 0)..);
            pages.next().map(|(&(object, _), _)| object)
        };
        let next = |&object: &u32| object.checked_add(1).and_then(after);
        let behind = std::iter::successors(after(self.turn), next);
        let before = std::iter::successors(after(0), next).take_while(|&object| object < self.turn);
        behind.chain(before).take(most).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.by_place.len() as u64
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Held)> {
        self.by_place.iter().map(|(&(object, block), &(number, _))| (object, (block, number)))
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::{Config, Pool, VolumeConfig};
    use forebay_policy::Spec;
    use std::sync::Arc;

    fn volumes(count: usize) -> Vec<Arc<Volume>> {
        let pool = Pool::new(Config::new(1 << 20, Spec::parse("lru").expect("a policy"))).expect("a pool");
        let attach = |_| pool.attach(Arc::new(MemoryDevice::new(1 << 20)), VolumeConfig::new("test"));
        (0..count).map(attach).collect()
    }

    #[test]
    fn ages_of_pages_that_are_clean_again_do_not_pile_up() {
        let volume = &volumes(1)[0];
        let mut dirty = DirtyPages::default();
        dirty.add(volume, 0, 0, 0);
        for block in 1..100_000 {
            dirty.add(volume, block, 1, 0);
            dirty.remove(volume, block);
        }
        assert!(dirty.ages.len() <= MOST_STALE + 4, "{} ages", dirty.ages.len());
        assert_eq!(dirty.ages.front().map(|age| age.2), Some(0), "the page that is still dirty has kept its age");
        assert_eq!(dirty.aged(Duration::ZERO, 10), [(0, (0, 0))]);
        assert_eq!((dirty.aged(Duration::ZERO, 10), volume.dirty.load(Ordering::Relaxed)), (Vec::new(), 1));
        dirty.put_off(0, &[(0, 0)], Duration::ZERO);
        assert_eq!(dirty.aged(Duration::from_secs(60), 10), [(0, (0, 0))]);
    }

    #[test]
    fn objects_with_dirty_pages_have_their_turns() {
        let mut dirty = DirtyPages::default();
        for volume in &volumes(5) {
            (0..10).for_each(|block| dirty.add(volume, block, 0, 0));
        }
        assert_eq!(dirty.next_objects(3), [0, 1, 2]);
        assert_eq!(dirty.objects(9), [3, 4, 0, 1, 2]);
        assert_eq!(dirty.next_objects(3), [3, 4, 0]);
        assert_eq!(dirty.of(2, 3..5).collect::<Vec<_>>(), [(3, 0), (4, 0)]);
    }
}
