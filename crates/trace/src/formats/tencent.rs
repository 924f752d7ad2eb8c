//! Tencent CBS traces: a request a line, comma-separated, ten days of the volumes of one warehouse of a cloud.
//!
//! Y. Zhang, P. Huang, K. Zhou, H. Wang, J. Hu, Y. Ji and B. Cheng, "OSCA: An Online-Model Based Cache Allocation
//! Scheme in Cloud Block Storage Systems", USENIX ATC 2020; released as SNIA IOTTA trace 27917, whose README describes
//! the fields.
//!
//! - Timestamp: seconds since 1970.
//! - Offset, Size: 512-byte sectors, within the volume.
//! - IOType: 0 read, 1 write.
//! - VolumeID: the volume's number; the object.
//!
//! Five numbers could be many things: a file is only recognised as this format if its times lie between 2001 and 2286.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;
use std::ops::Range;

/// The times, in seconds since 1970, that are taken for times when a file is to be recognised: of ten digits.
const TIMES: Range<u64> = 1_000_000_000..10_000_000_000;

pub(super) const FORMAT: Format = Format {
    name: "tencent",
    title: "Tencent CBS: seconds, 512-byte sector, sectors, 0 (read) or 1 (write), volume",
    source: "Y. Zhang et al., OSCA, USENIX ATC 2020",
    recognise: |head| {
        head.lines_all(|line| {
            let words: Vec<&str> = line.split(',').map(str::trim_ascii).collect();
            let &[time, offset, size, kind, volume] = words.as_slice() else { return false };
            time.parse().is_ok_and(|time| TIMES.contains(&time))
                && [offset, size, volume].into_iter().all(fields::is_number)
                && matches!(kind, "0" | "1")
        })
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Bytes, request)),
    example: b"1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n1538323201,12910952,8,1,1063\n",
};

fn request(lines: &Lines, names: &mut Names) -> Result<Option<Request>> {
    let [time, offset, size, kind, volume] = fields::split(lines, ',', "Timestamp,Offset,Size,IOType,VolumeID")?;
    let time = fields::seconds(lines, "Timestamp", time)?;
    let offset = fields::blocks(lines, "Offset", offset)?;
    let length = fields::blocks(lines, "Size", size)?;
    let operation = match kind {
        "0" => Operation::Read,
        "1" => Operation::Write,
        _ => {
            let message = format!("IOType `{}` is neither 0 (read) nor 1 (write)", fields::shorten(kind));
            return Err(lines.error(message));
        }
    };
    fields::number(lines, "VolumeID", volume)?;
    fields::check_end(lines, offset, length)?;
    Ok(Some(Request { time, owner: 0, object: names.object(volume), offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    #[test]
    fn sectors_become_bytes_and_the_volume_is_the_object() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        assert_eq!(
            requests[0],
            Request {
                time: 1_538_323_200_000_000_000,
                owner: 0,
                object: 1,
                offset: 12_910_952 * 512,
                length: 65_536,
                operation: Operation::Read
            }
        );
        assert_eq!((requests[1].object, requests[1].operation), (2, Operation::Write));
        assert_eq!(names.objects(), ["", "1063", "1627"]);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn five_numbers_without_a_date_are_not_recognised() {
        assert!(!recognises(&FORMAT, b"17,12910952,128,0,1063\n"));
        assert!(!recognises(&FORMAT, b"1538323200,12910952,128,2,1063\n"));
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (trace, message) in [
            ("1538323200,1,8,0\n", "trace: line 1: expected 5 fields (Timestamp,Offset,Size,IOType,VolumeID), found 4"),
            ("1538323200,1,8,2,7\n", "trace: line 1: IOType `2` is neither 0 (read) nor 1 (write)"),
            ("1538323200,1,8,0,7\n1538323200,1,8,0,v\n", "trace: line 2: VolumeID `v` is no whole number below 2^64"),
            (
                "1538323200,1,36028797018963968,0,7\n",
                "trace: line 1: Size `36028797018963968` is beyond 2^64 bytes in 512-byte blocks",
            ),
            (
                "1538323200,36028797018963967,1,0,7\n",
                "trace: line 1: a request of 512 from 18446744073709551104 on ends beyond 2^64",
            ),
        ] {
            assert_eq!(error(&FORMAT, trace.as_bytes()), message);
        }
    }
}
