//! Owners of references to files: processes, or by choice users, cgroups or programs.
//!
//! Two kinds of front ends ask. A mount is asked by a thread that waits for its answer ([`Processes::of_request`]). A steered page cache learns of a
//! use some milliseconds afterwards ([`Processes::of_use`]), and the process may have ended by then:
//!
//! - If it was seen before, it stays the owner that it was, under its last name.
//! - If not, it is called by its number alone, `4711`; `--owners user` knows it all the same, and `program` and `cgroup` call it `unknown`.

use crate::proc::{Stat, cgroup_of, process_of, user_of};
use foldhash::HashMap;
use foldhash::fast::FixedState;
use forebay_pool::{Owner, Pool};
use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a thread is known to be of a process. A number is not another's sooner: the kernel gives out all others before, which are 32,768 at
/// least.
const KNOWN: Duration = Duration::from_millis(500);

/// The same of a process that is new to a steered cache: most run another program a moment later. Each time it is twice as long, up to `KNOWN`.
const NEW: Duration = Duration::from_millis(10);

/// Threads that are known before those that were not looked at for this long are forgotten.
const MOST: usize = 4096;
const KEPT: Duration = Duration::from_secs(5);

/// Processes of a steered cache before those that have ended are looked for.
const MANY: usize = 64;

/// The ancestors of a process that are looked at.
const MOST_ANCESTORS: usize = 32;

/// What the name of those owners begins with that are not processes.
const USER: &str = "user ";
const CGROUP: &str = "cgroup ";

/// A program or cgroup of a process that had ended before it was looked at.
const UNKNOWN: &str = "unknown";

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
pub struct Process {
    number: u32,
    /// In ticks of the kernel's clock, which are a hundredth of a second; 0 if it had ended when it was looked at.
    began: u64,
}

impl Process {
    fn seen(number: u32, stat: Option<&Stat>) -> Self {
        Self { number, began: stat.map_or(0, |stat| stat.began) }
    }

    /// What is known of it, if it is still this one.
    fn stat(self) -> Option<Stat> {
        Stat::of(self.number).filter(|stat| stat.began == self.began)
    }

    /// Whether it has not ended.
    fn runs(self) -> bool {
        self.stat().is_some_and(|stat| !stat.ended)
    }

    /// Another process has another key, also if it has the same number.
    fn key(self) -> u64 {
        u64::from(self.number) | self.began << 32
    }
}

/// An owner, and one process of it.
pub struct User {
    /// No other has it as long as its [`Processes`] are there; never 0.
    pub serial: u64,
    /// Its process, or one of them.
    pub process: Process,
    /// As the pool knows it.
    pub owner: Owner,
    /// The name, where it is not a process's, which changes when it runs another program.
    name: Option<String>,
    /// The name that its process had last.
    seen: Mutex<String>,
    /// How many names it has had.
    names: AtomicU32,
    /// The number of its name for whoever watches, and one more.
    watched: AtomicU64,
    ancestors: OnceLock<Vec<Ancestor>>,
}

/// A process that a process descends from.
pub struct Ancestor {
    /// Which.
    pub process: Process,
    /// As rules name it.
    pub name: String,
}

