//! The options of `forebay steer`: each is declared once, for the command line and for the configuration file.

use crate::cache::{CACHE, check_size, default_policy};
use crate::declared::{Over, options, read_file};
use crate::error::Error;
use crate::managers::OwnersOption;
use crate::memory;
use crate::options::BesideOptions;
use crate::steering::shares::{ShareOptions, check_fit};
use crate::words::{Level, Policy, Room, Size};
use clap::Arg;
use forebay_basis::show_bytes;
use forebay_kernel::{Limits, Scope};
use forebay_pool::{Config, LEAST_PAGE_SIZE};
use std::path::{Path, PathBuf};

/// The bytes of a page of the kernel's cache.
pub(crate) const PAGE: u64 = LEAST_PAGE_SIZE as u64;

/// The bytes of addresses that threads, their stacks, and the ring of events take.
const ADDRESSES: u64 = 48 << 20;

/// The fewest pages of a cache: with less, what is read at once is dropped before it is used.
pub(crate) const LEAST_PAGES: u64 = 64;

/// The least memory of programs. This command takes 10 to 20 MiB itself.
pub(crate) const LEAST_MEMORY: u64 = 32 << 20;

options! {
    /// What is steered, and how.
    #[command(mut_args(in_words_of_steering))]
    pub struct SteerOptions {
        /// The directories whose files are steered, with all that lies below on the same file system; none may lie below another
        #[arg(value_name = "DIRECTORY")]
        pub directories: Vec<PathBuf> = restart("directories");
        /// Steer the files that the processes of a control group use, and of the groups below it; may be given again
        #[arg(long = "cgroup", value_name = "PATH")]
        pub groups: Vec<PathBuf> = restart("cgroup");
        /// The most that these files may have in the kernel's page cache, or `auto`: what the limit of the --cgroup, or of this command's own group, leaves to them; with
        /// --observe the size of the cache that the policy thinks of, 512MiB where it is not given
        #[arg(short, long, value_name = "SIZE|auto")]
        pub cache: Option<Room> = live("cache");
        /// Steer the memory of the PROGRAM or of the --cgroup: this much of it stays at most, the rest leaves for swap space. `auto`: what the limit of the
        /// --cgroup, or of this command's own group, leaves to it. With --cache files are steered, too: both sizes are one, and one policy has it
        #[arg(long, value_name = "SIZE|auto", conflicts_with = "once")]
        pub memory: Option<Room> = live("memory");
        /// Have the policy and the kernel's own lists choose in turns what leaves of --memory: who serves the programs better has more turns. It takes a PROGRAM, or
        /// `--memory auto`, so that a limit keeps the size in the kernel's turns
        #[arg(long)]
        pub turns: bool = restart("turns");
        /// What a directory or control group that is steered has of the size: at least min= when it needs that, and never more than max=; may be given again
        #[arg(long = "share", value_name = "PATH[,min=SIZE][,max=SIZE]")]
        pub shares: Vec<ShareOptions> = live("share");
        /// The policy that chooses the pages that leave: `forebay policies` lists them [default: clock-pro]
        #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…")]
        pub policy: Option<Policy> = restart("policy");
        /// Let nothing leave: only watch what is used, and what the policy would make of it
        #[arg(long)]
        pub observe: bool = restart("observe");
        /// Have the devices of these files read ahead this much at most while it runs: what is read ahead comes in pieces that leave as a whole
        #[arg(long, value_name = "SIZE")]
        pub folio_limit: Option<Size> = restart("folio-limit");
        /// Who manages which files of whom, under lru-sp: rules of a TOML file, as of `forebay compare`
        #[arg(long, value_name = "FILE.toml")]
        pub managers: Option<PathBuf> = live("managers");
        /// Whose uses count as one owner's, for managers and in traces [default: process]
        #[arg(long, value_enum, value_name = "WHOSE")]
        pub owners: Option<OwnersOption> = restart("owners");
        /// Let programs manage their own pages by a unix socket (docs/own-managers.md); the policy is to be lru-sp
        #[arg(long, value_name = "PATH")]
        pub manager_socket: Option<PathBuf> = restart("manager-socket");
        /// Bring the page cache of the directories down to --cache, and end
        #[arg(long, conflicts_with_all = ["groups", "observe", "program", "folio_limit", "managers", "manager_socket", "owners", "metrics", "control", "record"])]
        pub once: bool = restart("once");
        /// Write figures to a file at the end, as JSON; it is replaced
        #[arg(long, value_name = "FILE")]
        pub figures: Option<PathBuf> = restart("figures");
        /// What to log on standard error: error, warn, info, debug, trace or off, or for parts of the program, as in
        /// info,forebay_kernel=debug [default: info; warn beside a PROGRAM]
        #[arg(long, value_name = "LEVEL", env = "FOREBAY_LOG")]
        pub log: Option<Level> = restart("log");
        /// What runs beside it.
        #[command(flatten)]
        pub beside: BesideOptions = part;
    }
}

