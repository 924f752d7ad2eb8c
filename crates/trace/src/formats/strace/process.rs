//! What the processes of a recording have open: descriptor tables, shared offsets, working directories.

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A reader must be able to go to another thread, hence locks; nobody ever waits for one.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open file: shared by the descriptors that were duplicated from one another.
pub(super) struct OpenFile {
    pub(super) path: Arc<str>,
    pub(super) offset: u64,
    pub(super) append: bool,
    /// Whether the recording holds its opening, so that its offset is known.
    opened: bool,
}

impl OpenFile {
    pub(super) fn new(path: &str, append: bool) -> Self {
        Self { path: path.into(), offset: 0, append, opened: true }
    }
}

/// A descriptor of a table.
#[derive(Clone)]
pub(super) struct Descriptor {
    pub(super) file: Arc<Mutex<OpenFile>>,
    pub(super) close_on_exec: bool,
}

/// A process's descriptors of files, and its working directory: threads share both.
#[derive(Clone, Default)]
pub(super) struct Table {
    /// Copied when a process that shares it after a fork first changes it.
    descriptors: Arc<HashMap<u32, Descriptor, RandomState>>,
    pub(super) directory: Option<Arc<str>>,
}

impl Table {
    /// The file behind a descriptor, which `-y` says to be `what`. None if it is no file, or not known.
    pub(super) fn file(&mut self, number: u32, what: Option<&str>) -> Option<Arc<Mutex<OpenFile>>> {
        let known = self.descriptors.get(&number).map(|descriptor| Arc::clone(&descriptor.file));
        let Some(path) = what else { return known };
        if !is_file(path) {
            self.close(number);
            return None;
        }
        if let Some(file) = known {
            let mut held = lock(&file);
            if *held.path == *path {
                drop(held);
                return Some(file);
            }
            if held.opened {
                // Renamed while open.
                held.path = path.into();
                drop(held);
                return Some(file);
            }
        }
        let file = OpenFile { opened: false, ..OpenFile::new(path, false) };
        let file = Arc::new(Mutex::new(file));
        self.set(number, Descriptor { file: Arc::clone(&file), close_on_exec: false });
        Some(file)
    }

    pub(super) fn set(&mut self, number: u32, descriptor: Descriptor) {
        Arc::make_mut(&mut self.descriptors).insert(number, descriptor);
    }

    pub(super) fn set_close_on_exec(&mut self, number: u32, close_on_exec: bool) {
        if self.descriptors.contains_key(&number)
            && let Some(descriptor) = Arc::make_mut(&mut self.descriptors).get_mut(&number)
        {
            descriptor.close_on_exec = close_on_exec;
        }
    }

    pub(super) fn close(&mut self, number: u32) {
        if self.descriptors.contains_key(&number) {
            Arc::make_mut(&mut self.descriptors).remove(&number);
        }
    }

    pub(super) fn close_range(&mut self, first: u32, last: u32, on_exec: bool) {
        Arc::make_mut(&mut self.descriptors).retain(|number, descriptor| {
            let within = (first..=last).contains(number);
            descriptor.close_on_exec |= within && on_exec;
            !within || on_exec
        });
    }

    fn execute(&mut self) {
        if self.descriptors.values().any(|descriptor| descriptor.close_on_exec) {
            Arc::make_mut(&mut self.descriptors).retain(|_, descriptor| !descriptor.close_on_exec);
        }
    }

    /// A path seen from `base`, or from the working directory; as it is if that is not known.
    pub(super) fn resolve(&self, base: Option<&str>, path: &str) -> String {
        let base = if path.starts_with('/') { None } else { base.or(self.directory.as_deref()) };
        let whole = match base {
            Some(base) => format!("{base}/{path}"),
            None => path.to_owned(),
        };
        let rooted = whole.starts_with('/');
        let mut parts: Vec<&str> = Vec::new();
        for part in whole.split('/') {
            match part {
                "" | "." => {}
                // By name alone: what a symbolic link would make of it is not in the recording.
                ".." if parts.last().is_some_and(|&last| last != "..") => drop(parts.pop()),
                ".." if rooted => {}
                part => parts.push(part),
            }
        }
        format!("{}{}", if rooted { "/" } else { "" }, parts.join("/"))
    }
}

