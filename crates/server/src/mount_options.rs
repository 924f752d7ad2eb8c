//! The options of `forebay mount`: each is declared once, for the command line and for the configuration file.

use crate::error::Error;
use crate::managers::OwnersOption;
use crate::options::{Direct, Options, only_a_restart_changes, read_file};
use crate::source::NO_TIME;
use crate::volume_options::Mode;
use crate::words::{Address, Age, Count, Policy, Share, Size};
use clap::Args;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A directory, and where it is shown: a `[[mount]]` table. What it does not say is as for all directories.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DirectoryOptions {
    /// The directory whose files are shown.
    pub source: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// When writes are in storage.
    pub mode: Option<Mode>,
    /// The most that is read ahead of a stream; 0 for nothing.
    pub readahead: Option<Size>,
    /// Nothing can be changed.
    pub read_only: Option<bool>,
    /// What others change below is noticed at once.
    pub watch: Option<bool>,
}

/// How the cache works, and what it shows of itself.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MountOptions {
    /// The directories.
    #[arg(skip)]
    #[serde(rename = "mount")]
    pub mounts: Vec<DirectoryOptions>,
    /// The size of the cache: all the memory that files take [default: 512MiB]
    #[arg(short, long, value_name = "SIZE")]
    pub cache: Option<Size>,
    /// The policy of the cache: `forebay policies` lists them [default: clock-pro]
    #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…")]
    pub policy: Option<Policy>,
    /// The page size of the cache, a power of two from 4KiB to 2MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE")]
    pub page: Option<Size>,
    /// When writes are in storage: soon, or when they return [default: write-back]
    #[arg(long, value_enum, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// The most that is read ahead of a stream; 0 for nothing [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub readahead: Option<Size>,
    /// Let nothing be changed
    #[arg(long)]
    pub read_only: bool,
    /// Notice at once what others change below, not when a file is opened next
    #[arg(long)]
    pub watch: bool,
    /// Let other users in, as far as permissions of files let them; of root's mounts this is the default
    #[arg(long)]
    pub allow_other: bool,
    /// Let nobody else in, where root mounts: making, deleting and changing names is quicker then
    #[arg(long, conflicts_with = "allow_other")]
    pub private: bool,
    /// Serve figures by HTTP: /metrics for Prometheus, /statistics as JSON for `forebay top`
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<Address>,
    /// Take commands of `forebay control` at a unix socket, its owner's alone
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Who manages which files of whom, under lru-sp: rules of a TOML file, as of `forebay compare`
    #[arg(long, value_name = "FILE.toml")]
    pub managers: Option<PathBuf>,
    /// End the charge of a manager that was caught at this many mistakes more than it was right: LRU decides for its owner, under
    /// lru-sp [default: never]
    #[arg(long, value_name = "MISTAKES")]
    pub revoke: Option<Count>,
    /// Whose references count as one owner's, for managers and in traces [default: process]
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub owners: Option<OwnersOption>,
    /// Let programs manage their own pages by a unix socket (docs/own-managers.md); the policy is to be lru-sp
    #[arg(long, value_name = "PATH")]
    pub manager_socket: Option<PathBuf>,
    /// Write the references of programs to a trace, which is whole when the directory has been unmounted
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Make files as slow as on a disk: a preset of `forebay devices`, or a TOML file
    #[arg(long, value_name = "DEVICE")]
    pub delay: Option<String>,
    /// The share of the cache that may be dirty before writers wait [default: 50%]
    #[arg(long, value_name = "SHARE")]
    pub dirty_limit: Option<Share>,
    /// How long a page may be dirty before it is written back [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub dirty_age: Option<Age>,
    /// How long a program waits for storage that answers nothing, before its request fails with ETIMEDOUT [default: for ever]
    #[arg(long, value_name = "TIME")]
    pub device_timeout: Option<Age>,
    /// How long a stopping mount waits for storage that takes nothing; then it names what is not durable, and exits with 1
    /// [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub stop_timeout: Option<Age>,
    /// Ask the system for huge pages for the cache
    #[arg(long)]
    pub huge_pages: bool,
    /// Whether files bypass the system's page cache: `auto` where they can [default: auto]
    #[arg(long, value_enum, value_name = "WHEN", hide_possible_values = true)]
    pub direct: Option<Direct>,
}

