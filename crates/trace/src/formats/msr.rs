//! MSR Cambridge traces: a request a line, comma-separated, one week of the volumes of thirteen servers.
//!
//! D. Narayanan, A. Donnelly and A. Rowstron, "Write Off-Loading: Practical Power Management for Enterprise Storage",
//! FAST 2008; released as SNIA IOTTA trace 388.
//!
//! - Timestamp: Windows filetime, ticks of 100 ns since 1601.
//! - Hostname, DiskNumber: the object `host.disk`.
//! - Type: `Read` or `Write`.
//! - Offset, Size: bytes.
//! - ResponseTime: ticks of 100 ns; skipped.
//!
//! Times stay relative to 1601, so traces of different volumes can be merged by them.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};

/// Nanoseconds in a tick of the filetime.
const TICK: u64 = 100;

pub(super) const FORMAT: Format = Format {
    name: "msr",
    title: "MSR Cambridge: filetime, host, disk, Read or Write, offset, bytes, response time",
    source: "D. Narayanan, A. Donnelly and A. Rowstron, Write Off-Loading, FAST 2008",
    recognise: |head| {
        head.lines_all(|line| {
            let words: Vec<&str> = line.split(',').map(str::trim_ascii).collect();
            let &[time, host, disk, kind, offset, size, response] = words.as_slice() else { return false };
            [time, disk, offset, size, response].into_iter().all(fields::is_number)
                && !host.is_empty()
                && fields::parse_operation(kind).is_some()
        })
    },
    open: |input, _| {
        // Holds the object's name while it is looked up.
        let mut object = String::new();
        Ok(by_line(input.lines(), Unit::Bytes, move |lines, names| request(lines, names, &mut object)))
    },
    example: b"128166372003061629,usr,0,Read,7014609920,24576,41286\n\
               128166372016382155,usr,0,Write,1317441536,8192,1963\n\
               128166372026382245,web,2,Read,2436440064,4096,1835\n",
};

fn request(lines: &Lines, names: &mut Names, object: &mut String) -> Result<Option<Request>> {
    let [time, host, disk, kind, offset, size, _] =
        fields::split(lines, ',', "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")?;
    let time = fields::ticks(lines, "Timestamp", time, TICK)?;
    fields::number(lines, "DiskNumber", disk)?;
    let operation = fields::operation(lines, "Type", kind)?;
    let offset = fields::number(lines, "Offset", offset)?;
    let length = fields::number(lines, "Size", size)?;
    fields::check_end(lines, offset, length)?;
    object.clear();
    object.push_str(host);
    object.push('.');
    object.push_str(disk);
    Ok(Some(Request { time, owner: 0, object: names.object(object), offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, requests};
    use forebay_basis::Operation;

    #[test]
    fn ticks_become_nanoseconds_and_the_disk_is_the_object() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        assert_eq!(
            requests[0],
            Request {
                time: 12_816_637_200_306_162_900,
                owner: 0,
                object: 1,
                offset: 7_014_609_920,
                length: 24_576,
                operation: Operation::Read
            }
        );
        assert_eq!((requests[1].object, requests[1].operation), (1, Operation::Write));
        // The fractions of a second differ by 1.3320526 s in ticks of 100 ns.
        assert_eq!(requests[1].time - requests[0].time, 1_332_052_600);
        assert_eq!(names.objects(), ["", "usr.0", "web.2"]);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (trace, message) in [
            (
                "1,usr,0,Read,0,512\n",
                "trace: line 1: expected 7 fields (Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime), found 6",
            ),
            ("1,usr,0,Trim,0,512,1\n", "trace: line 1: Type `Trim` is neither a read nor a write"),
            ("1,usr,a,Read,0,512,1\n", "trace: line 1: DiskNumber `a` is no whole number below 2^64"),
            (
                "1,usr,0,Read,0,512,1\n184467440737095517,usr,0,Read,0,512,1\n",
                "trace: line 2: Timestamp `184467440737095517` is beyond 2^64 nanoseconds",
            ),
            (
                "1,usr,0,Read,18446744073709551615,1,1\n",
                "trace: line 1: a request of 1 from 18446744073709551615 on ends beyond 2^64",
            ),
        ] {
            assert_eq!(error(&FORMAT, trace.as_bytes()), message);
        }
    }
}
