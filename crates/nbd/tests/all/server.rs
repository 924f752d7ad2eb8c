//! A server over real sockets: faults, reload, stop and TLS.

use crate::client;
use crate::running;

use std::net::TcpListener;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{CACHE, Client, DISCONNECT, EIO, ESHUTDOWN, FLUSH, FUA, READ, TRIM, WRITE, option};
use forebay_nbd::testing::Memory;
use forebay_nbd::{Config, Errno, Export, Extent, Failure, Features, Identity, Limits, Server, Session, Tls};
use running::{PATIENCE, Running, memory, wait_until};

/// An export whose reads wait for a word, and whose reads of the last block panic.
struct Stalling {
    begun: Mutex<Sender<u64>>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Stalling {
    fn new() -> (Arc<Self>, Receiver<u64>, Sender<()>) {
        let ((begun, watch), (go, wait)) = (channel(), channel());
        (Arc::new(Self { begun: Mutex::new(begun), go: Arc::new(Mutex::new(wait)) }), watch, go)
    }
}

impl Export for Stalling {
    fn name(&self) -> &str {
        "stalling"
    }
    fn description(&self) -> &str {
        ""
    }
    fn size(&self) -> u64 {
        1 << 20
    }
    fn features(&self) -> Features {
        Features { read_only: false, multi_conn: false, rotational: false, fast_zero: false }
    }
    fn limits(&self) -> Limits {
        Limits { minimum: 1, preferred: 4096, maximum: 1 << 20 }
    }
    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        let begun = self.begun.lock().expect("not poisoned").clone();
        Ok(Box::new(StallingSession { begun, go: Arc::clone(&self.go) }))
    }
    fn commit(&self, _: &[Range<u64>]) -> Result<(), Failure> {
        Ok(())
    }
}

struct StallingSession {
    begun: Sender<u64>,
    go: Arc<Mutex<Receiver<()>>>,
}

/// Reads of the first block are hits.
const HIT: u64 = 0;
const STALL: u64 = 4096;
const PANIC: u64 = 8192;

impl Session for StallingSession {
    fn try_read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        buffer.fill(1);
        offset == HIT
    }
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        assert!(offset != PANIC, "as the test wants");
        self.begun.send(offset).expect("the test watches");
        self.go.lock().expect("not poisoned").recv_timeout(2 * PATIENCE).expect("the test tells it to go on");
        buffer.fill(2);
        Ok(())
    }
    fn try_write(&mut self, _: u64, _: &[u8]) -> bool {
        true
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }
    fn trim(&mut self, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }
    fn write_zeroes(&mut self, _: u64, _: u64, _: bool) -> Result<(), Failure> {
        Ok(())
    }
    fn cache(&mut self, offset: u64, _: u64) -> Result<u64, Failure> {
        self.begun.send(offset).expect("the test watches");
        self.go.lock().expect("not poisoned").recv_timeout(2 * PATIENCE).expect("the test tells it to go on");
        Ok(512)
    }
    fn status(&mut self, _: u64, length: u64) -> Result<Vec<Extent>, Failure> {
        Ok(vec![Extent { length, hole: false, zero: false }])
    }
}

/// An export in memory whose commits wait for their answer.
struct Committing {
    memory: Memory,
    begun: Mutex<Sender<Vec<Range<u64>>>>,
    answers: Mutex<Receiver<Result<(), Failure>>>,
}

impl Export for Committing {
    fn name(&self) -> &str {
        self.memory.name()
    }
    fn description(&self) -> &str {
        self.memory.description()
    }
    fn size(&self) -> u64 {
        self.memory.size()
    }
    fn features(&self) -> Features {
        self.memory.features()
    }
    fn limits(&self) -> Limits {
        self.memory.limits()
    }
    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        self.memory.session()
    }
    fn commit(&self, ranges: &[Range<u64>]) -> Result<(), Failure> {
        self.begun.lock().expect("not poisoned").send(ranges.to_vec()).expect("the test watches");
        self.answers.lock().expect("not poisoned").recv_timeout(PATIENCE).expect("the test answers")
    }
}

