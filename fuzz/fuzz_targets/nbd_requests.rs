//! A client of the NBD server that says anything after it has chosen an export: with structured replies and `base:allocation`
//! if the first byte is odd, and all of it taking the way of requests that may wait if the second is.
#![no_main]

use std::sync::Arc;

use forebay_nbd::Config;
use forebay_nbd::testing::{Memory, converse};

const STRUCTURED: &[u8] = b"IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";

libfuzzer_sys::fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (structured, reluctant, step, requests) = input;
    let options = if structured & 1 == 1 { STRUCTURED } else { &[] };
    let said = [&b"\0\0\0\x03"[..], options, b"IHAVEOPT\0\0\0\x01\0\0\0\0", requests].concat();
    let mut memory = Memory::new("", 1 << 16);
    memory.reluctant = reluctant & 1 == 1;
    let config = Config { workers: 2, in_flight: 4, in_flight_bytes: 65536, ..Config::default() };
    let told = converse(Arc::new(memory), &config, &said, usize::from(step));
    assert!(told.len() >= 28);
});
