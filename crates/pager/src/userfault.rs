//! Faults that a program handles itself, as the kernel offers them: `userfaultfd(2)` and `ioctl_userfaultfd(2)`.

use crate::messages::Messages;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::io;
use std::os::fd::OwnedFd;

/// Only faults of the program's own instructions, not of system calls on its behalf: anybody may have those.
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);

const API: Opcode = opcode::read_write::<[u64; 3]>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x00);
const UNREGISTER: Opcode = opcode::read::<[u64; 2]>(0xaa, 0x01);
const WAKE: Opcode = opcode::read::<[u64; 2]>(0xaa, 0x02);
const COPY: Opcode = opcode::read_write::<[u64; 5]>(0xaa, 0x03);
const WRITEPROTECT: Opcode = opcode::read_write::<[u64; 3]>(0xaa, 0x06);
const CONTINUE: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x07);
const POISON: Opcode = opcode::read_write::<[u64; 4]>(0xaa, 0x08);

const VERSION: u64 = 0xaa;
/// Faults say whether they are of a protected page, and whose they are; the program's `mremap` and `munmap` are told; shared memory has faults of
/// missing, mapped and protected pages; pages can be poisoned.
const FEATURES: u64 = 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 14;
/// A fault is a signal.
const SIGBUS: u64 = 1 << 7;
const PROTECTED: u64 = 2;
const MISSING_PROTECTED_AND_MINOR: u64 = 7;

const CONTINUE_WITHOUT_WAKING: u64 = 1;
const CONTINUE_PROTECTED: u64 = 2;
const COPY_WITHOUT_WAKING: u64 = 1;
const COPY_PROTECTED: u64 = 2;
const PROTECT: u64 = 1;
const UNPROTECT_WITHOUT_WAKING: u64 = 2;
const POISON_WITHOUT_WAKING: u64 = 1;

/// The system's page. A larger page of ours may be mapped, protected and taken away in parts of this size: by advice, or by `mprotect` and
/// `munmap` of the program.
pub(crate) const PART: usize = 4096;

/// How often a part is tried to be poisoned, while others map it again.
const POISONINGS: usize = 100;

/// Faults of the ranges that are registered here.
#[derive(Debug)]
pub(crate) struct Userfault {
    pub(crate) descriptor: OwnedFd,
    pub(crate) messages: Messages,
    /// Whether system calls that touch an absent page wait for it, as instructions do. Else they fail with `EFAULT`.
    pub(crate) of_system_calls: bool,
    /// Whether faults are handled where they are: nobody waits in the kernel.
    pub(crate) in_place: bool,
}

/// What became of a page that was to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continued {
    /// Those of its parts that the program has not unmapped are there.
    Mapped,
    /// Some have no memory: the program has given it up with `MADV_REMOVE`.
    Removed,
}

