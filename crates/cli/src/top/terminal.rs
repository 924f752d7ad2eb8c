//! A terminal as a whole: lines in place of its screen, and keys that are read as they are pressed.

use console::{Style, truncate_str};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A second screen without a cursor, and the first one again.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A line in one style.
pub(crate) struct Line(pub(crate) String, pub(crate) Style);

/// A terminal until it is dropped, which gives it back as it was.
pub(crate) struct Terminal {
    keys: OwnedFd,
    before: Termios,
}

impl Terminal {
    pub(crate) fn new() -> io::Result<Self> {
        let stdin = io::stdin();
        let keys =
            if stdin.is_terminal() { stdin.as_fd().try_clone_to_owned()? } else { File::open("/dev/tty")?.into() };
        let before = tcgetattr(&keys)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&keys, OptionalActions::Now, &raw)?;
        let terminal = Self { keys, before };
        terminal.write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines; a terminal that does not know them says 0, and is taken for a usual one.
    pub(crate) fn size(&self) -> io::Result<(usize, usize)> {
        let size = tcgetwinsize(io::stdout())?;
        let or = |given: u16, usual| if given > 0 { given.into() } else { usual };
        Ok((or(size.ws_col, 80), or(size.ws_row, 24)))
    }

    /// Shows lines, and nothing of those before.
    pub(crate) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let (width, height) = self.size()?;
        self.write(&painted(lines, width, height))
    }

    /// Waits for a key; none after this time, nothing of one where the terminal is gone.
    pub(crate) fn key(&self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.keys, PollFlags::IN)], Some(&patience)) {
            Ok(0) => return Ok(None),
            Err(rustix::io::Errno::INTR) => return Ok(None),
            other => other?,
        };
        let mut key = [0; 64];
        let length = rustix::io::read(&self.keys, &mut key)?;
        Ok(Some(key[..length].to_vec()))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell of a terminal that is gone.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.keys, OptionalActions::Now, &self.before);
    }
}

/// What draws lines over all that was there. Names may have characters that steer terminals: they are left out.
fn painted(lines: &[Line], width: usize, height: usize) -> String {
    let mut out = "\x1b[H".to_owned();
    for (index, Line(text, style)) in lines.iter().take(height).enumerate() {
        let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let text = style.apply_to(truncate_str(&text, width, ""));
        let _ = write!(out, "{}{text}\x1b[K", if index > 0 { "\r\n" } else { "" });
    }
    out + "\x1b[J"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_the_edges_and_steer_nothing() {
        let lines = ["first", "a\x1b[31mred\r\nname", "third"].map(|text| Line(text.to_owned(), Style::new()));
        assert_eq!(painted(&lines, 9, 2), "\x1b[Hfirst\x1b[K\r\na[31mredn\x1b[K\x1b[J");
    }
}
