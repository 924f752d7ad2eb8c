//! Generic CSV: a header line names the columns, in any order, and columns of other names are ignored.
//!
//! Source: our own, for traces in no format of their own; quoting as in RFC 4180, except that a row is one line.
//! Columns are separated by commas, semicolons or tabs. Their names, in any case:
//!
//! - time: `time`, `timestamp` or `ts` in seconds with a fraction, or dates in UTC (`2026-01-31 12:00:00.5`); `time_ms`, `time_us`, `time_ns`. Absent: 0.
//! - owner: `owner`, `pid`, `process` or `client`; object: `object`, `file`, `volume`, `disk` or `device`. Any words.
//! - the place, which alone must be there: `offset` in bytes; or `block`, `lba`, `lbn` or `sector`, the number of a
//!   512-byte block; or `page`, `id` or `key`, an opaque page. Ids that are no numbers are numbered from 2^63 on, so
//!   that they are not taken for ids that are.
//! - length: `length`, `size` or `bytes` in bytes; `blocks` or `count` in 512-byte blocks. Absent: one byte or block.
//!   A page is one page, whatever its length.
//! - operation: `operation`, `op`, `type` or `rw`, as `r`, `read`, `get`, `0`; `w`, `write`, `put`, `set`, `1`;
//!   `readahead`, `ra`, `prefetch`; `random-read`, `sequential-read`. Rows with `flush`, `sync`, `fsync`, `discard`, `trim` or `delete` are skipped.
//!   Absent: read.
//!
//! [`Columns`] gives names other than these, or columns by number for a file without a header.

mod columns;

use super::{Format, fields};
use crate::error::{Error, Result};
use crate::input::{Head, Input, Lines};
use crate::names::Names;
use crate::reader::{Options, Reader};
use crate::request::{Request, Unit};
pub use columns::Columns;
pub(super) use columns::{Layout, Meaning, Role};
use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};
use foldhash::fast::RandomState;
use forebay_basis::Operation;
use hashbrown::HashMap;

const BLOCK: u64 = 512;
/// The number of the first id that is no number.
const FIRST_NAMED_PAGE: u64 = 1 << 63;

pub(crate) const FORMAT: Format = Format {
    name: "csv",
    title: "CSV with a header that names its columns",
    source: "Forebay, docs/trace-formats.md",
    recognise,
    open: |input, options| Ok(Box::new(Csv::open(input, options)?)),
    example: b"time,owner,object,offset,length,operation\n0.000,psql,data.db,8192,4096,read\n\
        0.002,psql,\"log, old\",0,512,write\n0.003,cp,data.db,12288,131072,readahead\n",
};

fn recognise(head: &Head<'_>) -> bool {
    let lines = head.lines(1);
    let Some(header) = lines.first().map(|line| without_mark(line)) else { return false };
    let mut row = Row::new(separator(header));
    row.cut(header) && Layout::of_header(&row.fields().collect::<Vec<_>>(), &Columns::default()).is_ok()
}

/// What to do with a text that looks like a CSV, and does not say where its requests are.
pub(crate) fn advice(head: &Head<'_>) -> Option<String> {
    let lines = head.lines(5);
    let first = without_mark(lines.first()?);
    let mut row = Row::new(separator(first));
    let mut widths = lines.iter().map(|line| row.cut(line).then_some(row.count)).collect::<Vec<_>>();
    widths.dedup();
    let &[Some(width)] = &widths[..] else { return None };
    row.cut(first);
    let is_name = |field: &str| {
        let joins = |letter: char| letter.is_alphanumeric() || "_-. #%()[]".contains(letter);
        field.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') && field.chars().all(joins)
    };
    let named = row.fields().all(is_name);
    let others = "Others can mean time, owner, object, length or operation";
    let second = |column: &str| if width > 1 { format!(",length={column}") } else { String::new() };
    let by_number = format!("--columns offset=#1{}", second("#2"));
    let its_columns = if width == 1 { "its column means".to_owned() } else { format!("its {width} columns mean") };
    Some(if named {
        let names: Vec<String> = row.fields().map(fields::shorten).collect();
        // Quoted where a shell would take it apart.
        let quote = if names[0].contains([' ', '#', '(', ')', '[', ']']) { "'" } else { "" };
        let asked = |role: &str| format!("{quote}{role}={}{quote}", names[0]);
        format!(
            "if its columns are {}, say which is the place of a request: --columns {} (bytes), {} or {} (any key); if it has no \
             header: {by_number}. {others}",
            names.join(", "),
            asked("offset"),
            asked("block"),
            asked("page")
        )
    } else {
        format!(
            "if it is a CSV without a header, say what {its_columns}: {by_number}, or block=#1 or page=#1 (any key). \
             {others}"
        )
    })
}

