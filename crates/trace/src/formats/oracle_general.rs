//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes, one an object's request.
//!
//! J. Yang, Y. Yue and R. Vinayak, libCacheSim, traceReader/customizedReader/oracle/oracleGeneralBin.h; the format of
//! the traces released with J. Yang, Y. Zhang, Z. Qiu, Y. Yue and R. Vinayak, "FIFO Queues Are All You Need for Cache
//! Eviction", SOSP 2023.
//!
//! - time: u32, seconds.
//! - obj_id: u64, the object's number; here a page.
//! - obj_size: u32, bytes; a page has one size here, so it is not used.
//! - next_access_vtime: i64, the number of the request that asks for the object next; -1 or the largest number if none
//!   does. It is not used: OPT finds out for itself.
//!
//! A request of size 0 is skipped, as libCacheSim does. The format knows no operation: all requests are reads.
//!
//! The records have no mark. Content is recognised if every record in the front of the file is plausible; reading
//! refuses only what no oracleGeneral file holds, a negative next_access_vtime, since pieces of traces and traces put
//! together number and date their requests from elsewhere. (-2 is libCacheSim's word for one not known.)

use super::Format;
use crate::error::Result;
use crate::input::{Bytes, Head};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

const RECORD: usize = 24;
/// More requests than any trace has: text and other binary data, read as a request's number, are larger.
const MOST_REQUESTS: i64 = 1 << 40;

pub(super) const FORMAT: Format = Format {
    name: "oracle-general",
    title: "libCacheSim oracleGeneral: binary seconds, object, size, next request of the object",
    source: "J. Yang, Y. Yue and R. Vinayak, libCacheSim",
    recognise: |head| is_named(head) || is_plausible(head.bytes),
    open: |input, _| Ok(Box::new(OracleGeneral { bytes: input.bytes() })),
    example: b"\x0a\0\0\0\x07\0\0\0\0\0\0\0\0\x02\0\0\x02\0\0\0\0\0\0\0\
               \x0a\0\0\0\x09\0\0\0\0\0\0\0\0\x10\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
               \x0c\0\0\0\x07\0\0\0\0\0\0\0\0\x02\0\0\xff\xff\xff\xff\xff\xff\xff\x7f",
};

/// Whether the file is called after the format and its first record is none of text: the same trace as text is often
/// called so too.
fn is_named(head: &Head<'_>) -> bool {
    head.name.contains("oraclegeneral")
        && head.bytes.first_chunk().is_some_and(|record| {
            let next = Record::of(record).next;
            next == i64::MAX || (-2..MOST_REQUESTS).contains(&next)
        })
}

/// Whether all whole records are plausible, and there is one.
fn is_plausible(bytes: &[u8]) -> bool {
    let mut time = 0;
    bytes.len() >= RECORD
        && bytes.as_chunks().0.iter().map(Record::of).zip(0..).all(|(record, index)| {
            let in_order = record.time >= time;
            time = record.time;
            let next = matches!(record.next, -1 | i64::MAX) || (index + 1..MOST_REQUESTS).contains(&record.next);
            in_order && record.size > 0 && next
        })
}

struct Record {
    time: u32,
    object: u64,
    size: u32,
    next: i64,
}

impl Record {
    #[inline]
    fn of(bytes: &[u8; RECORD]) -> Self {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self { time: word(0) as u32, object: word(4), size: word(12) as u32, next: word(16).cast_signed() }
    }
}

struct OracleGeneral {
    bytes: Bytes,
}

/// Records parsed at once, in the first-level cache.
const RECORDS: usize = 512;

/// The request of a record, if it has one.
fn request(record: &[u8; RECORD]) -> Option<Request> {
    let Record { time, object: offset, size, .. } = Record::of(record);
    let time = u64::from(time) * 1_000_000_000;
    (size > 0).then_some(Request { time, owner: 0, object: 0, offset, length: 1, operation: Operation::Read })
}

