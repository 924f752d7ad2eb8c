//! What holds for every trace format, whichever they are.

use forebay_trace::formats::{self, FORMATS, Format};
use forebay_trace::{Input, Names, Options, Reader, Request, reader};
use std::collections::HashSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often each format's example is damaged at random.
const MUTATIONS: u64 = 2_000;

/// A name that gives no format away.
fn input(bytes: &[u8]) -> forebay_trace::Result<Input> {
    Input::from_bytes("trace", bytes.to_vec())
}

fn options(format: &Format) -> Options {
    Options { format: Some(format.name.to_owned()), ..Options::default() }
}

fn read_all(mut reader: Box<dyn Reader>) -> forebay_trace::Result<(Names, Vec<Request>)> {
    let (mut names, mut requests) = (Names::new(), Vec::new());
    while let Some(request) = reader.next(&mut names)? {
        requests.push(request);
    }
    Ok((names, requests))
}

/// Reads what is recognised, or what `options` name.
fn read(bytes: &[u8], options: &Options) -> forebay_trace::Result<(&'static str, Names, Vec<Request>)> {
    let (format, reader) = reader::read(input(bytes)?, options)?;
    let (names, requests) = read_all(reader)?;
    Ok((format.name, names, requests))
}

/// Reads bytes as a format and as whatever they are recognised to be; both must end without a panic, and an error must
/// name the file.
fn survives(format: &Format, bytes: &[u8], how: &str) {
    for options in [options(format), Options::default()] {
        let outcome = catch_unwind(AssertUnwindSafe(|| read(bytes, &options).map(|_| ())));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let message = error.to_string();
                assert!(message.starts_with("trace: "), "{}: {how}: `{message}` names no file", format.name);
            }
            Err(_) => panic!("{}: {how} panics: {:?}", format.name, bytes.escape_ascii().to_string()),
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory is written to");
    encoder.finish().expect("memory is written to")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).expect("memory is written to")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
    encoder.write_all(bytes).expect("memory is written to");
    encoder.finish().expect("memory is written to")
}

/// SplitMix64: the same damage in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A copy with one to four places changed, added, doubled or taken out.
fn damaged(example: &[u8], random: &mut Random) -> Vec<u8> {
    /// Bytes that mean something in one format or another.
    const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\n\r ,:;+-.*#()[]\"'0189aRW";
    let mut bytes = example.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = at + random.below((bytes.len() - at).min(40));
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = TELLING[random.below(TELLING.len())],
            2 => bytes.insert(at, TELLING[random.below(TELLING.len())]),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            // The largest and the smallest numbers, as text and as bytes.
            5 => drop(bytes.splice(at..end, b"18446744073709551615".iter().copied())),
            _ => bytes[at..end].fill(if random.below(2) == 0 { 0xff } else { 0 }),
        }
    }
    bytes
}

#[test]
fn names_are_unique_and_kebab_case() {
    let names: HashSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), FORMATS.len());
    for name in names {
        let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        assert!(name.split('-').all(word), "{name}");
        assert_eq!(formats::named(name).map(|format| format.name), Some(name));
    }
}

#[test]
fn every_format_says_what_it_is_and_where_it_comes_from() {
    for format in FORMATS {
        assert!(!format.title.is_empty() && !format.title.contains('\n'), "{}", format.name);
        assert!(!format.source.is_empty() && !format.source.contains('\n'), "{}", format.name);
    }
}

#[test]
fn every_example_is_recognised_as_its_own_format_and_read() {
    for format in FORMATS {
        let (recognised, _, requests) =
            read(format.example, &Options::default()).unwrap_or_else(|error| panic!("{}: {error}", format.name));
        assert_eq!(recognised, format.name);
        assert!(!requests.is_empty(), "{}", format.name);
        let (_, _, named) =
            read(format.example, &options(format)).unwrap_or_else(|error| panic!("{}: {error}", format.name));
        assert_eq!(named, requests, "{}", format.name);
    }
}

#[test]
fn every_example_reads_the_same_when_compressed() {
    for format in FORMATS {
        let (_, names, requests) =
            read(format.example, &options(format)).unwrap_or_else(|error| panic!("{}: {error}", format.name));
        for (how, compressed) in
            [("gzip", gzip(format.example)), ("zstd", zstd(format.example)), ("xz", xz(format.example))]
        {
            let (recognised, names_then, requests_then) = read(&compressed, &Options::default())
                .unwrap_or_else(|error| panic!("{} in {how}: {error}", format.name));
            assert_eq!(recognised, format.name, "{how}");
            assert_eq!(requests_then, requests, "{} in {how}", format.name);
            assert_eq!(names_then.owners(), names.owners(), "{} in {how}", format.name);
            assert_eq!(names_then.objects(), names.objects(), "{} in {how}", format.name);
        }
    }
}

#[test]
fn every_example_cut_at_any_byte_is_read_to_an_error_or_an_end() {
    for format in FORMATS {
        for length in 0..=format.example.len() {
            survives(format, &format.example[..length], "a cut example");
        }
    }
}

#[test]
fn every_compressed_example_cut_at_any_byte_is_read_to_an_error_or_an_end() {
    for format in FORMATS {
        for compressed in [gzip(format.example), zstd(format.example), xz(format.example)] {
            for length in 0..compressed.len() {
                survives(format, &compressed[..length], "a cut compressed example");
            }
        }
    }
}

#[test]
fn every_example_damaged_at_random_is_read_to_an_error_or_an_end() {
    for format in FORMATS {
        let mut random = Random(0);
        for _ in 0..MUTATIONS {
            survives(format, &damaged(format.example, &mut random), "a damaged example");
        }
    }
}

#[test]
fn the_manual_lists_every_format_once() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/trace-formats.md");
    let page = std::fs::read_to_string(path).expect("docs/trace-formats.md is there");
    let (_, table) = page.split_once("| name | what | offsets in |").expect("the table of formats");
    let (table, _) = table.split_once("\n\n").expect("the table ends");
    let mut listed: Vec<&str> = table.lines().skip(2).filter_map(|row| row.split('`').nth(1)).collect();
    let mut known: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}