/// Whether a path, or what `-y` tells of a descriptor, looks like a regular file: sockets and pipes have no path.
pub(super) fn is_file(path: &str) -> bool {
    let no_data = ["/dev", "/proc", "/sys"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    let bare = ["socket:[", "pipe:[", "anon_inode:", "/memfd:"].iter().any(|kind| path.starts_with(kind));
    // `-yy` writes protocols: `TCP:[…]`, `UNIX-STREAM:[…]`.
    let protocol = !path.starts_with('/') && path.ends_with(']') && path.contains(":[");
    !(path.is_empty() || no_data || bare || protocol)
}

/// A process or thread.
pub(super) struct Process {
    pub(super) table: Arc<Mutex<Table>>,
    /// What its requests' owner is called.
    pub(super) owner: Arc<str>,
    /// The process that a thread belongs to.
    leader: u32,
    program: Option<Arc<str>>,
    /// A call in which another process's line came between.
    pub(super) unfinished: Option<String>,
    /// Taken for the child of a fork whose end was still to come.
    guessed: bool,
}

impl Process {
    fn new(leader: u32, program: Option<Arc<str>>, table: Arc<Mutex<Table>>) -> Self {
        let owner = match (&program, leader) {
            (Some(program), ANONYMOUS) => Arc::clone(program),
            (None, ANONYMOUS) => "".into(),
            (Some(program), pid) => format!("{program} {pid}").into(),
            (None, pid) => pid.to_string().into(),
        };
        Self { table, owner, leader, program, unfinished: None, guessed: false }
    }

    fn child(&self, pid: u32, flags: &str) -> Self {
        let table = if flags.contains("CLONE_FILES") {
            Arc::clone(&self.table)
        } else {
            Arc::new(Mutex::new(lock(&self.table).clone()))
        };
        let leader = if flags.contains("CLONE_THREAD") { self.leader } else { pid };
        Self::new(leader, self.program.clone(), table)
    }

    /// Executes the program at `path`: its owner is named after the program, and no thread shares its descriptors any more.
    pub(super) fn execute(&mut self, path: &str) {
        let mut table = lock(&self.table).clone();
        table.execute();
        let program = path.rsplit('/').next().filter(|name| !name.is_empty()).map(Arc::from);
        let process = Self::new(self.leader, program, Arc::new(Mutex::new(table)));
        *self = Self { guessed: self.guessed, ..process };
    }
}

/// The process of lines without a number: strace writes none while it follows a single process.
const ANONYMOUS: u32 = 0;

/// A call that makes a process, not yet ended.
struct Fork {
    parent: u32,
    flags: String,
    child: Option<u32>,
}

/// All processes and threads of a recording that have not ended.
#[derive(Default)]
pub(super) struct Processes {
    alive: HashMap<u32, Process, RandomState>,
    forks: Vec<Fork>,
    /// Processes that strace said to follow, of which no line has come yet.
    announced: HashSet<u32, RandomState>,
}

impl Processes {
    /// strace says that it follows a new process.
    pub(super) fn announce(&mut self, pid: u32) {
        self.announced.insert(pid);
    }

    /// The number under which the process of a line is kept.
    pub(super) fn find(&mut self, pid: Option<u32>) -> u32 {
        let Some(pid) = pid else {
            // Without numbers: the one process that is left, or the first.
            let mut all = self.alive.keys();
            return match (all.next(), all.next()) {
                (Some(&only), None) => only,
                _ => ANONYMOUS,
            };
        };
        let announced = self.announced.remove(&pid);
        if !self.alive.contains_key(&pid) {
            // A child's first line may precede the end of the call that made it.
            let fork = self.forks.iter_mut().find(|fork| fork.child.is_none());
            let process = if let Some(fork) = fork
                && let Some(parent) = self.alive.get(&fork.parent)
            {
                fork.child = Some(pid);
                Process { guessed: true, ..parent.child(pid, &fork.flags) }
            } else if !announced && let Some(first) = self.alive.remove(&ANONYMOUS) {
                // Once there are several, the first process shows its number.
                first
            } else {
                Process::new(pid, None, Arc::default())
            };
            self.alive.insert(pid, process);
        }
        pid
    }

    /// The process kept under a number.
    pub(super) fn get(&mut self, pid: u32) -> &mut Process {
        self.alive.entry(pid).or_insert_with(|| Process::new(pid, None, Arc::default()))
    }

    /// A process begins to make another.
    pub(super) fn fork_begins(&mut self, parent: u32, flags: &str) {
        self.fork_ends(parent);
        self.forks.push(Fork { parent, flags: flags.to_owned(), child: None });
    }

    /// The call of a process that was to make another has ended, well or not.
    pub(super) fn fork_ends(&mut self, parent: u32) {
        self.forks.retain(|fork| fork.parent != parent);
    }

    /// A process has made another.
    pub(super) fn forked(&mut self, parent: u32, child: u32, flags: &str) {
        self.fork_ends(parent);
        match self.alive.get_mut(&child) {
            Some(known) if known.guessed => known.guessed = false,
            _ => {
                let process = self.get(parent).child(child, flags);
                self.alive.insert(child, process);
            }
        }
    }

    /// A process or thread has ended.
    pub(super) fn exit(&mut self, pid: u32) {
        self.fork_ends(pid);
        self.alive.remove(&pid);
    }
}
