//! Events of a kernel that is played: it has any number of pages, and drops those that are let go.

use super::turn::{Sees, Turn};
use super::*;
use crate::steered::PAGE;
use crate::watch::{Event, Kind};
use forebay_policy::managers::Rules;
use std::collections::BTreeSet;

/// Numbers that no process has, so they are the processes' names.
const ONE: u32 = 4_000_000_001;
const OTHER: u32 = 4_000_000_002;

/// Pages of the cache, and of a file that is read in a loop.
const CACHE: u64 = 32;
const LOOP: u64 = 40;

struct Played {
    scopes: Scopes,
    files: Files,
    descriptors: Descriptors,
    steered: Steered,
    arrivals: Arrivals,
    managing: Managing,
    /// Files by their inodes, and pages.
    there: BTreeSet<(u64, u64)>,
}

fn rules(text: &str) -> Vec<Rule> {
    Rules::parse("test.toml", text.to_owned()).and_then(Rules::for_running).expect("the rules are right")
}

fn mru(owner: u32) -> String {
    format!("[[manager]]\nname = \"mru\"\nowners = [\"{owner}\"]\nfiles = [\"inode 1\"]\n")
}

fn event(kind: Kind, (inode, page): (u64, u64), process: u32) -> Event {
    Event {
        kind,
        file: id(inode),
        first: page,
        count: 1,
        order: 0,
        process,
        program: [0; 16],
        user: 0,
        group: 0,
        reclaim: false,
        own: kind == Kind::Removed,
        judged: true,
    }
}

fn id(inode: u64) -> FileId {
    FileId { device: 0, inode, generation: 0 }
}

impl Played {
    fn new(policy: &str, text: &str) -> Self {
        Self::with_shares(policy, text, [None; 2])
    }

    /// The first file is steered for a scope with the first share, the other for one with the other.
    fn with_shares(policy: &str, text: &str, shares: [Option<Share>; 2]) -> Self {
        let steered = Steered::played(policy, CACHE, Side::Files);
        let pool = Arc::clone(steered.pool());
        let share = |share: Share| pool.share_together(share).expect("it fits");
        let mut files = Files::new(&pool, shares.map(|of| of.map(share)).to_vec(), None);
        for (scope, inode) in [1, 2].into_iter().enumerate() {
            files.add(&steered, id(inode), None, scope);
        }
        Self {
            scopes: Scopes::new(&[]).expect("there is nothing to look at"),
            files,
            descriptors: Descriptors::default(),
            managing: Managing::new(&pool, Processes::new(Owners::Process), rules(text)),
            steered,
            arrivals: Arrivals::default(),
            there: BTreeSet::new(),
        }
    }

    fn happened(&mut self, kind: Kind, at: (u64, u64), process: u32) {
        self.take(&event(kind, at, process));
    }

    /// Takes an event: how many pages the kernel has reclaimed as it needed memory.
    fn take(&mut self, event: &Event) -> u64 {
        self.take_seen(event, true)
    }

    /// The same where a use is seen before its pages come, or when they are there.
    fn take_seen(&mut self, event: &Event, uses_first: bool) -> u64 {
        let Self { scopes, files, descriptors, steered, arrivals, managing, .. } = self;
        let (sees, linked) = (Sees { uses_first, writes: true }, &HashMap::new());
        let (users, only_users, mapped) = (None, false, &mut Mapped::default());
        let (now, judged) = (Instant::now(), &mut Vec::new());
        let mut turn = Turn {
            scopes,
            files,
            descriptors,
            steered,
            arrivals,
            mapped,
            sees,
            users,
            only_users,
            managing,
            linked,
            now,
            judged,
            needed: 0,
        };
        turn.happened(event);
        turn.needed
    }

    /// A process reads a page of a file: whether it was there.
    fn read(&mut self, process: u32, inode: u64, page: u64) -> bool {
        self.happened(Kind::Read, (inode, page), process);
        let hit = !self.there.insert((inode, page));
        if !hit {
            self.happened(Kind::Added, (inode, page), process);
        }
        self.leave();
        hit
    }

    /// Lets go what the policy does.
    fn leave(&mut self) {
        for (object, pages) in self.steered.take_leaving() {
            let inode = self.files.get(object).expect("it is steered").id.inode;
            for page in pages.filter(|&page| self.there.remove(&(inode, page))).collect::<Vec<_>>() {
                self.happened(Kind::Removed, (inode, page), 0);
            }
        }
    }

    /// How many pages of a file are there.
    fn there(&self, inode: u64) -> usize {
        self.there.iter().filter(|&&(of, _)| of == inode).count()
    }

    /// Reads a file from its beginning to its end: how many pages were there.
    fn read_all(&mut self, process: u32, inode: u64, pages: u64) -> usize {
        (0..pages).filter(|&page| self.read(process, inode, page)).count()
    }

