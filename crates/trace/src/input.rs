//! The bytes of a trace: opened, decompressed, looked at from the front, and cut into lines or records.

use crate::error::{Error, Position, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a file's front is looked at to recognise its format.
const HEAD: usize = 64 << 10;
/// A longer line is no line of a trace but a binary file.
const LONGEST_LINE: usize = 1 << 20;
/// Bytes asked of the system or the decompressor at once: they stay in the second-level cache until they are parsed.
const BUFFER: usize = 1 << 18;

/// The front of a trace, from which its format is recognised.
pub struct Head<'a> {
    /// The file's name in lower case, without directories and without `.gz`, `.zst` or `.xz`.
    pub name: &'a str,
    /// The first bytes after decompression, at most 64 KiB.
    pub bytes: &'a [u8],
}

impl Head<'_> {
    /// The first whole lines that are neither empty nor start with `#`, at most `most` of them; none if they are no text.
    pub fn lines(&self, most: usize) -> Vec<&str> {
        // The last line may be cut, by the front's end or by the file's, unless it is the only one.
        let whole = match self.bytes.iter().rposition(|&b| b == b'\n') {
            Some(end) => &self.bytes[..end],
            None if self.bytes.len() < HEAD => self.bytes,
            None => &[],
        };
        let Ok(text) = std::str::from_utf8(whole) else { return Vec::new() };
        text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).take(most).collect()
    }

    /// Whether the first lines (up to 20) exist and are all as `is` says.
    pub fn lines_all(&self, is: impl Fn(&str) -> bool) -> bool {
        let lines = self.lines(20);
        !lines.is_empty() && lines.into_iter().all(is)
    }

    /// Whether the name ends with one of `extensions`, each given without its dot.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        extensions.iter().any(|extension| self.name.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.')))
    }
}

/// An opened trace: its name, and its bytes after decompression.
pub struct Input {
    file: String,
    name: String,
    head: Vec<u8>,
    bytes: Box<dyn BufRead + Send>,
    compressed: bool,
    /// Set if it is a regular file, which can be opened again.
    path: Option<PathBuf>,
    consumed: Consumed,
}

/// How much of a file has been read, before decompression.
#[derive(Clone, Default)]
pub(crate) struct Consumed {
    bytes: Arc<AtomicU64>,
    /// The file's length, if it has one.
    length: Option<u64>,
}

impl Consumed {
    pub(crate) fn share(&self) -> Option<f64> {
        let length = self.length.filter(|&length| length > 0)?;
        Some((self.bytes.load(Ordering::Relaxed) as f64 / length as f64).min(1.0))
    }
}

/// A file whose bytes are counted as they are read.
struct Counted<R> {
    raw: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The end of compressed bytes whose rest is missing.
struct Cut;

impl Read for Cut {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        if path == Path::new("-") {
            return Self::from_reader("standard input", Box::new(io::stdin()));
        }
        let metadata = std::fs::metadata(path).map_err(|error| Error::io(&file, "opening", error))?;
        if metadata.is_dir() {
            return Err(Error::new(file, "is a directory; name a trace file in it"));
        }
        let opened = File::open(path).map_err(|error| Error::io(&file, "opening", error))?;
        let mut input = Self::from_reader(&file, Box::new(opened))?;
        if metadata.is_file() {
            input.consumed.length = Some(metadata.len());
            input.path = Some(path.to_owned());
        }
        Ok(input)
    }

