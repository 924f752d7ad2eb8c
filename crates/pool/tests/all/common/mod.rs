//! Devices, data and limits of time that several tests share.

#![allow(dead_code, reason = "each test program uses some of it")]

use forebay_pool::device::Device;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long a test waits for what is to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the process, saying what was waited for, unless this value is dropped within three times the patience. A thread that hangs in the
/// pool cannot be ended otherwise.
pub(crate) struct Limit(Sender<()>);

pub(crate) fn limit(what: &'static str) -> Limit {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(3 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("waited {:?} in vain: {what}", 3 * PATIENCE);
            std::process::abort();
        }
    });
    Limit(sender)
}

/// A device that reads as zeroes and forgets what is written; endless by default.
pub(crate) struct Zeroes {
    pub(crate) length: u64,
}

impl Default for Zeroes {
    fn default() -> Self {
        Self { length: 1 << 50 }
    }
}

impl Device for Zeroes {
    fn len(&self) -> u64 {
        self.length
    }

    fn read(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "zeroes".to_owned()
    }
}
