//! The threads that talk to object storage.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// As many requests are under way at a time as there are; these wait for their answers.
const THREADS: usize = 2;

/// The system counts a thread for a moment after it has been joined.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts them.
///
/// # Errors
/// The system has no more threads.
pub(super) fn start() -> io::Result<Runtime> {
    // The library panics where the system refuses a thread.
    let before = threads();
    probe(THREADS + 1)?;
    let deadline = Instant::now() + PATIENCE;
    while threads() > before && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    Builder::new_multi_thread().worker_threads(THREADS).thread_name("object-storage").enable_all().build()
}

/// How many threads this process has, as the system counts them.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Whether there can be as many more threads at a time.
fn probe(threads: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // All wait here until all have begun.
        let _closed = gate.lock();
        let wait = || drop(gate.lock());
        (0..threads).try_for_each(|_| thread::Builder::new().spawn_scoped(scope, wait).map(drop))
    })
}
