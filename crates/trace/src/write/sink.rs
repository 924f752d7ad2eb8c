//! Where the bytes of a written trace go: a file, compressed if its name says so.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// How a written file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
    /// xz.
    Xz,
}

impl Compression {
    /// What a file name's last extension says, and the name without it.
    pub(super) fn of(name: &str) -> (Self, &str) {
        for (suffix, compression) in [(".gz", Self::Gzip), (".zst", Self::Zstd), (".xz", Self::Xz)] {
            if let Some(stem) = name.strip_suffix(suffix) {
                return (compression, stem);
            }
        }
        (Self::None, name)
    }
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
    Xz(liblzma::write::XzEncoder<BufWriter<File>>),
}

/// A file being written, under the name that messages give it.
pub(super) struct Sink {
    file: String,
    encoder: Encoder,
}

impl Sink {
    pub(super) fn new(file: &str, out: File, compression: Compression) -> Result<Self> {
        let out = BufWriter::with_capacity(1 << 18, out);
        let encoder = match compression {
            Compression::None => Encoder::Plain(out),
            Compression::Gzip => Encoder::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => {
                Encoder::Zstd(zstd::Encoder::new(out, 3).map_err(|error| Error::io(file, "writing", error))?)
            }
            Compression::Xz => Encoder::Xz(liblzma::write::XzEncoder::new(out, 6)),
        };
        Ok(Self { file: file.to_owned(), encoder })
    }

    /// The writing's failure as an error that names the file.
    pub(super) fn check<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| Error::io(&self.file, "writing", error))
    }

    /// Completes the file and makes it durable.
    pub(super) fn finish(self) -> Result<()> {
        let Self { file, encoder } = self;
        let finish = || -> io::Result<()> {
            let out = match encoder {
                Encoder::Plain(out) => out,
                Encoder::Gzip(encoder) => encoder.finish()?,
                Encoder::Zstd(encoder) => encoder.finish()?,
                Encoder::Xz(encoder) => encoder.finish()?,
            };
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        finish().map_err(|error| Error::io(file, "writing", error))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(out) => out.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
            Encoder::Xz(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(out) => out.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
            Encoder::Xz(encoder) => encoder.flush(),
        }
    }
}
