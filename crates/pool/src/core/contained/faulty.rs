//! A policy that panics at a call of the contract.

use forebay_policy::{AllRefused, AnyPolicy, Caller, Control, Hit, Reference, Uncontrolled};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// When it panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Capacity,
    Resident,
    Ghosts,
    AwaitsUse,
    Hit,
    FirstUse,
    Miss,
    /// Within a miss, when the eviction of a page was accepted.
    MissEvicts,
    /// Within a miss, when the policy has forgotten a page.
    MissForgets,
    /// When the page has been admitted.
    MissDone,
    EvictedAbove,
    Remove,
    RemoveDone,
    Discard,
    Control,
    Resize,
    /// Within a change of the capacity, when the eviction of a page was accepted.
    ResizeEvicts,
    ResizeDone,
    Reserve,
    State,
    Bytes,
}

pub(super) const ALL: [At; 21] = [
    At::Capacity,
    At::Resident,
    At::Ghosts,
    At::AwaitsUse,
    At::Hit,
    At::FirstUse,
    At::Miss,
    At::MissEvicts,
    At::MissForgets,
    At::MissDone,
    At::EvictedAbove,
    At::Remove,
    At::RemoveDone,
    At::Discard,
    At::Control,
    At::Resize,
    At::ResizeEvicts,
    At::ResizeDone,
    At::Reserve,
    At::State,
    At::Bytes,
];

/// Which call panics, and how many of them are left until it does. The policies of a pool share it.
pub(super) struct Fault {
    at: At,
    left: AtomicU32,
}

impl Fault {
    pub(super) fn new(at: At, after: u32) -> Arc<Self> {
        Arc::new(Self { at, left: AtomicU32::new(after) })
    }

    /// Whether the call has been made often enough.
    pub(super) fn has_come(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    fn at(&self, at: At) {
        // From then on at each call: as a policy whose state is broken.
        if at == self.at && (self.has_come() || self.left.fetch_sub(1, Ordering::SeqCst) == 1) {
            panic!("as the test wants, at {at:?}");
        }
    }
}

pub(super) struct Faulty {
    pub(super) policy: Box<dyn AnyPolicy>,
    pub(super) fault: Arc<Fault>,
}

/// Panics when the policy has come so far.
struct Within<'a> {
    caller: &'a mut dyn Caller,
    fault: &'a Fault,
    evicts: At,
}

impl Caller for Within<'_> {
    fn evict(&mut self, page: u32) -> bool {
        let accepted = self.caller.evict(page);
        if accepted {
            self.fault.at(self.evicts);
        }
        accepted
    }

    fn forget(&mut self, page: u32) {
        self.caller.forget(page);
        self.fault.at(At::MissForgets);
    }

    fn await_use(&mut self, page: u32) {
        self.caller.await_use(page);
    }
}

impl AnyPolicy for Faulty {
    fn capacity(&self) -> u32 {
        self.fault.at(At::Capacity);
        self.policy.capacity()
    }

    fn resident(&self) -> u32 {
        self.fault.at(At::Resident);
        self.policy.resident()
    }

    fn ghosts(&self) -> u32 {
        self.fault.at(At::Ghosts);
        self.policy.ghosts()
    }

    fn contains(&self, page: u32) -> bool {
        self.policy.contains(page)
    }

    fn awaits_use(&self, page: u32) -> bool {
        self.fault.at(At::AwaitsUse);
        self.policy.awaits_use(page)
    }

    fn refer(&mut self, reference: &Reference, caller: &mut dyn Caller) -> Result<bool, AllRefused> {
        self.policy.refer(reference, caller)
    }

    fn hits(&mut self, hits: &[Hit], caller: &mut dyn Caller) {
        for hit in hits {
            self.fault.at(if hit.first_use { At::FirstUse } else { At::Hit });
            self.policy.hits(std::slice::from_ref(hit), caller);
        }
    }

    fn miss(&mut self, reference: &Reference, caller: &mut dyn Caller) -> Result<(), AllRefused> {
        self.fault.at(At::Miss);
        let answer = self.policy.miss(reference, &mut Within { caller, fault: &self.fault, evicts: At::MissEvicts });
        if answer.is_ok() {
            self.fault.at(At::MissDone);
        }
        answer
    }

    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        self.fault.at(At::EvictedAbove);
        self.policy.evicted_above(reference, hits);
    }

    fn remove(&mut self, page: u32, caller: &mut dyn Caller) {
        self.fault.at(At::Remove);
        self.policy.remove(page, caller);
        self.fault.at(At::RemoveDone);
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        self.fault.at(At::Discard);
        self.policy.discard(object, blocks);
    }

    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        self.fault.at(At::Control);
        self.policy.control(control)
    }

    fn resize(&mut self, capacity: u32, caller: &mut dyn Caller) -> Result<(), AllRefused> {
        self.fault.at(At::Resize);
        let answer = self.policy.resize(capacity, &mut Within { caller, fault: &self.fault, evicts: At::ResizeEvicts });
        self.fault.at(At::ResizeDone);
        answer
    }

    fn reserve(&mut self, pages: u32) {
        self.fault.at(At::Reserve);
        self.policy.reserve(pages);
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        self.fault.at(At::State);
        self.policy.state()
    }

    fn bytes(&self) -> usize {
        self.fault.at(At::Bytes);
        self.policy.bytes()
    }

    fn check_invariants(&self) {
        self.policy.check_invariants();
    }
}