#[test]
fn requests_that_wait_for_a_flush_share_the_next_and_take_no_worker() {
    let ((begun, watch), (answer, answers)) = (channel(), channel());
    let memory = Memory::new("a", 1 << 20);
    let export = Committing { memory, begun: Mutex::new(begun), answers: Mutex::new(answers) };
    let running = Running::new(vec![Arc::new(export)], Config { workers: 1, ..Config::default() });
    let begins = || watch.recv_timeout(PATIENCE).expect("a commit begins");
    let (mut first, mut second) = (running.client("a"), running.client("a"));
    first.send(FLUSH, 1, 0, 0, &[]);
    assert_eq!(begins(), std::slice::from_ref(&(0..u64::MAX)));
    second.send(FLUSH, 2, 0, 0, &[]);
    second.send_with(FUA, WRITE, 3, 4096, 512, &[5; 512]);
    second.send(TRIM, 4, 0, 512, &[]);
    assert_eq!(second.receive(0), (4, Ok(Vec::new())), "the one worker is free");
    answer.send(Ok(())).expect("a commit waits");
    assert_eq!(first.receive(0), (1, Ok(Vec::new())));
    assert_eq!(begins(), [0..u64::MAX, 4096..4608]);
    answer.send(Err(Failure { errno: Errno::Io, message: "as the test wants".into() })).expect("a commit waits");
    assert_eq!(second.receive(0), (2, Err(EIO)), "the error is everybody's");
    assert_eq!(second.receive(0), (3, Err(EIO)), "the error is everybody's");
    assert_eq!(second.ask(READ, 4096, 512, &[]), Ok(vec![5; 512]));
}

#[test]
fn what_one_client_writes_another_reads() {
    let running = Running::new(vec![memory("a")], Config::default());
    let (mut first, mut second) = (running.client("a"), running.client("a"));
    let data: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    assert_eq!(first.ask(WRITE, 3, 200_000, &data), Ok(Vec::new()));
    assert_eq!(first.ask(FLUSH, 0, 0, &[]), Ok(Vec::new()));
    assert_eq!(second.ask(READ, 3, 200_000, &[]), Ok(data));
    drop((first, second));
    assert_eq!(running.server.exports()[0].1.written_bytes, 200_000);
    assert_eq!(running.server.stop(PATIENCE), 0);
}

#[test]
fn tcp_is_served_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut server = Server::new(vec![memory("a")], Config::default()).expect("good exports");
    server.listen(listener).expect("a thread");
    let mut client = Client::enter(std::net::TcpStream::connect(address).expect("it listens"), "a");
    assert_eq!(client.ask(READ, 0, 2, &[]), Ok(vec![0; 2]));
    client.send(DISCONNECT, 0, 0, 0, &[]);
    assert!(client.ended());
    assert_eq!(server.stop(PATIENCE), 0);
}

#[test]
fn a_stalled_read_holds_up_no_other_request() {
    let (export, begun, go) = Stalling::new();
    let running = Running::new(vec![export, memory("b")], Config { workers: 1, ..Config::default() });
    let mut client = running.client("stalling");
    client.send(READ, 1, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL), "the request that stalls begins");
    assert_eq!(client.ask(READ, HIT, 512, &[]), Ok(vec![1; 512]), "a hit of the same connection");
    let mut other = running.client("b");
    assert_eq!(other.ask(FLUSH, 0, 0, &[]), Ok(Vec::new()), "a request of another export that may wait");
    go.send(()).expect("it waits");
    assert_eq!(client.receive(512), (1, Ok(vec![2; 512])));
}

