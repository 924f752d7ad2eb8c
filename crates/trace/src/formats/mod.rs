//! The trace formats: one file each, and one line each in [`FORMATS`].

use crate::error::Result;
use crate::input::{Head, Input};
use crate::reader::{Options, Reader};

mod alibaba;
mod blkparse;
pub mod csv;
pub mod fields;
mod fio;
mod lackey;
mod libcachesim_csv;
mod lirs;
mod lis;
mod msr;
mod oracle_general;
pub(crate) mod parquet;
mod spc;
mod strace;
mod tencent;
#[cfg(test)]
mod testing;
mod vscsi;

/// A trace format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub title: &'static str,
    /// Where the format comes from or is described.
    pub source: &'static str,
    /// Whether a file's front looks like it.
    pub recognise: fn(&Head<'_>) -> bool,
    /// Starts to read.
    pub open: fn(Input, &Options) -> Result<Box<dyn Reader>>,
    /// A small well-formed trace, for tests, fuzzing and documentation.
    pub example: &'static [u8],
}

/// Every format, the more particular before the more general: the first that recognises a file reads it.
pub static FORMATS: &[&Format] = &[
    &parquet::FORMAT,
    &vscsi::FORMAT,
    &oracle_general::FORMAT,
    &fio::FORMAT,
    &blkparse::FORMAT,
    &strace::FORMAT,
    &lackey::FORMAT,
    &lis::FORMAT,
    &spc::FORMAT,
    &msr::FORMAT,
    &alibaba::FORMAT,
    &tencent::FORMAT,
    &libcachesim_csv::FORMAT,
    &lirs::FORMAT,
    &csv::FORMAT,
];

/// The format of that name.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

/// The first format that recognises the front of a file.
pub fn recognise(head: &Head<'_>) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| (format.recognise)(head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_format_has_its_fuzz_target() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("fuzz/Cargo.toml");
        for Format { name, .. } in FORMATS {
            let target = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/read_{name}.rs"))).unwrap_or_default();
            let built = manifest.contains(&format!("name = \"read_{name}\"\n"));
            assert!(
                built && target.contains(&format!("read_as(\"{name}\"")),
                "{name}: fuzz/README.md says how to add it"
            );
        }
    }
}
