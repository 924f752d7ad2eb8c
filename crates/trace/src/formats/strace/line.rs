//! One line of strace's output, taken apart.

use crate::formats::fields::parse_seconds;

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The process; 0 where the output names none.
    pub(super) pid: u32,
    /// Nanoseconds; 0 without timestamps.
    pub(super) time: u64,
    pub(super) event: Event<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// `name(arguments) = result`.
    Call { name: &'a str, arguments: Vec<&'a str>, result: &'a str },
    /// `name(arguments <unfinished ...>`: the text without the mark.
    Unfinished(&'a str),
    /// `<... name resumed>rest`.
    Resumed(&'a str),
    /// `+++ exited with 0 +++`.
    Exit,
    /// A signal, or a word of strace's own.
    Other,
}

/// Takes a line apart; `None` if it is no line of strace.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    if line.starts_with("strace: ") {
        return Some(Line { pid: 0, time: 0, event: Event::Other });
    }
    let (pid, rest) = process(line)?;
    let (time, rest) = timestamp(rest);
    Some(Line { pid, time, event: event(rest)? })
}

fn process(line: &str) -> Option<(u32, &str)> {
    if let Some(rest) = line.strip_prefix("[pid") {
        let (pid, rest) = rest.split_once(']')?;
        return Some((pid.trim_ascii().parse().ok()?, rest.trim_ascii_start()));
    }
    // A bare number is a process unless it is a time, which has a point or colons.
    let (word, rest) = line.trim_ascii_start().split_once(' ')?;
    match word.parse() {
        Ok(pid) => Some((pid, rest.trim_ascii_start())),
        Err(_) => Some((0, line.trim_ascii_start())),
    }
}

/// A timestamp of `-t`, `-tt`, `-ttt` or `-r`, if there is one. Times of day count from midnight, those of `-r` are not added up.
fn timestamp(text: &str) -> (u64, &str) {
    let Some((word, rest)) = text.split_once(' ') else { return (0, text) };
    let rest = rest.trim_ascii_start();
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return (0, text);
    }
    let mut seconds = 0u64;
    let mut parts = word.split(':').peekable();
    while let Some(part) = parts.next() {
        let Some(nanoseconds) = parse_seconds(part) else { return (0, text) };
        let scale = if parts.peek().is_some() { 60 } else { 1 };
        seconds = seconds.saturating_add(nanoseconds).saturating_mul(scale);
    }
    (seconds, rest)
}

fn event(text: &str) -> Option<Event<'_>> {
    if let Some(rest) = text.strip_prefix("<... ") {
        return Some(Event::Resumed(rest.split_once("resumed>")?.1));
    }
    if text.starts_with("--- ") {
        return Some(Event::Other);
    }
    if text.starts_with("+++ ") {
        return Some(Event::Exit);
    }
    if let Some(start) = text.trim_ascii_end().strip_suffix("<unfinished ...>") {
        return call_name(start).map(|_| Event::Unfinished(start.trim_ascii_end()));
    }
    call(text)
}

fn call_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    let word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    word.then_some((name, rest))
}

/// A whole call. One whose end is missing (strace was killed) has no result.
pub(super) fn call(text: &str) -> Option<Event<'_>> {
    let (name, rest) = call_name(text)?;
    let (arguments, rest) = arguments(rest)?;
    let result = rest.trim_ascii_start().strip_prefix('=')?.trim_ascii();
    Some(Event::Call { name, arguments, result })
}

