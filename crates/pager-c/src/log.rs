//! Where the library's warnings and errors go.

use libc::c_int;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};
use tracing_subscriber::filter::LevelFilter;

static DESCRIPTOR: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);

/// Sends what is logged from now on to a descriptor; -1: nowhere.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn forebay_pager_log_to(descriptor: c_int) {
    DESCRIPTOR.store(descriptor, Ordering::Relaxed);
}

/// Begins to log, once.
pub(crate) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let lines = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_ansi(false).with_target(false);
        lines.with_writer(|| Descriptor).init();
    });
}

/// Writes to the descriptor, and never fails: nobody could be told.
struct Descriptor;

impl io::Write for Descriptor {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let descriptor = DESCRIPTOR.load(Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: the bytes are the line's.
            unsafe { libc::write(descriptor, line.as_ptr().cast(), line.len()) };
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
