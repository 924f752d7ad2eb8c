//! Explanations: their sentences are true, nothing that changes is left out, and their hits are the simulator's.

use forebay_policy::Spec;
use forebay_policy::drawing::{Drawing, Drawn, DrawnList, Mark, Standing};
use forebay_policy::registry::POLICIES;
use forebay_sim::study::explain::change::Change;
use forebay_sim::study::explain::{Asked, Explanation, References, Step, shown};
use forebay_sim::{Keep, Sweep, Trace};
use forebay_trace::{Input, Options};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn explained(policy: &str, size: u32, references: &str) -> Explanation {
    Asked::new(Spec::parse(policy).unwrap(), Some(references.parse().unwrap()), Some(size)).of()
}

/// The sentences of each step.
fn words(of: &Explanation) -> Vec<&str> {
    of.steps.iter().map(|step| step.words.as_str()).collect()
}

/// The policies as their examples have them, and at settings under which they keep something else.
fn specs() -> Vec<Spec> {
    let others = [
        "lfu:history=2",
        "lru-k:k=3:correlated=2:history=1",
        "fbr:history=2",
        "lrfu:lambda=0.5:history=1",
        "linux:kernel=6",
        "linux:access=process",
        "ubm:run=2",
        "ubm:run=2:other=lrfu",
        "dulo:correlation=25%:bank=25%",
        "dulo:base=linux:correlation=50%:bank=20%",
        "mq:queues=3:lifetime=3:out=1",
        "lru-sp:manager=mru",
        "lru-sp:manager=sequential",
        "lru-sp:manager=access-once",
        "clock-pro:warm-up=cold:new-test=off",
        "w-tinylfu:window=0.4",
        "smq:levels=3:period=0.5:sentinel=1",
        "seq:length=1:distance=1:misses=1:sequences=2",
    ];
    Spec::all().into_iter().chain(others.map(|text| Spec::parse(text).unwrap())).collect()
}

fn resident(drawing: &Drawing) -> BTreeSet<u32> {
    let drawn = drawing.lists.iter().flat_map(|list| &list.pages);
    drawn.filter(|drawn| drawn.standing == Standing::Resident).map(|drawn| drawn.page).collect()
}

fn members(list: &DrawnList) -> BTreeSet<u32> {
    list.pages.iter().map(|drawn| drawn.page).collect()
}

fn bits(drawing: &Drawing) -> BTreeSet<(u32, &'static str)> {
    let of_page = |drawn: &Drawn| {
        let page = drawn.page;
        drawn
            .marks
            .clone()
            .into_iter()
            .filter_map(move |mark| if let Mark::Bit(bit) = mark { Some((page, bit)) } else { None })
    };
    drawing.lists.iter().flat_map(|list| &list.pages).flat_map(of_page).collect()
}

