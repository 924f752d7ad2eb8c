//! Generic CSV: a header line names the columns, in any order, and columns of other names are ignored.
//!
//! Source: our own, for traces in no format of their own; quoting as in RFC 4180, except that a row is one line.
//! Columns are separated by commas, semicolons or tabs, or by spaces where the header has none of these. Their names, in any case:
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
//!   Absent: read. Any other word is an error: a row that is skipped in silence would make another trace.
//!
//! Numbers are decimal, or hexadecimal after `0x`.
//!
//! [`Columns`] gives names other than these, or columns by number for a file without a header. It says what is hexadecimal without `0x`, and
//! which of these columns is not what its name says.

mod columns;
mod row;
mod table;

use super::{Format, fields};
use crate::error::{Error, Result};
use crate::input::{Head, Input, Lines};
use crate::names::Names;
use crate::reader::{Options, Reader};
use crate::request::{Request, Unit};
pub use columns::Columns;
pub(super) use columns::{Layout, Meaning, Role};
use row::{Row, Separator, without_mark};
pub(super) use table::{Keys, Table, length_in, operation, unit_of};

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
    let lines = head.lines(LOOKED_AT);
    let Some(header) = lines.first().map(|line| without_mark(line)) else { return false };
    let separator = Separator::of(&lines);
    let mut row = Row::new(separator);
    // Words between spaces may be prose: a header alone says nothing then.
    let enough = lines.len() > 1 || separator != Separator::Spaces;
    enough && row.cut(header) && Layout::of_header(&row.fields().collect::<Vec<_>>(), &Columns::default()).is_ok()
}

/// Lines looked at to find what separates the columns.
const LOOKED_AT: usize = 20;

/// What to do with a text that looks like a CSV, and does not say where its requests are.
pub(crate) fn advice(head: &Head<'_>) -> Option<String> {
    let lines = head.lines(LOOKED_AT);
    let first = without_mark(lines.first()?);
    let mut row = Row::new(Separator::of(&lines));
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

struct Csv {
    lines: Lines,
    row: Row,
    table: Table,
    /// The number of columns that every row must have, once it is known.
    width: Option<usize>,
}

impl Csv {
    fn open(input: Input, options: &Options) -> Result<Self> {
        let separator = Separator::of(&input.head().lines(LOOKED_AT));
        let columns = &options.columns;
        let file = input.file().to_owned();
        let (mut lines, mut row) = (input.lines(), Row::new(separator));
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
        let Some(table) = Table::new(layout) else {
            return Err(Error::new(file, "no column is given for offset, block or page; a request needs one"));
        };
        Ok(Self { lines, row, table, width })
    }
}

const UNENDED: &str = "is no row: a quoted field does not end in it; a row is one line";

impl Reader for Csv {
    fn unit(&self) -> Unit {
        self.table.unit()
    }

    fn holds_objects(&self) -> bool {
        self.table.holds_objects()
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let Self { lines, row, table, width } = self;
        while let Some(line) = lines.next_content()? {
            if !row.cut(line) {
                return Err(lines.error(UNENDED));
            }
            let (width, least) = (*width.get_or_insert(row.count), table.layout.width());
            if row.count != width || width < least {
                let width = width.max(least);
                return Err(lines.error(format!("expected {width} columns, found {}", row.count)));
            }
            if let Some(request) = table.request(lines, names, |column| row.field(column))? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader;
    use forebay_basis::Operation;

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
    fn spaces_separate_where_nothing_else_does_and_all_lines_have_as_many_words() {
        assert_eq!(places("offset  length\n1 2\n  3    4 \n", ""), [(1, 2), (3, 4)]);
        assert_eq!(places("0.5 0 8 16 1\n0.7 0 24 8 1\n", "time=#1,block=#3,blocks=#4"), [(8, 16), (24, 8)]);
        assert_eq!(places("a b\na b c\na b\n", "page=#1"), [(1 << 63, 1), ((1 << 63) + 1, 1), (1 << 63, 1)]);
        assert_eq!(places("offset, length\n1, 2\n", ""), [(1, 2)]);
        assert!(error("offset length\n1 2\n".repeat(20).as_str(), "").contains("length `length` is no whole number"));
    }

    #[test]
    fn numbers_are_hexadecimal_after_0x_or_where_it_is_said() {
        assert_eq!(places("offset,length\n0x10,0X1f\n10,2\n", ""), [(16, 31), (10, 2)]);
        assert_eq!(places("addr,n\nff,10\n0x10,1\n", "offset_hex=addr,length=n"), [(255, 10), (16, 1)]);
        assert_eq!(places("10 a R\n", "block_hex=#1,blocks_hex=#2"), [(16, 10)]);
        assert!(error("offset\nff\n", "").contains("say so with --columns offset_hex=COLUMN"));
        assert!(error("addr\nfg\n", "offset_hex=addr").contains("offset `fg` is no hexadecimal number"));
        assert!(error("offset\n0x+1\n", "").contains("is no whole number"));
    }

    #[test]
    fn an_operation_that_is_said_to_be_missing_makes_reads() {
        let text = "key,op\na,GET_LEASE\nb,SET_LEASE\n";
        let (_, requests, _) = read(text, "operation=-").unwrap();
        assert!(requests.iter().all(|request| request.operation == Operation::Read));
        assert!(error(text, "").contains("line 2: operation `GET_LEASE` is none of read"));
        assert!(error(text, "").contains("--columns operation=-"));
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
        for text in [
            "time,size\n1,2\n",
            "1,2,3\n",
            "open(\"offset\")\n",
            "{\"offset\": 1}\n",
            "offsets\n",
            "my offset\nis\n",
            "my offset\n",
        ] {
            let input = Input::from_bytes("t", text).unwrap();
            assert!(!recognise(&input.head()), "{text}");
        }
    }
}
