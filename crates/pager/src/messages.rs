//! What the kernel has to say of registered ranges: faults, and that the program has unmapped or moved some.
//!
//! ```text
//!   kernel --> epoll --> one of the threads that wait in `next` reads one message
//!                          a fault: answered by `next`
//!                          unmapped, moved: noted here before anybody goes on
//! ```
//!
//! The thread that unmaps or moves goes on when its message has been read. So who has the lock of the queue, and has read all there was, knows which
//! addresses are regions: addresses are given up to the kernel under that lock alone (`drop_mapping`).

use crate::handed::Handed;
use crate::in_place::report;
use crate::userfault::Userfault;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_REMAP: u8 = 0x14;
const EVENT_UNMAP: u8 = 0x16;
const FLAG_WRITE: u64 = 1;
const FLAG_PROTECTED: u64 = 2;
const FLAG_MINOR: u64 = 4;

/// Ranges that one call takes.
const MOST_RANGES: usize = 128;

/// `MADV_DONTNEED_LOCKED`.
const DONTNEED_LOCKED: i32 = 24;

/// What the threads wait for.
const FAULTS: u64 = 0;
const KICK: u64 = 1;
const STOP: u64 = 2;

/// A thread has touched a page that is not there, or is protected, and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) address: usize,
    pub(crate) write: bool,
    pub(crate) kind: Kind,
    /// The thread that waits.
    pub(crate) thread: u32,
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

#[derive(Debug)]
pub(crate) struct Messages {
    queue: Mutex<Queue>,
    epoll: OwnedFd,
    /// There are faults in the queue.
    kick: OwnedFd,
    stop: OwnedFd,
    /// This process, where one call may change several of its ranges.
    process: Option<OwnedFd>,
    pub(crate) handed: Handed,
    /// Whether the program has unmapped or moved any.
    any_gone: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    /// Faults that were read by threads which have other work.
    faults: VecDeque<Fault>,
    /// Addresses of regions that the program has unmapped or moved away, in order and apart: whatever is there is not ours.
    gone: Vec<Range<usize>>,
}

