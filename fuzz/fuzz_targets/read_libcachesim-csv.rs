//! Reads arbitrary bytes as a trace in the format `libcachesim-csv`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::read_as("libcachesim-csv", bytes));
