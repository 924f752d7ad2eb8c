//! strace's output: what a program and its children reference in files, recorded without root.
//!
//! Source: the manual page strace(1), and what strace 6.1 writes. Record with `-f` (children), `-y` (descriptors with their
//! paths), `-ttt` (times) and `-o` (nothing of the program's own output in between):
//!
//! ```sh
//! strace -f -y -ttt -s 0 -o FILE -e trace=desc,file,process PROGRAM ARGUMENTS
//! ```
//!
//! A line is `[pid N]` or `N` (with `-f`), a time, and `call(arguments) = result`; a call in which another process's line
//! came between is written as `call(… <unfinished ...>` and `<... call resumed>…`. Of these become
//!
//! - time: `-ttt` as it is; `-t` and `-tt` since the first midnight; `-r` since the first line; 0 without any.
//! - owner: the process, called `program N` after the program that it last executed (by the last part of its path) and its
//!   number, so that owners can be gathered by program; `N` alone before any; threads belong to their process. A child has
//!   its parent's program until it executes one. While strace follows a single process it may write no number; the owner
//!   then is called `program`, for good.
//! - object: the path. Sockets, pipes and all under /dev, /proc and /sys are left out; directories are never read.
//!   Without `-y` it is the path that was opened, made absolute where the working directory is known: two paths to one file
//!   then are two objects.
//! - offset: the call's, or that of the open file, which duplicated descriptors and forked processes share.
//! - length: the result. A mapping of a file (but with PROT_NONE) is one read of all that is mapped, for strace cannot
//!   see which of it is touched; it may reach beyond the file's end.
//! - operation: read, write; readahead for `readahead` and `POSIX_FADV_WILLNEED`.
//!
//! What a recording does not tell is resolved so: a descriptor that was opened out of sight is at offset 0 under `-y` and is
//! skipped without; a write to a file opened to append goes to the furthest end seen of that file; a child of which lines
//! come before the end of the call that made it belongs to the process whose call is under way the longest. The pages of
//! executed programs that the kernel maps itself, and io_uring's requests, are not in strace's output.

mod calls;
mod line;
mod process;

use super::{Format, fields};
use crate::error::Result;
use crate::input::{Head, Lines};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use calls::Files;
use line::{Call, Event, Stamp};
use process::Processes;
use std::collections::VecDeque;

/// More than this before a message in mid-line is no call.
const LONGEST_CARRIED: usize = 1 << 20;
const DAY: u64 = 86_400_000_000_000;

pub(super) const FORMAT: Format = Format {
    name: "strace",
    title: "strace -f output: the file references of processes, best with -y -ttt -o FILE",
    source: "the manual page strace(1)",
    recognise,
    open: |input, _| {
        Ok(Box::new(Strace {
            lines: input.lines(),
            clock: Clock::default(),
            processes: Processes::default(),
            files: Files::default(),
            carried: String::new(),
            waiting: VecDeque::new(),
        }))
    },
    example: b"17 1700000000.000000 execve(\"/usr/bin/cat\", [\"cat\", \"a\"], 0x7ffd /* 9 vars */) = 0\n\
        17 1700000000.000100 openat(AT_FDCWD</home>, \"a\", O_RDONLY) = 3</home/a>\n\
        17 1700000000.000200 read(3</home/a>, \"some\"..., 131072) = 5000\n\
        17 1700000000.000300 read(3</home/a>,  <unfinished ...>\n\
        18 1700000000.000400 pwrite64(4</home/b>, \"\\n\", 1, 8191) = 1\n\
        17 1700000000.000500 <... read resumed>\"\", 131072) = 0\n\
        17 1700000000.000600 close(3</home/a>) = 0\n\
        17 1700000000.000700 +++ exited with 0 +++\n",
};

fn recognise(head: &Head<'_>) -> bool {
    let (mut carried, mut calls) = (String::new(), 0);
    for text in head.lines(20) {
        let text = std::mem::take(&mut carried) + text;
        if let Some((before, _)) = line::attached(&text) {
            carried = before.to_owned();
            continue;
        }
        match line::parse(&text).map(|line| line.event) {
            Some(Event::Call { rest, .. }) if Call::parse(rest).is_some() => calls += 1,
            Some(Event::Unfinished { .. } | Event::Resumed { .. }) => calls += 1,
            Some(Event::Exit | Event::Other) => {}
            _ => return false,
        }
    }
    calls > 0
}

