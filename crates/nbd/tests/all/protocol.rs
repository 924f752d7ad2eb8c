//! The transmission phase byte by byte, over a stream in memory.

use std::sync::Arc;

use forebay_nbd::testing::{Memory, converse};
use forebay_nbd::{Config, Features};
use proptest::prelude::*;

const SIZE: usize = 1 << 16;

/// The client's part up to transmission with `EXPORT_NAME`; the server's part of it is 28 bytes.
const ENTER: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";

/// The same with structured replies and `base:allocation`; the server's part is what [`structured`] cuts off.
const ENTER_STRUCTURED: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
    IHAVEOPT\0\0\0\x01\0\0\0\0";

/// With extended headers, `base:allocation` and GO.
const ENTER_EXTENDED: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x0b\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
    IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

fn config() -> Config {
    Config { in_flight: 4, in_flight_bytes: 65536, request_bytes: 65536, workers: 2, ..Config::default() }
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = b"\x25\x60\x95\x13".to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn answers(memory: Memory, enter: &[u8], requests: &[Vec<u8>], step: usize, skip: usize) -> Vec<u8> {
    let said = [enter, &requests.concat()].concat();
    converse(Arc::new(memory), &config(), &said, step).split_off(skip)
}

fn simple(requests: &[Vec<u8>]) -> Vec<u8> {
    answers(Memory::new("", SIZE), ENTER, requests, usize::MAX, 28)
}

fn structured(requests: &[Vec<u8>]) -> Vec<u8> {
    answers(Memory::new("", SIZE), ENTER_STRUCTURED, requests, usize::MAX, 18 + 20 + (20 + 19) + 20 + 10)
}

fn extended(requests: &[Vec<u8>]) -> Vec<u8> {
    let greeting = 18 + 20 + (20 + 19) + 20;
    let go = (20 + 12) + (20 + 14) + 20;
    answers(Memory::new("", SIZE), ENTER_EXTENDED, requests, usize::MAX, greeting + go)
}

fn extended_request(flags: u16, command: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = b"\x21\xe4\x1c\x71".to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A chunk that is a whole extended reply.
fn extended_reply(kind: u16, cookie: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x6e\x8a\x27\x8c\0\x01".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend((payload.len() as u64).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn write(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    [&request(0, 1, cookie, offset, data.len() as u32)[..], data].concat()
}

#[test]
fn a_read_gives_what_a_write_has_put_there() {
    let told = simple(&[write(1, 5, b"abc"), request(0, 0, 2, 4, 5)]);
    assert_eq!(told, b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x02\0abc\0");
    let told = structured(&[write(1, 5, b"abc"), request(1 << 2, 0, 2, 4, 5)]);
    assert_eq!(
        told,
        b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x01\
        \x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x0d\0\0\0\0\0\0\0\x04\0abc\0"
    );
}

#[test]
fn extended_headers_have_lengths_of_64_bits_and_writes_that_say_so() {
    let data = 1 << 5;
    let write = [extended_request(data, 1, 1, 5, 3), b"abc".to_vec()].concat();
    let told = extended(&[write, extended_request(0, 0, 2, 4, 5)]);
    let read = extended_reply(1, 2, 4, b"\0\0\0\0\0\0\0\x04\0abc\0");
    assert_eq!(told, [extended_reply(0, 1, 5, b""), read].concat());
    let told = extended(&[extended_request(0, 7, 3, 512, 8192)]);
    assert_eq!(told, extended_reply(6, 3, 512, b"\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\x03"));
    // 5 GiB are too much for this export; data that no command takes are passed over.
    let refused = [extended_request(data, 4, 4, 0, 3), b"xyz".to_vec()].concat();
    let told = extended(&[extended_request(0, 4, 3, 0, 5 << 30), refused, extended_request(0, 3, 5, 0, 0)]);
    let error = |cookie: u8| [&b"\x6e\x8a\x27\x8c\0\x01\x80\x01\0\0\0\0\0\0\0"[..], &[cookie]].concat();
    // In any order, as threads share the work.
    for expected in [error(3), error(4), extended_reply(0, 5, 0, b"")] {
        assert!(told.windows(expected.len()).any(|bytes| bytes == expected), "{expected:?}");
    }
    assert_eq!(extended(&[request(0, 0, 1, 0, 4), extended_request(0, 3, 5, 0, 0)]), b"", "another magic ends it");
    let endless = extended_request(data, 1, 1, 0, u64::MAX);
    assert_eq!(extended(&[endless, extended_request(0, 3, 5, 0, 0)]), b"", "so does data without end");
}

#[test]
fn zeroes_are_fast_or_refused_at_once() {
    let fast = 1 << 4;
    assert_eq!(simple(&[request(fast, 6, 9, 0, 512)]), b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x09");
    let told = simple(&[request(fast | 1 << 1, 6, 9, 0, 512)]);
    assert_eq!(told, b"\x67\x44\x66\x98\0\0\0\x5f\0\0\0\0\0\0\0\x09", "ENOTSUP");
}

#[test]
fn commands_without_data_are_answered_done() {
    let fua = 1;
    for (flags, command, offset, length) in
        [(0, 3, 0, 0), (0, 4, 512, 512), (fua, 4, 512, 512), (0, 5, 0, 4096), (0, 6, 0, 512), (1 << 1, 6, 0, 512)]
    {
        // Beside structured replies simple ones are allowed where nothing is given back.
        for told in [simple, structured] {
            let told = told(&[request(flags, command, 9, offset, length)]);
            assert_eq!(told, b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x09", "command {command}");
        }
    }
}

#[test]
fn a_write_with_fua_is_answered_when_it_is_written() {
    let mut durable = request(1, 1, 3, 0, 2);
    durable.extend(b"hi");
    assert_eq!(simple(&[durable]), b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x03");
}

/// The reply to a request that follows a write of the second block; the two replies may come in any order.
fn after_write(request: Vec<u8>) -> Vec<u8> {
    let told = structured(&[write(0, 4096, b"x"), request]);
    let done = b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\0";
    told.strip_prefix(done).or_else(|| told.strip_suffix(done)).expect("the write is answered").to_vec()
}

#[test]
fn block_status_tells_holes_and_one_extent_if_one_is_wanted() {
    let status = b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x01\0\0\0";
    let told = structured(&[request(0, 7, 1, 100, 8192)]);
    assert_eq!(told, [&status[..], b"\x0c\0\0\0\x01\0\0\x20\0\0\0\0\x03"].concat());
    let told = after_write(request(0, 7, 1, 0, 12288));
    let three = b"\x1c\0\0\0\x01\0\0\x10\0\0\0\0\x03\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\x03";
    assert_eq!(told, [&status[..], three].concat());
    let told = after_write(request(1 << 3, 7, 1, 0, 12288));
    assert_eq!(told, [&status[..], b"\x0c\0\0\0\x01\0\0\x10\0\0\0\0\x03"].concat());
    assert_eq!(simple(&[request(0, 7, 1, 0, 512)])[4..8], 22u32.to_be_bytes(), "it was not selected");
}

#[test]
fn errors_have_their_number_and_leave_the_connection() {
    let read_only = || {
        let mut memory = Memory::new("", SIZE);
        memory.features = Features { read_only: true, ..memory.features };
        memory
    };
    let told = answers(read_only(), ENTER, &[write(1, 0, b"abc"), request(0, 0, 2, 0, 1)], usize::MAX, 28);
    assert_eq!(told, b"\x67\x44\x66\x98\0\0\0\x01\0\0\0\0\0\0\0\x01\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x02\0");
    let told = simple(&[write(1, SIZE as u64 - 1, b"abc"), request(0, 99, 2, 0, 1), request(0, 0, 3, 0, 0)]);
    assert_eq!(
        told,
        b"\x67\x44\x66\x98\0\0\0\x1c\0\0\0\0\0\0\0\x01\x67\x44\x66\x98\0\0\0\x16\0\0\0\0\0\0\0\x02\
        \x67\x44\x66\x98\0\0\0\x16\0\0\0\0\0\0\0\x03"
    );
    let told = structured(&[request(0, 0, 1, 0, 0)]);
    assert_eq!(told[..20], *b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x01\0\0\0\x15");
    assert_eq!(told[20..], *b"\0\0\0\x16\0\x0fthe length is 0");
}

#[test]
fn nothing_follows_a_disconnect_or_a_wrong_magic() {
    assert_eq!(simple(&[request(0, 2, 1, 0, 0), request(0, 0, 2, 0, 1)]), b"");
    assert_eq!(simple(&[vec![0; 28], request(0, 0, 2, 0, 1)]), b"");
}

#[test]
fn what_is_answered_does_not_depend_on_how_the_bytes_arrive() {
    let requests =
        [write(1, 0, &[7; 5000]), request(0, 0, 2, 0, 60000), write(3, 9, &[8; 65536 - 9]), request(0, 0, 4, 0, 65536)];
    let whole = simple(&requests);
    assert_eq!(whole.len(), 4 * 16 + 60000 + 65536);
    for step in [1, 27, 28, 4096] {
        assert!(answers(Memory::new("", SIZE), ENTER, &requests, step, 28) == whole, "{step} bytes at a time");
    }
}

/// The cookies of simple replies that are all well and without data.
fn cookies(told: &[u8]) -> Vec<u64> {
    let replies = told.as_chunks::<16>().0.iter();
    replies.map(|reply| reply[8..].iter().fold(0, |cookie, &byte| cookie << 8 | u64::from(byte))).collect()
}

#[test]
fn each_request_is_answered_once_though_threads_share_the_work() {
    let requests: Vec<_> = (0..500).map(|n| write(n, n * 16, &[n as u8; 16])).collect();
    for step in [44, 1000, usize::MAX] {
        let mut memory = Memory::new("", SIZE);
        memory.reluctant = true;
        let told = answers(memory, ENTER, &requests, step, 28);
        let mut answered = cookies(&told);
        answered.sort_unstable();
        assert_eq!(answered, (0..500).collect::<Vec<_>>(), "{step} bytes at a time");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_extended_requests_are_answered_or_end_the_connection(
        requests in prop::collection::vec((0u16..64, 0u16..9, any::<u16>(), 0u64..100_000), 0..12),
        step in 1usize..5000,
    ) {
        let requests: Vec<_> = requests
            .into_iter()
            .enumerate()
            .map(|(n, (flags, command, offset, length))| extended_request(flags, command, n as u64, offset.into(), length))
            .collect();
        answers(Memory::new("", SIZE), ENTER_EXTENDED, &requests, step, 0);
    }

    #[test]
    fn any_bytes_are_answered_or_end_the_connection(said: Vec<u8>, step in 1usize..64) {
        let told = converse(Arc::new(Memory::new("", SIZE)), &config(), &said, step);
        prop_assert_eq!(&told[..18], b"NBDMAGICIHAVEOPT\0\x03");
    }

    #[test]
    fn any_options_are_answered_or_end_the_connection(
        options in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..30)), 0..8)
    ) {
        let mut said = b"\0\0\0\x03".to_vec();
        for (option, data) in options {
            said.extend(b"IHAVEOPT");
            said.extend(option.to_be_bytes());
            said.extend((data.len() as u32).to_be_bytes());
            said.extend(data);
        }
        converse(Arc::new(Memory::new("", SIZE)), &config(), &said, usize::MAX);
    }

    #[test]
    fn any_requests_are_answered_with_no_more_than_they_ask(
        requests in prop::collection::vec((0u16..32, 0u16..9, any::<u16>(), 0u32..100_000), 0..12),
        step in 1usize..5000,
    ) {
        let asked: usize = requests.iter().filter(|request| request.1 == 0).map(|request| request.3 as usize).sum();
        let requests: Vec<_> = requests
            .into_iter()
            .enumerate()
            .map(|(n, (flags, command, offset, length))| request(flags, command, n as u64, offset.into(), length))
            .collect();
        let told = answers(Memory::new("", SIZE), ENTER, &requests, step, 28);
        prop_assert!(told.len() <= asked + 16 * requests.len());
    }
}
