//! Who uses files, as owners of references: processes, or by choice users, cgroups or programs.

use foldhash::HashMap;
use foldhash::fast::FixedState;
use forebay_pool::{Owner, Pool};
use std::cell::RefCell;
use std::fs;
use std::hash::BuildHasher;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a thread is known to be of a process. A number is not another's sooner: the kernel gives out all others before, which are 32,768 at
/// least.
const KNOWN: Duration = Duration::from_millis(500);

/// Threads that are known before those that were not looked at for this long are forgotten.
const MOST: usize = 4096;
const KEPT: Duration = Duration::from_secs(5);

/// The ancestors of a process that are looked at.
const MOST_ANCESTORS: usize = 32;

/// What the name of those owners begins with that are not processes.
const USER: &str = "user ";
const CGROUP: &str = "cgroup ";

/// What an owner of references is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owners {
    /// A process, called `cc1 4711` after its program and its number.
    #[default]
    Process,
    /// All processes of a user, called `user 1000`.
    User,
    /// All processes of a cgroup, called `cgroup /system.slice/build`.
    Cgroup,
    /// All processes of a program, called `cc1`.
    Program,
}

/// A process. Its number may be another's later, which has begun at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    number: u32,
    /// In ticks of the kernel's clock, which are a hundredth of a second.
    began: u64,
}

impl Process {
    fn of(number: u32) -> Self {
        Self { number, began: state_of(number).map_or(0, |(_, began)| began) }
    }

    /// Whether it has not ended.
    pub(crate) fn runs(self) -> bool {
        state_of(self.number).is_some_and(|(ended, began)| !ended && began == self.began)
    }

    /// Another process has another key, also if it has the same number.
    fn key(self) -> u64 {
        u64::from(self.number) | self.began << 32
    }
}

/// An owner, and one process of it.
pub(crate) struct User {
    /// No other has it as long as the mount is there; never 0.
    pub(crate) serial: u64,
    pub(crate) process: Process,
    pub(crate) owner: Owner,
    /// The name, where it is not a process's, which changes when it runs another program.
    name: Option<String>,
    /// By whoever watches.
    pub(crate) watched: OnceLock<u32>,
    ancestors: OnceLock<Vec<Ancestor>>,
}

/// A process that a process descends from.
pub(crate) struct Ancestor {
    pub(crate) process: Process,
    pub(crate) name: String,
}

impl User {
    /// The owner's name, as traces and rules have it.
    pub(crate) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| name_of(self.process.number))
    }

    /// Whether it is a process that has ended. Of an owner of several processes that is not known.
    pub(crate) fn has_gone(&self) -> bool {
        self.name.is_none() && !self.process.runs()
    }

    /// The processes that it descends from, its parent first; none of an owner of several processes.
    pub(crate) fn ancestors(&self) -> &[Ancestor] {
        self.ancestors.get_or_init(|| {
            if self.name.is_some() {
                return Vec::new();
            }
            let parents = std::iter::successors(parent_of(self.process.number), |&process| parent_of(process));
            let ancestor = |number| Ancestor { process: Process::of(number), name: name_of(number) };
            parents.take(MOST_ANCESTORS).map(ancestor).collect()
        })
    }
}

/// Threads, by which requests come, and whose they are.
pub(crate) struct Processes {
    kind: Owners,
    known: Mutex<Known>,
    serials: AtomicU64,
    /// How often a thread was to be looked at again.
    looks: AtomicU64,
}

/// Whose a thread is, since when that is known, and at which of `Processes::looks`.
struct Latest {
    thread: u32,
    since: Instant,
    looks: u64,
    user: Arc<User>,
}