    fn rounds(&mut self, rounds: usize) -> usize {
        (0..rounds).map(|_| self.read_all(ONE, 1, LOOP)).sum()
    }
}

#[test]
fn a_rule_gives_a_loop_the_hits_of_its_manager() {
    let (mut managed, mut simulated) = (Played::new("lru-sp", &mru(ONE)), Played::new("mru", ""));
    let hits = managed.rounds(6);
    assert!(hits > 5 * LOOP as usize / 2, "{hits}");
    assert_eq!(hits, simulated.rounds(6));
    assert_eq!(managed.there, simulated.there, "what MRU would keep is what is there");
    for unruled in [mru(OTHER), mru(ONE).replace("inode 1", "inode 2"), String::new()] {
        assert_eq!(Played::new("lru-sp", &unruled).rounds(6), 0, "LRU has what a loop needs last");
    }
}

#[test]
fn a_manager_takes_no_page_of_another_owner() {
    // The other reads 8 pages after each 16 of the loop: LRU keeps them in a cache of 32.
    let others = |policy: &str, text: &str| {
        let mut played = Played::new(policy, text);
        let mut hits = 0;
        for step in 0..20 {
            for page in 0..16 {
                played.read(ONE, 1, (16 * step + page) % LOOP);
            }
            hits += played.read_all(OTHER, 2, 8);
        }
        hits
    };
    let all = 19 * 8;
    assert_eq!(others("lru", ""), all);
    assert!(others("mru", "") < all, "what MRU does for all takes them");
    assert_eq!(others("lru-sp", &mru(ONE)), all, "the loop's owner pays for its manager");
}

#[test]
fn other_rules_hold_at_once_and_a_new_policy_learns_them() {
    let mut played = Played::new("lru-sp", "");
    let pool = Arc::clone(played.steered.pool());
    assert_eq!(played.rounds(4), 0);
    played.managing.put_first(&pool, rules(&mru(ONE)).remove(0), played.files.iter_mut());
    played.rounds(2);
    assert!(played.rounds(4) > 4 * LOOP as usize / 2);
    pool.restart_policy().expect("it is in order");
    played.managing.tell_anew(&pool, played.files.iter_mut());
    played.rounds(1);
    assert!(played.rounds(4) > 4 * LOOP as usize / 2, "the policy learns again who manages");
    let shown: Vec<_> = played.managing.in_force(&pool, played.files.iter()).into_iter().map(|of| of.by).collect();
    assert_eq!(shown, ["command"]);
    played.managing.set_rules(&pool, Vec::new(), played.files.iter_mut());
    played.rounds(2);
    assert_eq!(played.rounds(2), 0, "LRU again");
}

#[test]
fn an_attribute_goes_before_the_rules_and_a_new_policy_learns_it() {
    let mut played = Played::new("lru-sp", "[[manager]]\nname = \"lru\"\n");
    let pool = Arc::clone(played.steered.pool());
    assert_eq!(played.rounds(2), 0);
    let say = |played: &mut Played, word: Option<&str>| {
        let object = played.files.find(id(1)).expect("it is steered");
        let file = played.files.get_mut(object).expect("it is steered");
        played.managing.set_word(&pool, file, word.map(|word| word.parse().expect("a manager")));
    };
    say(&mut played, Some("mru"));
    played.rounds(2);
    assert!(played.rounds(4) > 4 * LOOP as usize / 2, "for all users, whatever the rules say");
    let shown = |played: &Played| -> Vec<_> {
        let found = played.managing.in_force(&pool, played.files.iter());
        found.into_iter().map(|of| (of.by, of.manager, of.file)).collect()
    };
    let of_file = ("attribute", "mru".to_owned(), Some("inode 1".to_owned()));
    assert_eq!(shown(&played)[1..], [of_file], "behind the rules, as on a mount");
    pool.restart_policy().expect("it is in order");
    played.managing.tell_anew(&pool, played.files.iter_mut());
    played.rounds(1);
    assert!(played.rounds(4) > 4 * LOOP as usize / 2, "the policy learns it again");
    say(&mut played, None);
    played.rounds(2);
    assert_eq!(played.rounds(2), 0, "the rules again");
    assert_eq!(shown(&played).len(), 1);
}

#[test]
fn pages_that_stay_are_their_last_user_s() {
    let mut played = Played::new("lru-sp", &mru(ONE));
    played.rounds(2);
    let object = played.files.find(id(1)).expect("it is steered");
    let file = played.files.get(object).expect("it is steered");
    let (volume, owner) = (Arc::clone(&file.volume), file.managed.as_ref().and_then(|managed| managed.last()));
    played.steered.stayed(&volume, 30..31, owner);
    assert!(played.rounds(2) > 2 * LOOP as usize / 2, "nobody else is a user of the file by that");
}

