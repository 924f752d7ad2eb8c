//! The options of `forebay mount`: each is declared once, for the command line and for the configuration file.

use crate::declared::{Over, options, read_file};
use crate::error::Error;
use crate::managers::OwnersOption;
use crate::options::ServiceOptions;
use crate::volumes::source::NO_TIME;
use crate::volumes::volume::Mode;
use crate::words::{Count, Policy, Size};
use clap::Arg;
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

options! {
    /// How the cache works, and what it shows of itself.
    #[command(mut_args(in_words_of_a_mount))]
    pub struct MountOptions {
        /// The directories.
        #[arg(skip)]
        pub mounts: Vec<DirectoryOptions> = restart("mount");
        /// Its cache, and what runs beside it.
        #[command(flatten)]
        pub service: ServiceOptions = part;
        /// When writes are in storage: soon, or when they return [default: write-back]
        #[arg(long, value_enum, value_name = "MODE")]
        pub mode: Option<Mode> = restart("mode");
        /// The most that is read ahead of a stream; 0 for nothing [default: 512KiB]
        #[arg(long, value_name = "SIZE")]
        pub readahead: Option<Size> = restart("readahead");
        /// Let nothing be changed
        #[arg(long)]
        pub read_only: bool = restart("read-only");
        /// Notice at once what others change below, not when a file is opened next
        #[arg(long)]
        pub watch: bool = restart("watch");
        /// Let other users in, as far as permissions of files let them; of root's mounts this is the default
        #[arg(long)]
        pub allow_other: bool = restart("allow-other");
        /// Let nobody else in, where root mounts: making, deleting and changing names is quicker then
        #[arg(long, conflicts_with = "allow_other")]
        pub private: bool = restart("private");
        /// Who manages which files of whom, under lru-sp: rules of a TOML file, as of `forebay compare`
        #[arg(long, value_name = "FILE.toml")]
        pub managers: Option<PathBuf> = live("managers");
        /// End the charge of a manager that was caught at this many mistakes more than it was right: LRU decides for its owner, under
        /// lru-sp [default: never]
        #[arg(long, value_name = "MISTAKES")]
        pub revoke: Option<Count> = restart("revoke");
        /// Whose references count as one owner's, for managers and in traces [default: process]
        #[arg(long, value_enum, value_name = "WHOSE")]
        pub owners: Option<OwnersOption> = restart("owners");
        /// Let programs manage their own pages by a unix socket (docs/own-managers.md); the policy is to be lru-sp
        #[arg(long, value_name = "PATH")]
        pub manager_socket: Option<PathBuf> = restart("manager-socket");
    }
}

/// Help that says what an option of all services is for mounted directories.
fn in_words_of_a_mount(option: Arg) -> Arg {
    let help = match option.get_id().as_str() {
        "cache" => "The size of the cache: all the memory that files take [default: 512MiB]",
        "record" => "Write the references of programs to a trace, which is whole when the directory has been unmounted",
        "device_timeout" => {
            "How long a program waits for storage that answers nothing, before its request fails with ETIMEDOUT [default: for ever]"
        }
        "stop_timeout" => {
            "How long a stopping mount waits for storage that takes nothing; then it names what is not durable, and exits with 1 \
             [default: 60s]"
        }
        _ => return option,
    };
    option.help(help)
}

impl Over for Vec<DirectoryOptions> {
    /// A source named in both is shown as these say.
    fn over(self, file: Self) -> Self {
        let named = |source: &Path| self.iter().any(|mount| mount.source == source);
        let others = file.into_iter().filter(|mount| !named(&mount.source)).collect::<Vec<_>>();
        self.into_iter().chain(others).collect()
    }
}

impl MountOptions {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in it and where.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_file(path)
    }

    /// These options, and what `file` says where they say nothing.
    #[must_use]
    pub fn over(self, mut file: Self) -> Self {
        // Each is the other's opposite.
        file.allow_other &= !self.private;
        file.private &= !self.allow_other;
        Over::over(self, file)
    }

    /// Refuses options that name no directory, and those that say who gets in twice.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.mounts.is_empty() {
            let hint = "name SOURCE and MOUNTPOINT, or `[[mount]]` tables in a file with --config";
            return Err(Error::Usage(format!("there is no directory to mount; {hint}")));
        }
        if self.service.device_timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Err(Error::Usage(NO_TIME.to_owned()));
        }
        self.with_revoke()?;
        if self.private && self.allow_other {
            return Err(Error::Usage("private and allow-other: choose one, as they are opposites".to_owned()));
        }
        Ok(())
    }

    /// The options of the cache, its policy with `--revoke` as a parameter.
    pub(crate) fn with_revoke(&self) -> Result<ServiceOptions, Error> {
        let mut service = self.service.clone();
        let Some(Count(mistakes)) = self.revoke else { return Ok(service) };
        let label = service.policy.as_ref().map_or("", |policy| &*policy.0.label);
        if label.split(':').next() != Some("lru-sp") {
            return Err(Error::Usage("--revoke is for lru-sp, which has managers: add --policy lru-sp".to_owned()));
        }
        let policy = format!("{label}:revoke={mistakes}").parse();
        service.policy = Some(policy.map_err(|error| Error::Usage(format!("--revoke: {error}")))?);
        Ok(service)
    }

    /// Whether managers may lose their charge by their mistakes.
    pub(crate) fn revokes(&self) -> bool {
        let policy = self.with_revoke().ok().and_then(|service| service.policy);
        policy.is_some_and(|Policy(spec)| spec.info.name == "lru-sp" && spec.settings.integer("revoke") > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoke_is_a_parameter_of_lru_sp_and_of_no_other_policy() {
        let with = |policy: Option<&str>| MountOptions {
            service: ServiceOptions {
                policy: policy.map(|policy| policy.parse().unwrap()),
                ..ServiceOptions::default()
            },
            revoke: Some(Count(32)),
            ..MountOptions::default()
        };
        let label = |options: MountOptions| options.with_revoke().unwrap().policy.unwrap().0.label;
        assert_eq!(label(with(Some("lru-sp"))), "lru-sp:revoke=32");
        assert_eq!(label(with(Some("lru-sp:manager=mru"))), "lru-sp:manager=mru:revoke=32");
        for policy in [None, Some("clock-pro")] {
            assert!(with(policy).with_revoke().unwrap_err().to_string().contains("add --policy lru-sp"));
        }
        let revokes = |policy: &str| MountOptions { revoke: None, ..with(Some(policy)) }.revokes();
        assert!(with(Some("lru-sp")).revokes() && revokes("lru-sp:revoke=2"), "both are the same");
        assert!(!revokes("lru-sp") && !revokes("clock-pro"));
        let twice = with(Some("lru-sp:revoke=2")).with_revoke().unwrap_err().to_string();
        assert!(twice.contains("revoke"), "{twice}");
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "cache = \"1MiB\"\nmode = \"write-through\"\nread-only = true\n").unwrap();
        let service = ServiceOptions { cache: Some(Size(7)), ..ServiceOptions::default() };
        let line = MountOptions { service, ..MountOptions::default() };
        let both = line.over(MountOptions::read(file.path()).unwrap());
        assert_eq!((both.service.cache, both.mode, both.read_only), (Some(Size(7)), Some(Mode::WriteThrough), true));
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
