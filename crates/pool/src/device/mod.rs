//! What lies behind the pool: bytes in storage, read and written by their offset.

/// Methods that a wrapper has of the device within: `forward!(self => self.device; len measure)`.
macro_rules! forward {
    ($self:ident => $within:expr; $($method:ident)*) => {
        $(forward!(@$method $self $within);)*
    };
    (@len $self:ident $within:expr) => {
        fn len(&$self) -> u64 {
            $within.len()
        }
    };
    (@measure $self:ident $within:expr) => {
        fn measure(&$self) -> io::Result<u64> {
            $within.measure()
        }
    };
    (@set_len $self:ident $within:expr) => {
        fn set_len(&$self, length: u64) -> io::Result<()> {
            $within.set_len(length)
        }
    };
    (@read_only $self:ident $within:expr) => {
        fn read_only(&$self) -> bool {
            $within.read_only()
        }
    };
    (@read $self:ident $within:expr) => {
        fn read(&$self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
            $within.read(offset, buffers)
        }
    };
    (@write $self:ident $within:expr) => {
        fn write(&$self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
            $within.write(offset, buffers)
        }
    };
    (@read_many $self:ident $within:expr) => {
        fn read_many(&$self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
            $within.read_many(runs)
        }
    };
    (@write_many $self:ident $within:expr) => {
        fn write_many(&$self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
            $within.write_many(runs)
        }
    };
    (@flush $self:ident $within:expr) => {
        fn flush(&$self) -> io::Result<()> {
            $within.flush()
        }
    };
    (@trim $self:ident $within:expr) => {
        fn trim(&$self, offset: u64, length: u64) -> io::Result<()> {
            $within.trim(offset, length)
        }
    };
    (@write_zeroes $self:ident $within:expr) => {
        fn write_zeroes(&$self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
            $within.write_zeroes(offset, length, allocate)
        }
    };
    (@zeroes_fast $self:ident $within:expr) => {
        fn zeroes_fast(&$self) -> bool {
            $within.zeroes_fast()
        }
    };
    (@extents $self:ident $within:expr) => {
        fn extents(&$self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
            $within.extents(offset, length)
        }
    };
    (@reads_in_place $self:ident $within:expr) => {
        fn reads_in_place(&$self) -> bool {
            $within.reads_in_place()
        }
    };
    (@spaces $self:ident $within:expr) => {
        fn spaces(&$self) -> Vec<Space> {
            $within.spaces()
        }
    };
    (@reserve $self:ident $within:expr) => {
        fn reserve(&$self, offset: u64, length: u64) -> io::Result<Reserved> {
            $within.reserve(offset, length)
        }
    };
    (@describe $self:ident $within:expr) => {
        fn describe(&$self) -> String {
            $within.describe()
        }
    };
}

mod bounded;
mod clock;
mod copy_on_write;
mod delayed;
mod faulty;
mod file;
mod joined;
mod latch;
mod limited;
mod lock;
mod memory;
#[cfg(feature = "object")]
mod object;
mod pieces;
mod ring;
mod space;
mod volatile;

pub use bounded::Bounded;
pub use clock::{Clock, SystemClock};
pub use copy_on_write::CopyOnWrite;
pub use delayed::{Delayed, Timing};
pub use faulty::{Fault, Faulty, Operation, Rule, Tear, When};
pub use file::{FileDevice, FileOptions};
pub use joined::Joined;
pub use limited::{Limited, Limits};
pub use memory::MemoryDevice;
#[cfg(feature = "object")]
pub use object::{NewVolume, ObjectDevice, ObjectOptions, SingleObject};
pub use space::{Reserved, Space};
pub use volatile::Volatile;

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// Storage whose length changes at most when it is [measured](Device::measure), which never makes it less, or [set](Device::set_len). All its methods may be called by several threads at once.
///
/// The pool asks for offsets and lengths that are multiples of its page size, but for what ends at the device's end, and
/// from buffers aligned to 4 KiB; it never has two writes of the same bytes under way. Devices bear any offset, length and
/// buffer. They refuse what reaches behind their end with [`io::ErrorKind::InvalidInput`], and change nothing then.
///
/// 1. A `read` sees every `write` that returned before it began.
/// 2. What a `write` that failed, or the writes since the last successful `flush`, have left in storage after a crash is
///    unknown, byte for byte old or new; other bytes are as they were.
/// 3. After `flush` returned `Ok`, all that was written before it began survives a crash. After it returned an error a later
///    `flush` returns `Ok` only if it has made all of that durable; a device that cannot promise this keeps failing.
pub trait Device: Send + Sync {
    /// The bytes there are.
    fn len(&self) -> u64;

