//! Our own format: Apache Parquet, one row a request, read as a table by DuckDB, Polars, pandas and PyArrow.
//!
//! - `time` INT64, nanoseconds; `owner`, `object` UTF8, their names; `offset`, `length` INT64, unsigned; `operation` UTF8,
//!   `read`, `write` or `readahead`; `random-read` and `sequential-read` of programs that have said how they read.
//! - `object_length` INT64, unsigned, where lengths are known: the bytes of the object, or null as long as they are those that it had before.
//! - Key-value metadata: `forebay.unit` says what `offset` and `length` count (`bytes`; `blocks:512`; `pages`; where it is missing,
//!   the place's name says it); how the trace was [recorded](Circumstances), under keys of its own; `forebay.version` is 1; `forebay.crc32` has [checksums](crate::checksum) of what we have written ourselves.
//!
//! Files from elsewhere are read too: columns in any order, named as in a [CSV](super::csv) or by [`Columns`](super::csv::Columns), others ignored,
//! all but the place optional (time 0, unnamed, one unit, read), with or without nulls (a null is what a missing column is). Numbers are INT32
//! or INT64; names, operations and pages may be numbers or texts. A time is in nanoseconds unless its name or its type (TIMESTAMP) says
//! otherwise. Row groups are read a batch at a time.

use super::Format;
use super::csv::{Keys, Layout, Meaning, Role, length_in, operation, unit_of};
use crate::checksum::{Checksums, place};
use crate::circumstances::Circumstances;
use crate::error::{Error, Result};
use crate::input::Input;
use crate::names::Names;
use crate::pages::{Origin, PageSize, Paging};
use crate::reader::{Options, Reader};
use crate::request::{Request, Unit};
use bytes::Bytes;
use forebay_basis::Operation;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use std::borrow::Cow;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    title: "Forebay's own: a Parquet table of time, owner, object, offset, length, operation",
    source: "Forebay, docs/trace-formats.md",
    recognise: |head| head.bytes.starts_with(b"PAR1"),
    open,
    example: include_bytes!("../../examples-data/example.parquet"),
};

/// Under this key the metadata of a table says what its offsets and lengths count: [`unit_text`].
pub const UNIT_KEY: &str = "forebay.unit";
pub(crate) const VERSION_KEY: &str = "forebay.version";
/// Under this key the metadata of a table may say the size of the pages that it was recorded with.
pub const PAGE_SIZE_KEY: &str = "forebay.page_size";
pub(crate) const COLUMNS: [&str; 6] = ["time", "owner", "object", "offset", "length", "operation"];
/// The column behind [`COLUMNS`] in tables that say how long objects are.
pub(crate) const OBJECT_LENGTH: &str = "object_length";

const ROLES: [Role; 6] = [Role::Time, Role::Owner, Role::Object, Role::Place, Role::Length, Role::Operation];

/// Rows decoded at once.
const ROWS_AT_ONCE: usize = 8192;

fn open(input: Input, options: &Options) -> Result<Box<dyn Reader>> {
    let file = input.file().to_owned();
    match input.path() {
        Some(path) => {
            let opened = File::open(path).map_err(|error| Error::io(&file, "opening", error))?;
            let again = opened.try_clone().map_err(|error| Error::io(&file, "opening", error))?;
            Ok(Box::new(Parquet::new(file, opened, again, options)?))
        }
        // A table's directory is at its end: what cannot be read from there is taken into memory.
        None => {
            let all = Bytes::from(input.bytes().read_to_end()?);
            Ok(Box::new(Parquet::new(file, all.clone(), all, options)?))
        }
    }
}

/// What `forebay.unit` says.
pub fn unit_text(unit: Unit) -> String {
    match unit {
        Unit::Bytes => "bytes".to_owned(),
        Unit::Blocks(size) => format!("blocks:{size}"),
        Unit::Pages => "pages".to_owned(),
    }
}

/// The unit that [`unit_text`] says.
pub fn parse_unit(text: &str) -> Option<Unit> {
    match text {
        "bytes" => Some(Unit::Bytes),
        "pages" => Some(Unit::Pages),
        text => text.strip_prefix("blocks:")?.parse().ok().filter(|&size| size > 0).map(Unit::Blocks),
    }
}