    /// The bytes of a trace already in memory, under a name.
    pub fn from_bytes(file: &str, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Self> {
        Self::from_reader(file, Box::new(Cursor::new(bytes)))
    }

    /// The bytes of a trace that come as they are made, under a name: without a front, whose end would be waited for.
    pub fn live(file: &str, raw: impl Read + Send + 'static) -> Self {
        let bytes = Box::new(BufReader::with_capacity(BUFFER, raw));
        let (head, consumed) = (Vec::new(), Consumed::default());
        Self { file: file.to_owned(), name: file.to_owned(), head, bytes, compressed: false, path: None, consumed }
    }

    /// The bytes of a trace that come from somewhere else, under a name.
    pub fn from_reader(file: &str, raw: Box<dyn Read + Send>) -> Result<Self> {
        let failed = |error| Error::io(file, "reading", error);
        let consumed = Consumed::default();
        let mut raw = BufReader::with_capacity(BUFFER, Counted { raw, bytes: Arc::clone(&consumed.bytes) });
        // A pipe may hand over less than the magic number at once; a file does not.
        let magic = raw.fill_buf().map_err(failed)?;
        let mut compressed = true;
        let mut bytes: Box<dyn BufRead + Send> = match magic {
            [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(BUFFER, flate2::bufread::MultiGzDecoder::new(raw))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let decoder = zstd::Decoder::with_buffer(raw).map_err(failed)?;
                Box::new(BufReader::with_capacity(BUFFER, decoder))
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                Box::new(BufReader::with_capacity(BUFFER, liblzma::bufread::XzDecoder::new_multi_decoder(raw)))
            }
            _ => {
                compressed = false;
                Box::new(raw)
            }
        };
        let mut head = Vec::new();
        match (&mut bytes).take(HEAD as u64).read_to_end(&mut head) {
            // A compressed trace that is cut in its front: what there is of it is read, and then it fails again.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() => {
                bytes = Box::new(BufReader::new(Cut))
            }
            read => drop(read.map_err(failed)?),
        }
        if head.is_empty() {
            return Err(Error::new(file, "is empty; a trace has at least one request"));
        }
        let name =
            Path::new(file).file_name().map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned());
        let mut name = name.to_lowercase();
        for suffix in [".gz", ".zst", ".xz"] {
            if let Some(stem) = name.strip_suffix(suffix) {
                name = stem.to_owned();
                break;
            }
        }
        Ok(Self { file: file.to_owned(), name, head, bytes, compressed, path: None, consumed })
    }

    /// The file's name as the user gave it, for messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The path of the plain file behind this input, if it can be opened again and needs no decompression.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| !self.compressed)
    }

    /// The same trace from its start, or its front alone where it can be read only once.
    pub(crate) fn again(&self) -> Result<Self> {
        match &self.path {
            Some(path) => Self::open(path),
            None => Self::from_bytes(&self.file, self.head.clone()),
        }
    }

    /// How much of it has been read, now and later.
    pub(crate) fn consumed(&self) -> Consumed {
        self.consumed.clone()
    }

    /// The front of the trace.
    pub fn head(&self) -> Head<'_> {
        Head { name: &self.name, bytes: &self.head }
    }

    /// The trace cut into lines.
    pub fn lines(self) -> Lines {
        Lines::new(Bytes::new(self))
    }

    /// The trace as a stream of bytes from its start.
    pub fn bytes(self) -> Bytes {
        Bytes::new(self)
    }
}

/// The bytes of a trace from its start, counted.
pub struct Bytes {
    file: String,
    bytes: io::Chain<Cursor<Vec<u8>>, Box<dyn BufRead + Send>>,
    position: u64,
    /// The records read last by `records`.
    records: Vec<u8>,
    /// What comes after them.
    failure: Option<Error>,
}

impl Bytes {
    fn new(input: Input) -> Self {
        Self {
            file: input.file,
            bytes: Cursor::new(input.head).chain(input.bytes),
            position: 0,
            records: Vec::new(),
            failure: None,
        }
    }

