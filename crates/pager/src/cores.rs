//! On which core a fault is handled.
//!
//! A thread on another core that sleeps has to be woken there, and then to wake the one that waits here: some 30 µs on a virtual machine. On the same core the
//! kernel only changes from one to the other and back. So as long as one thread has all the faults, those who handle them stay on its core. With
//! several threads, or when it moves, they go where the kernel has them go.

use crate::messages::Fault;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Faults of one thread in a row after which its core is looked up, and after which it is looked up again.
const ROW: u32 = 64;
const AGAIN: u32 = 1024;

/// No core.
const ANY: u64 = u64::MAX;

/// Whose faults have come of late.
#[derive(Debug)]
pub(crate) struct Cores {
    thread: AtomicU32,
    row: AtomicU32,
    /// The core on which faults are handled.
    core: AtomicU64,
}

/// Where one of the threads that handle faults may run.
#[derive(Debug)]
pub(crate) struct Seat {
    all: CpuSet,
    core: u64,
}

impl Seat {
    /// Of this thread.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { all: sched_getaffinity(None).ok()?, core: ANY })
    }
}

impl Cores {
    pub(crate) fn new() -> Self {
        Self { thread: AtomicU32::new(0), row: AtomicU32::new(0), core: AtomicU64::new(ANY) }
    }

    /// Takes note of a fault, and has this thread sit where faults are to be handled from now on.
    pub(crate) fn sit(&self, seat: &mut Seat, fault: Fault) {
        if self.thread.load(Ordering::Relaxed) == fault.thread {
            let row = self.row.fetch_add(1, Ordering::Relaxed);
            if row == ROW || row > ROW && row.is_multiple_of(AGAIN) {
                let core = core_of(fault.thread).filter(|&core| seat.all.is_set(core as usize));
                self.core.store(core.unwrap_or(ANY), Ordering::Relaxed);
            }
        } else {
            self.thread.store(fault.thread, Ordering::Relaxed);
            self.row.store(0, Ordering::Relaxed);
            self.core.store(ANY, Ordering::Relaxed);
        }
        let core = self.core.load(Ordering::Relaxed);
        if core != seat.core {
            let mut set = seat.all;
            if core != ANY {
                set.clear();
                set.set(core as usize);
            }
            // Where it cannot be, faults take longer.
            let _ = sched_setaffinity(None, &set);
            seat.core = core;
        }
    }
}

/// The core on which a thread of this process ran last.
fn core_of(thread: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The name, in parentheses, may have spaces; the core is field 39, the first after the name is field 3.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Kind;

    #[test]
    fn who_handles_faults_stays_on_the_core_of_the_one_thread_that_has_them() {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let fault = |thread| Fault { address: 0, write: false, kind: Kind::Missing, thread };
        let (mut seat, cores) = (Seat::new().expect("cores"), Cores::new());
        let all = seat.all;
        (0..=ROW).for_each(|_| cores.sit(&mut seat, fault(own)));
        assert_eq!(sched_getaffinity(None).expect("cores"), all, "not before its faults are many");
        cores.sit(&mut seat, fault(own));
        let one = sched_getaffinity(None).expect("cores");
        assert_eq!(one.count(), 1);
        assert_eq!(core_of(own).map(|core| one.is_set(core as usize)), Some(true), "it is this thread's");
        cores.sit(&mut seat, fault(own + 1));
        assert_eq!(sched_getaffinity(None).expect("cores"), all, "anywhere, as soon as another has one");
    }
}
