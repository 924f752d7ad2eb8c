//! What each system call does to descriptors and files, and which requests it makes.

use super::line::{self, Call};
use super::process::{Descriptor, OpenFile, Processes, Table, is_file, lock};
use crate::names::Names;
use crate::request::Request;
use foldhash::fast::RandomState;
use forebay_basis::Operation;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The calls that matter.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Opens a file: the argument with its path; a directory's descriptor comes before it if it is not the first.
    Open {
        path: usize,
        create: bool,
    },
    /// Moves as many bytes as it returns, at the offset in the given argument or else at that of the open file.
    Transfer(Operation, Option<usize>),
    Seek,
    SeekFar,
    Map,
    /// Fetches ahead, offset and length being the second and third argument.
    Readahead,
    Advise,
    Duplicate,
    Control,
    Fork,
    /// Executes a program: the argument with its path.
    Execute(usize),
    Close,
    CloseRange,
    /// Copies between files: where descriptor and offset of the one read, and of the one written, are.
    Copy {
        from: (usize, usize),
        to: (usize, Option<usize>),
    },
    ChangeDirectory,
    ChangeDirectoryTo,
    TellDirectory,
}

/// What a call is, by name; `None` if it does not matter.
pub(super) fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "open" => Kind::Open { path: 0, create: false },
        "openat" | "openat2" => Kind::Open { path: 1, create: false },
        "creat" => Kind::Open { path: 0, create: true },
        "read" | "readv" => Kind::Transfer(Operation::Read, None),
        "write" | "writev" => Kind::Transfer(Operation::Write, None),
        "pread" | "pread64" | "preadv" | "preadv2" => Kind::Transfer(Operation::Read, Some(3)),
        "pwrite" | "pwrite64" | "pwritev" | "pwritev2" => Kind::Transfer(Operation::Write, Some(3)),
        "lseek" => Kind::Seek,
        "_llseek" => Kind::SeekFar,
        "mmap" | "mmap2" => Kind::Map,
        "readahead" => Kind::Readahead,
        "fadvise64" | "fadvise64_64" => Kind::Advise,
        "dup" | "dup2" | "dup3" => Kind::Duplicate,
        "fcntl" | "fcntl64" => Kind::Control,
        name if is_fork(name) => Kind::Fork,
        "execve" => Kind::Execute(0),
        "execveat" => Kind::Execute(1),
        "close" => Kind::Close,
        "close_range" => Kind::CloseRange,
        "copy_file_range" | "splice" => Kind::Copy { from: (0, 1), to: (2, Some(3)) },
        "sendfile" | "sendfile64" => Kind::Copy { from: (1, 2), to: (0, None) },
        "chdir" => Kind::ChangeDirectory,
        "fchdir" => Kind::ChangeDirectoryTo,
        "getcwd" => Kind::TellDirectory,
        _ => return None,
    })
}

/// Whether a call makes a process or thread.
pub(super) fn is_fork(name: &str) -> bool {
    ["fork", "vfork", "clone", "clone2", "clone3"].contains(&name)
}

/// What is wrong with a call's arguments or result.
type Checked<T> = Result<T, String>;

fn argument<'a>(call: &Call<'a>, index: usize) -> Checked<&'a str> {
    let given = call.arguments.len();
    call.arguments.get(index).copied().ok_or_else(|| format!("{given} arguments are too few"))
}

fn number(call: &Call<'_>, index: usize) -> Checked<u64> {
    let text = argument(call, index)?;
    line::number(text).ok_or_else(|| format!("argument {} is no number below 2^64", index + 1))
}

/// A descriptor's number and what it stands for.
fn numbered(text: &str) -> Checked<(u32, Option<String>)> {
    match line::descriptor(text) {
        Some((Some(number), what)) => Ok((number, what)),
        _ => Err("a descriptor is no number".to_owned()),
    }
}

fn file(table: &Mutex<Table>, call: &Call<'_>, index: usize) -> Checked<Option<Arc<Mutex<OpenFile>>>> {
    let (number, what) = numbered(argument(call, index)?)?;
    Ok(lock(table).file(number, what.as_deref()))
}