    /// The next `N` bytes as one record; `None` at the end of the file, an error if the file ends inside the record.
    pub fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        Ok(self.records::<N>(1)?.first().copied())
    }

    /// The next records of `N` bytes, at most `most`; none at the end of the file, an error if the file ends inside one.
    pub fn records<const N: usize>(&mut self, most: usize) -> Result<&[[u8; N]]> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.records.resize(most * N, 0);
        let mut filled = 0;
        let failure = loop {
            match self.bytes.read(&mut self.records[filled..]) {
                Ok(0) if filled % N == 0 => break None,
                Ok(0) => {
                    let message = format!(
                        "the file ends after {} of the {N} bytes of a record; it is cut short, copy it again",
                        filled % N
                    );
                    let record = self.position + (filled - filled % N) as u64;
                    break Some(Error::at(&self.file, Position::Byte(record), message).cut());
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(self.failed(self.position + (filled - filled % N) as u64, &error)),
            }
        };
        let (records, _) = self.records[..filled].as_chunks();
        match failure {
            Some(failure) if records.is_empty() => return Err(failure),
            failure => self.failure = failure,
        }
        self.position += (records.len() * N) as u64;
        Ok(records)
    }

    /// All that is left.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        self.bytes.read_to_end(&mut all).map_err(|error| Error::io(&self.file, "reading", error))?;
        self.position += all.len() as u64;
        Ok(all)
    }

    /// An error in the record of `length` bytes that was read last.
    pub fn error(&self, length: u64, message: impl Into<String>) -> Error {
        Error::at(&self.file, Position::Byte(self.position.saturating_sub(length)), message)
    }

    fn failed(&self, position: u64, error: &io::Error) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let message = "the compressed file ends here; it is cut short, copy it again";
            return Error::at(&self.file, Position::Byte(position), message).cut();
        }
        let message = format!("reading or decompressing failed: {error}; the file may be damaged");
        Error::at(&self.file, Position::Byte(position), message)
    }
}

/// The lines of a trace, counted.
pub struct Lines {
    bytes: Bytes,
    /// Whole lines: text is checked, and memory moved, by the block and not by the line.
    block: String,
    /// Where the next line starts in the block.
    next: usize,
    /// The line read last, without its end.
    line: Range<usize>,
    number: u64,
    /// The start of the line after the block.
    rest: Vec<u8>,
    /// Whether the line read last is the file's last and has no end.
    unended: bool,
    /// Why the line after the block is none, if so.
    not_text: Option<String>,
    /// Bytes that are no text are read as U+FFFD.
    lossy: bool,
}

impl Lines {
    fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            block: String::new(),
            next: 0,
            line: 0..0,
            number: 0,
            rest: Vec::new(),
            unended: false,
            not_text: None,
            lossy: false,
        }
    }

    /// The same lines, in which bytes that are no text stand as U+FFFD instead of being an error.
    pub fn lossy(self) -> Self {
        Self { lossy: true, ..self }
    }

    /// The file's name as the user gave it.
    pub fn file(&self) -> &str {
        &self.bytes.file
    }

    /// The number of the line read last, the first being 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end of the file. Named `next_line`, not `next`: it lends the line.
    pub fn next_line(&mut self) -> Result<Option<&str>> {
        if self.next == self.block.len() {
            self.next_block()?;
        }
        self.number += 1;
        let start = self.next;
        let length = self.block[start..].find('\n').map_or(self.block.len() - start, |end| end + 1);
        if length == 0 {
            self.line = 0..0;
            return match self.not_text.take() {
                Some(message) => Err(self.error(message)),
                None => Ok(None),
            };
        }
        self.bytes.position += length as u64;
        self.next += length;
        if length > LONGEST_LINE {
            return Err(self.error(TOO_LONG));
        }
        self.unended = !self.block[start..self.next].ends_with('\n');
        let line = self.block[start..self.next].trim_end_matches(['\n', '\r']);
        self.line = start..start + line.len();
        Ok(Some(self.line()))
    }

    /// Reads the next whole lines; the last line of a file need not end.
    fn next_block(&mut self) -> Result<()> {
        self.next = 0;
        let mut block = std::mem::take(&mut self.block).into_bytes();
        block.clear();
        if self.not_text.is_some() {
            return Ok(());
        }
        block.append(&mut self.rest);
        while block.len() <= LONGEST_LINE {
            let bytes = match self.bytes.bytes.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.bytes.failed(self.bytes.position, &error)),
            };
            let (length, end) = (bytes.len(), bytes.iter().rposition(|&byte| byte == b'\n'));
            let (lines, rest) = bytes.split_at(end.map_or(length, |end| end + 1));
            block.extend_from_slice(lines);
            self.rest.extend_from_slice(rest);
            self.bytes.bytes.consume(length);
            if length == 0 || end.is_some() {
                break;
            }
        }
        self.block = String::from_utf8(block).unwrap_or_else(|error| {
            if self.lossy {
                return String::from_utf8_lossy(error.as_bytes()).into_owned();
            }
            let valid = error.utf8_error().valid_up_to();
            let mut block = error.into_bytes();
            let start = block[..valid].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let length =
                block[start..].iter().position(|&byte| byte == b'\n').map_or(block.len() - start, |end| end + 1);
            let column = valid - start + 1;
            self.not_text = Some(if length > LONGEST_LINE {
                TOO_LONG.to_owned()
            } else {
                format!("is no UTF-8 text from its byte {column} on; is this a binary file, or another format?")
            });
            block.truncate(start);
            String::from_utf8(block).expect("the lines before are text")
        });
        Ok(())
    }

    /// The next line that is neither empty nor a `#` comment.
    pub fn next_content(&mut self) -> Result<Option<&str>> {
        loop {
            match self.next_line()? {
                None => return Ok(None),
                Some(line) if line.trim_ascii().is_empty() || line.starts_with('#') => {}
                Some(_) => break,
            }
        }
        Ok(Some(self.line()))
    }

    /// The line read last.
    pub fn line(&self) -> &str {
        &self.block[self.line.clone()]
    }

    /// An error in the line read last.
    pub fn error(&self, message: impl Into<String>) -> Error {
        let error = Error::at(&self.bytes.file, Position::Line(self.number), message);
        if self.unended { error.cut() } else { error }
    }
}

