//! MQSim's disk traces: a request a line, its numbers separated by spaces. DiskSim's ASCII traces have the same columns.
//!
//! A. Tavakkol, J. Gómez-Luna, M. Sadrosadati, S. Ghose and O. Mutlu, "MQSim: A Framework for Enabling Realistic Studies of Modern
//! Multi-Queue SSD Devices", FAST 2018; its README, "Defining a Trace-based Workload".
//!
//! - arrival time: nanoseconds, as in the traces that MQSim ships. Its setting `Time_Unit` may give another unit, which the trace does not say.
//! - device: the object.
//! - first 512-byte sector, number of sectors; counted in bytes, so that the requests show the size of a page.
//! - type: `0` a write, `1` a read. In a [CSV](super::csv) these numbers mean the opposite.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "mqsim",
    title: "MQSim: nanoseconds, device, first 512-byte sector, sectors, 0 (write) or 1 (read)",
    source: "A. Tavakkol et al., MQSim, FAST 2018",
    recognise: |head| {
        // Times in order tell it from any other five numbers.
        let mut latest = 0;
        let lines = head.lines(20);
        !lines.is_empty()
            && lines.into_iter().all(|line| {
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                let &[time, device, sector, sectors, kind] = words.as_slice() else { return false };
                let in_order = time.parse().is_ok_and(|time| std::mem::replace(&mut latest, time) <= time);
                in_order && [device, sector, sectors].into_iter().all(fields::is_number) && matches!(kind, "0" | "1")
            })
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Bytes, request)),
    // Lines 27 to 32 of MQSim's traces/tpcc-small.trace.
    example: b"940833000 8 454514030 120 0\n\
        940888000 7 193987434 16 0\n\
        940888000 14 256024794 16 0\n\
        940900000 7 221502874 32 0\n\
        940908000 14 321930954 16 1\n\
        940970000 8 454514150 15 0\n",
};

fn request(lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
    let mut words = lines.line().split_ascii_whitespace();
    let mut word = || words.next();
    let (Some(time), Some(device), Some(sector), Some(sectors), Some(kind), None) =
        (word(), word(), word(), word(), word(), word())
    else {
        return Err(
            lines.error("expected 5 numbers: nanoseconds, device, first sector, sectors, 0 (write) or 1 (read)")
        );
    };
    let operation = match kind {
        "0" => Operation::Write,
        "1" => Operation::Read,
        _ => return Err(lines.error(format!("type `{}` is neither 0 (write) nor 1 (read)", fields::shorten(kind)))),
    };
    let time = fields::number(lines, "time", time)?;
    fields::number(lines, "device", device)?;
    let offset = fields::blocks(lines, "first sector", sector)?;
    let length = fields::blocks(lines, "number of sectors", sectors)?;
    fields::check_end(lines, offset, length)?;
    Ok(Some(Request { time, owner: 0, object: names.object(device), offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    #[test]
    fn zero_is_a_write_and_the_device_is_the_object() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let first = Request {
            time: 940_833_000,
            owner: 0,
            object: 1,
            offset: 454_514_030 * 512,
            length: 61440,
            operation: Operation::Write,
        };
        assert_eq!(requests[0], first);
        assert_eq!((requests[4].object, requests[4].operation), (3, Operation::Read));
        assert_eq!(names.objects(), ["", "8", "7", "14"]);
    }

    #[test]
    fn other_columns_of_numbers_are_not_recognised() {
        for text in ["1 2 3 4\n", "1 2 3 4 2\n", "2 2 3 4 1\n1 2 3 4 1\n", "1.5 2 3 4 1\n", "1,2,3,4,1\n"] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (line, says) in [
            ("1 2 3 4", "expected 5 numbers"),
            ("1 2 3 4 5", "type `5` is neither 0 (write) nor 1 (read)"),
            ("x 2 3 4 1", "time `x` is no whole number"),
            ("1 2 18446744073709551615 4 1", "first sector `18446744073709551615` is beyond 2^64 bytes"),
            ("1 2 36028797018963967 4 1", "ends beyond 2^64"),
        ] {
            let message = error(&FORMAT, format!("1 2 3 4 1\n{line}\n").as_bytes());
            assert!(message.starts_with("trace: line 2: ") && message.contains(says), "{line}: {message}");
        }
    }
}