struct Parquet<R: ChunkReader + 'static> {
    file: String,
    reader: SerializedFileReader<R>,
    /// The bytes of the file, and what they sum up to if it says so.
    bytes: R,
    checksums: Option<Checksums>,
    unit: Unit,
    page_size: Option<PageSize>,
    circumstances: Option<Circumstances>,
    layout: Layout,
    /// The column that says how long objects are.
    object_length: Option<usize>,
    /// What the place means, unless the file says what offsets and lengths count.
    place: Option<Meaning>,
    /// A unit of time in nanoseconds.
    tick: u64,
    keys: Keys,
    row_group: usize,
    columns: Option<Columns>,
    /// Rows of the row group that are not decoded yet.
    rows_left: usize,
    batch: Vec<Request>,
    next: usize,
    /// Rows decoded so far.
    rows: u64,
}

/// The columns of one row group, for each [`Role`], and the objects' lengths.
struct Columns {
    roles: [Option<Column>; 6],
    object_length: Option<Column>,
}

enum Column {
    Wide(Values<parquet::data_type::Int64Type>),
    Narrow(Values<parquet::data_type::Int32Type>),
    Text(Values<parquet::data_type::ByteArrayType>),
}

/// A column being decoded, and the batch decoded last: a value for each row, or none for a null.
struct Values<T: DataType> {
    reader: ColumnReaderImpl<T>,
    nullable: bool,
    values: Vec<T::T>,
    levels: Vec<i16>,
}

impl<T: DataType> Values<T> {
    /// Decodes `rows` rows.
    fn decode(&mut self, rows: usize) -> std::result::Result<(), ParquetError> {
        self.values.clear();
        self.levels.clear();
        let mut decoded = 0;
        while decoded < rows {
            let levels = self.nullable.then_some(&mut self.levels);
            let (more, _, _) = self.reader.read_records(rows - decoded, levels, None, &mut self.values)?;
            if more == 0 {
                return Err(ParquetError::EOF(format!("a column ends {} rows early", rows - decoded)));
            }
            decoded += more;
        }
        let present = if self.nullable { self.levels.iter().filter(|&&level| level > 0).count() } else { rows };
        if present != self.values.len() {
            return Err(ParquetError::General(format!("{present} values were expected, {} found", self.values.len())));
        }
        Ok(())
    }

    /// The values of the batch in the order of its rows.
    fn rows(&self) -> impl Iterator<Item = Option<&T::T>> {
        let mut values = self.values.iter();
        let mut levels = self.levels.iter();
        std::iter::from_fn(move || match (self.nullable, levels.next()) {
            (true, Some(0)) => Some(None),
            (true, None) => None,
            _ => values.next().map(Some),
        })
    }
}

impl Column {
    fn decode(&mut self, rows: usize) -> std::result::Result<(), ParquetError> {
        match self {
            Self::Wide(values) => values.decode(rows),
            Self::Narrow(values) => values.decode(rows),
            Self::Text(values) => values.decode(rows),
        }
    }

    /// The values of the batch in the order of its rows; `None` for a null.
    fn rows(&self) -> Box<dyn Iterator<Item = Option<Value<'_>>> + '_> {
        match self {
            Self::Wide(values) => Box::new(values.rows().map(|value| value.map(|&value| Value::Number(value as u64)))),
            Self::Narrow(values) => {
                Box::new(values.rows().map(|value| value.map(|&value| Value::Number(u64::from(value as u32)))))
            }
            Self::Text(values) => Box::new(values.rows().map(|value| value.map(|value| Value::Text(value.data())))),
        }
    }
}

/// A value as the file has it; a number by its unsigned bits.
enum Value<'a> {
    Number(u64),
    Text(&'a [u8]),
}

impl<'a> Value<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Number(number) => Some(number.to_string().into()),
            Self::Text(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
        }
    }
}

