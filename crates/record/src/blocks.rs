//! The requests of a block device, by the kernel's tracepoints.

use crate::error::Error;
use forebay_trace::Warn;
use rustix::fs::{Mode, OFlags, major, minor, open};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the kernel's tracing may be mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/block/block_bio_queue";
/// What tracing of ours is called: this, and the number of the process that it is for.
const PREFIX: &str = "forebay-";
/// What the kernel holds for each processor of events that we have not read yet.
const BUFFER_KIB: u64 = 4096;
/// What the kernel counts devices in, whatever their own sectors are.
const SECTOR: u64 = 512;
/// How often events are looked for.
const ROUND: Duration = Duration::from_millis(20);

/// The lines of a device's requests; they end once `stop` is set.
pub(crate) struct Blocks {
    // Closed before the tracing is removed, which is busy otherwise.
    events: File,
    tracing: Tracing,
    stop: Arc<AtomicBool>,
    /// Where the device begins on the disk whose offsets the kernel reports.
    pub(crate) start: u64,
    say: Warn,
}

impl Blocks {
    pub(crate) fn open(device: &Path, stop: Arc<AtomicBool>, say: &Warn) -> Result<Self, Error> {
        let (filter, start) = filter(device)?;
        let tracing = Tracing::new(say)?;
        // Without the clock of all processors, events of two come in the wrong order.
        tracing.set("trace_clock", "mono")?;
        tracing.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        tracing.set(&format!("{EVENT}/filter"), &filter)?;
        let path = tracing.folder.join("trace_pipe");
        let events = open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        let events = events.map_err(|error| Error::File(path, error.into()))?.into();
        tracing.set(&format!("{EVENT}/enable"), "1")?;
        Ok(Self { events, tracing, stop, start, say: Arc::clone(say) })
    }
}

impl Read for Blocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Looked at first: what comes before the stop is read.
            let stopped = self.stop.load(Ordering::Relaxed);
            match self.events.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && stopped => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(ROUND),
                Ok(0) if !stopped => std::thread::sleep(ROUND),
                read => return read,
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let lost = self.tracing.lost();
        if lost > 0 {
            (self.say)(&format!("{lost} requests came too fast and are not in the recording"));
        }
    }
}

/// Tracing of our own in the kernel, which disturbs no other; it goes when this is dropped.
struct Tracing {
    folder: PathBuf,
    say: Warn,
}

impl Tracing {
    fn new(say: &Warn) -> Result<Self, Error> {
        let root = TRACING.iter().map(Path::new).find(|root| root.join(EVENT).exists());
        let root = root.ok_or_else(|| {
            let what =
                "--blocks needs root, and the kernel's tracing: sudo mount -t tracefs tracefs /sys/kernel/tracing";
            Error::Failed(what.to_owned())
        })?;
        let instances = root.join("instances");
        remove_left(&instances);
        let folder = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| Error::File(folder.clone(), error))?;
        Ok(Self { folder, say: Arc::clone(say) })
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|error| Error::File(path, error))
    }

    /// Events that the kernel dropped because we read too slowly.
    fn lost(&self) -> u64 {
        let of_line = |line: &str| {
            ["overrun: ", "dropped events: "].iter().find_map(|key| line.strip_prefix(key)?.parse::<u64>().ok())
        };
        let of_processor = |folder: fs::DirEntry| {
            let stats = fs::read_to_string(folder.path().join("stats")).unwrap_or_default();
            stats.lines().filter_map(of_line).sum::<u64>()
        };
        fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten().flatten().map(of_processor).sum()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            let folder = self.folder.display();
            (self.say)(&format!("{folder}: {error}; remove it with rmdir: it makes each request a little slower"));
        }
    }
}

/// Removes tracing of recordings that were killed.
fn remove_left(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another recording may be faster.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The kernel's filter for a disk's requests, or for those to a partition of it, and the byte of the disk at which that begins.
fn filter(device: &Path) -> Result<(String, u64), Error> {
    let shown = device.display();
    let metadata = fs::metadata(device).map_err(|error| Error::File(device.to_owned(), error))?;
    if !metadata.file_type().is_block_device() {
        return Err(Error::Usage(format!("--blocks {shown}: is no block device; `lsblk` lists them")));
    }
    // The kernel has major and minor number in one, cut at bit 20.
    let disk = |major: u32, minor: u32| format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
    let number = metadata.rdev();
    let system = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
    if !system.join("partition").exists() {
        return Ok((disk(major(number), minor(number)), 0));
    }
    // Requests to a partition are to sectors of its disk.
    let read =
        |file: &str| fs::read_to_string(system.join(file)).map_err(|error| Error::File(system.join(file), error));
    let odd = || Error::Failed(format!("{shown}: the kernel does not say where this partition lies: record its disk"));
    let numbers = |file: &str| {
        read(file)?.trim_ascii().split(':').map(|part| part.parse().map_err(|_| odd())).collect::<Result<Vec<u64>, _>>()
    };
    let (parent, start, size) = (numbers("../dev")?, numbers("start")?, numbers("size")?);
    let ([major, minor], [start], [size]) = (&parent[..], &start[..], &size[..]) else { return Err(odd()) };
    let disk = disk(*major as u32, *minor as u32);
    Ok((format!("{disk} && sector >= {start} && sector < {}", start + size), start * SECTOR))
}
