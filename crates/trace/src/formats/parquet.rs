//! Our own format: Apache Parquet, one row a request, read as a table by DuckDB, Polars, pandas and PyArrow.
//!
//! - `time` INT64, nanoseconds; `owner`, `object` UTF8, their names; `offset`, `length` INT64, unsigned; `operation` UTF8,
//!   `read`, `write` or `readahead`.
//! - Key-value metadata: `forebay.unit` says what `offset` and `length` count (`bytes`, also where it is missing; `blocks:512`;
//!   `pages`); `forebay.version` is 1.
//!
//! Files from elsewhere are read too: columns in any order, others ignored, all but `offset` optional (time 0, unnamed, one unit,
//! read), INT32 or INT64, with or without nulls (a null is what a missing column is). Row groups are read a batch at a time.

use super::Format;
use crate::error::{Error, Result};
use crate::input::Input;
use crate::names::Names;
use crate::pages::{Origin, PageSize, Paging};
use crate::reader::Reader;
use crate::request::{Operation, Request, Unit};
use bytes::Bytes;
use parquet::basic::{Repetition, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
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

pub(crate) const UNIT_KEY: &str = "forebay.unit";
pub(crate) const VERSION_KEY: &str = "forebay.version";
pub(crate) const PAGE_SIZE_KEY: &str = "forebay.page_size";
pub(crate) const COLUMNS: [&str; 6] = ["time", "owner", "object", "offset", "length", "operation"];

/// Rows decoded at once.
const ROWS_AT_ONCE: usize = 8192;

fn open(input: Input, _: &crate::reader::Options) -> Result<Box<dyn Reader>> {
    let file = input.file().to_owned();
    match input.path() {
        Some(path) => {
            let opened = File::open(path).map_err(|error| Error::io(&file, "opening", error))?;
            Ok(Box::new(Parquet::new(file, opened)?))
        }
        // A table's directory is at its end: what cannot be read from there is taken into memory.
        None => {
            let all = input.bytes().read_to_end()?;
            Ok(Box::new(Parquet::new(file, Bytes::from(all))?))
        }
    }
}

/// What `forebay.unit` says.
pub(crate) fn unit_text(unit: Unit) -> String {
    match unit {
        Unit::Bytes => "bytes".to_owned(),
        Unit::Blocks(size) => format!("blocks:{size}"),
        Unit::Pages => "pages".to_owned(),
    }
}

fn parse_unit(text: &str) -> Option<Unit> {
    match text {
        "bytes" => Some(Unit::Bytes),
        "pages" => Some(Unit::Pages),
        text => text.strip_prefix("blocks:")?.parse().ok().filter(|&size| size > 0).map(Unit::Blocks),
    }
}

struct Parquet<R: ChunkReader + 'static> {
    file: String,
    reader: SerializedFileReader<R>,
    unit: Unit,
    page_size: Option<PageSize>,
    /// For each of `COLUMNS`, its place in the file.
    places: [Option<usize>; 6],
    row_group: usize,
    columns: Option<Columns>,
    /// Rows of the row group that are not decoded yet.
    rows_left: usize,
    batch: Vec<Request>,
    next: usize,
    /// Rows handed out before this batch.
    rows: u64,
}

/// The columns of one row group.
struct Columns {
    time: Option<Numbers>,
    owner: Option<Texts>,
    object: Option<Texts>,
    offset: Numbers,
    length: Option<Numbers>,
    operation: Option<Texts>,
}

enum Numbers {
    Wide(Values<parquet::data_type::Int64Type>),
    Narrow(Values<parquet::data_type::Int32Type>),
}

type Texts = Values<parquet::data_type::ByteArrayType>;

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

impl Numbers {
    fn decode(&mut self, rows: usize) -> std::result::Result<(), ParquetError> {
        match self {
            Self::Wide(values) => values.decode(rows),
            Self::Narrow(values) => values.decode(rows),
        }
    }

