//! JSON lines: an object a line, whose members are the columns of a [CSV](super::csv).
//!
//! Source: our own, for traces in no format of their own; jsonlines.org. The first line's keys are the header: they have the names of CSV's
//! columns, or those that [`Columns`](super::csv::Columns) gives, and others are ignored. A value is a number or a string, and means what the
//! same text means in a CSV. A line whose owner or object is `null` or missing has none; any other that is used must be in every line.

use super::Format;
use super::csv::{Columns, Layout, Role, Table};
use super::fields::shorten;
use crate::error::{Error, Result};
use crate::input::{Head, Input, Lines};
use crate::names::Names;
use crate::reader::{Options, Reader};
use crate::request::{Request, Unit};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

pub(crate) const FORMAT: Format = Format {
    name: "json-lines",
    title: "JSON lines: objects whose keys name CSV's columns",
    source: "Forebay, docs/trace-formats.md; jsonlines.org",
    recognise: |head| is_json_lines(head) && header(head).is_some_and(|keys| layout(&keys, &Columns::default()).is_ok()),
    open: |input, options| Ok(Box::new(JsonLines::open(input, options)?)),
    example: b"{\"time\": 0.000, \"owner\": \"psql\", \"object\": \"data.db\", \"offset\": 8192, \"length\": 4096, \"operation\": \"read\"}\n\
        {\"time\": 0.002, \"owner\": \"psql\", \"object\": \"log \\u00e4\", \"offset\": 0, \"length\": 512, \"operation\": \"write\"}\n\
        {\"time\": 0.003, \"owner\": null, \"object\": \"data.db\", \"offset\": 12288, \"length\": 131072, \"operation\": \"ra\"}\n",
};

/// Whether all lines of the front are JSON objects.
pub(crate) fn is_json_lines(head: &Head<'_>) -> bool {
    head.lines_all(|line| line.trim_ascii_start().starts_with('{') && Members::of(line).is_ok())
}

/// The keys of the first line.
fn header(head: &Head<'_>) -> Option<Vec<String>> {
    Members::of(head.lines(1).first()?).ok().map(|members| members.keys())
}

fn layout(keys: &[String], columns: &Columns) -> std::result::Result<Layout, String> {
    Layout::of_header(&keys.iter().map(String::as_str).collect::<Vec<_>>(), columns)
}

/// What to do with JSON lines that do not say where their requests are.
pub(crate) fn advice(head: &Head<'_>) -> Option<String> {
    let keys = header(head).filter(|_| is_json_lines(head))?;
    let keys: Vec<String> = keys.iter().map(|key| shorten(key)).collect();
    Some(format!(
        "it is JSON lines with the keys {}: say which is the place of a request: --columns offset=KEY (bytes), block=KEY or page=KEY (any key). \
         Others can mean time, owner, object, length or operation",
        keys.join(", ")
    ))
}