impl<R: ChunkReader + 'static> Parquet<R> {
    fn new(file: String, chunks: R, bytes: R, options: &Options) -> Result<Self> {
        let opened = guarded(|| SerializedFileReader::new(chunks));
        let reader =
            opened.map_err(|error| Error::new(&file, format!("{error}; the file may be cut short or damaged")))?;
        let checksums = Checksums::of(reader.metadata());
        let checksums = checksums.map_err(|what| Error::new(&file, format!("{what}; the file is damaged")))?;
        let metadata = reader.metadata().file_metadata();
        let given = |key: &str| {
            let pair = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
            pair.value.as_deref()
        };
        if options.columns.without_header() {
            return Err(Error::new(
                &file,
                "--columns names the columns of a Parquet file, which have no numbers: offset=NAME",
            ));
        }
        let schema = metadata.schema_descr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let layout = Layout::of_header(&names.iter().map(String::as_str).collect::<Vec<_>>(), &options.columns);
        let layout = layout.map_err(|message| Error::new(&file, message))?;
        let (meaning, _) = layout.column(Role::Place).expect("a layout has a place");
        let (unit, place) = match given(UNIT_KEY) {
            None => (unit_of(meaning), Some(meaning)),
            Some(text) => {
                let wrong = || format!("its {UNIT_KEY} is `{text}`; it should be bytes, blocks:512 or pages");
                (parse_unit(text).ok_or_else(|| Error::new(&file, wrong()))?, None)
            }
        };
        let page_size = given(PAGE_SIZE_KEY).map(|text| {
            let bytes = text.parse().ok().filter(|&bytes| Paging::new(unit, Some(bytes)).is_ok());
            bytes.ok_or_else(|| {
                Error::new(&file, format!("its {PAGE_SIZE_KEY} is `{text}`; it should be a power of two, as 4096"))
            })
        });
        let page_size = page_size.transpose()?.map(|bytes| PageSize { bytes, origin: Origin::Recorded });
        let circumstances = Circumstances::parse(given).map_err(|message| Error::new(&file, message))?;
        if ROLES.into_iter().any(|role| layout.is_hexadecimal(role)) {
            return Err(Error::new(
                &file,
                "a Parquet file's offsets and lengths are numbers, not hexadecimal text: offset=NAME",
            ));
        }
        for role in ROLES {
            let Some((meaning, place)) = layout.column(role) else { continue };
            let column = schema.column(place);
            let names = matches!(role, Role::Owner | Role::Object | Role::Operation) || meaning == Meaning::Page;
            let right = match column.physical_type() {
                Type::INT32 | Type::INT64 => true,
                Type::BYTE_ARRAY => names,
                _ => false,
            };
            if !right || column.self_type().get_basic_info().repetition() == Repetition::REPEATED {
                let wanted = if names { "UTF8, INT32 or INT64" } else { "INT32 or INT64" };
                let (name, is) = (column.path().string(), column.physical_type());
                // Data frames turn whole numbers with a gap into these.
                let cast = if matches!(is, Type::DOUBLE | Type::FLOAT) { ": cast it to whole numbers" } else { "" };
                return Err(Error::new(&file, format!("its column `{name}` is {is}; it should be {wanted}{cast}")));
            }
        }
        let taken = ROLES.into_iter().filter_map(|role| layout.column(role)).map(|(_, place)| place);
        // Another program may call something else so.
        let object_length = names.iter().position(|name| name == OBJECT_LENGTH).filter(|&place| {
            let column = schema.column(place);
            let is_number = matches!(column.physical_type(), Type::INT32 | Type::INT64);
            is_number && column.max_rep_level() == 0 && taken.clone().all(|of| of != place)
        });
        let groups = reader.metadata().row_groups().iter();
        let read = taken.chain(object_length);
        let mut chunks = groups.flat_map(|group| read.clone().map(|place| group.column(place)));
        chunks.try_for_each(check_codec).map_err(|message| Error::new(&file, message))?;
        let tick = layout.column(Role::Time).map_or(1, |(meaning, place)| match meaning {
            Meaning::Milliseconds => 1_000_000,
            Meaning::Microseconds => 1000,
            // Older programs write the converted type alone.
            _ => match (schema.column(place).logical_type_ref(), schema.column(place).converted_type()) {
                (Some(LogicalType::Timestamp(time)), _) if time.unit == TimeUnit::MILLIS => 1_000_000,
                (Some(LogicalType::Timestamp(time)), _) if time.unit == TimeUnit::MICROS => 1000,
                (None, ConvertedType::TIMESTAMP_MILLIS) => 1_000_000,
                (None, ConvertedType::TIMESTAMP_MICROS) => 1000,
                _ => 1,
            },
        });
        Ok(Self {
            file,
            reader,
            bytes,
            checksums,
            unit,
            page_size,
            circumstances,
            layout,
            object_length,
            place,
            tick,
            keys: Keys::default(),
            row_group: 0,
            columns: None,
            rows_left: 0,
            batch: Vec::new(),
            next: 0,
            rows: 0,
        })
    }

    /// Decodes the next rows; `false` at the end of the file.
    fn refill(&mut self, names: &mut Names) -> Result<bool> {
        self.batch.clear();
        self.next = 0;
        while self.rows_left == 0 {
            if self.row_group == self.reader.num_row_groups() {
                return Ok(false);
            }
            let columns = guarded(|| self.open_row_group());
            let (columns, rows) = columns.map_err(|error| self.damaged(&error))?;
            (self.columns, self.rows_left) = (Some(columns), rows);
            self.row_group += 1;
        }
        let rows = self.rows_left.min(ROWS_AT_ONCE);
        self.rows_left -= rows;
        let mut columns = self.columns.take().expect("a row group with rows left has columns");
        guarded(|| columns.decode(rows)).map_err(|error| self.damaged(&error))?;
        let filled = self.fill_batch(&columns, names, rows);
        self.columns = Some(columns);
        filled.map(|()| true)
    }

    fn open_row_group(&self) -> std::result::Result<(Columns, usize), ParquetError> {
        self.check_row_group()?;
        let group = self.reader.get_row_group(self.row_group)?;
        let rows = usize::try_from(group.metadata().num_rows())
            .map_err(|_| ParquetError::General("a row group has a negative number of rows".to_owned()))?;
        let nullable = |place: usize| group.metadata().schema_descr().column(place).max_def_level() > 0;
        let column = |place: Option<usize>| -> std::result::Result<Option<Column>, ParquetError> {
            let Some(place) = place else { return Ok(None) };
            Ok(Some(match group.get_column_reader(place)? {
                ColumnReader::Int64ColumnReader(reader) => Column::Wide(Values::new(reader, nullable(place))),
                ColumnReader::Int32ColumnReader(reader) => Column::Narrow(Values::new(reader, nullable(place))),
                ColumnReader::ByteArrayColumnReader(reader) => Column::Text(Values::new(reader, nullable(place))),
                _ => return Err(ParquetError::General("a column is neither a number nor a text".to_owned())),
            }))
        };
        let mut roles = [const { None }; 6];
        for role in ROLES {
            roles[role as usize] = column(self.layout.column(role).map(|(_, place)| place))?;
        }
        Ok((Columns { roles, object_length: column(self.object_length)? }, rows))
    }

    fn check_row_group(&self) -> std::result::Result<(), ParquetError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let place = place(self.reader.metadata().row_group(self.row_group));
        let length = usize::try_from(place.end - place.start).unwrap_or(usize::MAX);
        let found = if place.end <= self.bytes.len() {
            crc32fast::hash(&self.bytes.get_bytes(place.start, length)?)
        } else {
            return Err(ParquetError::EOF("a row group lies behind the end of the file".to_owned()));
        };
        if found == checksums.row_groups[self.row_group] {
            Ok(())
        } else {
            Err(ParquetError::General(format!("row group {} does not have its checksum", self.row_group)))
        }
    }

    fn fill_batch(&mut self, columns: &Columns, names: &mut Names, rows: usize) -> Result<()> {
        let named = self.layout.column(Role::Place).map_or("offset", |(meaning, _)| meaning.name());
        let mut values = columns.roles.each_ref().map(|column| column.as_ref().map(Column::rows));
        let mut lengths = columns.object_length.as_ref().map(Column::rows);
        for row in self.rows..self.rows + rows as u64 {
            let [time, owner, object, place, length, word] =
                values.each_mut().map(|rows| rows.as_mut().and_then(|rows| rows.next().flatten()));
            let request = || -> std::result::Result<Option<Request>, String> {
                let Some(operation) =
                    word.map_or(Ok(Some(Operation::Read)), |word| operation(&text(Some(word), "operation")?))?
                else {
                    return Ok(None);
                };
                let offset = match place {
                    Some(Value::Number(number)) => Some(number),
                    place => self.keys.page(&text(place, named)?),
                };
                let time = number(time).unwrap_or(0);
                Ok(Some(Request {
                    time: time
                        .checked_mul(self.tick)
                        .ok_or_else(|| format!("time {time} is beyond 2^64 nanoseconds"))?,
                    owner: names.owner(&text(owner, "owner")?),
                    object: names.object(&text(object, "object")?),
                    offset: offset.ok_or_else(|| format!("`{named}` is null or empty"))?,
                    length: self.length(number(length))?,
                    operation,
                }))
            };
            let request = request().map_err(|message| Error::new(&self.file, format!("row {row}: {message}")))?;
            let object_length = lengths.as_mut().and_then(|rows| rows.next().flatten());
            if let (Some(request), Some(bytes)) = (&request, number(object_length)) {
                names.set_length(request.object, bytes);
            }
            self.batch.extend(request);
        }
        self.rows += rows as u64;
        Ok(())
    }

    /// A row's length in the unit of the trace.
    fn length(&self, length: Option<u64>) -> std::result::Result<u64, String> {
        match (length, self.place, self.layout.column(Role::Length)) {
            (Some(length), Some(place), Some((meaning, _))) => length_in(place, meaning, length),
            (length, ..) => Ok(length.unwrap_or(1)),
        }
    }

    fn damaged(&self, error: &ParquetError) -> Error {
        Error::new(&self.file, format!("after row {}: {error}; the file may be cut short or damaged", self.rows))
    }
}

