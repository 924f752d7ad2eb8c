//! A trace in columns: those of Arrow arrays, read where they lie, or the requests of any trace made into such arrays.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use forebay_basis::Operation;
use forebay_trace::metadata::{PAGE_SIZE_KEY, UNIT_KEY, unit_text};
use forebay_trace::{Names, Origin, PageSize, Reader, Request, Result, Unit};
use std::collections::HashMap;
use std::sync::Arc;

/// Whole numbers of any width, where Arrow has them; negative ones by their bits.
enum Numbers {
    I8(ArrayRef),
    I16(ArrayRef),
    I32(ArrayRef),
    I64(ArrayRef),
    U8(ArrayRef),
    U16(ArrayRef),
    U32(ArrayRef),
    U64(ArrayRef),
}

impl Numbers {
    fn of(column: &str, array: &ArrayRef) -> std::result::Result<Self, String> {
        if array.null_count() > 0 {
            return Err(format!("column `{column}` has {} missing values: drop or fill them", array.null_count()));
        }
        let array = array.clone();
        Ok(match array.data_type() {
            DataType::Int8 => Self::I8(array),
            DataType::Int16 => Self::I16(array),
            DataType::Int32 => Self::I32(array),
            DataType::Int64 => Self::I64(array),
            DataType::UInt8 => Self::U8(array),
            DataType::UInt16 => Self::U16(array),
            DataType::UInt32 => Self::U32(array),
            DataType::UInt64 => Self::U64(array),
            other => return Err(format!("column `{column}` is of type {other}: make it whole numbers")),
        })
    }

    /// Hands each of the numbers in the range to `take`, with its place in the range.
    fn each(&self, from: usize, count: usize, mut take: impl FnMut(usize, u64)) {
        fn all<T: ArrowPrimitiveType>(
            array: &ArrayRef,
            from: usize,
            count: usize,
            mut take: impl FnMut(usize, T::Native),
        ) {
            let values = &array.as_primitive::<T>().values()[from..from + count];
            values.iter().enumerate().for_each(|(index, &value)| take(index, value));
        }
        match self {
            Self::I8(array) => all::<Int8Type>(array, from, count, |index, value| take(index, value as u64)),
            Self::I16(array) => all::<Int16Type>(array, from, count, |index, value| take(index, value as u64)),
            Self::I32(array) => all::<Int32Type>(array, from, count, |index, value| take(index, value as u64)),
            Self::I64(array) => all::<Int64Type>(array, from, count, |index, value| take(index, value as u64)),
            Self::U8(array) => all::<UInt8Type>(array, from, count, |index, value| take(index, value.into())),
            Self::U16(array) => all::<UInt16Type>(array, from, count, |index, value| take(index, value.into())),
            Self::U32(array) => all::<UInt32Type>(array, from, count, |index, value| take(index, value.into())),
            Self::U64(array) => all::<UInt64Type>(array, from, count, take),
        }
    }
}

/// Texts by number: those of a dictionary.
struct Texts {
    codes: Int32Array,
    words: Vec<String>,
}

impl Texts {
    fn of(column: &str, array: &ArrayRef) -> std::result::Result<Self, String> {
        let dictionary = array.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
        let dictionary = dictionary.ok_or_else(|| format!("column `{column}` is of type {}", array.data_type()))?;
        let words = dictionary.values().as_string_opt::<i32>();
        let words =
            words.ok_or_else(|| format!("column `{column}` has values of type {}", dictionary.values().data_type()))?;
        let words = words.iter().map(|word| word.unwrap_or_default().to_owned()).collect();
        Ok(Self { codes: dictionary.keys().clone(), words })
    }

    /// Hands the code of each row in the range to `take`, with its place in the range; a missing text has none.
    fn each(&self, from: usize, count: usize, mut take: impl FnMut(usize, Option<usize>)) {
        for index in 0..count {
            let row = from + index;
            take(index, self.codes.is_valid(row).then(|| self.codes.value(row) as usize));
        }
    }
}

struct Batch {
    rows: usize,
    time: Option<Numbers>,
    owner: Option<Texts>,
    object: Option<Texts>,
    offset: Numbers,
    length: Option<Numbers>,
    /// The operation for each word of the texts.
    operation: Option<(Texts, Vec<Operation>)>,
}

/// A trace in columns. What is shared is never changed.
pub(crate) struct Columns {
    unit: Unit,
    page_size: Option<u64>,
    rows: usize,
    batches: Vec<Batch>,
}

