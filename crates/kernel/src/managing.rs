//! The owners that use steered files, and the managers of these uses, where the policy has managers.
//!
//! A use is its process's, or by choice its user's, cgroup's or program's. The kernel does not say who opens files here: as in a trace, an owner uses a
//! file until as many references after its last use as the cache has pages.
//!
//! Attributes of the file or of a directory above it name a manager for all its users; they go before the rules.
//!
//! The policy learns which manager an owner's uses of a file have at the first of them, and when the rules change. A file keeps who has used it last, so that a use by the
//! same owner costs one comparison.

use crate::files::File;
use crate::said::Said;
use crate::scopes::Scopes;
use crate::watch::Event;
use forebay_owning::{InForce, Processes, Ruled, Rules, User, Word};
use forebay_policy::managers::Rule;
use forebay_pool::{Owner, Pool, Volume};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Users of a file before those that have gone are looked for.
const MANY_USERS: usize = 16;

/// How long a file's attributes hold for a user that is new to it.
const KNOWN: Duration = Duration::from_secs(1);

/// What holds for all files.
pub(crate) struct Managing {
    /// Whether the policy has managers.
    possible: bool,
    processes: Processes,
    rules: Rules,
    said: Said,
}

/// What is known of a file's users.
#[derive(Default)]
pub(crate) struct Managed {
    /// As rules name the file.
    name: String,
    /// Its place among the files that rules list.
    place: Option<u32>,
    /// The user that has used it last, how many names that had, and its number in the pool.
    last: Option<(u64, u32, u32)>,
    users: Vec<FileUser>,
    /// The manager that attributes name, the one that the policy knows, and when they were read.
    word: Option<Box<Word>>,
    of_all: Option<Box<Word>>,
    read: Option<Instant>,
    /// How many users it may have before those that have gone are looked for.
    most: usize,
}

struct FileUser {
    user: Weak<User>,
    serial: u64,
    number: u32,
    /// What the policy knows.
    told: Option<Ruled>,
}

impl Managed {
    /// Of a file by its name.
    pub(crate) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// The number of the owner that has used it last.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last.map(|(.., number)| number)
    }

    /// Whether this user has used it last, and no other rules may fit since.
    pub(crate) fn was_used_by(&self, user: &User) -> bool {
        self.last.is_some_and(|(serial, names, _)| (serial, names) == (user.serial, user.names()))
    }

    /// Whether its attributes are to be read for a user.
    pub(crate) fn is_to_read(&self, user: &User, now: Instant) -> bool {
        let known = self.read.is_some_and(|read| now.saturating_duration_since(read) < KNOWN);
        !known && !self.users.iter().any(|of| of.serial == user.serial)
    }

    /// Drops users that have gone.
    fn forget_gone(&mut self, pool: &Pool, volume: &Volume) {
        let gone = self.users.extract_if(.., |of| of.user.strong_count() == 0);
        let gone: Vec<FileUser> = gone.filter(|of| of.told.is_some()).collect();
        // A number may be another's by now.
        for of in gone.iter().filter(|of| !self.users.iter().any(|left| left.number == of.number)) {
            // To say nothing of somebody any more is never refused.
            let _ = pool.assign(Some(of.number), volume, None);
        }
    }

    /// The bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let words = [&self.word, &self.of_all].into_iter().flatten().count();
        let users = self.users.capacity() * size_of::<FileUser>();
        size_of::<Self>() + self.name.len() + users + words * size_of::<Word>()
    }
}

impl Managing {
    pub(crate) fn new(pool: &Pool, processes: Processes, rules: Vec<Rule>) -> Self {
        Self { possible: pool.has_managers(), processes, rules: Rules::new(rules), said: Said::default() }
    }

    /// Whether the policy has managers: then it is to know whose each use is.
    pub(crate) fn is_possible(&self) -> bool {
        self.possible
    }

    /// Whose the use is of which an event tells.
    pub(crate) fn user(&self, pool: &Pool, event: &Event, now: Instant) -> Option<Arc<User>> {
        self.processes.of_use(pool, (event.process, event.user, event.program()), now)
    }

    /// The owner of what a process uses, if no other user's process is that owner, too.
    pub(crate) fn owner(&self, pool: &Pool, process: u32) -> Option<Owner> {
        let user = self.processes.of(pool, process).filter(|_| self.processes.of_one_user());
        user.map(|user| user.owner.clone())
    }

    /// Reads what a file's attributes say. They hold at once.
    pub(crate) fn read_attributes(
        &self,
        (pool, scopes): (&Pool, &Scopes),
        file: &mut File,
        opened: BorrowedFd<'_>,
        now: Instant,
    ) {
        let Some(managed) = &mut file.managed else { return };
        managed.read = Some(now);
        if let Some((path, top)) = scopes.place(opened) {
            self.set_word(pool, file, self.said.of(opened, &path, top));
        }
    }

    /// This manager is named for all uses of a file from now on.
    pub(crate) fn set_word(&self, pool: &Pool, file: &mut File, word: Option<Word>) {
        let word = word.map(Box::new);
        if let Some(managed) = &mut file.managed
            && managed.word != word
        {
            managed.word = word;
            self.decide_all(pool, file);
        }
    }

