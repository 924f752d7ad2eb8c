//! Recognises and decompresses arbitrary bytes, and reads them as what they are taken for.
#![no_main]

use forebay_trace::{Input, Options, reader};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(input) = Input::from_bytes("fuzz", bytes.to_vec()) else { return };
    if let Ok((_, mut reader)) = reader::read(input, &Options::default()) {
        forebay_fuzz::drain(&mut *reader);
    }
});
