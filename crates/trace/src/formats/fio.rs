//! fio's iolog, versions 2 and 3: what a fio job did, as written by `--write_iolog` and replayed by `--read_iolog`.
//!
//! Source: fio's HOWTO, "Trace file format", and its `iolog.c`. The first line is `fio version 2 iolog` or
//! `fio version 3 iolog`; then follow lines of
//!
//! - time (version 3 alone): microseconds since the job began. The HOWTO names no unit; fio 3.33 writes microseconds.
//! - file name: the object. It may hold spaces here, although fio itself does not read such a log.
//! - action: `read` and `write` are requests. `add`, `open`, `close`, the kinds of `sync`, `trim` and `wait` are
//!   skipped: what `wait` is relative to differs between the HOWTO and the code, so version 2 has no times here.
//! - offset and length in bytes, of all but `add`, `open` and `close`.
//!
//! The log of a job has no owner.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::{Input, Lines};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

const VERSION_2: &str = "fio version 2 iolog";
const VERSION_3: &str = "fio version 3 iolog";
/// Actions on a file as a whole, and actions with an offset and a length that move no data.
const FILE_ACTIONS: [&str; 4] = ["add", "open", "close", "unlink"];
const SKIPPED: [&str; 6] = ["wait", "sync", "datasync", "sync_file_range", "syncfs", "trim"];

pub(super) const FORMAT: Format = Format {
    name: "fio",
    title: "fio iolog, versions 2 and 3",
    source: "fio's HOWTO, section \"Trace file format\"",
    recognise: |head| head.lines(1).first().is_some_and(|line| [VERSION_2, VERSION_3].contains(&line.trim_ascii())),
    open: |input, _| open(input),
    example: b"fio version 3 iolog\n2 job.0.0 add\n141 job.0.0 open\n148 job.0.0 read 0 4096\n\
        412 job.0.0 read 45056 4096\n655 job.0.0 write 28672 4096\n891 job.0.0 sync 61440 0\n900 job.0.0 close\n",
};

fn open(input: Input) -> Result<Box<dyn Reader>> {
    let mut lines = input.lines();
    let timed = match lines.next_content()?.map(str::trim_ascii) {
        Some(VERSION_3) => true,
        Some(VERSION_2) => false,
        _ => {
            return Err(lines.error(format!(
                "an iolog begins with `{VERSION_2}` or `{VERSION_3}`; record it with fio 1.17 or later"
            )));
        }
    };
    Ok(by_line(lines, Unit::Bytes, move |lines, names| request(timed, lines, names)))
}

/// The request in the line read last; `None` if it moves no data.
fn request(timed: bool, lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
    let mut line = lines.line().trim_ascii();
    let mut time = 0;
    if timed {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        time = fields::number(lines, "time", first)?
            .checked_mul(1000)
            .ok_or_else(|| lines.error(format!("time `{first}` is beyond 2^64 nanoseconds")))?;
        line = rest.trim_ascii();
    }
    // From the right, for the sake of names with spaces.
    let mut words = line.rsplitn(4, ' ');
    let (length, offset, action, name) = (words.next(), words.next(), words.next(), words.next());
    if let (Some(length), Some(offset), Some(action), Some(name)) = (length, offset, action, name) {
        let operation = match action {
            "read" => Some(Operation::Read),
            "write" => Some(Operation::Write),
            _ => None,
        };
        if let Some(operation) = operation {
            let offset = fields::number(lines, "offset", offset)?;
            let length = fields::number(lines, "length", length)?;
            return Ok(Some(Request { time, owner: 0, object: names.object(name), offset, length, operation }));
        }
        if SKIPPED.contains(&action) {
            return Ok(None);
        }
    }
    if offset.is_some() && length.is_some_and(|action| FILE_ACTIONS.contains(&action)) {
        return Ok(None);
    }
    let time = if timed { "time " } else { "" };
    Err(lines.error(format!(
        "expected `{time}file add|open|close` or `{time}file read|write|… offset length`, found `{}`",
        fields::shorten(lines.line())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{Options, read};

    fn requests(text: &str) -> Result<(Vec<Request>, Names)> {
        let options = Options { format: Some("fio".to_owned()), ..Options::default() };
        let (_, mut reader) = read(Input::from_bytes("job.log", text.to_owned())?, &options)?;
        let (mut names, mut requests) = (Names::new(), Vec::new());
        while reader.fill(&mut names, 100, &mut requests)? {}
        Ok((requests, names))
    }

    #[test]
    fn version_3_has_times_in_microseconds() {
        let (requests, names) = requests(std::str::from_utf8(FORMAT.example).unwrap()).unwrap();
        assert_eq!(requests.len(), 3);
        assert_eq!(
            requests[2],
            Request { time: 655_000, owner: 0, object: 1, offset: 28672, length: 4096, operation: Operation::Write }
        );
        assert_eq!(names.objects(), ["", "job.0.0"]);
    }

    #[test]
    fn version_2_has_no_times_and_what_moves_no_data_is_skipped() {
        let text = "fio version 2 iolog\n/tmp/a add\n/tmp/a open\n/tmp/a wait 4000 0\n/tmp/a read 0 1024\n/tmp/b add\n\
            /tmp/b write 8192 512\n/tmp/b datasync 0 0\n/tmp/b trim 0 8192\n/tmp/a close\n";
        let (requests, names) = requests(text).unwrap();
        let seen: Vec<_> = requests.iter().map(|r| (r.time, r.object, r.offset, r.length, r.operation)).collect();
        assert_eq!(seen, [(0, 1, 0, 1024, Operation::Read), (0, 2, 8192, 512, Operation::Write)]);
        assert_eq!(names.objects(), ["", "/tmp/a", "/tmp/b"]);
    }

    #[test]
    fn a_file_name_may_hold_spaces() {
        let (requests, names) = requests("fio version 3 iolog\n1 my file add\n7 my file read 4096 512\n").unwrap();
        assert_eq!((requests.len(), names.objects()[1].as_str()), (1, "my file"));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (text, says) in [
            ("fio version 1 iolog\n", "line 1: an iolog begins with"),
            ("# nothing\n", "an iolog begins with"),
            ("fio version 3 iolog\nx f read 0 1\n", "line 2: time `x` is no whole number"),
            ("fio version 3 iolog\n99999999999999999 f read 0 1\n", "line 2: time `99999999999999999` is beyond"),
            ("fio version 3 iolog\n1 f read 0\n", "line 2: expected `time file add|open|close`"),
            ("fio version 2 iolog\nf read 0\n", "line 2: expected `file add|open|close`"),
            ("fio version 2 iolog\nadd\n", "line 2: expected"),
            ("fio version 2 iolog\nf fly 0 4096\n", "found `f fly 0 4096`"),
            ("fio version 2 iolog\nf read -1 4096\n", "line 2: offset `-1` is no whole number"),
            ("fio version 2 iolog\nf read 0 4k\n", "line 2: length `4k` is no whole number"),
        ] {
            let error = requests(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