/// Spreadsheets mark UTF-8 with a byte order mark.
fn without_mark(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

/// The separator that cuts the first line into most fields.
fn separator(line: &str) -> u8 {
    let count = |separator: &u8| line.bytes().filter(|b| b == separator).count();
    // The last of equals wins, so the comma comes last.
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}

/// A line cut into fields, its quotes removed.
struct Row {
    parser: csv_core::Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Row {
    fn new(separator: u8) -> Self {
        // Lines end at a line feed alone: a carriage return inside one is part of its field.
        let parser = ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build();
        Self { parser, text: Vec::new(), ends: vec![0; 16], count: 0 }
    }

    /// Cuts a line; `false` if a quoted field does not end in it.
    fn cut(&mut self, line: &str) -> bool {
        self.parser.reset();
        self.text.resize(line.len() + 1, 0);
        let (mut rest, mut written, mut at_end) = (line.as_bytes(), 0, false);
        self.count = 0;
        loop {
            let (result, read, wrote, ended) =
                self.parser.read_record(rest, &mut self.text[written..], &mut self.ends[self.count..]);
            rest = &rest[read..];
            written += wrote;
            self.count += ended;
            match result {
                ReadRecordResult::Record => return true,
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                // The text shrinks on the way, if anything.
                ReadRecordResult::OutputFull | ReadRecordResult::End => return false,
                ReadRecordResult::InputEmpty if at_end => return false,
                ReadRecordResult::InputEmpty => {
                    rest = b"\n";
                    at_end = true;
                }
            }
        }
    }

    fn field(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        std::str::from_utf8(&self.text[start..self.ends[index]]).expect("text cut at ASCII bytes is text").trim_ascii()
    }

    fn fields(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|index| self.field(index))
    }
}

struct Csv {
    lines: Lines,
    row: Row,
    layout: Layout,
    place: (Meaning, usize),
    /// The number of columns that every row must have, once it is known.
    width: Option<usize>,
    keys: Keys,
}

impl Csv {
    fn open(input: Input, options: &Options) -> Result<Self> {
        let first = input.head().lines(1).first().map_or(b',', |line| separator(line));
        let columns = &options.columns;
        let file = input.file().to_owned();
        let (mut lines, mut row) = (input.lines(), Row::new(first));
        let (layout, width) = if columns.without_header() {
            (Layout::of_numbers(columns), None)
        } else {
            let Some(header) = lines.next_content()? else {
                return Err(Error::new(file, "has no header; a first line must name the columns"));
            };
            if !row.cut(without_mark(header)) {
                return Err(lines.error(UNENDED));
            }
            let layout = Layout::of_header(&row.fields().collect::<Vec<_>>(), columns);
            (layout.map_err(|message| lines.error(message))?, Some(row.count))
        };
        let Some(place) = layout.column(Role::Place) else {
            return Err(Error::new(file, "no column is given for offset, block or page; a request needs one"));
        };
        Ok(Self { lines, row, layout, place, width, keys: Keys::default() })
    }

    /// The field for a role and what it means, if the file has it.
    fn field(&self, role: Role) -> Option<(Meaning, &str)> {
        self.layout.column(role).map(|(meaning, column)| (meaning, self.row.field(column)))
    }

    fn time(&self) -> Result<u64> {
        let Some((meaning, field)) = self.field(Role::Time) else { return Ok(0) };
        let (places, unit) = match meaning {
            Meaning::Nanoseconds => (0, "nanoseconds"),
            Meaning::Microseconds => (3, "microseconds"),
            Meaning::Milliseconds => (6, "milliseconds"),
            _ => (9, "seconds, nor a date in UTC, as 2026-01-31 12:00:00"),
        };
        let date = || fields::parse_date(field).filter(|_| meaning == Meaning::Seconds);
        fields::parse_decimal(field, places)
            .or_else(date)
            .ok_or_else(|| self.lines.error(format!("time `{}` is no time in {unit}", fields::shorten(field))))
    }

    /// The operation; `None` if the row is no transfer of data.
    fn operation(&self) -> Result<Option<Operation>> {
        let Some((_, field)) = self.field(Role::Operation) else { return Ok(Some(Operation::Read)) };
        operation(field).map_err(|message| self.lines.error(message))
    }

    /// How many bytes, blocks or pages.
    fn length(&self) -> Result<u64> {
        if self.place.0 == Meaning::Page {
            return Ok(1);
        }
        let Some((meaning, field)) = self.field(Role::Length) else { return Ok(1) };
        let length = fields::number(&self.lines, meaning.name(), field)?;
        length_in(self.place.0, meaning, length).map_err(|message| self.lines.error(message))
    }

    fn place(&mut self) -> Result<u64> {
        let (meaning, column) = self.place;
        let field = self.row.field(column);
        if meaning != Meaning::Page {
            return fields::number(&self.lines, meaning.name(), field);
        }
        self.keys.page(field).ok_or_else(|| self.lines.error("the page is empty"))
    }
}

/// Pages by whatever key names them.
#[derive(Default)]
pub(super) struct Keys(HashMap<String, u64, RandomState>);

impl Keys {
    /// The page that a key names; `None` if it is empty.
    pub(super) fn page(&mut self, key: &str) -> Option<u64> {
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
pub(super) fn unit_of(place: Meaning) -> Unit {
    match place {
        Meaning::Offset => Unit::Bytes,
        Meaning::Block => Unit::Blocks(BLOCK as u32),
        _ => Unit::Pages,
    }
}

/// A length in the unit of the place.
pub(super) fn length_in(place: Meaning, meaning: Meaning, length: u64) -> std::result::Result<u64, String> {
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
pub(super) fn operation(word: &str) -> std::result::Result<Option<Operation>, String> {
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
            "operation `{}` is none of read, write, readahead, random-read, sequential-read (or r, w, 0, 1, get, put, set, ra, prefetch)",
            fields::shorten(word)
        )),
    }
}

const UNENDED: &str = "is no row: a quoted field does not end in it; a row is one line";

impl Reader for Csv {
    fn unit(&self) -> Unit {
        unit_of(self.place.0)
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let operation = loop {
            let Some(line) = self.lines.next_content()? else { return Ok(None) };
            if !self.row.cut(line) {
                return Err(self.lines.error(UNENDED));
            }
            let width = *self.width.get_or_insert(self.row.count);
            if self.row.count != width || width < self.layout.width() {
                let width = width.max(self.layout.width());
                return Err(self.lines.error(format!("expected {width} columns, found {}", self.row.count)));
            }
            if let Some(operation) = self.operation()? {
                break operation;
            }
        };
        let (time, length, offset) = (self.time()?, self.length()?, self.place()?);
        let owner = self.field(Role::Owner).map_or(0, |(_, name)| names.owner(name));
        let object = self.field(Role::Object).map_or(0, |(_, name)| names.object(name));
        Ok(Some(Request { time, owner, object, offset, length, operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader;

    fn read(text: &str, columns: &str) -> Result<(Unit, Vec<Request>, Names)> {
        let columns =
            if columns.is_empty() { Columns::default() } else { Columns::parse(columns).expect("good columns") };
        let options = Options { format: None, columns };
        let (format, mut reader) = reader::read(Input::from_bytes("t.csv", text.to_owned())?, &options)?;
        assert_eq!(format.name, "csv");
        let (mut names, mut requests) = (Names::new(), Vec::new());
        while reader.fill(&mut names, 100, &mut requests)? {}
        Ok((reader.unit(), requests, names))
    }

    fn places(text: &str, columns: &str) -> Vec<(u64, u64)> {
        read(text, columns).unwrap().1.iter().map(|request| (request.offset, request.length)).collect()
    }

    fn error(text: &str, columns: &str) -> String {
        read(text, columns).unwrap_err().to_string()
    }

    #[test]
    fn the_example_reads_as_its_columns_say() {
        let (unit, requests, names) = read(std::str::from_utf8(FORMAT.example).unwrap(), "").unwrap();
        assert_eq!(unit, Unit::Bytes);
        assert_eq!(requests.len(), 3);
        assert_eq!(
            requests[1],
            Request { time: 2_000_000, owner: 1, object: 2, offset: 0, length: 512, operation: Operation::Write }
        );
        assert_eq!((requests[2].owner, requests[2].operation), (2, Operation::Readahead));
        assert_eq!(names.objects(), ["", "data.db", "log, old"]);
        assert_eq!(names.owners(), ["", "psql", "cp"]);
    }

    #[test]
    fn semicolons_and_tabs_separate_too() {
        assert_eq!(places("offset;length\n1;2\n", ""), [(1, 2)]);
        assert_eq!(places("offset\tlength\n1\t2\n", ""), [(1, 2)]);
    }

    #[test]
    fn a_spreadsheets_byte_order_mark_and_line_ends_are_no_hindrance() {
        assert_eq!(places("\u{feff}offset,length\r\n1,2\r\n\r\n# note\r\n3,4", ""), [(1, 2), (3, 4)]);
    }

    #[test]
    fn each_time_column_has_its_unit() {
        for (word, nanoseconds) in
            [("time", 1_500_000_000), ("time_ms", 1_500_000), ("time_us", 1_500), ("time_ns", 1), ("TS", 1_500_000_000)]
        {
            let (_, requests, _) = read(&format!("{word},page\n1.5,7\n"), "").unwrap();
            assert_eq!(requests[0].time, nanoseconds, "{word}");
        }
    }

    #[test]
    fn a_column_of_seconds_may_have_dates() {
        for date in ["1970-01-02 00:00:01.5", "1970-01-02T00:00:01.500Z", "1970-01-02 00:00:01.5+00:00"] {
            let (_, requests, _) = read(&format!("timestamp,page\n{date},7\n"), "").unwrap();
            assert_eq!(requests[0].time, 86_401_500_000_000, "{date}");
        }
    }

    #[test]
    fn blocks_and_bytes_convert_by_512() {
        let (unit, requests, _) = read("lba,size\n10,4096\n", "").unwrap();
        assert_eq!((unit, requests[0].offset, requests[0].length), (Unit::Blocks(512), 10, 8));
        assert_eq!(places("sector,count\n10,8\n", ""), [(10, 8)]);
        assert_eq!(places("offset,blocks\n4096,8\n", ""), [(4096, 4096)]);
        assert_eq!(places("sector\n10\n", ""), [(10, 1)]);
        assert!(error("lba,length\n10,8\n", "").contains("--columns blocks=NAME"));
    }

    #[test]
    fn pages_are_opaque_and_ids_that_are_no_numbers_are_numbered() {
        let (unit, requests, _) = read("key,size\nuser:1,100\n7,5\nuser:2,1\nuser:1,1\n07,1\n", "").unwrap();
        assert_eq!(unit, Unit::Pages);
        let pages: Vec<u64> = requests.iter().map(|request| request.offset).collect();
        assert_eq!(pages, [1 << 63, 7, (1 << 63) + 1, 1 << 63, (1 << 63) + 2]);
        assert!(requests.iter().all(|request| request.length == 1));
    }

    #[test]
    fn operations_go_by_many_words_and_rows_that_move_no_data_are_skipped() {
        use Operation::{RandomRead, Read, Readahead, Write};
        let words = "page,op\n1,R\n1,get\n1,0\n1,W\n1,PUT\n1,set\n1,1\n1,flush\n1,trim\n1,ReadAhead\n1,random-read\n";
        let (_, requests, _) = read(words, "").unwrap();
        let operations: Vec<Operation> = requests.iter().map(|request| request.operation).collect();
        assert_eq!(operations, [Read, Read, Read, Write, Write, Write, Write, Readahead, RandomRead]);
    }

    #[test]
    fn columns_rename_a_header_and_number_the_columns_of_a_file_without_one() {
        assert_eq!(places("when,addr,n\n1,2,3\n", "offset=addr,length=n"), [(2, 3)]);
        assert_eq!(places("1,2,3\n4,5,6\n", "offset=#2,length=#3"), [(2, 3), (5, 6)]);
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (text, columns, says) in [
            ("offset,length\n1,2\n3\n", "", "line 3: expected 2 columns, found 1"),
            ("offset,length\n1,2,3\n", "", "line 2: expected 2 columns, found 3"),
            ("offset,length\n1,x\n", "", "line 2: length `x` is no whole number"),
            ("offset\n-1\n", "", "line 2: offset `-1` is no whole number"),
            ("time,offset\nnoon,1\n", "", "line 2: time `noon` is no time in seconds, nor a date in UTC"),
            ("time,offset\n2026-02-30 00:00:00,1\n", "", "is no time in seconds, nor a date in UTC"),
            ("time,offset\n2026-01-01 00:00:00+02:00,1\n", "", "is no time in seconds, nor a date in UTC"),
            ("time_ms,offset\n2026-01-01 00:00:00,1\n", "", "is no time in milliseconds"),
            ("op,offset\nfly,1\n", "", "line 2: operation `fly` is none of read"),
            ("offset,object\n1,\"a\nb\"\n", "", "line 2: is no row: a quoted field"),
            ("page,op\n,r\n", "", "line 2: the page is empty"),
            ("offset,blocks\n1,99999999999999999\n", "", "2^64 bytes"),
            ("1,2\n", "offset=#5", "line 1: expected 5 columns, found 2"),
            ("a,b\n1,2\n", "offset=c", "line 1: the header has no column `c`; it has a, b"),
            ("# only a comment\n", "offset=c", "has no header"),
        ] {
            let error = error(text, columns);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_text_without_a_place_in_its_header_is_not_taken_for_csv() {
        for text in ["time,size\n1,2\n", "1,2,3\n", "open(\"offset\")\n", "{\"offset\": 1}\n", "offsets\n"] {
            let input = Input::from_bytes("t", text).unwrap();
            assert!(!recognise(&input.head()), "{text}");
        }
    }
}
