//! Reads arbitrary bytes as a trace in the format `alibaba`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::read_as("alibaba", bytes));
