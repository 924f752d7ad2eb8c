//! Real traces, which are data of others and not part of this repository.

use std::io::Write;
use std::path::PathBuf;

/// The real trace of that name, if it is on this machine: in the folder `FOREBAY_TRACES`, or in `../shared/traces` beside the
/// project. Elsewhere the test says why it is skipped; in CI a missing trace is a failure.
pub(crate) fn real_trace(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    let path = std::env::var_os("FOREBAY_TRACES").map_or_else(beside, PathBuf::from).join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing, and CI skips nothing", path.display());
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    let skipped = format!("skipped: {} is not here; set FOREBAY_TRACES to the folder of real traces\n", path.display());
    std::io::stderr().write_all(skipped.as_bytes()).expect("standard error can be written to");
    None
}
