//! Policies as a buffer pool uses them: page numbers are given again as soon as they are forgotten, loads fail, the first victims are
//! refused, and hits are told late by the policies that allow it.

use forebay_basis::{Operation, Place};
use forebay_policy::readahead::WithReadahead;
use forebay_policy::registry::{self, POLICIES};
use forebay_policy::{AllRefused, Caller, Info, Policy, Reference, Spec, Visitor};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PLACES: u64 = 60;

/// The pool's side: which number stands for which place.
#[derive(Default)]
struct Pool {
    number_of: BTreeMap<u64, u32>,
    place_of: BTreeMap<u32, u64>,
    resident: BTreeSet<u32>,
    /// Forgotten numbers, the last one used first.
    free: Vec<u32>,
    numbers: u32,
    /// This many offers are refused before one is accepted.
    refusals: u32,
    offers: u32,
    evicted: Vec<u64>,
    /// Numbers of pages that the policy waits to see used.
    awaited: BTreeSet<u32>,
}

impl Caller for Pool {
    fn evict(&mut self, number: u32) -> bool {
        assert!(self.resident.contains(&number), "{number} is offered but not resident");
        self.offers += 1;
        let accepted = self.refusals == 0;
        self.refusals -= u32::from(!accepted);
        if accepted {
            self.resident.remove(&number);
            self.evicted.push(self.place_of[&number]);
        }
        accepted
    }

    fn forget(&mut self, number: u32) {
        assert!(!self.resident.contains(&number), "{number} is forgotten but resident");
        let place = self.place_of.remove(&number).expect("a number is forgotten once");
        self.number_of.remove(&place);
        self.free.push(number);
    }

    fn await_use(&mut self, number: u32) {
        assert!(self.resident.contains(&number), "{number} is awaited but not resident");
        self.awaited.insert(number);
    }
}

impl Pool {
    /// The number of a place, a new one if it has none.
    fn number<P: Policy>(&mut self, place: u64, policy: &mut P) -> u32 {
        if let Some(&number) = self.number_of.get(&place) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            policy.reserve(self.numbers);
            self.numbers - 1
        });
        self.number_of.insert(place, number);
        self.place_of.insert(number, place);
        number
    }

    /// The pool and the policy drop a page.
    fn remove<P: Policy>(&mut self, number: u32, policy: &mut P) {
        policy.remove(number, self);
        self.resident.remove(&number);
        let place = self.place_of.remove(&number).expect("the page has a number");
        self.number_of.remove(&place);
        self.free.push(number);
    }
}

/// What happens to a place.
#[derive(Clone, Debug)]
struct Step {
    place: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A miss meets this many refusals.
    Use {
        refusals: u32,
        ahead: bool,
    },
    /// A miss of it cannot be loaded.
    LoadFails {
        refusals: u32,
    },
    Drop,
    Evict {
        refusals: u32,
    },
    Resize {
        capacity: u32,
        refusals: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let refusals = || prop_oneof![4 => Just(0u32), 2 => 1u32..8, 1 => Just(u32::MAX)];
    let what = prop_oneof![
        12 => (refusals(), prop::bool::weighted(0.15)).prop_map(|(refusals, ahead)| What::Use { refusals, ahead }),
        2 => refusals().prop_map(|refusals| What::LoadFails { refusals }),
        1 => Just(What::Drop),
        1 => refusals().prop_map(|refusals| What::Evict { refusals }),
        1 => (1u32..14, refusals()).prop_map(|(capacity, refusals)| What::Resize { capacity, refusals }),
    ];
    let place = prop_oneof![2 => 0..PLACES, 1 => 0..8u64];
    prop::collection::vec((place, what).prop_map(|(place, what)| Step { place, what }), 1..300)
}

fn reference(number: u32, place: u64, operation: Operation) -> Reference {
    let at = Place { object: (place / 25) as u32, block: place % 25 };
    Reference { page: number, owner: (place % 3) as u32, place: at, operation }
}

struct Run<'a> {
    spec: &'a Spec,
    capacity: u32,
    steps: &'a [Step],
    told: Told,
}

/// Of which hits the policy learns, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Of all, at once.
    All,
    /// Before the next other call, each page once, in the order of a hash of their places. A first use is an admission, and comes in its turn.
    Late,
    /// Of those of awaited pages, at once.
    Awaited,
}