    /// Looks how long the storage is by now. If it has grown, that is the length from now on; if it has shrunk, the length stays,
    /// and what lies beyond the end fails.
    ///
    /// # Errors
    /// It cannot be known.
    fn measure(&self) -> io::Result<u64> {
        Ok(self.len())
    }

    /// Makes it as long as this: bytes behind a nearer end are gone, and those before a farther one read as zeroes. No other request reaches
    /// behind either end meanwhile.
    ///
    /// # Errors
    /// What went wrong, and then it is as long as before; [`io::ErrorKind::Unsupported`] if its length is fixed.
    fn set_len(&self, length: u64) -> io::Result<()> {
        let message = format!("{}: its length is fixed, and cannot become {length} bytes", self.describe());
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether writes are refused.
    fn read_only(&self) -> bool {
        false
    }

    /// Fills the buffers one after the other with what begins at `offset`. All or an error: a short read is an error.
    ///
    /// # Errors
    /// What went wrong; what the buffers then hold is unknown.
    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()>;

    /// Writes the buffers one after the other from `offset` on. All or an error.
    ///
    /// # Errors
    /// What went wrong; some of the bytes may have been written.
    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()>;

    /// Reads several runs, in any order and as many at a time as the device takes; the results stand in the order of the runs.
    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        runs.iter_mut().map(|(offset, run)| self.read(*offset, &mut [IoSliceMut::new(run)])).collect()
    }

    /// Writes several runs that do not overlap, in any order and as many at a time as the device takes; the results stand in the
    /// order of the runs.
    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        runs.iter().map(|&(offset, run)| self.write(offset, &[run])).collect()
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// What went wrong: nothing is known to be durable then.
    fn flush(&self) -> io::Result<()>;

    /// Says that a range is not needed any more: it may read as zeroes or as what it was.
    ///
    /// # Errors
    /// What went wrong.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes a range read as zeroes. `allocate`: it must keep its space.
    ///
    /// # Errors
    /// What went wrong; some of the bytes may be zero.
    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()>;

    /// Whether `write_zeroes` of what need not keep its space is faster than a write of as many bytes.
    fn zeroes_fast(&self) -> bool {
        false
    }

    /// What is known of a range: consecutive extents that begin at `offset` and cover at least its first byte, and at most
    /// the range.
    ///
    /// # Errors
    /// What went wrong.
    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        let _ = offset;
        Ok(vec![Extent { length, hole: false, zero: false }])
    }

    /// The file systems in which it takes space as it is written, asked once. None: all its space is there.
    fn spaces(&self) -> Vec<Space> {
        Vec::new()
    }

    /// Finds space for a range that is about to become dirty in a cache, where one of its [spaces](Device::spaces) has no room without being asked.
    ///
    /// # Errors
    /// There is none: the write is refused.
    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        let _ = (offset, length);
        Ok(Reserved::Unknown)
    }

    /// Whether a read is a system call, or a copy, of the thread that asks for it, and neither waits for another thread of this process nor logs: so it
    /// may be called while that thread handles a signal.
    fn reads_in_place(&self) -> bool {
        false
    }

    /// What it is, for messages and logs: a path, a bucket.
    fn describe(&self) -> String;
}

/// Consecutive bytes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub length: u64,
    /// No space is allocated for them.
    pub hole: bool,
    /// They read as zeroes.
    pub zero: bool,
}

/// A pointer to a device is that device.
macro_rules! device_behind {
    ($($pointer:ident)*) => {$(
        impl<D: Device + ?Sized> Device for $pointer<D> {
            forward!(self => (**self); len measure set_len read_only read write read_many write_many flush trim write_zeroes
                zeroes_fast extents spaces reserve reads_in_place describe);
        }
    )*};
}

device_behind!(Arc Box);
