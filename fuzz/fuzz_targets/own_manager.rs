//! A manager of a program's own that says anything.
#![no_main]

use forebay_owning::testing::converse;

libfuzzer_sys::fuzz_target!(|said: &[u8]| {
    converse(&said[..said.len().min(64 * forebay_owning::LENGTH)]);
});