impl Columns {
    fn decode(&mut self, rows: usize) -> std::result::Result<(), ParquetError> {
        self.roles.iter_mut().chain([&mut self.object_length]).flatten().try_for_each(|column| column.decode(rows))
    }
}

fn text<'a>(value: Option<Value<'a>>, what: &str) -> std::result::Result<Cow<'a, str>, String> {
    let Some(value) = value else { return Ok(Cow::Borrowed("")) };
    value.text().ok_or_else(|| format!("`{what}` is no UTF-8 text"))
}

fn number(value: Option<Value<'_>>) -> Option<u64> {
    match value {
        Some(Value::Number(number)) => Some(number),
        _ => None,
    }
}

impl<T: DataType> Values<T> {
    fn new(reader: ColumnReaderImpl<T>, nullable: bool) -> Self {
        Self { reader, nullable, values: Vec::new(), levels: Vec::new() }
    }
}

/// Whether a column's part can be decompressed. Decoders of Brotli are long to build, and no program writes it unless it is asked to.
fn check_codec(chunk: &ColumnChunkMetaData) -> std::result::Result<(), String> {
    let codec = match chunk.compression() {
        Compression::BROTLI(_) => "brotli",
        Compression::LZO => "lzo",
        _ => return Ok(()),
    };
    Err(format!(
        "its column `{}` is compressed with {codec}, which is not read; zstd, gzip, snappy and lz4 are. DuckDB converts it: \
         copy 'this.parquet' to 'new.parquet' (compression zstd)",
        chunk.column_path().string()
    ))
}