impl Messages {
    pub(crate) fn new(descriptor: &OwnedFd) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (kick, stop) = (eventfd(0, flags)?, eventfd(0, flags)?);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // One thread is woken for a message, and has the others woken for the next.
        epoll::add(&epoll, descriptor, EventData::new_u64(FAULTS), EventFlags::IN | EventFlags::ONESHOT)?;
        epoll::add(&epoll, &kick, EventData::new_u64(KICK), EventFlags::IN)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let process = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        let (handed, any_gone) = (Handed::default(), AtomicBool::new(false));
        Ok(Self { queue: Mutex::default(), epoll, kick, stop, process, handed, any_gone })
    }

    /// Ends the threads that wait for faults.
    pub(crate) fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Userfault {
    /// The next fault; `None` if it is to [stop](Messages::stop).
    pub(crate) fn next(&self) -> io::Result<Option<Fault>> {
        loop {
            if let Some(fault) = self.take()? {
                return Ok(Some(fault));
            }
            let mut ready = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(KICK) }];
            match epoll::wait(&self.messages.epoll, &mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            match { ready[0].data }.u64() {
                STOP => return Ok(None),
                FAULTS => {
                    let fault = self.take();
                    let flags = EventFlags::IN | EventFlags::ONESHOT;
                    epoll::modify(&self.messages.epoll, &self.descriptor, EventData::new_u64(FAULTS), flags)?;
                    if let Some(fault) = fault? {
                        return Ok(Some(fault));
                    }
                }
                _ => _ = rustix::io::read(&self.messages.kick, &mut [0; 8]),
            }
        }
    }

    /// A fault that waits, if there is one.
    fn take(&self) -> io::Result<Option<Fault>> {
        let mut queue = self.messages.lock();
        if let Some(fault) = queue.faults.pop_front() {
            return Ok(Some(fault));
        }
        if let Some(fault) = self.messages.handed.next() {
            return Ok(Some(fault));
        }
        self.read(&mut queue)
    }

    /// Waits until others have handled a fault.
    pub(crate) fn hand_over(&self, fault: Fault) {
        self.messages.handed.wait(fault, || self.kick());
    }

    /// Whether an address that was a region's is the program's own.
    pub(crate) fn is_gone(&self, address: usize) -> bool {
        // Whoever unmaps goes on when its message has been read, and so is not touched before.
        self.messages.any_gone.load(Ordering::Acquire)
            && self.messages.lock().gone.iter().any(|gone| gone.contains(&address))
    }

    /// Faults that were left to wait are to be handled.
    pub(crate) fn again(&self, faults: impl IntoIterator<Item = Fault>) {
        self.messages.lock().faults.extend(faults);
        self.kick();
    }

    fn kick(&self) {
        let _ = rustix::io::write(&self.messages.kick, &1_u64.to_ne_bytes());
    }

    /// The program changes its mappings, and goes on when that has been read.
    pub(crate) fn give_way(&self) {
        self.read_all(&mut self.messages.lock());
        std::thread::yield_now();
    }

    /// Reads all there is.
    fn read_all(&self, queue: &mut Queue) {
        let before = queue.faults.len();
        while let Ok(Some(fault)) = self.read(queue) {
            queue.faults.push_back(fault);
        }
        if queue.faults.len() > before {
            self.kick();
        }
    }

    /// The next fault that the kernel has.
    fn read(&self, queue: &mut Queue) -> io::Result<Option<Fault>> {
        let mut message = [0_u8; 32];
        loop {
            match rustix::io::read(&self.descriptor, &mut message) {
                Ok(32) => {}
                Ok(_) | Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            let word = |at: usize| u64::from_ne_bytes(message[at..at + 8].try_into().expect("8 bytes"));
            match message[0] {
                EVENT_PAGEFAULT => {
                    let (flags, address) = (word(8), word(16) as usize);
                    let kind = match flags & (FLAG_PROTECTED | FLAG_MINOR) {
                        0 => Kind::Missing,
                        FLAG_MINOR => Kind::Unmapped,
                        _ => Kind::Protected,
                    };
                    let write = flags & FLAG_WRITE != 0 || kind == Kind::Protected;
                    return Ok(Some(Fault { address, write, kind, thread: word(24) as u32 }));
                }
                EVENT_UNMAP => {
                    self.messages.any_gone.store(true, Ordering::Release);
                    queue.lose(word(8) as usize..word(16) as usize);
                }
                EVENT_REMAP => {
                    self.messages.any_gone.store(true, Ordering::Release);
                    let (from, to, length) = (word(8) as usize, word(16) as usize, word(24) as usize);
                    queue.lose(from..from + length);
                    let what = format!("{length} bytes at {to:#x} cannot be used");
                    report(&what, "a part of a region was moved by mremap, which it does not follow");
                    // SAFETY: the program has just moved a part of a region there, whose bytes the region has.
                    if let Err(error) = unsafe { mprotect(to as *mut _, length, MprotectFlags::empty()) } {
                        report(&error, "what was moved cannot be protected: its bytes are wrong");
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the mapping of a range of a region away. Its bytes stay in the file.
    pub(crate) fn drop_mapping(&self, address: usize, length: usize) {
        let mut queue = self.messages.lock();
        self.read_all(&mut queue);
        queue.kept(address..address + length).into_iter().for_each(drop_one);
    }

    /// Has the kernel refuse writes to a range, which can be read as before.
    pub(crate) fn refuse_writes(&self, address: usize, length: usize) -> Result<(), Errno> {
        let mut queue = self.messages.lock();
        self.read_all(&mut queue);
        queue.kept(address..address + length).into_iter().try_for_each(|range| {
            // SAFETY: these are a region's addresses, at which its program was about to write to what cannot be written.
            unsafe { mprotect(range.start as *mut _, range.len(), MprotectFlags::READ) }
        })
    }

    /// The same for several ranges, which costs less together.
    pub(crate) fn drop_mappings(&self, ranges: impl Iterator<Item = Range<usize>>) {
        let mut queue = self.messages.lock();
        self.read_all(&mut queue);
        let kept: Vec<Range<usize>> =
            if queue.gone.is_empty() { ranges.collect() } else { ranges.flat_map(|range| queue.kept(range)).collect() };
        for some in kept.chunks(MOST_RANGES) {
            let done = if some.len() > 1 { self.messages.drop_all(some) } else { 0 };
            some[done..].iter().cloned().for_each(drop_one);
        }
    }

    /// A region begins to have these addresses: what was there before is forgotten.
    pub(crate) fn begin(&self, range: Range<usize>) {
        self.messages.lock().forget(&range);
    }

    /// Has a region's addresses unmapped by `unmap`, as far as the program has not done so.
    pub(crate) fn end(&self, range: Range<usize>, unmap: impl Fn(Range<usize>)) {
        let mut queue = self.messages.lock();
        self.read_all(&mut queue);
        queue.kept(range.clone()).into_iter().for_each(unmap);
        queue.forget(&range);
    }
}

fn drop_one(range: Range<usize>) {
    // SAFETY: these are a region's addresses, and a mapping of a file, which keeps the bytes.
    let _ = unsafe { madvise(range.start as *mut _, range.len(), Advice::LinuxDontneedLocked) };
}

impl Messages {
    /// Takes the mappings of ranges away by one call, which interrupts the other cores once: how many of the first ones, none where the kernel has no such call
    /// (Linux 6.13 has).
    fn drop_all(&self, ranges: &[Range<usize>]) -> usize {
        let Some(process) = &self.process else { return 0 };
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_RANGES];
        for (vector, range) in vectors.iter_mut().zip(ranges) {
            *vector = libc::iovec { iov_base: range.start as *mut _, iov_len: range.len() };
        }
        // SAFETY: as for one of them: these are a region's addresses, and a mapping of a file, which keeps the bytes.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_raw_fd(),
                vectors.as_ptr(),
                ranges.len(),
                DONTNEED_LOCKED,
                0,
            )
        };
        let mut left = usize::try_from(advised).unwrap_or(0);
        let whole = |range: &&Range<usize>| {
            let fits = range.len() <= left;
            left -= if fits { range.len() } else { 0 };
            fits
        };
        ranges.iter().take_while(whole).count()
    }
}

impl Queue {
    fn lose(&mut self, lost: Range<usize>) {
        self.forget(&lost);
        let place = self.gone.partition_point(|gone| gone.start < lost.start);
        self.gone.insert(place, lost);
    }

    /// Nothing of this range counts as gone any more.
    fn forget(&mut self, range: &Range<usize>) {
        let rest = |gone: Range<usize>| {
            let pieces = [gone.start..gone.end.min(range.start), gone.start.max(range.end)..gone.end];
            pieces.into_iter().filter(|piece| !piece.is_empty())
        };
        self.gone = std::mem::take(&mut self.gone).into_iter().flat_map(rest).collect();
    }

    /// What of a range has not gone.
    fn kept(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut kept, mut from) = (Vec::with_capacity(1), range.start);
        for gone in self.gone.iter().filter(|gone| gone.start < range.end && range.start < gone.end) {
            if from < gone.start {
                kept.push(from..gone.start);
            }
            from = gone.end;
        }
        if from < range.end {
            kept.push(from..range.end);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of a range, by its ends.
    fn kept(queue: &Queue, range: Range<usize>) -> Vec<(usize, usize)> {
        queue.kept(range).into_iter().map(|piece| (piece.start, piece.end)).collect()
    }

    #[test]
    fn what_has_gone_is_cut_out_of_what_is_kept() {
        let mut queue = Queue::default();
        assert_eq!(kept(&queue, 10..90), [(10, 90)]);
        queue.lose(40..50);
        queue.lose(20..30);
        queue.lose(45..60);
        assert_eq!(kept(&queue, 10..90), [(10, 20), (30, 40), (60, 90)]);
        assert_eq!(kept(&queue, 25..28), []);
        assert_eq!(kept(&queue, 25..35), [(30, 35)]);
        queue.forget(&(25..50));
        assert_eq!(kept(&queue, 10..90), [(10, 20), (25, 50), (60, 90)]);
    }
}
