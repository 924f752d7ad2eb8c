//! What the server serves.

use std::fmt;
use std::ops::Range;

/// A volume that clients see under a name.
pub trait Export: Send + Sync {
    /// The name that clients ask for; empty is the default export.
    fn name(&self) -> &str;

    /// A line for people, shown by LIST and INFO.
    fn description(&self) -> &str;

    /// The bytes there are.
    fn size(&self) -> u64;

    /// What clients may do.
    fn features(&self) -> Features;

    /// The sizes of requests.
    fn limits(&self) -> Limits;

    /// The most bytes that one hint to fetch may bring in, so that nobody evicts what others use; of a longer one the beginning is
    /// fetched.
    fn most_fetched(&self) -> u64 {
        u64::MAX
    }

    /// The most connections at a time, asked when one comes; `None` is as many as the server has.
    fn most_connections(&self) -> Option<usize> {
        None
    }

    /// A way in for one thread at a time.
    ///
    /// # Errors
    /// Why there is none.
    fn session(&self) -> Result<Box<dyn Session>, Failure>;

    /// Makes durable what was done to these ranges of bytes before, by whichever session: a flush asks for `0..u64::MAX`, requests with
    /// FUA for their own ranges, many at a time.
    ///
    /// # Errors
    /// The reply to the clients, all that share the call.
    fn commit(&self, ranges: &[Range<u64>]) -> Result<(), Failure>;
}

/// What an export allows, told to clients as transmission flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Writes, trims and zeroing are refused.
    pub read_only: bool,
    /// Several connections see each other's writes, and a flush on one is a flush for all.
    pub multi_conn: bool,
    /// Reading in the order of offsets is much faster than at random.
    pub rotational: bool,
    /// Zeroes that need not keep their space are written faster than data.
    pub fast_zero: bool,
}

/// The sizes of requests, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Offsets and lengths are multiples of this.
    pub minimum: u32,
    /// The best size.
    pub preferred: u32,
    /// The most data in one request.
    pub maximum: u32,
}

/// One thread's way into an export. Requests lie within the export and are not empty; the server has checked that.
pub trait Session: Send {
    /// Reads if that needs no waiting, as when all of it is cached. `false`: what the buffer holds is of no use, and the server calls
    /// `read` from a thread that may wait.
    fn try_read(&mut self, offset: u64, buffer: &mut [u8]) -> bool;

    /// Another session goes on for the same client: what this one has seen is to be known to the cache before what that one sees.
    fn hand_over(&mut self) {}

    /// The session's thread is going to wait for a client or for work.
    fn rest(&mut self) {}

    /// Reads.
    ///
    /// # Errors
    /// What the client is told.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure>;

    /// Writes if that needs no waiting. `false`: the server writes all of it by `write`, from a thread that may wait.
    fn try_write(&mut self, offset: u64, data: &[u8]) -> bool;

    /// Writes.
    ///
    /// # Errors
    /// What the client is told.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure>;

    /// Gives up the contents of a range.
    ///
    /// # Errors
    /// What the client is told.
    fn trim(&mut self, offset: u64, length: u64) -> Result<(), Failure>;

    /// Makes a range read as zeroes. `allocate`: it must keep its space (`NBD_CMD_FLAG_NO_HOLE`).
    ///
    /// # Errors
    /// What the client is told.
    fn write_zeroes(&mut self, offset: u64, length: u64, allocate: bool) -> Result<(), Failure>;

    /// Fetches the beginning of a range that will be read soon: as much as takes a short time. Returns how many bytes that was; 0 if no
    /// more can be fetched. The server asks again for the rest, as long as the client is there.
    ///
    /// # Errors
    /// What the client is told.
    fn cache(&mut self, offset: u64, length: u64) -> Result<u64, Failure>;

    /// What is known of a range: consecutive extents from `offset` on, at least one, within the range.
    ///
    /// # Errors
    /// What the client is told.
    fn status(&mut self, offset: u64, length: u64) -> Result<Vec<Extent>, Failure>;
}

/// Consecutive bytes of one kind: `base:allocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub length: u64,
    /// No space is allocated for them.
    pub hole: bool,
    /// They read as zeroes.
    pub zero: bool,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the protocol tells.
    pub errno: Errno,
    /// What a structured reply adds, for people.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The protocol's error values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted: the export is read-only.
    NotPermitted = 1,
    /// Input or output error.
    Io = 5,
    /// Out of memory.
    NoMemory = 12,
    /// Invalid argument.
    Invalid = 22,
    /// No space left on the device.
    NoSpace = 28,
    /// Value too large.
    Overflow = 75,
    /// Not supported.
    NotSupported = 95,
    /// The server is shutting down.
    ShuttingDown = 108,
}