/// Cuts a call's arguments at the commas that stand in no string, bracket or decoration; returns what follows the bracket.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut arguments, mut start, mut depth, mut at) = (Vec::new(), 0, 0u32, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while *bytes.get(at)? != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            // `3</a/path>`: the decoration of a descriptor, in which strace escapes `>`.
            b'<' if at > 0 && (bytes[at - 1].is_ascii_digit() || text[..at].ends_with("AT_FDCWD")) => {
                let mut inner = 0u32;
                loop {
                    match *bytes.get(at)? {
                        b'<' => inner += 1,
                        b'>' if bytes[at - 1] != b'-' => inner -= 1,
                        _ => {}
                    }
                    if inner == 0 {
                        break;
                    }
                    at += 1;
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim_ascii();
                if !(last.is_empty() && arguments.is_empty()) {
                    arguments.push(last);
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                arguments.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// A descriptor, and the path that `-y` adds to it.
pub(super) fn descriptor(text: &str) -> Option<(i32, Option<String>)> {
    let (number, rest) = match text.split_once('<') {
        Some((number, rest)) => (number, Some(rest.strip_suffix('>')?)),
        None => (text, None),
    };
    // -yy adds what a device is: `/dev/null<char 1:3>`.
    let path = rest.map(|path| path.split('<').next().unwrap_or(path)).map(unescape);
    Some((number.trim_ascii().parse().ok()?, path))
}

/// A string argument, whole: `"…"`; `None` if strace cut it short with `...`.
pub(super) fn string(text: &str) -> Option<String> {
    text.strip_prefix('"')?.strip_suffix('"').map(unescape)
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'v') => bytes.push(0x0b),
            Some(b'f') => bytes.push(0x0c),
            Some(b'x') => bytes.push(digits(&mut rest, 0, 16)),
            Some(digit @ b'0'..=b'7') => bytes.push(digits(&mut rest, u32::from(digit - b'0'), 8)),
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A byte's code of up to two more digits.
fn digits(rest: &mut std::iter::Peekable<std::str::Bytes<'_>>, first: u32, radix: u32) -> u8 {
    let mut value = first;
    for _ in 0..2 {
        let Some(digit) = rest.peek().and_then(|&byte| char::from(byte).to_digit(radix)) else { break };
        value = value * radix + digit;
        rest.next();
    }
    value as u8
}

/// A number in decimal or hexadecimal, negative ones as `None`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_of(line: &str) -> (u32, u64, &str, Vec<&str>, &str) {
        match parse(line) {
            Some(Line { pid, time, event: Event::Call { name, arguments, result } }) => {
                (pid, time, name, arguments, result)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_call_is_read_with_any_prefix() {
        let rest = "read(3</etc/a, b>, \"x\\\"),(\", 4096) = 5";
        let arguments = vec!["3</etc/a, b>", "\"x\\\"),(\"", "4096"];
        for (prefix, pid, time) in [
            ("", 0, 0),
            ("17 ", 17, 0),
            ("[pid   17] ", 17, 0),
            ("17 1700000000.000001 ", 17, 1_700_000_000_000_001_000),
            ("[pid 17] 00:01:02.5 ", 17, 62_500_000_000),
            ("17    10:00:00 ", 17, 36_000_000_000_000),
            ("     0.000123 ", 0, 123_000),
        ] {
            assert_eq!(call_of(&format!("{prefix}{rest}")), (pid, time, "read", arguments.clone(), "5"), "{prefix}");
        }
    }

    #[test]
    fn brackets_and_structures_stand_in_one_argument() {
        let (.., arguments, result) =
            call_of("9 readv(3, [{iov_base=\"a,b\", iov_len=2}, {iov_base=\"\", iov_len=0}], 2) = 2");
        assert_eq!(arguments, ["3", "[{iov_base=\"a,b\", iov_len=2}, {iov_base=\"\", iov_len=0}]", "2"]);
        assert_eq!(result, "2");
        assert_eq!(call_of("9 openat(AT_FDCWD</tmp>, \"f\", O_RDONLY) = 3</tmp/f>").3[0], "AT_FDCWD</tmp>");
        assert!(call_of("9 getpid() = 9").3.is_empty());
    }

    #[test]
    fn strings_and_descriptors_are_unescaped() {
        assert_eq!(string(r#""a\n\"\303\244\x41""#).as_deref(), Some("a\n\"äA"));
        assert_eq!(string("\"cut\"..."), None);
        assert_eq!(descriptor("3</dev/null<char 1:3>>"), Some((3, Some("/dev/null".to_owned()))));
        assert_eq!(descriptor("12"), Some((12, None)));
        assert_eq!(descriptor("AT_FDCWD"), None);
    }

    #[test]
    fn what_is_no_line_of_strace_is_none() {
        for line in
            ["hello world", "1 2 3 4", "read(3", "8,0 3 1 0.0 697 G W 1 + 8 [x]", "[pid x] read(3) = 1", "a(\"b) = 1"]
        {
            assert_eq!(parse(line), None, "{line}");
        }
        assert!(matches!(
            parse("7 <... read resumed>\"\", 5) = 0"),
            Some(Line { pid: 7, event: Event::Resumed("\"\", 5) = 0"), .. })
        ));
        assert!(matches!(parse("7 read(3, <unfinished ...>"), Some(Line { event: Event::Unfinished("read(3,"), .. })));
        assert!(matches!(parse("7 +++ exited with 0 +++"), Some(Line { event: Event::Exit, .. })));
    }
}
