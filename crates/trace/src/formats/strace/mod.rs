//! The output of `strace -f`: the file references of programs, recorded by anyone, without being root.
//!
//! `strace -f -y -ttt -o make.strace make`
//!
//! Source: strace(1). Lines may start with `[pid N]` or `N`, and with a time by `-t`, `-tt`, `-ttt` (advised: it alone is absolute)
//! or `-r`. Calls cut in two by `<unfinished ...>` are joined. Descriptors are followed through open, dup, fork, clone, exec and
//! close, with the offsets that duplicates share; `-y` adds paths, so that what was opened before the trace began is known too.
//!
//! - A request is a read or write of a regular file, by the bytes that the call's result says; the range of a file that is
//!   mapped counts as read when it is mapped, whole. Sockets, pipes, directories, /dev, /proc and /sys are left out.
//! - The owner is the process, as `PROGRAM PID` once an execve has told the program, else `PID`; its threads count as it. The object is
//!   the file's path, absolute where the working directory is known.
//! - Offsets: an append (O_APPEND) goes where the last one ended, from 0 on, since the file's length is not in the trace.
//!   Calls that fail, and calls not named in `Strace::call`, refer to nothing.

mod files;
mod line;

use super::Format;
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Operation, Request, Unit};
use files::{Process, Shared, lock, regular};
use line::{Event, Line, descriptor, number, string};
use std::collections::{HashMap, VecDeque};

pub(crate) const FORMAT: Format = Format {
    name: "strace",
    title: "output of strace -f: programs' file references",
    source: "strace(1)",
    recognise: |head| {
        let lines = head.lines(20);
        let call = |line: &&str| {
            matches!(line::parse(line), Some(Line { event: Event::Call { .. } | Event::Unfinished(_), .. }))
        };
        lines.iter().all(|line| line::parse(line).is_some()) && lines.iter().any(call)
    },
    open: |input, _| Ok(Box::new(Strace::new(input.lines()))),
    example: b"7 1.000001 execve(\"/bin/cat\", [\"cat\", \"a.txt\"], 0x7ffd /* 9 vars */) = 0\n\
        7 1.000100 openat(AT_FDCWD</home/me>, \"a.txt\", O_RDONLY) = 3</home/me/a.txt>\n\
        7 1.000200 read(3</home/me/a.txt>, \"some text\"..., 131072) = 20000\n\
        7 1.000300 read(3</home/me/a.txt>, \"\", 131072) = 0\n\
        7 1.000400 close(3</home/me/a.txt>) = 0\n\
        7 1.000500 +++ exited with 0 +++\n",
};

struct Strace {
    lines: Lines,
    processes: HashMap<u32, Process>,
    /// The first halves of calls that are not finished.
    unfinished: HashMap<u32, String>,
    /// Requests of the line read last: a copy has two.
    ready: VecDeque<Request>,
}

impl Reader for Strace {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while self.ready.is_empty() {
            if self.lines.next_content()?.is_none() {
                return Ok(None);
            }
            let text = self.lines.line().to_owned();
            let Some(line) = line::parse(&text) else {
                return Err(self
                    .lines
                    .error("is no line of strace: a call like `7 read(3, \"\"..., 512) = 512` is expected"));
            };
            self.line(&line, names);
        }
        Ok(self.ready.pop_front())
    }
}

impl Strace {
    fn new(lines: Lines) -> Self {
        Self { lines, processes: HashMap::new(), unfinished: HashMap::new(), ready: VecDeque::new() }
    }

    fn line(&mut self, line: &Line<'_>, names: &mut Names) {
        let Line { pid, time, ref event } = *line;
        match event {
            Event::Call { name, arguments, result } => self.call(pid, time, name, arguments, result, names),
            Event::Unfinished(start) => {
                self.unfinished.insert(pid, (*start).to_owned());
            }
            Event::Resumed(rest) => {
                let Some(start) = self.unfinished.remove(&pid) else { return };
                let whole = format!("{start} {rest}");
                if let Some(Event::Call { name, arguments, result }) = line::call(&whole) {
                    self.call(pid, time, name, &arguments, result, names);
                }
            }
            Event::Exit => {
                self.processes.remove(&pid);
                self.unfinished.remove(&pid);
            }
            Event::Other => {}
        }
    }

