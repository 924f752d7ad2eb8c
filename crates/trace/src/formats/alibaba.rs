//! Alibaba block traces of 2020: a request a line, comma-separated, of a thousand volumes of a cloud.
//!
//! J. Li, Q. Wang, P. P. C. Lee and C. Shi, "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale
//! Production", IISWC 2020; the README of the project alibaba/block-traces.
//!
//! - device_id: the volume's number; the object.
//! - opcode: `R` or `W`.
//! - offset, length: bytes.
//! - timestamp: microseconds since 1970.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};

/// Nanoseconds in a tick of the timestamp.
const TICK: u64 = 1_000;

pub(super) const FORMAT: Format = Format {
    name: "alibaba",
    title: "Alibaba 2020: device, R or W, offset, bytes, microseconds",
    source: "J. Li, Q. Wang, P. P. C. Lee and C. Shi, Cloud Block Storage Workloads, IISWC 2020",
    recognise: |head| {
        head.lines_all(|line| {
            let words: Vec<&str> = line.split(',').map(str::trim_ascii).collect();
            let &[device, opcode, offset, length, time] = words.as_slice() else { return false };
            [device, offset, length, time].into_iter().all(fields::is_number) && matches!(opcode, "R" | "W")
        })
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Bytes, request)),
    example: b"419,W,8792731648,16384,1577808000000046\n\
               725,R,59110326272,360448,1577808000000360\n\
               419,R,8792731648,4096,1577808000002012\n",
};

fn request(lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
    let [device, opcode, offset, length, time] = fields::split(lines, ',', "device_id,opcode,offset,length,timestamp")?;
    fields::number(lines, "device_id", device)?;
    let operation = fields::operation(lines, "opcode", opcode)?;
    let offset = fields::number(lines, "offset", offset)?;
    let length = fields::number(lines, "length", length)?;
    let time = fields::ticks(lines, "timestamp", time, TICK)?;
    fields::check_end(lines, offset, length)?;
    Ok(Some(Request { time, owner: 0, object: names.object(device), offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, requests};
    use forebay_basis::Operation;

    #[test]
    fn microseconds_become_nanoseconds_and_the_device_is_the_object() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        assert_eq!(
            requests[0],
            Request {
                time: 1_577_808_000_000_046_000,
                owner: 0,
                object: 1,
                offset: 8_792_731_648,
                length: 16_384,
                operation: Operation::Write
            }
        );
        assert_eq!((requests[1].object, requests[1].operation), (2, Operation::Read));
        assert_eq!(requests[2].object, 1);
        assert_eq!(names.objects(), ["", "419", "725"]);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (trace, message) in [
            ("419,W,0,512\n", "trace: line 1: expected 5 fields (device_id,opcode,offset,length,timestamp), found 4"),
            ("419,W,0,512,1\n\n419,D,0,512,1\n", "trace: line 3: opcode `D` is neither a read nor a write"),
            ("419,W,0,512,1.5\n", "trace: line 1: timestamp `1.5` is no whole number below 2^64"),
            (
                "419,W,0,512,18446744073709552\n",
                "trace: line 1: timestamp `18446744073709552` is beyond 2^64 nanoseconds",
            ),
            (
                "419,W,1,18446744073709551615,1\n",
                "trace: line 1: a request of 18446744073709551615 from 1 on ends beyond 2^64",
            ),
        ] {
            assert_eq!(error(&FORMAT, trace.as_bytes()), message);
        }
    }
}