impl Visitor for Run<'_> {
    /// The victims in their order, and what is resident in the end.
    type Output = (Vec<u64>, Vec<u64>);

    fn visit<P: Policy>(self) -> Self::Output {
        let mut policy = WithReadahead::<P>::new(&self.spec.setup(self.capacity, 0));
        let mut pool = Pool::default();
        let mut untold: Vec<Reference> = Vec::new();
        for Step { place, what } in self.steps {
            let number = pool.number_of.get(place).copied();
            let resident = number.filter(|number| pool.resident.contains(number));
            pool.offers = 0;
            if let (What::Use { .. }, Some(number)) = (what, resident) {
                if self.told == Told::Awaited && !pool.awaited.remove(&number) {
                    continue;
                }
                let is_first = policy.waits(number);
                if is_first {
                    tell(&mut policy, &mut pool, &mut untold);
                }
                untold.push(reference(number, *place, Operation::Read));
                if self.told != Told::Late || is_first {
                    tell(&mut policy, &mut pool, &mut untold);
                }
                if policy.awaits_use(number) {
                    pool.awaited.insert(number);
                }
                continue;
            }
            untold.sort_unstable_by_key(|hit| (hit.page.wrapping_mul(0x9e37_79b9), hit.page));
            untold.dedup_by_key(|hit| hit.page);
            tell(&mut policy, &mut pool, &mut untold);
            match *what {
                What::Use { refusals, ahead } => {
                    let operation = if ahead { Operation::Readahead } else { Operation::Read };
                    miss(&mut policy, &mut pool, *place, refusals, operation);
                }
                What::LoadFails { refusals } if resident.is_none() => {
                    if let Some(number) = miss(&mut policy, &mut pool, *place, refusals, Operation::Read) {
                        pool.remove(number, &mut policy);
                    }
                }
                What::LoadFails { .. } => {}
                What::Drop => {
                    if let Some(number) = number {
                        pool.remove(number, &mut policy);
                    }
                }
                What::Evict { refusals } => {
                    pool.refusals = refusals;
                    let before = pool.resident.len();
                    let evicted = policy.evict(&mut pool).is_ok();
                    assert_eq!(pool.resident.len(), before - usize::from(evicted));
                    check_offers(&pool, evicted, before, P::INFO.name);
                }
                What::Resize { capacity, refusals } => {
                    pool.refusals = refusals;
                    let before = pool.resident.len();
                    let done = policy.resize(capacity, &mut pool).is_ok();
                    assert!(done || pool.offers as usize >= before.min(1));
                }
            }
            pool.refusals = 0;
            check(&policy, &pool);
        }
        let resident = pool.resident.iter().map(|number| pool.place_of[number]);
        (pool.evicted.clone(), BTreeSet::from_iter(resident).into_iter().collect())
    }
}

fn tell<P: Policy>(policy: &mut P, pool: &mut Pool, untold: &mut Vec<Reference>) {
    for hit in untold.drain(..) {
        if policy.waits(hit.page) { policy.first_use(&hit, pool) } else { policy.hit(&hit) }
    }
}

/// The number of the page, if there was room for it.
fn miss<P: Policy>(policy: &mut P, pool: &mut Pool, place: u64, refusals: u32, operation: Operation) -> Option<u32> {
    let number = pool.number(place, policy);
    pool.refusals = refusals;
    let before = pool.resident.len();
    let result = policy.miss(&reference(number, place, operation), pool);
    // What is read ahead may also find too many that wait.
    check_offers(pool, result.is_ok() || operation == Operation::Readahead, before, P::INFO.name);
    match result {
        Ok(()) => {
            // A ghost that was forgotten on the way: its number stands for it again.
            if pool.place_of.insert(number, place).is_none() {
                pool.number_of.insert(place, number);
                pool.free.retain(|&free| free != number);
            }
            pool.resident.insert(number);
            pool.awaited.remove(&number);
            if policy.awaits_use(number) {
                pool.awaited.insert(number);
            }
            Some(number)
        }
        Err(AllRefused) => {
            if pool.place_of.contains_key(&number) {
                pool.remove(number, policy);
            }
            None
        }
    }
}

/// A page may be offered again within one call, but no more often than the hands go round: GCLOCK's as often as it counts, and once
/// more.
fn check_offers(pool: &Pool, done: bool, resident: usize, policy: &str) {
    assert!(done || pool.offers as usize >= resident, "{policy} gave up before every page was offered");
    assert!(pool.offers as usize <= 6 * resident, "{policy}: {} offers of {resident} pages", pool.offers);
}

fn check<P: Policy>(policy: &P, pool: &Pool) {
    policy.check_invariants();
    assert_eq!(policy.len() as usize, pool.resident.len());
    assert!(policy.len() <= policy.capacity());
    assert_eq!(pool.place_of.len(), pool.resident.len() + policy.ghosts() as usize, "what is known has a number");
    for (&number, place) in &pool.place_of {
        assert_eq!(policy.contains(number), pool.resident.contains(&number), "place {place}");
    }
    assert!(pool.free.iter().all(|&number| !policy.contains(number)));
}

