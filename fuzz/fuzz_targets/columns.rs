//! Reads a first line as columns, and the rest as a CSV or JSON lines with these columns.
#![no_main]

use forebay_trace::formats::csv::Columns;
use forebay_trace::{Input, Options, reader};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (columns, csv) = text.split_once('\n').unwrap_or((text, ""));
    match Columns::parse(columns) {
        Err(message) => assert!(!message.is_empty()),
        Ok(columns) => {
            assert!(!columns.is_empty());
            let Ok(input) = Input::from_bytes("fuzz", csv.to_owned()) else { return };
            if let Ok((_, mut reader)) = reader::read(input, &Options { format: None, columns }) {
                forebay_fuzz::drain(&mut *reader);
            }
        }
    }
});
