//! Parquet tables that other programs wrote: their columns by name, or as the user names them.

use bytes::Bytes;
use forebay_basis::Operation;
use forebay_trace::formats::csv::Columns;
use forebay_trace::mix::{Mix, Source, Span, Times};
use forebay_trace::{ConvertOptions, Input, Names, Options, Reader, Request, Unit, convert, reader};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

enum Column<'a> {
    Long(&'a [i64]),
    Short(&'a [i32]),
    Real(&'a [f64]),
    Text(&'a [&'a str]),
}

/// A table of these columns.
fn table(schema: &str, columns: &[Column<'_>]) -> Vec<u8> {
    let schema = parse_message_type(&format!("message t {{ {schema} }}")).expect("the schema is well formed");
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(WriterProperties::new())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in columns {
        let mut to = group.next_column().unwrap().expect("a column of the schema");
        match column {
            Column::Long(values) => to.typed::<Int64Type>().write_batch(values, None, None),
            Column::Short(values) => to.typed::<Int32Type>().write_batch(values, None, None),
            Column::Real(values) => to.typed::<DoubleType>().write_batch(values, None, None),
            Column::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|&text| text.into()).collect();
                to.typed::<ByteArrayType>().write_batch(&values, None, None)
            }
        }
        .unwrap();
        to.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

fn read(table: Vec<u8>, columns: &str) -> forebay_trace::Result<(Unit, Names, Vec<Request>)> {
    let columns = if columns.is_empty() { Columns::default() } else { Columns::parse(columns).expect("columns") };
    let options = Options { columns, ..Options::default() };
    let (format, mut reader) = reader::read(Input::from_bytes("t.parquet", Bytes::from(table))?, &options)?;
    assert_eq!(format.name, "parquet");
    let (mut names, mut requests) = (Names::new(), Vec::new());
    while reader.fill(&mut names, 100, &mut requests)? {}
    Ok((reader.unit(), names, requests))
}

#[test]
fn keys_are_pages_whether_they_are_numbers_or_texts() {
    let texts = table(
        "required binary key (string); required int32 pid;",
        &[Column::Text(&["b", "7", "b", "a"]), Column::Short(&[4, 4, 5, 4])],
    );
    let (unit, names, requests) = read(texts, "").unwrap();
    let pages: Vec<u64> = requests.iter().map(|request| request.offset).collect();
    assert_eq!((unit, pages), (Unit::Pages, vec![1 << 63, 7, 1 << 63, (1 << 63) + 1]));
    assert_eq!(names.owners(), ["", "4", "5"]);
    let numbers =
        table("required int64 page; required int64 size;", &[Column::Long(&[3, 9]), Column::Long(&[4096, 512])]);
    let (unit, _, requests) = read(numbers, "").unwrap();
    let pages: Vec<_> = requests.iter().map(|request| (request.offset, request.length)).collect();
    assert_eq!((unit, pages), (Unit::Pages, vec![(3, 1), (9, 1)]));
}

#[test]
fn columns_mean_what_the_user_says_and_times_what_their_type_says() {
    let schema = "required int64 when (TIMESTAMP(MICROS,true)); required int64 addr; required int64 n; required binary what (string);";
    let columns = [
        Column::Long(&[5, 6, 7]),
        Column::Long(&[8, 16, 24]),
        Column::Long(&[1, 2, 3]),
        Column::Text(&["GET", "flush", "w"]),
    ];
    let (unit, _, requests) = read(table(schema, &columns), "time=when,block=addr,blocks=n,operation=what").unwrap();
    let seen: Vec<_> =
        requests.iter().map(|request| (request.time, request.offset, request.length, request.operation)).collect();
    assert_eq!(unit, Unit::Blocks(512));
    assert_eq!(seen, [(5000, 8, 1, Operation::Read), (7000, 24, 3, Operation::Write)]);
    let milliseconds =
        table("required int64 time_ms; required int64 offset;", &[Column::Long(&[2]), Column::Long(&[0])]);
    assert_eq!(read(milliseconds, "").unwrap().2[0].time, 2_000_000);
}

#[test]
fn what_is_missing_or_of_another_type_is_said_with_what_to_do() {
    let error = |schema: &str, column: Column<'_>, columns: &str| {
        read(table(schema, &[column]), columns).unwrap_err().to_string()
    };
    let message = error("required int64 addr;", Column::Long(&[1]), "");
    assert!(message.contains("there are addr") && message.contains("--columns offset=NAME"), "{message}");
    let message = error("required int64 addr;", Column::Long(&[1]), "offset=adr");
    assert!(message.contains("no column `adr`"), "{message}");
    let message = error("required int64 addr;", Column::Long(&[1]), "offset=#1");
    assert!(message.contains("offset=NAME"), "{message}");
    let message = error("required double offset;", Column::Real(&[1.0]), "");
    assert!(
        message.contains("column `offset` is DOUBLE; it should be INT32 or INT64: cast it to whole numbers"),
        "{message}"
    );
    let message = error("required double key;", Column::Real(&[1.0]), "");
    assert!(message.contains("it should be UTF8, INT32 or INT64"), "{message}");
    let message = error("required binary key (string);", Column::Text(&["a", ""]), "");
    assert!(message.contains("row 1: `page` is null or empty"), "{message}");
}

#[test]
fn objects_have_the_lengths_that_the_trace_says_last() {
    let schema = "required binary object (string); required int64 offset; required int64 object_length;";
    let columns = [Column::Text(&["a", "b", "a"]), Column::Long(&[0, 0, 8192]), Column::Long(&[9000, 10, 12000])];
    let (_, names, requests) = read(table(schema, &columns), "").unwrap();
    assert_eq!(
        requests.iter().map(|request| names.length(request.object)).collect::<Vec<_>>(),
        [12000, 10, 12000].map(Some)
    );
    // Another program's column of this name is something else.
    let (_, names, _) = read(
        table("required int64 offset; required double object_length;", &[Column::Long(&[0]), Column::Real(&[7.0])]),
        "",
    )
    .unwrap();
    assert_eq!(names.length(0), None);
}

#[test]
fn lengths_are_kept_by_a_conversion_and_by_a_mix_and_a_trace_without_them_is_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let schema = "required binary object (string); required int64 offset; required int64 object_length;";
    let columns = [Column::Text(&["a", "b", "a"]), Column::Long(&[0, 0, 8192]), Column::Long(&[9000, 10, 12000])];
    let options = Options::default();
    let open =
        |table: Vec<u8>| reader::read(Input::from_bytes("t.parquet", Bytes::from(table)).unwrap(), &options).unwrap().1;
    let write = |reader: &mut dyn Reader, name: &str| {
        let out = folder.path().join(name);
        convert(reader, &out, &ConvertOptions::default(), &mut |_| {}).unwrap();
        std::fs::read(out).unwrap()
    };
    let whole = table(schema, &columns);
    let converted = write(open(whole.clone()).as_mut(), "converted.parquet");
    let (_, names, _) = read(converted.clone(), "").unwrap();
    assert_eq!((names.length(1), names.length(2)), (Some(12000), Some(10)));
    let span = Span::of("t", open(converted.clone()).as_mut(), None, &mut |_| {}).unwrap();
    let source = Source { name: "t".to_owned(), reader: open(converted), span };
    let mut mix = Mix::new(vec![source], Times::Scaled, None).unwrap();
    let (_, mut names, _) = read(write(&mut mix, "mixed.parquet"), "").unwrap();
    let a = names.object("t/a");
    assert_eq!(names.length(a), Some(12000));
    let without = table("required binary object (string); required int64 offset;", &columns[..2]);
    let without = write(open(without).as_mut(), "without.parquet");
    let names = SerializedFileReader::new(Bytes::from(without)).unwrap();
    assert_eq!(names.metadata().file_metadata().schema_descr().num_columns(), 6);
}
