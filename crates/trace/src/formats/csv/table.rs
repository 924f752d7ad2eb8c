//! What the fields of a table's row mean, whatever the table is written in.

use super::columns::{Layout, Meaning, Role};
use crate::error::Result;
use crate::formats::fields;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use foldhash::fast::RandomState;
use forebay_basis::Operation;
use hashbrown::HashMap;

const BLOCK: u64 = 512;
/// The number of the first id that is no number.
const FIRST_NAMED_PAGE: u64 = 1 << 63;

/// A table of text, row by row.
pub(in crate::formats) struct Table {
    pub(in crate::formats) layout: Layout,
    place: (Meaning, usize),
    keys: Keys,
}

impl Table {
    /// `None` if no column is the place of a request.
    pub(in crate::formats) fn new(layout: Layout) -> Option<Self> {
        let place = layout.column(Role::Place)?;
        Some(Self { layout, place, keys: Keys::default() })
    }

    /// What offsets and lengths count.
    pub(in crate::formats) fn unit(&self) -> Unit {
        unit_of(self.place.0)
    }

    /// Whether keys have a length, which says how large each one's object is.
    pub(in crate::formats) fn holds_objects(&self) -> bool {
        self.place.0 == Meaning::Page && self.layout.column(Role::Length).is_some()
    }

    /// The request of a row, the text of whose columns `field` gives; `None` if the row is no transfer of data.
    pub(in crate::formats) fn request<'a>(
        &mut self,
        lines: &Lines,
        names: &mut Names,
        field: impl Fn(usize) -> &'a str,
    ) -> Result<Option<Request>> {
        let Self { layout, place, keys } = self;
        let text = |role: Role| layout.column(role).map(|(meaning, column)| (meaning, field(column)));
        let operation = match text(Role::Operation) {
            None => Operation::Read,
            Some((_, word)) => match operation(word).map_err(|message| lines.error(message))? {
                Some(operation) => operation,
                None => return Ok(None),
            },
        };
        let number = |role: Role, meaning: Meaning, field: &str| {
            let bare = layout.is_hexadecimal(role);
            let parsed = if bare { fields::parse_bare_hexadecimal(field) } else { field.parse().ok() };
            parsed
                .or_else(|| fields::parse_hexadecimal(field))
                .ok_or_else(|| lines.error(not_a_number(meaning.name(), field, bare)))
        };
        let time = text(Role::Time).map_or(Ok(0), |(meaning, text)| time(lines, meaning, text))?;
        let length = match text(Role::Length) {
            Some((meaning, text)) if place.0 != Meaning::Page => {
                let length = number(Role::Length, meaning, text)?;
                length_in(place.0, meaning, length).map_err(|message| lines.error(message))?
            }
            _ => 1,
        };
        let offset = match (place.0, field(place.1)) {
            (Meaning::Page, key) => keys.page(key).ok_or_else(|| lines.error("the page is empty"))?,
            (meaning, text) => number(Role::Place, meaning, text)?,
        };
        let owner = text(Role::Owner).map_or(0, |(_, name)| names.owner(name));
        let object = text(Role::Object).map_or(0, |(_, name)| names.object(name));
        Ok(Some(Request { time, owner, object, offset, length, operation }))
    }
}

/// That a field is no number, and how to write that it is a hexadecimal one.
fn not_a_number(name: &str, field: &str, hexadecimal: bool) -> String {
    let text = fields::shorten(field);
    let advice = match fields::parse_bare_hexadecimal(field) {
        Some(_) => format!("; if it is hexadecimal without 0x, say so with --columns {name}_hex=COLUMN"),
        None => String::new(),
    };
    let number = if hexadecimal { "hexadecimal number" } else { "whole number" };
    format!("{name} `{text}` is no {number} below 2^64{advice}")
}

fn time(lines: &Lines, meaning: Meaning, field: &str) -> Result<u64> {
    let (places, unit) = match meaning {
        Meaning::Nanoseconds => (0, "nanoseconds"),
        Meaning::Microseconds => (3, "microseconds"),
        Meaning::Milliseconds => (6, "milliseconds"),
        _ => (9, "seconds, nor a date in UTC, as 2026-01-31 12:00:00"),
    };
    let date = || fields::parse_date(field).filter(|_| meaning == Meaning::Seconds);
    fields::parse_decimal(field, places)
        .or_else(date)
        .ok_or_else(|| lines.error(format!("time `{}` is no time in {unit}", fields::shorten(field))))
}

/// Pages by whatever key names them.
#[derive(Default)]
pub(in crate::formats) struct Keys(HashMap<String, u64, RandomState>);

impl Keys {
    /// The page that a key names; `None` if it is empty.
    pub(in crate::formats) fn page(&mut self, key: &str) -> Option<u64> {
        // `007` and `+7` are other ids than `7`.
        let plain = key == "0" || (!key.starts_with('0') && key.bytes().all(|b| b.is_ascii_digit()));
        if plain && let Ok(page) = key.parse() {
            return Some(page);
        }
        let next = FIRST_NAMED_PAGE + self.0.len() as u64;
        (!key.is_empty()).then(|| *self.0.entry_ref(key).or_insert(next))
    }
}

/// What offsets and lengths count where the place means this.
pub(in crate::formats) fn unit_of(place: Meaning) -> Unit {
    match place {
        Meaning::Offset => Unit::Bytes,
        Meaning::Block => Unit::Blocks(BLOCK as u32),
        _ => Unit::Pages,
    }
}

/// A length in the unit of the place.
pub(in crate::formats) fn length_in(place: Meaning, meaning: Meaning, length: u64) -> std::result::Result<u64, String> {
    match (place, meaning) {
        (Meaning::Page, _) => Ok(1),
        (Meaning::Block, Meaning::Length) if length.is_multiple_of(BLOCK) => Ok(length / BLOCK),
        (Meaning::Block, Meaning::Length) => Err(format!(
            "length {length} is no whole number of 512-byte blocks; if it counts blocks, say so with --columns blocks=NAME"
        )),
        (Meaning::Offset, Meaning::Blocks) => {
            length.checked_mul(BLOCK).ok_or_else(|| format!("{length} blocks are 2^64 bytes or more"))
        }
        _ => Ok(length),
    }
}

/// The operation that a word names; `None` if it is no transfer of data.
pub(in crate::formats) fn operation(word: &str) -> std::result::Result<Option<Operation>, String> {
    const WORDS: &[(&str, Option<Operation>)] = &[
        ("r", Some(Operation::Read)),
        ("w", Some(Operation::Write)),
        ("read", Some(Operation::Read)),
        ("write", Some(Operation::Write)),
        ("0", Some(Operation::Read)),
        ("1", Some(Operation::Write)),
        ("get", Some(Operation::Read)),
        ("put", Some(Operation::Write)),
        ("set", Some(Operation::Write)),
        ("readahead", Some(Operation::Readahead)),
        ("ra", Some(Operation::Readahead)),
        ("prefetch", Some(Operation::Readahead)),
        ("random-read", Some(Operation::RandomRead)),
        ("sequential-read", Some(Operation::SequentialRead)),
        ("flush", None),
        ("sync", None),
        ("fsync", None),
        ("discard", None),
        ("trim", None),
        ("delete", None),
    ];
    match WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
        Some((_, operation)) => Ok(*operation),
        None => Err(format!(
            "operation `{}` is none of read, write, readahead, random-read, sequential-read (or r, w, 0, 1, get, put, set, ra, prefetch); \
             if all requests are reads, say so with --columns operation=-",
            fields::shorten(word)
        )),
    }
}