/// The members of a JSON object, their values as they are written.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    pub(super) fn of(line: &'a str) -> std::result::Result<Self, String> {
        serde_json::from_str(line).map_err(|error| format!("is no JSON object, alone in its line: {error}"))
    }

    /// The value under a key; the last of several.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(known, _)| known == key).map(|(_, value)| *value)
    }

    fn keys(self) -> Vec<String> {
        self.0.into_iter().map(|(key, _)| key.into_owned()).collect()
    }
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;
        impl<'a> Visitor<'a> for Object {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> std::result::Result<Members<'a>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'a>, &'a RawValue>()? {
                    members.push((key, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

struct JsonLines {
    lines: Lines,
    /// The keys of the first line.
    header: Vec<String>,
    table: Table,
    /// Whether the line read last is the first, whose keys are known and whose values are still to be read.
    at_first: bool,
}

impl JsonLines {
    fn open(input: Input, options: &Options) -> Result<Self> {
        let (file, columns) = (input.file().to_owned(), &options.columns);
        if columns.without_header() {
            return Err(Error::new(
                file,
                "--columns names the columns of JSON lines, which have no numbers: offset=KEY",
            ));
        }
        let mut lines = input.lines();
        if lines.next_content()?.is_none() {
            return Err(Error::new(file, "has no line with an object"));
        }
        let header = Members::of(lines.line()).map_err(|message| lines.error(message))?.keys();
        let layout = layout(&header, columns).map_err(|message| lines.error(message))?;
        let table = Table::new(layout).expect("a layout of a header has a place");
        Ok(Self { lines, header, table, at_first: true })
    }
}

impl Reader for JsonLines {
    fn unit(&self) -> Unit {
        self.table.unit()
    }

    fn holds_objects(&self) -> bool {
        self.table.holds_objects()
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let Self { lines, header, table, at_first } = self;
        while std::mem::take(at_first) || lines.next_content()?.is_some() {
            let members = Members::of(lines.line()).map_err(|message| lines.error(message))?;
            let mut fields: Vec<Cow<'_, str>> = vec![Cow::default(); header.len()];
            for (role, column) in table.layout.columns() {
                let key = &header[column];
                let value = members.get(key).map_or(Ok(None), text);
                fields[column] = match value.map_err(|message| lines.error(format!("`{key}` {message}")))? {
                    Some(text) => text,
                    None if matches!(role, Role::Owner | Role::Object) => Cow::default(),
                    None => {
                        return Err(lines.error(format!("has no `{key}`; every line must have it, as the first has")));
                    }
                };
            }
            if let Some(request) = table.request(lines, names, |column| &fields[column])? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }
}

/// The text of a value; `None` of `null`.
fn text(value: &str) -> std::result::Result<Option<Cow<'_, str>>, String> {
    match value.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => {
            let Text(text) = serde_json::from_str(value).map_err(|error| format!("is no text: {error}"))?;
            Ok(Some(text))
        }
        Some(b'[' | b'{') => Err(format!("is neither a number nor a text: {}", shorten(value))),
        _ => Ok(Some(value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{recognises, requests};
    use crate::reader;
    use forebay_basis::Operation;

    fn read(text: &str, columns: &str) -> Result<(Unit, Vec<Request>, Names)> {
        let columns =
            if columns.is_empty() { Columns::default() } else { Columns::parse(columns).expect("good columns") };
        let options = Options { format: None, columns };
        let (format, mut reader) = reader::read(Input::from_bytes("t", text.to_owned())?, &options)?;
        assert_eq!(format.name, "json-lines");
        let (mut names, mut requests) = (Names::new(), Vec::new());
        while reader.fill(&mut names, 100, &mut requests)? {}
        Ok((reader.unit(), requests, names))
    }

    fn places(text: &str, columns: &str) -> Vec<(u64, u64)> {
        read(text, columns).unwrap().1.iter().map(|request| (request.offset, request.length)).collect()
    }

    #[test]
    fn the_example_reads_as_its_keys_say() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let second =
            Request { time: 2_000_000, owner: 1, object: 2, offset: 0, length: 512, operation: Operation::Write };
        assert_eq!((requests.len(), requests[1]), (3, second));
        assert_eq!((requests[2].owner, requests[2].operation), (0, Operation::Readahead));
        assert_eq!(names.objects(), ["", "data.db", "log ä"]);
    }

    #[test]
    fn keys_stand_in_any_order_and_others_may_hold_anything() {
        let text =
            "{\"length\": 2, \"tags\": [1, {}], \"offset\": 1}\n\n{\"offset\": 3, \"length\": \"0x10\", \"new\": 5}\n";
        assert_eq!(places(text, ""), [(1, 2), (3, 16)]);
    }

    #[test]
    fn columns_name_other_keys() {
        let text = "{\"at\": \"ff\", \"n\": 2, \"op\": \"FLY\"}\n";
        assert_eq!(places(text, "offset_hex=at,length=n,operation=-"), [(255, 2)]);
        let (unit, requests, _) = read("{\"id\": \"a\", \"n\": 2}\n{\"id\": 7}\n", "page=id").unwrap();
        assert_eq!((unit, requests[0].offset, requests[1].offset), (Unit::Pages, 1 << 63, 7));
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let (_, requests, _) = read("{\"ts\": 1577808000.000000046, \"page\": 18446744073709551614}\n", "").unwrap();
        assert_eq!((requests[0].time, requests[0].offset), (1_577_808_000_000_000_046, u64::MAX - 1));
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        for (line, says) in [
            ("{\"offset\": 1}", "has no `length`; every line must have it"),
            ("{\"offset\": null, \"length\": 1}", "has no `offset`"),
            ("{\"offset\": [1], \"length\": 1}", "`offset` is neither a number nor a text: [1]"),
            ("{\"offset\": 1.5, \"length\": 1}", "offset `1.5` is no whole number"),
            ("{\"offset\": true, \"length\": 1}", "offset `true` is no whole number"),
            ("{\"offset\": 1, \"length\": 1} {}", "is no JSON object, alone in its line"),
            ("[1, 1]", "is no JSON object, alone in its line"),
        ] {
            let first = "{\"offset\": 1, \"length\": 1}\n".repeat(20);
            let error = read(&format!("{first}{line}\n"), "").unwrap_err().to_string();
            assert!(error.starts_with("t: line 21: ") && error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn objects_without_a_place_are_not_taken_and_it_is_said_what_to_do() {
        let text = "{\"when\": 1, \"addr\": 2}\n";
        assert!(!recognises(&FORMAT, text.as_bytes()));
        let error = read(text, "").unwrap_err().to_string();
        assert!(
            error.contains("JSON lines with the keys when, addr") && error.contains("--columns offset=KEY"),
            "{error}"
        );
        assert!(read(text, "offset=#2").unwrap_err().to_string().contains("offset=KEY"));
    }
}
