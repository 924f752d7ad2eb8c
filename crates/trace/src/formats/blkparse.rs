//! `blkparse`'s default text: what Linux's block layer did, recorded by `blktrace`, one event a line.
//!
//! Source: blkparse(1), "DEFAULT OUTPUT" and "DEFAULT OUTPUT PER ACTION". The fields of an event:
//!
//! - device: major and minor number; the object
//! - processor and sequence number: not used
//! - time: seconds with a fraction
//! - process id; with the name in brackets at the end of the line it is the owner, as `name/pid`
//! - action: `Q`, queued, is a request; all others are skipped. The block layer reports one request many times: queued,
//!   then merged into another or made a request of the device, issued to it and completed. Only `Q` comes once for each
//!   and before the scheduler has merged and reordered, so it is what the file system or the program asked for.
//! - RWBS: after a leading `F`, a flush ahead of the request, `R` is a read, `RA` a readahead and `W` a write.
//!   Discards (`D`), zone commands (`Z`) and flushes without data (`FN`) are skipped.
//! - first 512-byte sector, `+`, number of sectors. Events without them (flushes, commands passed through) are skipped.
//!
//! Where a device is stacked on another (a volume on a disk) and both are traced, each queues the request: trace one.
//! The summary at the end, and the `Input file` lines that some versions print, are no events.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;
use std::fmt::Write;

pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    title: "blkparse text: the queued requests of Linux block devices",
    source: "blkparse(1)",
    recognise: |head| {
        let lines = head.lines(20);
        let first = lines.iter().find(|line| !is_preamble(line));
        first.is_some_and(|line| Event::cut(line).is_some_and(|event| event.is_sound()))
    },
    open: |input, _| {
        let mut blkparse = Blkparse::default();
        Ok(by_line(input.lines(), Unit::Blocks(512), move |lines, names| blkparse.request(lines, names)))
    },
    example: b"  8,0    0        5     0.000000000   697  A   W 223490 + 8 <- (8,1) 1234
  8,0    0        6     0.000000010   697  Q   W 223490 + 8 [kjournald]
  8,0    0        7     0.000000020   697  G   W 223490 + 8 [kjournald]
  8,0    0       10     0.000001000    42  Q  RA 1000 + 128 [cp]
  8,0    0       11     0.000001001    42  Q  RM 2000 + 8 [cp]
  8,0    0       12     0.000001002    42  Q FWS [cp]
  8,0    0       19     2.000000000     0  C   W 223490 + 8 [0]
CPU0 (sda):
 Reads Queued:           2,       68KiB\t Writes Queued:           2,        4KiB
",
};

fn is_preamble(line: &str) -> bool {
    line.starts_with("Input file ")
}

/// The summary's first line is `CPU0 (sda):`, or with `-s` a process, `kjournald (697)`.
fn is_summary(line: &str) -> bool {
    let line = line.trim_end().trim_end_matches(':');
    line.ends_with(')') && line.contains(" (") && !line.starts_with(' ')
}

/// Whether an event has data of its own, and which way it goes.
pub(super) fn operation(rwbs: &str) -> Option<Operation> {
    match rwbs.strip_prefix('F').unwrap_or(rwbs).as_bytes() {
        [b'R', flags @ ..] if flags.contains(&b'A') => Some(Operation::Readahead),
        [b'R', ..] => Some(Operation::Read),
        [b'W', ..] => Some(Operation::Write),
        _ => None,
    }
}

/// First sector, number of sectors and process in `sector + count [process]`; `None` if the request moves no data.
pub(super) fn transfer<'a>(lines: &Lines, rest: &'a str) -> Result<Option<(u64, u64, &'a str)>> {
    let mut words = rest.split_ascii_whitespace();
    let (Some(sector), Some("+"), Some(count)) = (words.next(), words.next(), words.next()) else {
        // A flush, or a command passed through, has a payload or nothing here; a transfer's line that is cut short
        // ends without the process's name.
        if rest.trim_end().ends_with(']') {
            return Ok(None);
        }
        return Err(lines.error("a queued request without `sector + count [process]`; the line is cut short"));
    };
    let offset = fields::number(lines, "sector", sector)?;
    let length = fields::number(lines, "number of sectors", count)?;
    let name = rest.split_once('[').and_then(|(_, name)| name.trim_end().strip_suffix(']'));
    let Some(name) = name else {
        return Err(lines.error("a queued request without `[process]` at its end; the line is cut short"));
    };
    Ok(Some((offset, length, name)))
}

