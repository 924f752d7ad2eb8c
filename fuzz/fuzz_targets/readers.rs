//! Reads arbitrary bytes as a trace in the format that the first byte chooses.
#![no_main]

use forebay_trace::FORMATS;

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (number, bytes) = input;
    forebay_fuzz::read_as(FORMATS[usize::from(number) % FORMATS.len()].name, bytes);
});