/// All policies that run in a pool, at their defaults and some at other settings.
fn specs() -> Vec<Spec> {
    let others = [
        "gclock:initial=0:max=1",
        "lfu:ageing=1",
        "lfu:history=2",
        "lru-k:k=3:correlated=5:history=1",
        "2q:in=0:out=4",
        "mq:queues=3:lifetime=4:out=1",
        "lirs:history=1",
        "s3-fifo:small=0.5:ghost=0.5:threshold=1",
        "linux:access=process",
        "linux:kernel=6",
        "linux:kernel=6:access=process",
        "w-tinylfu:window=0.5:adaptive=on",
        "smq:levels=3:period=2:sentinel=1",
        "fbr:new=0:old=1:c-max=1000",
        "fbr:history=2",
        "lrfu:lambda=0:period=3",
        "lrfu:history=2",
        "seq:length=2:distance=2:misses=3:sequences=4",
        "ubm:other=lru-2:run=2:in-use=leaves:ended=keeps",
        "dulo:correlation=20%:bank=50%:longest=3",
        "dulo:base=linux:correlation=50%:bank=50%:longest=3",
        "dulo:base=linux:correlation=50%:bank=50%:access=process",
        "lru-sp:manager=mru",
        "lru-sp:manager=lru-k",
    ];
    let others = others.into_iter().map(|text| Spec::parse(text).expect("a policy of the registry"));
    Spec::all().into_iter().chain(others).filter(|spec| !spec.needs_future()).collect()
}

fn run(spec: &Spec, capacity: u32, steps: &[Step], told: Told) -> (Vec<u64>, Vec<u64>) {
    registry::visit(spec.info.name, Run { spec, capacity, steps, told }).expect("the policy is in the registry")
}

/// The policies of which something is claimed, those named here among them.
fn claimed(claims: fn(&Info) -> bool, known: &[&str]) -> Vec<&'static str> {
    let claimed: Vec<&str> = POLICIES.iter().filter(|info| claims(info)).map(|info| info.name).collect();
    assert!(known.iter().all(|name| claimed.contains(name)), "{known:?} are not all of {claimed:?}");
    claimed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 500 }))]

    #[test]
    fn numbers_are_given_again_loads_fail_and_the_first_victims_are_refused(capacity in 1u32..14, steps in steps()) {
        for spec in specs() {
            run(&spec, capacity, &steps, Told::All);
        }
    }

    #[test]
    fn who_says_which_uses_it_awaits_needs_no_others(capacity in 1u32..14, steps in steps()) {
        for spec in specs().iter().filter(|spec| spec.info.awaits_uses) {
            prop_assert_eq!(run(spec, capacity, &steps, Told::Awaited), run(spec, capacity, &steps, Told::All), "{}", &spec.label);
        }
    }

    #[test]
    fn where_a_hit_sets_a_bit_it_may_be_told_late_and_once(capacity in 1u32..14, steps in steps()) {
        for spec in specs().iter().filter(|spec| spec.info.hit_sets_bit) {
            prop_assert_eq!(run(spec, capacity, &steps, Told::Late), run(spec, capacity, &steps, Told::All), "{}", &spec.label);
        }
    }
}

/// That the test above sees a difference where there is one.
#[test]
fn to_tell_hits_late_changes_what_policies_evict_that_do_not_claim_it() {
    let what = What::Use { refusals: 0, ahead: false };
    let steps: Vec<Step> = (0..4_000u64).map(|i| Step { place: i * i % 67 % PLACES, what: what.clone() }).collect();
    let same = |name: &&str| {
        let spec = Spec::parse(name).expect("a policy of the registry");
        run(&spec, 12, &steps, Told::Late) == run(&spec, 12, &steps, Told::All)
    };
    let claimed = claimed(|info| info.hit_sets_bit, &["fifo", "random", "clock", "car", "clock-pro", "sieve"]);
    assert!(claimed.iter().all(same));
    assert!(!["lru", "mru", "gclock", "2q", "arc", "linux", "mq"].iter().any(same));
}

/// That the test above sees a difference where there is one.
#[test]
fn awaited_uses_decide_what_these_policies_evict() {
    // Of the first two a hit changes nothing at all.
    let known = ["fifo", "random", "clock", "gclock", "car", "linux", "clock-pro", "sieve", "s3-fifo"];
    let claimed = claimed(|info| info.awaits_uses, &known);
    let what = What::Use { refusals: 0, ahead: false };
    // Pages fill the cache, some of them are used, and others come.
    let steps = |used: u64| -> Vec<Step> {
        let places = (0..12).chain((0..used).flat_map(|place| [place, 11 - place, place])).chain(20..26).chain(0..12);
        places.map(|place| Step { place, what: what.clone() }).collect()
    };
    for name in claimed.iter().filter(|name| !known[..2].contains(name)) {
        let spec = Spec::parse(name).expect("a policy of the registry");
        let run = |used| run(&spec, 12, &steps(used), Told::Awaited);
        assert_ne!(run(0), run(4), "{name}");
    }
}

/// Every page was used often, so that every hand goes round with nothing to take; then nearly all are refused, and all.
#[test]
fn what_refusals_cost_grows_with_the_pages_and_not_with_their_square() {
    const CAPACITY: u32 = 400;
    let mut steps = Vec::new();
    for refusals in [0, 0, CAPACITY - 1, u32::MAX, u32::MAX] {
        for place in (0..u64::from(CAPACITY)).flat_map(|place| [place; 4]) {
            steps.push(Step { place, what: What::Use { refusals: 0, ahead: false } });
        }
        steps.push(Step { place: 0, what: What::Evict { refusals } });
    }
    for spec in specs() {
        run(&spec, CAPACITY, &steps, Told::All);
    }
}