impl Columns {
    /// The columns `time` (nanoseconds), `owner`, `object` and `operation` (texts of a dictionary), `offset` and `length` of these batches;
    /// all but `offset` may be missing.
    ///
    /// # Errors
    /// A sentence that says which column is wrong.
    pub(crate) fn new(
        batches: &[RecordBatch],
        unit: Unit,
        page_size: Option<u64>,
    ) -> std::result::Result<Self, String> {
        let batch = |batch: &RecordBatch| {
            let numbers = |name| batch.column_by_name(name).map(|array| Numbers::of(name, array)).transpose();
            let texts = |name| batch.column_by_name(name).map(|array| Texts::of(name, array)).transpose();
            let operation = texts("operation")?.map(|texts| {
                let operations =
                    texts.words.iter().map(|word| operation(word)).collect::<std::result::Result<_, _>>()?;
                Ok::<_, String>((texts, operations))
            });
            Ok::<_, String>(Batch {
                rows: batch.num_rows(),
                time: numbers("time")?,
                owner: texts("owner")?,
                object: texts("object")?,
                offset: numbers("offset")?.ok_or("there is no column `offset`: name it by `columns`")?,
                length: numbers("length")?,
                operation: operation.transpose()?,
            })
        };
        let batches: Vec<Batch> = batches.iter().map(batch).collect::<std::result::Result<_, _>>()?;
        let rows = batches.iter().map(|batch| batch.rows).sum();
        if rows == 0 {
            return Err("there are no rows; a trace has at least one request".to_owned());
        }
        Ok(Self { unit, page_size, rows, batches })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads it from the start.
    pub(crate) fn reader(self: &Arc<Self>) -> Box<dyn Reader> {
        let columns = Arc::clone(self);
        Box::new(ColumnsReader { columns, batch: 0, row: 0, read: 0, owners: Vec::new(), objects: Vec::new() })
    }
}

fn operation(word: &str) -> std::result::Result<Operation, String> {
    if word.is_empty() {
        return Ok(Operation::Read);
    }
    let known = Operation::ALL.into_iter().find(|operation| operation.word() == word);
    let words = Operation::ALL.map(Operation::word);
    known.ok_or_else(|| format!("column `operation`: `{word}` is none; there are {}", words.join(", ")))
}

struct ColumnsReader {
    columns: Arc<Columns>,
    batch: usize,
    /// The next row of the batch.
    row: usize,
    read: usize,
    /// The numbers in `names` of the batch's texts.
    owners: Vec<u32>,
    objects: Vec<u32>,
}

impl Reader for ColumnsReader {
    fn unit(&self) -> Unit {
        self.columns.unit
    }

    fn page_size(&self) -> Option<PageSize> {
        self.columns.page_size.map(|bytes| PageSize { bytes, origin: Origin::Recorded })
    }

    fn share(&self) -> Option<f64> {
        Some(self.read as f64 / self.columns.rows as f64)
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let mut one = Vec::with_capacity(1);
        self.fill(names, 1, &mut one)?;
        Ok(one.pop())
    }

    fn fill(&mut self, names: &mut Names, most: usize, requests: &mut Vec<Request>) -> Result<bool> {
        let mut left = most;
        let columns = Arc::clone(&self.columns);
        while let Some(batch) = columns.batches.get(self.batch).filter(|_| left > 0) {
            if self.row == 0 {
                self.owners.clear();
                self.owners.extend(batch.owner.iter().flat_map(|texts| &texts.words).map(|name| names.owner(name)));
                self.objects.clear();
                self.objects.extend(batch.object.iter().flat_map(|texts| &texts.words).map(|name| names.object(name)));
            }
            let (from, count, start) = (self.row, left.min(batch.rows - self.row), requests.len());
            batch.offset.each(from, count, |_, offset| {
                requests.push(Request { time: 0, owner: 0, object: 0, offset, length: 1, operation: Operation::Read });
            });
            let made = &mut requests[start..];
            if let Some(times) = &batch.time {
                times.each(from, count, |index, time| made[index].time = time);
            }
            if let Some(lengths) = &batch.length {
                lengths.each(from, count, |index, length| made[index].length = length);
            }
            if let Some(owners) = &batch.owner {
                owners.each(from, count, |index, code| made[index].owner = code.map_or(0, |code| self.owners[code]));
            }
            if let Some(objects) = &batch.object {
                objects.each(from, count, |index, code| made[index].object = code.map_or(0, |code| self.objects[code]));
            }
            if let Some((texts, operations)) = &batch.operation {
                texts.each(from, count, |index, code| {
                    made[index].operation = code.map_or(Operation::Read, |code| operations[code]);
                });
            }
            self.row += count;
            self.read += count;
            left -= count;
            if self.row == batch.rows {
                self.batch += 1;
                self.row = 0;
            }
        }
        Ok(self.batch < columns.batches.len())
    }
}

/// The requests of a trace as columns, under the names and with the metadata of our own Parquet files; texts are dictionaries.
#[derive(Default)]
pub(crate) struct Collected {
    time: Vec<i64>,
    owner: Vec<i32>,
    object: Vec<i32>,
    offset: Vec<u64>,
    length: Vec<u64>,
    operation: Vec<i32>,
}

impl Collected {
    pub(crate) fn add(&mut self, requests: &[Request]) {
        for request in requests {
            self.time.push(request.time as i64);
            self.owner.push(request.owner as i32);
            self.object.push(request.object as i32);
            self.offset.push(request.offset);
            self.length.push(request.length);
            let code = Operation::ALL.iter().position(|&operation| operation == request.operation);
            self.operation.push(code.expect("it is one of all") as i32);
        }
    }

    /// The table.
    pub(crate) fn table(self, names: &Names, unit: Unit, page_size: Option<u64>) -> (SchemaRef, RecordBatch) {
        let texts = |codes: Vec<i32>, words: &[String]| -> ArrayRef {
            let words = Arc::new(StringArray::from_iter_values(words));
            Arc::new(DictionaryArray::new(Int32Array::from(codes), words))
        };
        let operations = Operation::ALL.map(|operation| operation.word().to_owned());
        let columns: [(&str, ArrayRef); 6] = [
            ("time", Arc::new(Int64Array::from(self.time))),
            ("owner", texts(self.owner, names.owners())),
            ("object", texts(self.object, names.objects())),
            ("offset", Arc::new(UInt64Array::from(self.offset))),
            ("length", Arc::new(UInt64Array::from(self.length))),
            ("operation", texts(self.operation, &operations)),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), false)).collect();
        let mut metadata = HashMap::from([(UNIT_KEY.to_owned(), unit_text(unit))]);
        metadata.extend(page_size.map(|bytes| (PAGE_SIZE_KEY.to_owned(), bytes.to_string())));
        let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("the columns are of one length");
        (schema, batch)
    }
}
