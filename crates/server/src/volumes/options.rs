//! The options of `forebay serve`: each is declared once, for the command line and for the configuration file.

use crate::declared::{Over, options, read_file};
use crate::error::Error;
use crate::listen::Listen;
use crate::options::ServiceOptions;
use crate::volumes::volume::VolumeOptions;
use crate::words::{Age, Rate, Size};
use clap::{Arg, Args, ValueEnum};
use forebay_basis::show_bytes;
use forebay_nbd::{Config, Identity, Tls};
use forebay_pool::HANDLES;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A request of clients may always have as much data: pages of caches are no larger.
const LEAST_REQUEST: u64 = 1 << 20;

/// The least memory for written data and replies.
const LEAST_BUFFERS: u64 = 1 << 20;

/// The most data in one request, unless it is said.
const MOST_REQUEST: u32 = 32 << 20;

options! {
    /// What to serve, and how.
    #[command(mut_args(in_words_of_volumes))]
    pub struct Options {
        /// A volume to serve: its name, where its bytes are, and its options
        ///
        /// PATH
        ///   /srv/data.img, /dev/vdb  a file, or a block device
        ///   memory:1GiB              memory, gone with the server
        ///   s3://bucket/a, file:///a object storage
        ///   concat:A+B               one behind the other
        ///   stripe=64KiB:A+B         in stripes, on each in turn
        /// OPTION
        ///   create=10GiB             makes a missing file or object volume
        ///   read-only                clients may only read
        ///   mode=write-through       writes are in storage when they return
        ///   readahead=512KiB         the most read ahead of a stream; 0: nothing
        ///   policy=mq, size=2GiB, page=8KiB
        ///                            a cache of its own, else as the others
        ///   min=64MiB, max=1GiB      its share of the common cache
        ///   manager=mru              its manager there, under lru-sp
        ///   rate=50MiB, iops=500     the most a second of its storage
        ///   connections=4            the most clients at a time
        ///   retry=60s                how long S3 is asked again after a failure
        #[arg(short = 'V', long = "volume", value_name = "NAME=PATH[,OPTION=VALUE]…", verbatim_doc_comment)]
        pub volumes: Vec<VolumeOptions> = live("volume");
        /// Where clients connect: HOST:PORT (or tcp:HOST:PORT), or unix:PATH; tcp:127.0.0.1:10809 if nothing is said and no socket is
        /// handed on by the service manager
        #[arg(short, long, value_name = "ADDRESS")]
        pub listen: Vec<Listen> = restart("listen");
        /// Its cache, and what runs beside it.
        #[command(flatten)]
        pub service: ServiceOptions = part;
        /// The most bytes a second read from and written to each file or device
        #[arg(long, value_name = "SIZE")]
        pub rate: Option<Rate> = restart("rate");
        /// Encryption.
        #[command(flatten)]
        pub tls: TlsOptions = restart("tls");
        /// The most connections at a time [default: 256]
        #[arg(long, value_name = "NUMBER")]
        pub max_connections: Option<usize> = restart("max-connections");
        /// The most connections at a time from one address, of those that come by TCP [default: three quarters of --max-connections]
        #[arg(long, value_name = "NUMBER")]
        pub max_connections_per_peer: Option<usize> = restart("max-connections-per-peer");
        /// The most data in one request [default: 32MiB]
        #[arg(long, value_name = "SIZE")]
        pub max_request: Option<Size> = restart("max-request");
        /// The memory of written data and of replies, of all connections together; requests wait for it. At least four times the most data
        /// in one request [default: 256MiB]
        #[arg(long, value_name = "SIZE")]
        pub buffers: Option<Size> = restart("buffers");
        /// Close a connection that rests for this long within a message: sends nothing of a request that it has begun, or takes nothing of
        /// a reply [default: 1m]
        #[arg(long, value_name = "TIME")]
        pub message_timeout: Option<Age> = restart("message-timeout");
        /// Close a connection that asks for nothing for this long; a mounted disk may rest for days [default: 0s, which is never]
        #[arg(long, value_name = "TIME")]
        pub idle_timeout: Option<Age> = restart("idle-timeout");
        /// Threads per volume for requests that wait for storage [default: 16]
        #[arg(long, value_name = "NUMBER")]
        pub workers: Option<usize> = restart("workers");
    }
}

