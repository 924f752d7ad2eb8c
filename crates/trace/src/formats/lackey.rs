//! valgrind's lackey: every memory access of a program, as written by `--tool=lackey --trace-mem=yes`.
//!
//! Source: valgrind's manual, "Lackey: an example tool", and `lackey/lk_main.c`. A line is
//!
//! - kind, in the first three columns: `I  ` an instruction fetched, ` L ` a load, ` S ` a store, ` M ` a load and a store of
//!   the same place. A modification is one write, for it references its page once and leaves it dirty.
//! - address, hexadecimal, in bytes.
//! - size in bytes, decimal, after a comma.
//!
//! Lines of `==PID==` and `--PID--` are valgrind's own and skipped. So is what the program itself has written between, as in a log of
//! standard output and standard error together: it is counted, and told at the end with its first line. A file with more lines of that kind
//! than accesses is an error. `--log-file=FILE` keeps them apart; with `--trace-children=yes` the name needs a `%p` in it, for a file each.
//!
//! There are no times, and neither owner nor object: lackey writes the number of no process beside an access. Choose the page size of the
//! memory that is meant, as `--page-size 4KiB`.

use super::{Format, fields};
use crate::error::{Error, Position, Result};
use crate::input::Lines;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "lackey",
    title: "valgrind --tool=lackey --trace-mem=yes: every memory access",
    source: "valgrind's manual, \"Lackey: an example tool\"",
    recognise: |head| {
        let lines = head.lines(2000);
        let (mut accesses, mut foreign) = (0, 0);
        for line in lines.iter().filter(|line| !is_message(line)).take(200) {
            *if parse(line).is_some() { &mut accesses } else { &mut foreign } += 1;
        }
        accesses > 0 && accesses >= ACCESSES * foreign
    },
    open: |input, _| {
        Ok(Box::new(Lackey { lines: input.lines().lossy(), accesses: 0, foreign: 0, first_foreign: None }))
    },
    example: b"==7== Lackey, an example Valgrind tool\nI  0401ab70,3\nI  0401ab73,5\n S 1fff000758,8\n L 04037e70,8\n \
        M 0421c7cc,4\n==7== Exit code:       0\n",
};

/// The front of a lackey log has at least this many accesses for each foreign line: no other text has lines like these.
const ACCESSES: usize = 2;
/// A log may begin with this many foreign lines, whatever follows.
const FOREIGN_AT_FIRST: u64 = 1000;

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

struct Lackey {
    lines: Lines,
    accesses: u64,
    /// Lines that are neither accesses nor valgrind's, and the first of them.
    foreign: u64,
    first_foreign: Option<(u64, String)>,
}

impl Lackey {
    /// The request in the line read last; `None` if it is no access.
    fn request(&mut self) -> Result<Option<Request>> {
        let Self { lines, accesses, .. } = self;
        let Some((operation, address, size)) = parse(lines.line()) else {
            if !is_message(lines.line()) {
                self.foreign += 1;
                self.first_foreign.get_or_insert_with(|| (self.lines.number(), fields::shorten(self.lines.line())));
            }
            return Ok(None);
        };
        let offset = u64::from_str_radix(address, 16)
            .map_err(|_| lines.error(format!("address `{}` is beyond 2^64", fields::shorten(address))))?;
        let length = fields::number(lines, "size", size)?;
        fields::check_end(lines, offset, length)?;
        *accesses += 1;
        Ok(Some(Request { time: 0, owner: 0, object: 0, offset, length, operation }))
    }

    /// Refuses a file of which most lines are foreign.
    fn check(&self) -> Result<()> {
        let Self { lines, accesses, foreign, first_foreign } = self;
        match first_foreign {
            Some((line, text)) if foreign > accesses => {
                let message = format!(
                    "expected `I  address,size`, ` L …`, ` S …` or ` M …`, found `{text}`, as in {foreign} lines beside {accesses} accesses; \
                     record with --log-file=FILE, so that nothing else gets between"
                );
                Err(Error::at(lines.file(), Position::Line(*line), message))
            }
            _ => Ok(()),
        }
    }
}

