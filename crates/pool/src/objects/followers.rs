//! What happens to pages of some volumes, for whoever follows them: events in bounded queues.
//!
//! Events are queued under the replacer's lock, so they are in the order in which the policy learned of them. Nobody waits for a follower: when
//! its queue is full, events are lost, and counted. Where nobody follows, that costs a look at an empty map.

use crate::core::memory::Memory;
use crate::objects::owners::Owner;
use crate::objects::volume::Volume;
use crate::pool::Pool;
use crate::sync::{Condvar, Mutex, lock};
use foldhash::{HashMap, HashSet};
use forebay_basis::Place;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What has happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The owner missed it, and it was admitted.
    Admitted,
    /// It was read ahead for the owner.
    ReadAhead,
    /// The owner hit it.
    Hit,
    /// It was evicted or removed. Nothing is said of pages that the owner has not used since they came.
    Evicted,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What has happened.
    pub happened: Happened,
    /// To a page of which volume, by its number.
    pub volume: u32,
    /// Which block.
    pub block: u64,
}

/// Follows what an owner does with the pages of some volumes.
pub struct Follower {
    owner: u32,
    most: usize,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// Resident pages that the owner has used, or had read ahead: no more than there are frames.
    used: HashSet<(u32, u64)>,
    lost: u64,
    ended: bool,
}

impl Follower {
    /// A follower of this owner, whose queue holds `most` events. It follows no volume yet.
    pub fn new(owner: &Owner, most: usize) -> Arc<Self> {
        Arc::new(Self { owner: owner.number(), most, queue: Mutex::default(), arrived: Condvar::new() })
    }

    /// Takes the events that have come, and how many were lost, after waiting for some no longer than this. `None`: it has ended.
    pub fn take(&self, limit: Duration) -> Option<(VecDeque<Event>, u64)> {
        let empty = |queue: &mut Queue| queue.events.is_empty() && !queue.ended;
        let waited = self.arrived.wait_timeout_while(lock(&self.queue), limit, empty);
        let mut queue = waited.expect("no thread panicked under this lock").0;
        (!queue.ended).then(|| (std::mem::take(&mut queue.events), std::mem::take(&mut queue.lost)))
    }

    /// Queues an event. `true`: it is the first.
    fn add(&self, event: Event) -> bool {
        let mut queue = lock(&self.queue);
        let place = (event.volume, event.block);
        if event.happened != Happened::Evicted {
            queue.used.insert(place);
        } else if !queue.used.remove(&place) {
            return false;
        }
        if queue.events.len() == self.most {
            queue.lost += 1;
            return false;
        }
        queue.events.push_back(event);
        queue.events.len() == 1
    }

    fn end(&self) {
        lock(&self.queue).ended = true;
        self.arrived.notify_all();
    }
}

impl<M: Memory> Pool<M> {
    /// Has a follower learn what happens to a volume's pages from now on: what its owner does, and what leaves of that. The volume is not dropped before
    /// [`unfollow`](Pool::unfollow).
    pub fn follow(&self, follower: &Arc<Follower>, volume: &Volume) {
        let mut replacer = self.shared.replacer();
        let of_volume = replacer.followers.by_volume.entry(volume.id()).or_default();
        if !of_volume.iter().any(|known| Arc::ptr_eq(known, follower)) {
            of_volume.push(Arc::clone(follower));
        }
    }

    /// Whether anybody learns what happens to a volume's pages.
    pub fn is_followed(&self, volume: &Volume) -> bool {
        self.shared.replacer().followers.by_volume.contains_key(&volume.id())
    }

    /// A follower learns nothing more.
    pub fn unfollow(&self, follower: &Arc<Follower>) {
        let mut replacer = self.shared.replacer();
        replacer.followers.by_volume.retain(|_, of_volume| {
            of_volume.retain(|known| !Arc::ptr_eq(known, follower));
            !of_volume.is_empty()
        });
        drop(replacer);
        follower.end();
    }
}

/// Who follows what, and who has got events since the replacer's lock was taken.
#[derive(Default)]
pub(crate) struct Followers {
    by_volume: HashMap<u32, Vec<Arc<Follower>>>,
    stirred: Vec<Arc<Follower>>,
}

impl Followers {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_volume.is_empty()
    }

    /// Something happened to a page. Without an owner it concerns all.
    pub(crate) fn note(&mut self, happened: Happened, place: Place, owner: Option<u32>) {
        let event = Event { happened, volume: place.object, block: place.block };
        let followers = self.by_volume.get(&place.object).into_iter().flatten();
        for follower in followers.filter(|follower| owner.is_none_or(|owner| owner == follower.owner)) {
            if follower.add(event) {
                self.stirred.push(Arc::clone(follower));
            }
        }
    }

    /// Those who wait for events that have come. They are woken without the replacer's lock.
    #[inline]
    pub(crate) fn take_stirred(&mut self) -> Vec<Arc<Follower>> {
        std::mem::take(&mut self.stirred)
    }

    pub(crate) fn wake(stirred: &[Arc<Follower>]) {
        stirred.iter().for_each(|follower| follower.arrived.notify_all());
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::{Config, VolumeConfig};
    use forebay_policy::Spec;

    const PAGE: u64 = 4096;

    #[test]
    fn a_follower_learns_what_its_owner_does_and_what_leaves_in_order() {
        let policy = Spec::parse("lru-sp").expect("a policy");
        let pool = Pool::new(Config { laundry: 1, ..Config::new(5 * PAGE, policy) }).expect("a pool");
        let attach = |name| {
            let config = VolumeConfig { readahead: 0, ..VolumeConfig::new(name) };
            pool.attach(Arc::new(MemoryDevice::new(100 * PAGE)), config)
        };
        let [followed, other] = ["followed", "other"].map(attach);
        let [owner, stranger] = [1, 2].map(|key| pool.owner(key));
        let follower = Follower::new(&owner, 8);
        pool.follow(&follower, &followed);
        let handle = pool.handle().expect("a handle");
        let read = |owner, volume, block| {
            handle.use_owner(Some(owner));
            drop(handle.read(volume, block).expect("a read"));
            handle.hand_over();
        };
        read(&owner, &followed, 7);
        read(&owner, &followed, 7);
        read(&owner, &other, 1);
        read(&stranger, &followed, 8);
        read(&stranger, &followed, 7);
        (10..14).for_each(|block| read(&stranger, &other, block));
        let event = |happened, block| Event { happened, volume: followed.id(), block };
        let (events, lost) = follower.take(Duration::from_secs(60)).expect("it has not ended");
        let first = [event(Happened::Admitted, 7), event(Happened::Hit, 7)];
        assert_eq!(events, [&first[..], &[event(Happened::Evicted, 7)]].concat(), "nothing of what others alone used");
        assert_eq!(lost, 0);
        (0..10).for_each(|block| read(&owner, &followed, block));
        let (events, lost) = follower.take(Duration::from_secs(60)).expect("it has not ended");
        assert_eq!((events.len(), lost), (8, 8), "a queue that is full loses what comes");
        pool.unfollow(&follower);
        assert!(follower.take(Duration::from_secs(60)).is_none());
        assert!(pool.shared.replacer().followers.is_empty());
    }
}
