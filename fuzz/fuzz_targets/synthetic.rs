//! Reads an arbitrary text as the spec of a synthetic trace, and begins the trace.
#![no_main]

use forebay_trace::synthetic;

libfuzzer_sys::fuzz_target!(|spec: &str| {
    let opened = synthetic::open(spec);
    // A name that is no spec opens a file, so no such text may start a generator.
    assert!(opened.is_err() || synthetic::recognise(spec));
    if let Ok(mut reader) = opened {
        forebay_fuzz::drain(&mut *reader);
    }
});