/// An event's line, cut into its fields.
struct Event<'a> {
    device: &'a str,
    numbers: [&'a str; 2],
    time: &'a str,
    process: &'a str,
    action: &'a str,
    rwbs: &'a str,
    /// What follows the fields that all events have.
    rest: &'a str,
}

impl<'a> Event<'a> {
    /// `None` if the line is no event: it does not begin with a device or has fewer fields.
    fn cut(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let text = rest.trim_ascii_start();
            let (word, after) = text.split_at(text.find(' ').unwrap_or(text.len()));
            rest = after;
            (!word.is_empty()).then_some(word)
        };
        let device = word()?;
        let (major, minor) = device.split_once(',')?;
        if major.parse::<u32>().is_err() || minor.parse::<u32>().is_err() {
            return None;
        }
        let numbers = [word()?, word()?];
        let (time, process, action, rwbs) = (word()?, word()?, word()?, word()?);
        Some(Self { device, numbers, time, process, action, rwbs, rest })
    }

    /// Whether its fields look like an event's: enough to tell the format.
    fn is_sound(&self) -> bool {
        self.numbers.iter().all(|number| number.parse::<u64>().is_ok())
            && self.time.contains('.')
            && fields::parse_seconds(self.time).is_some()
            && self.process.parse::<u32>().is_ok()
            && self.action.len() <= 2
            && self.action.bytes().all(|b| b.is_ascii_alphabetic())
            && self.rwbs.bytes().all(|b| b.is_ascii_uppercase())
    }
}

#[derive(Default)]
struct Blkparse {
    /// The owner's name while it is put together.
    owner: String,
    events: u64,
    /// The line at which the summary begins, once it has.
    summary: Option<String>,
}

impl Blkparse {
    /// The request in the line read last; `None` if it is no queued transfer.
    fn request(&mut self, lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
        let line = lines.line();
        let Some(event) = Event::cut(line) else {
            if self.summary.is_some() || is_preamble(line) {
                return Ok(None);
            }
            if self.events > 0 && is_summary(line) {
                self.summary = Some(fields::shorten(line));
                return Ok(None);
            }
            return Err(lines.error(format!(
                "expected an event (device, processor, sequence, time, pid, action, RWBS…) or the summary, found `{}`",
                fields::shorten(line)
            )));
        };
        if let Some(summary) = &self.summary {
            return Err(
                lines.error(format!("an event after the summary (`{summary}`); keep one blkparse output a file"))
            );
        }
        self.events += 1;
        let (true, Some(operation)) = (event.action == "Q", operation(event.rwbs)) else { return Ok(None) };
        let Some((offset, length, name)) = transfer(lines, event.rest)? else { return Ok(None) };
        let time = fields::seconds(lines, "time", event.time)?;
        let pid = fields::number(lines, "process id", event.process)?;
        self.owner.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.owner, "{name}/{pid}");
        let (owner, object) = (names.owner(&self.owner), names.object(event.device));
        Ok(Some(Request { time, owner, object, offset, length, operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::reader::{Options, read};

    fn requests(text: &str) -> Result<(Vec<Request>, Names)> {
        let options = Options { format: Some("blkparse".to_owned()), ..Options::default() };
        let (_, mut reader) = read(Input::from_bytes("sda.txt", text.to_owned())?, &options)?;
        let (mut names, mut requests) = (Names::new(), Vec::new());
        while reader.fill(&mut names, 100, &mut requests)? {}
        Ok((requests, names))
    }

    #[test]
    fn each_queued_transfer_is_one_request_however_often_it_is_reported() {
        let (requests, names) = requests(std::str::from_utf8(FORMAT.example).unwrap()).unwrap();
        assert_eq!(
            requests[0],
            Request { time: 10, owner: 1, object: 1, offset: 223_490, length: 8, operation: Operation::Write }
        );
        let seen: Vec<_> = requests[1..].iter().map(|r| (r.time, r.offset, r.length, r.operation)).collect();
        assert_eq!(seen, [(1000, 1000, 128, Operation::Readahead), (1001, 2000, 8, Operation::Read)]);
        assert_eq!(names.owners(), ["", "kjournald/697", "cp/42"]);
        assert_eq!(names.objects(), ["", "8,0"]);
    }

    /// Printed by blkparse 1.3 from events of every kind; the process is called `my pro [g]`.
    #[test]
    fn what_is_no_transfer_is_skipped() {
        let text = "Input file sda.blktrace.0 added
  8,0    0        0     0.000000000     0  m   N cfq workload slice:100
  8,0    0        8     0.000000025   697  P   N [kjournald]
259,12   0       13     0.000001003    42  Q FWFS 3000 + 8 [my pro [g]]
  8,0    0       14     0.000001004    42  Q   D 3000 + 8 [my pro [g]]
  8,0    0       15     0.000001005    42  Q   R 36 [my pro [g]]
  8,0    0       17     0.000001010   697  U   N [kjournald] 1
  8,0    0       18     0.000001012    42  X   R 3000 / 3004 [my pro [g]]
my pro [g] (42)
 Reads Queued:           3,       72KiB\t Writes Queued:           2,        4KiB

CPU0 (sda):
Throughput (R/W): 0KiB/s / 2KiB/s
Events (sda): 16 entries
Skips: 0 forward (0 -   0.0%)
";
        let (requests, names) = requests(text).unwrap();
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].offset, requests[0].operation), (3000, Operation::Write));
        assert_eq!((names.owner_name(1), names.object_name(1)), ("my pro [g]/42", "259,12"));
    }

