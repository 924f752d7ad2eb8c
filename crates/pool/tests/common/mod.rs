//! Devices and data that several tests share.

use forebay_pool::device::Device;
use std::io::{self, IoSlice, IoSliceMut};

/// An endless device that reads as zeroes and forgets what is written.
pub(crate) struct Zeroes;

impl Device for Zeroes {
    fn len(&self) -> u64 {
        1 << 50
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
