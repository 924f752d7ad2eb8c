//! Word to a running policy that has managers: who is in charge, and what may go first.

use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::owners::Owner;
use crate::objects::volume::Volume;
use crate::pool::Pool;
use forebay_policy::managers::Manager;
use forebay_policy::{Control, Place};

/// Blocks looked up before others get a chance to have the replacer's lock.
const LOOKED_UP: usize = 1024;

impl<M: Memory> Pool<M> {
    /// Puts a manager in charge of an owner's uses of a volume, of all its uses, or of everybody's of the volume. Without one its user
    /// abdicates, and LRU decides. Priorities of volumes are the manager with relative weights.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers, or not this one.
    pub fn manage(
        &self,
        owner: Option<&Owner>,
        volume: Option<&Volume>,
        manager: Option<Manager>,
    ) -> Result<(), Error> {
        let (owner, object) = (owner.map(Owner::number), volume.map(Volume::id));
        self.control(&Control::Manage { owner, object, manager }).map(drop)
    }

    /// Puts blocks of a volume on an owner's free-list: they are the first that go of its pages, in this order, unless they are used again.
    /// Returns how many are on it, so that the owner sees when it runs low. Without an owner they are those of whoever uses the volume.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn give_up_first(&self, owner: Option<&Owner>, volume: &Volume, blocks: &[u64]) -> Result<u32, Error> {
        let owner = owner.map_or(volume.id(), Owner::number);
        let mut left = self.control(&Control::GiveUp { owner, pages: Vec::new() })?;
        for blocks in blocks.chunks(LOOKED_UP) {
            let pages = {
                let replacer = self.shared.replacer();
                let find = |&block: &u64| replacer.find(&self.shared.core, Place { object: volume.id(), block });
                blocks.iter().filter_map(find).collect()
            };
            left = self.control(&Control::GiveUp { owner, pages })?;
        }
        Ok(left)
    }

    /// Forgets what an owner has said.
    pub(crate) fn forget_owner(&self, owner: u32) {
        // Most policies have nothing to forget.
        let _ = self.control(&Control::Leave { owner });
    }

    fn control(&self, control: &Control) -> Result<u32, Error> {
        let answer = self.shared.replacer().policy.control(control);
        answer.map_err(|why| Error::Uncontrolled { policy: self.shared.config.policy.label.clone(), why })
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::{Config, Handle, VolumeConfig};
    use forebay_policy::{Spec, Uncontrolled};
    use std::sync::Arc;

    const PAGE: u64 = 4096;

    fn pool(policy: &str) -> (Pool, Arc<Volume>) {
        let policy = Spec::parse(policy).expect("a policy");
        let pool = Pool::new(Config { laundry: 1, ..Config::new(11 * PAGE, policy) }).expect("a pool");
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("test") };
        let volume = pool.attach(Arc::new(MemoryDevice::new(100 * PAGE)), config);
        (pool, volume)
    }

    /// The hits of a loop over more pages than there are frames.
    fn looped(handle: &Handle, volume: &Arc<Volume>) -> usize {
        (0..5)
            .flat_map(|_| 0..15)
            .filter(|&block| {
                let hit = handle.read_resident(volume, block).is_some();
                drop(handle.read(volume, block).expect("a read"));
                hit
            })
            .count()
    }

    #[test]
    fn a_manager_takes_over_while_the_cache_runs_and_abdicates() {
        let (pool, volume) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        let owner = pool.owner(1);
        handle.use_owner(Some(&owner));
        assert_eq!(looped(&handle, &volume), 0, "LRU has what a loop needs last");
        pool.manage(Some(&owner), Some(&volume), Some(Manager::Mru)).expect("lru-sp has managers");
        assert!(looped(&handle, &volume) > 20);
        pool.manage(Some(&owner), Some(&volume), None).expect("lru-sp has managers");
        looped(&handle, &volume);
        assert_eq!(looped(&handle, &volume), 0, "LRU again");
        let wrong = pool.manage(Some(&owner), None, Some(Manager::Rmin));
        assert!(matches!(wrong, Err(Error::Uncontrolled { why: Uncontrolled::NeedsFuture, .. })));
        pool.check_invariants();
    }

    #[test]
    fn what_is_on_a_free_list_goes_first_unless_it_is_used_again() {
        let (pool, volume) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        (0..10).for_each(|block| drop(handle.read(&volume, block).expect("a read")));
        let listed = pool.give_up_first(None, &volume, &[8, 9, 7, 50]);
        assert_eq!(listed.expect("lru-sp has managers"), 3);
        drop(handle.read(&volume, 9).expect("a read"));
        // Those that stayed in their stead, 0 and 1, have their positions.
        for (block, gone) in [(20, 8), (21, 7), (22, 2)] {
            drop(handle.read(&volume, block).expect("a read"));
            assert!(handle.read_resident(&volume, gone).is_none(), "block {gone}");
        }
        assert!(handle.read_resident(&volume, 9).is_some());
        drop(handle);
        pool.check_invariants();
    }

    #[test]
    fn a_policy_without_managers_says_so() {
        let (pool, volume) = pool("clock-pro");
        let wrong = pool.manage(None, Some(&volume), Some(Manager::Mru)).expect_err("it has no managers");
        assert!(wrong.to_string().contains("clock-pro: it takes no managers"), "{wrong}");
        assert!(pool.give_up_first(None, &volume, &[1]).is_err());
    }
}
