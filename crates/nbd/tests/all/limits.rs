//! Limits of a server: memory, time and connections, over real sockets.

use crate::client;
use crate::running;

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Client, EINVAL, READ, WRITE, option};
use forebay_nbd::testing::Memory;
use forebay_nbd::{Config, Server};
use running::{PATIENCE, Running, memory, wait_until};

const MIB: u32 = 1 << 20;

/// Clients may rest for a moment only.
fn hasty() -> Config {
    Config { message: Duration::from_millis(100), buffers: 8 << 20, ..Config::default() }
}

/// What has been read of the one export.
fn read_bytes(running: &Running) -> u64 {
    running.server.exports()[0].1.read_bytes
}

#[test]
fn a_client_that_asks_for_much_and_takes_nothing_gets_no_more_than_its_share_and_is_closed() {
    for reluctant in [false, true] {
        let mut export = Memory::new("a", 1 << 20);
        export.reluctant = reluctant;
        let running = Running::new(vec![Arc::new(export)], hasty());
        let mut greedy = running.client("a");
        for cookie in 0..60 {
            greedy.send(READ, cookie, 0, MIB, &[]);
        }
        wait_until("the greedy client is closed", || running.server.counts().open == 0);
        assert!(read_bytes(&running) <= 6 << 20, "{} bytes were read for it", read_bytes(&running));
        let mut other = running.client("a");
        for _ in 0..20 {
            assert_eq!(other.ask(READ, 0, MIB, &[]), Ok(vec![0; MIB as usize]), "what it had has come back");
        }
    }
}