/// Times of all kinds made to go on from one another.
#[derive(Default)]
struct Clock {
    last: u64,
    midnight: u64,
}

impl Clock {
    fn at(&mut self, stamp: Option<Stamp>) -> u64 {
        match stamp {
            None => {}
            Some(Stamp::Absolute(time)) => self.last = time,
            Some(Stamp::Gap(gap)) => self.last = self.last.saturating_add(gap),
            Some(Stamp::Clock(time)) => {
                // Half a day back is no disorder among processes but the next day.
                if self.midnight.saturating_add(time).saturating_add(DAY / 2) < self.last {
                    self.midnight = self.midnight.saturating_add(DAY);
                }
                self.last = self.midnight.saturating_add(time);
            }
        }
        self.last
    }
}

struct Strace {
    lines: Lines,
    clock: Clock,
    processes: Processes,
    files: Files,
    /// The front of a line into which strace wrote a message.
    carried: String,
    waiting: VecDeque<Request>,
}

impl Strace {
    /// Reads a line; `false` at the end.
    fn step(&mut self, names: &mut Names) -> Result<bool> {
        let Self { lines, clock, processes, files, carried, waiting } = self;
        if lines.next_content()?.is_none() {
            if !carried.is_empty() {
                return Err(lines.error("the file ends within a call; remove its last line, or record again"));
            }
            return Ok(false);
        }
        let joined;
        let text = if carried.is_empty() {
            lines.line()
        } else {
            joined = std::mem::take(carried) + lines.line();
            &joined
        };
        if let Some((before, pid)) = line::attached(text) {
            if before.len() > LONGEST_CARRIED {
                return Err(lines.error("a call is longer than 1 MiB; is this strace's output?"));
            }
            processes.announce(pid);
            *carried = before.to_owned();
            return Ok(true);
        }
        let Some(line) = line::parse(text) else {
            return Err(lines.error(format!(
                "`{}` is no line of strace's; record with `strace -f -y -ttt -o FILE`, so that nothing else gets between",
                fields::shorten(text)
            )));
        };
        let time = clock.at(line.stamp);
        if line.event == Event::Other && line.pid.is_none() {
            return Ok(true);
        }
        let pid = processes.find(line.pid);
        let whole;
        let (name, rest) = match line.event {
            Event::Other => return Ok(true),
            Event::Exit => {
                processes.exit(pid);
                return Ok(true);
            }
            Event::Unfinished { name, rest } => {
                if calls::is_fork(name) {
                    processes.fork_begins(pid, rest);
                }
                processes.get(pid).unfinished = Some(format!("{name}({rest}"));
                return Ok(true);
            }
            Event::Resumed { name, rest } => {
                let before = processes.get(pid).unfinished.take();
                let Some(before) = before.as_deref().and_then(|call| call.strip_prefix(name)?.strip_prefix('(')) else {
                    // Begun before the recording.
                    return Ok(true);
                };
                whole = format!("{before}{rest}");
                (name, whole.as_str())
            }
            Event::Call { name, rest } => (name, rest),
        };
        let Some(kind) = calls::kind(name) else { return Ok(true) };
        let Some(call) = Call::parse(rest) else {
            return Err(lines.error(format!(
                "`{name}` has no end `) = result`; if the recording was cut short here, remove this line, else record \
                 again with -o FILE"
            )));
        };
        files.apply(kind, &call, processes, pid, names, time, waiting).map_err(|what| {
            lines.error(format!("`{name}`: {what}; remove this line, or record again without strace's -e raw and -X"))
        })?;
        Ok(true)
    }
}

impl Reader for Strace {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        loop {
            if let Some(request) = self.waiting.pop_front() {
                return Ok(Some(request));
            }
            if !self.step(names)? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};
    use forebay_basis::Operation;