const TOO_LONG: &str = "is longer than 1 MiB; this is no text file";

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads lines through buffers of a few bytes, so that every line is cut somewhere.
    fn lines(bytes: &[u8]) -> (Vec<String>, Option<String>) {
        struct Drops(Vec<u8>, usize);
        impl Read for Drops {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = (self.0.len() - self.1).min(buffer.len()).min(3);
                buffer[..length].copy_from_slice(&self.0[self.1..self.1 + length]);
                self.1 += length;
                Ok(length)
            }
        }
        let mut lines = Input::from_reader("test", Box::new(Drops(bytes.to_vec(), 0))).unwrap().lines();
        lines.bytes.bytes =
            Cursor::new(Vec::new()).chain(Box::new(BufReader::with_capacity(5, Drops(bytes.to_vec(), 0))));
        let mut seen = Vec::new();
        loop {
            match lines.next_line() {
                Ok(Some(line)) => seen.push(line.to_owned()),
                Ok(None) => return (seen, None),
                Err(error) => return (seen, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn lines_are_whole_wherever_the_buffers_end() {
        let text = "one\n\r\nthree à la crème\r\n\nfive";
        assert_eq!(lines(text.as_bytes()).0, ["one", "", "three à la crème", "", "five"]);
        assert_eq!(lines("one\n".as_bytes()), (vec!["one".to_owned()], None));
    }

    #[test]
    fn what_is_no_text_is_told_by_line_and_byte_after_the_lines_before_it() {
        let (seen, error) = lines(b"one\ntwo\nth\xffree\nfour\n");
        assert_eq!(seen, ["one", "two"]);
        assert!(error.unwrap().starts_with("test: line 3: is no UTF-8 text from its byte 3 on"));
    }

    #[test]
    fn a_line_is_at_most_a_mebibyte_long() {
        let mut bytes = b"one\n".to_vec();
        bytes.extend(vec![b'x'; LONGEST_LINE - 1]);
        bytes.extend(b"\n");
        assert_eq!((lines(&bytes).0.len(), lines(&bytes).1), (2, None));
        bytes.insert(10, b'x');
        assert_eq!(lines(&bytes).1.unwrap(), format!("test: line 2: {TOO_LONG}"));
    }
}