/// Help that says what an option of all services is for a steered cache.
fn in_words_of_steering(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "record" => option.help("Write the uses of files to a trace, which is whole when steering has ended"),
        _ => option,
    }
}

impl Over for Vec<PathBuf> {
    fn over(self, file: Self) -> Self {
        if self.is_empty() { file } else { self }
    }
}

impl SteerOptions {
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

    /// Refuses options that make no sense together.
    pub(crate) fn check(&self, has_program: bool) -> Result<(), Error> {
        if self.groups.is_empty() && !has_program && (self.directories.is_empty() || self.memory.is_some()) {
            let what = if self.memory.is_some() {
                "no memory to steer; name "
            } else {
                "nothing to steer; name a DIRECTORY, "
            };
            return Err(Error::Usage(format!("there is {what}a control group by --cgroup, or a program behind `--`")));
        }
        self.check_memory_alone()?;
        self.check_sizes()?;
        self.check_folio_limit()?;
        self.check_once(has_program)?;
        check_apart("", &self.directories)?;
        check_apart("--cgroup ", &self.groups)?;
        self.check_shares()?;
        if self.room() != Some(Room::Auto) {
            check_fit(&self.shares, self.cache_size())?;
        }
        let Some(record) = &self.beside.record else { return Ok(()) };
        let folder = record.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let Ok(folder) = folder.canonicalize() else { return Ok(()) };
        match self.directories.iter().find(|directory| whole(directory).is_some_and(|whole| folder.starts_with(whole)))
        {
            None => Ok(()),
            Some(directory) => Err(Error::Usage(format!(
                "--record {}: it lies below {}, whose uses it is to hold; choose another place",
                record.display(),
                directory.display()
            ))),
        }
    }

    /// Refuses sizes that cannot be, or are missing.
    pub(crate) fn check_sizes(&self) -> Result<(), Error> {
        self.check_both()?;
        self.check_turns()?;
        self.check_least_memory()?;
        match self.room() {
            None if !self.observe => {
                let what = "--cache SIZE is missing: it says how much of the page cache may stay; --observe only looks";
                return Err(Error::Usage(what.to_owned()));
            }
            // Where there is a limit is looked up later.
            Some(Room::Auto) => {}
            None | Some(Room::Bytes(_)) => {
                check_cache(self.cache_size())?;
                self.check_machine()?;
            }
        }
        Ok(())
    }

    /// What is logged, beside a program or without one.
    pub fn level(&self, has_program: bool) -> &str {
        let quiet = if self.once || has_program { "warn" } else { "info" };
        self.log.as_ref().map_or(quiet, |level| &level.0)
    }

    /// Refuses a size that no page cache of this machine can have.
    fn check_machine(&self) -> Result<(), Error> {
        let (size, most) = (self.cache_size(), memory::machine());
        if self.observe || size <= most {
            return Ok(());
        }
        let [size, most] = [size, most].map(show_bytes);
        Err(Error::Usage(format!(
            "{} of {size}: this machine has {most} of memory; --observe looks what more would do",
            match (self.memory.is_some(), self.has_files()) {
                (true, true) => "memory and a cache",
                (true, false) => "memory",
                (false, _) => "a cache",
            }
        )))
    }

