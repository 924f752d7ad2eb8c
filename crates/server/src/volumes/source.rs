//! Where a volume's bytes are, and opening it.

use crate::delay::ModelTiming;
use crate::error::Error;
use crate::options::Direct;
use crate::words::read_as_words;
use forebay_basis::{parse_bytes, show_bytes};
use forebay_model::Model;
use forebay_pool::device::{
    Bounded, Delayed, Device, FileDevice, FileOptions, Joined, Limited, Limits, MemoryDevice, NewVolume, ObjectDevice,
    ObjectOptions,
};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Why a `--device-timeout` is refused.
pub(crate) const NO_TIME: &str = "--device-timeout must be above 0: every request takes a while";

/// Where the bytes of a volume are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A regular file or a block device.
    File(PathBuf),
    /// This many bytes of memory, gone with the server.
    Memory(u64),
    /// Object storage: a URL.
    Object(String),
    /// One behind the other: `concat:a+b`.
    Concatenated(Vec<Source>),
    /// In stripes of this many bytes, on each in turn: `stripe=64KiB:a+b`.
    Striped(u64, Vec<Source>),
}

read_as_words!(Source);

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = |text: &str| text.split('+').map(part).collect::<Result<Vec<_>, _>>();
        if let Some(text) = text.strip_prefix("concat:") {
            return Ok(Self::Concatenated(parts(text)?));
        }
        if let Some(text) = text.strip_prefix("stripe=") {
            let (stripe, text) =
                text.split_once(':').ok_or_else(|| format!("`stripe={text}`: write stripe=64KiB:FILE+FILE"))?;
            return Ok(Self::Striped(parse_bytes(stripe)?, parts(text)?));
        }
        part(text)
    }
}

/// What is not made of others.
fn part(text: &str) -> Result<Source, String> {
    if text.is_empty() {
        return Err("a path is missing: write the file's name".to_owned());
    }
    if text.contains("://") {
        return Ok(Source::Object(text.to_owned()));
    }
    match text.strip_prefix("memory:") {
        Some(size) => match parse_bytes(size)? {
            0 => Err(format!("`{text}` has no bytes: write its size, as in memory:1GiB")),
            bytes => Ok(Source::Memory(bytes)),
        },
        None => Ok(Source::File(text.into())),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |parts: &[Source]| parts.iter().map(Source::to_string).collect::<Vec<_>>().join("+");
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory(bytes) => write!(f, "memory:{bytes}"),
            Self::Object(url) => f.write_str(url),
            Self::Concatenated(parts) => write!(f, "concat:{}", joined(parts)),
            Self::Striped(stripe, parts) => write!(f, "stripe={stripe}:{}", joined(parts)),
        }
    }
}

/// How a source is opened.
pub(crate) struct Opening {
    pub(crate) read_only: bool,
    /// How long a file or object volume is that is made if it is missing.
    pub(crate) create: Option<u64>,
    /// How long a request to object storage is repeated.
    pub(crate) retry: Option<Duration>,
    pub(crate) direct: Direct,
    /// How long a request may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) delay: Option<Arc<Model>>,
    /// Bytes a second.
    pub(crate) rate: Option<u64>,
}

impl Source {
    /// The bytes of memory that it may take.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Memory(bytes) => *bytes,
            Self::Concatenated(parts) | Self::Striped(_, parts) => {
                parts.iter().map(Self::memory).fold(0, u64::saturating_add)
            }
            Self::File(_) | Self::Object(_) => 0,
        }
    }

    /// Whether some storage belongs to both.
    pub(crate) fn shares(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory(_), _) | (_, Self::Memory(_)) => false,
            (Self::Concatenated(parts) | Self::Striped(_, parts), whole)
            | (whole, Self::Concatenated(parts) | Self::Striped(_, parts)) => {
                parts.iter().any(|part| part.shares(whole))
            }
            (Self::Object(one), Self::Object(another)) => {
                let place = ObjectDevice::place(one);
                place.is_some() && place == ObjectDevice::place(another)
            }
            (one, another) => one == another,
        }
    }

    /// The part that is in it twice, if one is.
    pub(crate) fn repeated(&self) -> Option<&Self> {
        let (Self::Concatenated(parts) | Self::Striped(_, parts)) = self else { return None };
        let repeats = |&(index, part): &(usize, &Self)| parts[..index].iter().any(|before| before.shares(part));
        parts.iter().enumerate().find(repeats).map(|(_, part)| part)
    }

    /// Opens it. Each of its parts is a device, with a delay and a rate of its own.
    pub(crate) fn open(&self, opening: &Opening) -> Result<Arc<dyn Device>, Error> {
        let failed = |error: io::Error| not_opened(&error, "");
        let all = |parts: &[Self]| parts.iter().map(|part| part.open(opening)).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::File(path) => opening.slow(open_file(path, opening)?)?,
            Self::Memory(bytes) => opening.slow(MemoryDevice::new(*bytes))?,
            Self::Object(url) => {
                let new = opening.create.map(NewVolume::new);
                let options = ObjectOptions { new, read_only: opening.read_only, retry: opening.retry };
                opening.slow(ObjectDevice::open(url, options).map_err(failed)?)?
            }
            Self::Concatenated(parts) => Arc::new(Joined::concatenated(all(parts)?).map_err(failed)?),
            Self::Striped(stripe, parts) => Arc::new(Joined::striped(all(parts)?, *stripe).map_err(failed)?),
        })
    }
}

