//! Word to a running policy that has managers: who is in charge, and what may go first.

use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::owners::Owner;
use crate::objects::volume::Volume;
use crate::pool::Pool;
use forebay_basis::Place;
use forebay_policy::managers::Manager;
use forebay_policy::{Charge, Control};

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

    /// Puts the manager of a rule of the caller's in charge of the uses of a volume by an owner of this number, or nobody any more. Without one it is in
    /// charge of all for whom nobody else is.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers, or not this one.
    pub fn assign(&self, owner: Option<u32>, volume: &Volume, charge: Option<Charge>) -> Result<(), Error> {
        self.control(&Control::Assign { owner, object: volume.id(), charge }).map(drop)
    }

    /// Whether the policy has managers.
    pub fn has_managers(&self) -> bool {
        // Of no volume: nothing changes.
        self.control(&Control::Agree { object: u32::MAX }).is_ok()
    }

    /// Has users of a volume agree who have changed their minds: all that was assigned holds at once, also where they share it.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn agree(&self, volume: &Volume) -> Result<(), Error> {
        self.control(&Control::Agree { object: volume.id() }).map(drop)
    }

    /// An owner has a volume open from now on; without one it is said that nobody has it open yet. From the first word of that on only these
    /// owners are users of the volume, until it is detached.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn opened(&self, owner: Option<&Owner>, volume: &Volume) -> Result<(), Error> {
        self.control(&Control::Open { owner: owner.map(Owner::number), object: volume.id() }).map(drop)
    }

    /// An owner has a volume open no more.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn closed(&self, owner: &Owner, volume: &Volume) -> Result<(), Error> {
        self.control(&Control::Close { owner: owner.number(), object: volume.id() }).map(drop)
    }

    /// How many managers have lost their charge by their mistakes (lru-sp with `revoke`); 0 if the policy has no managers.
    pub fn charges_ended(&self) -> u32 {
        self.control(&Control::ChargesEnded { object: None }).unwrap_or(0)
    }

    /// Whether the manager of a volume's users has lost its charge.
    pub fn charge_has_ended(&self, volume: &Volume) -> bool {
        self.control(&Control::ChargesEnded { object: Some(volume.id()) }).is_ok_and(|ended| ended > 0)
    }

    /// Puts blocks of a volume on an owner's free-list: they are the first that go of its pages, in this order, unless they are used again.
    /// Returns how many are on it, so that the owner sees when it runs low. Without an owner they are those of whoever uses the volume.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn give_up_first(&self, owner: Option<&Owner>, volume: &Volume, blocks: &[u64]) -> Result<u32, Error> {
        let owner = owner.map_or(volume.id(), Owner::number);
        let mut left = self.listed(owner)?;
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

    /// How many blocks are on an owner's free-list.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn given_up(&self, owner: &Owner) -> Result<u32, Error> {
        self.listed(owner.number())
    }

    fn listed(&self, owner: u32) -> Result<u32, Error> {
        self.control(&Control::GiveUp { owner, pages: Vec::new() })
    }

    /// Empties an owner's free-list: its manager decides again, or LRU.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: the policy has no managers.
    pub fn take_back(&self, owner: &Owner) -> Result<(), Error> {
        self.control(&Control::TakeBack { owner: owner.number() }).map(drop)
    }

    /// Forgets what an owner has said.
    pub(crate) fn forget_owner(&self, owner: u32) {
        // Most policies have nothing to forget.
        let _ = self.control(&Control::Leave { owner });
    }

    /// Makes the policy anew, as after it has panicked, with the pages that are in the cache; returns how many they are. It has to learn again what
    /// it knew of them and of others, and managers are to be assigned again. Until it is done no page comes or leaves.
    ///
    /// # Errors
    /// [`Error::Uncontrolled`]: it has panicked again.
    pub fn restart_policy(&self) -> Result<u32, Error> {
        let answer = self.shared.replacer().restart(&self.shared.core);
        answer.map_err(|why| Error::Uncontrolled { policy: self.shared.config.policy.label.clone(), why })
    }

    fn control(&self, control: &Control) -> Result<u32, Error> {
        let answer = self.shared.replacer().control(&self.shared.core, control);
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

    fn charge(manager: Manager, rule: u32) -> Option<Charge> {
        Some(Charge { manager, rule, listed: None })
    }

    #[test]
    fn each_rule_has_an_instance_of_its_manager() {
        let (pool, _) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        let owner = pool.owner(1);
        handle.use_owner(Some(&owner));
        let config = |name: &str| VolumeConfig { readahead: 0, ..VolumeConfig::new(name) };
        let [one, two] = ["one", "two"].map(|name| pool.attach(Arc::new(MemoryDevice::new(100 * PAGE)), config(name)));
        for (second, gone) in [(8, &one), (7, &two)] {
            pool.assign(Some(owner.number()), &one, charge(Manager::Mru, 7)).expect("lru-sp has managers");
            pool.assign(Some(owner.number()), &two, charge(Manager::Mru, second)).expect("lru-sp has managers");
            (0..5).for_each(|block| drop(handle.read(&one, block).expect("a read")));
            (0..5).for_each(|block| drop(handle.read(&two, block).expect("a read")));
            // The candidate is of `one`: its rule's manager chooses among the pages of its own rule.
            drop(handle.read(&two, 9).expect("a read"));
            assert!(handle.read_resident(gone, 4).is_none(), "rule {second}");
            pool.drop_clean(&one);
            pool.drop_clean(&two);
        }
        drop(handle);
        pool.check_invariants();
    }

    #[test]
    fn more_uses_are_remembered_when_a_manager_wants_them_and_managers_come_and_go_without_end() {
        let (pool, volume) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        let owner = pool.owner(1);
        handle.use_owner(Some(&owner));
        for rule in 1..3000 {
            let manager = Manager::LruK(1 + rule as usize % 8);
            pool.assign(Some(owner.number()), &volume, charge(manager, rule))
                .expect("it takes the place of one before");
            drop(handle.read(&volume, u64::from(rule % 40)).expect("a read"));
        }
        drop(handle);
        pool.check_invariants();
    }

    #[test]
    fn what_was_said_of_a_volume_goes_with_it() {
        let (pool, volume) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        pool.assign(None, &volume, charge(Manager::Mru, 0)).expect("lru-sp has managers");
        assert!(looped(&handle, &volume) > 20);
        let number = volume.id();
        pool.detach(&volume).expect("memory is written");
        drop(volume);
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("next") };
        let volume = pool.attach(Arc::new(MemoryDevice::new(100 * PAGE)), config);
        assert_eq!(volume.id(), number, "the number comes back");
        assert_eq!(looped(&handle, &volume), 0, "and nobody manages");
    }

    #[test]
    fn nobody_gives_up_pages_of_another_owner() {
        let (pool, volume) = pool("lru-sp");
        let handle = pool.handle().expect("a handle");
        let [reader, liar] = [1, 2].map(|key| pool.owner(key));
        handle.use_owner(Some(&reader));
        (0..10).for_each(|block| drop(handle.read(&volume, block).expect("a read")));
        assert_eq!(pool.give_up_first(Some(&liar), &volume, &[8, 9]).expect("lru-sp has managers"), 0);
        assert_eq!(pool.give_up_first(Some(&reader), &volume, &[9]).expect("lru-sp has managers"), 1);
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