    #[test]
    fn an_event_with_the_time_it_took_is_read_too() {
        let text = "  8,0    0        9     0.000000026   697  Q   W 223490 + 8 (       6) [kjournald]\n";
        let (requests, names) = requests(text).unwrap();
        assert_eq!((requests[0].length, names.owner_name(1)), (8, "kjournald/697"));
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        let event = |rest: &str| format!("  8,0    0    6     0.000000010   697  Q   W 8 + 8 [cp]\n{rest}\n");
        for (text, says) in [
            ("garbage\n".to_owned(), "line 1: expected an event"),
            ("CPU0 (sda):\n".to_owned(), "line 1: expected an event"),
            (event("  8,0    0    6"), "line 2: expected an event"),
            (event("  8,0 0 6 0.1 697 Q R 10 + 8"), "line 2: a queued request without `[process]`"),
            (event("  8,0 0 6 0.1 697 Q R 10 +"), "line 2: a queued request without `sector + count"),
            (event("  8,0 0 6 0.1 697 Q R ten + 8 [cp]"), "line 2: sector `ten`"),
            (event("  8,0 0 6 0.1 697 Q R 10 + -8 [cp]"), "line 2: number of sectors `-8`"),
            (event("  8,0 0 6 now 697 Q R 10 + 8 [cp]"), "line 2: time `now`"),
            (event("CPU0 (sda):\n  8,0 0 6 0.1 697 Q R 10 + 8 [cp]"), "line 3: an event after the summary"),
        ] {
            let error = requests(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_text_that_begins_with_an_event_is_recognised() {
        let recognised = |text: &'static str| (FORMAT.recognise)(&Input::from_bytes("t", text).unwrap().head());
        assert!(recognised("  8,0    0        8     0.000000025   697  P   N [kjournald]\n"));
        assert!(recognised("Input file sda.blktrace.0 added\n  8,0 0 6 0.000000010 697 Q W 8 + 8 [cp]\n"));
        // SPC, MSR and other numbers with commas.
        for other in ["0,20941264,8192,W,0.551706,0\n", "8,0 1 2 3 4 5 6\n", "1 2 3 4\n", "CPU0 (sda):\n"] {
            assert!(!recognised(other), "{other}");
        }
    }
}
