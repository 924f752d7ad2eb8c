//! What the readers' tests share: a trace in memory read as a given format.

use super::Format;
use crate::input::Input;
use crate::names::Names;
use crate::reader::Options;
use crate::request::Request;

fn input(trace: &[u8]) -> Input {
    Input::from_bytes("trace", trace.to_vec()).expect("the test's trace opens")
}

fn read(format: &Format, trace: &[u8]) -> (Names, Vec<Request>, Option<String>) {
    let (mut names, mut requests) = (Names::new(), Vec::new());
    let mut reader = match (format.open)(input(trace), &Options::default()) {
        Ok(reader) => reader,
        Err(error) => return (names, requests, Some(error.to_string())),
    };
    loop {
        match reader.next(&mut names) {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => return (names, requests, None),
            Err(error) => return (names, requests, Some(error.to_string())),
        }
    }
}

/// The requests of a trace that is read without an error.
pub(super) fn requests(format: &Format, trace: &[u8]) -> (Names, Vec<Request>) {
    let (names, requests, error) = read(format, trace);
    assert_eq!(error, None);
    (names, requests)
}

/// The error that ends the reading of a trace.
pub(super) fn error(format: &Format, trace: &[u8]) -> String {
    read(format, trace).2.expect("the trace is read with an error")
}

/// What a reader says at the end of what it has skipped.
pub(super) fn warning(format: &Format, trace: &[u8]) -> Option<String> {
    let mut reader = (format.open)(input(trace), &Options::default()).expect("the trace opens");
    while reader.next(&mut Names::new()).expect("the trace is read").is_some() {}
    reader.warning()
}

/// Whether a trace is recognised by its content.
pub(super) fn recognises(format: &Format, trace: &[u8]) -> bool {
    (format.recognise)(&input(trace).head())
}