    /// Refuses turns of the kernel where nothing would keep the size in them.
    fn check_turns(&self) -> Result<(), Error> {
        let what = match self {
            Self { turns: false, .. } => return Ok(()),
            Self { memory: None, .. } => {
                "the kernel has turns where memory is steered: give --memory, too, or leave it out"
            }
            Self { observe: true, .. } => "with --observe nothing leaves by the policy: leave one of them out",
            Self { cache: Some(_), .. } => "with --cache the policy alone chooses: leave one of them out",
            Self { memory: Some(Room::Bytes(_)), groups, .. } if !groups.is_empty() => {
                "nothing keeps a SIZE of a --cgroup in the kernel's turns: give the group a limit, and take --memory auto"
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(format!("--turns: {what}")))
    }

    /// Refuses what --once has no use for. The command line has been looked at; a file may say it, too.
    fn check_once(&self, has_program: bool) -> Result<(), Error> {
        let Self { groups, observe, managers, owners, beside, .. } = self;
        let others = [
            ("a program", has_program),
            ("cgroup", !groups.is_empty()),
            ("share", !self.shares.is_empty()),
            ("observe", *observe),
            ("folio-limit", self.folio_limit.is_some()),
            ("managers", managers.is_some()),
            ("manager-socket", self.manager_socket.is_some()),
            ("owners", owners.is_some()),
            ("metrics", beside.metrics.is_some()),
            ("control", beside.control.is_some()),
            ("record", beside.record.is_some()),
        ];
        match others.into_iter().find(|(_, given)| self.once && *given) {
            Some((other, _)) => Err(Error::Usage(format!(
                "--once brings directories down to a size and ends: it cannot be used with {other}; leave one of them out"
            ))),
            None => Ok(()),
        }
    }

    fn check_folio_limit(&self) -> Result<(), Error> {
        let Some(Size(bytes)) = self.folio_limit else { return Ok(()) };
        let refused = |what: &str| Err(Error::Usage(format!("--folio-limit {}: {what}", show_bytes(bytes))));
        match bytes {
            ..PAGE => refused("it is less than a page: take 4 KiB or more"),
            _ if bytes % PAGE != 0 => refused("devices read ahead whole pages: take a multiple of 4 KiB"),
            _ if self.observe => refused("it changes how devices read ahead, and --observe changes nothing: drop one"),
            _ => Ok(()),
        }
    }

    /// The bytes that may stay.
    pub(crate) fn cache_size(&self) -> u64 {
        match self.room() {
            Some(Room::Bytes(size)) => size.0,
            None | Some(Room::Auto) => CACHE,
        }
    }

    /// What may be taken of the page cache, of memory if that is steered, or of both together.
    fn room(&self) -> Option<Room> {
        match (self.memory, self.cache) {
            (Some(Room::Bytes(memory)), Some(Room::Bytes(cache))) => {
                Some(Room::Bytes(Size(memory.0.saturating_add(cache.0))))
            }
            (memory, cache) => memory.or(cache),
        }
    }

    /// Whether files are steered: all but where memory alone is.
    pub(crate) fn has_files(&self) -> bool {
        self.memory.is_none() || self.cache.is_some()
    }

    /// Refuses sizes of memory and files that cannot be one.
    fn check_both(&self) -> Result<(), Error> {
        let (Some(memory), Some(cache)) = (self.memory, self.cache) else { return Ok(()) };
        for (option, room) in [("--memory", memory), ("--cache", cache)] {
            match room {
                Room::Bytes(size) => check_cache(size.0).map_err(|error| Error::Usage(format!("{option}: {error}")))?,
                Room::Auto => {
                    let what = "beside the other it is a size: both are one, and one policy has it; give a size, or let each have a command of its own";
                    return Err(Error::Usage(format!("{option} auto: {what}")));
                }
            }
        }
        Ok(())
    }

    /// Refuses new options that have something else steered.
    pub(crate) fn check_same_kinds(&self, new: &Self) -> Result<(), Error> {
        let kinds = |options: &Self| (options.memory.is_some(), options.has_files());
        if kinds(self) == kinds(new) {
            return Ok(());
        }
        let what = "memory, cache: only a restart steers memory or files that were not; their sizes change at once";
        Err(Error::Usage(what.to_owned()))
    }

    /// Refuses so little memory that steering gives nothing.
    fn check_least_memory(&self) -> Result<(), Error> {
        match self.memory {
            Some(Room::Bytes(Size(bytes))) if bytes < LEAST_MEMORY => Err(Error::Usage(format!(
                "memory of {}: take {} or more; this command takes some 8 MiB itself",
                show_bytes(bytes),
                show_bytes(LEAST_MEMORY)
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses what is for files alone, where memory is steered. The command line has been looked at; a file may say it, too.
    fn check_memory_alone(&self) -> Result<(), Error> {
        let others = [
            ("a DIRECTORY", !self.directories.is_empty()),
            ("--share", !self.shares.is_empty()),
            ("--folio-limit", self.folio_limit.is_some()),
            ("--managers", self.managers.is_some()),
            ("--owners", self.owners.is_some()),
            ("--manager-socket", self.manager_socket.is_some()),
        ];
        if self.memory.is_some() && self.once {
            let what = "--once brings directories down to a size and ends: it cannot be used with --memory; leave one of them out";
            return Err(Error::Usage(what.to_owned()));
        }
        match others.into_iter().find(|(_, given)| !self.has_files() && *given) {
            Some((other, _)) => Err(Error::Usage(format!(
                "--memory alone steers no files, and {other} is for them: give a --cache, too, or steer these by a command of their own"
            ))),
            None => Ok(()),
        }
    }

    /// The limits that the size follows, if it is `auto`.
    ///
    /// # Errors
    /// None is set.
    pub(crate) fn limits(&self) -> Result<Option<Limits>, Error> {
        if self.room() != Some(Room::Auto) {
            return Ok(None);
        }
        let (files, whose) = match self.groups.is_empty() {
            true => (memory::own_limit_files(), "the control group of this command".to_owned()),
            false => {
                let names: Vec<String> = self.groups.iter().map(|group| group.display().to_string()).collect();
                (self.groups.iter().flat_map(|group| Limits::files_of(group)).collect(), names.join(", "))
            }
        };
        let limits = Limits::new(files.clone()).ok_or_else(|| {
            let option = if self.memory.is_some() { "--memory" } else { "--cache" };
            Error::Usage(format!(
                "{option} auto: no limit of memory is set for {whose}, or above it, so there is nothing to follow: set one \
                 ({}), or give a size",
                where_to_limit(&files)
            ))
        })?;
        Ok(Some(limits))
    }

    /// These options with the most bytes that limits leave, if the size follows them.
    pub(crate) fn at_most(self, limits: Option<&Limits>) -> Self {
        match limits {
            None => self,
            Some(limits) => {
                let most = Some(Room::Bytes(Size(limits.most().max(LEAST_PAGES) * PAGE)));
                match self.memory {
                    Some(_) => Self { memory: most, ..self },
                    None => Self { cache: most, ..self },
                }
            }
        }
    }

    /// What is to be steered.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let directories = self.directories.iter().cloned().map(Scope::Directory);
        directories.chain(self.groups.iter().cloned().map(Scope::Group)).collect()
    }

    /// The pool whose policy decides: its frames hold no bytes. `most`: the most bytes that it may be resized to.
    pub(crate) fn config(&self, most: u64) -> Config {
        let policy = self.policy.as_ref().map_or_else(default_policy, |policy| policy.0.clone());
        let shares = self.shares.len() as u32;
        Config { shares, ..Config::elsewhere(self.cache_size(), policy).with_most_capacity(most) }
    }

    /// Refuses a process that may take only `left` bytes of addresses more: without memory for what it does later, it would end without a word.
    pub(crate) fn check_addresses(&self, left: Option<u64>) -> Result<(), Error> {
        let needed = self.config(self.cache_size()).most_metadata().saturating_add(ADDRESSES);
        let Some(left) = left.filter(|left| *left < needed) else { return Ok(()) };
        let [left, needed] = [left, needed].map(show_bytes);
        let what =
            format!("`ulimit -v` leaves this process {left} of addresses, and it needs {needed}: raise that limit");
        Err(Error::Usage(what))
    }

    /// Refuses a cache whose metadata takes more memory than there is, `limit` bytes, with the program beside it. The pages themselves are the kernel's.
    pub(crate) fn check_memory(&self, limit: u64) -> Result<(), Error> {
        let metadata = self.config(self.cache_size()).most_metadata();
        if metadata.saturating_add(memory::PROGRAM) <= limit {
            return Ok(());
        }
        let [cache, metadata, program, limit] = [self.cache_size(), metadata, memory::PROGRAM, limit].map(show_bytes);
        Err(Error::Usage(format!(
            "the metadata of a cache of {cache}, up to {metadata}, and {program} for the program need more memory than the {limit} that this machine, a control \
             group or `ulimit` allows: make --cache smaller"
        )))
    }
}

/// Which file would set a limit, where none of these does. In a hybrid hierarchy version 1 may have the limits, and groups of version 2 none.
fn where_to_limit(files: &[PathBuf]) -> &'static str {
    let has_controller = |folder: &Path| {
        let controllers = std::fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|controller| controller == "memory")
    };
    if files.iter().any(|file| file.ends_with("memory.limit_in_bytes") && file.exists()) {
        "memory.limit_in_bytes"
    } else if files.is_empty() || files.iter().filter_map(|file| file.parent()).any(has_controller) {
        "memory.max"
    } else {
        "memory.limit_in_bytes of a group of version 1, which limits memory here: name that group"
    }
}

/// Refuses a size that no cache has.
pub(crate) fn check_cache(bytes: u64) -> Result<(), Error> {
    let least = LEAST_PAGES * PAGE;
    if bytes < least {
        let what =
            format!("{} is too small: take {LEAST_PAGES} pages or more, {}", show_bytes(bytes), show_bytes(least));
        return Err(Error::Usage(what));
    }
    check_size(bytes, LEAST_PAGE_SIZE)
}

/// Refuses one that is below another, or the same.
fn check_apart(option: &str, places: &[PathBuf]) -> Result<(), Error> {
    // What is not there is refused where it is opened.
    let found: Vec<(&PathBuf, PathBuf)> = places.iter().filter_map(|place| Some((place, whole(place)?))).collect();
    for (index, (place, path)) in found.iter().enumerate() {
        let others = found.iter().enumerate().filter(|(other, _)| *other != index);
        if let Some((_, (other, _))) = others.into_iter().find(|(_, (_, other))| path.starts_with(other)) {
            let (place, other) = (place.display(), other.display());
            return Err(Error::Usage(format!(
                "{option}{place}: it lies in {option}{other}, which is steered as a whole; name one of them"
            )));
        }
    }
    Ok(())
}

/// A path as the system knows it, if it is there.
pub(super) fn whole(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(directories: &[&Path], cache: Option<&str>) -> SteerOptions {
        SteerOptions {
            directories: directories.iter().map(|path| path.to_path_buf()).collect(),
            cache: cache.map(|size| size.parse().unwrap()),
            ..SteerOptions::default()
        }
    }

    fn refused(options: &SteerOptions) -> String {
        let error = options.check(false).unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let (all, below) = (folder.path(), folder.path().join("below"));
        std::fs::create_dir(&below).unwrap();
        assert!(
            refused(&options(&[], Some("1MiB")))
                .contains("name a DIRECTORY, a control group by --cgroup, or a program")
        );
        assert!(options(&[], Some("1MiB")).check(true).is_ok(), "the program is what is steered");
        assert!(refused(&options(&[all], None)).starts_with("--cache SIZE is missing"));
        assert!(SteerOptions { observe: true, ..options(&[all], None) }.check(false).is_ok());
        assert!(refused(&options(&[all], Some("252KiB"))).contains("take 64 pages or more, 256 KiB"));
        assert!(refused(&options(&[all], Some("1048577"))).contains("no multiple of its page"));
        assert!(options(&[all], Some("256KiB")).check(false).is_ok());
        let twice = refused(&options(&[&below, all], Some("1MiB")));
        assert!(twice.contains(&format!(
            "{}: it lies in {}, which is steered as a whole",
            below.display(),
            all.display()
        )));
        assert!(refused(&options(&[all, all], Some("1MiB"))).contains("name one of them"));
        let limited =
            |bytes, observe| SteerOptions { folio_limit: Some(Size(bytes)), observe, ..options(&[all], Some("1MiB")) };
        assert!(refused(&limited(0, false)).contains("--folio-limit 0 bytes: it is less than a page"));
        assert!(refused(&limited(6 << 10, false)).contains("--folio-limit 6 KiB: devices read ahead whole pages"));
        assert!(refused(&limited(4 << 10, true)).contains("--observe changes nothing: drop one"));
        assert!(limited(4 << 10, false).check(false).is_ok());
        let mut recorded = options(&[all], Some("1MiB"));
        recorded.beside.record = Some(below.join("a.parquet"));
        assert!(refused(&recorded).contains("choose another place"));
    }

    #[test]
    fn memory_and_files_are_one_size_where_both_are_given() {
        let of = |memory: Option<&str>, cache: Option<&str>| SteerOptions {
            memory: memory.map(|size| size.parse().unwrap()),
            groups: vec!["/sys/fs/cgroup/a".into()],
            ..options(&[], cache)
        };
        let both = of(Some("64MiB"), Some("32MiB"));
        both.check(false).unwrap();
        assert_eq!((both.cache_size(), both.has_files()), (96 << 20, true));
        let (memory, files) = (of(Some("64MiB"), None), of(None, Some("32MiB")));
        assert_eq!((memory.cache_size(), memory.has_files()), (64 << 20, false));
        assert_eq!((files.cache_size(), files.has_files()), (32 << 20, true));
        assert!(refused(&of(Some("auto"), Some("32MiB"))).starts_with("--memory auto: beside the other it is a size"));
        assert!(refused(&of(Some("64MiB"), Some("auto"))).starts_with("--cache auto: beside the other"));
        assert!(refused(&of(Some("64MiB"), Some("4KiB"))).starts_with("--cache: 4 KiB is too small"));
        assert!(refused(&of(Some("16MiB"), Some("1GiB"))).contains("take 32 MiB or more"));
        let nobody = SteerOptions { groups: Vec::new(), directories: vec!["/srv".into()], ..both.clone() };
        assert!(refused(&nobody).starts_with("there is no memory to steer"));
        assert!(both.check_same_kinds(&of(Some("1GiB"), Some("1GiB"))).is_ok());
        assert!(both.check_same_kinds(&memory).is_err() && files.check_same_kinds(&both).is_err());
    }

    #[test]
    fn a_limit_is_set_where_the_hierarchy_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["memory.max", "memory.limit_in_bytes"].map(|name| folder.path().join(name));
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("cgroup.controllers", "cpu memory\n");
        assert_eq!(where_to_limit(&files), "memory.max");
        write("cgroup.controllers", "hugetlb\n");
        assert!(where_to_limit(&files).contains("version 1, which limits memory here"));
        write("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(where_to_limit(&files), "memory.limit_in_bytes");
    }

    #[test]
    fn memory_is_needed_for_metadata_alone() {
        let options = options(&[], Some("8GiB"));
        assert!(options.check_memory(2 << 30).is_ok(), "less than the cache");
        assert!(options.check_addresses(None).is_ok() && options.check_addresses(Some(2 << 30)).is_ok());
        let refused = options.check_addresses(Some(ADDRESSES)).unwrap_err().to_string();
        assert!(refused.starts_with("`ulimit -v` leaves this process 48 MiB of addresses"), "{refused}");
        let refused = options.check_memory(64 << 20).unwrap_err().to_string();
        assert!(
            refused.contains("the metadata of a cache of 8 GiB") && refused.contains("make --cache smaller"),
            "{refused}"
        );
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "directories = [\"/srv/a\", \"/srv/b\"]\ncgroup = [\"/sys/fs/cgroup/c\"]\ncache = \"1MiB\"\npolicy = \"mq\"\nmetrics = \"127.0.0.1:1\"\n[[share]]\npath = \"/srv/a\"\nmin = \"64KiB\"\n";
        std::fs::write(file.path(), text).unwrap();
        let read = SteerOptions::read(file.path()).unwrap();
        assert_eq!(read.scopes().len(), 3);
        assert_eq!(read.shares, ["/srv/a,min=64KiB".parse().unwrap()]);
        let both = options(&[Path::new("/srv/c")], Some("2MiB")).over(read);
        assert_eq!((both.directories, both.cache), (vec!["/srv/c".into()], Some(Room::Bytes(Size(2 << 20)))));
        assert_eq!(both.groups, [Path::new("/sys/fs/cgroup/c")]);
        assert!(both.policy.is_some_and(|policy| policy.0.label == "mq"));
        std::fs::write(file.path(), "dirty-limit = \"50%\"\n").unwrap();
        let wrong = SteerOptions::read(file.path()).unwrap_err().to_string();
        assert!(wrong.contains("unknown field `dirty-limit`"), "{wrong}");
    }
}
