//! Faults that a program handles itself, as the kernel offers them: `userfaultfd(2)` and `ioctl_userfaultfd(2)`.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Only faults of the program's own instructions, not of system calls on its behalf: anybody may have those.
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);

const API: Opcode = opcode::read_write::<[u64; 3]>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x00);
const WAKE: Opcode = opcode::read::<[u64; 2]>(0xaa, 0x02);
const WRITEPROTECT: Opcode = opcode::read_write::<[u64; 3]>(0xaa, 0x06);
const CONTINUE: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x07);
const POISON: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x08);

const VERSION: u64 = 0xaa;
/// Faults say whether they are of a protected page; shared memory has faults of missing, mapped and protected pages; pages can be poisoned.
const FEATURES: u64 = 1 | 1 << 5 | 1 << 10 | 1 << 12 | 1 << 14;
const MISSING_PROTECTED_AND_MINOR: u64 = 7;

const CONTINUE_PROTECTED: u64 = 2;
const PROTECT: u64 = 1;

const EVENT_PAGEFAULT: u8 = 0x12;
const FLAG_WRITE: u64 = 1;
const FLAG_PROTECTED: u64 = 2;
const FLAG_MINOR: u64 = 4;

/// Faults of the ranges that are registered here.
#[derive(Debug)]
pub(crate) struct Userfault {
    descriptor: OwnedFd,
    /// Whether system calls that touch an absent page wait for it, as instructions do. Else they fail with `EFAULT`.
    pub(crate) of_system_calls: bool,
}

/// A thread has touched a page that is not there, or is protected, and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) address: usize,
    pub(crate) write: bool,
    pub(crate) kind: Kind,
}

/// What keeps the page from being touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has no memory.
    Missing,
    /// It has, and is not mapped.
    Unmapped,
    /// It is mapped, and a write is a fault.
    Protected,
}

impl Userfault {
    /// # Errors
    /// The kernel offers none, or not to this user: which setting changes that.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: a descriptor without a registered range changes nothing.
        let (descriptor, of_system_calls) = match unsafe { userfaultfd(flags) } {
            Ok(descriptor) => (descriptor, true),
            // SAFETY: as above.
            Err(Errno::PERM) => match unsafe { userfaultfd(flags | USER_MODE_ONLY) } {
                Ok(descriptor) => (descriptor, false),
                Err(error) => return Err(refused(error)),
            },
            Err(error) => return Err(refused(error)),
        };
        let faults = Self { descriptor, of_system_calls };
        let mut api = [VERSION, FEATURES, 0];
        faults.ask::<API, 3>(&mut api).map_err(|error| match error {
            Errno::INVAL => io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's userfaultfd lacks write protection or minor faults of shared memory, or poison: Linux 6.6 has them",
            ),
            error => error.into(),
        })?;
        Ok(faults)
    }

    fn ask<const OPCODE: Opcode, const WORDS: usize>(&self, argument: &mut [u64; WORDS]) -> Result<(), Errno> {
        // SAFETY: the kernel's structure for each of these requests is as many words of 64 bits, and it keeps no pointer to it. What a
        // request does to a range is the business of who asks for it.
        unsafe { ioctl(&self.descriptor, Updater::<OPCODE, _>::new(argument)) }
    }

    /// The same until nobody changes the program's mappings at the same time.
    fn insist<const OPCODE: Opcode, const WORDS: usize>(&self, argument: [u64; WORDS]) -> Result<(), Errno> {
        loop {
            match self.ask::<OPCODE, WORDS>(&mut { argument }) {
                Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                done => return done,
            }
        }
    }

    /// From now on faults of this range come here. They end with its mapping.
    pub(crate) fn register(&self, address: usize, length: usize) -> io::Result<()> {
        Ok(self.insist::<REGISTER, 4>([address as u64, length as u64, MISSING_PROTECTED_AND_MINOR, 0])?)
    }

    /// Maps what the memory file has at these addresses, and wakes who waits for it. `protected`: a write is a fault still.
    pub(crate) fn map(&self, address: usize, length: usize, protected: bool) -> Result<(), Errno> {
        let mode = if protected { CONTINUE_PROTECTED } else { 0 };
        match self.insist::<CONTINUE, 4>([address as u64, length as u64, mode, 0]) {
            Err(Errno::EXIST) if protected => self.wake(address, length),
            Err(Errno::EXIST) => self.protect(address, length, false),
            done => done,
        }
    }

    /// Whether a write is a fault. Those that wait are woken if it is none.
    pub(crate) fn protect(&self, address: usize, length: usize, protected: bool) -> Result<(), Errno> {
        self.insist::<WRITEPROTECT, 3>([address as u64, length as u64, if protected { PROTECT } else { 0 }])
    }

    /// Who touches these addresses gets `SIGBUS`.
    pub(crate) fn poison(&self, address: usize, length: usize) -> Result<(), Errno> {
        self.insist::<POISON, 4>([address as u64, length as u64, 0, 0])
    }

    /// Has those who wait look again.
    pub(crate) fn wake(&self, address: usize, length: usize) -> Result<(), Errno> {
        self.insist::<WAKE, 2>([address as u64, length as u64])
    }

    /// The next fault; `None` if `stop` becomes readable.
    pub(crate) fn next(&self, stop: &impl AsFd) -> io::Result<Option<Fault>> {
        loop {
            let mut message = [0_u8; 32];
            match rustix::io::read(&self.descriptor, &mut message) {
                Ok(32) if message[0] == EVENT_PAGEFAULT => {
                    let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().expect("8 bytes"));
                    let (flags, address) = (word(8), word(16) as usize);
                    let kind = match flags & (FLAG_PROTECTED | FLAG_MINOR) {
                        0 => Kind::Missing,
                        FLAG_MINOR => Kind::Unmapped,
                        _ => Kind::Protected,
                    };
                    let write = flags & FLAG_WRITE != 0 || kind == Kind::Protected;
                    return Ok(Some(Fault { address, write, kind }));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut ready = [PollFd::new(&self.descriptor, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
                    match poll(&mut ready, None) {
                        Ok(_) if !ready[1].revents().is_empty() => return Ok(None),
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn refused(error: Errno) -> io::Error {
    let why = match error {
        Errno::PERM => {
            "userfaultfd is refused: allow it by `sysctl vm.unprivileged_userfaultfd=1`, or in the container's list of system calls"
        }
        Errno::NOSYS => "this kernel has no userfaultfd: it needs CONFIG_USERFAULTFD",
        _ => return error.into(),
    };
    io::Error::new(io::Error::from(error).kind(), why)
}
