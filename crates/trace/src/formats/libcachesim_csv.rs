//! libCacheSim's CSV: a line of column names, then a request for an object a line.
//!
//! J. Yang, Y. Yue and R. Vinayak, libCacheSim: its samples data/cloudPhysicsIO.csv (`version,time,op,size,lbn`) and
//! data/twitter_cluster52.csv (`# time, object, size, next_access_vtime`, as its tool tracePrint writes), and the names
//! of its records' fields. libCacheSim itself is told the columns by number; here their names tell them, in any order.
//!
//! - time (also clock_time, real_time, timestamp): seconds, with or without a fraction; 0 throughout if there is none.
//! - obj_id (also object, lbn): the object; here a page. It must be there.
//! - op: what is done with the object: a word of libCacheSim's, or a SCSI operation code in hexadecimal as in
//!   cloudPhysicsIO; all are reads if there is none. Deletions and other commands are skipped.
//! - others (obj_size, next_access_vtime, version, ...): skipped.
//!
//! An object is a page whatever its size, as libCacheSim replays it, also where it is the first block of a disk
//! request: read the vSCSI trace for ranges of bytes. An object whose id is no number gets one (see [`Pages`]). Commas
//! separate; quotes have no meaning.

use super::{Format, fields, vscsi};
use crate::error::Result;
use crate::input::{Head, Lines};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use foldhash::fast::RandomState;
use forebay_basis::Operation;
use hashbrown::HashMap;

pub(super) const FORMAT: Format = Format {
    name: "libcachesim-csv",
    title: "libCacheSim CSV: named columns, among them obj_id",
    source: "J. Yang, Y. Yue and R. Vinayak, libCacheSim",
    recognise: is_libcachesim,
    open: |input, _| {
        let mut lines = input.lines();
        let columns = lines.next_line()?.and_then(Columns::of);
        match columns {
            Some(columns) => Ok(Box::new(LibcachesimCsv { lines, columns, pages: Pages::default() })),
            None => Err(lines.error(
                "names no column obj_id, object or lbn; add a line of column names, such as time,obj_id,obj_size",
            )),
        }
    },
    example: b"time,obj_id,obj_size,next_access_vtime,op\n\
               0,13053225291711363978,737,3,read\n\
               0,61177148907475485,248,-1,write\n\
               1,user:17,4096,-1,get\n\
               2,13053225291711363978,737,-1,read\n",
};

const TIME: [&str; 4] = ["time", "clock_time", "real_time", "timestamp"];
const OBJECT: [&str; 3] = ["obj_id", "object", "lbn"];
const UNUSED: [&str; 8] =
    ["obj_size", "size", "next_access_vtime", "version", "ttl", "tenant", "tenant_id", "namespace"];

/// Whether the first line is one that libCacheSim's files have: only columns that it knows, and an object named in its
/// way. `object` and `lbn` alone could be another's words.
fn is_libcachesim(head: &Head<'_>) -> bool {
    let first = head.bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let Ok(first) = std::str::from_utf8(first) else { return false };
    let names: Vec<&str> = names(first).collect();
    let known = |name: &&str| *name == "op" || TIME.contains(name) || OBJECT.contains(name) || UNUSED.contains(name);
    let shaped = names.contains(&"obj_id")
        || (first.starts_with('#') && names.starts_with(&["time", "object", "size"]))
        || names == ["version", "time", "op", "size", "lbn"];
    shaped && names.iter().all(known)
}

/// The column names of a first line, which may be a comment.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('#').split(',').map(str::trim_ascii)
}

struct Columns {
    count: usize,
    time: Option<usize>,
    object: usize,
    operation: Option<usize>,
}

impl Columns {
    /// The columns that a first line names, if one of them is the object.
    fn of(line: &str) -> Option<Self> {
        let position = |wanted: &[&str]| wanted.iter().find_map(|wanted| names(line).position(|name| name == *wanted));
        Some(Self {
            count: names(line).count(),
            time: position(&TIME),
            object: position(&OBJECT)?,
            operation: position(&["op"]),
        })
    }
}

struct LibcachesimCsv {
    lines: Lines,
    columns: Columns,
    pages: Pages,
}

impl Reader for LibcachesimCsv {
    fn unit(&self) -> Unit {
        Unit::Pages
    }

    fn holds_objects(&self) -> bool {
        true
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        let Self { lines, columns, pages } = self;
        while lines.next_content()?.is_some() {
            let (mut time, mut object, mut word, mut found) = ("0", "", "read", 0);
            for (index, field) in lines.line().split(',').map(str::trim_ascii).enumerate() {
                found += 1;
                if index == columns.object {
                    object = field;
                } else if Some(index) == columns.time {
                    time = field;
                } else if Some(index) == columns.operation {
                    word = field;
                }
            }
            if found != columns.count {
                let count = columns.count;
                return Err(lines.error(format!("expected {count} fields, as the first line names, found {found}")));
            }
            let time = fields::seconds(lines, "time", time)?;
            let Some(operation) = operation(lines, word)? else { continue };
            if object.is_empty() {
                return Err(lines.error("the object has no id; every request must name its object"));
            }
            let Some(offset) = pages.page(object) else {
                return Err(lines.error("the trace has 2^32 ids that are no numbers; number its objects first"));
            };
            return Ok(Some(Request { time, owner: 0, object: 0, offset, length: 1, operation }));
        }
        Ok(None)
    }
}

