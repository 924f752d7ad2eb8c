//! What is said of one volume: `NAME=PATH[,OPTION=VALUE]…`, or a `[[volume]]` table of the configuration file.

use crate::error::Error;
use crate::volumes::source::Source;
use crate::words::{Age, Count, Policy, Rate, Size, counted, with_meant};
use clap::ValueEnum;
use forebay_basis::show_bytes;
use forebay_policy::managers::Manager;
use forebay_pool::device::Limits;
use forebay_pool::{READAHEAD, Share, WriteMode};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A volume as the user describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VolumeOptions {
    /// The name that clients ask for.
    pub name: String,
    /// Where its bytes are.
    pub path: Source,
    /// The policy of a cache of its own.
    pub policy: Option<Policy>,
    /// The size of a cache of its own.
    pub size: Option<Size>,
    /// The page size of a cache of its own.
    pub page: Option<Size>,
    /// When writes are in storage.
    #[serde(default)]
    pub mode: Mode,
    /// Whether clients may only read.
    #[serde(default)]
    pub read_only: bool,
    /// The most that is read ahead of a stream; 0 for nothing.
    pub readahead: Option<Size>,
    /// Makes the file or object volume with this size if it is missing.
    pub create: Option<Size>,
    /// How long a request to object storage is repeated that failed by its server or the network.
    pub retry: Option<Age>,
    /// Its manager in a cache under lru-sp.
    pub manager: Option<String>,
    /// Other volumes of the cache leave it so much when it needs it.
    pub min: Option<Size>,
    /// It never has more of the cache.
    pub max: Option<Size>,
    /// The most bytes a second read from and written to its storage.
    pub rate: Option<Rate>,
    /// The most requests a second to its storage.
    pub iops: Option<Count>,
    /// The most connections at a time.
    pub connections: Option<Count>,
}

/// Limits of a volume, which may be changed while it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeLimits {
    /// Bytes a second of its storage.
    pub(crate) rate: Option<Rate>,
    /// Requests a second of its storage.
    pub(crate) iops: Option<Count>,
    /// Connections at a time.
    pub(crate) connections: Option<Count>,
}

/// How much of unused time a limited volume catches up on at once.
const BURST: Duration = Duration::from_millis(100);

impl VolumeLimits {
    pub(crate) fn rate_limits(&self) -> Limits {
        Limits {
            bytes_per_second: self.rate.map(|rate| rate.0),
            requests_per_second: self.iops.map(|iops| iops.0),
            burst: BURST,
        }
    }
}

impl fmt::Display for VolumeLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.rate.map(|rate| format!("{} a second", show_bytes(rate.0))),
            self.iops.map(|iops| format!("{} a second", counted(iops.0, "request"))),
            self.connections.map(|connections| counted(connections.0, "connection")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        if limits.is_empty() { f.write_str("no limits") } else { write!(f, "at most {}", limits.join(", ")) }
    }
}

/// When writes are in storage.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Some time later, at the latest by a flush
    #[default]
    WriteBack,
    /// When they return
    WriteThrough,
}

impl Mode {
    /// As it is written in options.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::WriteBack => "write-back",
            Self::WriteThrough => "write-through",
        }
    }
}

impl From<Mode> for WriteMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::WriteBack => Self::Back,
            Mode::WriteThrough => Self::Through,
        }
    }
}

impl FromStr for VolumeOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let (name, path) = words
            .next()
            .and_then(|word| word.split_once('='))
            .ok_or_else(|| "write NAME=PATH, as in `data=/srv/data.img`".to_owned())?;
        let mut table = toml::Table::new();
        table.insert("name".to_owned(), name.into());
        table.insert("path".to_owned(), path.into());
        for word in words {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key, value.into()),
                None => (word, true.into()),
            };
            if table.insert(key.to_owned(), value).is_some() {
                return Err(format!("`{key}` is said twice"));
            }
        }
        toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| with_meant(error.message().trim_end()))
    }
}

/// The most bytes of a name, by the protocol.
const MOST_NAME: usize = 4096;

impl VolumeOptions {
    /// Whether clients can ask for its name, and its options go together.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_name()?;
        let what = match self.create {
            Some(Size(0)) => "create=0 makes a volume without bytes: write its size, as in create=10GiB",
            Some(_) if self.read_only => {
                "create= and read-only exclude each other: nothing could be written to a file that is made"
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(what.to_owned()).of_volume(&self.name))
    }

