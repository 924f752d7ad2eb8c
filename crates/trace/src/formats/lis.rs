//! The ARC traces' `.lis`: first 512-byte block, number of blocks, an ignored field, request number.
//!
//! N. Megiddo and D. Modha, "ARC: a Self-tuning, Low Overhead Replacement Cache", FAST 2003.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "lis",
    title: "ARC traces: first 512-byte block, number of blocks, ignored, request number",
    source: "N. Megiddo and D. Modha, ARC, FAST 2003",
    recognise: |head| {
        head.lines_all(|line| {
            let mut fields = line.split_ascii_whitespace();
            fields.by_ref().take(4).filter(|field| field.parse::<u64>().is_ok()).count() == 4 && fields.next().is_none()
        })
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Blocks(512), request)),
    example: b"1936993 8 0 0\n793041 16 0 1\n2051307 64 0 2\n",
};

fn request(lines: &Lines, _: &mut Names) -> Result<Option<Request>> {
    let mut words = lines.line().split_ascii_whitespace();
    let (Some(first), Some(count), Some(_), Some(_), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(lines.error("expected 4 numbers: first block, number of blocks, ignored, request number"));
    };
    let offset = fields::number(lines, "first block", first)?;
    let length = fields::number(lines, "number of blocks", count)?;
    Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length, operation: Operation::Read }))
}