    /// Numbers as unsigned bits; `None` for a null.
    fn rows(&self) -> Box<dyn Iterator<Item = Option<u64>> + '_> {
        match self {
            Self::Wide(values) => Box::new(values.rows().map(|value| value.map(|&value| value as u64))),
            Self::Narrow(values) => Box::new(values.rows().map(|value| value.map(|&value| u64::from(value as u32)))),
        }
    }
}

impl<R: ChunkReader + 'static> Parquet<R> {
    fn new(file: String, chunks: R) -> Result<Self> {
        let opened = guarded(|| SerializedFileReader::new(chunks));
        let reader =
            opened.map_err(|error| Error::new(&file, format!("{error}; the file may be cut short or damaged")))?;
        let metadata = reader.metadata().file_metadata();
        let given = |key: &str| {
            let pair = metadata.key_value_metadata()?.iter().find(|pair| pair.key == key)?;
            pair.value.as_deref()
        };
        let unit = match given(UNIT_KEY) {
            None => Unit::Bytes,
            Some(text) => parse_unit(text).ok_or_else(|| {
                Error::new(&file, format!("its {UNIT_KEY} is `{text}`; it should be bytes, blocks:512 or pages"))
            })?,
        };
        let page_size = given(PAGE_SIZE_KEY).map(|text| {
            let bytes = text.parse().ok().filter(|&bytes| Paging::new(unit, Some(bytes)).is_ok());
            bytes.ok_or_else(|| {
                Error::new(&file, format!("its {PAGE_SIZE_KEY} is `{text}`; it should be a power of two, as 4096"))
            })
        });
        let page_size = page_size.transpose()?.map(|bytes| PageSize { bytes, origin: Origin::Recorded });
        let mut places = [None; 6];
        for (place, column) in metadata.schema_descr().columns().iter().enumerate() {
            let Some(index) = COLUMNS.iter().position(|&name| column.path().parts() == [name.to_owned()]) else {
                continue;
            };
            let numeric = matches!(COLUMNS[index], "time" | "offset" | "length");
            let right = match column.physical_type() {
                Type::INT32 | Type::INT64 => numeric,
                Type::BYTE_ARRAY => !numeric,
                _ => false,
            };
            if !right || column.self_type().get_basic_info().repetition() == Repetition::REPEATED {
                let wanted = if numeric { "INT32 or INT64" } else { "UTF8" };
                return Err(Error::new(
                    &file,
                    format!("its column `{}` is {}; it should be {wanted}", COLUMNS[index], column.physical_type()),
                ));
            }
            places[index] = Some(place);
        }
        if places[3].is_none() {
            let names: Vec<String> =
                metadata.schema_descr().columns().iter().map(|column| column.path().string()).collect();
            let found = names.join(", ");
            return Err(Error::new(
                &file,
                format!("has no column `offset` but {found}; a trace has {}", COLUMNS.join(", ")),
            ));
        }
        Ok(Self {
            file,
            reader,
            unit,
            page_size,
            places,
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
        self.rows += self.batch.len() as u64;
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
        let filled = self.fill_batch(&columns, names);
        self.columns = Some(columns);
        filled.map(|()| true)
    }

    fn open_row_group(&self) -> std::result::Result<(Columns, usize), ParquetError> {
        let group = self.reader.get_row_group(self.row_group)?;
        let rows = usize::try_from(group.metadata().num_rows())
            .map_err(|_| ParquetError::General("a row group has a negative number of rows".to_owned()))?;
        let nullable = |place: usize| group.metadata().schema_descr().column(place).max_def_level() > 0;
        let numbers = |index: usize| -> std::result::Result<Option<Numbers>, ParquetError> {
            let Some(place) = self.places[index] else { return Ok(None) };
            match group.get_column_reader(place)? {
                ColumnReader::Int64ColumnReader(reader) => {
                    Ok(Some(Numbers::Wide(Values::new(reader, nullable(place)))))
                }
                ColumnReader::Int32ColumnReader(reader) => {
                    Ok(Some(Numbers::Narrow(Values::new(reader, nullable(place)))))
                }
                _ => Err(ParquetError::General(format!("column `{}` is no number", COLUMNS[index]))),
            }
        };
        let texts = |index: usize| -> std::result::Result<Option<Texts>, ParquetError> {
            let Some(place) = self.places[index] else { return Ok(None) };
            match group.get_column_reader(place)? {
                ColumnReader::ByteArrayColumnReader(reader) => Ok(Some(Values::new(reader, nullable(place)))),
                _ => Err(ParquetError::General(format!("column `{}` is no text", COLUMNS[index]))),
            }
        };
        let missing = || ParquetError::General("column `offset` is missing".to_owned());
        let columns = Columns {
            time: numbers(0)?,
            owner: texts(1)?,
            object: texts(2)?,
            offset: numbers(3)?.ok_or_else(missing)?,
            length: numbers(4)?,
            operation: texts(5)?,
        };
        Ok((columns, rows))
    }

    fn fill_batch(&mut self, columns: &Columns, names: &mut Names) -> Result<()> {
        let mut times = columns.time.as_ref().map(Numbers::rows);
        let mut owners = columns.owner.as_ref().map(|texts| texts.rows());
        let mut objects = columns.object.as_ref().map(|texts| texts.rows());
        let mut lengths = columns.length.as_ref().map(Numbers::rows);
        let mut operations = columns.operation.as_ref().map(|texts| texts.rows());
        for offset in columns.offset.rows() {
            let row = self.rows + self.batch.len() as u64;
            let wrong = |message: String| Error::new(&self.file, format!("row {row}: {message}"));
            let text = |value: Option<&ByteArray>, column: &str| match value {
                None => Ok(String::new()),
                Some(value) => match value.as_utf8() {
                    Ok(text) => Ok(text.to_owned()),
                    Err(_) => Err(wrong(format!("`{column}` is no UTF-8 text"))),
                },
            };
            let owner = text(next(&mut owners), "owner")?;
            let object = text(next(&mut objects), "object")?;
            let operation = match next(&mut operations).map_or(&b"read"[..], |value| value.data()) {
                b"read" => Operation::Read,
                b"write" => Operation::Write,
                b"readahead" => Operation::Readahead,
                other => {
                    let other = String::from_utf8_lossy(other);
                    return Err(wrong(format!("`operation` is `{other}`; it should be read, write or readahead")));
                }
            };
            let request = Request {
                time: next(&mut times).unwrap_or(0),
                owner: names.owner(&owner),
                object: names.object(&object),
                offset: offset.ok_or_else(|| wrong("`offset` is null".to_owned()))?,
                length: next(&mut lengths).unwrap_or(1),
                operation,
            };
            self.batch.push(request);
        }
        Ok(())
    }

    fn damaged(&self, error: &ParquetError) -> Error {
        Error::new(&self.file, format!("after row {}: {error}; the file may be cut short or damaged", self.rows))
    }
}

impl Columns {
    fn decode(&mut self, rows: usize) -> std::result::Result<(), ParquetError> {
        self.offset.decode(rows)?;
        for numbers in [&mut self.time, &mut self.length].into_iter().flatten() {
            numbers.decode(rows)?;
        }
        for texts in [&mut self.owner, &mut self.object, &mut self.operation].into_iter().flatten() {
            texts.decode(rows)?;
        }
        Ok(())
    }
}

impl<T: DataType> Values<T> {
    fn new(reader: ColumnReaderImpl<T>, nullable: bool) -> Self {
        Self { reader, nullable, values: Vec::new(), levels: Vec::new() }
    }
}

/// The next value of a column that may be missing, or a null.
fn next<T>(column: &mut Option<impl Iterator<Item = Option<T>>>) -> Option<T> {
    column.as_mut().and_then(|rows| rows.next().flatten())
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

    fn share(&self) -> Option<f64> {
        let rows = self.reader.metadata().file_metadata().num_rows();
        Some(((self.rows + self.batch.len() as u64) as f64 / rows.max(1) as f64).min(1.0))
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        if self.next == self.batch.len() && !self.refill(names)? {
            return Ok(None);
        }
        self.next += 1;
        Ok(self.batch.get(self.next - 1).copied())
    }
}
