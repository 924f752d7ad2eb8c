//! What `Policy` promises, checked for every policy of the registry along random runs with refusals, removals and resizes.

mod run;

use forebay_basis::Operation;
use forebay_policy::guest::{Guest, Host};
use forebay_policy::managers::{Assignment, FileOrder, Filter, Manager, Weights};
use forebay_policy::readahead::{BYTES_A_FRAME, BYTES_A_PAGE, WithReadahead};
use forebay_policy::registry::{self, POLICIES};
use forebay_policy::{Future, Policy, Settings, Spec, Visitor};
use proptest::prelude::*;
use run::{Account, PAGES, Run, Step, check, make, reference};
use std::collections::BTreeSet;
use std::sync::Arc;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let page = 0..PAGES;
    let step = prop_oneof![
        12 => page.clone().prop_map(Step::Reference),
        6 => (0u32..6).prop_map(Step::Reference),
        3 => page.clone().prop_map(Step::ReadAhead),
        2 => page.clone().prop_map(Step::Pin),
        1 => Just(Step::PinAll),
        2 => Just(Step::UnpinAll),
        1 => page.prop_map(Step::Remove),
        1 => (1u32..12).prop_map(Step::Resize),
        1 => Just(Step::Evict),
        1 => (0..PAGES, 0u32..100).prop_map(|(page, hits)| Step::Hint(page, hits)),
    ];
    prop::collection::vec(step, 1..250)
}

/// The policies at their defaults, and at some other settings.
pub(crate) fn specs() -> Vec<Spec> {
    let mut specs = Spec::all();
    for text in [
        "gclock:initial=0:max=1",
        "gclock:initial=255:max=255",
        "lfu:ageing=1",
        "lfu:ageing=2.5",
        "lfu:ageing=2.5:history=2",
        "random:seed=7",
        "lru-k:k=4:correlated=5:history=1",
        "lru-k:history=0",
        "2q:in=1:out=0",
        "2q:in=0:out=4",
        "mq:queues=1:lifetime=1:out=0",
        "mq:queues=3:lifetime=4:out=1",
        "mq:out=0",
        "mq:queues=26:out=1",
        "lirs:history=1",
        "lirs:hir=0.6",
        "s3-fifo:small=0.5:ghost=0.5:threshold=1",
        "s3-fifo:small=0:ghost=0:threshold=3",
        "s3-fifo:small=1:ghost=1",
        "linux:ratio=0.01",
        "linux:ratio=1000000",
        "linux:access=process",
        "linux:kernel=6",
        "linux:kernel=6:access=process",
        "w-tinylfu:window=0.3",
        "w-tinylfu:window=1",
        "w-tinylfu:window=0.5:adaptive=on",
        "smq:levels=1:period=0.1",
        "smq:levels=3:period=2:sentinel=1",
        "smq:sentinel=0",
        "fbr:new=0.5:old=0:c-max=1:a-max=2",
        "fbr:new=0:old=1:c-max=1000",
        "fbr:history=3",
        "lrfu:lambda=1",
        "lrfu:history=3",
        "lrfu:lambda=0:period=3",
        "seq:length=1:distance=1:misses=1:sequences=1",
        "seq:length=2:distance=2:misses=3:sequences=4",
        "ubm:run=2:gap=2",
        "ubm:other=lfu:run=3",
        "ubm:other=lru-2:run=2:in-use=leaves:ended=keeps",
        "ubm:other=lrfu:run=1:gap=1",
        "dulo:correlation=20%:bank=50%:longest=3",
        "dulo:correlation=80%:bank=5%:distance=1:gap=9",
        "dulo:base=linux:correlation=50%:bank=20%:access=process",
        "lru-sp:manager=mru",
        "lru-sp:manager=sequential",
        "lru-sp:manager=access-once",
        "lru-sp:manager=lru-k",
        "lru-sp:manager=rmin",
        "lru-sp:manager=foolish",
        "lru-sp:manager=foolish:swapping=off",
        "lru-sp:manager=mru:place-holders=off",
    ] {
        specs.push(Spec::parse(text).unwrap());
    }
    specs.push(Spec::hosted(Arc::new(Elsewhere), "lru written elsewhere".to_owned()));
    specs.push(Spec { managers: Some(Arc::new(managers())), ..Spec::parse("lru-sp:manager=access-once").unwrap() });
    specs
}

/// Where an LRU is written that is not in the registry.
#[derive(Debug)]
struct Elsewhere;

struct PlainLru(Vec<u32>);

impl Host for Elsewhere {
    fn make(&self, _capacity: u32) -> Box<dyn Guest> {
        Box::new(PlainLru(Vec::new()))
    }

    fn within(&self, work: &mut dyn FnMut()) {
        work();
    }
}

impl Guest for PlainLru {
    fn hit(&mut self, page: u32) {
        self.remove(page);
        self.0.push(page);
    }

    fn miss(&mut self, page: u32) {
        assert!(!self.0.contains(&page));
        self.0.push(page);
    }

    fn evict(&mut self, _page: Option<u32>) -> u32 {
        self.0.remove(0)
    }

    fn refused(&mut self, pages: &[u32]) {
        self.0.splice(0..0, pages.iter().copied());
    }

    fn remove(&mut self, page: u32) {
        let place = self.0.iter().position(|&other| other == page).unwrap();
        self.0.remove(place);
    }

    fn resize(&mut self, _capacity: u32) {}

    fn chose_wrong(&mut self, page: u32) -> ! {
        panic!("page {page} was chosen");
    }
}

