//! Writing our own format, Parquet: `formats/parquet.rs` describes it.
//!
//! Numbers are stored as differences (DELTA_BINARY_PACKED), names and operations through dictionaries, all under zstd.

use super::Writer;
use crate::checksum::{CHECKSUMS_KEY, Checksums, Summed, WRITER, description};
use crate::circumstances::{AtEnd, Circumstances};
use crate::error::{Error, Result};
use crate::formats::parquet::{COLUMNS, OBJECT_LENGTH, PAGE_SIZE_KEY, UNIT_KEY, VERSION_KEY, unit_text};
use crate::names::Names;
use crate::request::{Request, Unit};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::sync::Arc;

const SCHEMA: &str = "message trace {
    required int64 time;
    required binary owner (string);
    required binary object (string);
    required int64 offset (integer(64, false));
    required int64 length (integer(64, false));
    required binary operation (string);
";

/// Behind them where the trace says how long objects are: null as long as that has not changed.
const LENGTHS: &str = "    optional int64 object_length (integer(64, false));\n";

/// Requests of a row group: what is held in memory before it is written.
const ROW_GROUP: usize = 1 << 20;

pub(super) struct Parquet {
    file: String,
    writer: SerializedFileWriter<Summed<File>>,
    /// Of the row groups so far.
    sums: Vec<u32>,
    /// Ours, in the file already: the checksum is of them, too.
    metadata: Vec<(&'static str, String)>,
    /// How it was recorded: written at the end.
    recorded: Option<(Circumstances, Option<AtEnd>)>,
    rows: Vec<Request>,
    owners: Vec<ByteArray>,
    objects: Vec<ByteArray>,
    /// Where the trace says how long objects are.
    lengths: Option<Lengths>,
}

/// The column of objects' lengths.
#[derive(Default)]
struct Lengths {
    /// By object, what was written last.
    known: Vec<Option<u64>>,
    /// Those of the rows that have one, and for each row whether it has.
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl Lengths {
    fn push(&mut self, object: u32, length: Option<u64>) {
        let index = object as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        let new = length.filter(|_| self.known[index] != length);
        self.known[index] = length;
        self.levels.push(new.is_some().into());
        self.values.extend(new.map(|bytes| bytes as i64));
    }
}

impl Parquet {
    /// `lengths`: the trace says how long objects are.
    pub(super) fn create(
        file: &str,
        out: File,
        unit: Unit,
        page_size: Option<u64>,
        recorded: Option<(Circumstances, Option<AtEnd>)>,
        lengths: bool,
    ) -> Result<Self> {
        let mut metadata = vec![(VERSION_KEY, "1".to_owned()), (UNIT_KEY, unit_text(unit))];
        metadata.extend(page_size.map(|bytes| (PAGE_SIZE_KEY, bytes.to_string())));
        let create = || {
            let keys = metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
            let mut properties = WriterProperties::builder()
                .set_created_by(format!("{WRITER}{}", env!("CARGO_PKG_VERSION")))
                .set_compression(Compression::ZSTD(ZstdLevel::try_new(12)?))
                .set_statistics_enabled(EnabledStatistics::Chunk)
                .set_key_value_metadata(Some(keys.collect()));
            for column in ["time", "offset", "length", OBJECT_LENGTH].map(ColumnPath::from) {
                properties = properties
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
            let schema = format!("{SCHEMA}{}}}", if lengths { LENGTHS } else { "" });
            let schema = Arc::new(parse_message_type(&schema)?);
            let mut writer = SerializedFileWriter::new(Summed::new(out), schema, Arc::new(properties.build()))?;
            // What the file begins with belongs to no row group.
            writer.flush()?;
            writer.inner_mut().take_sum();
            Ok(writer)
        };
        let writer = create().map_err(|error| failed(file, &error))?;
        let file = file.to_owned();
        let lengths = lengths.then(Lengths::default);
        let (sums, rows, owners, objects) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { file, writer, sums, metadata, recorded, rows, owners, objects, lengths })
    }