thread_local! {
    /// By whom the last request to this thread came: most often the next one does, too.
    static LATEST: RefCell<Option<Latest>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Known {
    by_thread: HashMap<u32, (Instant, Arc<User>)>,
    by_key: HashMap<u64, Weak<User>>,
}

impl Processes {
    pub(crate) fn new(kind: Owners) -> Self {
        Self { kind, known: Mutex::default(), serials: AtomicU64::new(1), looks: AtomicU64::new(0) }
    }

    /// The same for a thread that receives requests of this mount alone, without a lock where the last one came from there, too.
    pub(crate) fn of_request(&self, pool: &Pool, thread: u32) -> Option<Arc<User>> {
        let (now, looks) = (Instant::now(), self.looks.load(Ordering::Acquire));
        LATEST.with_borrow_mut(|latest| {
            let same = |latest: &Latest| {
                (latest.thread, latest.looks) == (thread, looks) && now.duration_since(latest.since) < KNOWN
            };
            if let Some(latest) = latest.as_ref().filter(|latest| same(latest)) {
                return Some(Arc::clone(&latest.user));
            }
            let (since, user) = self.look(pool, thread)?;
            *latest = Some(Latest { thread, since, looks, user: Arc::clone(&user) });
            Some(user)
        })
    }

    /// Whose a thread is; nobody's if the kernel itself asks.
    pub(crate) fn of(&self, pool: &Pool, thread: u32) -> Option<Arc<User>> {
        self.look(pool, thread).map(|(_, user)| user)
    }

    /// The same, and since when that is known.
    fn look(&self, pool: &Pool, thread: u32) -> Option<(Instant, Arc<User>)> {
        if thread == 0 {
            return None;
        }
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, user)) = known.by_thread.get(&thread)
            && now.duration_since(*since) < KNOWN
        {
            return Some((*since, Arc::clone(user)));
        }
        if known.by_thread.len() >= MOST {
            known.by_thread.retain(|_, (since, _)| now.duration_since(*since) < KEPT);
            known.by_key.retain(|_, user| user.strong_count() > 0);
        }
        let process = Process::of(process_of(thread).unwrap_or(thread));
        let (key, name) = match self.kind {
            Owners::Process => (process.key(), None),
            Owners::User => named(format!("{USER}{}", user_of(process.number).unwrap_or(0))),
            Owners::Cgroup => named(format!("{CGROUP}{}", cgroup_of(process.number).unwrap_or_default())),
            Owners::Program => named(program_of(process.number)),
        };
        let user = known.by_key.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let serial = self.serials.fetch_add(1, Ordering::Relaxed);
            let (watched, ancestors) = (OnceLock::new(), OnceLock::new());
            let user = Arc::new(User { serial, process, owner: pool.owner(key), name, watched, ancestors });
            known.by_key.insert(key, Arc::downgrade(&user));
            user
        });
        known.by_thread.insert(thread, (now, Arc::clone(&user)));
        Some((now, user))
    }

    /// Whether an owner's processes are all of one user.
    pub(crate) fn of_one_user(&self) -> bool {
        matches!(self.kind, Owners::Process | Owners::User)
    }

    /// A thread opens a file: its process may run another program since, or be in another cgroup.
    pub(crate) fn look_again(&self, thread: u32) {
        if self.kind != Owners::Process {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).by_thread.remove(&thread);
            self.looks.fetch_add(1, Ordering::Release);
        }
    }
}

/// A name, and a number for it.
fn named(name: String) -> (u64, Option<String>) {
    (FixedState::default().hash_one(&name), Some(name))
}

/// What /proc/PROCESS/status says.
fn status<T: std::str::FromStr>(process: u32, key: &str) -> Option<T> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn process_of(thread: u32) -> Option<u32> {
    status(thread, "Tgid:")
}

fn parent_of(process: u32) -> Option<u32> {
    status(process, "PPid:").filter(|&parent| parent > 0)
}

/// Whether a process has ended, though its parent has not heard of it, and when it began.
fn state_of(process: u32) -> Option<(bool, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name comes before, in parentheses, and may have any text.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    Some((ended, fields.nth(18)?.parse().ok()?))
}

/// The user in whose name a process runs.
pub(crate) fn user_of(process: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{process}")).ok().map(|found| found.uid())
}

fn program_of(process: u32) -> String {
    let program = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    program.trim_end().to_owned()
}

fn name_of(process: u32) -> String {
    format!("{} {process}", program_of(process)).trim_start().to_owned()
}

/// The cgroup of a process: of version 2, or else of the first hierarchy of version 1.
fn cgroup_of(process: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let group = text.lines().find(|line| line.starts_with("0::")).or_else(|| text.lines().next())?;
    group.splitn(3, ':').nth(2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_of_its_process_and_that_of_its_user_and_parent() {
        let thread = std::thread::spawn(|| process_of(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        let process = std::process::id();
        assert_eq!(thread.join().expect("no panic"), Some(process));
        assert_eq!(user_of(process), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(parent_of(process), Some(std::os::unix::process::parent_id()));
        assert!(name_of(process).ends_with(&format!(" {process}")));
        assert!(cgroup_of(process).is_some_and(|group| group.starts_with('/')));
    }

    #[test]
    fn a_process_is_known_by_its_number_and_the_time_when_it_began() {
        let this = Process::of(std::process::id());
        assert!(this.runs() && this.began > 0 && this == Process::of(std::process::id()));
        let other = Process { began: this.began + 1, ..this };
        assert!(!other.runs() && other.key() != this.key(), "one that had the number before");
        let mut child = std::process::Command::new("true").spawn().expect("true runs");
        let process = Process::of(child.id());
        child.wait().expect("it ends");
        assert!(!process.runs());
    }
}
