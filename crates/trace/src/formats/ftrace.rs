//! Linux's own tracing of its block layer: lines of the event `block_bio_queue`, from tracefs's `trace` and `trace_pipe`, or printed by
//! `trace-cmd report` or `perf script`.
//!
//! Source: the kernel's `Documentation/trace/ftrace.rst`, "Output format", and `include/trace/events/block.h`. A line is
//!
//! ```text
//!    kworker/u4:1-57  [001] ..... 36259.225947: block_bio_queue: 7,0 RA 0 + 32 [kworker/u4:1]
//! ```
//!
//! - process: name and number; the owner, as `name/number`
//! - processor and, from tracefs, flags: not used
//! - time: seconds with a fraction, of whatever clock the tracing uses
//! - event: `block_bio_queue` is a request as the file system or the program asks for it, before the scheduler merges and reorders; `perf`
//!   writes `block:` before it. Other events are skipped.
//! - device: major and minor number of the disk, of a partition, too; the object
//! - RWBS, first 512-byte sector, `+`, number of sectors, and the process: as in [`blkparse`](super::blkparse), but counted in bytes
//!
//! `[LOST 7 EVENTS]` is skipped: what came between is not known.

use super::blkparse::{operation, transfer};
use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use std::fmt::Write;

pub(super) const FORMAT: Format = Format {
    name: "ftrace",
    title: "Linux's tracing (tracefs, trace-cmd, perf script): the event block_bio_queue",
    source: "the kernel's Documentation/trace/ftrace.rst",
    recognise: |head| {
        let events: Vec<_> = head.lines(20).into_iter().filter(|line| !is_loss(line)).map(Event::cut).collect();
        events.iter().flatten().any(Event::is_request) && events.iter().all(Option::is_some)
    },
    open: |input, _| {
        let mut ftrace = Ftrace::default();
        Ok(by_line(input.lines(), Unit::Bytes, move |lines, names| ftrace.request(lines, names)))
    },
    example: b"# tracer: nop
              dd-13134   [000] ..... 36259.225947: block_bio_queue: 7,0 RA 0 + 32 [dd]
 kworker/u4:1-57      [001] ..... 36259.227695: block_rq_issue: 7,0 RA 16384 () 0 + 32 [kworker/u4:1]
CPU:1 [LOST 3 EVENTS]
  jbd2/sda1-8-212     [001] ..... 36259.233339: block_bio_queue: 8,0 WS 2048 + 8 [jbd2/sda1-8]
              dd-13134   [000] ..... 36259.233487: block_bio_queue: 7,0 FN 0 + 0 [dd]
",
};

/// The event that is a request.
const REQUEST: &str = "block_bio_queue";

/// Whether the line says that events were lost.
pub(super) fn is_loss(line: &str) -> bool {
    line.starts_with("CPU:") && line.ends_with(" EVENTS]")
}

/// An event's line, cut into its parts.
pub(super) struct Event<'a> {
    /// The number of the process.
    process: &'a str,
    pub(super) time: &'a str,
    pub(super) name: &'a str,
    pub(super) rest: &'a str,
}

impl<'a> Event<'a> {
    /// `None` if the line is no event.
    pub(super) fn cut(line: &'a str) -> Option<Self> {
        let (front, event) = line.split_once(": ")?;
        let (process, behind) = front.rsplit_once(" [")?;
        let (processor, behind) = behind.split_once("] ")?;
        // `perf` separates name and number by spaces, the others by a dash.
        let process = process.trim_ascii_end().rsplit([' ', '-']).next()?;
        let time = behind.split_ascii_whitespace().next_back()?;
        let (name, rest) = event.trim_ascii_start().split_once(':')?;
        // `perf` writes the events' system before their name.
        let (name, rest) = if matches!(name, "block" | "damon") { rest.split_once(':')? } else { (name, rest) };
        let sound = fields::is_number(processor) && fields::is_number(process) && fields::parse_seconds(time).is_some();
        sound.then_some(Self { process, time, name, rest })
    }