    fn flush(&mut self) -> Result<()> {
        let (rows, owners, objects) = (&self.rows, &self.owners, &self.objects);
        let numbers = |of: fn(&Request) -> u64| rows.iter().map(|row| of(row) as i64).collect::<Vec<i64>>();
        let texts = |of: fn(&Request) -> u32, names: &[ByteArray]| -> Vec<ByteArray> {
            rows.iter().map(|row| names[of(row) as usize].clone()).collect()
        };
        let word = |row: &Request| ByteArray::from(Bytes::from_static(row.operation.word().as_bytes()));
        let (writer, lengths) = (&mut self.writer, &self.lengths);
        let mut write = || -> std::result::Result<u32, ParquetError> {
            let mut group = writer.next_row_group()?;
            for name in COLUMNS {
                let mut column = group.next_column()?.expect("the schema has a column for each of COLUMNS");
                match (column.untyped(), name) {
                    (ColumnWriter::Int64ColumnWriter(column), "time") => {
                        column.write_batch(&numbers(|row| row.time), None, None)
                    }
                    (ColumnWriter::Int64ColumnWriter(column), "offset") => {
                        column.write_batch(&numbers(|row| row.offset), None, None)
                    }
                    (ColumnWriter::Int64ColumnWriter(column), _) => {
                        column.write_batch(&numbers(|row| row.length), None, None)
                    }
                    (ColumnWriter::ByteArrayColumnWriter(column), "owner") => {
                        column.write_batch(&texts(|row| row.owner, owners), None, None)
                    }
                    (ColumnWriter::ByteArrayColumnWriter(column), "object") => {
                        column.write_batch(&texts(|row| row.object, objects), None, None)
                    }
                    (ColumnWriter::ByteArrayColumnWriter(column), _) => {
                        column.write_batch(&rows.iter().map(word).collect::<Vec<_>>(), None, None)
                    }
                    _ => unreachable!("the schema has numbers and texts alone"),
                }?;
                column.close()?;
            }
            if let Some(Lengths { values, levels, .. }) = lengths {
                let mut column = group.next_column()?.expect("the schema has a column for lengths");
                column.typed::<Int64Type>().write_batch(values, Some(levels), None)?;
                column.close()?;
            }
            group.close()?;
            writer.flush()?;
            Ok(writer.inner_mut().take_sum())
        };
        self.sums.push(write().map_err(|error| failed(&self.file, &error))?);
        self.rows.clear();
        if let Some(lengths) = &mut self.lengths {
            lengths.values.clear();
            lengths.levels.clear();
        }
        Ok(())
    }
}

impl Writer for Parquet {
    fn write(&mut self, request: &Request, names: &Names) -> Result<()> {
        // Names are added as they come: each is kept once, and its rows share it.
        for (known, all) in [(&mut self.owners, names.owners()), (&mut self.objects, names.objects())] {
            let new = all[known.len()..].iter().map(|name| ByteArray::from(Bytes::from(name.clone())));
            known.extend(new);
        }
        if let Some(lengths) = &mut self.lengths {
            lengths.push(request.object, names.length(request.object));
        }
        self.rows.push(*request);
        if self.rows.len() == ROW_GROUP { self.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        if let Some((mut circumstances, at_end)) = self.recorded.take() {
            at_end.iter().for_each(|AtEnd(add)| add(&mut circumstances));
            for (key, value) in circumstances.metadata() {
                self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value.clone()));
                self.metadata.push((key, value));
            }
        }
        let rows = self.writer.flushed_row_groups().iter().map(|group| group.num_rows());
        let metadata = self.metadata.iter().map(|(key, value)| (*key, value.as_str()));
        let description = description(self.writer.schema_descr(), rows, metadata);
        let checksums = Checksums { row_groups: self.sums, description };
        self.writer.append_key_value_metadata(KeyValue::new(CHECKSUMS_KEY.to_owned(), checksums.to_text()));
        self.writer.finish().map_err(|error| failed(&self.file, &error))?;
        let file = &self.writer.inner().out;
        file.sync_all().map_err(|error| Error::io(&self.file, "writing", error))
    }
}

fn failed(file: &str, error: &ParquetError) -> Error {
    Error::new(file, format!("writing failed: {error}"))
}
