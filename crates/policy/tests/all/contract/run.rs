//! A policy along steps, held to the contract after each: random ones in tests, and any in the fuzz target `policies`.

use forebay_basis::{Operation, Place};
use forebay_policy::drawing::{Drawing, Drawn, Standing};
use forebay_policy::readahead::WithReadahead;
use forebay_policy::{AllRefused, Caller, Future, Policy, Reference, Spec, Visitor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pages that steps are about.
pub(crate) const PAGES: u32 = 24;

/// A caller that notes which pages the policy evicts and forgets, and does not let pinned pages go.
#[derive(Default)]
pub(crate) struct Account {
    resident: BTreeSet<u32>,
    known: BTreeSet<u32>,
    /// Read ahead, and not referenced since.
    unused: BTreeSet<u32>,
    pinned: BTreeSet<u32>,
    offered: BTreeSet<u32>,
}

impl Caller for Account {
    fn evict(&mut self, page: u32) -> bool {
        assert!(self.resident.contains(&page), "page {page} is offered but not resident");
        self.offered.insert(page);
        !self.pinned.contains(&page) && self.resident.remove(&page)
    }

    fn forget(&mut self, page: u32) {
        assert!(!self.resident.contains(&page), "page {page} is forgotten but resident");
        assert!(self.known.remove(&page), "page {page} is forgotten twice");
    }
}

/// What happens to a cache.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Reference(u32),
    ReadAhead(u32),
    Pin(u32),
    PinAll,
    UnpinAll,
    Remove(u32),
    Resize(u32),
    Evict,
    Hint(u32, u32),
}

/// A policy, the pages that its cache has room for, and what happens to it.
pub(crate) struct Run<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) capacity: u32,
    pub(crate) steps: &'a [Step],
}

impl Visitor for Run<'_> {
    type Output = ();

    fn visit<P: Policy>(self) {
        let mut policy: WithReadahead<P> = make(self.spec, self.capacity, self.steps);
        let mut account = Account::default();
        for step in self.steps {
            account.offered.clear();
            match *step {
                Step::Reference(page) => reference(&mut policy, &mut account, page, Operation::Read),
                // Who knows the future knows of references alone.
                Step::ReadAhead(_) if self.spec.needs_future() => {}
                Step::ReadAhead(page) => reference(&mut policy, &mut account, page, Operation::Readahead),
                Step::Pin(page) => drop(account.pinned.insert(page)),
                Step::PinAll => account.pinned.extend(0..PAGES),
                Step::UnpinAll => account.pinned.clear(),
                Step::Remove(page) => {
                    policy.remove(page, &mut account);
                    account.resident.remove(&page);
                    account.known.remove(&page);
                }
                Step::Resize(capacity) => {
                    let result = policy.resize(capacity, &mut account);
                    check_refusal(&account, result);
                    let expected = if result.is_ok() { capacity } else { policy.len().max(capacity) };
                    assert_eq!(policy.capacity(), expected);
                }
                Step::Evict => {
                    let before = account.resident.len();
                    let result = policy.evict(&mut account);
                    check_refusal(&account, result);
                    assert_eq!(account.resident.len(), before - usize::from(result.is_ok()));
                }
                // A policy that knows the future is never told what another cache has evicted.
                Step::Hint(..) if self.spec.needs_future() => {}
                Step::Hint(page, hits) => {
                    policy.evicted_above(&Reference { page, place: place(page), ..Reference::default() }, hits);
                }
            }
            check(self.spec, &policy, &account);
        }
    }
}

/// A policy that knows the references among these steps, if it needs the future.
pub(crate) fn make<P: Policy>(spec: &Spec, capacity: u32, steps: &[Step]) -> P {
    let mut setup = spec.setup(capacity, PAGES);
    if spec.needs_future() {
        let references = steps.iter().filter_map(|step| match step {
            Step::Reference(page) => Some(*page),
            _ => None,
        });
        setup.future = Some(Arc::new(Future::new(Arc::new(references.collect()), PAGES)));
    }
    P::new(&setup)
}

fn place(page: u32) -> Place {
    Place { object: page / 10, block: u64::from(page % 10) }
}