/// Calls into the decoder: on damaged files it may panic where it should return an error, and a reader never panics.
fn guarded<T>(decode: impl FnOnce() -> std::result::Result<T, ParquetError>) -> std::result::Result<T, ParquetError> {
    // What a panic leaves behind half done is never used again: the error ends the reading.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("the table cannot be decoded".to_owned())))
}

impl<R: ChunkReader + 'static> Reader for Parquet<R> {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn page_size(&self) -> Option<PageSize> {
        self.page_size
    }

    fn circumstances(&self) -> Option<&Circumstances> {
        self.circumstances.as_ref()
    }

    fn has_lengths(&self) -> bool {
        self.object_length.is_some()
    }

    fn share(&self) -> Option<f64> {
        let rows = self.reader.metadata().file_metadata().num_rows();
        Some((self.rows as f64 / rows.max(1) as f64).min(1.0))
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        // A batch may hold no transfer.
        while self.next == self.batch.len() {
            if !self.refill(names)? {
                return Ok(None);
            }
        }
        self.next += 1;
        Ok(self.batch.get(self.next - 1).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type as SchemaType};
    use std::sync::Arc;

    #[test]
    fn a_codec_that_is_not_read_is_named_with_what_converts_the_file() {
        let number = SchemaType::primitive_type_builder("offset", Type::INT64).build().expect("a type");
        let column = Arc::new(ColumnDescriptor::new(Arc::new(number), 0, 0, ColumnPath::from("offset")));
        let check = |codec| {
            let chunk = ColumnChunkMetaData::builder(Arc::clone(&column)).set_compression(codec).build();
            check_codec(&chunk.expect("a part of a column"))
        };
        for read in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4, Compression::LZ4_RAW] {
            assert_eq!(check(read), Ok(()));
        }
        for (codec, name) in [(Compression::BROTLI(Default::default()), "brotli"), (Compression::LZO, "lzo")] {
            let refused = check(codec).unwrap_err();
            assert!(["`offset`", name, "(compression zstd)"].iter().all(|part| refused.contains(part)), "{refused}");
        }
    }
}
