//! Ctrl-C: the first one asks for what is done so far, the second one ends at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a command that was interrupted: 128 and SIGINT's number.
pub(crate) const EXIT_CODE: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Whether there is something to tell: while a trace is read to be held, nothing is done.
static TELLS: AtomicBool = AtomicBool::new(false);

/// From now on there is something to tell, and [`asked`] is looked at.
pub(crate) fn listen() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let interrupted = || {
            if !TELLS.load(Ordering::Relaxed) || ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_CODE));
            }
        };
        // Without a handler Ctrl-C ends the command at once, which is no failure of what was asked.
        let _ = ctrlc::set_handler(interrupted);
    });
    TELLS.store(true, Ordering::Relaxed);
}

/// Nothing can be told until the next [`listen`]: Ctrl-C ends the command.
pub(crate) fn ignore() {
    TELLS.store(false, Ordering::Relaxed);
}

/// Whether to stop and tell what is done.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