impl Userfault {
    /// # Errors
    /// The kernel offers none, or not to this user: which setting changes that.
    pub(crate) fn new(in_place: bool) -> io::Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // Those of system calls have nobody to be a signal for.
        let flags = if in_place { flags | USER_MODE_ONLY } else { flags };
        // SAFETY: a descriptor without a registered range changes nothing.
        let (descriptor, of_system_calls) = match unsafe { userfaultfd(flags) } {
            Ok(descriptor) => (descriptor, !in_place),
            // SAFETY: as above.
            Err(Errno::PERM) if !in_place => match unsafe { userfaultfd(flags | USER_MODE_ONLY) } {
                Ok(descriptor) => (descriptor, false),
                Err(error) => return Err(refused(error)),
            },
            Err(error) => return Err(refused(error)),
        };
        let mut api = [VERSION, FEATURES | if in_place { SIGBUS } else { 0 }, 0];
        ask::<API, 3>(&descriptor, &mut api).map_err(|error| match error {
            Errno::INVAL => io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's userfaultfd lacks write protection or minor faults of shared memory, or poison: Linux 6.6 has them",
            ),
            error => error.into(),
        })?;
        let messages = Messages::new(&descriptor)?;
        Ok(Self { descriptor, messages, of_system_calls, in_place })
    }

    fn ask<const OPCODE: Opcode, const WORDS: usize>(&self, argument: &mut [u64; WORDS]) -> Result<(), Errno> {
        ask::<OPCODE, WORDS>(&self.descriptor, argument)
    }

    /// The same until nobody changes the program's mappings at the same time.
    fn insist<const OPCODE: Opcode, const WORDS: usize>(&self, argument: [u64; WORDS]) -> Result<(), Errno> {
        loop {
            match self.ask::<OPCODE, WORDS>(&mut { argument }) {
                Err(Errno::AGAIN | Errno::INTR) => self.give_way(),
                done => return done,
            }
        }
    }

    /// From now on faults of this range come here. They end with its mapping.
    pub(crate) fn register(&self, address: usize, length: usize) -> io::Result<()> {
        Ok(self.insist::<REGISTER, 4>([address as u64, length as u64, MISSING_PROTECTED_AND_MINOR, 0])?)
    }

    /// Nothing of this range ever is protected. It is registered because the kernel then maps a page at a time there, and not its neighbours, too.
    pub(crate) fn register_alone(&self, address: usize, length: usize) -> io::Result<()> {
        Ok(self.insist::<REGISTER, 4>([address as u64, length as u64, PROTECTED, 0])?)
    }

    /// Faults of this range do not come here any more, nor does news of it.
    pub(crate) fn unregister(&self, address: usize, length: usize) -> Result<(), Errno> {
        self.ask::<UNREGISTER, 2>(&mut [address as u64, length as u64])
    }

    /// Maps what the memory file has at these addresses. `protected`: a write is a fault still. Threads that wait for it are to be
    /// [woken](Userfault::wake) once the caller has let go of its locks: the kernel may stop it at once for one of them, whose next fault needs those.
    pub(crate) fn map(&self, address: usize, length: usize, protected: bool) -> Result<Continued, Errno> {
        let mode = CONTINUE_WITHOUT_WAKING | if protected { CONTINUE_PROTECTED } else { 0 };
        let (mut at, end) = (address, address + length);
        let (mut asked, mut unprotected, mut answer) = (length, protected, Continued::Mapped);
        while at < end {
            let mut argument = [at as u64, asked.min(end - at) as u64, mode, 0];
            match self.ask::<CONTINUE, 4>(&mut argument) {
                Ok(()) => at += asked.min(end - at),
                // So much of it is mapped now.
                Err(_) if argument[3] as i64 > 0 => at += argument[3] as usize,
                Err(Errno::AGAIN | Errno::INTR) => self.give_way(),
                // The program has unmapped or protected a part of the page: no call may concern more than one of its mappings.
                Err(Errno::NOENT) if asked > PART => asked = PART,
                Err(error @ (Errno::EXIST | Errno::NOENT | Errno::FAULT)) => {
                    if error == Errno::EXIST && !unprotected {
                        self.write_protect(address, length, UNPROTECT_WITHOUT_WAKING)?;
                        unprotected = true;
                    }
                    if error == Errno::FAULT {
                        answer = Continued::Removed;
                    }
                    at += PART;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answer)
    }

    /// Gives absent memory these bytes and maps it, protected. `false`: some is there, or the program has changed its mappings, or there is no memory; what is
    /// done may be part of it.
    pub(crate) fn copy(&self, address: usize, bytes: &[u8]) -> bool {
        let mode = COPY_WITHOUT_WAKING | COPY_PROTECTED;
        let mut argument = [address as u64, bytes.as_ptr() as u64, bytes.len() as u64, mode, 0];
        self.ask::<COPY, 5>(&mut argument).is_ok()
    }

    /// A write is a fault from now on.
    pub(crate) fn protect(&self, address: usize, length: usize) -> Result<(), Errno> {
        self.write_protect(address, length, PROTECT)
    }

    fn write_protect(&self, address: usize, length: usize, mode: u64) -> Result<(), Errno> {
        match self.insist::<WRITEPROTECT, 3>([address as u64, length as u64, mode]) {
            Err(Errno::NOENT) => {}
            done => return done,
        }
        // The program has unmapped a part.
        for at in (address..address + length).step_by(PART) {
            match self.insist::<WRITEPROTECT, 3>([at as u64, PART as u64, mode]) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Who touches these addresses gets `SIGBUS`, whatever is mapped there now.
    pub(crate) fn poison(&self, address: usize, length: usize) -> Result<(), Errno> {
        let mut result = Ok(());
        for at in (address..address + length).step_by(PART) {
            result = result.and(self.poison_part(at));
        }
        self.wake(address, length)?;
        result
    }

    fn poison_part(&self, at: usize) -> Result<(), Errno> {
        let mut result = Ok(());
        for _ in 0..POISONINGS {
            // First the mapping, then the mark that a write to it was to be a fault: both keep a place from being poisoned. In the other order the
            // page could be written without anybody's knowledge.
            self.drop_mapping(at, PART);
            self.write_protect(at, PART, UNPROTECT_WITHOUT_WAKING)?;
            result = self.insist::<POISON, 4>([at as u64, PART as u64, POISON_WITHOUT_WAKING, 0]);
            match result {
                Err(Errno::EXIST) => {}
                // The program has unmapped it.
                Err(Errno::NOENT) => return Ok(()),
                done => return done,
            }
        }
        result
    }

    /// Has those who wait look again.
    pub(crate) fn wake(&self, address: usize, length: usize) -> Result<(), Errno> {
        if self.in_place {
            self.messages.handed.end(address..address + length);
            return Ok(());
        }
        self.insist::<WAKE, 2>([address as u64, length as u64])
    }
}

fn ask<const OPCODE: Opcode, const WORDS: usize>(
    descriptor: &OwnedFd,
    argument: &mut [u64; WORDS],
) -> Result<(), Errno> {
    // SAFETY: the kernel's structure for each of these requests is as many words of 64 bits, and it keeps no pointer to it. What a
    // request does to a range is the business of who asks for it.
    unsafe { ioctl(descriptor, Updater::<OPCODE, _>::new(argument)) }
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