#[test]
fn users_of_a_file_that_have_ended_are_forgotten() {
    let mut played = Played::new("lru-sp", "[[manager]]\nname = \"mru\"\n");
    for process in 0..10_000 {
        played.read(ONE + process, 1, u64::from(process) % LOOP);
    }
    let object = played.files.find(id(1)).expect("it is steered");
    let managed = played.files.get(object).and_then(|file| file.managed.as_ref()).expect("it was used");
    assert!(managed.bytes() < 1 << 20, "{}", managed.bytes());
}

fn share(min: u64, max: u64) -> Option<Share> {
    Some(Share { min: min * PAGE, max: max * PAGE })
}

/// How many of 16 pages are there after a scan through another file, and how many of that file's.
fn after_a_scan(policy: &str, shares: [Option<Share>; 2]) -> (usize, usize) {
    let mut played = Played::with_shares(policy, "", shares);
    for _ in 0..3 {
        played.read_all(ONE, 1, 16);
    }
    played.read_all(OTHER, 2, 1000);
    (played.there(1), played.there(2))
}

#[test]
fn a_scan_takes_no_page_of_a_min_and_stays_below_its_max() {
    for policy in ["lru", "clock-pro", "2q", "arc", "ubm", "dulo", "lru-sp", "s3-fifo", "mq", "lirs"] {
        let (kept, scanned) = after_a_scan(policy, [share(16, 32), None]);
        assert!(kept == 16 && scanned <= 16, "{policy}: {kept} and {scanned}");
        let (kept, scanned) = after_a_scan(policy, [None, share(0, 4)]);
        assert!(kept == 16 && (1..=4).contains(&scanned), "{policy}: {kept} and {scanned}");
    }
    assert_eq!(after_a_scan("lru", [None; 2]).0, 0, "without shares it takes them all");
}

#[test]
fn a_share_is_changed_while_it_is_used_and_its_min_stays_when_the_size_shrinks() {
    let mut played = Played::with_shares("lru", "", [share(16, 32), share(0, 32)]);
    let groups = [0, 1].map(|place| played.files.shared(place).expect("it has a share").clone());
    played.read_all(ONE, 1, 16);
    played.read_all(OTHER, 2, 100);
    assert_eq!((played.there(1), played.there(2)), (16, 15), "and a page for the rest");
    let now = Instant::now();
    played.steered.fit(Size { asked: 8, left: 8, kept: 0 }, now).expect("it can be as small as its mins");
    played.leave();
    assert_eq!((played.there(1), played.there(2)), (16, 1), "the rest has what the mins leave");
    let smaller = share(4, 6).expect("a share");
    played.steered.change_share(&groups[0], smaller, 8, now).expect("it fits");
    played.leave();
    assert_eq!(played.there(1), 6, "what is above its max leaves at once");
    played.steered.fit(Size { asked: 8, left: 8, kept: 0 }, now).expect("it fits");
    let refused = played.steered.change_share(&groups[1], share(4, 6).expect("a share"), 8, now);
    assert!(refused.is_err_and(|why| why.to_string().contains("does not fit")), "4, 4, and a page for the rest");
    // With a larger size the same fits.
    played.steered.change_share(&groups[1], share(4, 6).expect("a share"), CACHE, now).expect("it fits");
    played.read_all(OTHER, 2, 100);
    assert_eq!((played.there(1), played.there(2)), (6, 6));
}

#[test]
fn the_kernel_s_reclaim_without_need_leaves_the_size() {
    let mut played = Played::new("lru", "");
    played.read_all(ONE, 1, 16);
    let mut reclaimed_by = |name: &[u8], page| {
        let mut program = [0; 16];
        program[..name.len()].copy_from_slice(name);
        let own = Event { program, reclaim: true, ..event(Kind::Removed, (1, page), 7) };
        let needed = [played.take(&own), played.take(&Event { own: false, ..own })];
        (needed, played.steered.pages().reclaimed)
    };
    assert_eq!(reclaimed_by(b"kswapd0", 3), ([0, 1], 1));
    assert_eq!(reclaimed_by(b"kdamond.0", 4), ([0, 0], 2), "pages that were not used for long, as it takes them");
}

#[test]
fn a_page_that_one_process_brings_and_another_uses_first_has_missed_once() {
    let mut played = Played::new("lru", "");
    // A use is seen when its pages are there: the first process still waits for them.
    for (kind, process) in [(Kind::Added, ONE), (Kind::Read, OTHER), (Kind::Read, ONE), (Kind::Read, OTHER)] {
        played.take_seen(&event(kind, (1, 3), process), false);
    }
    let pages = played.steered.pages();
    assert_eq!((pages.kernel_misses, pages.kernel_hits), (1, 2));
}