/// References a page, and holds what the policy does to the contract.
pub(crate) fn reference<P: Policy>(policy: &mut P, account: &mut Account, page: u32, operation: Operation) {
    let place = place(page);
    let owner = (page + account.known.len() as u32) % 3;
    let reference = Reference { page, owner, place, operation };
    let unused = account.unused.remove(&page);
    match (policy.contains(page), operation) {
        (true, Operation::Readahead) => {
            // It is there: nothing is read.
            if unused {
                account.unused.insert(page);
            }
            return;
        }
        (true, _) if unused => {
            let before = account.resident.len();
            policy.first_use(&reference, account);
            return assert_eq!(account.resident.len(), before, "a first use evicts nothing");
        }
        (true, _) => return policy.hit(&reference),
        (false, _) => {}
    }
    let (before, ahead, had_room) =
        (account.resident.len(), operation == Operation::Readahead, policy.len() < policy.capacity());
    account.known.insert(page);
    let result = policy.miss(&reference, account);
    if !ahead {
        check_refusal(account, result);
    }
    match result {
        Ok(()) => {
            assert!(policy.contains(page), "page {page} is admitted but not resident");
            // What waits in a cache that has shrunk leaves when more is read ahead.
            assert!(ahead || account.resident.len() + 1 >= before, "one miss evicts one page at most");
            assert!(ahead || !had_room || account.resident.len() == before, "C7");
            account.resident.insert(page);
            account.known.insert(page);
            if ahead {
                account.unused.insert(page);
            }
        }
        Err(AllRefused) => {
            assert!(ahead || account.resident.len() == before, "a refused miss evicts nothing");
            if policy.len() + policy.ghosts() < account.known.len() as u32 {
                account.known.remove(&page);
            }
        }
    }
}

/// `AllRefused` means that every resident page was offered, and is pinned.
fn check_refusal(account: &Account, result: Result<(), AllRefused>) {
    if result.is_err() {
        assert_eq!(account.offered.intersection(&account.resident).count(), account.resident.len());
        assert!(account.resident.is_subset(&account.pinned));
    }
}

/// Holds what a policy says of itself to what it was told.
pub(crate) fn check<P: Policy>(spec: &Spec, policy: &P, account: &Account) {
    policy.check_invariants();
    assert_eq!(policy.len() as usize, account.resident.len());
    assert!(policy.len() <= policy.capacity());
    for page in 0..PAGES {
        assert_eq!(policy.contains(page), account.resident.contains(&page), "page {page}");
    }
    assert_eq!(account.known.len() - account.resident.len(), policy.ghosts() as usize);
    assert!(policy.ghosts() <= spec.ghosts() * policy.capacity(), "too many ghosts");
    check_drawing(&Drawing::of(policy), account);
    let mut names = BTreeSet::new();
    policy.state(&mut |name, figure| assert!(figure.is_finite() && names.insert(name)));
}

/// Holds a picture to what the caller knows.
fn check_drawing(drawing: &Drawing, account: &Account) {
    let mut names = BTreeSet::new();
    assert!(drawing.lists.iter().all(|list| names.insert(&*list.name)), "DR4: {drawing:?}");
    assert!(drawing.numbers.iter().all(|&(name, number)| names.insert(name) && number.is_finite()), "DR4: {drawing:?}");
    let mut drawn = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for list in &drawing.lists {
        let pages: BTreeSet<u32> = list.pages.iter().map(|drawn| drawn.page).collect();
        assert_eq!(pages.len(), list.pages.len(), "DR4: {list:?}");
        assert!(list.hands.iter().all(|(_, page)| pages.contains(page)), "DR4: {list:?}");
        for &Drawn { page, standing, .. } in &list.pages {
            assert!(drawn[standing as usize].insert(page) || standing == Standing::Again, "page {page}: {drawing:?}");
        }
    }
    let [resident, ghosts, again] = drawn;
    assert_eq!(resident, account.resident, "DR1");
    assert_eq!(ghosts, account.known.difference(&account.resident).copied().collect(), "DR2");
    assert!(again.is_subset(&account.known), "DR3");
}