/// The path in argument `index` as the process sees it, from the directory before it if there is one.
fn path(table: &Mutex<Table>, call: &Call<'_>, index: usize) -> Checked<String> {
    let name = line::string(argument(call, index)?).ok_or("the path is no string")?;
    let mut table = lock(table);
    let mut base = None;
    if index > 0 {
        let directory = argument(call, index - 1)?;
        match line::descriptor(directory) {
            Some((None, Some(what))) => table.directory = Some(what.into()),
            Some((Some(_), Some(what))) => base = Some(what),
            Some((Some(number), None)) => base = table.file(number, None).map(|file| lock(&file).path.to_string()),
            Some((None, None)) | None => {}
        }
    }
    Ok(table.resolve(base.as_deref(), &name))
}

/// What is being done for one call.
struct Doing<'a> {
    names: &'a mut Names,
    waiting: &'a mut VecDeque<Request>,
    owner: &'a str,
    time: u64,
}

impl Doing<'_> {
    fn request(&mut self, path: &str, offset: u64, length: u64, operation: Operation) -> Checked<()> {
        if offset.checked_add(length).is_none() {
            return Err(format!("{length} bytes from {offset} on end beyond 2^64"));
        }
        if length > 0 {
            let (owner, object) = (self.names.owner(self.owner), self.names.object(path));
            self.waiting.push_back(Request { time: self.time, owner, object, offset, length, operation });
        }
        Ok(())
    }
}

/// How far each file is known to reach.
#[derive(Default)]
pub(super) struct Files {
    ends: HashMap<Arc<str>, u64, RandomState>,
}

impl Files {
    /// Does what a call did, and adds its requests to `waiting`.
    #[expect(clippy::too_many_arguments, reason = "a call, who made it, and where its requests go")]
    pub(super) fn apply(
        &mut self,
        kind: Kind,
        call: &Call<'_>,
        processes: &mut Processes,
        pid: u32,
        names: &mut Names,
        time: u64,
        waiting: &mut VecDeque<Request>,
    ) -> Checked<()> {
        if matches!(kind, Kind::Fork) {
            processes.fork_ends(pid);
        }
        if call.failed() {
            return Ok(());
        }
        let returned = || line::number(call.result).ok_or_else(|| "the result is no number below 2^64".to_owned());
        let process = processes.get(pid);
        let owner = Arc::clone(&process.owner);
        let table = Arc::clone(&process.table);
        let mut doing = Doing { names, waiting, owner: &owner, time };
        match kind {
            Kind::Open { path: index, create } => {
                let mut path = path(&table, call, index)?;
                let flags = if create { "O_TRUNC" } else { argument(call, index + 1)? };
                let (number, what) = numbered(call.result)?;
                path = what.unwrap_or(path);
                let mut table = lock(&table);
                if !is_file(&path) {
                    table.close(number);
                    return Ok(());
                }
                let file = OpenFile::new(&path, flags.contains("O_APPEND"));
                if flags.contains("O_TRUNC") {
                    self.ends.remove(&file.path);
                }
                let file = Arc::new(Mutex::new(file));
                table.set(number, Descriptor { file, close_on_exec: flags.contains("O_CLOEXEC") });
            }
            Kind::Transfer(operation, offset) => {
                let Some(file) = file(&table, call, 0)? else { return Ok(()) };
                // preadv2 and pwritev2 take -1 for the open file's own offset.
                let offset = match offset {
                    Some(index) if argument(call, index)? != "-1" => Some(number(call, index)?),
                    _ => None,
                };
                self.transfer(&file, offset, returned()?, operation, &mut doing)?;
            }
            Kind::Seek | Kind::SeekFar => {
                let Some(file) = file(&table, call, 0)? else { return Ok(()) };
                let (to, whence) = if matches!(kind, Kind::Seek) {
                    (returned()?, argument(call, 2)?)
                } else {
                    (line::pointed(argument(call, 2)?).ok_or("the resulting offset is no number")?, argument(call, 3)?)
                };
                let mut file = lock(&file);
                file.offset = to;
                if whence == "SEEK_END" && argument(call, 1)? == "0" {
                    self.ends.insert(Arc::clone(&file.path), to);
                }
            }
            Kind::Map => {
                if argument(call, 3)?.contains("MAP_ANON") || argument(call, 2)? == "PROT_NONE" {
                    return Ok(());
                }
                let Some(file) = file(&table, call, 4)? else { return Ok(()) };
                let path = Arc::clone(&lock(&file).path);
                doing.request(&path, number(call, 5)?, number(call, 1)?, Operation::Read)?;
            }
            Kind::Readahead | Kind::Advise => {
                if matches!(kind, Kind::Advise) && argument(call, 3)? != "POSIX_FADV_WILLNEED" {
                    return Ok(());
                }
                let Some(file) = file(&table, call, 0)? else { return Ok(()) };
                let path = Arc::clone(&lock(&file).path);
                doing.request(&path, number(call, 1)?, number(call, 2)?, Operation::Readahead)?;
            }
            Kind::Duplicate => {
                duplicate(&table, call, call.arguments.get(2).is_some_and(|flags| flags.contains("CLOEXEC")))?
            }
            Kind::Control => match argument(call, 1)? {
                "F_DUPFD" => duplicate(&table, call, false)?,
                "F_DUPFD_CLOEXEC" => duplicate(&table, call, true)?,
                "F_SETFD" => {
                    let (number, _) = numbered(argument(call, 0)?)?;
                    lock(&table).set_close_on_exec(number, argument(call, 2)?.contains("FD_CLOEXEC"));
                }
                "F_SETFL" => {
                    if let Some(file) = file(&table, call, 0)? {
                        lock(&file).append = argument(call, 2)?.contains("O_APPEND");
                    }
                }
                _ => {}
            },
            Kind::Fork => {
                let child = u32::try_from(returned()?).map_err(|_| "the child's number is too large")?;
                // 0 is what the child itself sees where strace shows it.
                if child != 0 {
                    processes.forked(pid, child, &call.arguments.join(","));
                }
            }
            Kind::Execute(index) => {
                let program = path(&table, call, index)?;
                process.execute(&program);
            }
            Kind::Close => {
                let (number, _) = numbered(argument(call, 0)?)?;
                lock(&table).close(number);
            }
            Kind::CloseRange => {
                let bound = |index| Ok::<_, String>(u32::try_from(number(call, index)?).unwrap_or(u32::MAX));
                let flags = argument(call, 2)?;
                lock(&table).close_range(bound(0)?, bound(1)?, flags.contains("CLOEXEC"));
            }
            Kind::Copy { from, to } => {
                let length = returned()?;
                let given = |index: usize| Ok::<_, String>(line::pointed(argument(call, index)?));
                if let Some(file) = file(&table, call, from.0)? {
                    self.transfer(&file, given(from.1)?, length, Operation::Read, &mut doing)?;
                }
                if let Some(file) = file(&table, call, to.0)? {
                    let offset = to.1.map(given).transpose()?.flatten();
                    self.transfer(&file, offset, length, Operation::Write, &mut doing)?;
                }
            }
            Kind::ChangeDirectory | Kind::TellDirectory => {
                let to = path(&table, call, 0)?;
                if to.starts_with('/') {
                    lock(&table).directory = Some(to.into());
                }
            }
            Kind::ChangeDirectoryTo => {
                let (number, what) = numbered(argument(call, 0)?)?;
                let mut table = lock(&table);
                let to = table.file(number, what.as_deref()).map(|file| Arc::clone(&lock(&file).path));
                table.directory = to.filter(|path| path.starts_with('/'));
            }
        }
        Ok(())
    }

