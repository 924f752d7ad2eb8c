//! Checksums of our Parquet tables. Parquet has none that the library writes or checks, and a bit that is flipped in a compressed number is another
//! number: another trace, without a word.
//!
//! Under [`CHECKSUMS_KEY`] the metadata of a table has the CRC-32 (zlib's) of each row group's bytes in the file, and behind a semicolon that of what
//! says how to read them: `8c736521,1b851995;5b1c2f0e`. A program that changes a table may keep the metadata that it does not know: the checksums
//! hold for tables that say that they were written by us.

use crc32fast::Hasher;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use std::io::{self, Write};
use std::ops::Range;

pub(crate) const CHECKSUMS_KEY: &str = "forebay.crc32";

/// What `created_by` of our tables begins with.
pub(crate) const WRITER: &str = "forebay ";

/// A file that is written, and the checksum of what was written since it was asked for last.
pub(crate) struct Summed<W> {
    pub(crate) out: W,
    sum: Hasher,
}

impl<W> Summed<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, sum: Hasher::new() }
    }

    pub(crate) fn take_sum(&mut self) -> u32 {
        std::mem::take(&mut self.sum).finalize()
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The checksums of one table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksums {
    pub(crate) row_groups: Vec<u32>,
    pub(crate) description: u32,
}

impl Checksums {
    pub(crate) fn to_text(&self) -> String {
        let row_groups: Vec<String> = self.row_groups.iter().map(|sum| format!("{sum:08x}")).collect();
        format!("{};{:08x}", row_groups.join(","), self.description)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let sum = |digits: &str| {
            let right = digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| right)
        };
        let (row_groups, description) = text.split_once(';')?;
        let row_groups = match row_groups {
            "" => Vec::new(),
            row_groups => row_groups.split(',').map(sum).collect::<Option<_>>()?,
        };
        Some(Self { row_groups, description: sum(description)? })
    }

    /// Those that a table of ours has. An error says what is wrong.
    pub(crate) fn of(metadata: &ParquetMetaData) -> Result<Option<Self>, String> {
        let file = metadata.file_metadata();
        let pairs = file.key_value_metadata().into_iter().flatten();
        let values = pairs.filter_map(|pair| Some((pair.key.as_str(), pair.value.as_deref()?)));
        let (checksums, others): (Vec<_>, Vec<_>) = values.partition(|(key, _)| *key == CHECKSUMS_KEY);
        let ours = file.created_by().is_some_and(|by| by.starts_with(WRITER));
        let Some((_, text)) = checksums.first().filter(|_| ours) else { return Ok(None) };
        let checksums = Self::parse(text).ok_or_else(|| format!("its {CHECKSUMS_KEY} is `{text}`"))?;
        let rows = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
        let right = checksums.row_groups.len() == metadata.num_row_groups()
            && checksums.description == description(file.schema_descr(), rows, others);
        if right { Ok(Some(checksums)) } else { Err("its description does not have its checksum".to_owned()) }
    }
}

/// The checksum of what says how to read a table: its columns, how many rows are in each group, and its metadata.
pub(crate) fn description<'a>(
    schema: &SchemaDescriptor,
    rows: impl Iterator<Item = i64>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> u32 {
    let mut sum = Hasher::new();
    // With its length before it a text cannot run into the next.
    let mut add = |text: &str| {
        sum.update(&(text.len() as u64).to_le_bytes());
        sum.update(text.as_bytes());
    };
    for column in schema.columns() {
        add(column.name());
        add(&format!("{} {}", column.physical_type(), column.converted_type()));
    }
    rows.for_each(|rows| add(&rows.to_string()));
    // The library adds metadata of its own beside ours.
    let ours = metadata.into_iter().filter(|(key, _)| key.starts_with("forebay."));
    for (key, value) in ours {
        add(key);
        add(value);
    }
    sum.finalize()
}

/// Where the bytes of a row group are in the file.
pub(crate) fn place(group: &RowGroupMetaData) -> Range<u64> {
    let columns = || group.columns().iter().map(|column| column.byte_range());
    let start = columns().map(|(start, _)| start).min().unwrap_or(0);
    let end = columns().map(|(start, length)| start.saturating_add(length)).max().unwrap_or(0);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_as_they_are_written() {
        for row_groups in [vec![], vec![7], vec![0x8c73_6521, 0, u32::MAX]] {
            let checksums = Checksums { row_groups, description: 0x5b1c };
            assert_eq!(Checksums::parse(&checksums.to_text()), Some(checksums));
        }
        for wrong in ["", ";", "1;2", "00000001", "00000001;0000000g", "00000001,;00000002", "+0000001;00000002"] {
            assert_eq!(Checksums::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_sum_is_of_what_was_written_since_the_last_one() {
        let mut summed = Summed::new(Vec::new());
        summed.write_all(b"PAR1").expect("memory takes it");
        summed.take_sum();
        summed.write_all(b"1234").expect("memory takes it");
        summed.write_all(b"56789").expect("memory takes it");
        assert_eq!(summed.take_sum(), 0xcbf4_3926, "the check value of CRC-32");
        assert_eq!(summed.out, b"PAR1123456789");
    }
}