#[test]
fn a_panic_is_an_error_to_its_client_and_no_harm_to_the_server() {
    let (export, _begun, _go) = Stalling::new();
    let running = Running::new(vec![export], Config::default());
    let mut client = running.client("stalling");
    assert_eq!(client.ask(READ, PANIC, 512, &[]), Err(EIO));
    assert_eq!(client.ask(READ, HIT, 512, &[]), Ok(vec![1; 512]));
    assert_eq!(running.server.stop(PATIENCE), 0);
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_refuses_what_comes_meanwhile() {
    let (export, begun, go) = Stalling::new();
    let running = Running::new(vec![export], Config::default());
    let mut client = running.client("stalling");
    client.send(READ, 1, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL), "the request that stalls begins");
    let Running { server, directory } = running;
    let stopping = std::thread::spawn(move || server.stop(PATIENCE));
    // The answer changes once the stop has been told; the stalled request keeps the connection alive meanwhile.
    let begin = Instant::now();
    while client.ask(READ, HIT, 512, &[]) != Err(ESHUTDOWN) {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: requests are refused once the stop is told");
    }
    go.send(()).expect("it waits");
    assert_eq!(client.receive(512), (1, Ok(vec![2; 512])));
    assert!(client.ended());
    assert_eq!(stopping.join().expect("no panic"), 0);
    drop(directory);
}

#[test]
fn a_stop_cuts_off_who_is_not_done_in_time() {
    let (export, begun, go) = Stalling::new();
    let running = Running::new(vec![export], Config::default());
    let mut client = running.client("stalling");
    client.send(READ, 1, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL), "the request that stalls begins");
    assert_eq!(running.server.stop(Duration::ZERO), 1);
    assert!(client.ended());
    go.send(()).expect("it waits");
}

#[test]
fn a_client_that_takes_no_replies_holds_up_nobody() {
    let (export, begun, go) = Stalling::new();
    let running = Running::new(vec![export], Config { workers: 1, ..Config::default() });
    let mut stuck = running.client("stalling");
    stuck.send(READ, 1, STALL, 1 << 19, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL), "the request that stalls begins");
    go.send(()).expect("it waits");
    // The one worker leaves the reply, which is larger than the socket's buffer, and is free for others.
    let mut other = running.client("stalling");
    other.send(READ, 2, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL), "the request that stalls begins");
    go.send(()).expect("it waits");
    assert_eq!(other.receive(512), (2, Ok(vec![2; 512])));
    assert_eq!(stuck.receive(1 << 19), (1, Ok(vec![2; 1 << 19])), "nothing is lost once it does take them");
    assert_eq!(stuck.ask(READ, HIT, 512, &[]), Ok(vec![1; 512]));
}

#[test]
fn a_client_that_asks_for_nothing_is_closed_if_that_is_wanted_and_one_that_waits_is_not() {
    let (export, begun, go) = Stalling::new();
    let config = Config { idle: Some(Duration::from_millis(50)), ..Config::default() };
    let running = Running::new(vec![export, memory("a")], config);
    let mut waiting = running.client("stalling");
    waiting.send(READ, 1, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL));
    assert!(running.client("a").ended());
    go.send(()).expect("it waits");
    assert_eq!(waiting.receive(512), (1, Ok(vec![2; 512])));
    assert!(waiting.ended());
}

#[test]
fn hints_are_done_one_after_the_other_in_parts_and_called_off_when_the_client_leaves() {
    let (export, begun, go) = Stalling::new();
    let running = Running::new(vec![export], Config::default());
    let mut client = running.client("stalling");
    for number in 0..20 {
        client.send(CACHE, number, 4096 * number, 1024, &[]);
    }
    let next = || begun.recv_timeout(PATIENCE);
    assert_eq!(next(), Ok(0));
    assert_eq!(client.ask(READ, HIT, 512, &[]), Ok(vec![1; 512]), "hints hold up no request");
    for expected in [512, 4096, 4096 + 512, 8192] {
        assert!(begun.try_recv().is_err(), "one at a time");
        go.send(()).expect("it waits");
        assert_eq!(next(), Ok(expected));
    }
    drop(client);
    // Until the server knows that the client has gone, parts may go on.
    let (begin, mut parts) = (Instant::now(), 1);
    go.send(()).expect("it waits");
    while running.server.counts().open > 0 {
        assert!(begin.elapsed() < PATIENCE, "the connection ends");
        if begun.recv_timeout(Duration::from_millis(20)).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            go.send(()).expect("it waits");
            parts += 1;
        }
    }
    assert!(parts < 30, "{parts} of 35 parts were fetched for nobody");
}

