//! CacheLib's traces of a cache in front of storage, as Meta publishes them: a line of column names, then a request a line.
//!
//! B. Berg et al., "The CacheLib Caching Engine: Design and Experiences at Scale", OSDI 2020; CacheLib's page "Evaluating SSD hardware for
//! Facebook workloads", and its `BlockChunkReplayGenerator.h`, which replays them and is followed here. The columns go by name, in any order:
//!
//! - block_id, rs_shard_id: the block of storage and its shard; together the object, as `block_shard`. Blocks are of some MiB. The first must
//!   be there.
//! - io_offset, io_size: bytes in the object. They must be there.
//! - op_name: what begins with `getChunkData` is a read and with `putChunk` a write, whatever follows (`getChunkData.Permanent`). Other words
//!   are skipped and counted. It must be there.
//! - op_time: seconds.
//! - user_name: the owner.
//! - others (block_id_size, user_namespace, op_count, host_name): not used. A row is one request, as CacheLib replays it.

use super::named_columns::{NamedColumns, header};
use super::skipped::UnknownOperations;
use super::{Format, fields};
use crate::error::Result;
use crate::input::{Input, Lines};
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;
use std::fmt::Write;

const COLUMNS: [&str; 7] = ["block_id", "io_offset", "io_size", "op_name", "op_time", "rs_shard_id", "user_name"];
/// How many of them must be there.
const REQUIRED: usize = 4;

pub(super) const FORMAT: Format = Format {
    name: "cachelib-block",
    title: "CacheLib's storage traces: named columns, among them block_id, io_offset, io_size and op_name",
    source: "B. Berg et al., CacheLib, OSDI 2020",
    recognise: |head| NamedColumns::of(header(head), COLUMNS).have(REQUIRED),
    open: |input, _| Ok(Box::new(CacheLib::open(input)?)),
    // Lines of the sample in facebook/CacheLib's cachebench.
    example: b"op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,host_name,rs_shard_id\n\
        1702511878,12ce23eaa5534a38-9e05ce05bc10d4d0,40,8388608,0,4235083322,3487869255,getChunkData.NotInitialized,1,518845025,4\n\
        1702511879,e73af8d626de74c0-a6d10f9a3fc7e0c2,40,1012394,0,4235083322,3487869255,putChunk.NotInitialized,1,2411423798,2\n\
        1702511883,33964cbfaebc82ee-8bba81a392a81e68,40,1953176,1007643,2005364192,3487869255,getChunkData.Permanent,1,157370105,7\n",
};

struct CacheLib {
    lines: Lines,
    columns: NamedColumns<7>,
    unknown: UnknownOperations,
    /// The object's name while it is put together.
    object: String,
}

impl CacheLib {
    fn open(input: Input) -> Result<Self> {
        let mut lines = input.lines();
        let columns = NamedColumns::of(lines.next_line()?.unwrap_or_default(), COLUMNS);
        if !columns.have(REQUIRED) {
            return Err(lines.error(format!(
                "lacks a column of {}; add CacheLib's line of column names",
                COLUMNS[..REQUIRED].join(", ")
            )));
        }
        Ok(Self { lines, columns, unknown: UnknownOperations::default(), object: String::new() })
    }

    /// The request in the line read last; `None` if it is none.
    fn parse(&mut self, names: &mut Names) -> Result<Option<Request>> {
        let Self { lines, columns, unknown, object } = self;
        let [block, offset, length, word, time, shard, user] = columns.fields(lines)?;
        let operation = if word.starts_with("getChunkData") {
            Operation::Read
        } else if word.starts_with("putChunk") {
            Operation::Write
        } else {
            unknown.count(word);
            return Ok(None);
        };
        let offset = fields::number(lines, "io_offset", offset)?;
        let length = fields::number(lines, "io_size", length)?;
        fields::check_end(lines, offset, length)?;
        let time = if time.is_empty() { 0 } else { fields::seconds(lines, "op_time", time)? };
        object.clear();
        object.push_str(block);
        if !shard.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(object, "_{shard}");
        }
        let (owner, object) = (names.owner(user), names.object(object));
        Ok(Some(Request { time, owner, object, offset, length, operation }))
    }
}

impl Reader for CacheLib {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn warning(&self) -> Option<String> {
        self.unknown.warning(self.lines.file())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        while self.lines.next_content()?.is_some() {
            if let Some(request) = self.parse(names)? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests, warning};

    #[test]
    fn a_shard_of_a_block_is_an_object() {
        let (names, requests) = requests(&FORMAT, FORMAT.example);
        let third = Request {
            time: 1_702_511_883_000_000_000,
            owner: 2,
            object: 3,
            offset: 1_007_643,
            length: 1_953_176,
            operation: Operation::Read,
        };
        assert_eq!(requests[2], third);
        assert_eq!(names.object_name(3), "33964cbfaebc82ee-8bba81a392a81e68_7");
        assert_eq!(names.owners(), ["", "4235083322", "2005364192"]);
        let operations: Vec<_> = requests.iter().map(|request| request.operation).collect();
        assert_eq!(operations, [Operation::Read, Operation::Write, Operation::Read]);
    }

    #[test]
    fn operations_that_are_not_known_are_skipped_and_named_at_the_end() {
        let trace = b"block_id,io_offset,io_size,op_name\nb,0,1,getChunkData\nb,0,1,getChunkMetadata.x\n";
        assert!(recognises(&FORMAT, trace));
        assert_eq!(requests(&FORMAT, trace).1.len(), 1);
        assert_eq!(
            warning(&FORMAT, trace).unwrap(),
            "trace: skipped 1 row with unknown operations: getChunkMetadata.x (1)"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (row, says) in [
            ("b,0,1", "expected 4 fields, as the first line names, found 3"),
            ("b,x,1,putChunk", "io_offset `x` is no whole number"),
            ("b,1,18446744073709551615,putChunk", "ends beyond 2^64"),
        ] {
            let message = error(&FORMAT, format!("block_id,io_offset,io_size,op_name\n{row}\n").as_bytes());
            assert!(message.starts_with("trace: line 2: ") && message.contains(says), "{row}: {message}");
        }
        assert!(error(&FORMAT, b"b,0,1,putChunk\n").starts_with("trace: line 1: lacks a column of block_id"));
    }
}