impl Opening {
    /// The device, as slow as was asked.
    fn slow(&self, device: impl Device + 'static) -> Result<Arc<dyn Device>, Error> {
        let mut device: Arc<dyn Device> = Arc::new(device);
        if let Some(timeout) = self.timeout {
            if timeout.is_zero() {
                return Err(Error::Usage(NO_TIME.to_owned()));
            }
            // Within the others: what is slow on purpose does not hang.
            device = Arc::new(Bounded::new(device, timeout));
        }
        if let Some(model) = &self.delay {
            device = Arc::new(Delayed::new(device, Box::new(ModelTiming::new(model))));
        }
        if let Some(rate) = self.rate {
            let limits =
                Limits { bytes_per_second: Some(rate), requests_per_second: None, burst: Duration::from_millis(100) };
            device = Arc::new(Limited::new(device, limits).map_err(|error| Error::Usage(format!("--rate: {error}")))?);
        }
        Ok(device)
    }
}

/// Makes a file of that length, or none.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::create_new(path)?;
    // What is left of a failure would be taken for the volume next time.
    file.set_len(bytes).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// The longest file that this process may write.
fn longest() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

fn limited(most: u64) -> String {
    format!("`ulimit -f` lets this process write files up to {}", show_bytes(most))
}

fn not_opened(error: &io::Error, hint: &str) -> Error {
    let what = format!("{error}{hint}");
    if error.kind() == io::ErrorKind::ResourceBusy { Error::InUse(what) } else { Error::Failed(what) }
}

fn open_file(path: &Path, opening: &Opening) -> Result<FileDevice, Error> {
    let missing = std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if let Some(bytes) = opening.create.filter(|_| missing) {
        let failed = |error: io::Error| {
            let limit =
                if error.kind() == io::ErrorKind::FileTooLarge { longest().filter(|most| bytes > *most) } else { None };
            let why = limit.map_or_else(String::new, |most| format!(": {}", limited(most)));
            Error::Failed(format!("{}: cannot be made: {error}{why}", path.display()))
        };
        make(path, bytes).map_err(failed)?;
    }
    let options =
        FileOptions { read_only: opening.read_only, direct: opening.direct != Direct::No, ..FileOptions::default() };
    let file = FileDevice::open(path, options)
        .map_err(|error| not_opened(&error, if missing { "; create=SIZE makes it" } else { "" }))?;
    let limit = longest().filter(|most| file.len() > *most && !opening.read_only);
    if let Some(most) = limit.filter(|_| path.is_file()) {
        tracing::warn!("{}: {}: writes behind that fail", path.display(), limited(most));
    }
    if let Some(why) = file.why_buffered() {
        let name = path.display();
        match opening.direct {
            Direct::Yes => {
                return Err(Error::Failed(format!("{name}: cannot bypass the page cache (--direct yes): {why}")));
            }
            Direct::Auto => tracing::info!("{name}: goes through the system's page cache: {why}"),
            Direct::No => {}
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_file_memory_a_url_or_several_of_them() {
        let file = |name: &str| Source::File(name.into());
        assert_eq!("/a+b=c".parse(), Ok(file("/a+b=c")));
        assert_eq!("memory:1MiB".parse(), Ok(Source::Memory(1 << 20)));
        assert_eq!("memory:///a".parse(), Ok(Source::Object("memory:///a".into())));
        assert_eq!("concat:a+b".parse(), Ok(Source::Concatenated(vec![file("a"), file("b")])));
        let striped = Source::Striped(65536, vec![file("a"), Source::Memory(7)]);
        assert_eq!("stripe=64KiB:a+memory:7".parse::<Source>().as_ref(), Ok(&striped));
        assert!(striped.shares(&file("a")) && !striped.shares(&file("b")) && !striped.shares(&Source::Memory(7)));
        assert_eq!(striped.to_string().parse(), Ok(striped));
        let place = |text: &str| text.parse::<Source>().unwrap();
        let object = place("file:///no/such/p");
        for same in ["file:///no/such/p/", "file:///no/other/../such/%70", "concat:/a+file:///no/such/p"] {
            assert!(object.shares(&place(same)) && place(same).shares(&object), "{same}");
        }
        for other in ["file:///no/such/q", "s3://no/such/p", "/no/such/p"] {
            assert!(!object.shares(&place(other)), "{other}");
        }
        assert!(place("s3://a/b/").shares(&place("s3://a/b")) && !place("s3://a/b").shares(&place("s3://c/b")));
        assert!(!place("memory:///a").shares(&place("memory:///a")), "each is a volume of its own");
        assert_eq!(place("stripe=4KiB:/a+file:///p+file:///p/").repeated(), Some(&place("file:///p/")));
        assert_eq!(place("concat:/a+/b").repeated(), None);
        for wrong in ["", "concat:", "concat:a+", "stripe=64KiB", "stripe=x:a+b", "memory:much", "memory:0"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}