/// Makes the drawing after a step from the one before and what the step says: lists, bits, hands and numbers.
fn check(label: &str, before: &Drawing, step: &Step) {
    let after = &step.drawing;
    let context = || format!("{label}: {}\nbefore {before:#?}\nafter {after:#?}\n{:#?}", step.words, step.changes);
    let (had, has) = (resident(before), resident(after));
    assert_eq!(step.hit, had.contains(&step.page), "{}", context());
    assert!(has.contains(&step.page), "{}", context());
    let left: BTreeSet<u32> = had.difference(&has).copied().collect();
    assert_eq!(left, step.evicted.iter().copied().collect(), "{}", context());
    assert_eq!(has.difference(&had).copied().collect::<Vec<_>>(), if step.hit { vec![] } else { vec![step.page] });

    let mut lists: BTreeMap<String, BTreeSet<u32>> =
        before.lists.iter().map(|list| (list.name.to_string(), members(list))).collect();
    let mut marked: BTreeSet<(u32, &str)> = bits(before);
    for change in &step.changes {
        let mut leave = |page: u32, from: &[String]| {
            from.iter().for_each(|list| assert!(lists.get_mut(list).unwrap().remove(&page), "{}", context()));
        };
        match change {
            Change::Evicted { page, from, .. }
            | Change::Forgotten { page, from }
            | Change::Moved { page, from, .. } => {
                // A ghost's home may be the list that it was in as a resident page.
                leave(*page, from);
            }
            Change::Bit { page, bit, set: true } => assert!(marked.insert((*page, bit)), "{}", context()),
            Change::Bit { page, bit, set: false } => assert!(marked.remove(&(*page, *bit)), "{}", context()),
            _ => {}
        }
        let mut enter = |page: u32, list: &String| {
            assert!(lists.entry(list.clone()).or_default().insert(page), "{}", context());
        };
        match change {
            Change::Evicted { page, to, .. } => to.iter().for_each(|list| enter(*page, list)),
            Change::Moved { page, to, .. } => to.iter().for_each(|(list, _)| enter(*page, list)),
            _ => {}
        }
    }
    let empty = BTreeSet::new();
    for (name, pages) in &lists {
        let now = after.lists.iter().find(|list| list.name == **name).map(members);
        assert_eq!(now.as_ref().unwrap_or(&empty), pages, "{name}: {}", context());
    }
    assert!(after.lists.iter().all(|list| list.pages.is_empty() || lists.contains_key(&*list.name)), "{}", context());
    let stays = |(page, _): &(u32, &'static str)| had.contains(page) && has.contains(page);
    assert_eq!(
        marked.into_iter().filter(stays).collect::<BTreeSet<_>>(),
        bits(after).into_iter().filter(stays).collect(),
        "{}",
        context()
    );
    check_order(before, step, &context);
    check_numbers(before, step, &context);
}

/// But for the pages that are said to have moved, the order is as it was.
fn check_order(before: &Drawing, step: &Step, context: &dyn Fn() -> String) {
    for list in &step.drawing.lists {
        let Some(old) = before.lists.iter().find(|old| old.name == list.name) else { continue };
        let moved = |page: u32| {
            step.changes.iter().any(|change| match change {
                Change::Reordered { page: moved, list: of, .. } => *moved == page && *of == list.name,
                Change::Forgotten { page: forgotten, .. } => *forgotten == page,
                _ => false,
            })
        };
        let stays = |one: &DrawnList, other: &DrawnList| -> Vec<u32> {
            let other = members(other);
            let pages = one.pages.iter().map(|drawn| drawn.page);
            pages.filter(|page| other.contains(page) && !moved(*page)).collect()
        };
        assert_eq!(stays(old, list), stays(list, old), "{}: {}", list.name, context());
    }
}

fn check_numbers(before: &Drawing, step: &Step, context: &dyn Fn() -> String) {
    let mut numbers: BTreeMap<&str, String> =
        before.numbers.iter().map(|&(name, number)| (name, shown(number))).collect();
    let hands = |drawing: &Drawing| -> BTreeMap<(String, &str), u32> {
        let of = |list: &DrawnList| {
            list.hands.iter().map(|&(hand, at)| ((list.name.to_string(), hand), at)).collect::<Vec<_>>()
        };
        drawing.lists.iter().flat_map(of).collect()
    };
    let (was, is) = (hands(before), hands(&step.drawing));
    let turned =
        was.keys().chain(is.keys()).collect::<BTreeSet<_>>().into_iter().filter(|hand| was.get(*hand) != is.get(*hand));
    let said = step.changes.iter().filter(|change| matches!(change, Change::Hand { .. })).count();
    assert_eq!(turned.count(), said, "{}", context());
    for change in &step.changes {
        match change {
            Change::Number { name, to: Some(number), .. } => drop(numbers.insert(name, shown(*number))),
            Change::Number { name, to: None, .. } => drop(numbers.remove(name)),
            _ => {}
        }
    }
    let now = step.drawing.numbers.iter().map(|&(name, number)| (name, shown(number))).collect();
    assert_eq!(numbers, now, "{}", context());
}

fn check_all(of: &Explanation) {
    let mut before = &of.start;
    for step in &of.steps {
        check(&of.spec.label, before, step);
        before = &step.drawing;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 300 }))]

    #[test]
    fn each_step_says_all_that_changes_and_nothing_else(
        size in 1u32..7,
        letters in prop::collection::vec(prop_oneof![3 => b'a'..b'f', 1 => b'a'..b'p', 1 => b'A'..b'D'], 1..60),
    ) {
        let references: References = String::from_utf8(letters).unwrap().parse().unwrap();
        for spec in specs() {
            check_all(&Asked::new(spec, Some(references.clone()), Some(size)).of());
        }
    }
}