    /// Each request as `owner object offset+length`, with `w` for a write and `a` for a readahead before it.
    fn seen(text: &str) -> Vec<String> {
        let (names, requests) = requests(&FORMAT, text.as_bytes());
        let shown = requests.iter().map(|request| {
            let operation = match request.operation {
                Operation::Write => "w ",
                Operation::Readahead => "a ",
                _ => "",
            };
            let (owner, object) = (names.owner_name(request.owner), names.object_name(request.object));
            format!("{operation}{owner} {object} {}+{}", request.offset, request.length)
        });
        shown.collect()
    }

    #[test]
    fn the_example_read_by_hand() {
        let text = std::str::from_utf8(FORMAT.example).unwrap();
        assert_eq!(seen(text), ["cat 17 /home/a 0+5000", "w 18 /home/b 8191+1"]);
        assert_eq!(requests(&FORMAT, FORMAT.example).1[1].time, 1_700_000_000_000_400_000);
    }

    #[test]
    fn offsets_go_on_from_reads_writes_and_seeks() {
        let text = "open(\"/a\", O_RDWR) = 3\nread(3, \"x\"..., 9) = 9\nwritev(3, [{iov_base=\"(\", iov_len=1}], 1) = 1\n\
            lseek(3, -4, SEEK_CUR) = 6\nread(3, \"\", 9) = 2\npread64(3, \"\", 5, 100) = 5\npreadv2(3, [], 1, -1, 0) = 4\n\
            _llseek(3, 50, [50], SEEK_SET) = 0\nread(3, \"\", 9) = 1\nread(3, \"\", 9) = 0\nread(3, \"\", 9) = -1 EIO (x)\n";
        assert_eq!(seen(text), [" /a 0+9", "w  /a 9+1", " /a 6+2", " /a 100+5", " /a 8+4", " /a 50+1"]);
    }

    #[test]
    fn duplicated_descriptors_share_their_offset_and_reopened_ones_do_not() {
        let text = "open(\"/a\", O_RDONLY) = 3\ndup2(3, 7) = 7\nfcntl(7, F_DUPFD_CLOEXEC, 10) = 10\nread(3, \"\", 9) = 9\n\
            read(10, \"\", 9) = 9\nclose(3) = 0\nread(7, \"\", 9) = 1\nread(3, \"\", 9) = 1\nopen(\"/a\", O_RDONLY) = 3\n\
            read(3, \"\", 9) = 1\nclose_range(5, 4294967295, 0) = 0\nread(7, \"\", 9) = 1\n";
        assert_eq!(seen(text), [" /a 0+9", " /a 9+9", " /a 18+1", " /a 0+1"]);
    }

    #[test]
    fn a_child_has_its_parents_files_and_its_own_table() {
        let text = "1 open(\"/a\", O_RDONLY) = 3\n1 read(3, \"\", 9) = 9\n1 clone(child_stack=NULL, flags=SIGCHLD) = 2\n\
            2 read(3, \"\", 9) = 9\n2 close(3) = 0\n1 read(3, \"\", 9) = 1\n2 read(3, \"\", 9) = 1\n";
        assert_eq!(seen(text), ["1 /a 0+9", "2 /a 9+9", "1 /a 18+1"]);
    }

    #[test]
    fn a_thread_shares_its_process_and_table() {
        let text = "1 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, stack=0x1} => {parent_tid=[2]}, 88) = 2\n\
            2 open(\"/a\", O_RDONLY) = 3\n1 read(3, \"\", 9) = 9\n2 read(3, \"\", 9) = 9\n2 +++ exited with 0 +++\n\
            1 read(3, \"\", 9) = 1\n";
        assert_eq!(seen(text), ["1 /a 0+9", "1 /a 9+9", "1 /a 18+1"]);
    }

    #[test]
    fn a_child_may_be_seen_before_the_call_that_made_it_ends() {
        let text = "1 chdir(\"/home\") = 0\n1 open(\"a\", O_RDONLY) = 3\n1 open(\"b\", O_RDONLY|O_CLOEXEC) = 4\n\
            1 vfork( <unfinished ...>\n2 read(3, \"\", 9) = 9\n2 execve(\"/bin/cat\", [\"cat\"], 0x1 /* 2 vars */) = 0\n\
            1 <... vfork resumed>) = 2\n2 read(3, \"\", 9) = 1\n2 read(4, \"\", 9) = 9\n1 read(4, \"\", 9) = 2\n";
        assert_eq!(seen(text), ["2 /home/a 0+9", "cat 2 /home/a 9+1", "1 /home/b 0+2"]);
    }