impl User {
    /// The owner's name, as traces and rules have it. A process that has ended keeps the one that it had.
    pub fn name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        if let Some(stat) = self.process.stat() {
            self.see(&stat.program);
        }
        lock(&self.seen).clone()
    }

    /// Takes note of the program that a process runs.
    fn see(&self, program: &str) {
        let name = named_after(program, self.process.number);
        let mut seen = lock(&self.seen);
        if *seen != name {
            *seen = name;
            self.names.fetch_add(1, Ordering::Relaxed);
            self.watched.store(0, Ordering::Relaxed);
        }
    }

    /// Another number than before, if it was seen to have another name: then other rules may fit.
    pub fn names(&self) -> u32 {
        self.names.load(Ordering::Relaxed)
    }

    /// The number of its name for whoever watches, which `number` gives.
    pub fn watched(&self, number: impl FnOnce(&str) -> u32) -> u32 {
        if let Some(number) = self.watched.load(Ordering::Relaxed).checked_sub(1) {
            return number as u32;
        }
        let seen = lock(&self.seen);
        let number = number(self.name.as_ref().unwrap_or(&seen));
        // Under the lock: the name may change.
        self.watched.store(u64::from(number) + 1, Ordering::Relaxed);
        number
    }

    /// Whether it is a process that has ended. Of an owner of several processes that is not known.
    pub fn has_gone(&self) -> bool {
        self.name.is_none() && !self.process.runs()
    }

    /// The processes that it descends from, its parent first; none of an owner of several processes.
    pub fn ancestors(&self) -> &[Ancestor] {
        self.ancestors.get_or_init(|| {
            if self.name.is_some() {
                return Vec::new();
            }
            let ancestor = |stat: &Stat| Stat::of(stat.parent).map(|of_parent| (stat.parent, of_parent));
            let first = self.process.stat().and_then(|stat| ancestor(&stat));
            let all = std::iter::successors(first, |(_, stat)| ancestor(stat));
            let made = |(number, stat): (u32, Stat)| Ancestor {
                process: Process::seen(number, Some(&stat)),
                name: named_after(&stat.program, number),
            };
            all.take(MOST_ANCESTORS).map(made).collect()
        })
    }
}

/// Threads and processes, by which uses come, and whose they are.
pub struct Processes {
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
    by_thread: HashMap<u32, Looked>,
    by_key: HashMap<u64, Weak<User>>,
    /// Owners of several processes, which outlast each of them.
    shared: Vec<Arc<User>>,
    /// At how many threads those that have ended are looked for.
    swept_at: usize,
}

/// What was found of a thread or process: when, and for how long that holds.
struct Looked {
    since: Instant,
    holds: Duration,
    user: Arc<User>,
}

impl Looked {
    fn within(&self, time: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) < time
    }
}

impl Processes {
    /// None known yet. `kind`: what an owner is.
    pub fn new(kind: Owners) -> Self {
        Self { kind, known: Mutex::default(), serials: AtomicU64::new(1), looks: AtomicU64::new(0) }
    }