impl OracleGeneral {
    /// The next records, at most `most`; none at the end.
    fn records(&mut self, most: usize, take: &mut impl FnMut(Request)) -> Result<usize> {
        let records = self.bytes.records::<RECORD>(most)?;
        let length = records.len();
        let mut refused = None;
        for (index, record) in records.iter().enumerate() {
            let next = Record::of(record).next;
            if next < -2 {
                refused = Some((index, next));
                break;
            }
            if let Some(request) = request(record) {
                take(request);
            }
        }
        if let Some((index, next)) = refused {
            let message = format!("next_access_vtime {next} is negative; this is no oracleGeneral record");
            return Err(self.bytes.error(((length - index) * RECORD) as u64, message));
        }
        Ok(length)
    }
}

impl Reader for OracleGeneral {
    fn unit(&self) -> Unit {
        Unit::Pages
    }

    fn holds_objects(&self) -> bool {
        true
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        let mut next = None;
        while next.is_none() && self.records(1, &mut |request| next = Some(request))? > 0 {}
        Ok(next)
    }

    fn fill(&mut self, _: &mut Names, most: usize, batch: &mut Vec<Request>) -> Result<bool> {
        let most = batch.len() + most;
        while batch.len() < most {
            if self.records(RECORDS.min(most - batch.len()), &mut |request| batch.push(request))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};
    use crate::formats::vscsi;

    fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
        [&time.to_le_bytes()[..], &object.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    }

    fn named(name: &str, bytes: &[u8]) -> bool {
        (FORMAT.recognise)(&Head { name, bytes })
    }

    #[test]
    fn an_object_is_a_page_and_seconds_become_nanoseconds() {
        let (_, requests) = requests(&FORMAT, FORMAT.example);
        let request =
            |time, offset| Request { time, owner: 0, object: 0, offset, length: 1, operation: Operation::Read };
        assert_eq!(requests, [request(10_000_000_000, 7), request(10_000_000_000, 9), request(12_000_000_000, 7)]);
    }

    #[test]
    fn the_largest_numbers_are_read() {
        let (_, requests) = requests(&FORMAT, &record(u32::MAX, u64::MAX, u32::MAX, i64::MAX));
        assert_eq!((requests[0].time, requests[0].offset), (4_294_967_295_000_000_000, u64::MAX));
    }

    #[test]
    fn requests_of_size_zero_are_skipped() {
        let trace = [record(1, 5, 0, -1), record(2, 6, 1, -1)].concat();
        let (_, requests) = requests(&FORMAT, &trace);
        assert_eq!((requests.len(), requests[0].offset), (1, 6));
    }

    #[test]
    fn only_plausible_records_are_recognised() {
        assert!(recognises(&FORMAT, &[record(1, 5, 1, 1), record(1, 5, 1, -1)].concat()));
        // Times that go back, a size of zero, a next request before its own, more requests than any trace has.
        assert!(!recognises(&FORMAT, &[record(2, 5, 1, 1), record(1, 5, 1, -1)].concat()));
        assert!(!recognises(&FORMAT, &record(1, 5, 0, -1)));
        assert!(!recognises(&FORMAT, &[record(1, 5, 1, 1), record(1, 6, 1, 1)].concat()));
        assert!(!recognises(&FORMAT, &record(1, 5, 1, MOST_REQUESTS)));
        assert!(!recognises(&FORMAT, b"1936993 8 0 0\n793041 16 0 1\n"));
        assert!(!recognises(&FORMAT, vscsi::FORMAT.example));
    }

    #[test]
    fn a_name_suffices_for_records_in_any_order_but_not_for_text() {
        let piece = [record(9, 5, 1, 4), record(1, 6, 1, 0)].concat();
        assert!(!named("trace", &piece));
        assert!(named("w106.oraclegeneral.bin", &piece));
        assert!(!named("w106.oraclegeneral.csv", b"time,obj_id,obj_size,next_access_vtime\n1,5,1,-1\n"));
    }

    #[test]
    fn errors_name_the_byte_of_the_record() {
        let trace = [record(1, 5, 1, -1), record(1, 6, 1, -3)].concat();
        assert_eq!(
            error(&FORMAT, &trace),
            "trace: byte 24: next_access_vtime -3 is negative; this is no oracleGeneral record"
        );
        assert_eq!(
            error(&FORMAT, &trace[..25]),
            "trace: byte 24: the file ends after 1 of the 24 bytes of a record; it is cut short, copy it again"
        );
    }
}
