//! Managers that are dead, slow, lying or flooding: nobody else has a miss more, and nothing waits.

use crate::client::{Cache, Manager, hits, me};
use forebay_owning::{LENGTH, Message, Reason, VERSION, kind};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// An owner that is nobody's process.
const INNOCENT: u64 = u64::MAX;

/// A number that looks random.
fn scatter(step: u64) -> u64 {
    let mut state = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    state ^= state >> 29;
    state.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

/// The references of an innocent process and of one whose manager does as `act` says after each step, both to files of their own; the innocent's
/// hits.
fn beside(cache: &Cache, steps: u64, mut act: impl FnMut(u64)) -> Vec<bool> {
    let (innocent, foolish) = (cache.user(INNOCENT), cache.user(me()));
    let mut seen = Vec::new();
    for step in 0..steps {
        hits(&foolish, cache.volume(0), scatter(step) % 60);
        act(step);
        // Half of its uses go to a few blocks.
        let block = scatter(step + 7_000_000) % if step % 2 == 0 { 12 } else { 60 };
        seen.push(hits(&innocent, cache.volume(1), block));
    }
    drop((innocent, foolish));
    cache.pool.check_invariants();
    seen
}

/// Whether the innocent hits wherever it hits under global LRU.
#[track_caller]
fn hurts_nobody(under_managers: &[bool]) {
    let lru = Cache::new("lru", 40, &[60, 60]);
    let under_lru = beside(&lru, under_managers.len() as u64, |_| ());
    let hurt = under_lru.iter().zip(under_managers).filter(|(lru, other)| **lru && !**other).count();
    assert_eq!(hurt, 0, "misses of the innocent that LRU has not");
    assert!(under_lru.iter().any(|hit| *hit) && !under_lru.iter().all(|hit| *hit));
}

fn give_up(file: u32, first: u64, count: u64) -> [u8; LENGTH] {
    Message { kind: kind::GIVE_UP, file, first, count }.encode()
}

#[test]
fn a_foolish_manager_costs_nobody_else_a_miss() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let mut manager = cache.register(0, 0);
    // It gives up all that its process has, and is heard before the next reference.
    let seen = beside(&cache, 4000, |_| {
        manager.say(kind::GIVE_UP, 0, 0, 60);
        cache.wait_until("the block is on the list", |cache| cache.listed(me()) > 0);
    });
    hurts_nobody(&seen);
}

#[test]
fn a_manager_that_dies_leaves_no_list_and_another_can_come() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let mut manager = cache.register(0, 0);
    let mut stream = Some(manager.0.try_clone().expect("a copy"));
    let seen = beside(&cache, 2000, |step| {
        if let Some(stream) = &mut stream
            && step < 1000
        {
            stream.write_all(&give_up(0, scatter(step) % 60, 1)).expect("it is open");
        } else if stream.take().is_some() {
            let half = &give_up(0, 1, 1)[..LENGTH / 2];
            manager.0.write_all(half).expect("it is open");
            manager.0.shutdown(std::net::Shutdown::Both).expect("it is open");
            cache.wait_until("its owner abdicates", |cache| cache.managers.counts().ended == 1);
            assert_eq!(cache.listed(me()), 0);
        }
    });
    hurts_nobody(&seen);
    cache.register(0, 0);
}

#[test]
fn a_manager_that_never_reads_loses_events_and_is_told_how_many() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let mut manager = cache.register(0, 0);
    let user = cache.user(me());
    // More than the queues and the socket hold: each event is a message, as no two blocks follow each other.
    for step in 0..200_000 {
        hits(&user, cache.volume(0), step * 7 % 60);
    }
    drop(user);
    let seen = beside(&cache, 2000, |_| ());
    assert!(seen.iter().any(|hit| *hit));
    assert!(manager.next_of(kind::LOST).count > 0, "once it reads it learns so");
}

