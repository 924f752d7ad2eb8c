//! DAMON's view of memory: lines of the event `damon_aggregated`, printed by `perf script`, `trace-cmd report` or tracefs.
//!
//! Source: the kernel's `Documentation/admin-guide/mm/damon/usage.rst`, "Tracepoints for Monitoring Results", and
//! `include/trace/events/damon.h`. Record with `perf record -e damon:damon_aggregated -a`. A line is
//!
//! ```text
//! kdamond.0  4452 [000] 82820.952659: damon:damon_aggregated: target_id=0 nr_regions=8 94253031862272-94253040992256: 3 12
//! ```
//!
//! - the kernel's thread, processor, time and event as in [`ftrace`](super::ftrace); other events are skipped
//! - target_id (`pid` in kernels before 5.14): the address space; the object
//! - nr_regions: regions of the target; not used
//! - the region: its first address and the one behind it, in bytes
//! - in how many samples of the aggregation interval it was found accessed; and, since Linux 5.16, its age, which is not used
//!
//! DAMON takes the pages of a region for equally used. So a region that was accessed is one read of all its bytes at the end of the interval,
//! however often it was accessed in it, as a page in `forebay record --memory --epochs`; and one that was not, none.

use super::by_line::by_line;
use super::ftrace::{Event, is_loss};
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "damon",
    title: "DAMON (perf script, trace-cmd, tracefs): the event damon_aggregated",
    source: "the kernel's Documentation/admin-guide/mm/damon/usage.rst",
    recognise: |head| {
        let events: Vec<_> = head.lines(20).into_iter().filter(|line| !is_loss(line)).map(Event::cut).collect();
        events.iter().flatten().any(|event| event.name == EVENT) && events.iter().all(Option::is_some)
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Bytes, request)),
    // Lines 15 to 19 of the sample of damonitor/damo.
    example: b"\
       kdamond.0  4452 [000] 82821.049574: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=11 139673965490176-139673967730688: 0
       kdamond.0  4452 [000] 82821.049574: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=11 139673967730688-139673969971200: 0
       kdamond.0  4452 [000] 82821.049575: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=11 139673969971200-139673971892224: 0
       kdamond.0  4452 [000] 82821.049575: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=11 140731666935808-140731667042304: 0
       kdamond.0  4452 [000] 82821.049576: damon:damon_aggregated: target_id=18446623435582458880 nr_regions=11 140731667042304-140731668037632: 1
",
};

/// The event that is a region.
const EVENT: &str = "damon_aggregated";

fn request(lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
    let line = lines.line();
    if is_loss(line) {
        return Ok(None);
    }
    let Some(event) = Event::cut(line) else {
        let found = fields::shorten(line);
        return Err(lines.error(format!("expected `thread number [processor] time: event: …`, found `{found}`")));
    };
    if event.name != EVENT {
        return Ok(None);
    }
    let Some(region) = Region::cut(event.rest) else {
        let found = fields::shorten(event.rest.trim_ascii());
        return Err(lines.error(format!("expected `target_id=ID nr_regions=N FIRST-END: ACCESSES`, found `{found}`")));
    };
    let start = fields::number(lines, "first address", region.start)?;
    let end = fields::number(lines, "end address", region.end)?;
    let accesses = fields::number(lines, "number of accesses", region.accesses)?;
    let time = fields::seconds(lines, "time", event.time)?;
    let Some(length) = end.checked_sub(start) else {
        return Err(lines.error(format!("the region ends at {end}, before it begins at {start}")));
    };
    if accesses == 0 {
        return Ok(None);
    }
    let object = names.object(region.target);
    Ok(Some(Request { time, owner: 0, object, offset: start, length, operation: Operation::Read }))
}

/// The parts of an event's text.
struct Region<'a> {
    target: &'a str,
    start: &'a str,
    end: &'a str,
    accesses: &'a str,
}

impl<'a> Region<'a> {
    fn cut(text: &'a str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let target = words.next()?;
        let target = target.strip_prefix("target_id=").or_else(|| target.strip_prefix("pid="))?;
        words.next()?.strip_prefix("nr_regions=")?;
        let (start, end) = words.next()?.strip_suffix(':')?.split_once('-')?;
        let accesses = words.next()?;
        Some(Self { target, start, end, accesses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    #[test]
    fn a_region_that_was_accessed_is_a_read_of_it() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let (offset, length) = (140_731_667_042_304, 995_328);
        let time = 82_821_049_576_000;
        assert_eq!(requests, [Request { time, owner: 0, object: 1, offset, length, operation: Operation::Read }]);
        assert_eq!(names.objects(), ["", "18446623435582458880"]);
    }

    #[test]
    fn other_kernels_and_programs_print_the_event_otherwise() {
        for line in [
            "kdamond.0 4452 [000] 82820.9: damon:damon_aggregated: target_id=1 nr_regions=8 4096-8192: 3 12",
            " kdamond.0-4452 [000] ..... 82820.9: damon_aggregated: target_id=1 nr_regions=8 4096-8192: 3 12",
            " kdamond.0-4452 [000] 82820.9: damon_aggregated:     pid=1 nr_regions=8 4096-8192: 3",
        ] {
            let (names, requests) = requests(&FORMAT, line.as_bytes());
            assert_eq!(
                (requests[0].offset, requests[0].length, names.objects()[1].as_str()),
                (4096, 4096, "1"),
                "{line}"
            );
            assert!(recognises(&FORMAT, line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn other_events_are_skipped_and_not_recognised() {
        let other = "kdamond.0 4452 [000] 1.5: damon:damos_before_apply: ctx_idx=0 scheme_idx=0\n";
        assert!(!recognises(&FORMAT, other.as_bytes()));
        assert!(requests(&FORMAT, other.as_bytes()).1.is_empty());
    }

    #[test]
    fn errors_name_the_line_and_what_is_wrong() {
        for (rest, says) in [
            ("garbage", "expected `thread number [processor] time: event: …`"),
            (
                "kdamond.0 1 [000] 1.5: damon:damon_aggregated: target_id=1 nr_regions=8 4096-81",
                "expected `target_id=ID",
            ),
            ("kdamond.0 1 [000] 1.5: damon:damon_aggregated: target_id=1 nr_regions=8 2-1: 3", "before it begins at 2"),
            ("kdamond.0 1 [000] 1.5: damon:damon_aggregated: target_id=1 nr_regions=8 x-1: 3", "first address `x`"),
        ] {
            let message = error(&FORMAT, [FORMAT.example, rest.as_bytes(), b"\n"].concat().as_slice());
            assert!(message.starts_with("trace: line 6: ") && message.contains(says), "{rest}: {message}");
        }
    }
}