/// Help that says what an option of all services is for volumes.
fn in_words_of_volumes(option: Arg) -> Arg {
    let help = match option.get_id().as_str() {
        "cache" => "The size of the cache that volumes share [default: 512MiB]",
        "policy" => "The policy of caches: `forebay policies` lists them [default: clock-pro]",
        "page" => "The page size of caches, a power of two from 4KiB to 2MiB [default: 4KiB]",
        "record" => "Write the references of clients to a trace, which is whole when the server has stopped",
        "delay" => "Make each file or device as slow as a disk: a preset of `forebay devices`, or a TOML file",
        "dirty_limit" => "The share of a cache that may be dirty before writers wait [default: 50%]",
        "device_timeout" => {
            "How long a request to a file or device may take: what hangs for longer fails. By default it is waited for"
        }
        "stop_timeout" => {
            "How long a stopping server waits for a device that takes nothing; then it names what is not durable, and exits with 1 \
             [default: 60s]"
        }
        "huge_pages" => "Ask the system for huge pages for caches",
        _ => return option,
    };
    option.help(help)
}

impl Over for Vec<VolumeOptions> {
    /// A volume named in both is this one.
    fn over(self, file: Self) -> Self {
        let named = |name: &String| self.iter().any(|volume| volume.name == *name);
        let others = file.into_iter().filter(|volume| !named(&volume.name)).collect::<Vec<_>>();
        self.into_iter().chain(others).collect()
    }
}

impl Over for Vec<Listen> {
    fn over(self, file: Self) -> Self {
        if self.is_empty() { file } else { self }
    }
}

/// Encryption.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct TlsOptions {
    /// Whether clients may or must encrypt [default: require, if there is a certificate]
    #[arg(long = "tls", value_enum, value_name = "WHEN")]
    pub mode: Option<TlsMode>,
    /// A folder with server-cert.pem and server-key.pem
    #[arg(long = "tls-certificates", value_name = "FOLDER", conflicts_with_all = ["cert", "key"])]
    pub certificates: Option<PathBuf>,
    /// The server's certificate, a PEM file
    #[arg(long = "tls-cert", value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file
    #[arg(long = "tls-key", value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Let in only clients with a certificate signed by one of these authorities, a PEM file
    #[arg(long = "tls-ca", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl Over for TlsOptions {
    fn over(self, file: Self) -> Self {
        if self == Self::default() { file } else { self }
    }
}

/// Whether clients may or must encrypt.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// No client can
    Off,
    /// A client chooses
    Allow,
    /// Every client must
    Require,
}

