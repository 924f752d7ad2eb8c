//! The LIRS traces' text: one block number a line. `*` lines, which the authors' program skips, are skipped here too.
//!
//! S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy to Improve Buffer
//! Cache Performance", SIGMETRICS 2002.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "lirs",
    title: "one block number a line",
    source: "S. Jiang and X. Zhang, LIRS, SIGMETRICS 2002",
    recognise: |head| {
        head.lines_all(|line| matches!(line.trim_ascii(), "*") || line.trim_ascii().parse::<u64>().is_ok())
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Pages, request)),
    example: b"0\n1\n2\n0\n3\n",
};

fn request(lines: &Lines, _: &mut Names) -> Result<Option<Request>> {
    let line = lines.line().trim_ascii();
    if line == "*" {
        return Ok(None);
    }
    let offset = fields::number(lines, "block number", line)?;
    Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length: 1, operation: Operation::Read }))
}
