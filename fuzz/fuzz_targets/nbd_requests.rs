//! A client of the NBD server that says anything after it has chosen an export: with `base:allocation` and structured replies or
//! extended headers, as the first byte says, and all of it taking the way of requests that may wait if the second is odd.
#![no_main]

use std::sync::Arc;

use forebay_nbd::Config;
use forebay_nbd::testing::{Memory, converse};

const FLAGS: &[u8] = b"\0\0\0\x03";
const STRUCTURED: &[u8] = b"IHAVEOPT\0\0\0\x08\0\0\0\0";
const EXTENDED: &[u8] = b"IHAVEOPT\0\0\0\x0b\0\0\0\0";
const ALLOCATION: &[u8] = b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
const EXPORT_NAME: &[u8] = b"IHAVEOPT\0\0\0\x01\0\0\0\0";
const GO: &[u8] = b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";

libfuzzer_sys::fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (form, reluctant, step, requests) = input;
    let said = match form % 3 {
        0 => [FLAGS, EXPORT_NAME, requests].concat(),
        1 => [FLAGS, STRUCTURED, ALLOCATION, EXPORT_NAME, requests].concat(),
        _ => [FLAGS, EXTENDED, ALLOCATION, GO, requests].concat(),
    };
    let mut memory = Memory::new("", 1 << 16);
    memory.reluctant = reluctant & 1 == 1;
    let config = Config { workers: 2, in_flight: 4, in_flight_bytes: 65536, ..Config::default() };
    let told = converse(Arc::new(memory), &config, &said, usize::from(step));
    assert!(told.len() >= 28);
});
