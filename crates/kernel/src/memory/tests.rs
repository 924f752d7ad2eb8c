//! The thread's state, with a machine that is played: its processes have pages, reference bits and swap space.

use super::duel::Chooser;
use super::faults::Fault;
use super::look::Where;
use super::machine::{Machine, Process, Seen, TABLE, TABLES, Table, WORDS};
use super::paging::{Shared, State};
use crate::common::{Common, Side};
use crate::steered::{PAGE, Size, Steered};
use crate::steering::Users;
use forebay_basis::Operation;
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Pool, VolumeConfig};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A page in memory: whether it was used. Pages that are not there are in swap space.
type Pages = BTreeMap<u64, bool>;

#[derive(Debug, Default)]
struct Memory {
    pages: BTreeMap<u32, Pages>,
    out: BTreeSet<(u32, u64)>,
    /// Pages that do not leave.
    stuck: BTreeSet<(u32, u64)>,
    /// How many tables were looked at.
    looked: usize,
}

#[derive(Clone, Debug, Default)]
struct Played(Arc<Mutex<Memory>>);

impl Played {
    fn with<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(&mut self.0.lock().expect("no test has panicked"))
    }

    fn there(&self, process: u32) -> Vec<u64> {
        self.with(|memory| memory.pages.get(&process).map_or(Vec::new(), |pages| pages.keys().copied().collect()))
    }
}

impl Memory {
    fn free(&mut self, process: u32, page: u64) {
        if let Some(pages) = self.pages.get_mut(&process) {
            pages.remove(&page);
        }
    }

    fn leave(&mut self, process: u32, page: u64) {
        if !self.stuck.contains(&(process, page))
            && self.pages.get_mut(&process).is_some_and(|pages| pages.remove(&page).is_some())
        {
            self.out.insert((process, page));
        }
    }
}

impl Machine for Played {
    fn look(&mut self, process: &Process, tables: &[u64], show: &mut dyn FnMut(u64, Table)) -> io::Result<bool> {
        self.with(|memory| {
            memory.looked += tables.len();
            let Some(pages) = memory.pages.get(&process.number) else { return Ok(false) };
            for &table in tables {
                let mut seen = Seen::default();
                let first = table * TABLE;
                for page in 0..TABLE {
                    let (word, bit) = (page as usize / 64, page % 64);
                    let found = pages.get(&(first + page));
                    seen.present[word] |= u64::from(found.is_some()) << bit;
                    seen.young[word] |= u64::from(found == Some(&true)) << bit;
                    seen.out[word] |= u64::from(memory.out.contains(&(process.number, first + page))) << bit;
                }
                show(table, if seen == Seen::default() { Table::Absent } else { Table::Seen(seen) });
            }
            Ok(true)
        })
    }

    fn tables(
        &mut self,
        process: &Process,
        above: &[u64],
        show: &mut dyn FnMut(u64, [u64; WORDS]),
    ) -> io::Result<bool> {
        self.with(|memory| {
            let Some(pages) = memory.pages.get(&process.number) else { return Ok(false) };
            for &above in above {
                let (mut there, first) = ([0; WORDS], above * TABLES * TABLE);
                for (page, _) in pages.range(first..first + TABLES * TABLE) {
                    let table = (page - first) / TABLE;
                    there[table as usize / 64] |= 1 << (table % 64);
                }
                if there != [0; WORDS] {
                    show(above, there);
                }
            }
            Ok(true)
        })
    }