    #[test]
    fn half_lines_on_a_terminal_are_put_together() {
        let text = "execve(\"/bin/sh\", [\"sh\"], 0x1 /* 2 vars */) = 0\nopen(\"/a\", O_RDONLY) = 3\n\
            read(3, strace: Process 8 attached\n <unfinished ...>\n[pid     8] exit_group(0) = ?\n[pid     8] +++ exited with 0 +++\n\
            [pid     7] <... read resumed>\"\", 9) = 9\nread(3strace: Process 9 attached\n, \"\", 9) = 1\nstrace: Process 7 detached\n";
        assert_eq!(seen(text), ["sh /a 0+9", "sh /a 9+1"]);
        assert!(recognises(&FORMAT, text.as_bytes()));
    }

    #[test]
    fn mappings_are_one_read_of_all_that_is_mapped() {
        let text = "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f57\n\
            mmap(0x7f57, 300, PROT_READ, MAP_SHARED, 3</lib/c.so>, 0x26000) = 0x7f57\n\
            mmap(NULL, 300, PROT_NONE, MAP_PRIVATE, 3</lib/c.so>, 0) = 0x7f57\n";
        assert_eq!(seen(text), [" /lib/c.so 155648+300"]);
    }

    #[test]
    fn only_files_count() {
        let text = "read(0</dev/pts/0<char 136:0>>, \"\", 9) = 9\nread(1<pipe:[7]>, \"\", 9) = 9\nread(2</proc/1/maps>, \"\", 9) = 9\n\
            read(3<TCP:[1.2.3.4:5->6.7.8.9:80]>, \"\", 9) = 9\nread(4<socket:[1]>, \"\", 9) = 9\nread(5, \"\", 9) = 9\n\
            open(\"/sys/x\", O_RDONLY) = 6\nread(6, \"\", 9) = 9\nread(7</devil/a\\40b>, \"\", 9) = 9\n";
        assert_eq!(seen(text), [" /devil/a b 0+9"]);
    }

    #[test]
    fn copies_read_one_file_and_write_the_other() {
        let text = "copy_file_range(3</a>, NULL, 4</b>, [100], 50, 0) = 50\nsendfile(5<pipe:[1]>, 3</a>, NULL, 9) = 9\n\
            sendfile(4</b>, 3</a>, [7] => [16], 9) = 9\n";
        assert_eq!(seen(text), [" /a 0+50", "w  /b 100+50", " /a 50+9", " /a 7+9", "w  /b 0+9"]);
    }

    #[test]
    fn appending_writes_go_to_the_furthest_end_seen() {
        let text = "read(3</log>, \"\", 9) = 9\nopen(\"/log\", O_WRONLY|O_APPEND) = 4\nwrite(4, \"\", 5) = 5\n\
            pwrite64(4, \"\", 5, 0) = 5\nlseek(4, 0, SEEK_END) = 30\nwrite(4, \"\", 1) = 1\n\
            open(\"/log\", O_WRONLY|O_TRUNC|O_APPEND) = 5\nwrite(5, \"\", 2) = 2\n";
        assert_eq!(seen(text), [" /log 0+9", "w  /log 9+5", "w  /log 14+5", "w  /log 30+1", "w  /log 0+2"]);
    }

    #[test]
    fn readahead_is_kept_as_such() {
        let text = "readahead(3</a>, 0, 4096) = 0\nfadvise64(3</a>, 10, 20, POSIX_FADV_WILLNEED) = 0\n\
            fadvise64(3</a>, 10, 20, POSIX_FADV_DONTNEED) = 0\n";
        assert_eq!(seen(text), ["a  /a 0+4096", "a  /a 10+20"]);
    }