impl Options {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in it and where.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_file(path)
    }

    /// These options, and what `file` says where they say nothing.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        Over::over(self, file)
    }

    pub(crate) fn most_request(&self) -> u32 {
        self.max_request.map_or(MOST_REQUEST, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
    }

    pub(crate) fn tls(&self) -> Result<Tls, Error> {
        let tls = &self.tls;
        let files = match (&tls.certificates, &tls.cert, &tls.key) {
            (Some(folder), None, None) => Some((folder.join("server-cert.pem"), folder.join("server-key.pem"))),
            (None, Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None, None) => None,
            _ => {
                return Err(Error::Usage(
                    "TLS: give a folder of certificates, or a certificate and its key".to_owned(),
                ));
            }
        };
        let Some((cert, key)) = files else {
            return match tls.mode {
                Some(TlsMode::Allow | TlsMode::Require) => {
                    let what = "TLS needs --tls-certificates FOLDER, or --tls-cert FILE and --tls-key FILE";
                    Err(Error::Usage(what.to_owned()))
                }
                _ if tls.ca.is_some() => Err(Error::Usage("--tls-ca is of no use without a certificate".to_owned())),
                _ => Ok(Tls::Off),
            };
        };
        let identity = || Identity::from_files(&cert, &key, tls.ca.as_deref());
        Ok(match tls.mode {
            Some(TlsMode::Off) => Tls::Off,
            Some(TlsMode::Allow) => Tls::Allowed(identity()?),
            Some(TlsMode::Require) | None => Tls::Required(identity()?),
        })
    }

    pub(crate) fn nbd(&self) -> Result<Config, Error> {
        let mut config = Config { request_bytes: self.most_request(), tls: self.tls()?, ..Config::default() };
        self.limit_clients(&mut config)?;
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        let sharing = self.volumes.iter().filter(|volume| !volume.own_cache()).count();
        self.check_handles(&config, sharing.max(1))?;
        Ok(config)
    }

    /// Whether a cache of this many volumes has a handle for each thread that may use it.
    pub(crate) fn check_handles(&self, config: &Config, volumes: usize) -> Result<(), Error> {
        let threads = config.workers.saturating_mul(volumes).saturating_add(config.connections);
        if threads > HANDLES {
            return Err(Error::Usage(format!(
                "{} connections and {} workers for each of {volumes} volumes of a cache are {threads} threads: \
                 it serves {HANDLES}; take fewer",
                config.connections, config.workers
            )));
        }
        Ok(())
    }

    /// What clients may take of the server's connections, memory and time.
    pub(crate) fn limit_clients(&self, config: &mut Config) -> Result<(), Error> {
        let above_0 = [
            ("--max-connections", self.max_connections, "no client could connect"),
            ("--max-connections-per-peer", self.max_connections_per_peer, "no client could connect by TCP"),
            ("--workers", self.workers, "no request that waits for storage would be done"),
        ];
        if let Some((option, _, why)) = above_0.into_iter().find(|&(_, number, _)| number == Some(0)) {
            return Err(Error::Usage(format!("{option} must be above 0: {why}")));
        }
        if let Some(connections) = self.max_connections {
            config.connections = connections;
        }
        if self.max_connections_per_peer.is_some_and(|most| most > config.connections) {
            let what = format!("--max-connections-per-peer must be at most --max-connections, {}", config.connections);
            return Err(Error::Usage(what));
        }
        config.connections_per_peer = self.max_connections_per_peer;
        if self.max_request.is_some_and(|request| request.0 < LEAST_REQUEST) {
            let what =
                format!("--max-request must be at least {}: clients send less in none", show_bytes(LEAST_REQUEST));
            return Err(Error::Usage(what));
        }
        let request = self.max_request.map_or(0, |request| request.0);
        let least = request.saturating_mul(4).max(LEAST_BUFFERS);
        match self.buffers {
            Some(Size(bytes)) if bytes < least => {
                let what = format!(
                    "--buffers must be at least {}: four times the most data in one request",
                    show_bytes(least)
                );
                return Err(Error::Usage(what));
            }
            Some(Size(bytes)) => config.buffers = usize::try_from(bytes).unwrap_or(usize::MAX),
            None if least > config.buffers as u64 => {
                let [request, buffers, least] = [request, config.buffers as u64, least].map(show_bytes);
                return Err(Error::Usage(format!(
                    "--max-request {request} is more than a quarter of --buffers, {buffers}: make it smaller, or --buffers \
                     at least {least}"
                )));
            }
            None => {}
        }
        if let Some(Age(time)) = self.message_timeout {
            if time.is_zero() {
                return Err(Error::Usage("--message-timeout must be above 0: it ends what hangs".to_owned()));
            }
            config.message = time;
        }
        config.idle = self.idle_timeout.map(|age| age.0).filter(|time| !time.is_zero());
        Ok(())
    }

    /// Whether there is a volume to serve under each name, each name once, and each volume's storage its own.
    pub(crate) fn check_names(&self) -> Result<(), Error> {
        if self.volumes.is_empty() {
            let hint = "name one, as in --volume data=/srv/data.img, or in a file with --config";
            return Err(Error::Usage(format!("there is no volume to serve; {hint}")));
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            if self.volumes[..index].iter().any(|before| before.name == volume.name) {
                return Err(Error::Usage(format!("two volumes are named `{}`: names must differ", volume.name)));
            }
            volume.check()?;
            volume.check_apart(&self.volumes[..index])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Share;
    use std::time::Duration;

    fn read(text: &str) -> Result<Options, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let name = file.path().display().to_string();
        Options::read(file.path()).map_err(|error| error.to_string().replace(&name, "FILE"))
    }

    const FILE: &str = r#"
        cache = "1GiB"
        dirty-limit = 0.25
        workers = 4
        listen = ["unix:/run/a", "tcp:[::1]:0"]
        [tls]
        mode = "allow"
        cert = "c.pem"
        key = "k.pem"
        [[volume]]
        name = "a"
        path = "/a,b"
        read-only = true
        [[volume]]
        name = "b"
        path = "memory:1MiB"
    "#;

    #[test]
    fn a_file_says_what_the_command_line_says() {
        let file = read(FILE).unwrap();
        assert_eq!(
            (file.service.cache, file.service.dirty_limit, file.workers),
            (Some(Size(1 << 30)), Some(Share(0.25)), Some(4))
        );
        assert_eq!(file.listen.len(), 2);
        assert_eq!(file.tls.mode, Some(TlsMode::Allow));
        assert!(file.volumes[0].read_only && file.volumes[0].path.to_string() == "/a,b");
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let line = Options {
            volumes: vec!["b=/new".parse().unwrap()],
            service: ServiceOptions { cache: Some(Size(7)), ..ServiceOptions::default() },
            listen: vec!["unix:/s".parse().unwrap()],
            ..Options::default()
        };
        let both = line.clone().over(read(FILE).unwrap());
        assert_eq!((both.service.cache, both.workers, both.listen), (Some(Size(7)), Some(4), line.listen));
        let paths: Vec<String> = both.volumes.iter().map(|volume| volume.path.to_string()).collect();
        assert_eq!(paths, ["/new", "/a,b"]);
    }

    #[test]
    fn a_wrong_file_is_told_by_its_line() {
        for (wrong, told) in [
            (
                "\ncache = \"1GiB\"\nchache = 1\n",
                "FILE: line 3, `chache = 1`: unknown field `chache` (did you mean `cache`?)",
            ),
            ("cache = \"much\"", "FILE: line 1, `cache = \"much\"`: `much` is no number of bytes"),
            (
                "[[volume]]\nname = \"a\"\npath = \"/x\"\npolicy = \"opt\"",
                "FILE: line 4, `policy = \"opt\"`: opt needs",
            ),
            ("[[volume]]\nname = \"a\"", "FILE: line 1, `[[volume]]`: missing field `path`"),
            ("[tls]\nmode = \"perhaps\"", "FILE: line 2, `mode = \"perhaps\"`: unknown variant"),
            ("listen = [\"nowhere\"]", "FILE: line 1, `listen = [\"nowhere\"]`: `nowhere` is no address"),
            ("cache = ", "FILE: line 1, `cache =`: "),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn clients_are_limited_as_is_said_and_by_default() {
        let limited = |text: &str| {
            let mut config = Config::default();
            read(text).unwrap().limit_clients(&mut config).map(|()| config).map_err(|error| error.to_string())
        };
        let config = limited("buffers = \"64MiB\"\nmessage-timeout = \"5s\"\nidle-timeout = \"1h\"").unwrap();
        assert_eq!(
            (config.buffers, config.message.as_secs(), config.idle),
            (64 << 20, 5, Some(Duration::from_secs(3600)))
        );
        let config = limited("idle-timeout = \"0s\"").unwrap();
        assert_eq!((config.buffers, config.message.as_secs(), config.idle), (256 << 20, 60, None));
        for (wrong, told) in [
            ("buffers = \"64KiB\"", "at least 1 MiB"),
            ("buffers = \"64MiB\"\nmax-request = \"32MiB\"", "at least 128 MiB"),
            ("message-timeout = \"0s\"", "must be above 0"),
            ("max-request = \"1GiB\"", "--max-request 1 GiB is more than a quarter of --buffers, 256 MiB"),
            ("max-request = \"0\"", "--max-request must be at least 1 MiB"),
        ] {
            let error = limited(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn names_differ_and_there_is_one() {
        let of = |volumes: &[&str]| Options {
            volumes: volumes.iter().map(|volume| volume.parse().unwrap()).collect(),
            ..Options::default()
        };
        of(&["a=/x,read-only", "b=/x,read-only"]).check_names().unwrap();
        assert!(of(&[]).check_names().unwrap_err().to_string().contains("--volume data=/srv/data.img"));
        let twice = of(&["a=file:///o/p", "b=concat:/x+file:///o/p/"]).check_names().unwrap_err().to_string();
        assert_eq!(twice, "volume b: concat:/x+file:///o/p/ is in use: volume a has it, as file:///o/p");
        let twice = of(&["a=stripe=4KiB:file:///o/p+file:///o/p"]).check_names().unwrap_err().to_string();
        assert!(twice.contains("file:///o/p is in it twice"), "{twice}");
        assert!(of(&["a=/x", "a=/y"]).check_names().unwrap_err().to_string().contains("two volumes are named `a`"));
    }
}
