//! Threads for what has to wait, so that those that receive requests never do.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most at a time.
pub(crate) const MOST_WORKERS: usize = 64;

/// The most bytes of written data that jobs keep together.
const MOST_KEPT: usize = 32 << 20;

/// How long one waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Threads that come with the work and go when there is none.
#[derive(Default)]
pub(crate) struct Workers {
    queue: Mutex<Queue>,
    work: Condvar,
    ended: Condvar,
    /// Bytes of written data that jobs keep.
    kept: AtomicUsize,
}

/// Bytes that a job keeps, until it is dropped.
pub(crate) struct Kept {
    workers: Arc<Workers>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.workers.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// No thread waits for work any more.
    closing: bool,
}

impl Workers {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job may keep so much data. If jobs keep too much already, the thread that has the data does the work itself, and
    /// the kernel keeps the data of the next requests.
    pub(crate) fn keep(self: &Arc<Self>, bytes: usize) -> Option<Kept> {
        let kept = |kept: usize| Some(kept + bytes).filter(|&kept| kept <= MOST_KEPT);
        self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept).ok()?;
        Some(Kept { workers: Arc::clone(self), bytes })
    }

    /// Has a job done.
    pub(crate) fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue();
        queue.jobs.push_back(Box::new(job));
        if queue.idle >= queue.jobs.len() {
            self.work.notify_one();
            return;
        }
        if queue.threads == MOST_WORKERS {
            return;
        }
        queue.threads += 1;
        let workers = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("wait".to_owned()).spawn(move || workers.work());
        if let Err(error) = spawned {
            queue.threads -= 1;
            if queue.threads > 0 {
                return;
            }
            tracing::warn!("no thread for what has to wait: {error}; requests wait for each other");
            let job = queue.jobs.pop_back().expect("it has just come");
            drop(queue);
            do_it(job);
        }
    }

    fn work(&self) {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                do_it(job);
                queue = self.queue();
                continue;
            }
            if queue.closing {
                break;
            }
            queue.idle += 1;
            let (woken, waited) = self.work.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if waited.timed_out() && queue.jobs.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
        self.ended.notify_all();
    }

    /// Waits until all work is done; whether it is within this time.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let mut queue = self.queue();
        queue.closing = true;
        self.work.notify_all();
        let busy = |queue: &mut Queue| queue.threads > 0;
        !self.ended.wait_timeout_while(queue, limit, busy).unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Does a job. One that panics costs its own request, which is answered with an error as it is dropped, and no thread.
fn do_it(job: Job) {
    // The panic has been reported where it was.
    let _ = catch_unwind(AssertUnwindSafe(job));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn jobs_that_wait_for_each_other_are_done_side_by_side() {
        let workers = Arc::new(Workers::default());
        let ((sender, receiver), (done, all)) = (channel(), channel());
        let first = done.clone();
        workers.run(move || {
            receiver.recv_timeout(PATIENCE).expect("the other job runs");
            first.send(1).expect("the test waits");
        });
        workers.run(move || {
            sender.send(()).expect("the first job waits");
            done.send(2).expect("the test waits");
        });
        let mut results: Vec<i32> = all.iter().collect();
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
        assert!(workers.finish(PATIENCE));
    }

    #[test]
    fn jobs_keep_no_more_data_than_there_may_be() {
        let workers = Arc::new(Workers::default());
        let kept: Vec<_> = (0..MOST_KEPT >> 20).map(|_| workers.keep(1 << 20).expect("there is room")).collect();
        assert!(workers.keep(1).is_none());
        drop(kept);
        assert!(workers.keep(MOST_KEPT).is_some());
    }

    #[test]
    fn jobs_that_panic_take_no_thread_with_them() {
        let workers = Arc::new(Workers::default());
        for _ in 0..2 * MOST_WORKERS {
            workers.run(|| panic!("a test wants it"));
        }
        let (done, last) = channel();
        workers.run(move || done.send(()).expect("the test waits"));
        last.recv_timeout(PATIENCE).expect("it is done");
        assert!(workers.finish(PATIENCE));
    }
}