    fn cool(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()> {
        self.with(|memory| {
            let all = memory.pages.entry(process.number).or_default();
            pages.iter().for_each(|range| all.range_mut(range.clone()).for_each(|(_, used)| *used = false));
        });
        Ok(())
    }

    fn cool_all(&mut self, process: &Process) -> io::Result<()> {
        self.with(|memory| memory.pages.entry(process.number).or_default().values_mut().for_each(|used| *used = false));
        Ok(())
    }

    fn page_out(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()> {
        self.with(|memory| pages.iter().cloned().flatten().for_each(|page| memory.leave(process.number, page)));
        Ok(())
    }

    fn memory(&self) -> u64 {
        0
    }
}

/// Processes under a policy.
struct Game {
    machine: Played,
    state: State,
    now: Instant,
    faults: u64,
}

impl Game {
    fn new(policy: &str, pages: u64) -> Self {
        Self::with(policy, pages, false).0
    }

    /// The same, with what files may have together with them.
    fn beside(policy: &str, pages: u64) -> (Self, Arc<Common>) {
        Self::with(policy, pages, true)
    }

    fn with(policy: &str, pages: u64, files_beside: bool) -> (Self, Arc<Common>) {
        let pool = Pool::new(Config::elsewhere(pages * PAGE, Spec::parse(policy).expect("a policy"))).expect("a pool");
        let common = Common::new(Arc::new(pool)).expect("its only user");
        let machine = Played::default();
        let shared = Arc::new(Shared::new(pages, None));
        let state = State::new(Arc::clone(&common), Box::new(machine.clone()), (false, files_beside), &shared);
        let state = state.expect("a policy that steers");
        (Self { machine, state, now: Instant::now(), faults: 0 }, common)
    }

    fn add(&mut self, process: u32) -> u32 {
        self.machine.with(|memory| memory.pages.insert(process, Pages::new()));
        let object = self.state.spaces.add(&self.state.steered, Process { number: process, held: None });
        self.state.spaces.get_mut(object).expect("it was added").have(0..1 << 12);
        object
    }

    /// A process uses a page.
    fn touch(&mut self, process: u32, page: u64) {
        let was_there = self.machine.with(|memory| {
            memory.out.remove(&(process, page));
            memory.pages.entry(process).or_default().insert(page, true).is_some()
        });
        if !was_there {
            self.faults += 1;
            self.state.fault(Fault { process, page });
        }
    }

    /// Time passes, and a turn is taken.
    fn turn(&mut self) {
        self.now += Duration::from_secs(1);
        self.state.go_on(self.now);
    }
}

#[test]
fn a_loop_that_does_not_fit_faults_as_its_policy_has_it() {
    let faults = |policy: &str| {
        let mut game = Game::new(policy, 256);
        game.add(7);
        for _ in 0..8 {
            for page in 0..320 {
                game.touch(7, page);
                game.turn();
                let there = game.machine.there(7).len();
                assert!(there <= 257, "{there} pages are there under {policy}");
            }
        }
        game.faults
    };
    assert_eq!(faults("lru"), 8 * 320);
    // It learns of uses at the end of epochs, and of their order then by their addresses.
    let fewest = 320 + 7 * 64;
    assert!((fewest..fewest + 20).contains(&faults("mru")), "{} faults", faults("mru"));
    assert!(faults("clock-pro") < 8 * 320 * 2 / 3, "{} faults", faults("clock-pro"));
}

#[test]
fn pages_that_are_used_stay_and_the_fault_that_brought_a_page_is_no_second_use() {
    let mut game = Game::new("clock", 128);
    game.add(7);
    (0..64).for_each(|page| game.touch(7, page));
    game.turn();
    game.state.look(Where::Known);
    let before = game.state.steered.pages().kernel_hits;
    assert_eq!(before, 0, "a reference bit was set by a fault, and counts as a use");
    for page in 1000..1600 {
        game.touch(7, page);
        (0..16).for_each(|page| game.touch(7, page));
        game.turn();
    }
    assert_eq!(game.faults, 64 + 600, "a used page has left");
    assert!(game.state.steered.pages().kernel_hits > 0);
}

#[test]
fn where_files_are_beside_a_victim_that_was_used_since_the_last_look_is_given_back_once() {
    let mut game = Game::beside("lru", 64).0;
    let object = game.add(7);
    (0..64).for_each(|page| game.touch(7, page));
    game.turn();
    game.state.look(Where::Known);
    // Page 0 is the next to leave, as far as the policy knows.
    game.touch(7, 0);
    game.touch(7, 100);
    game.state.go_on(game.now);
    let there = |game: &Game, page| game.state.steered.residents().is_there(object, page);
    assert!(there(&game, 0) && !there(&game, 1), "the bit of page 0 has told in time");
    let mut mru = Game::beside("mru", 64).0;
    let object = mru.add(7);
    (0..64).for_each(|page| mru.touch(7, page));
    mru.turn();
    mru.state.look(Where::Known);
    mru.touch(7, 63);
    mru.touch(7, 100);
    mru.state.go_on(mru.now);
    assert!(mru.machine.there(7).len() <= 64, "a policy that wants it gone has it leave");
    assert!(mru.state.steered.residents().is_there(object, 0));
}

#[test]
fn what_the_machine_takes_by_itself_and_what_programs_give_back_is_noticed() {
    let mut game = Game::new("lru", 128);
    let object = game.add(7);
    (0..100).for_each(|page| game.touch(7, page));
    game.turn();
    game.machine.with(|memory| {
        (0..10).for_each(|page| memory.leave(7, page));
        (10..30).for_each(|page| memory.free(7, page));
    });
    game.state.look(Where::Known);
    assert_eq!(game.state.steered.pages().reclaimed, 10);
    assert_eq!(game.state.steered.residents().there(), 70);
    game.machine.with(|memory| drop(memory.pages.remove(&7)));
    game.state.look(Where::Known);
    assert_eq!((game.state.spaces.len(), game.state.spaces.get(object).is_none()), (0, true), "the process has ended");
    assert_eq!(game.state.steered.residents().there(), 0);
}

#[test]
fn while_the_kernel_chooses_nothing_leaves_by_the_policy_which_has_all_again_at_its_turn() {
    let mut game = Game::new("lru", 64);
    let object = game.add(7);
    game.state.let_choose(Chooser::Kernel);
    (0..100).for_each(|page| {
        game.touch(7, page);
        game.turn();
    });
    assert_eq!(game.machine.there(7).len(), 100);
    let counts = game.state.counts();
    assert_eq!((counts.pages.let_go, counts.kept, counts.policy_chooses), (0, 0, false));
    // The kernel takes one that the policy would have let go, and one that it would not have.
    game.machine.with(|memory| [0, 99].into_iter().for_each(|page| memory.leave(7, page)));
    game.state.look(Where::Known);
    assert_eq!(game.state.counts().pages.reclaimed, 2);
    game.state.let_choose(Chooser::Policy);
    game.turn();
    assert_eq!(game.machine.there(7).len(), 64);
    let counts = game.state.counts();
    assert_eq!((counts.pages.dropped, counts.policy_chooses), (34, true));
    assert_eq!(game.state.steered.residents().there_of(object).iter().map(|run| run.end - run.start).sum::<u64>(), 64);
}

#[test]
fn there_are_turns_only_where_a_limit_keeps_the_size() {
    let mut game = Game::new("lru", 64);
    game.state.turns = true;
    game.state.take_turns(game.now);
    assert_eq!(game.state.chooser, Chooser::Policy, "no limit is known");
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    game.state.limit = Some(Box::new(move |pages, chooser| tell.lock().expect("whole").push((pages, chooser))));
    game.state.take_turns(game.now);
    assert_eq!(game.state.chooser, Chooser::Kernel, "it begins");
    game.state.turns = false;
    game.state.take_turns(game.now);
    let told = told.lock().expect("whole").clone();
    assert_eq!(told, [(64, Chooser::Kernel), (64, Chooser::Policy)]);
}

#[test]
fn pages_all_over_terabytes_are_found_by_the_tables_that_there_are() {
    let mut game = Game::new("lru", 256);
    let (object, terabytes) = (game.add(7), 8 << 40 >> 12);
    game.state.spaces.get_mut(object).expect("it was added").have(0..terabytes);
    let came = (0..100).map(|number| (number * (terabytes / 100), false));
    game.machine.with(|memory| memory.pages.entry(7).or_default().extend(came));
    for (place, looked) in [(Where::All, 100), (Where::Known, 200), (Where::All, 300)] {
        game.state.look(place);
        let there = game.state.steered.residents().there();
        assert_eq!((there, game.machine.with(|memory| memory.looked)), (100, looked));
    }
    game.machine.with(|memory| memory.pages.entry(7).or_default().clear());
    game.state.look(Where::All);
    assert_eq!(game.state.steered.residents().there(), 0, "nothing has become of them");
}

/// Takes the pages that are recorded.
struct Recorder(Arc<Mutex<Vec<u64>>>);

impl Users for Recorder {
    fn wants(&self) -> bool {
        true
    }

    fn file(&self, _: &str) -> u32 {
        0
    }

    fn owner(&self, _: &str) -> u32 {
        0
    }

    fn reference(&self, _: (u32, u64), _: &dyn Fn() -> u32, (from, bytes): (u64, u64), _: Operation) {
        self.0.lock().expect("no test has panicked").extend(from / PAGE..(from + bytes) / PAGE);
    }
}

#[test]
fn a_use_is_recorded_once_in_an_epoch_whether_its_fault_or_the_look_comes_first() {
    let mut game = Game::new("lru", 128);
    let object = game.add(7);
    let recorded = Arc::default();
    game.state.users = Some(Box::new(Recorder(Arc::clone(&recorded))));
    let take = || std::mem::take(&mut *recorded.lock().expect("no test has panicked"));
    game.touch(7, 3);
    game.machine.with(|memory| memory.pages.entry(7).or_default().extend([(5, true), (6, false)]));
    game.state.look(Where::All);
    assert_eq!(take(), [3, 5], "page 6 is there, and nobody has used it");
    game.state.fault(Fault { process: 7, page: 5 });
    game.state.look(Where::Known);
    assert_eq!(take(), [0; 0], "the fault was late");
    game.touch(7, 5);
    game.state.look(Where::Known);
    assert_eq!((take(), game.state.steered.residents().is_there(object, 6)), (vec![5], true));
}

#[test]
fn pages_that_stay_are_the_policy_s_again() {
    let mut game = Game::new("lru", 64);
    game.add(7);
    game.machine.with(|memory| memory.stuck.extend((0..8).map(|page| (7, page))));
    for page in 0..200 {
        game.touch(7, page);
        game.turn();
    }
    (0..10).for_each(|_| game.turn());
    assert!((0..8).all(|page| game.machine.there(7).contains(&page)));
    assert!(game.machine.there(7).len() <= 64, "what stays takes room of the policy's");
    let residents = game.state.steered.residents();
    assert_eq!(residents.there(), game.machine.there(7).len() as u64);
}

#[test]
fn memory_and_files_under_one_policy_have_one_size_and_the_unused_leave_whosever_they_are() {
    let (mut game, common) = Game::beside("clock-pro", 256);
    let mut files = Steered::new(common, Side::Files).expect("it begins");
    let file = files.attach(Arc::new(MemoryDevice::new(0)), VolumeConfig::new("file"));
    let scan = |files: &mut Steered, game: &mut Game, pages: Range<u64>, used: u64| {
        for page in pages {
            files.used(&file, page..page + 1, (Operation::Read, None));
            files.added(&file, page, 1);
            (0..used).for_each(|page| game.touch(7, page));
            game.turn();
            let gone: Vec<u64> = files.take_leaving().into_iter().flat_map(|(_, run)| run).collect();
            gone.into_iter().for_each(|page| files.removed(&file, page, 1, false));
            let there = files.residents().there();
            files.show(there);
            let size = Size { asked: 256, left: 256, kept: files.residents().kept() };
            files.fit(size, game.now).expect("it can be as large");
            let all = game.machine.there(7).len() as u64 + there;
            assert!(all <= 256 + 2, "{all} pages are there");
        }
    };
    game.add(7);
    (0..100).for_each(|page| game.touch(7, page));
    scan(&mut files, &mut game, 0..2000, 100);
    assert_eq!(game.faults, 100, "a file that was read once has cost memory in use");
    assert!(files.residents().there() >= 150, "{} pages of the file", files.residents().there());
    let faults = game.faults;
    scan(&mut files, &mut game, 2000..2200, 200);
    assert!(game.faults < faults + 200, "{} faults of 100 more pages", game.faults - faults);
    assert!(files.residents().there() <= 60, "{} pages of the file", files.residents().there());
    (0..200).for_each(|page| game.machine.with(|memory| memory.free(7, page)));
    game.state.look(Where::Known);
    scan(&mut files, &mut game, 3000..3600, 0);
    assert!(files.residents().there() >= 250, "{} pages have what memory gave back", files.residents().there());
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Touch(u32, u64),
    Free(u32, u64),
    Reclaim(u32, u64),
    Lost(u32, u64),
    Stick(u32, u64),
    Turn,
    LookAtAll,
    End(u32),
}

fn happening() -> impl Strategy<Value = Happening> {
    let place = || (1u32..4, 0u64..1500);
    prop_oneof![
        20 => place().prop_map(|(process, page)| Happening::Touch(process, page)),
        2 => place().prop_map(|(process, page)| Happening::Free(process, page)),
        2 => place().prop_map(|(process, page)| Happening::Reclaim(process, page)),
        1 => place().prop_map(|(process, page)| Happening::Lost(process, page)),
        1 => place().prop_map(|(process, page)| Happening::Stick(process, page)),
        6 => Just(Happening::Turn),
        1 => Just(Happening::LookAtAll),
        1 => (1u32..4).prop_map(Happening::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever happens, in the end it is known what is there, and no more is there than may be.
    #[test]
    fn what_is_there_is_known_whatever_happens(policy in prop::sample::select(vec!["lru", "clock-pro", "mru", "arc"]), happenings in prop::collection::vec(happening(), 1..400)) {
        let mut game = Game::new(policy, 64);
        for happening in happenings {
            match happening {
                Happening::Touch(process, page) => {
                    if game.state.spaces.find(process).is_none() {
                        game.add(process);
                    }
                    game.touch(process, page);
                }
                Happening::Free(process, page) => game.machine.with(|memory| memory.free(process, page)),
                Happening::Reclaim(process, page) => game.machine.with(|memory| memory.leave(process, page)),
                Happening::Lost(process, page) => game.machine.with(|memory| {
                    if let Some(pages) = memory.pages.get_mut(&process) {
                        pages.insert(page, true);
                    }
                }),
                Happening::Stick(process, page) => game.machine.with(|memory| memory.stuck.extend([(process, page)])),
                Happening::Turn => game.turn(),
                Happening::LookAtAll => game.state.look(Where::All),
                Happening::End(process) => game.machine.with(|memory| drop(memory.pages.remove(&process))),
            }
        }
        game.machine.with(|memory| memory.stuck.clear());
        game.state.look(Where::All);
        (0..12).for_each(|_| game.turn());
        let mut there = 0;
        for process in 1..4 {
            let pages = game.machine.there(process);
            there += pages.len();
            if let Some(object) = game.state.spaces.find(process) {
                prop_assert_eq!(game.state.steered.residents().pages_of(object), pages);
            }
        }
        prop_assert!(there <= 64, "{} pages are there", there);
    }
}