    /// The process, which may be a child whose parent's fork has not returned yet.
    fn process(&mut self, pid: u32) -> Process {
        if let Some(process) = self.processes.get(&pid) {
            return process.clone();
        }
        let forking =
            |start: &&String| ["fork(", "vfork(", "clone(", "clone3("].iter().any(|call| start.starts_with(call));
        let parent = self.unfinished.iter().find(|(_, start)| forking(start)).map(|(&pid, start)| (pid, start.clone()));
        let process = match parent.and_then(|(parent, start)| Some((self.processes.get(&parent)?, start))) {
            Some((parent, start)) => child_of(parent, pid, &start),
            None => Process::new(pid),
        };
        self.processes.insert(pid, process.clone());
        process
    }

    fn call(&mut self, pid: u32, time: u64, name: &str, arguments: &[&str], result: &str, names: &mut Names) {
        let process = self.process(pid);
        let argument = |index: usize| arguments.get(index).copied().unwrap_or("");
        let word = result.split_ascii_whitespace().next().unwrap_or("");
        let Some(value) = descriptor(word).map(|(fd, _)| fd.try_into().ok()).unwrap_or_else(|| number(word)) else {
            return;
        };
        let owner = |process: &Process| match &process.program {
            Some(program) => format!("{program} {}", process.owner),
            None => process.owner.to_string(),
        };
        let refer = |ready: &mut VecDeque<Request>, names: &mut Names, path: &str, offset, length, operation| {
            if length > 0 {
                let (owner, object) = (names.owner(&owner(&process)), names.object(path));
                ready.push_back(Request { time, owner, object, offset, length, operation });
            }
        };
        let at = |index: usize| {
            let (fd, path) = descriptor(argument(index))?;
            process.description(fd, path.as_deref())
        };
        match name {
            "open" | "openat" | "openat2" | "creat" => {
                let of_directory = name.starts_with("openat");
                let flags = argument(if of_directory { 2 } else { 1 });
                let base =
                    argument(0).split_once('<').and_then(|(_, path)| path.strip_suffix('>')).filter(|_| of_directory);
                let Ok(fd) = i32::try_from(value) else { return };
                // The result's decoration is the path as the kernel resolved it; else the argument, as far as it goes.
                let opened = descriptor(word).and_then(|(_, path)| path);
                let asked = || string(argument(usize::from(of_directory))).map(|path| process.resolve(base, &path));
                let path =
                    opened.or_else(asked).filter(|_| !flags.contains("O_DIRECTORY") && !flags.contains("O_PATH"));
                let path = path.and_then(|path| regular(&path));
                process.open(fd, path, flags.contains("O_APPEND"), flags.contains("O_CLOEXEC"));
            }
            "read" | "readv" | "write" | "writev" => {
                let operation = if name.starts_with("read") { Operation::Read } else { Operation::Write };
                let Some(description) = at(0) else { return };
                let mut description = lock(&description);
                let offset = description.offset;
                description.offset = offset.saturating_add(value);
                if let Some(path) = &description.path {
                    refer(&mut self.ready, names, path, offset, value, operation);
                }
            }
            "pread64" | "pread" | "preadv" | "preadv2" | "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                let operation = if name.starts_with("pread") { Operation::Read } else { Operation::Write };
                let (Some(description), Some(offset)) = (at(0), number(argument(3))) else { return };
                if let Some(path) = &lock(&description).path {
                    refer(&mut self.ready, names, path, offset, value, operation);
                }
            }
            "lseek" | "_llseek" => {
                if let Some(description) = at(0).filter(|description| !lock(description).append) {
                    lock(&description).offset = value;
                }
            }
            "mmap" | "mmap2" => {
                let (Some(description), Some(length), Some(offset)) = (at(4), number(argument(1)), number(argument(5)))
                else {
                    return;
                };
                let scale = if name == "mmap2" { 4096 } else { 1 };
                if let Some(path) = &lock(&description).path {
                    refer(&mut self.ready, names, path, offset.saturating_mul(scale), length, Operation::Read);
                }
            }
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" => {
                if name.starts_with("fcntl") && !argument(1).starts_with("F_DUPFD") {
                    return;
                }
                let (Some(description), Ok(fd)) = (at(0), i32::try_from(value)) else { return };
                let close_on_exec = arguments.iter().any(|argument| argument.contains("CLOEXEC"));
                lock(&process.table).insert(fd, files::Descriptor { description, close_on_exec });
            }
            "close" => {
                if let Some((fd, _)) = descriptor(argument(0)) {
                    lock(&process.table).remove(&fd);
                }
            }
            "close_range" => {
                let (Some(first), Some(last)) = (number(argument(0)), number(argument(1))) else { return };
                if !argument(2).contains("CLOEXEC") {
                    lock(&process.table).retain(|&fd, _| !(first..=last).contains(&(fd as u64)));
                }
            }
            "copy_file_range" => {
                let (input, output) = (at(0), at(2));
                let places = [(input, argument(1), Operation::Read), (output, argument(3), Operation::Write)];
                for (description, given, operation) in places {
                    let Some((path, offset)) = description.and_then(|description| transfer(&description, given, value))
                    else {
                        continue;
                    };
                    refer(&mut self.ready, names, &path, offset, value, operation);
                }
            }
            "sendfile" | "sendfile64" => {
                let places = [(at(1), argument(2), Operation::Read), (at(0), "NULL", Operation::Write)];
                for (description, given, operation) in places {
                    let Some((path, offset)) = description.and_then(|description| transfer(&description, given, value))
                    else {
                        continue;
                    };
                    refer(&mut self.ready, names, &path, offset, value, operation);
                }
            }
            "fork" | "vfork" | "clone" | "clone3" => {
                if let Ok(child) = u32::try_from(value)
                    && child != 0
                    && !self.processes.contains_key(&child)
                {
                    let child_process = child_of(&process, child, &arguments.join(","));
                    self.processes.insert(child, child_process);
                }
            }
            "execve" | "execveat" => {
                let path = string(argument(usize::from(name == "execveat")));
                let program = path.and_then(|path| path.rsplit('/').next().map(str::to_owned));
                // A process that executes no longer shares its descriptors.
                let mut own = process.child(pid, false, true, false);
                lock(&own.table).retain(|_, descriptor| !descriptor.close_on_exec);
                own.program = program.or(own.program);
                self.processes.insert(pid, own);
            }
            "chdir" => {
                let path = string(argument(0)).map(|path| process.resolve(None, &path));
                *lock(&process.directory) = path.filter(|path| path.starts_with('/'));
            }
            "fchdir" => {
                let path = descriptor(argument(0)).and_then(|(_, path)| path);
                *lock(&process.directory) = path;
            }
            _ => {}
        }
    }
}