    fn is_request(&self) -> bool {
        self.name == REQUEST
    }
}

#[derive(Default)]
struct Ftrace {
    /// The owner's name while it is put together.
    owner: String,
}

impl Ftrace {
    /// The request in the line read last; `None` if it is none.
    fn request(&mut self, lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
        let line = lines.line();
        if is_loss(line) {
            return Ok(None);
        }
        let Some(event) = Event::cut(line) else {
            let found = fields::shorten(line);
            return Err(lines.error(format!("expected `process-number [processor] time: event: …`, found `{found}`")));
        };
        if !event.is_request() {
            return Ok(None);
        }
        let mut words = event.rest.trim_ascii_start().splitn(3, ' ');
        let (Some(device), Some(rwbs), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return Err(lines.error("a request without `device RWBS sector + count [process]`; the line is cut short"));
        };
        let Some(operation) = operation(rwbs) else { return Ok(None) };
        let Some((sector, sectors, name)) = transfer(lines, rest)? else { return Ok(None) };
        let bytes = |sectors: u64| {
            sectors.checked_mul(512).ok_or_else(|| lines.error(format!("sector {sectors} is beyond 2^64 bytes")))
        };
        let (offset, length) = (bytes(sector)?, bytes(sectors)?);
        fields::check_end(lines, offset, length)?;
        let time = fields::seconds(lines, "time", event.time)?;
        self.owner.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.owner, "{name}/{}", event.process);
        let (owner, object) = (names.owner(&self.owner), names.object(device));
        Ok(Some(Request { time, owner, object, offset, length, operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};
    use forebay_basis::Operation;

    #[test]
    fn the_example_read_by_hand() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let of = |request: &Request| {
            let (owner, object) = (names.owner_name(request.owner), names.object_name(request.object));
            (owner.to_owned(), object.to_owned(), request.offset, request.length, request.operation)
        };
        let seen: Vec<_> = requests.iter().map(of).collect();
        let expected = [
            ("dd/13134".to_owned(), "7,0".to_owned(), 0, 16_384, Operation::Readahead),
            ("jbd2/sda1-8/212".to_owned(), "8,0".to_owned(), 1 << 20, 4096, Operation::Write),
        ];
        assert_eq!(seen, expected);
        assert_eq!(requests[0].time, 36_259_225_947_000);
    }

    #[test]
    fn other_programs_print_the_same_events_otherwise() {
        for line in [
            "my dd 13134 [000] 36259.225947: block:block_bio_queue: 7,0 RA 0 + 32 [my dd]",
            "  my dd-13134 [000] 36259.225947: block_bio_queue:      7,0 RA 0 + 32 [my dd]",
        ] {
            let (names, requests) = requests(&FORMAT, line.as_bytes());
            assert_eq!((requests.len(), names.owners()), (1, &["".to_owned(), "my dd/13134".to_owned()][..]), "{line}");
            assert!(recognises(&FORMAT, line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (rest, says) in [
            ("garbage", "expected `process-number"),
            ("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R", "a request without `device"),
            ("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R 8 + 8", "without `[process]`"),
            ("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R 8 8 8", "without `sector + count"),
            ("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R x + 8 [dd]", "sector `x`"),
            ("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R 36028797018963968 + 8 [dd]", "is beyond 2^64 bytes"),
        ] {
            let text = format!("dd-1 [000] ..... 1.5: block_bio_queue: 7,0 R 8 + 8 [dd]\n{rest}\n");
            let message = error(&FORMAT, text.as_bytes());
            assert!(message.contains("line 2: ") && message.contains(says), "{rest}: {message}");
        }
    }

    #[test]
    fn events_without_a_request_are_not_recognised() {
        for text in ["dd-1 [000] ..... 1.5: sched_switch: prev_comm=dd\n", "CPU:1 [LOST 3 EVENTS]\n", "7,0 R 8 + 8\n"] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }
}
