//! Rows of a CSV: what separates their fields, and a line cut into them.

use csv_core::{ReadRecordResult, ReaderBuilder, Terminator};

/// Spreadsheets mark UTF-8 with a byte order mark.
pub(super) fn without_mark(line: &str) -> &str {
    line.strip_prefix('\u{feff}').unwrap_or(line)
}

/// What separates the fields of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Byte(u8),
    /// One or more spaces; there are no quotes then.
    Spaces,
}

impl Separator {
    /// What separates the fields of these first lines: of commas, semicolons and tabs what cuts the first one into most fields. Spaces do if
    /// it has none of these, and all lines the same number of words, more than one.
    pub(super) fn of(lines: &[&str]) -> Self {
        let first = lines.first().copied().unwrap_or_default();
        let count = |separator: &u8| first.bytes().filter(|b| b == separator).count();
        // The last of equals wins, so the comma comes last.
        let byte = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
        let words = |line: &str| line.split_ascii_whitespace().count();
        let spaced = count(&byte) == 0 && words(first) > 1 && lines.iter().all(|line| words(line) == words(first));
        if spaced { Self::Spaces } else { Self::Byte(byte) }
    }
}

/// A line cut into fields, its quotes removed.
pub(super) struct Row {
    /// None where spaces separate.
    parser: Option<csv_core::Reader>,
    text: Vec<u8>,
    ends: Vec<usize>,
    pub(super) count: usize,
}

impl Row {
    pub(super) fn new(separator: Separator) -> Self {
        // Lines end at a line feed alone: a carriage return inside one is part of its field.
        let parser = |byte| ReaderBuilder::new().delimiter(byte).terminator(Terminator::Any(b'\n')).build();
        let parser = match separator {
            Separator::Byte(byte) => Some(parser(byte)),
            Separator::Spaces => None,
        };
        Self { parser, text: Vec::new(), ends: vec![0; 16], count: 0 }
    }

    /// Cuts a line; `false` if a quoted field does not end in it.
    pub(super) fn cut(&mut self, line: &str) -> bool {
        let Some(parser) = &mut self.parser else {
            self.cut_at_spaces(line);
            return true;
        };
        parser.reset();
        self.text.resize(line.len() + 1, 0);
        let (mut rest, mut written, mut at_end) = (line.as_bytes(), 0, false);
        self.count = 0;
        loop {
            let (result, read, wrote, ended) =
                parser.read_record(rest, &mut self.text[written..], &mut self.ends[self.count..]);
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

    fn cut_at_spaces(&mut self, line: &str) {
        self.text.clear();
        self.ends.clear();
        for word in line.split_ascii_whitespace() {
            self.text.extend_from_slice(word.as_bytes());
            self.ends.push(self.text.len());
        }
        self.count = self.ends.len();
    }

    pub(super) fn field(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        std::str::from_utf8(&self.text[start..self.ends[index]]).expect("text cut at ASCII bytes is text").trim_ascii()
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map(|index| self.field(index))
    }
}