    #[test]
    fn relative_paths_are_seen_from_the_working_or_the_given_directory() {
        let text = "open(\"x\", O_RDONLY) = 3\nread(3, \"\", 9) = 1\ngetcwd(\"/home/u\", 4096) = 8\n\
            openat(AT_FDCWD, \"../v/./x\", O_RDONLY) = 3\nread(3, \"\", 9) = 2\nopenat(AT_FDCWD, \"/d\", O_DIRECTORY) = 4\n\
            openat2(4, \"y\\\"z\", {flags=O_RDONLY|O_CLOEXEC, resolve=0}, 24) = 5\nread(5, \"\", 9) = 3\nfchdir(4) = 0\n\
            creat(\"w\", 0666) = 6\nwrite(6, \"\", 9) = 4\nopenat(AT_FDCWD</e>, \"q\", O_RDONLY) = 7\nread(7, \"\", 9) = 5\n";
        assert_eq!(seen(text), [" x 0+1", " /home/v/x 0+2", " /d/y\"z 0+3", "w  /d/w 0+4", " /e/q 0+5"]);
    }

    #[test]
    fn a_renamed_file_keeps_its_offset_and_an_unseen_opening_starts_anew() {
        let text = "open(\"/a\", O_RDONLY) = 3</a>\nread(3</a>, \"\", 9) = 9\nread(3</b>, \"\", 9) = 1\nread(4</c>, \"\", 9) = 9\n\
            read(4</d>, \"\", 9) = 1\n";
        assert_eq!(seen(text), [" /a 0+9", " /b 9+1", " /c 0+9", " /d 0+1"]);
    }

    #[test]
    fn times_of_day_pass_midnight_and_gaps_add_up() {
        let times = |text: &str| -> Vec<u64> {
            requests(&FORMAT, text.as_bytes()).1.iter().map(|request| request.time).collect()
        };
        let text = "23:59:59 read(3</a>, \"\", 1) = 1\n00:00:01.5 read(3</a>, \"\", 1) = 1\n";
        assert_eq!(times(text), [86_399_000_000_000, 86_401_500_000_000]);
        let text = "  0.000000 read(3</a>, \"\", 1) = 1\n  0.5 close(9) = 0\n  0.25 read(3</a>, \"\", 1) = 1\n";
        assert_eq!(times(text), [0, 750_000_000]);
    }

    #[test]
    fn a_line_of_something_else_is_an_error_with_its_number() {
        let text = error(&FORMAT, b"close(3) = 0\nhello, world\n");
        assert!(text.starts_with("trace: line 2: `hello, world` is no line of strace's; record with"), "{text}");
    }

    #[test]
    fn a_call_cut_short_is_an_error_and_an_unknown_call_is_not() {
        assert!(error(&FORMAT, b"7 read(3</a>, \"ab").starts_with("trace: line 1: `read` has no end"));
        assert!(error(&FORMAT, b"read(3strace: Process 9 attached\n").contains("ends within a call"));
        assert_eq!(
            seen("7 ioctl(3</a>, \"ab\n7 <... futex resumed>) = 0\n--- SIGCHLD {si_signo=SIGCHLD} ---\n"),
            [""; 0]
        );
    }

    #[test]
    fn wrong_arguments_are_errors_that_name_the_call() {
        for (line, what) in [
            ("pread64(3</a>, \"\", 9) = 9", "`pread64`: 3 arguments are too few"),
            ("pread64(3</a>, \"\", 9, x) = 9", "`pread64`: argument 4 is no number"),
            ("read(x, \"\", 9) = 9", "`read`: a descriptor is no number"),
            ("read(3</a>, \"\", 9) = nine", "`read`: the result is no number"),
            ("open(0x7ffc, O_RDONLY) = 3", "`open`: the path is no string"),
            ("pread64(3</a>, \"\", 9, 18446744073709551615) = 9", "end beyond 2^64"),
        ] {
            let text = error(&FORMAT, line.as_bytes());
            assert!(text.starts_with("trace: line 1: ") && text.contains(what), "{text}");
        }
    }

    #[test]
    fn texts_that_only_look_alike_are_not_recognised() {
        for text in ["1 2 3 4\n", "call(x)\n", "+++ exited with 0 +++\n", "17 read(3) = 0\nhello\n", "==1== f(2) = 3\n"]
        {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }
}