/// What is done with the object; nothing if it is neither read nor written.
fn operation(lines: &Lines, word: &str) -> Result<Option<Operation>> {
    const READS: [&str; 4] = ["r", "read", "get", "gets"];
    const WRITES: [&str; 11] =
        ["w", "write", "set", "add", "cas", "replace", "append", "prepend", "incr", "decr", "update"];
    const NEITHER: [&str; 3] = ["nop", "delete", "invalid"];
    let is = |known: &&str| known.eq_ignore_ascii_case(word);
    if READS.iter().any(is) {
        Ok(Some(Operation::Read))
    } else if WRITES.iter().any(is) {
        Ok(Some(Operation::Write))
    } else if NEITHER.iter().any(is) {
        Ok(None)
    } else if word.len() == 2
        && let Ok(code) = u16::from_str_radix(word, 16)
    {
        Ok(vscsi::operation(code))
    } else {
        let word = fields::shorten(word);
        Err(lines.error(format!("op `{word}` is neither a word such as read or set nor a SCSI code such as 2a")))
    }
}

/// Numbers for ids.
///
/// An id that is a number is its own page. Others are numbered by first mention from 2^64 - 1 downwards. So that the
/// two never meet, the 2^32 largest numbers are treated like ids that are none.
#[derive(Default)]
struct Pages {
    numbered: HashMap<Box<str>, u32, RandomState>,
}

impl Pages {
    /// The page of an id; none if 2^32 have been numbered.
    fn page(&mut self, id: &str) -> Option<u64> {
        const NUMBERED: u64 = u64::MAX - u32::MAX as u64;
        // `007` and `+7` are names of their own, not another way to write 7.
        let plain = id == "0" || id.starts_with(|first: char| matches!(first, '1'..='9'));
        if plain && let Some(page) = id.parse().ok().filter(|&page| page < NUMBERED) {
            return Some(page);
        }
        let number = match self.numbered.get(id) {
            Some(&number) => number,
            None => {
                let number = u32::try_from(self.numbered.len()).ok()?;
                self.numbered.insert(id.into(), number);
                number
            }
        };
        Some(u64::MAX - u64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    fn seen(trace: &[u8]) -> Vec<(u64, u64, Operation)> {
        assert!(recognises(&FORMAT, trace));
        let (_, requests) = requests(&FORMAT, trace);
        assert!(requests.iter().all(|request| request.length == 1));
        requests.iter().map(|request| (request.time, request.offset, request.operation)).collect()
    }

    #[test]
    fn objects_are_pages_and_seconds_become_nanoseconds() {
        assert_eq!(
            seen(FORMAT.example),
            [
                (0, 13_053_225_291_711_363_978, Operation::Read),
                (0, 61_177_148_907_475_485, Operation::Write),
                (1_000_000_000, u64::MAX, Operation::Read),
                (2_000_000_000, 13_053_225_291_711_363_978, Operation::Read),
            ]
        );
    }

    #[test]
    fn the_sample_of_disk_requests_has_scsi_codes() {
        let trace = b"version,time,op,size,lbn\n1,33898,2a,512,42932745\n1,33898,35,0,0\n1,33899,28,6144,31954535\n";
        assert_eq!(
            seen(trace),
            [(33_898_000_000_000, 42_932_745, Operation::Write), (33_899_000_000_000, 31_954_535, Operation::Read)]
        );
    }

    #[test]
    fn the_sample_of_twitter_has_its_names_in_a_comment() {
        let trace = b"# time, object, size, next_access_vtime\n0, 13053225291711363978, 737, 13\n0, 6, 248, 6570713\n";
        assert_eq!(seen(trace), [(0, 13_053_225_291_711_363_978, Operation::Read), (0, 6, Operation::Read)]);
    }

    #[test]
    fn ids_that_are_no_numbers_keep_their_page_and_meet_no_other() {
        let mut pages = Pages::default();
        let largest = u64::MAX.to_string();
        let got = ["b", "7", "a", "b", "007", "+7", &largest, "18446744069414584319"].map(|id| pages.page(id));
        let max = u64::MAX;
        assert_eq!(
            got,
            [max, 7, max - 1, max, max - 2, max - 3, max - 4, 18_446_744_069_414_584_319].map(Some),
            "the last is the largest number that is its own page"
        );
    }

    #[test]
    fn columns_of_others_are_not_recognised() {
        for trace in [
            "time,object,offset,length,operation\n0,data.db,8192,4096,read\n",
            "time,object,size\n0,1,2\n",
            "time,op,lbn\n0,R,2\n",
            "time,obj_id,owner\n0,1,2\n",
            "0,1,2\n",
        ] {
            assert!(!recognises(&FORMAT, trace.as_bytes()), "{trace}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (trace, message) in [
            (
                "0,1,2\n",
                "trace: line 1: names no column obj_id, object or lbn; \
                 add a line of column names, such as time,obj_id,obj_size",
            ),
            ("time,obj_id\n1,2,3\n", "trace: line 2: expected 2 fields, as the first line names, found 3"),
            ("time,obj_id\n1,2\n1\n", "trace: line 3: expected 2 fields, as the first line names, found 1"),
            ("time,obj_id\nx,2\n", "trace: line 2: time `x` is no time in seconds"),
            ("time,obj_id\n1,\n", "trace: line 2: the object has no id; every request must name its object"),
            (
                "op,obj_id\nfly,2\n",
                "trace: line 2: op `fly` is neither a word such as read or set nor a SCSI code such as 2a",
            ),
        ] {
            assert_eq!(error(&FORMAT, trace.as_bytes()), message);
        }
    }
}
