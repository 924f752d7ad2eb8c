//! The connection to the kernel: a descriptor of the device.

use super::reply::{Fixed, Unwanted, header};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, read, writev};
use std::io::{self, IoSlice};

/// By which the kernel's requests are received.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// `FUSE_DEV_IOC_CLONE`: _IOR(229, 0, uint32_t).
const CLONE: libc::c_ulong = 0x8004_e500;

/// The code of a notification that a file's attributes, and the kernel's copies of a part of it, are to be dropped.
const INVALIDATE: i32 = 2;

/// A connection. What comes by one must be answered by the same.
pub(crate) struct Channel {
    device: OwnedFd,
}

impl Channel {
    pub(super) fn new(device: OwnedFd) -> Self {
        Self { device }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open_device() -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// The same connection by a descriptor of its own: one for all threads would be written to by each of them at each request.
    ///
    /// # Errors
    /// The device cannot be opened: where `fusermount3` has mounted the directory, its user may be unable to.
    pub(super) fn another(&self) -> io::Result<Self> {
        let device = Self::open_device()?;
        let mut from = self.device.as_raw_fd() as u32;
        // SAFETY: the kernel reads a descriptor's number at this address, and keeps nothing of it.
        if unsafe { libc::ioctl(device.as_raw_fd(), CLONE, &raw mut from) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { device })
    }

    /// Receives a message; nothing when the file system has been unmounted.
    ///
    /// # Errors
    /// The system's, such as `ECONNABORTED` when the connection was cut.
    pub(super) fn receive<'b>(&self, room: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        loop {
            match read(&self.device, &mut *room) {
                Ok(length) => return Ok(Some(&room[..length])),
                // The program that has asked was interrupted before its request was read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers a request.
    pub(super) fn answer(&self, unique: u64, error: i32, parts: [&[u8]; 2]) -> Unwanted {
        let header = header(parts.iter().map(|part| part.len()).sum(), error, unique);
        let all = [IoSlice::new(&header), IoSlice::new(parts[0]), IoSlice::new(parts[1])];
        let used = 3 - parts.iter().rev().take_while(|part| part.is_empty()).count();
        match writev(&self.device, &all[..used]) {
            Ok(_) => Unwanted(false),
            // The connection has gone, or the request was answered before, as its program was killed or its time was over.
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Unwanted(true),
            Err(sent) => {
                tracing::error!("the kernel refuses an answer: {sent}");
                if error == 0 {
                    return self.answer(unique, -libc::EIO, [&[], &[]]).or_taken();
                }
                Unwanted(true)
            }
        }
    }

    /// Has the kernel drop what it knows of a file's attributes. With an offset it drops copies of that part, too, and waits for pages
    /// that are being read or written.
    pub(super) fn invalidate(&self, node: u64, offset: i64, length: i64) {
        let mut fixed = Fixed::new();
        fixed.long(node);
        fixed.long(offset as u64);
        fixed.long(length as u64);
        let header = header(fixed.bytes().len(), INVALIDATE, 0);
        // The kernel may have forgotten the file, and its copies with it.
        let _ = writev(self.device.as_fd(), &[IoSlice::new(&header), IoSlice::new(fixed.bytes())]);
    }
}

impl Unwanted {
    /// An error took the place of an answer: what that would have handed over is not the kernel's.
    fn or_taken(self) -> Self {
        Self(true)
    }
}
