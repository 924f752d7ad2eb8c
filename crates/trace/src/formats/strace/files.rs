//! What processes have open: descriptors, the file descriptions that they share, and working directories.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open file description: duplicated and inherited descriptors share it, with its offset.
#[derive(Debug)]
pub(super) struct Description {
    /// The file's path; `None` for what is no regular file.
    pub(super) path: Option<String>,
    pub(super) offset: u64,
    /// Whether writes go to the end, wherever the offset was set to.
    pub(super) append: bool,
}

pub(super) type Shared = Arc<Mutex<Description>>;

#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub(super) description: Shared,
    pub(super) close_on_exec: bool,
}

/// What is shared, for reading or changing. One reader alone uses it, so nobody else ever holds it.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A table of descriptors, which threads share.
pub(super) type Table = Arc<Mutex<HashMap<i32, Descriptor>>>;

/// A process or thread.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) table: Table,
    pub(super) directory: Arc<Mutex<Option<String>>>,
    /// The program's name, once an execve has told it.
    pub(super) program: Option<String>,
    /// The process that names the owner: threads belong to the one that started them.
    pub(super) owner: u32,
}

impl Process {
    pub(super) fn new(pid: u32) -> Self {
        Self { table: Table::default(), directory: Arc::default(), program: None, owner: pid }
    }

    /// The child of a fork (copied) or of a clone that shares descriptors.
    pub(super) fn child(&self, pid: u32, shares_files: bool, shares_directory: bool, is_thread: bool) -> Self {
        let table =
            if shares_files { Arc::clone(&self.table) } else { Arc::new(Mutex::new(lock(&self.table).clone())) };
        let directory = if shares_directory {
            Arc::clone(&self.directory)
        } else {
            Arc::new(Mutex::new(lock(&self.directory).clone()))
        };
        Self { table, directory, program: self.program.clone(), owner: if is_thread { self.owner } else { pid } }
    }

    pub(super) fn open(&self, fd: i32, path: Option<String>, append: bool, close_on_exec: bool) {
        let description = Arc::new(Mutex::new(Description { path, offset: 0, append }));
        lock(&self.table).insert(fd, Descriptor { description, close_on_exec });
    }

    /// The description behind a descriptor. One opened before the trace began is known by its decoration alone, from offset 0.
    pub(super) fn description(&self, fd: i32, decoration: Option<&str>) -> Option<Shared> {
        if let Some(descriptor) = lock(&self.table).get(&fd) {
            return Some(Arc::clone(&descriptor.description));
        }
        self.open(fd, Some(regular(decoration?)?), false, false);
        Some(Arc::clone(&lock(&self.table)[&fd].description))
    }

    /// A path made absolute, as far as the working directory is known.
    pub(super) fn resolve(&self, base: Option<&str>, path: &str) -> String {
        let directory = lock(&self.directory);
        let base = base.or(directory.as_deref());
        match base {
            Some(base) if !path.starts_with('/') => normal(&format!("{base}/{path}")),
            _ if path.starts_with('/') => normal(path),
            _ => path.to_owned(),
        }
    }
}

/// An absolute path without `.`, `..` and doubled slashes.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The path, if it can be a regular file's: not a socket, a pipe, or under /dev, /proc or /sys.
pub(super) fn regular(path: &str) -> Option<String> {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let special = ["/dev/", "/proc/", "/sys/"].iter().any(|folder| path.starts_with(folder));
    // What is no file is decorated as socket:[…], pipe:[…], anon_inode:….
    let unnamed = path.contains(":[") || path.starts_with("anon_inode:") || path.is_empty();
    (!special && !unnamed).then(|| path.to_owned())
}