#[test]
fn a_flood_of_hints_is_answered() {
    let running = Running::new(vec![memory("a")], Config::default());
    let mut client = running.client("a");
    for number in 0..500 {
        client.send(CACHE, number, 0, 1 << 20, &[]);
    }
    let mut cookies: Vec<_> =
        (0..500).map(|_| client.receive(0)).map(|(cookie, outcome)| (cookie, outcome.is_ok())).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..500).map(|number| (number, true)).collect::<Vec<_>>());
}

#[test]
fn new_exports_are_for_new_connections() {
    let running = Running::new(vec![memory("a")], Config::default());
    let mut old = running.client("a");
    running.server.replace(vec![memory("b")]).expect("good exports");
    assert_eq!(old.ask(READ, 0, 1, &[]), Ok(vec![0]));
    let mut new = running.client("b");
    assert_eq!(new.ask(READ, 0, 1, &[]), Ok(vec![0]));
    assert!(running.server.replace(vec![memory("b"), memory("b")]).is_err());
    let names: Vec<_> = running.server.exports().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn an_export_that_is_replaced_is_let_go_at_once() {
    let running = Running::new(vec![memory("a")], Config::default());
    let (export, begun, go) = Stalling::new();
    running.server.replace(vec![Arc::clone(&export) as Arc<dyn Export>]).expect("good exports");
    let mut client = running.client("stalling");
    let mut shaking = Client::new(running.connect());
    shaking.expect(18);
    shaking.raw(&[&3u32.to_be_bytes(), &option(3, b"")[..]].concat());
    shaking.expect(20);
    client.send(READ, 1, STALL, 512, &[]);
    assert_eq!(begun.recv_timeout(PATIENCE), Ok(STALL));
    running.server.replace(vec![memory("b")]).expect("good exports");
    go.send(()).expect("it waits");
    assert_eq!(client.receive(512), (1, Ok(vec![2; 512])));
    let begin = Instant::now();
    drop(client);
    // A thread without work ends after 10 s; so does a handshake.
    wait_until("nobody has the export", || Arc::strong_count(&export) == 1);
    assert!(begin.elapsed() < Duration::from_secs(5), "it was not waited for a thread without work");
    drop(shaking);
}

#[test]
fn an_export_may_limit_its_connections() {
    let mut export = Memory::new("a", 1 << 20);
    export.most_connections = Some(1);
    let running = Running::new(vec![Arc::new(export)], Config::default());
    let first = running.client("a");
    let mut second = Client::new(running.connect());
    second.expect(18);
    let go = [&1u32.to_be_bytes()[..], b"a", &0u16.to_be_bytes()].concat();
    second.raw(&[&3u32.to_be_bytes(), &option(7, &go)[..]].concat());
    assert_eq!(second.expect(20)[12..16], 0x8000_0002u32.to_be_bytes(), "ERR_POLICY");
    second.expect("the export has as many connections as it may have".len());
    drop(first);
    wait_until("the first has left", || running.server.counts().open == 1);
    second.choose("a");
    assert_eq!(second.ask(READ, 0, 1, &[]), Ok(vec![0]));
}

#[test]
fn malformed_input_ends_its_connection_alone() {
    let running = Running::new(vec![memory("a")], Config::default());
    let (mut good, mut bad) = (running.client("a"), running.client("a"));
    bad.raw(&[0xff; 28]);
    assert!(bad.ended());
    assert_eq!(good.ask(READ, 0, 1, &[]), Ok(vec![0]));
    assert_eq!(running.server.stop(PATIENCE), 0);
}

/// A certificate and a key that sign for themselves, as files, and the certificate for the client.
fn certificate(directory: &std::path::Path, name: &str) -> rustls::pki_types::CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(directory.join(format!("{name}.pem")), made.cert.pem()).expect("written");
    std::fs::write(directory.join(format!("{name}.key")), made.signing_key.serialize_pem()).expect("written");
    made.cert.der().clone()
}