    /// The same as [`of`](Self::of) for a thread that receives requests of one mount alone, without a lock where the last one came from there, too.
    pub fn of_request(&self, pool: &Pool, thread: u32) -> Option<Arc<User>> {
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
    pub fn of(&self, pool: &Pool, thread: u32) -> Option<Arc<User>> {
        self.look(pool, thread).map(|(_, user)| user)
    }

    /// The same, and since when that is known.
    fn look(&self, pool: &Pool, thread: u32) -> Option<(Instant, Arc<User>)> {
        if thread == 0 {
            return None;
        }
        let now = Instant::now();
        let mut known = lock(&self.known);
        if let Some(looked) = known.by_thread.get(&thread).filter(|looked| looked.within(KNOWN, now)) {
            return Some((looked.since, Arc::clone(&looked.user)));
        }
        let number = process_of(thread).unwrap_or(thread);
        let user =
            self.user(&mut known, pool, (number, Stat::of(number).as_ref(), None), || user_of(number).unwrap_or(0));
        known.enter(thread, Looked { since: now, holds: KNOWN, user: Arc::clone(&user) });
        Some((now, user))
    }

    /// Whose a use is by a process that may have ended since, of a user by its number, when it ran this program, as far as is known; nobody's if it is the
    /// kernel's own.
    pub fn of_use(
        &self,
        pool: &Pool,
        (process, user, program): (u32, u32, Option<&str>),
        now: Instant,
    ) -> Option<Arc<User>> {
        if process == 0 {
            return None;
        }
        let mut known = lock(&self.known);
        let before = known.by_thread.get(&process);
        if let Some(looked) = before.filter(|looked| looked.within(looked.holds, now)) {
            return Some(Arc::clone(&looked.user));
        }
        let holds = before.map_or(NEW, |looked| KNOWN.min(2 * looked.holds));
        let stat = Stat::of(process);
        // If it has ended, its last uses are still its own.
        let stays = before.filter(|looked| stat.is_none() && looked.within(KEPT, now));
        let user = match stays {
            Some(looked) => Arc::clone(&looked.user),
            None => self.user(&mut known, pool, (process, stat.as_ref(), program), || user),
        };
        if known.by_thread.len() >= known.swept_at.max(MANY) {
            known.by_thread.retain(|&thread, looked| looked.within(KEPT, now) || Stat::of(thread).is_some());
            known.swept_at = 2 * known.by_thread.len();
        }
        known.enter(process, Looked { since: now, holds, user: Arc::clone(&user) });
        Some(user)
    }

    /// The owner that a process is.
    fn user(
        &self,
        known: &mut Known,
        pool: &Pool,
        (number, stat, ran): (u32, Option<&Stat>, Option<&str>),
        user: impl FnOnce() -> u32,
    ) -> Arc<User> {
        let process = Process::seen(number, stat);
        let program = stat.map(|stat| &*stat.program).or(ran);
        let (key, name) = match self.kind {
            Owners::Process => (process.key(), None),
            Owners::User => named(format!("{USER}{}", user())),
            Owners::Cgroup => named(format!("{CGROUP}{}", cgroup_of(number).as_deref().unwrap_or(UNKNOWN))),
            Owners::Program => named(program.unwrap_or(UNKNOWN).to_owned()),
        };
        let found = known.by_key.get(&key).and_then(Weak::upgrade);
        let user = found.unwrap_or_else(|| {
            let user = Arc::new(User {
                serial: self.serials.fetch_add(1, Ordering::Relaxed),
                process,
                owner: pool.owner(key),
                name,
                seen: Mutex::new(named_after("", number)),
                names: AtomicU32::new(0),
                watched: AtomicU64::new(0),
                ancestors: OnceLock::new(),
            });
            known.by_key.insert(key, Arc::downgrade(&user));
            if user.name.is_some() {
                known.shared.push(Arc::clone(&user));
            }
            user
        });
        if let Some(program) = program {
            user.see(program);
        }
        user
    }

    /// Whether an owner's processes are all of one user.
    pub fn of_one_user(&self) -> bool {
        matches!(self.kind, Owners::Process | Owners::User)
    }

    /// A thread opens a file: its process may run another program since, or be in another cgroup.
    pub fn look_again(&self, thread: u32) {
        if self.kind != Owners::Process {
            lock(&self.known).by_thread.remove(&thread);
            self.looks.fetch_add(1, Ordering::Release);
        }
    }
}

impl Known {
    fn enter(&mut self, thread: u32, looked: Looked) {
        if self.by_thread.len() >= MOST {
            let now = looked.since;
            self.by_thread.retain(|_, looked| looked.within(KEPT, now));
        }
        if self.shared.len() >= MOST {
            self.shared.clear();
        }
        if self.by_key.len() >= 2 * MOST {
            self.by_key.retain(|_, user| user.strong_count() > 0);
        }
        self.by_thread.insert(thread, looked);
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name, and a number for it.
fn named(name: String) -> (u64, Option<String>) {
    (FixedState::default().hash_one(&name), Some(name))
}

/// The name of a process that runs a program, or of one of which that is not known.
fn named_after(program: &str, process: u32) -> String {
    format!("{program} {process}").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policy::Spec;
    use forebay_pool::Config;
    use std::process::{Child, Command, Stdio};

    fn pool() -> Pool {
        Pool::new(Config::new(64 * 4096, Spec::parse("lru").expect("a policy"))).expect("a pool")
    }

    /// A program that waits until its input ends, and has begun.
    fn cat() -> Child {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat runs");
        let begin = Instant::now();
        while Stat::of(child.id()).is_some_and(|stat| stat.program != "cat") {
            assert!(begin.elapsed() < Duration::from_secs(60), "waited 60 s in vain: it runs cat");
        }
        child
    }

    fn process(number: u32) -> Process {
        Process::seen(number, Stat::of(number).as_ref())
    }

    fn end(mut child: Child) {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    #[test]
    fn a_thread_is_of_its_process_and_that_of_its_user_and_parent() {
        let thread = std::thread::spawn(|| process_of(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        let process = std::process::id();
        assert_eq!(thread.join().expect("no panic"), Some(process));
        assert_eq!(user_of(process), Some(rustix::process::geteuid().as_raw()));
        let stat = Stat::of(process).expect("it runs");
        assert_eq!((stat.parent, stat.ended), (std::os::unix::process::parent_id(), false));
        assert!(named_after(&stat.program, process).ends_with(&format!(" {process}")));
        assert!(cgroup_of(process).is_some_and(|group| group.starts_with('/')));
    }

    #[test]
    fn a_process_is_known_by_its_number_and_the_time_when_it_began() {
        let this = process(std::process::id());
        assert!(this.runs() && this.began > 0 && this == process(std::process::id()));
        let other = Process { began: this.began + 1, ..this };
        assert!(!other.runs() && other.key() != this.key(), "one that had the number before");
        let child = cat();
        let ended = process(child.id());
        end(child);
        assert!(!ended.runs());
    }

    #[test]
    fn a_process_that_has_ended_stays_the_owner_that_it_was() {
        let (pool, processes, child) = (pool(), Processes::new(Owners::Process), cat());
        let (number, now) = (child.id(), Instant::now());
        let user = processes.of_use(&pool, (number, 0, None), now).expect("an owner");
        assert_eq!((user.name(), user.ancestors().is_empty()), (format!("cat {number}"), false));
        end(child);
        for later in [now, now + KNOWN, now + KNOWN + KEPT / 2] {
            let same = processes.of_use(&pool, (number, 0, None), later).expect("an owner");
            assert_eq!((same.serial, same.name()), (user.serial, format!("cat {number}")));
        }
        let other = processes.of_use(&pool, (number, 0, None), now + 3 * KEPT).expect("an owner");
        assert_ne!(other.serial, user.serial, "after a while the number may be another's");
        assert_eq!(other.name(), number.to_string());
    }

    #[test]
    fn of_a_process_that_nobody_has_seen_the_event_says_user_and_program() {
        let (pool, now, gone) = (pool(), Instant::now(), u32::MAX);
        for (kind, program, name) in [
            (Owners::Process, None, "4294967295"),
            (Owners::Process, Some("cat"), "cat 4294967295"),
            (Owners::User, None, "user 1000"),
            (Owners::Cgroup, None, "cgroup unknown"),
            (Owners::Program, None, "unknown"),
            (Owners::Program, Some("cat"), "cat"),
        ] {
            let user = Processes::new(kind).of_use(&pool, (gone, 1000, program), now).expect("an owner");
            assert_eq!((user.name(), user.ancestors().len()), (name.to_owned(), 0));
        }
        assert!(Processes::new(Owners::Process).of_use(&pool, (0, 0, None), now).is_none(), "the kernel itself");
    }

    #[test]
    fn another_program_is_another_name_of_the_same_process() {
        let (pool, processes) = (pool(), Processes::new(Owners::Process));
        // The shell waits for a line, and then becomes another program.
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "read line; exec cat"]).stdin(Stdio::piped()).spawn().expect("sh runs");
        let (begin, number) = (Instant::now(), child.id());
        let waits = |program: &str| {
            while Stat::of(number).is_none_or(|stat| stat.program != program) {
                assert!(begin.elapsed() < Duration::from_secs(60), "waited 60 s in vain: it runs {program}");
            }
        };
        waits("sh");
        let now = Instant::now();
        let look = |now| processes.of_use(&pool, (number, 0, None), now).expect("an owner");
        let user = look(now);
        let (names, watched) = (user.names(), user.watched(|name| u32::from(name.starts_with("sh "))));
        std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), b"\n").expect("it reads");
        waits("cat");
        assert_eq!((look(now).names(), look(now).watched(|_| 7)), (names, watched), "a moment ago it was looked at");
        let later = look(now + NEW);
        assert!(later.serial == user.serial && later.names() != names);
        assert_eq!(later.watched(|name| u32::from(name.starts_with("cat ")) + 7), 8);
        end(child);
    }

    #[test]
    fn a_crowd_of_processes_that_have_ended_is_forgotten() {
        let (pool, processes, mut now) = (pool(), Processes::new(Owners::Process), Instant::now());
        for number in 0..3 * MOST as u32 {
            processes.of_use(&pool, (u32::MAX - number, 0, None), now).expect("an owner");
            now += KEPT / MANY as u32;
        }
        let known = lock(&processes.known);
        assert!(known.by_thread.len() <= 4 * MANY, "{}", known.by_thread.len());
        assert!(known.by_key.len() <= 2 * MOST);
    }
}