/// Managers that need more than their name, by owner and by file.
fn managers() -> Assignment {
    let mut managers = Assignment::new(None);
    managers.add(Manager::FileOrder(FileOrder::new(vec![4..9, 0..2])), None, Some(&[1]));
    managers.add(Manager::Filter(Filter::new(&[2, 0])), Some(&[0]), None);
    managers.add(Manager::Weights(Weights::new(&[(0, 0.5), (2, 3.0)]).unwrap()), Some(&[1]), None);
    managers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 600 }))]

    #[test]
    fn every_policy_keeps_the_contract(capacity in prop_oneof![1u32..3, 1u32..12], steps in steps()) {
        for spec in specs() {
            registry::visit(spec.info.name, Run { spec: &spec, capacity, steps: &steps }).unwrap();
        }
    }
}

/// A pinned page sinks below EELRU's queue, its hit pushes a ghost out, and the evictions make more.
#[test]
fn evictions_after_a_hit_on_a_page_long_pinned_leave_no_ghost_too_many() {
    let mut steps = vec![Step::Reference(0), Step::Pin(0)];
    steps.extend((1..=8).map(Step::Reference));
    steps.extend([Step::Reference(0), Step::UnpinAll, Step::Evict, Step::Evict, Step::Evict]);
    for spec in specs() {
        registry::visit(spec.info.name, Run { spec: &spec, capacity: 3, steps: &steps }).unwrap();
    }
}

#[test]
fn a_cache_of_one_page_holds_the_page_used_last() {
    struct One<'a>(&'a Spec);
    impl Visitor for One<'_> {
        type Output = ();

        fn visit<P: Policy>(self) {
            let steps: Vec<Step> = (0..60).map(|step| Step::Reference(step * 7 % 5)).collect();
            let mut policy: P = make(self.0, 1, &steps);
            let mut account = Account::default();
            for step in &steps {
                let Step::Reference(page) = *step else { unreachable!() };
                reference(&mut policy, &mut account, page, Operation::Read);
                check(self.0, &policy, &account);
                assert!(policy.contains(page) && policy.len() == 1);
            }
        }
    }
    for spec in specs() {
        registry::visit(spec.info.name, One(&spec)).unwrap();
    }
}

#[test]
fn metadata_is_bounded_as_stated() {
    struct Bytes<'a>(&'a Spec);
    impl Visitor for Bytes<'_> {
        type Output = ();

        fn visit<P: Policy>(self) {
            // As many pages as the simulator replays, and as few as a cache knows.
            self.over::<P>(50_000);
            self.over::<P>((5_000 * (1 + self.0.ghosts())).min(200_000) + 100);
        }
    }
    impl Bytes<'_> {
        fn over<P: Policy>(&self, pages: u32) {
            let references: Arc<Vec<u32>> =
                Arc::new((0..4 * u64::from(pages)).map(|i| (i * i % 50_021 % u64::from(pages)) as u32).collect());
            let mut setup = self.0.setup(5_000, pages);
            if self.0.needs_future() {
                setup.future = Some(Arc::new(Future::new(references.clone(), pages)));
            }
            let mut policy = WithReadahead::<P>::new(&setup);
            let mut account = Account::default();
            for (time, &page) in references.iter().enumerate() {
                let ahead = time % 5 == 0 && !self.0.needs_future();
                reference(&mut policy, &mut account, page, if ahead { Operation::Readahead } else { Operation::Read });
            }
            // Off-line policies also keep a little more than a bit for each reference.
            let of_references = if self.0.needs_future() { references.len() / 8 * 64 / 63 + 64 } else { 0 };
            let of_readahead = BYTES_A_PAGE * pages as usize + BYTES_A_FRAME * setup.capacity as usize;
            let most = P::INFO.bytes_per_page * pages as usize + of_readahead + of_references;
            let bytes = policy.bytes();
            assert!(bytes <= most, "{} over {pages} pages: {bytes} bytes, stated {most}", self.0.label);
        }
    }
    for spec in specs() {
        registry::visit(spec.info.name, Bytes(&spec)).unwrap();
    }
}

#[test]
fn names_and_parameters_are_well_formed() {
    let kebab = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let mut names = BTreeSet::new();
    for info in POLICIES {
        assert!(kebab(info.name) && names.insert(info.name), "{}", info.name);
        assert!(!info.title.is_empty() && info.paper.contains(','), "{}", info.name);
        assert_eq!(registry::named(info.name).unwrap().name, info.name);
        Settings::defaults(info.parameters);
        for parameter in info.parameters {
            assert!(kebab(parameter.name) && !parameter.help.is_empty(), "{}: {}", info.name, parameter.name);
        }
    }
}

#[test]
fn a_wrong_policy_or_parameter_is_refused_with_the_right_ones() {
    let wrong = |text| Spec::parse(text).unwrap_err();
    assert!(wrong("lru2").starts_with("there is no policy `lru2` (did you mean `lru`?); there are lru, fifo, "));
    assert_eq!(wrong("lru:k=2"), "lru: there is no parameter `k`: this policy has none");
    assert_eq!(wrong("lfu:age"), "lfu: `age` is no PARAMETER=VALUE");
    assert!(wrong("gclock:max=256").contains("max=1..255 (5)"));
}

#[test]
fn to_linux_a_page_read_ahead_and_used_once_is_as_one_that_is_read_when_used() {
    fn state<P: Policy>(name: &str, ahead: bool) -> Vec<(&'static str, f64)> {
        let mut policy: P = make(&Spec::parse(name).unwrap(), 20, &[]);
        let mut account = Account::default();
        for page in 0..10 {
            if ahead {
                reference(&mut policy, &mut account, page, Operation::Readahead);
            }
            reference(&mut policy, &mut account, page, Operation::Read);
        }
        let mut state = Vec::new();
        policy.state(&mut |name, figure| state.push((name, figure)));
        state
    }
    assert_eq!(state::<forebay_policy::Linux>("linux", true), state::<forebay_policy::Linux>("linux", false));
}
