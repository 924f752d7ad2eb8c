//! One line of strace's output taken apart: who, when, which call, its arguments and its result.

use crate::formats::fields;

/// The largest process number that Linux gives. A larger bare number at the front of a line is a time in whole seconds.
const LARGEST_PID: u64 = 1 << 22;
/// Seconds with a fraction below this (three years) are `-r`'s gap since the line before, above it `-ttt`'s time.
const LONGEST_GAP: u64 = 100_000_000 * 1_000_000_000;

/// A line of which something was recognisable.
pub(super) struct Line<'a> {
    pub(super) pid: Option<u32>,
    pub(super) stamp: Option<Stamp>,
    pub(super) event: Event<'a>,
}

/// When, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Since 1970: `-ttt`.
    Absolute(u64),
    /// Since midnight: `-t` and `-tt`.
    Clock(u64),
    /// Since the line before: `-r`.
    Gap(u64),
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A call in one line; `rest` is what follows the opening parenthesis.
    Call { name: &'a str, rest: &'a str },
    /// The front of a call in which another process's line came between.
    Unfinished { name: &'a str, rest: &'a str },
    /// The rest of such a call.
    Resumed { name: &'a str, rest: &'a str },
    /// The process or thread ended.
    Exit,
    /// A signal, or a message of strace.
    Other,
}

/// Takes a line apart; `None` if it is none of strace's.
pub(super) fn parse(line: &str) -> Option<Line<'_>> {
    let mut rest = line.trim_ascii();
    let mut pid = None;
    if let Some(inner) = rest.strip_prefix("[pid ") {
        let (number, after) = inner.split_once(']')?;
        pid = Some(process(number.trim_ascii())?);
        rest = after.trim_ascii_start();
    } else if let Some((word, after)) = rest.split_once(' ')
        && let Some(number) = process(word)
    {
        pid = Some(number);
        rest = after.trim_ascii_start();
    }
    let mut stamp = None;
    if let Some((word, after)) = rest.split_once(' ')
        && word.starts_with(|c: char| c.is_ascii_digit())
    {
        stamp = Some(time(word)?);
        rest = after.trim_ascii_start();
        // `-r` beside another kind of time.
        if let Some(gap) = rest.strip_prefix("(+") {
            rest = gap.split_once(')')?.1.trim_ascii_start();
        }
    }
    Some(Line { pid, stamp, event: event(rest)? })
}

fn process(word: &str) -> Option<u32> {
    // `--decode-pids=comm` writes the program's name behind the number.
    let digits = word.split('<').next()?;
    let number: u64 = digits.parse().ok()?;
    (digits.bytes().all(|b| b.is_ascii_digit()) && number <= LARGEST_PID).then_some(number as u32)
}

fn time(word: &str) -> Option<Stamp> {
    let mut parts = word.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(hours), Some(minutes), Some(seconds)) => {
            let (hours, minutes) = (hours.parse::<u64>().ok()?, minutes.parse::<u64>().ok()?);
            let seconds = fields::parse_seconds(seconds)?;
            (hours < 24 && minutes < 60 && seconds < 61_000_000_000)
                .then(|| Stamp::Clock((hours * 60 + minutes) * 60_000_000_000 + seconds))
        }
        (Some(_), None, None) => {
            let nanoseconds = fields::parse_seconds(word)?;
            Some(if nanoseconds < LONGEST_GAP { Stamp::Gap(nanoseconds) } else { Stamp::Absolute(nanoseconds) })
        }
        _ => None,
    }
}

fn event(rest: &str) -> Option<Event<'_>> {
    if let Some(what) = rest.strip_prefix("+++ ") {
        // A thread that executes a program takes its leader's number: the leader lives on under it.
        return Some(if what.starts_with("superseded") { Event::Other } else { Event::Exit });
    }
    if rest.starts_with("strace: ") || (rest.starts_with("--- ") && rest.ends_with(" ---")) {
        return Some(Event::Other);
    }
    if let Some(resumed) = rest.strip_prefix("<... ") {
        let (name, rest) = resumed.split_once(" resumed>")?;
        return is_name(name).then_some(Event::Resumed { name, rest });
    }
    let (name, rest) = rest.split_once('(')?;
    if !is_name(name) {
        return None;
    }
    Some(if let Some(rest) = rest.strip_suffix("<unfinished ...>") {
        Event::Unfinished { name, rest }
    } else if rest.ends_with("<detached ...>") {
        Event::Other
    } else {
        Event::Call { name, rest }
    })
}