    /// What attributes say is read anew from now on.
    pub(crate) fn forget_attributes(&self) {
        self.said.forget();
    }

    /// A user comes to use a file: the policy learns who manages that.
    #[cold]
    pub(crate) fn begin_use(&self, pool: &Pool, file: &mut File, user: &Arc<User>) {
        let Some(managed) = &mut file.managed else { return };
        managed.last = Some((user.serial, user.names(), user.owner.number()));
        if managed.users.len() >= managed.most.max(MANY_USERS) {
            managed.forget_gone(pool, &file.volume);
            managed.most = 2 * managed.users.len();
        }
        let found = managed.users.iter().position(|of| of.serial == user.serial);
        let place = found.unwrap_or_else(|| {
            let (serial, number) = (user.serial, user.owner.number());
            // Most files have one.
            managed.users.reserve_exact(usize::from(managed.users.is_empty()));
            managed.users.push(FileUser { user: Arc::downgrade(user), serial, number, told: None });
            managed.users.len() - 1
        });
        self.decide(pool, (managed, &file.volume), place, user);
    }

    fn decide(&self, pool: &Pool, (managed, volume): (&mut Managed, &Volume), place: usize, user: &User) {
        self.rules.note(user, &managed.name);
        // Attributes are for all users.
        let ruled = match managed.word {
            Some(_) => None,
            None => self.rules.of(user, &managed.name, &mut managed.place),
        };
        let of = &mut managed.users[place];
        if of.told == ruled {
            return;
        }
        match pool.assign(Some(of.number), volume, ruled.as_ref().map(Ruled::charge)) {
            Ok(()) => of.told = ruled,
            Err(error) => tracing::debug!("nobody manages {} for {}: {error}", managed.name, user.name()),
        }
    }

    /// Other rules hold from now on, also for these files, which were used.
    pub(crate) fn set_rules<'f>(&mut self, pool: &Pool, rules: Vec<Rule>, files: impl Iterator<Item = &'f mut File>) {
        self.rules.replace(rules);
        self.decide_anew(pool, files);
    }

    /// A rule holds before all others, until others are set; one for the same owners and files goes.
    pub(crate) fn put_first<'f>(&mut self, pool: &Pool, rule: Rule, files: impl Iterator<Item = &'f mut File>) {
        self.rules.put_first(rule);
        self.decide_anew(pool, files);
    }

    /// The policy was made anew: it learns again who manages.
    pub(crate) fn tell_anew<'f>(&self, pool: &Pool, files: impl Iterator<Item = &'f mut File>) {
        let forgotten = |file: &'f mut File| {
            if let Some(managed) = &mut file.managed {
                managed.of_all = None;
                managed.users.iter_mut().for_each(|of| of.told = None);
            }
            file
        };
        self.decide_anew(pool, files.map(forgotten));
    }

    fn decide_anew<'f>(&self, pool: &Pool, files: impl Iterator<Item = &'f mut File>) {
        files.for_each(|file| self.decide_all(pool, file));
    }

    /// Who manages a file's uses is decided anew, for all its users.
    fn decide_all(&self, pool: &Pool, file: &mut File) {
        let Some(managed) = &mut file.managed else { return };
        managed.forget_gone(pool, &file.volume);
        if managed.of_all != managed.word {
            match pool.assign(None, &file.volume, managed.word.as_ref().map(|word| word.charge())) {
                Ok(()) => managed.of_all.clone_from(&managed.word),
                Err(error) => tracing::debug!("nobody manages {}: {error}", managed.name),
            }
        }
        for place in 0..managed.users.len() {
            if let Some(user) = managed.users[place].user.upgrade() {
                self.decide(pool, (managed, &file.volume), place, &user);
            }
        }
        // Without managers there is nothing to agree on.
        let _ = pool.agree(&file.volume);
    }

    /// All that says who manages these files: the rules, attributes, and managers that have lost their charge by their mistakes.
    pub(crate) fn in_force<'f>(&self, pool: &Pool, files: impl Iterator<Item = &'f File>) -> Vec<InForce> {
        let (mut of_files, mut lost): (Vec<InForce>, Vec<InForce>) = (Vec::new(), Vec::new());
        let any_lost = pool.charges_ended() > 0;
        for file in files {
            let Some(managed) = &file.managed else { continue };
            if let Some(word) = &managed.word {
                let (manager, file) = (word.to_string(), Some(managed.name.clone()));
                of_files.push(InForce { by: "attribute", manager, file, ..InForce::default() });
            }
            if !any_lost || !pool.charge_has_ended(&file.volume) {
                continue;
            }
            for of in &managed.users {
                let Some(user) = of.user.upgrade() else { continue };
                let of_all = managed.of_all.as_ref().map(|word| word.to_string());
                let Some(manager) = of.told.as_ref().map(Ruled::to_string).or(of_all) else { continue };
                let owner = Some(user.name());
                lost.push(InForce { by: "lost", manager, owner, ..InForce::default() });
            }
        }
        of_files.sort_by(|one, other| one.file.cmp(&other.file));
        lost.sort_by(|one, other| one.owner.cmp(&other.owner));
        lost.dedup();
        let mut found = self.rules.in_force();
        found.extend(of_files);
        found.extend(lost);
        found
    }
}
