//! The trace formats: one file each, and one line each in [`FORMATS`].

use crate::error::Result;
use crate::input::{Head, Input};
use crate::reader::{Options, Reader};
use forebay_basis::spelling::{did_you_mean, same};

mod by_line;
pub mod fields;
mod named_columns;
mod skipped;
#[cfg(test)]
mod testing;

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

/// Makes the formats' modules, and the list that finds them. `cargo fmt` does not see modules made here: `make fmt` does.
macro_rules! formats {
    ($($visibility:vis $file:ident),+ $(,)?) => {
        $($visibility mod $file;)+

        /// Every format, the more particular before the more general: the first that recognises a file reads it.
        pub static FORMATS: &[&Format] = &[$(&$file::FORMAT),+];
    };
}

formats! {
    pub(crate) parquet,
    vscsi,
    oracle_general,
    fio,
    blkparse,
    ftrace,
    damon,
    strace,
    lackey,
    lis,
    mqsim,
    ramulator,
    spc,
    msr,
    alibaba,
    tencent,
    cachelib_kv,
    cachelib_block,
    libcachesim_csv,
    lirs,
    mooncake,
    pub(crate) json_lines,
    pub csv,
}

/// The format of that name.
pub fn named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| same(format.name, name))
}

/// That there is no format of that name, and which there are.
pub fn unknown(name: &str) -> String {
    let known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    let meant = did_you_mean(name, known.iter().copied());
    format!("there is no trace format `{name}`{meant}; there are {}", known.join(", "))
}

/// The first format that recognises the front of a file.
pub fn recognise(head: &Head<'_>) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| (format.recognise)(head))
}

/// The format of a trace whose columns the user names: a table, whatever else it looks like.
pub(crate) fn of_columns(head: &Head<'_>) -> &'static Format {
    if (parquet::FORMAT.recognise)(head) {
        &parquet::FORMAT
    } else if json_lines::is_json_lines(head) {
        &json_lines::FORMAT
    } else {
        &csv::FORMAT
    }
}

/// The format that recognises the front of a text but for one line among the first, behind the first one, which may be a header of columns:
/// with that line's number and text.
pub fn but_for_a_line<'a>(head: &Head<'a>) -> Option<(&'static Format, u64, &'a str)> {
    let text = std::str::from_utf8(head.bytes).ok()?;
    let lines: Vec<&str> = text.split_inclusive('\n').take(LOOKED_AT).collect();
    let of = |lines: &[&str], but: usize| lines[..but].concat() + &lines[but + 1..].concat();
    (1..lines.len()).filter(|_| lines.len() >= LEAST_LINES).find_map(|but| {
        let rest = of(&lines, but);
        let format = recognise(&Head { name: head.name, bytes: rest.as_bytes() })?;
        Some((format, but as u64 + 1, lines[but].trim_ascii()))
    })
}

/// So many lines are looked at for one that is wrong.
const LOOKED_AT: usize = 20;
/// Of fewer lines nothing is known.
const LEAST_LINES: usize = 3;