/// The hits and misses of the simulator for the same references. The second file lies far behind the first.
fn simulated(of: &Explanation) -> (u64, u64) {
    let block = |letter: u8| match letter {
        b'A'..=b'Z' => 1000 + u32::from(letter - b'A'),
        _ => u32::from(letter - b'a'),
    };
    let blocks: String = of.references.to_string().bytes().map(|letter| format!("{}\n", block(letter))).collect();
    let input = Input::from_bytes("test", blocks).unwrap();
    let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
    let keep = Keep { places: true, requests: true };
    let trace = Trace::load("test", reader.as_mut(), Some(4096), keep, &mut |_| {}).unwrap();
    let sweep = Sweep { specs: vec![of.spec.clone()], sizes: vec![of.size], warmup: 0, threads: 1 };
    let total = sweep.run(&trace, &|_| true).remove(0).total;
    (total.hits, total.misses)
}

#[test]
fn every_policy_has_an_example_that_hits_misses_and_evicts_as_the_simulator_does() {
    for info in POLICIES {
        let of = Asked::new(Spec::new(info), None, None).of();
        check_all(&of);
        assert_eq!((of.hits() as u64, of.misses() as u64), simulated(&of), "{}", of.spec.label);
        assert!(of.hits() > 0 && of.steps.iter().any(|step| !step.evicted.is_empty()), "{}", of.spec.label);
        assert!(of.steps.len() <= 40 && of.size <= 10, "{}", of.spec.label);
        // What is shown asks for the same.
        let again = explained(&of.spec.label, of.size, &of.references.to_string());
        assert_eq!(words(&again), words(&of));
    }
}

#[test]
fn an_example_has_parameters_of_its_own_unless_some_are_given() {
    let label = |text: &str| Asked::new(Spec::parse(text).unwrap(), None, None).of().spec.label;
    assert!(label("mq").starts_with("mq:queues="), "{}", label("mq"));
    assert_eq!(label("mq:queues=2"), "mq:queues=2");
}

#[test]
fn a_step_is_told_in_the_words_of_the_paper() {
    // B1 remembers c, which comes back to T2; T1 was too small, so p grows.
    let arc = explained("arc", 3, "abaacdbce");
    let said = words(&arc);
    assert_eq!(said[0], "Miss: a is unknown. a enters T1.");
    assert_eq!(said[2], "Hit: a is in T1. a goes from T1 to T2.");
    assert_eq!(said[3], "Hit: a is in T2. Nothing changes.");
    assert_eq!(said[5], "Miss: d is unknown. b is evicted from T1 and is a ghost in B1. d enters T1 at the MRU end.");
    assert_eq!(
        said[6],
        "Miss: b is a ghost in B1. c is evicted from T1 and is a ghost in B1. b goes from B1 to T2 at the MRU end. \
         p rises from 0 to 1."
    );
    // The hand clears two bits, and comes to the page behind the victim.
    let clock = explained("clock", 4, "abcdabe");
    assert_eq!(
        words(&clock)[6],
        "Miss: e is unknown. The reference bits of a and b are cleared. The hand goes from a to d. \
         c is evicted from the frames and forgotten. e enters the frames in the place of c."
    );
    // A page in two lists.
    let lirs = explained("lirs", 4, "abcde");
    assert_eq!(words(&lirs)[2], "Miss: c is unknown. c enters S at the top and Q.");
    assert_eq!(
        words(&lirs)[4],
        "Miss: e is unknown. c is evicted from Q and is a ghost in S. e enters S at the top and Q at the new end."
    );
}

#[test]
fn a_ghost_that_is_forgotten_for_its_own_return_is_told_as_such() {
    let of = explained("2q:out=0.5", 4, "abcdefa");
    let said = words(&of)[6];
    assert!(
        said.starts_with("Miss: a is a ghost in A1out.") && said.contains("The ghost a is forgotten from A1out."),
        "{said}"
    );
    assert!(said.contains("a enters Am."), "{said}");
}
