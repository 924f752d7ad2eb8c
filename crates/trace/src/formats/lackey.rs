//! Memory references by `valgrind --tool=lackey --trace-mem=yes`: kind, address in hexadecimal, size.
//!
//! `valgrind --tool=lackey --trace-mem=yes --log-file=gzip.lackey gzip -k file`
//!
//! Source: Valgrind's manual, section "Lackey". `I` fetches instructions, ` L` loads, ` S` stores, ` M` does both at one place, which is one
//! request that writes. Valgrind's own lines (`==7==`, `--7--`) are passed over. Offsets are addresses in bytes; there are no
//! times, owners or objects. Take `--page-size 4KiB` for the pages of a virtual memory.

use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Operation, Request, Unit};

pub(crate) const FORMAT: Format = Format {
    name: "lackey",
    title: "valgrind --tool=lackey --trace-mem=yes: a program's memory references",
    source: "Valgrind's manual, Lackey",
    recognise: |head| {
        let lines = head.lines(200);
        let references = lines.iter().filter(|line| parse(line).is_some()).count();
        references > 0 && lines.iter().all(|line| is_message(line) || parse(line).is_some())
    },
    open: |input, _| Ok(Box::new(Lackey { lines: input.lines() })),
    example: b"==7== Lackey, an example Valgrind tool\nI  04001000,3\n S 1ffefffde8,8\n L 04222cac,4\n M 0421c7cc,4\n",
};

struct Lackey {
    lines: Lines,
}

fn is_message(line: &str) -> bool {
    line.starts_with("==") || line.starts_with("--")
}

/// Operation, address and size.
fn parse(line: &str) -> Option<(Operation, u64, u64)> {
    let (kind, rest) = line.trim_ascii().split_once(' ')?;
    let operation = match kind {
        "I" | "L" => Operation::Read,
        "S" | "M" => Operation::Write,
        _ => return None,
    };
    let (address, size) = rest.trim_ascii_start().split_once(',')?;
    let size = size.parse().ok().filter(|&size| size > 0)?;
    Some((operation, u64::from_str_radix(address, 16).ok()?, size))
}

impl Reader for Lackey {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        loop {
            match self.lines.next_content()? {
                None => return Ok(None),
                Some(line) if is_message(line) => {}
                Some(_) => break,
            }
        }
        let line = self.lines.line();
        let Some((operation, offset, length)) = parse(line) else {
            let line = fields::shorten(line);
            return Err(self.lines.error(format!("`{line}` is no memory reference like ` L 04222cac,4`")));
        };
        Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length, operation }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_and_a_modification_is_one_write() {
        let (_, requests) = testing::requests(&FORMAT, FORMAT.example);
        let found: Vec<_> =
            requests.iter().map(|request| (request.operation, request.offset, request.length)).collect();
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(
            found,
            [(read, 0x0400_1000, 3), (write, 0x001f_feff_fde8, 8), (read, 0x0422_2cac, 4), (write, 0x0421_c7cc, 4)]
        );
    }

    #[test]
    fn another_line_is_an_error_with_its_number() {
        for wrong in ["L 04222cac", " L xyz,4", " L 10,-4", " L 10,0", "X 10,4"] {
            let message = testing::error(&FORMAT, format!("I  04001000,3\n{wrong}\n").as_bytes());
            assert!(message.contains("line 2") && message.contains("no memory reference"), "{message}");
        }
    }
}