impl Reader for Lackey {
    fn unit(&self) -> Unit {
        Unit::Bytes
    }

    fn warning(&self) -> Option<String> {
        let (line, text) = self.first_foreign.as_ref()?;
        let (file, foreign) = (self.lines.file(), self.foreign);
        let lines = if foreign == 1 { "line" } else { "lines" };
        Some(format!("{file}: line {line}: `{text}` is no memory access; skipped {foreign} such {lines}"))
    }

    fn next(&mut self, _: &mut Names) -> Result<Option<Request>> {
        while self.lines.next_content()?.is_some() {
            if let Some(request) = self.request()? {
                return Ok(Some(request));
            }
            if self.foreign > FOREIGN_AT_FIRST {
                self.check()?;
            }
        }
        self.check()?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests, warning};

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
    fn what_the_program_writes_between_is_skipped_counted_and_told_with_its_first_line() {
        // Lines 761,183 to 761,190 of a log of `ls -l` in cjdevault/virtual-memory-simulator.
        let text = b"\
            \x20S bec14a6c,4\n\
            I  04001000,2\n\
            total 9624\n\
            -rwxr-xr-x 1 root root   15496 Nov  4 00:03 a.out\n\
            -rw-r--r-- 1 root root      75 Nov  4 00:00 hello.c\n\
            -rw-r--r-- 1 root root 9830513 Nov  4 00:04 ls.trace\n\
            I  04001002,1\n\
            \x20L bec14a6c,4\n\
            ";
        assert_eq!(requests(&FORMAT, text).1.len(), 4);
        assert_eq!(
            warning(&FORMAT, text).unwrap(),
            "trace: line 3: `total 9624` is no memory access; skipped 4 such lines"
        );
        assert_eq!(warning(&FORMAT, FORMAT.example), None);
    }

    #[test]
    fn what_the_program_writes_need_not_be_text() {
        let text = b"I  10,1\nI  11,1\n\xff\xfe\x00\n L 20,1\n";
        assert_eq!(requests(&FORMAT, text).1.len(), 3);
        assert!(warning(&FORMAT, text).unwrap().starts_with("trace: line 3: "));
    }

    #[test]
    fn what_is_no_access_is_skipped_unless_most_is() {
        for line in ["hello", "L 10,1", " L 10", " L 1g,1", " L ,1", " L 10,", " X 10,1", "==x== 1"] {
            let text = format!("==1== Lackey\nI  10,1\n{line}\n");
            assert_eq!(requests(&FORMAT, text.as_bytes()).1.len(), 1, "{line}");
            let message = error(&FORMAT, format!("{text}{line}\n").as_bytes());
            assert!(message.starts_with("trace: line 3: expected `I  address,size`"), "{line}: {message}");
            assert!(message.contains("in 2 lines beside 1 accesses"), "{line}: {message}");
        }
    }

    #[test]
    fn a_foreign_file_is_refused_before_it_is_read_whole() {
        let text = "I  10,1\n".to_owned() + &"hello\n".repeat(1001) + &"I  10,1\n".repeat(2000);
        assert!(error(&FORMAT, text.as_bytes()).contains("in 1001 lines beside 1 accesses"));
    }

    #[test]
    fn an_address_beyond_memory_is_an_error() {
        assert!(error(&FORMAT, b" L 10000000000000000,1\n").contains("is beyond 2^64"));
        assert!(error(&FORMAT, b" L ffffffffffffffff,8\n").contains("ends beyond 2^64"));
    }

    #[test]
    fn messages_alone_or_other_columns_are_not_recognised() {
        assert!(recognises(&FORMAT, b"==1== Lackey\n L 10,1\n"));
        assert!(recognises(&FORMAT, (" L 10,1\n".repeat(20) + "hello\n").as_bytes()));
        for text in ["==1== Lackey\n", "10,1\n", "L 10,1\n", " L 10,1\nL 10 1\n", "I,10,1\n"] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }
}
