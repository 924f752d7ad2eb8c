//! Fields of text lines, parsed with messages that name the field.

use crate::error::Error;
use crate::input::Lines;
use forebay_basis::Operation;

/// The line read last, split at `separator` into exactly `N` trimmed fields.
pub fn split<'a, const N: usize>(lines: &'a Lines, separator: char, names: &str) -> Result<[&'a str; N], Error> {
    let mut fields = [""; N];
    let mut found = 0;
    for field in lines.line().split(separator) {
        if let Some(slot) = fields.get_mut(found) {
            *slot = field.trim_ascii();
        }
        found += 1;
    }
    if found == N { Ok(fields) } else { Err(lines.error(format!("expected {N} fields ({names}), found {found}"))) }
}

/// A whole number in decimal.
pub fn number(lines: &Lines, name: &str, field: &str) -> Result<u64, Error> {
    field.parse().map_err(|_| lines.error(format!("{name} `{}` is no whole number below 2^64", shorten(field))))
}

/// A whole number below 2^64 in hexadecimal, after `0x`.
pub fn parse_hexadecimal(field: &str) -> Option<u64> {
    parse_bare_hexadecimal(field.strip_prefix("0x").or_else(|| field.strip_prefix("0X"))?)
}

/// A whole number below 2^64 in hexadecimal digits alone.
pub fn parse_bare_hexadecimal(digits: &str) -> Option<u64> {
    // A sign would be accepted, too.
    u64::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A count of 512-byte blocks, as bytes.
pub fn blocks(lines: &Lines, name: &str, field: &str) -> Result<u64, Error> {
    number(lines, name, field)?
        .checked_mul(512)
        .ok_or_else(|| lines.error(format!("{name} `{}` is beyond 2^64 bytes in 512-byte blocks", shorten(field))))
}

/// A count of ticks of this many nanoseconds, as nanoseconds.
pub fn ticks(lines: &Lines, name: &str, field: &str, nanoseconds: u64) -> Result<u64, Error> {
    number(lines, name, field)?
        .checked_mul(nanoseconds)
        .ok_or_else(|| lines.error(format!("{name} `{}` is beyond 2^64 nanoseconds", shorten(field))))
}

/// Refuses a request that ends beyond 2^64, so that nobody who adds its length to its offset overflows.
pub fn check_end(lines: &Lines, offset: u64, length: u64) -> Result<(), Error> {
    match offset.checked_add(length) {
        Some(_) => Ok(()),
        None => Err(lines.error(format!("a request of {length} from {offset} on ends beyond 2^64"))),
    }
}

/// `R` or `Read`, `W` or `Write`, in any case.
pub fn parse_operation(field: &str) -> Option<Operation> {
    let is = |word: &str| field.eq_ignore_ascii_case(word);
    if is("r") || is("read") {
        Some(Operation::Read)
    } else if is("w") || is("write") {
        Some(Operation::Write)
    } else {
        None
    }
}

/// `R` or `Read`, `W` or `Write`, in any case, and nothing else.
pub fn operation(lines: &Lines, name: &str, field: &str) -> Result<Operation, Error> {
    parse_operation(field)
        .ok_or_else(|| lines.error(format!("{name} `{}` is neither a read nor a write", shorten(field))))
}

/// Whether a field is a whole number below 2^64.
pub fn is_number(field: &str) -> bool {
    field.parse::<u64>().is_ok()
}

/// Seconds with a fraction, as nanoseconds.
pub fn seconds(lines: &Lines, name: &str, field: &str) -> Result<u64, Error> {
    parse_seconds(field).ok_or_else(|| lines.error(format!("{name} `{}` is no time in seconds", shorten(field))))
}

/// Seconds with a fraction, as nanoseconds, exactly: no floating point on the way.
pub fn parse_seconds(field: &str) -> Option<u64> {
    parse_decimal(field, 9)
}

/// A date with its time in UTC, as RFC 3339 and as spreadsheets write it: nanoseconds since 1970.
pub fn parse_date(field: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339_weak(field).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// A decimal number times `10^places`, exactly; digits beyond that many places are dropped. `places` is at most 19.
pub fn parse_decimal(field: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = &fraction[..fraction.len().min(places as usize)];
    let part =
        if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? * 10u64.pow(places - digits.len() as u32) };
    whole.checked_mul(10u64.pow(places))?.checked_add(part)
}

/// A field short enough for a message, without what would steer a terminal.
pub fn shorten(field: &str) -> String {
    const MOST: usize = 40;
    let mut letters = field.chars().map(|letter| if letter.is_control() { '?' } else { letter });
    let short: String = letters.by_ref().take(MOST).collect();
    if letters.next().is_some() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_quotes_is_short_and_steers_no_terminal() {
        assert_eq!([shorten("plain"), shorten("\u{1b}[31m\0")], ["plain", "?[31m?"]);
        assert_eq!([shorten(&"a".repeat(40)), shorten(&"a".repeat(41))], ["a".repeat(40), "a".repeat(40) + "…"]);
    }

    #[test]
    fn seconds_are_exact_to_the_nanosecond() {
        assert_eq!(parse_seconds("0.551706"), Some(551_706_000));
        assert_eq!(parse_seconds("1577808000.000000046"), Some(1_577_808_000_000_000_046));
        assert_eq!(parse_seconds("7"), Some(7_000_000_000));
        assert_eq!(parse_seconds(".5"), Some(500_000_000));
        for bad in ["", ".", "-1", "1.-2", "1e3", "x", "99999999999999999999"] {
            assert_eq!(parse_seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_decimal_keeps_as_many_places_as_its_unit_has() {
        assert_eq!(parse_decimal("1.5", 3), Some(1500));
        assert_eq!(parse_decimal("1.23456", 3), Some(1234));
        assert_eq!(parse_decimal("12.9", 0), Some(12));
    }
}
