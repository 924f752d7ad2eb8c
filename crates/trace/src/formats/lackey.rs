//! valgrind's lackey: every memory access of a program, as written by `--tool=lackey --trace-mem=yes`.
//!
//! Source: valgrind's manual, "Lackey: an example tool", and `lackey/lk_main.c`. A line is
//!
//! - kind, in the first three columns: `I  ` an instruction fetched, ` L ` a load, ` S ` a store, ` M ` a load and a store of
//!   the same place. A modification is one write, for it references its page once and leaves it dirty.
//! - address, hexadecimal, in bytes.
//! - size in bytes, decimal, after a comma.
//!
//! Lines of `==PID==` and `--PID--` are valgrind's own and skipped. There are no times, and neither owner nor object: lackey
//! writes the number of no process beside an access. Record with `--log-file=FILE`; with `--trace-children=yes` the name needs a
//! `%p` in it, for a file each. Choose the page size of the memory that is meant, as `--page-size 4KiB`.

use super::by_line::by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "lackey",
    title: "valgrind --tool=lackey --trace-mem=yes: every memory access",
    source: "valgrind's manual, \"Lackey: an example tool\"",
    recognise: |head| {
        let lines = head.lines(200);
        let mut accesses = lines.iter().filter(|line| !is_message(line)).take(20).peekable();
        accesses.peek().is_some() && accesses.all(|line| parse(line).is_some())
    },
    open: |input, _| Ok(by_line(input.lines(), Unit::Bytes, request)),
    example: b"==7== Lackey, an example Valgrind tool\nI  0401ab70,3\nI  0401ab73,5\n S 1fff000758,8\n L 04037e70,8\n \
        M 0421c7cc,4\n==7== Exit code:       0\n",
};

/// Whether valgrind itself says something: `==PID==` or `--PID--`.
fn is_message(line: &str) -> bool {
    ["==", "--"].iter().any(|mark| {
        line.strip_prefix(mark)
            .and_then(|rest| rest.split_once(mark))
            .is_some_and(|(pid, _)| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Operation, address and size of an access.
fn parse(line: &str) -> Option<(Operation, &str, &str)> {
    // The columns tell a store from a line that only begins with its letter.
    let (kind, rest) = line.split_at_checked(3)?;
    let operation = match kind {
        "I  " | " L " => Operation::Read,
        " S " | " M " => Operation::Write,
        _ => return None,
    };
    let (address, size) = rest.trim_ascii_end().split_once(',')?;
    let hexadecimal = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit());
    (hexadecimal && fields::is_number(size)).then_some((operation, address, size))
}

fn request(lines: &Lines, _: &mut Names) -> Result<Option<Request>> {
    if is_message(lines.line()) {
        return Ok(None);
    }
    let Some((operation, address, size)) = parse(lines.line()) else {
        return Err(lines.error(format!(
            "expected `I  address,size`, ` L …`, ` S …` or ` M …`, found `{}`; record with --log-file=FILE, so that nothing \
             else gets between",
            fields::shorten(lines.line())
        )));
    };
    let offset = u64::from_str_radix(address, 16)
        .map_err(|_| lines.error(format!("address `{}` is beyond 2^64", fields::shorten(address))))?;
    let length = fields::number(lines, "size", size)?;
    fields::check_end(lines, offset, length)?;
    Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length, operation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    #[test]
    fn addresses_are_hexadecimal_and_sizes_decimal() {
        let (_, requests) = requests(&FORMAT, b"I  0401ab70,3\n L 10,16\n");
        let at: Vec<_> = requests.iter().map(|request| (request.offset, request.length)).collect();
        assert_eq!(at, [(0x401_ab70, 3), (16, 16)]);
    }

    #[test]
    fn stores_and_modifications_are_one_write_each() {
        let (_, requests) = requests(&FORMAT, FORMAT.example);
        let operations: Vec<_> = requests.iter().map(|request| request.operation).collect();
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(operations, [read, read, write, read, write]);
    }

    #[test]
    fn valgrinds_own_lines_are_skipped_wherever_they_stand() {
        let (_, requests) = requests(&FORMAT, b"==1== Lackey\n--1-- warning\n L 10,1\n==12== end\n L 20,1\n");
        assert_eq!(requests.len(), 2);
    }

    #[test]
    fn what_is_no_access_is_an_error_with_its_line() {
        for line in ["hello", "L 10,1", " L 10", " L 1g,1", " L ,1", " L 10,", " X 10,1", "==x== 1"] {
            let text = format!("==1== Lackey\nI  10,1\n{line}\n");
            assert!(error(&FORMAT, text.as_bytes()).starts_with("trace: line 3: expected `I  address,size`"), "{line}");
        }
    }

    #[test]
    fn an_address_beyond_memory_is_an_error() {
        assert!(error(&FORMAT, b" L 10000000000000000,1\n").contains("is beyond 2^64"));
        assert!(error(&FORMAT, b" L ffffffffffffffff,8\n").contains("ends beyond 2^64"));
    }

    #[test]
    fn messages_alone_or_other_columns_are_not_recognised() {
        assert!(recognises(&FORMAT, b"==1== Lackey\n L 10,1\n"));
        for text in ["==1== Lackey\n", "10,1\n", "L 10,1\n", " L 10,1\nL 10 1\n", "I,10,1\n"] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }
}