    /// What is said of its bytes when it is removed.
    pub(crate) fn what_goes(&self) -> &'static str {
        if self.path.memory() > 0 { "; what it holds is gone with the last of its clients" } else { "" }
    }

    fn check_name(&self) -> Result<(), Error> {
        if self.name.is_empty() {
            let what = format!("`={}` has no name: write NAME=PATH, as in data={}", self.path, self.path);
            return Err(Error::Usage(what + "; a client that names none gets the only volume"));
        }
        if self.name.chars().any(char::is_control) {
            return Err(Error::Usage(format!("the name `{}` has control characters", self.name.escape_default())));
        }
        if self.name.len() <= MOST_NAME {
            return Ok(());
        }
        let start: String = self.name.chars().take(20).collect();
        Err(Error::Usage(format!("the name `{start}…` has {} bytes: at most {MOST_NAME} can be", self.name.len())))
    }

    /// Whether the two cannot be open at once: one of them writes a file that both have.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        !(self.read_only && other.read_only) && self.path.shares(&other.path)
    }

    /// Refuses a volume that writes what is also another's, or twice its own: each would lose what the other has written.
    pub(crate) fn check_apart(&self, others: &[Self]) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Usage(what).of_volume(&self.name));
        if let Some(part) = self.path.repeated().filter(|_| !self.read_only) {
            return wrong(format!("{part} is in it twice: its halves would overwrite each other"));
        }
        match others.iter().find(|other| self.excludes(other)) {
            Some(other) => wrong(format!("{} is in use: volume {} has it, as {}", self.path, other.name, other.path)),
            None => Ok(()),
        }
    }

    /// What may be changed while it is served.
    pub(crate) fn limits(&self) -> VolumeLimits {
        VolumeLimits { rate: self.rate, iops: self.iops, connections: self.connections }
    }

    /// Whether the two differ at most in limits.
    pub(crate) fn same_but_limits(&self, other: &Self) -> bool {
        self.name == other.name && self.fixed_differences(other).is_empty()
    }

    /// The options that differ and cannot change while it is served.
    pub(crate) fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            name: _,
            path,
            policy,
            size,
            page,
            mode,
            read_only,
            readahead,
            create,
            retry,
            manager,
            min,
            max,
            rate: _,
            iops: _,
            connections: _,
        } = self;
        let differs = [
            ("path", *path != other.path),
            ("policy", *policy != other.policy),
            ("size", *size != other.size),
            ("page", *page != other.page),
            ("mode", *mode != other.mode),
            ("read-only", *read_only != other.read_only),
            ("readahead", *readahead != other.readahead),
            ("create", *create != other.create),
            ("retry", *retry != other.retry),
            ("manager", *manager != other.manager),
            ("min", *min != other.min),
            ("max", *max != other.max),
        ];
        differs.into_iter().filter_map(|(option, differs)| differs.then_some(option)).collect()
    }

    pub(crate) fn mode_in_words(&self) -> &'static str {
        if self.read_only { "read-only" } else { self.mode.word() }
    }

    /// The most bytes that are read ahead of a stream.
    pub(crate) fn most_readahead(&self) -> u64 {
        self.readahead.map_or(READAHEAD.into(), |size| size.0)
    }

    /// Whether it has a cache of its own.
    pub(crate) fn own_cache(&self) -> bool {
        self.policy.is_some() || self.size.is_some() || self.page.is_some()
    }

    /// What it has of the cache that it shares, if that is said.
    pub(crate) fn share(&self) -> Option<Share> {
        let (min, max) = (self.min.map(|min| min.0), self.max.map(|max| max.0));
        (min.is_some() || max.is_some()).then(|| Share { min: min.unwrap_or(0), max: max.unwrap_or(u64::MAX) })
    }

    /// The manager, if one is named and is known.
    pub(crate) fn manager(&self) -> Result<Option<Manager>, Error> {
        let Some(name) = &self.manager else { return Ok(None) };
        let known = Manager::plain(name).filter(|manager| !manager.needs_future());
        known.map(Some).ok_or_else(|| {
            Error::Usage(format!(
                "there is no manager `{name}` to run; there are lru, mru, sequential, same-order, access-once, lru-k"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_a_name_a_path_and_options() {
        let volume: VolumeOptions = "a=/x,policy=mq:queues=4,size=1GiB,mode=write-through,read-only".parse().unwrap();
        assert_eq!((volume.name.as_str(), &volume.path), ("a", &Source::File("/x".into())));
        assert_eq!("a=s3://b/c,retry=5m".parse::<VolumeOptions>().unwrap().retry, Some(Age(Duration::from_mins(5))));
        assert_eq!("a=/x,connections=4".parse::<VolumeOptions>().unwrap().connections, Some(Count(4)));
        assert_eq!(volume.policy, Some("mq:queues=4".parse().unwrap()));
        assert_eq!((volume.size, volume.mode, volume.read_only), (Some(Size(1 << 30)), Mode::WriteThrough, true));
        assert_eq!(
            (volume.share(), "a=/x,max=1MiB".parse::<VolumeOptions>().unwrap().share()),
            (None, Some(Share { min: 0, max: 1 << 20 }))
        );
        let limited: VolumeOptions = "a=/x,rate=1MiB,iops=500,connections=3".parse().unwrap();
        assert_eq!(limited.limits().to_string(), "at most 1 MiB a second, 500 requests a second, 3 connections");
        assert!(limited.same_but_limits(&"a=/x".parse().unwrap()) && !limited.same_but_limits(&volume));
        assert!(volume.own_cache() && !"a=/x,read-only".parse::<VolumeOptions>().unwrap().own_cache());
    }

    #[test]
    fn what_is_wrong_with_a_volume_is_told() {
        for (wrong, told) in [
            ("data", "write NAME=PATH"),
            ("a=", "a path is missing"),
            ("a=/x,polcy=lru", "unknown field `polcy` (did you mean `policy`?), expected one of"),
            ("a=/x,policy=opt", "not run"),
            ("a=/x,policy=none", "there is no policy `none`"),
            ("a=/x,connections=few", "`few` is no number above 0"),
            ("a=/x,size=big", "is no number of bytes"),
            ("a=/x,mode=back", "unknown variant `back`, expected `write-back` or `write-through`"),
            ("a=/x,read-only=maybe", "expected a boolean"),
            ("a=s3://b/c,retry=long", "`long` is no time"),
            ("a=/x,iops=0", "`0` is no number above 0"),
            ("a=/x,size=1GiB,size=2GiB", "`size` is said twice"),
        ] {
            let error = wrong.parse::<VolumeOptions>().unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
