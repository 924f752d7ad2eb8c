//! What a manager learns, and what it brings about.

use crate::client::{Cache, hits, me};
use forebay_owning::{Message, Reason, VERSION, kind};
use std::process::Command;

#[test]
fn a_manager_learns_what_its_process_does_and_its_list_is_taken_from() {
    let cache = Cache::new("lru-sp", 10, &[100, 100]);
    let mut manager = cache.register(0, 0);
    let (user, stranger) = (cache.user(me()), cache.user(u64::MAX));
    (0..10).for_each(|block| assert!(!hits(&user, cache.volume(0), block)));
    let admitted = |message: &Message| (message.file, message.first, message.count);
    let mut seen = 0;
    while seen < 10 {
        let message = manager.next_of(kind::ADMITTED);
        assert_eq!((0, seen), (message.file, message.first), "in order: {message:?}");
        seen += message.count;
    }
    // Of a file that it has not named, and of another user, it learns nothing.
    assert!(!hits(&user, cache.volume(1), 3));
    assert_eq!(admitted(&manager.next_of(kind::EVICTED)), (0, 0, 1));
    assert!(!hits(&stranger, cache.volume(1), 4));
    assert_eq!(admitted(&manager.next_of(kind::EVICTED)), (0, 1, 1));
    assert!(hits(&user, cache.volume(0), 9));
    assert_eq!(admitted(&manager.next_of(kind::HIT)), (0, 9, 1));
    manager.say(kind::GIVE_UP, 0, 7, 2);
    cache.wait_until("both blocks are on the list", |cache| cache.listed(me()) == 2);
    for gone in [7, 8] {
        assert!(!hits(&user, cache.volume(0), 50 + gone));
        assert_eq!(admitted(&manager.next_of(kind::EVICTED)), (0, gone, 1));
    }
    manager.say(kind::GIVE_UP, 0, 57, 2);
    manager.say(kind::TAKE_BACK, 0, 0, 0);
    manager.say(kind::GIVE_UP, 0, 58, 1);
    cache.wait_until("another list is there", |cache| cache.listed(me()) == 1);
    assert!(!hits(&user, cache.volume(0), 70));
    assert_eq!(manager.next_of(kind::EVICTED).first, 58);
    drop((user, stranger));
    cache.pool.check_invariants();
}

#[test]
fn a_list_that_runs_short_wakes_its_manager_once() {
    let cache = Cache::new("lru-sp", 10, &[100]);
    let mut manager = cache.register(0, 2);
    let low = manager.next_of(kind::LOW);
    assert_eq!((low.first, low.count), (0, 2), "a list is empty at first");
    let user = cache.user(me());
    for block in 0..10 {
        hits(&user, cache.volume(0), block);
    }
    manager.say(kind::GIVE_UP, 0, 5, 3);
    cache.wait_until("three blocks are on the list", |cache| cache.listed(me()) == 3);
    // It is seen to be long enough, and then it is not.
    hits(&user, cache.volume(0), 0);
    manager.next_of(kind::HIT);
    hits(&user, cache.volume(0), 20);
    hits(&user, cache.volume(0), 21);
    assert_eq!(manager.next_of(kind::LOW).first, 1);
    hits(&user, cache.volume(0), 22);
    hits(&user, cache.volume(0), 22);
    let rest = manager.next_of(kind::HIT);
    assert_eq!((rest.first, cache.managers.counts().low), (22, 2));
}

#[test]
fn two_managers_have_a_process_each_and_a_process_has_one() {
    let cache = Cache::new("lru-sp", 20, &[100, 100]);
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let mut own = cache.register(0, 0);
    let mut other = cache.register(child.id(), 0);
    let mut second = cache.connect();
    second.say(kind::REGISTER, VERSION, me(), 0);
    second.expect_refused(Reason::Managed);
    let users = [cache.user(me()), cache.user(child.id().into())];
    other.say(kind::ADD, 0, cache.descriptor(1), 0);
    assert_eq!(other.next_of(kind::FILE).file, 1);
    for block in 0..10 {
        hits(&users[0], cache.volume(0), block);
        hits(&users[1], cache.volume(1), block);
    }
    own.say(kind::GIVE_UP, 0, 9, 1);
    other.say(kind::GIVE_UP, 1, 8, 1);
    cache
        .wait_until("each list has one block", |cache| cache.listed(me()) == 1 && cache.listed(child.id().into()) == 1);
    // Each owner's oldest block is a candidate, and each gives up its own.
    hits(&users[0], cache.volume(0), 90);
    hits(&users[0], cache.volume(0), 91);
    assert_eq!((own.next_of(kind::EVICTED).first, other.next_of(kind::EVICTED).first), (9, 8));
    child.kill().expect("it runs");
    child.wait().expect("it has been killed");
    while other.next().is_some() {}
    cache.wait_until("the owner has abdicated", |cache| cache.managers.counts().ended == 1);
}

#[test]
fn a_policy_without_managers_says_so() {
    let cache = Cache::new("clock-pro", 10, &[10]);
    let mut manager = cache.connect();
    manager.say(kind::REGISTER, VERSION, 0, 0);
    manager.expect_refused(Reason::Policy);
}