#[test]
fn tls_carries_requests_and_replies_of_all_lengths() {
    let directory = tempfile::tempdir().expect("a directory");
    let trusted = certificate(directory.path(), "server");
    let file = |name: &str| directory.path().join(name);
    let identity = Identity::from_files(&file("server.pem"), &file("server.key"), None).expect("a good pair");
    let running = Running::new(vec![memory("a")], Config { tls: Tls::Required(identity), ..Config::default() });
    let mut clear = Client::new(running.connect());
    clear.expect(18);
    clear.raw(&[&3u32.to_be_bytes(), &option(1, b"a")[..]].concat());
    assert!(clear.ended(), "without TLS it has no export");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = Client::new(running.connect());
    client.expect(18);
    client.raw(&[&3u32.to_be_bytes(), &option(5, b"")[..]].concat());
    assert_eq!(client.expect(20)[12..16], 1u32.to_be_bytes());
    let tls = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("TLS");
    let mut client = Client::new(rustls::StreamOwned::new(tls, client.into_stream()));
    client.choose("a");
    let data: Vec<u8> = (0..700_000u32).map(|n| (n >> 3) as u8).collect();
    assert_eq!(client.ask(WRITE, 5, 700_000, &data), Ok(Vec::new()));
    assert_eq!(client.ask(READ, 5, 700_000, &[]), Ok(data));
    assert_eq!(client.ask(READ, 0, 1, &[]), Ok(vec![0]));
    assert_eq!(client.ask(FLUSH, 0, 0, &[]), Ok(Vec::new()), "by a worker");
    assert_eq!(running.server.stop(PATIENCE), 0);
}

#[test]
fn a_missing_key_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    certificate(directory.path(), "server");
    let file = |name: &str| directory.path().join(name);
    let refused = Identity::from_files(&file("server.pem"), &file("none.key"), None).expect_err("no key");
    assert!(refused.to_string().contains("none.key"), "{refused}");
    let refused = Identity::from_files(&file("server.key"), &file("server.key"), None).expect_err("no certificate");
    assert!(refused.to_string().contains("no certificate"), "{refused}");
}

#[test]
fn a_thread_spins_for_a_client_that_comes_quickly_where_a_processor_is_to_spare_and_never_without_leave() {
    // The bound is longer than any request takes to come, on a busy machine too.
    for (spin, spins) in [(PATIENCE, true), (Duration::ZERO, false)] {
        let running = Running::new(vec![memory("a")], Config { spin, ..Config::default() });
        let mut client = running.client("a");
        for _ in 0..200 {
            // The server's thread has nothing to do before the next request comes: it sleeps, or spins.
            std::thread::sleep(Duration::from_millis(1));
            assert!(client.ask(READ, 0, 512, &[]).is_ok());
        }
        let counts = running.server.counts();
        if !spins {
            assert_eq!((counts.spins_paid, counts.spins_vain), (0, 0));
        } else if std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
            assert!(counts.spins_paid > 0, "{counts:?}");
        }
        assert!(counts.spins_paid <= 200 && counts.spins_vain == 0, "{counts:?}");
        client.send(DISCONNECT, 0, 0, 0, &[]);
        assert!(client.ended());
        assert_eq!(running.server.stop(PATIENCE), 0);
    }
}
