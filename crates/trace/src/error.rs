//! What can be wrong with a trace: which file, where in it, what, and what to do.

use std::fmt;
use std::io;

/// The result of reading or writing a trace.
pub type Result<T> = std::result::Result<T, Error>;

/// Where in a file, counted in the decompressed text or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line, the first being 1.
    Line(u64),
    /// A byte, the first being 0.
    Byte(u64),
}

/// A trace that cannot be read or written.
#[derive(Debug)]
pub struct Error {
    file: String,
    position: Option<Position>,
    message: String,
    source: Option<io::Error>,
    cut: bool,
    kept: bool,
    mistyped: bool,
}

impl Error {
    /// The file as a whole is at fault. `message` says what is wrong and what to do.
    pub fn new(file: impl Into<String>, message: impl Into<String>) -> Self {
        let (file, message) = (file.into(), message.into());
        Self { file, position: None, message, source: None, cut: false, kept: false, mistyped: false }
    }

    /// The file is at fault at one place.
    pub fn at(file: impl Into<String>, position: Position, message: impl Into<String>) -> Self {
        Self { position: Some(position), ..Self::new(file, message) }
    }

    /// The system failed while `doing` something with the file: "opening", "reading", "writing".
    pub fn io(file: impl Into<String>, doing: &str, source: io::Error) -> Self {
        let message = format!("{doing} failed: {source}");
        Self { source: Some(source), ..Self::new(file, message) }
    }

    /// The file ends within a line or a record, which so makes no sense: what wrote it was stopped.
    #[must_use]
    pub(crate) fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Another file has the name; what was to have it is whole under the name that the message says.
    #[must_use]
    pub(crate) fn kept(self) -> Self {
        Self { kept: true, ..self }
    }

    /// What was asked makes no sense, whatever files there are: the spec of a synthetic trace.
    #[must_use]
    pub fn mistyped(self) -> Self {
        Self { mistyped: true, ..self }
    }

    /// The same with a word on what may be meant.
    #[must_use]
    pub(crate) fn with_advice(mut self, advice: &str) -> Self {
        self.message += advice;
        self
    }

    /// Whether all before the place makes sense, and nothing comes behind it.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether what was asked makes no sense, whatever files there are.
    pub fn is_mistyped(&self) -> bool {
        self.mistyped
    }

    /// Whether whoever was to read what is written has gone.
    pub fn is_of_closed_pipe(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether what was to be written is whole, under the name that the message says.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Where in the file, if one place is at fault.
    pub fn position(&self) -> Option<Position> {
        self.position
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match self.position {
            Some(Position::Line(line)) => write!(f, "line {line}: ")?,
            Some(Position::Byte(byte)) => write!(f, "byte {byte}: ")?,
            None => {}
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