#[test]
fn all_that_is_asked_for_at_once_comes_though_the_budget_is_small() {
    let running = Running::new(vec![memory("a")], Config { message: PATIENCE, ..hasty() });
    let mut clients: Vec<_> = (0..8).map(|_| running.client("a")).collect();
    for client in &mut clients {
        for cookie in 0..10 {
            client.send(READ, cookie, 0, MIB, &[]);
        }
    }
    // None waits for the one before for ever: the last come first.
    let readers = clients.into_iter().rev().map(|mut client| {
        std::thread::spawn(move || {
            let mut cookies: Vec<_> = (0..10).map(|_| client.receive(MIB as usize).0).collect();
            cookies.sort_unstable();
            cookies
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        assert_eq!(reader.join().expect("no panic"), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn announced_writes_take_nothing_from_those_that_come() {
    let running = Running::new(vec![memory("a")], Config { message: PATIENCE, ..hasty() });
    let mut announcing: Vec<_> = (0..20).map(|_| running.client("a")).collect();
    for client in &mut announcing {
        client.send(WRITE, 1, 0, MIB, &[1; 1000]);
    }
    let mut writer = running.client("a");
    assert_eq!(writer.ask(WRITE, 0, MIB, &vec![2; MIB as usize]), Ok(Vec::new()));
    assert_eq!(writer.ask(READ, 0, MIB, &[]), Ok(vec![2; MIB as usize]));
}

#[test]
fn a_client_that_rests_or_trickles_within_a_request_is_closed() {
    let running = Running::new(vec![memory("a")], hasty());
    for data in [0, 1000, 200_000] {
        let mut client = running.client("a");
        client.send(WRITE, 1, 0, MIB, &vec![1; data]);
        assert!(client.ended(), "after {data} bytes");
    }
    let mut client = running.client("a").into_stream();
    let header = [0x25, 0x60, 0x95, 0x13];
    let begin = Instant::now();
    // A byte comes well before the client would be resting.
    while client.write_all(&header[..1]).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "the server closes though bytes come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_above_the_limit_are_closed() {
    let running = Running::new(vec![memory("a")], Config { connections: 1, ..Config::default() });
    let mut first = running.client("a");
    assert!(Client::new(running.connect()).ended());
    assert_eq!(first.ask(READ, 0, 1, &[]), Ok(vec![0]));
    assert_eq!((running.server.counts().open, running.server.counts().refused), (1, 1));
}

#[test]
fn a_new_connection_takes_the_place_of_the_longest_handshake() {
    let running = Running::new(vec![memory("a")], Config { connections: 3, ..Config::default() });
    let mut first = running.client("a");
    let mut silent: Vec<_> = (0..2).map(|_| Client::new(running.connect())).collect();
    silent.iter_mut().for_each(|client| assert_eq!(client.expect(18).len(), 18));
    let mut second = running.client("a");
    assert!(silent[0].ended(), "the one that has waited the longest");
    assert_eq!((first.ask(READ, 0, 1, &[]), second.ask(READ, 0, 1, &[])), (Ok(vec![0]), Ok(vec![0])));
    let mut third = running.client("a");
    assert!(silent[1].ended());
    assert!(Client::new(running.connect()).ended(), "all have an export now");
    assert_eq!(third.ask(READ, 0, 1, &[]), Ok(vec![0]));
}

#[test]
fn one_address_has_a_part_of_the_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut server =
        Server::new(vec![memory("a")], Config { connections: 4, ..Config::default() }).expect("good exports");
    server.listen(listener).expect("a thread");
    let connect = || {
        let stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    };
    let mut kept: Vec<_> = (0..3).map(|_| Client::enter(connect(), "a")).collect();
    assert!(Client::new(connect()).ended());
    assert_eq!(kept[0].ask(READ, 0, 1, &[]), Ok(vec![0]));
    assert_eq!((server.counts().open, server.counts().refused), (3, 1));
}

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let running = Running::new(vec![memory("a")], Config { handshake: Duration::from_millis(20), ..Config::default() });
    let mut client = Client::new(running.connect());
    client.expect(18);
    assert!(client.ended());
}

#[test]
fn options_are_limited_in_number_and_length() {
    let running = Running::new(vec![memory("a")], Config { options: 2, option_bytes: 10, ..Config::default() });
    let mut client = Client::new(running.connect());
    client.expect(18);
    client.raw(&3u32.to_be_bytes());
    client.raw(&option(3, &[0; 11]));
    assert_eq!(client.expect(20)[12..16], 0x8000_0009u32.to_be_bytes());
    client.expect("the option is too long".len());
    client.raw(&option(8, &[]));
    client.expect(20);
    assert!(client.ended());
}

#[test]
fn a_write_that_is_too_long_is_refused_and_passed_over() {
    let running = Running::new(vec![memory("a")], Config { request_bytes: 65536, ..Config::default() });
    let mut client = running.client("a");
    assert_eq!(client.ask(WRITE, 0, 300_000, &vec![7; 300_000]), Err(EINVAL));
    assert_eq!(client.ask(READ, 0, 4, &[]), Ok(vec![0; 4]));
}

#[test]
fn slow_clients_give_way_to_one_who_waits_for_their_memory() {
    // Their messages may take half an hour.
    let config = Config { message: PATIENCE * 60, buffers: 8 << 20, ..Config::default() };
    let running = Running::new(vec![Arc::new(Memory::new("a", 4 << 20))], config);
    let most = 2 * MIB;
    let mut slow: Vec<_> = (0..4).map(|_| running.client("a")).collect();
    for client in &mut slow {
        client.send(WRITE, 1, 0, most, &[1; 100_000]);
    }
    // Three have taken what there is, and one waits for it.
    std::thread::sleep(Duration::from_millis(100));
    let mut other = running.client("a");
    let begin = Instant::now();
    assert_eq!(other.ask(WRITE, 0, most, &vec![2; most as usize]), Ok(Vec::new()));
    assert!(begin.elapsed() > Duration::from_secs(1), "it waited for them");
    wait_until("somebody is closed who rested while others waited", || running.server.counts().open < 5);
    assert_eq!(other.ask(READ, 0, 1, &[]), Ok(vec![2]));
}
