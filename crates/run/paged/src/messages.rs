//! Messages to the user. They go to a file that `forebay run` shows at the end, or to the program's standard error where that file cannot be
//! written. A message that cannot be written is dropped.

use crate::signals;
use forebay_run_shared::Settings;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

/// Says something of this process.
pub(crate) fn say(settings: &Settings, what: &str) {
    let line = format!("process {}: {what}\n", std::process::id());
    let write = || settings.open_messages().and_then(|mut file| file.write_all(line.as_bytes()));
    // A limit of files' lengths is for the program's files: it ends no program for this one.
    let said = signals::without(libc::SIGXFSZ, write);
    if said.is_err() {
        say_here(&format!("forebay run: {line}"));
    }
}

/// Writes to standard error.
pub(crate) fn say_here(line: &str) {
    // SAFETY: if the program has closed or reopened it, the write fails or goes to what is there now; no memory is touched.
    let here = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = signals::without(libc::SIGXFSZ, || rustix::io::write(here, line.as_bytes()));
}

/// Where the log of the service's threads goes: their standard error, whatever becomes of it.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        say_here(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
