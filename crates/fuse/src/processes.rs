//! The processes that use files, as owners of their references.

use foldhash::HashMap;
use forebay_pool::{Owner, Pool};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread is known to be of a process: then its number may be another's.
const KNOWN: Duration = Duration::from_secs(5);

/// Threads that are known before those known for too long are forgotten.
const MOST: usize = 4096;

/// A process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) owner: Owner,
}

/// Threads, by which requests come, and their processes.
#[derive(Default)]
pub(crate) struct Processes(Mutex<HashMap<u32, (Instant, Process)>>);

impl Processes {
    /// The process of a thread; none of the kernel's own requests.
    pub(crate) fn of(&self, pool: &Pool, thread: u32) -> Option<Process> {
        if thread == 0 {
            return None;
        }
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, process)) = known.get(&thread)
            && now.duration_since(*since) < KNOWN
        {
            return Some(process.clone());
        }
        if known.len() >= MOST {
            known.retain(|_, (since, _)| now.duration_since(*since) < KNOWN);
        }
        let number = process_of(thread).unwrap_or(thread);
        let process = Process { number, owner: pool.owner(number.into()) };
        known.insert(thread, (now, process.clone()));
        Some(process)
    }
}

fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_of_its_process() {
        let thread = std::thread::spawn(|| process_of(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        assert_eq!(thread.join().expect("no panic"), Some(std::process::id()));
    }
}