#[test]
fn a_lie_expect_refused_with_its_reason_and_ends_the_connection() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let strange = std::fs::File::open("/dev/null").expect("it is there");
    let strange = std::os::fd::AsRawFd::as_raw_fd(&strange) as u64;
    let registered: [(u32, u32, u64, u64, Reason); 9] = [
        (kind::GIVE_UP, 1, 0, 1, Reason::File),
        (kind::GIVE_UP, u32::MAX, u64::MAX, 1, Reason::File),
        (kind::GIVE_UP, 0, 0, u64::MAX, Reason::TooLong),
        (kind::GIVE_UP, 0, u64::MAX, (1 << 16) + 1, Reason::TooLong),
        (kind::ADD, 0, strange, 0, Reason::Descriptor),
        (kind::ADD, 0, 1 << 40, 0, Reason::Descriptor),
        (kind::ADD, 0, u64::MAX, 0, Reason::Descriptor),
        (kind::REGISTER, VERSION, 0, 0, Reason::Order),
        (99, 0, 0, 0, Reason::Unknown),
    ];
    for (kind, file, first, count, reason) in registered {
        let mut manager = cache.register(0, 0);
        manager.say(kind, file, first, count);
        manager.expect_refused(reason);
        cache.wait_until("the owner is free again", |cache| {
            let counts = cache.managers.counts();
            counts.registered == counts.ended
        });
    }
    let first: [(u32, u32, u64, Reason); 7] = [
        (kind::REGISTER, 2, 0, Reason::Version),
        (kind::REGISTER, VERSION, u64::MAX, Reason::Process),
        (kind::REGISTER, VERSION, u64::from(u32::MAX), Reason::Process),
        (kind::REGISTER, VERSION, (1 << 22) + 5, Reason::Process),
        (kind::ADD, 0, 0, Reason::Order),
        (kind::GIVE_UP, 0, 0, Reason::Order),
        (0, 0, 0, Reason::Unknown),
    ];
    for (kind, file, first, reason) in first {
        let mut manager = cache.connect();
        manager.say(kind, file, first, 0);
        manager.expect_refused(reason);
    }
}

#[test]
fn blocks_that_are_not_there_or_another_s_are_not_on_the_list() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let mut manager = cache.register(0, 0);
    manager.say(kind::ADD, 0, cache.descriptor(1), 0);
    assert_eq!(manager.next_of(kind::FILE).file, 1);
    let mut stream = manager.0.try_clone().expect("a copy");
    let seen = beside(&cache, 4000, |step| {
        let lies =
            [give_up(1, 0, 60), give_up(0, 60, 1 << 16), give_up(1, u64::MAX - 1, 2), give_up(0, u64::MAX, 1 << 16)];
        if step % 16 == 0 {
            stream.write_all(&lies.concat()).expect("the cache takes it");
        }
    });
    hurts_nobody(&seen);
    assert_eq!(cache.listed(me()), 0);
    assert_eq!(cache.managers.counts().refused, 0);
}

#[test]
fn a_flood_of_a_million_blocks_costs_nobody_else_a_miss() {
    let cache = Cache::new("lru-sp", 40, &[60, 60]);
    let Manager(mut stream) = cache.register(0, 0);
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let burst: Vec<u8> = (0..256).flat_map(|number| give_up(0, number % 60, 60)).collect();
            let mut blocks = 0;
            while blocks < 1_000_000 || !over.load(Ordering::SeqCst) {
                // The cache lets it wait: that it takes all is bounded by the socket's limit.
                stream.write_all(&burst).expect("the cache takes it");
                blocks += 256 * 60;
            }
            blocks
        });
        let seen = beside(&cache, 50_000, |_| ());
        over.store(true, Ordering::SeqCst);
        assert!(flood.join().expect("no panic") >= 1_000_000);
        seen
    });
    hurts_nobody(&seen);
}

#[test]
fn whatever_is_said_is_answered_or_refused() {
    let edges = [0, 1, 2, 3, 39, 40, 1 << 16, (1 << 16) + 1, u64::MAX - 1, u64::MAX];
    let (mut answered, mut refused) = (0, 0);
    for conversation in 0..500 {
        let random = |number: u64| scatter(conversation * 1000 + number);
        let value = |number| edges[random(number) as usize % edges.len()];
        let first = Message { kind: kind::REGISTER, file: VERSION, first: 0, count: value(0) };
        let file = Message { kind: kind::ADD, file: 0, first: 1, count: 0 };
        let rest = (1..10).map(|number| Message {
            kind: if random(number) % 8 == 0 { value(100 + number) as u32 } else { kind::GIVE_UP },
            file: random(number) as u32 % 64 / 63,
            first: value(200 + number),
            count: value(300 + number) % (1 << 20),
        });
        let said: Vec<u8> = [first, file].into_iter().chain(rest).flat_map(|message| message.encode()).collect();
        // The pool's state is checked in it.
        let answers = forebay_owning::testing::converse(&said);
        answered += usize::from(answers.len() > 1);
        refused += answers.iter().filter(|answer| answer.kind == kind::REFUSED).count();
    }
    assert!(answered == 500 && (100..500).contains(&refused), "{answered} conversations, {refused} refused");
}

#[test]
fn no_more_connect_than_there_may_be() {
    let cache = Cache::new("lru-sp", 10, &[10]);
    let managers: Vec<Manager> = (0..64).map(|_| cache.connect()).collect();
    cache.connect().expect_refused(Reason::TooMany);
    drop(managers);
    cache.wait_until("there is room again", |cache| {
        let mut manager = cache.connect();
        // It may be refused before it has spoken.
        let _ = manager.0.write_all(&Message { kind: kind::REGISTER, file: VERSION, first: 0, count: 0 }.encode());
        manager.next().is_some_and(|answer| answer.kind == kind::READY)
    });
}
