//! What a mount takes, measured while it is recorded: a request on its way through the kernel and back, a page that hits in the pool, and the device for a
//! page that it reads.

use crate::record::Clock;
use forebay_pool::{DeviceStatistics, Statistics};
use forebay_trace::Circumstances;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many requests are measured. They take a few milliseconds together, and their median is little disturbed by other load.
const ROUND_TRIPS: usize = 64;

/// How long that may take, as the storage below may hang, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);

/// The command that measures it.
const WORD: &str = "mount-clock";

/// What a child has said by its end. One that takes longer is killed.
fn said_within(mut child: Child, limit: Duration) -> io::Result<String> {
    let deadline = Instant::now() + limit;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the mount has not answered within {limit:?}"),
            ));
        }
        std::thread::sleep(LOOK);
    }
    io::read_to_string(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?)
}

/// What a request takes on its way to a mount and back, in nanoseconds. A program asks for it, as one thread of the mount's own process is answered several times as
/// fast.
///
/// # Errors
/// The mount does not answer.
pub fn round_trip(mountpoint: &Path) -> io::Result<u64> {
    let one = |_| {
        let start = Instant::now();
        statx(CWD, mountpoint, AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE)?;
        Ok(start.elapsed().as_nanos() as u64)
    };
    let mut times = (0..ROUND_TRIPS).map(one).collect::<io::Result<Vec<u64>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// What the pool and the device below have done so far.
pub(super) type Look = Box<dyn Fn() -> (Statistics, DeviceStatistics) + Send + Sync>;

pub(super) struct MountClock {
    mountpoint: PathBuf,
    statistics: Look,
    /// Nanoseconds; 0 until it is known.
    round_trip: Arc<AtomicU64>,
    before: Mutex<(Statistics, DeviceStatistics)>,
}

impl MountClock {
    pub(super) fn new(mountpoint: PathBuf, statistics: Look) -> Self {
        let (round_trip, before) = (Arc::default(), Mutex::new(statistics()));
        Self { mountpoint, statistics, round_trip, before }
    }
}

impl Clock for MountClock {
    fn begin(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = (self.statistics)();
        let (mountpoint, round_trip) = (self.mountpoint.clone(), Arc::clone(&self.round_trip));
        // The recording begins without waiting for this thread.
        let measure = move || {
            let mut command = Command::new("/proc/self/exe");
            command.arg(WORD).arg(&mountpoint).stdin(Stdio::null()).stderr(Stdio::null());
            match command.stdout(Stdio::piped()).spawn().and_then(|child| said_within(child, PATIENCE)) {
                Ok(said) => said.trim().parse().map_or((), |time| round_trip.store(time, Ordering::Relaxed)),
                Err(error) => tracing::info!("what a request takes is not known, and not in the recording: {error}"),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("round-trip".to_owned()).spawn(measure) {
            tracing::warn!("no thread to measure what a request takes: {error}");
        }
    }

    fn tell(&self, circumstances: &mut Circumstances) {
        let (pool, device) = (self.statistics)();
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let hits = pool.hit_time.since(&before.0.hit_time);
        let reads = device.read_time.since(&before.1.read_time);
        let pages = device.read_bytes.saturating_sub(before.1.read_bytes) / u64::from(pool.page_size).max(1);
        circumstances.request_ns = Some(self.round_trip.load(Ordering::Relaxed)).filter(|&time| time > 0);
        circumstances.hit_ns = hits.sum.checked_div(hits.count());
        circumstances.read_ns = reads.sum.checked_div(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_heard_and_one_that_hangs_is_killed() {
        let child = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell")
        };
        let patience = Duration::from_secs(20);
        assert_eq!(said_within(child("echo 15000"), patience).expect("it ends").trim(), "15000");
        let hanging = child("exec sleep 1000");
        let process = hanging.id();
        let error = said_within(hanging, Duration::from_millis(50)).expect_err("it hangs");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "it is gone, and waited for");
    }
}