fn is_name(name: &str) -> bool {
    // strace writes `???` for a call that it could not read.
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'?')
}

/// strace's message that it follows a new process. On a terminal it may stand behind half a line, the other half being
/// the next line: that half, and the process.
pub(super) fn attached(line: &str) -> Option<(&str, u32)> {
    let (before, number) = line.trim_ascii_end().strip_suffix(" attached")?.rsplit_once("strace: Process ")?;
    Some((before, number.parse().ok()?))
}

/// The arguments and the result of a call.
pub(super) struct Call<'a> {
    pub(super) arguments: Vec<&'a str>,
    pub(super) result: &'a str,
}

impl<'a> Call<'a> {
    /// Takes apart what follows a call's opening parenthesis; `None` if the call has no end.
    pub(super) fn parse(rest: &'a str) -> Option<Self> {
        let bytes = rest.as_bytes();
        let (mut arguments, mut start, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
        loop {
            match *bytes.get(at)? {
                b'"' => at += quoted_end(&bytes[at + 1..])?,
                b'<' if at > 0 && (bytes[at - 1].is_ascii_digit() || bytes[..at].ends_with(b"AT_FDCWD")) => {
                    at += decoration_end(&bytes[at + 1..])?;
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' if depth == 0 => break,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => {
                    arguments.push(rest[start..at].trim_ascii());
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        arguments.push(rest[start..at].trim_ascii());
        let result = rest[at + 1..].trim_ascii().strip_prefix('=')?.trim_ascii();
        (!result.is_empty()).then_some(Self { arguments, result })
    }

    /// Whether the call did nothing: an error, or a process that ended within it.
    pub(super) fn failed(&self) -> bool {
        self.result.starts_with(['-', '?'])
    }
}

/// Where a string ends, counted from its opening quote.
fn quoted_end(inside: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, &byte) in inside.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Where `-y`'s or `-yy`'s `<path>` ends, counted from its opening bracket. In a path strace escapes both brackets, but `-yy`
/// puts `<char 1:3>` behind a device's path, and writes a connection with `->`.
fn decoration_end(inside: &[u8]) -> Option<usize> {
    let path = inside.first() == Some(&b'/');
    let mut depth = 1;
    for (at, &byte) in inside.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !path && at > 0 && inside[at - 1] == b'-' => {}
            b'>' if depth == 1 => return Some(at + 1),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A descriptor as an argument or a result: its number (`None` for AT_FDCWD) and, under `-y`, what it stands for.
pub(super) fn descriptor(text: &str) -> Option<(Option<u32>, Option<String>)> {
    let (front, behind) = match text.find('<') {
        // A space comes before the time spent, which `-T` puts behind a result.
        Some(at) if !text[..at].contains(' ') => (&text[..at], Some(&text[at + 1..])),
        _ => (text.split(' ').next()?, None),
    };
    let what = match behind {
        Some(behind) => Some(unescape(&behind[..decoration_end(behind.as_bytes())? - 1])),
        None => None,
    };
    let number = if front == "AT_FDCWD" { None } else { Some(u32::try_from(number(front)?).ok()?) };
    Some((number, what))
}

/// A number in decimal or hexadecimal, with whatever comment stands behind it.
pub(super) fn number(text: &str) -> Option<u64> {
    let word = text.split([' ', '<', '(']).next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// A number behind a pointer: `[7]`, or `[7] => [9]` if the call changed it. `None` for NULL.
pub(super) fn pointed(text: &str) -> Option<u64> {
    number(text.strip_prefix('[')?.split(']').next()?)
}

/// A string argument without its quotes and escapes.
pub(super) fn string(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?;
    Some(unescape(&inside[..quoted_end(inside.as_bytes())? - 1]))
}

fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    let digits = |rest: &mut std::iter::Peekable<std::str::Bytes<'_>>, radix, most, mut value: u32| {
        for _ in 0..most {
            let Some(digit) = rest.peek().and_then(|&b| char::from(b).to_digit(radix)) else { break };
            value = value * radix + digit;
            rest.next();
        }
        value as u8
    };
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'v') => 0x0b,
                Some(b'f') => 0x0c,
                Some(b'x') => digits(&mut rest, 16, 2, 0),
                Some(octal @ b'0'..=b'7') => digits(&mut rest, 8, 2, u32::from(octal - b'0')),
                Some(other) => other,
                None => b'\\',
            },
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(line: &str) -> (Option<u32>, Option<Stamp>) {
        let line = parse(line).unwrap();
        (line.pid, line.stamp)
    }

    #[test]
    fn every_front_of_a_line_is_told_apart() {
        assert_eq!(stamp("read(3) = 0"), (None, None));
        assert_eq!(stamp("17 read(3) = 0"), (Some(17), None));
        assert_eq!(stamp("[pid   17] read(3) = 0"), (Some(17), None));
        assert_eq!(stamp("17<sh> read(3) = 0"), (Some(17), None));
        assert_eq!(stamp("17 1700000000.5 read(3) = 0"), (Some(17), Some(Stamp::Absolute(1_700_000_000_500_000_000))));
        assert_eq!(stamp("1700000000 read(3) = 0"), (None, Some(Stamp::Absolute(1_700_000_000_000_000_000))));
        assert_eq!(stamp("17 00:01:02 read(3) = 0"), (Some(17), Some(Stamp::Clock(62_000_000_000))));
        assert_eq!(stamp("[pid 17] 00:00:01.5 read(3) = 0"), (Some(17), Some(Stamp::Clock(1_500_000_000))));
        assert_eq!(stamp("     0.000002 read(3) = 0"), (None, Some(Stamp::Gap(2000))));
        assert_eq!(stamp("17 00:00:01 (+     0.000002) read(3) = 0"), (Some(17), Some(Stamp::Clock(1_000_000_000))));
    }

    #[test]
    fn what_no_strace_writes_is_no_line() {
        for line in
            ["", "hello", "1 2 3 4", "[pid x] read(3) = 0", "25:00:00 read(3) = 0", "Read(3)", "<... x", "1-2 f("]
        {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn arguments_end_at_commas_outside_strings_brackets_and_paths() {
        let call = Call::parse(r#"3</a,)b>, "x\",)"..., [{iov_base="(", iov_len=1}, {}], 7) = 0x10 (flags X) <0.01>"#);
        let call = call.unwrap();
        assert_eq!(call.arguments, ["3</a,)b>", r#""x\",)"..."#, r#"[{iov_base="(", iov_len=1}, {}]"#, "7"]);
        assert_eq!(number(call.result), Some(16));
        assert!(Call::parse("3, \"abc").is_none());
        assert!(Call::parse("3)").is_none());
        assert!(Call::parse("3) = ?").unwrap().failed());
        assert!(Call::parse("3) = -1 EBADF (Bad file descriptor)").unwrap().failed());
    }

    #[test]
    fn descriptors_come_with_what_they_stand_for() {
        let of = |text| descriptor(text).map(|(number, what)| (number, what.unwrap_or_default()));
        assert_eq!(of("3"), Some((Some(3), String::new())));
        assert_eq!(of("3 <0.000012>"), Some((Some(3), String::new())));
        assert_eq!(of("3</tmp/a b->(deleted) <0.000012>"), Some((Some(3), "/tmp/a b-".to_owned())));
        assert_eq!(of(r"3</tmp/a\76\n\x41>"), Some((Some(3), "/tmp/a>\nA".to_owned())));
        assert_eq!(of("0</dev/pts/0<char 136:0>>"), Some((Some(0), "/dev/pts/0<char 136:0>".to_owned())));
        assert_eq!(of("4<TCP:[1.2.3.4:5->6.7.8.9:80]>"), Some((Some(4), "TCP:[1.2.3.4:5->6.7.8.9:80]".to_owned())));
        assert_eq!(of("AT_FDCWD</root>"), Some((None, "/root".to_owned())));
        assert_eq!(of("-1"), None);
        assert_eq!(of("3</tmp"), None);
    }
}
