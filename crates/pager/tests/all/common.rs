//! Pagers, devices, and limits of time that the tests share.

use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{Device, MemoryDevice};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const PAGE: usize = 4096;

/// Whether faults are handled in place: the same tests are two programs.
pub(crate) const IN_PLACE: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"in_place");

/// What a pager of these tests is made from.
pub(crate) fn options(memory: u64, policy: Spec) -> Options {
    Options { in_place: IN_PLACE, ..Options::new(memory, policy) }
}

/// How long a test may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the process, saying what was waited for, unless this value is dropped in time: a thread that waits for its fault cannot be ended otherwise.
pub(crate) struct Limit(#[allow(dead_code, reason = "dropping it is its use")] Sender<()>);

pub(crate) fn limit(what: &'static str) -> Limit {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("waited {PATIENCE:?} for this: {what}");
            std::process::abort();
        }
    });
    Limit(sender)
}

pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE / 2;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {:?} in vain: {what}", PATIENCE / 2);
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn pager(policy: &str, memory: usize) -> Arc<Pager> {
    Pager::new(&options(memory as u64, Spec::parse(policy).expect("a policy"))).expect("a pager")
}

/// The same with pages of another size.
pub(crate) fn pager_of(page_size: usize, policy: &str, memory: usize) -> Arc<Pager> {
    let options = options(memory as u64, Spec::parse(policy).expect("a policy"));
    Pager::new(&Options { page_size: page_size as u32, ..options }).expect("a pager")
}

pub(crate) fn map(pager: &Arc<Pager>, device: &Arc<impl Device + 'static>) -> Region {
    Region::map(pager, Arc::clone(device) as Arc<dyn Device>, VolumeConfig::new("region")).expect("a region")
}

/// A region of a device in memory, and both.
pub(crate) fn region(policy: &str, memory: usize, length: usize) -> (Arc<Pager>, Region, Arc<MemoryDevice>) {
    let pager = pager(policy, memory);
    let device = Arc::new(MemoryDevice::new(length as u64));
    let region = map(&pager, &device);
    (pager, region, device)
}

pub(crate) fn stored(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; device.len() as usize];
    device.read(0, &mut [IoSliceMut::new(&mut bytes)]).expect("it is read");
    bytes
}

/// A device whose reads hang until they are let go.
pub(crate) struct Hung {
    inner: MemoryDevice,
    /// Reads that wait, and whether they still do.
    waiting: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Hung {
    pub(crate) fn new(pages: usize) -> Self {
        let inner = MemoryDevice::new((pages * PAGE) as u64);
        Self { inner, waiting: Mutex::new((0, true)), changed: Condvar::new() }
    }

    /// Waits until a read does.
    pub(crate) fn wait_for_a_read(&self) {
        let waiting = self.waiting.lock().expect("no panic");
        drop(self.changed.wait_while(waiting, |(reads, _)| *reads == 0).expect("no panic"));
    }

    pub(crate) fn let_go(&self) {
        self.waiting.lock().expect("no panic").1 = false;
        self.changed.notify_all();
    }
}

impl Device for Hung {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let mut waiting = self.waiting.lock().expect("no panic");
        waiting.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(waiting, |(_, hangs)| *hangs).expect("no panic"));
        self.inner.read(offset, buffers)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.inner.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.inner.write_zeroes(offset, length, allocate)
    }

    fn describe(&self) -> String {
        "a device that hangs".to_owned()
    }
}

/// Sends a signal to this thread, whose handler is set, every so often until what is returned is dropped.
pub(crate) struct Pest {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pest {
    pub(crate) fn new(signal: libc::c_int, pause: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        // SAFETY: this thread's own number.
        let pestered = unsafe { libc::pthread_self() };
        let thread = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    // SAFETY: that thread waits for this one before it ends.
                    unsafe { libc::pthread_kill(pestered, signal) };
                    std::thread::sleep(pause);
                }
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Pest {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "it sends signals and nothing else");
    }
}

const ROLE: &str = "FOREBAY_PAGER_TEST_ROLE";

/// What the test that runs in another process is given, if this is that process.
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Runs one test of this program in another process, which finds its role there.
pub(crate) fn in_another_process(test: &str, role: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// In that process: what is told by its standard output. What the test program prints by itself, and what a dying one has not printed yet, is left out.
pub(crate) fn say(what: &str) {
    rustix::io::write(std::io::stdout(), format!("{what}\n").as_bytes()).expect("it is printed");
}

/// Waits for its end: the signal that ended it, and what it printed.
pub(crate) fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.signal(), said)
}