fn child_of(parent: &Process, pid: u32, call: &str) -> Process {
    let is_thread = call.contains("CLONE_THREAD");
    parent.child(pid, call.contains("CLONE_FILES"), call.contains("CLONE_FS"), is_thread)
}

/// Where a copy reads or writes: at the offset given (`[4096]`, as it was before or after the call), else at the descriptor's own, which
/// then moves on.
fn transfer(description: &Shared, given: &str, length: u64) -> Option<(String, u64)> {
    let mut description = lock(description);
    let path = description.path.clone()?;
    let offset = match given.trim_start_matches('[').split([']', ' ']).next().and_then(number) {
        Some(offset) => offset,
        None => {
            let offset = description.offset;
            description.offset = offset.saturating_add(length);
            offset
        }
    };
    Some((path, offset))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn references(text: &str) -> Vec<(String, String, u64, u64, Operation)> {
        let input = crate::Input::from_bytes("test", text.as_bytes().to_vec()).unwrap();
        let mut reader = Strace::new(input.lines());
        let mut names = Names::new();
        let mut found = Vec::new();
        while let Some(request) = reader.next(&mut names).unwrap() {
            let (owner, object) =
                (names.owner_name(request.owner).to_owned(), names.object_name(request.object).to_owned());
            found.push((owner, object, request.offset, request.length, request.operation));
        }
        found
    }

    fn entry(
        owner: &str,
        object: &str,
        offset: u64,
        length: u64,
        operation: Operation,
    ) -> (String, String, u64, u64, Operation) {
        (owner.to_owned(), object.to_owned(), offset, length, operation)
    }

    #[test]
    fn offsets_are_followed_through_reads_seeks_and_duplicates() {
        let text = "chdir(\"/home\") = 0\n\
            open(\"f\", O_RDWR) = 3\n\
            read(3, \"\"..., 100) = 100\n\
            dup2(3, 9) = 9\n\
            read(9, \"\"..., 50) = 50\n\
            lseek(9, 4096, SEEK_SET) = 4096\n\
            write(3, \"\"..., 10) = 10\n\
            pread64(3, \"\"..., 512, 8192) = 512\n\
            read(3, 0x1, 5) = -1 EIO (Input/output error)\n\
            close(3) = 0\n\
            read(9, \"\"..., 1) = 1\n\
            read(3, \"\"..., 1) = 1\n";
        let at = |offset, length, operation| entry("0", "/home/f", offset, length, operation);
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(
            references(text),
            [at(0, 100, read), at(100, 50, read), at(4096, 10, write), at(8192, 512, read), at(4106, 1, read)]
        );
    }

    #[test]
    fn a_child_inherits_descriptors_and_offsets_but_not_those_closed_on_exec() {
        let text = "1 execve(\"/bin/sh\", [\"sh\"], 0x1 /* 1 var */) = 0\n\
            1 openat(AT_FDCWD</>, \"a\", O_RDONLY) = 3</a>\n\
            1 openat(AT_FDCWD</>, \"b\", O_RDONLY|O_CLOEXEC) = 4</b>\n\
            1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID <unfinished ...>\n\
            2 read(3</a>, \"\"..., 10) = 10\n\
            1 <... clone resumed>) = 2\n\
            1 read(3</a>, \"\"..., 10) = 10\n\
            2 execve(\"/bin/cat\", [\"cat\"], 0x1 /* 1 var */) = 0\n\
            2 read(4, \"\"..., 10) = 10\n\
            2 read(3</a>, \"\"..., 10) = 10\n";
        let read = |owner: &str, offset| entry(owner, "/a", offset, 10, Operation::Read);
        assert_eq!(references(text), [read("sh 2", 0), read("sh 1", 10), read("cat 2", 20)]);
    }

    #[test]
    fn threads_share_descriptors_and_belong_to_their_process() {
        let text = "1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, tls=0x1}, 88) = 2\n\
            2 open(\"/t\", O_RDONLY) = 3\n\
            1 read(3, \"\"..., 7) = 7\n\
            2 read(3, \"\"..., 7) = 7\n";
        assert_eq!(
            references(text),
            [entry("1", "/t", 0, 7, Operation::Read), entry("1", "/t", 7, 7, Operation::Read)]
        );
    }

    #[test]
    fn mapped_ranges_and_copies_are_references() {
        let text = "5 open(\"/lib\", O_RDONLY) = 3\n\
            5 open(\"/copy\", O_WRONLY|O_CREAT, 0644) = 4\n\
            5 mmap(NULL, 5000, PROT_READ, MAP_PRIVATE, 3, 0x2000) = 0x7f0000000000\n\
            5 mmap(NULL, 5000, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000\n\
            5 copy_file_range(3, NULL, 4, NULL, 4096, 0) = 4096\n\
            5 sendfile(4, 3, NULL, 100) = 100\n";
        let (read, write) = (Operation::Read, Operation::Write);
        let expected = [
            entry("5", "/lib", 8192, 5000, read),
            entry("5", "/lib", 0, 4096, read),
            entry("5", "/copy", 0, 4096, write),
            entry("5", "/lib", 4096, 100, read),
            entry("5", "/copy", 4096, 100, write),
        ];
        assert_eq!(references(text), expected);
    }

    #[test]
    fn what_is_no_regular_file_is_left_out() {
        let text = "read(0</dev/pts/0>, \"\"..., 10) = 10\n\
            read(5<pipe:[123]>, \"\"..., 10) = 10\n\
            read(6<socket:[9]>, \"\"..., 10) = 10\n\
            open(\"/proc/self/maps\", O_RDONLY) = 7\n\
            read(7, \"\"..., 10) = 10\n\
            read(8</opened/before>, \"\"..., 10) = 10\n";
        assert_eq!(references(text), [entry("0", "/opened/before", 0, 10, Operation::Read)]);
    }

    #[test]
    fn a_line_of_something_else_is_an_error_with_its_number() {
        let message = testing::error(&FORMAT, b"read(3, \"\", 1) = 0\nwhat is this\n");
        assert!(message.contains("line 2") && message.contains("no line of strace"), "{message}");
    }
}