    /// Moves `length` bytes of a file, at `offset` or where the open file is.
    fn transfer(
        &mut self,
        file: &Mutex<OpenFile>,
        offset: Option<u64>,
        length: u64,
        operation: Operation,
        doing: &mut Doing<'_>,
    ) -> Checked<()> {
        let mut file = lock(file);
        let start = if file.append && operation == Operation::Write {
            // Linux appends even where the call gives an offset.
            self.ends.get(&file.path).copied().unwrap_or(0)
        } else {
            offset.unwrap_or(file.offset)
        };
        doing.request(&file.path, start, length, operation)?;
        let end = start + length;
        if offset.is_none() {
            file.offset = end;
        }
        if length > 0 {
            let furthest = self.ends.entry(Arc::clone(&file.path)).or_default();
            *furthest = end.max(*furthest);
        }
        Ok(())
    }
}

/// The result becomes another descriptor of the first argument's file.
fn duplicate(table: &Mutex<Table>, call: &Call<'_>, close_on_exec: bool) -> Checked<()> {
    let (from, what) = numbered(argument(call, 0)?)?;
    let (to, _) = numbered(call.result)?;
    if from == to {
        return Ok(());
    }
    let mut table = lock(table);
    match table.file(from, what.as_deref()) {
        Some(file) => table.set(to, Descriptor { file, close_on_exec }),
        None => table.close(to),
    }
    Ok(())
}
