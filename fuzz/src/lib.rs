//! What the fuzz targets share.

use forebay_trace::{Input, Names, Options, Reader, reader};

/// This many requests are read at most: a short input can name a long trace.
const MOST: usize = 4096;

/// Reads `bytes` as a trace of the named format. An error is as good as a request; a panic is what is looked for.
pub fn read_as(format: &str, bytes: &[u8]) {
    let options = Options { format: Some(format.to_owned()), ..Options::default() };
    // The copy lives as long as the reader.
    let opened = Input::from_bytes("fuzz", bytes.to_vec()).and_then(|input| reader::read(input, &options));
    if let Ok((_, mut reader)) = opened {
        drain(&mut *reader);
    }
}

/// Reads up to some thousand requests, and uses what a caller would: the unit, and the names of owner and object.
pub fn drain(reader: &mut dyn Reader) {
    let mut names = Names::new();
    let _ = reader.unit();
    for _ in 0..MOST {
        match reader.next(&mut names) {
            Ok(Some(request)) => {
                let _ = (names.owner_name(request.owner), names.object_name(request.object));
            }
            Ok(None) => {
                assert!(reader.warning().is_none_or(|warning| !warning.is_empty()));
                return;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}
