//! Ramulator's traces of memory: requests of a processor's caches for lines of 64 bytes.
//!
//! Y. Kim, W. Yang and O. Mutlu, "Ramulator: A Fast and Extensible DRAM Simulator", IEEE CAL 2015; its README, "Usage". Two kinds of line:
//!
//! - `instructions address [address]`: how many instructions go before, the address that is read, and the address that the read drives out of
//!   the cache and writes back, if any: a read, then a write. Addresses are in bytes, decimal, or hexadecimal after `0x`.
//! - `0xaddress R` or `0xaddress W`.
//!
//! There are no times, and neither owner nor object: instructions are no unit of time. Lines of two numbers could be anything. The format is
//! recognised by `R` or `W` behind the addresses; or where all addresses are multiples of 64, and a line has three numbers, or there are 20
//! lines, of which some addresses are no sectors of a disk, and the first numbers do not rise as times do.

use super::by_line::several_by_line;
use super::{Format, fields};
use crate::error::Result;
use crate::input::{Head, Lines};
use crate::request::{Request, Unit};
use forebay_basis::Operation;

/// The bytes of a cache line.
const LINE: u64 = 64;
/// The bytes of a disk's sector.
const SECTOR: u64 = 512;
/// Fewer lines of two numbers tell nothing.
const ENOUGH: usize = 20;
/// Lines looked at.
const LOOKED_AT: usize = 1000;

pub(super) const FORMAT: Format = Format {
    name: "ramulator",
    title: "Ramulator: instructions, address read, address written back; or address and R or W",
    source: "Y. Kim, W. Yang and O. Mutlu, Ramulator, IEEE CAL 2015",
    recognise,
    open: |input, _| Ok(several_by_line(input.lines(), Unit::Bytes, requests)),
    // Lines 5,548 to 5,553 of Ramulator's cputraces/403.gcc.
    example: b"53 99320384\n\
        524 99138368\n\
        54 99320448 98370176\n\
        796 99104064\n\
        54 99320512\n\
        90 95777536\n",
};

fn recognise(head: &Head<'_>) -> bool {
    let lines: Option<Vec<Line<'_>>> = head.lines(LOOKED_AT).into_iter().map(Line::cut).collect();
    let Some(lines) = lines else { return false };
    let is_whole = |address: &str| parse_address(address).is_some_and(|address| address.is_multiple_of(LINE));
    let is_sound = |line: &Line<'_>| match line {
        Line::Instructions { count, read, written } => {
            fields::is_number(count) && is_whole(read) && written.is_none_or(is_whole)
        }
        Line::Request { address, .. } => fields::parse_hexadecimal(address).is_some(),
    };
    let of_two = |line: &Line<'_>| match line {
        Line::Instructions { count, read, written: None } => Some((count.parse::<u64>().ok()?, parse_address(read)?)),
        _ => None,
    };
    if !lines.iter().all(is_sound) {
        return false;
    }
    let pairs: Vec<(u64, u64)> = lines.iter().filter_map(of_two).collect();
    let no_sectors = || pairs.iter().any(|(_, address)| !address.is_multiple_of(SECTOR));
    pairs.len() < lines.len() || (pairs.len() >= ENOUGH && no_sectors() && !pairs.is_sorted_by_key(|(count, _)| count))
}

enum Line<'a> {
    Instructions { count: &'a str, read: &'a str, written: Option<&'a str> },
    Request { address: &'a str, operation: Operation },
}

impl<'a> Line<'a> {
    fn cut(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        match (words.next()?, words.next()?, words.next(), words.next()) {
            (address, "R", None, None) => Some(Self::Request { address, operation: Operation::Read }),
            (address, "W", None, None) => Some(Self::Request { address, operation: Operation::Write }),
            (count, read, written, None) => Some(Self::Instructions { count, read, written }),
            _ => None,
        }
    }
}

fn parse_address(word: &str) -> Option<u64> {
    fields::parse_hexadecimal(word).or_else(|| word.parse().ok())
}

fn requests(lines: &Lines, requests: &mut Vec<Request>) -> Result<()> {
    let mut request = |word: &str, operation: Operation| {
        let offset = parse_address(word).ok_or_else(|| {
            lines.error(format!("address `{}` is no number below 2^64, decimal or after 0x", fields::shorten(word)))
        })?;
        fields::check_end(lines, offset, LINE)?;
        requests.push(Request { time: 0, owner: 0, object: 0, offset, length: LINE, operation });
        Ok(())
    };
    match Line::cut(lines.line()) {
        Some(Line::Instructions { count, read, written }) => {
            fields::number(lines, "number of instructions", count)?;
            request(read, Operation::Read)?;
            written.map_or(Ok(()), |written| request(written, Operation::Write))
        }
        Some(Line::Request { address, operation }) => request(address, operation),
        None => Err(lines.error("expected `instructions address [address]`, or an address and R or W")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};
    use forebay_basis::Operation::{Read, Write};

    fn seen(trace: &[u8]) -> Vec<(u64, Operation)> {
        let (_, requests) = requests(&FORMAT, trace);
        assert!(requests.iter().all(|request| request.length == 64));
        requests.iter().map(|request| (request.offset, request.operation)).collect()
    }

    #[test]
    fn a_third_number_is_written_back_after_the_read() {
        let expected = [
            (99_320_384, Read),
            (99_138_368, Read),
            (99_320_448, Read),
            (98_370_176, Write),
            (99_104_064, Read),
            (99_320_512, Read),
            (95_777_536, Read),
        ];
        assert_eq!(seen(FORMAT.example), expected);
    }

    #[test]
    fn the_trace_of_memory_alone_has_an_address_and_a_letter() {
        // From Ramulator's README.
        let trace = b"0x12345680 R\n0x4cbd56c0 W\n";
        assert_eq!(seen(trace), [(0x1234_5680, Read), (0x4cbd_56c0, Write)]);
        assert!(recognises(&FORMAT, trace));
    }

    #[test]
    fn many_pairs_are_recognised_by_lines_of_a_cache_that_are_no_sectors_and_counts_that_are_no_times() {
        // The first lines of Ramulator's cputraces/403.gcc.
        let gcc =
            "0 9618752\n0 89528192\n9 89618496\n3 89619008\n13 140734746854976\n2 6616320\n0 89618560\n1 10181184\n";
        assert!(recognises(&FORMAT, gcc.repeat(3).as_bytes()));
        let (times, sectors): (String, String) =
            (0..40).map(|n| (format!("{n} {}\n", n * 64), format!("{} {}\n", n % 7, n * 512))).unzip();
        for text in [gcc.repeat(2), times, sectors] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn numbers_that_may_mean_anything_are_not_recognised() {
        for text in ["0 64\n1 128\n", "0 64 128\n0 65\n", "1 2 3\n", "64 R\n", "0x40 X\n", "0 64 64 64\n", "offset R\n"]
        {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (line, says) in [
            ("64", "expected `instructions address [address]`"),
            ("0 64 64 64", "expected `instructions address [address]`"),
            ("x 64", "number of instructions `x`"),
            ("0 12ab", "address `12ab` is no number below 2^64, decimal or after 0x"),
            ("0xffffffffffffffff R", "ends beyond 2^64"),
        ] {
            let message = error(&FORMAT, format!("0 64\n{line}\n").as_bytes());
            assert!(message.starts_with("trace: line 2: ") && message.contains(says), "{line}: {message}");
        }
    }
}
