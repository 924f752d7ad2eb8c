//! The LIRS traces' text: one block number a line. `*` lines, which the authors' program skips, are skipped here too.
//!
//! S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to Improve Buffer
//! Cache Performance", SIGMETRICS 2002.

use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Operation, Request, Unit};

pub(super) const FORMAT: Format = Format {
    name: "lirs",
    title: "one block number a line",
    source: "S. Jiang and X. Zhang, LIRS, SIGMETRICS 2002",
    recognise: |head| {
        head.lines_all(|line| matches!(line.trim_ascii(), "*") || line.trim_ascii().parse::<u64>().is_ok())
    },
    open: |input, _| Ok(Box::new(Lirs { lines: input.lines() })),
    example: b"0\n1\n2\n0\n3\n",
};

struct Lirs {
    lines: Lines,
}

impl Reader for Lirs {
    fn unit(&self) -> Unit {
        Unit::Pages
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        loop {
            match self.lines.next_content()?.map(str::trim_ascii) {
                None => return Ok(None),
                Some("*") => {}
                Some(_) => break,
            }
        }
        let offset = fields::number(&self.lines, "block number", self.lines.line().trim_ascii())?;
        Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length: 1, operation: Operation::Read }))
    }
}
