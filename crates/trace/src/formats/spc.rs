//! SPC traces: a request a line, comma-separated, as in the UMass repository (Financial1, WebSearch1 and others).
//!
//! Storage Performance Council, "SPC Trace File Format Specification", revision 1.0.1, 2002.
//!
//! - ASU: the application-specific unit, a volume's number; the object `asu N`.
//! - LBA: the first block within the unit.
//! - Size: bytes, not necessarily whole blocks; 0 is legal.
//! - Opcode: `R` or `W` in any case.
//! - Timestamp: seconds since the trace's start, with a fraction.
//! - Further fields are optional and the trace's own; they are skipped.
//!
//! The specification leaves the size of a block to each trace's description. It is taken to be 512 bytes, as in the
//! UMass traces.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};

pub(super) const FORMAT: Format = Format {
    name: "spc",
    title: "SPC/UMass: unit, 512-byte block, bytes, R or W, seconds",
    source: "Storage Performance Council, SPC Trace File Format Specification 1.0.1, 2002",
    recognise: |head| {
        head.lines_all(|line| {
            let mut words = line.split(',').map(str::trim_ascii);
            words.by_ref().take(3).filter(|word| fields::is_number(word)).count() == 3
                && words.next().is_some_and(|opcode| matches!(opcode, "R" | "r" | "W" | "w"))
                && words.next().is_some_and(|time| fields::parse_seconds(time).is_some())
        })
    },
    open: |input, _| {
        // Holds the object's name while it is looked up.
        let mut object = String::new();
        Ok(by_line(input.lines(), Unit::Bytes, move |lines, names| request(lines, names, &mut object)))
    },
    example: b"0,20939840,8192,R,0.551706\n0,20939808,8192,r,0.554041\n1,3436288,15872,W,1.011732,7,x\n",
};

fn request(lines: &Lines, names: &mut Names, object: &mut String) -> Result<Option<Request>> {
    let mut words = lines.line().split(',').map(str::trim_ascii);
    let (Some(unit), Some(first), Some(size), Some(opcode), Some(time)) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        let found = lines.line().split(',').count();
        return Err(lines.error(format!("expected 5 fields or more (ASU,LBA,size,opcode,timestamp), found {found}")));
    };
    fields::number(lines, "ASU", unit)?;
    let offset = fields::blocks(lines, "LBA", first)?;
    let length = fields::number(lines, "size", size)?;
    let operation = fields::operation(lines, "opcode", opcode)?;
    let time = fields::seconds(lines, "timestamp", time)?;
    fields::check_end(lines, offset, length)?;
    object.clear();
    object.push_str("asu ");
    object.push_str(unit);
    Ok(Some(Request { time, owner: 0, object: names.object(object), offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, requests};
    use forebay_basis::Operation;

    #[test]
    fn blocks_become_bytes_and_seconds_nanoseconds() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        assert_eq!(
            requests[0],
            Request {
                time: 551_706_000,
                owner: 0,
                object: 1,
                offset: 20_939_840 * 512,
                length: 8192,
                operation: Operation::Read
            }
        );
        assert_eq!(requests[1].operation, Operation::Read);
        assert_eq!(requests[1].object, 1);
        assert_eq!((requests[2].operation, requests[2].length), (Operation::Write, 15_872));
        assert_eq!(names.objects(), ["", "asu 0", "asu 1"]);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn fields_may_be_surrounded_by_spaces_and_followed_by_others() {
        let (_, requests) = requests(&FORMAT, b" 3 , 2 , 512 , w , 4 , anything\r\n");
        assert_eq!((requests[0].offset, requests[0].time), (1024, 4_000_000_000));
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (trace, message) in [
            ("0,1,2,R\n", "trace: line 1: expected 5 fields or more (ASU,LBA,size,opcode,timestamp), found 4"),
            ("0,1,2,R,0\nx,1,2,R,0\n", "trace: line 2: ASU `x` is no whole number below 2^64"),
            ("0,-1,2,R,0\n", "trace: line 1: LBA `-1` is no whole number below 2^64"),
            ("0,1,,R,0\n", "trace: line 1: size `` is no whole number below 2^64"),
            ("0,1,2,X,0\n", "trace: line 1: opcode `X` is neither a read nor a write"),
            ("0,1,2,R,soon\n", "trace: line 1: timestamp `soon` is no time in seconds"),
            (
                "0,36028797018963968,2,R,0\n",
                "trace: line 1: LBA `36028797018963968` is beyond 2^64 bytes in 512-byte blocks",
            ),
            (
                "0,36028797018963967,1024,R,0\n",
                "trace: line 1: a request of 1024 from 18446744073709551104 on ends beyond 2^64",
            ),
        ] {
            assert_eq!(error(&FORMAT, trace.as_bytes()), message);
        }
    }
}
