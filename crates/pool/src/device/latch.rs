//! A flush that fails once fails for ever.
//!
//! After a failed fsync Linux marks the pages it could not write as clean, and the next fsync succeeds though they are lost
//! (<https://wiki.postgresql.org/wiki/Fsync_Errors>). So the first failure is kept, and no later flush is believed.

use super::pieces::at;
use std::io;
use std::sync::Mutex;

/// The first failure of a device's flush.
#[derive(Debug, Default)]
pub(super) struct Latch {
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl Latch {
    /// Runs a flush, unless one has failed before. One at a time: the kernel tells of a failure once, to whoever asks first,
    /// and a second flush beside it would succeed without reason.
    pub(super) fn flush(&self, name: &str, flush: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((kind, message)) = &*failed {
            return Err(io::Error::new(*kind, format!("{message}; no later flush of it is believed, open it anew")));
        }
        loop {
            match flush() {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let error = at(&error, name, "what was written did not become durable");
                    *failed = Some((error.kind(), error.to_string()));
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn after_a_failed_flush_none_succeeds() {
        let latch = Latch::default();
        let answers = RefCell::new(vec![Ok(()), Err(io::Error::from_raw_os_error(libc::EIO)), Ok(())]);
        let flush = || latch.flush("disk", || answers.borrow_mut().pop().expect("the latch asks no more than this"));
        assert!(flush().is_ok());
        assert!(flush().is_err());
        let later = flush().expect_err("the kernel was not asked again");
        assert!(later.to_string().starts_with("disk: what was written did not become durable"), "{later}");
        assert_eq!(answers.borrow().len(), 1);
    }

    #[test]
    fn an_interrupted_flush_is_asked_for_again() {
        let latch = Latch::default();
        let answers = RefCell::new(vec![Ok(()), Err(io::Error::from(io::ErrorKind::Interrupted))]);
        assert!(latch.flush("disk", || answers.borrow_mut().pop().expect("two answers")).is_ok());
        assert!(answers.borrow().is_empty());
    }
}
