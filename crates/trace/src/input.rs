//! The bytes of a trace: opened, decompressed, looked at from the front, and cut into lines or records.

use crate::error::{Error, Position, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// How much of a file's front is looked at to recognise its format.
const HEAD: usize = 64 << 10;
/// A longer line is no line of a trace but a binary file.
const LONGEST_LINE: usize = 1 << 20;

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
        let whole = if self.bytes.len() < HEAD {
            self.bytes
        } else {
            &self.bytes[..self.bytes.iter().rposition(|&b| b == b'\n').unwrap_or(0)]
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
    /// Set if the bytes are those of a plain file, which can be opened again for random access.
    path: Option<PathBuf>,
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
        if metadata.is_file() && !input.compressed {
            input.path = Some(path.to_owned());
        }
        Ok(input)
    }

    /// The bytes of a trace already in memory, under a name.
    pub fn from_bytes(file: &str, bytes: impl AsRef<[u8]> + Send + 'static) -> Result<Self> {
        Self::from_reader(file, Box::new(Cursor::new(bytes)))
    }

    fn from_reader(file: &str, raw: Box<dyn Read + Send>) -> Result<Self> {
        let failed = |error| Error::io(file, "reading", error);
        let mut raw = BufReader::with_capacity(1 << 20, raw);
        // A pipe may hand over less than the magic number at once; a file does not.
        let magic = raw.fill_buf().map_err(failed)?;
        let mut compressed = true;
        let mut bytes: Box<dyn BufRead + Send> = match magic {
            [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(1 << 20, flate2::bufread::MultiGzDecoder::new(raw))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let decoder = zstd::Decoder::with_buffer(raw).map_err(failed)?;
                Box::new(BufReader::with_capacity(1 << 20, decoder))
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                Box::new(BufReader::with_capacity(1 << 20, liblzma::bufread::XzDecoder::new_multi_decoder(raw)))
            }
            _ => {
                compressed = false;
                Box::new(raw)
            }
        };
        let mut head = Vec::new();
        (&mut bytes).take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
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
        Ok(Self { file: file.to_owned(), name, head, bytes, compressed, path: None })
    }

    /// The file's name as the user gave it, for messages.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The path of the plain file behind this input, if it can be opened again and needs no decompression.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The front of the trace.
    pub fn head(&self) -> Head<'_> {
        Head { name: &self.name, bytes: &self.head }
    }

    /// The trace cut into lines.
    pub fn lines(self) -> Lines {
        Lines { bytes: Bytes::new(self), line: Vec::new(), number: 0 }
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
}

impl Bytes {
    fn new(input: Input) -> Self {
        Self { file: input.file, bytes: Cursor::new(input.head).chain(input.bytes), position: 0 }
    }

    /// The next `N` bytes as one record; `None` at the end of the file, an error if the file ends inside the record.
    pub fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        let mut record = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.bytes.read(&mut record[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let message = format!(
                        "the file ends after {filled} of the {N} bytes of a record; it is cut short, copy it again"
                    );
                    return Err(Error::at(&self.file, Position::Byte(self.position), message));
                }
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.position += N as u64;
        Ok(Some(record))
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

    fn failed(&self, error: io::Error) -> Error {
        let message = format!("reading or decompressing failed: {error}; the file may be cut short or damaged");
        Error::at(&self.file, Position::Byte(self.position), message)
    }
}

/// The lines of a trace, counted.
pub struct Lines {
    bytes: Bytes,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The next line without its end; `None` at the end of the file. Named `next_line`, not `next`: it lends the line.
    pub fn next_line(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        let limit = LONGEST_LINE as u64 + 1;
        if let Err(error) = (&mut self.bytes.bytes).take(limit).read_until(b'\n', &mut self.line) {
            return Err(self.bytes.failed(error));
        }
        self.number += 1;
        self.bytes.position += self.line.len() as u64;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.len() > LONGEST_LINE {
            return Err(self.error("is longer than 1 MiB; this is no text file"));
        }
        while let [rest @ .., b'\n' | b'\r'] = self.line.as_slice() {
            let length = rest.len();
            self.line.truncate(length);
        }
        match std::str::from_utf8(&self.line) {
            Ok(_) => {}
            Err(error) => {
                let message = format!(
                    "is no UTF-8 text from its byte {} on; is this a binary file, or another format?",
                    error.valid_up_to() + 1
                );
                return Err(self.error(message));
            }
        }
        Ok(Some(std::str::from_utf8(&self.line).expect("checked above")))
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
        std::str::from_utf8(&self.line).expect("checked when it was read")
    }

    /// An error in the line read last.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.bytes.file, Position::Line(self.number), message)
    }
}
