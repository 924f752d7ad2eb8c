//! A damaged table of ours is an error, never another trace.

use bytes::Bytes;
use forebay_trace::write::{ConvertOptions, convert};
use forebay_trace::{Input, Names, Options, Request, Result, open, reader};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

/// The owners, the objects, and the requests.
type Whole = (Vec<String>, Vec<String>, Vec<Request>);

fn read(table: Vec<u8>) -> Result<Whole> {
    let (_, mut reader) = reader::read(Input::from_bytes("t.parquet", Bytes::from(table))?, &Options::default())?;
    let (mut names, mut requests) = (Names::new(), Vec::new());
    while reader.fill(&mut names, 1000, &mut requests)? {}
    Ok((names.owners().to_vec(), names.objects().to_vec(), requests))
}

#[test]
fn no_flipped_bit_of_a_table_makes_another_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet");
    let (_, mut made) = open(Path::new("zipf:pages=300,references=2000"), &Options::default()).expect("a trace");
    let options = ConvertOptions { page_size: Some(4096), ..ConvertOptions::default() };
    convert(made.as_mut(), &file, &options, &mut |_| {}).expect("it is written");
    let table = std::fs::read(&file).expect("it is there");
    let whole = read(table.clone()).expect("it is whole");
    assert_eq!(whole.2.len(), 2000);
    let mut refused = 0;
    for place in 0..table.len() {
        let mut damaged = table.clone();
        damaged[place] ^= 1 << (place % 8);
        match read(damaged) {
            Ok(read) => assert_eq!(read, whole, "byte {place} of {}", table.len()),
            Err(_) => refused += 1,
        }
    }
    assert!(refused * 2 > table.len(), "only {refused} of {} were found", table.len());
}

/// A table by a program of this name, with checksums that it may have copied from one of ours.
fn table_of(program: &str, checksums: &str) -> Vec<u8> {
    let schema = parse_message_type("message t { required int64 page; }").expect("the schema is well formed");
    let keys = vec![KeyValue::new("forebay.crc32".to_owned(), checksums.to_owned())];
    let properties =
        WriterProperties::builder().set_created_by(program.to_owned()).set_key_value_metadata(Some(keys)).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties)).expect("a table");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("there is one");
    column.typed::<Int64Type>().write_batch(&[1, 2, 3], None, None).expect("numbers");
    column.close().expect("it is whole");
    group.close().expect("it is whole");
    writer.close().expect("it is whole");
    bytes
}

#[test]
fn checksums_hold_for_tables_of_ours_alone() {
    assert_eq!(read(table_of("parquet-cpp-arrow version 21.0.0", "00000000;00000000")).expect("a trace").2.len(), 3);
    for checksums in ["00000000;00000000", ";00000000", "what"] {
        let error = read(table_of("forebay 0.1.0", checksums)).expect_err("it was changed").to_string();
        assert!(error.contains("t.parquet") && error.contains("the file is damaged"), "{error}");
    }
}
