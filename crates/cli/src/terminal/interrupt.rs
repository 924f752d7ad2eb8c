//! Ctrl-C: the first one asks for what is done so far, the second one ends at once.

use forebay_trace::write::temporaries;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The exit code of a command that was interrupted: 128 and SIGINT's number.
pub(crate) const EXIT_CODE: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Whether there is something to tell: while a trace is read to be held, nothing is done.
static TELLS: AtomicBool = AtomicBool::new(false);

/// A file that is being written, and what lies beside it until it is whole.
static WRITING: Mutex<Option<(PathBuf, [PathBuf; 2])>> = Mutex::new(None);

/// What is being done.
static DOING: Mutex<String> = Mutex::new(String::new());

/// From now on Ctrl-C says that it stopped this.
pub(crate) fn doing(what: &str) {
    install();
    what.clone_into(&mut DOING.lock().unwrap_or_else(PoisonError::into_inner));
}

/// From now on there is something to tell, and [`asked`] is looked at.
pub(crate) fn listen() {
    install();
    TELLS.store(true, Ordering::Relaxed);
}

/// From now on Ctrl-C removes what is there of the trace that is written to `out`.
pub(crate) fn writing(out: &Path) {
    install();
    *WRITING.lock().unwrap_or_else(PoisonError::into_inner) = Some((out.to_owned(), temporaries(out)));
}

fn leave() -> ! {
    if let Some((out, beside)) = WRITING.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // The one that is not there, or has its name already, stays as it is.
        beside.iter().for_each(|path| drop(std::fs::remove_file(path)));
        eprintln!("forebay: stopped: {} is not written", out.display());
    } else {
        match &**DOING.lock().unwrap_or_else(PoisonError::into_inner) {
            "" => eprintln!("forebay: stopped"),
            doing => eprintln!("forebay: stopped while {doing}; nothing more is known yet"),
        }
    }
    std::process::exit(i32::from(EXIT_CODE))
}

/// From now on Ctrl-C ends the command, unless there is something to tell.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let interrupted = || {
            if !TELLS.load(Ordering::Relaxed) || ASKED.swap(true, Ordering::Relaxed) {
                leave();
            }
        };
        // Without a handler Ctrl-C ends the command at once, which is no failure of what was asked.
        let _ = ctrlc::set_handler(interrupted);
    });
}

/// Nothing can be told until the next [`listen`]: Ctrl-C ends the command.
pub(crate) fn ignore() {
    TELLS.store(false, Ordering::Relaxed);
}

/// Whether to stop and tell what is done.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
