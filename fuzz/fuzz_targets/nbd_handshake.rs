//! A client of the NBD server that says anything from the start.
#![no_main]

use std::sync::Arc;

use forebay_nbd::Config;
use forebay_nbd::testing::{Memory, converse};

libfuzzer_sys::fuzz_target!(|said: &[u8]| {
    let config = Config { workers: 1, ..Config::default() };
    let told = converse(Arc::new(Memory::new("vol", 1 << 16)), &config, said, 61);
    assert!(told.starts_with(b"NBDMAGICIHAVEOPT\0\x03"));
});
