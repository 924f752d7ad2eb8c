//! CacheLib's traces of key-value caches, as Meta publishes them: a line of column names, then a key used a line.
//!
//! B. Berg et al., "The CacheLib Caching Engine: Design and Experiences at Scale", OSDI 2020; CacheLib's page "Evaluating SSD hardware for
//! Facebook workloads", and its `KVReplayGenerator.h`, which replays them and is followed here. The columns go by name, in any order:
//!
//! - key: a page, whatever the sizes of key and value (see [`csv`](super::csv) for keys that are no numbers). It must be there.
//! - op: `GET` and `GET_LEASE` are reads, `SET` and `SET_LEASE` are writes, and `DELETE` is skipped. Other words are skipped and counted, for
//!   each service has its own. It must be there.
//! - op_count: how many times in a row the key is used; 1 if there is no such column. The format is recognised by it.
//! - op_time: seconds.
//! - usecase: the application; the owner.
//! - others (size, key_size, cache_hits, ttl, sub_usecase): not used.

use super::csv::Keys;
use super::named_columns::{NamedColumns, header};
use super::skipped::UnknownOperations;
use super::{Format, fields};
use crate::error::Result;
use crate::input::{Input, Lines};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

const COLUMNS: [&str; 5] = ["key", "op", "op_count", "op_time", "usecase"];
/// How many of them must be there: key and op.
const REQUIRED: usize = 2;
/// A row of more uses than this is a damaged one.
const MOST_USES: u64 = 1 << 20;

pub(super) const FORMAT: Format = Format {
    name: "cachelib-kv",
    title: "CacheLib's key-value traces: named columns, among them key, op and op_count",
    source: "B. Berg et al., CacheLib, OSDI 2020",
    recognise: |head| NamedColumns::of(header(head), COLUMNS).have(REQUIRED + 1),
    open: |input, _| Ok(Box::new(CacheLib::open(input)?)),
    // Lines of the sample in facebook/CacheLib's cachebench.
    example: b"op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
        604038471,82131353f9ddc8c6,48,GET,1,87,1,0,366387042,3003229276\n\
        604038471,a54f88ab02ece24d,24,GET,3,0,0,0,699950563,699950563\n\
        604038471,749ab7237b8d0372,47,GET_LEASE,7,10,7,0,176962275,176962275\n",
};

struct CacheLib {
    lines: Lines,
    columns: NamedColumns<5>,
    keys: Keys,
    unknown: UnknownOperations,
    /// The use in the line read last, and how often it is still to come.
    last: Option<Request>,
    left: u64,
}

impl CacheLib {
    fn open(input: Input) -> Result<Self> {
        let mut lines = input.lines();
        let columns = NamedColumns::of(lines.next_line()?.unwrap_or_default(), COLUMNS);
        if !columns.have(REQUIRED) {
            return Err(lines.error(
                "names no columns key and op; add CacheLib's line of column names, such as key,op,size,op_count",
            ));
        }
        let (keys, unknown) = (Keys::default(), UnknownOperations::default());
        Ok(Self { lines, columns, keys, unknown, last: None, left: 0 })
    }

    /// The use in the line read last, and how often it comes; `None` if it is no reference.
    fn parse(&mut self, names: &mut Names) -> Result<Option<(Request, u64)>> {
        let Self { lines, columns, keys, unknown, .. } = self;
        let [key, word, count, time, usecase] = columns.fields(lines)?;
        let operation = match word {
            "GET" | "GET_LEASE" => Operation::Read,
            "SET" | "SET_LEASE" => Operation::Write,
            "DELETE" => return Ok(None),
            _ => {
                unknown.count(word);
                return Ok(None);
            }
        };
        let count = if count.is_empty() { 1 } else { fields::number(lines, "op_count", count)? };
        if count > MOST_USES {
            return Err(lines.error(format!("op_count {count} is more than {MOST_USES}; the trace is damaged")));
        }
        let time = if time.is_empty() { 0 } else { fields::seconds(lines, "op_time", time)? };
        let Some(offset) = keys.page(key) else { return Err(lines.error("the key is empty")) };
        let owner = names.owner(usecase);
        Ok(Some((Request { time, owner, object: 0, offset, length: 1, operation }, count)))
    }
}

impl Reader for CacheLib {
    fn unit(&self) -> Unit {
        Unit::Pages
    }

    fn holds_objects(&self) -> bool {
        true
    }

    fn warning(&self) -> Option<String> {
        self.unknown.warning(self.lines.file())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while self.left == 0 {
            if self.lines.next_content()?.is_none() {
                return Ok(None);
            }
            if let Some((request, count)) = self.parse(names)? {
                (self.last, self.left) = (Some(request), count);
            }
        }
        self.left -= 1;
        Ok(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests, warning};

    #[test]
    fn a_row_is_as_many_uses_of_its_key_as_it_counts() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let keys: Vec<u64> = requests.iter().map(|request| request.offset - (1 << 63)).collect();
        assert_eq!(keys, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!((requests[0].time, requests[0].length), (604_038_471_000_000_000, 1));
        assert_eq!(names.owners(), ["", "366387042", "699950563", "176962275"]);
    }

    #[test]
    fn the_columns_of_other_years_are_read_too() {
        // The header of Meta's traces of 2022.
        let trace = b"key,op,size,op_count,key_size\nk1,GET,0,2,40\nk2,SET_LEASE,90,1,40\nk1,DELETE,0,1,40\n";
        assert!(recognises(&FORMAT, trace));
        let (_, requests) = requests(&FORMAT, trace);
        let seen: Vec<_> = requests.iter().map(|request| (request.offset - (1 << 63), request.operation)).collect();
        assert_eq!(seen, [(0, Operation::Read), (0, Operation::Read), (1, Operation::Write)]);
        assert!(!recognises(&FORMAT, b"key,op,size\nk1,GET,0\n"), "any table may have these");
    }

    #[test]
    fn operations_that_are_not_known_are_skipped_and_named_at_the_end() {
        let trace = b"key,op,op_count\nk1,GET,1\nk1,SAT,35\nk1,SAT,1\nk1,TOUCH,1\n";
        assert_eq!(requests(&FORMAT, trace).1.len(), 1);
        assert_eq!(
            warning(&FORMAT, trace).unwrap(),
            "trace: skipped 3 rows with unknown operations: SAT (2), TOUCH (1)"
        );
        assert_eq!(warning(&FORMAT, FORMAT.example), None);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (row, says) in [
            ("k1,GET", "expected 3 fields, as the first line names, found 2"),
            ("k1,GET,x", "op_count `x` is no whole number"),
            ("k1,GET,1048577", "op_count 1048577 is more than 1048576"),
            (",GET,1", "the key is empty"),
        ] {
            let message = error(&FORMAT, format!("key,op,op_count\n{row}\n").as_bytes());
            assert!(message.starts_with("trace: line 2: ") && message.contains(says), "{row}: {message}");
        }
        assert!(error(&FORMAT, b"k1,GET,1\n").starts_with("trace: line 1: names no columns key and op"));
    }
}