impl MountOptions {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in it and where.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_file(path)
    }

    /// These options, and what `file` says where they say nothing. A source named in both is shown as these say.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        let named = |source: &Path| self.mounts.iter().any(|mount| mount.source == source);
        let others = file.mounts.into_iter().filter(|mount| !named(&mount.source)).collect::<Vec<_>>();
        Self {
            mounts: self.mounts.into_iter().chain(others).collect(),
            cache: self.cache.or(file.cache),
            policy: self.policy.or(file.policy),
            page: self.page.or(file.page),
            mode: self.mode.or(file.mode),
            readahead: self.readahead.or(file.readahead),
            read_only: self.read_only || file.read_only,
            watch: self.watch || file.watch,
            // Each is the other's opposite.
            allow_other: self.allow_other || file.allow_other && !self.private,
            private: self.private || file.private && !self.allow_other,
            metrics: self.metrics.or(file.metrics),
            control: self.control.or(file.control),
            managers: self.managers.or(file.managers),
            revoke: self.revoke.or(file.revoke),
            owners: self.owners.or(file.owners),
            manager_socket: self.manager_socket.or(file.manager_socket),
            record: self.record.or(file.record),
            delay: self.delay.or(file.delay),
            dirty_limit: self.dirty_limit.or(file.dirty_limit),
            dirty_age: self.dirty_age.or(file.dirty_age),
            device_timeout: self.device_timeout.or(file.device_timeout),
            stop_timeout: self.stop_timeout.or(file.stop_timeout),
            huge_pages: self.huge_pages || file.huge_pages,
            direct: self.direct.or(file.direct),
        }
    }

    /// Which keys of a file that is read again differ and wait for a restart, in words.
    pub(crate) fn waiting_for_restart(&self, new: &Self) -> Option<String> {
        let Self {
            cache: _,
            managers: _,
            dirty_limit: _,
            dirty_age: _,
            mounts,
            policy,
            page,
            mode,
            readahead,
            read_only,
            watch,
            allow_other,
            private,
            metrics,
            control,
            revoke,
            owners,
            manager_socket,
            record,
            delay,
            device_timeout,
            stop_timeout,
            huge_pages,
            direct,
        } = self;
        only_a_restart_changes(&[
            ("mount", *mounts != new.mounts),
            ("policy", *policy != new.policy),
            ("page", *page != new.page),
            ("mode", *mode != new.mode),
            ("readahead", *readahead != new.readahead),
            ("read-only", *read_only != new.read_only),
            ("watch", *watch != new.watch),
            ("allow-other", *allow_other != new.allow_other),
            ("private", *private != new.private),
            ("metrics", *metrics != new.metrics),
            ("control", *control != new.control),
            ("revoke", *revoke != new.revoke),
            ("owners", *owners != new.owners),
            ("manager-socket", *manager_socket != new.manager_socket),
            ("record", *record != new.record),
            ("delay", *delay != new.delay),
            ("device-timeout", *device_timeout != new.device_timeout),
            ("stop-timeout", *stop_timeout != new.stop_timeout),
            ("huge-pages", *huge_pages != new.huge_pages),
            ("direct", *direct != new.direct),
        ])
    }

    /// Refuses options that name no directory, and those that say who gets in twice.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.mounts.is_empty() {
            let hint = "name SOURCE and MOUNTPOINT, or `[[mount]]` tables in a file with --config";
            return Err(Error::Usage(format!("there is no directory to mount; {hint}")));
        }
        if self.device_timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Err(Error::Usage(NO_TIME.to_owned()));
        }
        self.policy_with_revoke()?;
        if self.private && self.allow_other {
            return Err(Error::Usage("private and allow-other: choose one, as they are opposites".to_owned()));
        }
        Ok(())
    }

    /// The policy with `--revoke` as its parameter.
    fn policy_with_revoke(&self) -> Result<Option<Policy>, Error> {
        let Some(Count(mistakes)) = self.revoke else { return Ok(self.policy.clone()) };
        let label = self.policy.as_ref().map_or("", |policy| &*policy.0.label);
        if label.split(':').next() != Some("lru-sp") {
            return Err(Error::Usage("--revoke is for lru-sp, which has managers: add --policy lru-sp".to_owned()));
        }
        let policy = format!("{label}:revoke={mistakes}").parse();
        policy.map(Some).map_err(|error| Error::Usage(format!("--revoke: {error}")))
    }

    /// Whether managers may lose their charge by their mistakes.
    pub(crate) fn revokes(&self) -> bool {
        let policy = self.policy_with_revoke().ok().flatten();
        policy.is_some_and(|Policy(spec)| spec.info.name == "lru-sp" && spec.settings.integer("revoke") > 0)
    }

    /// What a server of one volume would be given for such a cache.
    pub(crate) fn of_server(&self) -> Options {
        Options {
            cache: self.cache,
            policy: self.policy_with_revoke().unwrap_or_else(|_| self.policy.clone()),
            page: self.page,
            delay: self.delay.clone(),
            dirty_limit: self.dirty_limit,
            dirty_age: self.dirty_age,
            huge_pages: self.huge_pages,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoke_is_a_parameter_of_lru_sp_and_of_no_other_policy() {
        let with = |policy: Option<&str>| MountOptions {
            policy: policy.map(|policy| policy.parse().unwrap()),
            revoke: Some(Count(32)),
            ..MountOptions::default()
        };
        let label = |options: MountOptions| options.of_server().policy.unwrap().0.label;
        assert_eq!(label(with(Some("lru-sp"))), "lru-sp:revoke=32");
        assert_eq!(label(with(Some("lru-sp:manager=mru"))), "lru-sp:manager=mru:revoke=32");
        for policy in [None, Some("clock-pro")] {
            assert!(with(policy).policy_with_revoke().unwrap_err().to_string().contains("add --policy lru-sp"));
        }
        let revokes = |policy: &str| MountOptions { revoke: None, ..with(Some(policy)) }.revokes();
        assert!(with(Some("lru-sp")).revokes() && revokes("lru-sp:revoke=2"), "both are the same");
        assert!(!revokes("lru-sp") && !revokes("clock-pro"));
        let twice = with(Some("lru-sp:revoke=2")).policy_with_revoke().unwrap_err().to_string();
        assert!(twice.contains("revoke"), "{twice}");
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "cache = \"1MiB\"\nmode = \"write-through\"\nread-only = true\n").unwrap();
        let line = MountOptions { cache: Some(Size(7)), ..MountOptions::default() };
        let both = line.over(MountOptions::read(file.path()).unwrap());
        assert_eq!((both.cache, both.mode, both.read_only), (Some(Size(7)), Some(Mode::WriteThrough), true));
        std::fs::write(file.path(), "[[mount]]\nsource = \"/a\"\nmountpoint = \"/b\"\n[[mount]]\nsource = \"/c\"\nmountpoint = \"/d\"\nread-only = true\n").unwrap();
        let named = |source: &str, mountpoint: &str| DirectoryOptions {
            source: source.into(),
            mountpoint: mountpoint.into(),
            ..DirectoryOptions::default()
        };
        let line = MountOptions { mounts: vec![named("/a", "/e")], ..MountOptions::default() };
        let both = line.over(MountOptions::read(file.path()).unwrap());
        let from_file = DirectoryOptions { read_only: Some(true), ..named("/c", "/d") };
        assert_eq!(both.mounts, [named("/a", "/e"), from_file]);
        std::fs::write(file.path(), "allow-other = true").unwrap();
        let both =
            MountOptions { private: true, ..MountOptions::default() }.over(MountOptions::read(file.path()).unwrap());
        assert_eq!((both.private, both.allow_other), (true, false), "the file's is the opposite of the command line's");
        std::fs::write(file.path(), "volume = 1").unwrap();
        let wrong = MountOptions::read(file.path()).unwrap_err().to_string();
        assert!(wrong.contains("line 1") && wrong.contains("unknown field `volume`"), "{wrong}");
    }
}
