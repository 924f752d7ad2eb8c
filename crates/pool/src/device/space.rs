//! Space in a file system for bytes that are written to it later.
//!
//! A cache acknowledges a write long before the file system below sees it. So space is reserved below when a page becomes dirty, and a write that
//! finds none fails, as it would on the file itself. Asking the file system each time would cost two system calls for each page. Therefore:
//!
//! 1. What may become dirty without a system call is a *budget*: the free bytes, less those promised, less a margin. [`Space::has_room`] takes
//!    from it. It is computed anew from `fstatvfs` once it is 50 ms old or used up. Between two samples writeback does not change it: a page that
//!    is written back was in the budget when it became dirty.
//! 2. *Promised* are the bytes that were taken from budgets and may still be dirty. They are never more than the dirty bytes of this file system.
//! 3. Where the budget does not suffice, [`Space::reserve`] has the file system allocate the range below (`fallocate`, which keeps the length), and
//!    its error is the write's.
//! 4. What is allocated must not take the space that was promised. Once the free bytes come near those promised, the answer is
//!    [`Reserved::WriteBack`]: the caller writes its dirty pages back before it takes the write, and then nothing is promised any more.
//! 5. Where quotas may be in force `fstatvfs` does not show what is left, and every range is allocated.
//!
//! The margin and the slack are for threads that have taken from the budget and whose page is not dirty yet, for other programs, and for what the
//! file system writes for itself. What they do not cover fails at writeback, and the flush reports it: another program that takes more in 50 ms; a
//! map of a file's blocks that grows as an allocated range is written in parts, where nothing is left (ext4 keeps 2 % of its blocks for that, at most
//! 4,096; it fails if an administrator has set its `reserved_clusters` to 0); an overwrite under a file system that never writes in place (Btrfs, XFS
//! after a reflink), which needs space though its range has some; dirty pages of another pool of this process, for which this one cannot wait.

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fstat, fstatfs, fstatvfs, major, minor, seek};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Milliseconds for which a sample of the free bytes counts.
const FRESH: u64 = 50;

/// Milliseconds after which quotas are looked for again.
const QUOTAS: u64 = 1000;

/// Free bytes that no budget contains.
const MARGIN: u64 = 64 << 20;

/// The same on Btrfs, whose metadata and data share what is free.
const MARGIN_OF_BTRFS: u64 = 1 << 30;

/// What is promised is written back before the free bytes are as few as that and this.
const SLACK: u64 = 16 << 20;

/// `BTRFS_SUPER_MAGIC` of `statfs(2)`.
const BTRFS: u32 = 0x9123_683e;

/// The file systems of all spaces of this process.
static FILE_SYSTEMS: Mutex<Vec<Weak<FileSystem>>> = Mutex::new(Vec::new());

/// What became of a reservation, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reserved {
    /// The file system has plenty.
    Plenty,
    /// The range has its space.
    Allocated,
    /// The file system cannot reserve, and has little left: a writeback may fail.
    Unknown,
    /// The range has its space, and too little is left for what became dirty before: that is to be written back first.
    WriteBack,
}

/// The space of a file system. All spaces of one file system are the same.
#[derive(Clone, Debug)]
pub struct Space(Arc<FileSystem>);

#[derive(Debug)]
struct FileSystem {
    /// Its number (`st_dev`).
    device: u64,
    is_btrfs: bool,
    /// Bytes that may become dirty until the next sample.
    budget: AtomicU64,
    /// When it was sampled, by [`now`].
    sampled: AtomicU64,
    /// Bytes of files in it that are dirty, or being written back, in the pools of this process.
    dirty: AtomicU64,
    sample: Mutex<Sample>,
}

/// What is known since the last sample.
#[derive(Debug, Default)]
struct Sample {
    /// The budget that it gave.
    budget: u64,
    promised: u64,
    quotas: bool,
    /// When quotas were last looked for.
    looked: Option<u64>,
}

impl Space {
    /// The space of the file system that an open file lies in.
    ///
    /// # Errors
    /// The file system does not answer.
    pub fn new(file: impl AsFd) -> io::Result<Self> {
        let device = fstat(&file)?.st_dev;
        let is_btrfs = match fstatfs(&file) {
            Ok(found) => found.f_type as u32 == BTRFS,
            // Some file systems in user space have no answer.
            Err(Errno::NOSYS) => false,
            Err(error) => return Err(error.into()),
        };
        let mut all = FILE_SYSTEMS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        if let Some(known) = all.iter().filter_map(Weak::upgrade).find(|known| known.device == device) {
            return Ok(Self(known));
        }
        let new = Arc::new(FileSystem {
            device,
            is_btrfs,
            budget: AtomicU64::new(0),
            sampled: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
            sample: Mutex::default(),
        });
        all.push(Arc::downgrade(&new));
        Ok(Self(new))
    }

    /// The number of the file system (`st_dev`).
    pub fn device(&self) -> u64 {
        self.0.device
    }

    /// Takes this many bytes from the budget, if it has them. Never waits, and makes no system call.
    #[inline]
    pub fn has_room(&self, length: u64) -> bool {
        let fresh = now().saturating_sub(self.0.sampled.load(Ordering::Relaxed)) <= FRESH;
        fresh && self.0.take(length)
    }

    /// Finds space for a range of a file, open for writing, that is about to become dirty. It may wait for the file system.
    ///
    /// # Errors
    /// The file system's: it is full, or the quota is used up.
    pub fn reserve(&self, file: impl AsFd, offset: u64, length: u64) -> io::Result<Reserved> {
        if self.has_room(length) || self.renew(&file, length) {
            return Ok(Reserved::Plenty);
        }
        if is_data(&file, offset, length) {
            return Ok(Reserved::Allocated);
        }
        loop {
            match fallocate(&file, FallocateFlags::KEEP_SIZE, offset, length) {
                Ok(()) if self.is_scarce(&file) => return Ok(Reserved::WriteBack),
                Ok(()) => return Ok(Reserved::Allocated),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV) => return Ok(Reserved::Unknown),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether both are of one file system.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of a file in it have become dirty.
    pub(crate) fn dirtied(&self, bytes: u64) {
        self.0.dirty.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Dirty bytes have been written, or dropped.
    pub(crate) fn cleaned(&self, bytes: u64) {
        self.0.dirty.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Computes the budget anew, and takes from it.
    fn renew(&self, file: impl AsFd, length: u64) -> bool {
        let system = &*self.0;
        let mut sample = system.sample();
        let now = now();
        if sample.looked.is_none_or(|looked| now - looked > QUOTAS) {
            sample.looked = Some(now);
            sample.quotas = system.has_quotas();
        }
        let taken = sample.budget - system.budget.swap(0, Ordering::Relaxed);
        // The dirty bytes after the budget: what has become dirty meanwhile counts twice rather than not at all.
        sample.promised = (sample.promised + taken).min(system.dirty.load(Ordering::Relaxed));
        let margin = if system.is_btrfs { MARGIN_OF_BTRFS } else { MARGIN };
        let free = if sample.quotas { 0 } else { free(file) };
        sample.budget = free.saturating_sub(sample.promised).saturating_sub(margin);
        system.budget.store(sample.budget, Ordering::Relaxed);
        system.sampled.store(now, Ordering::Relaxed);
        system.take(length)
    }

    /// Whether what is free is needed for what was promised.
    fn is_scarce(&self, file: impl AsFd) -> bool {
        let mut sample = self.0.sample();
        sample.promised = sample.promised.min(self.0.dirty.load(Ordering::Relaxed));
        sample.promised > 0 && free(file) < sample.promised + SLACK
    }
}

impl FileSystem {
    fn take(&self, length: u64) -> bool {
        let take = |budget: u64| budget.checked_sub(length);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn sample(&self) -> MutexGuard<'_, Sample> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a quota may be in force. Of Btrfs it is known whether any file system has quotas.
    fn has_quotas(&self) -> bool {
        if self.is_btrfs {
            let systems = std::fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
            return systems.into_iter().any(|system| system.path().join("qgroups").exists());
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        is_mounted_with_quotas(&mounts, &format!("{}:{}", major(self.device), minor(self.device)))
    }
}

/// Whether a mount of this device, in the form of `/proc/self/mountinfo`, has an option for quotas.
fn is_mounted_with_quotas(mounts: &str, device: &str) -> bool {
    let of_device = |line: &&str| line.split(' ').nth(2) == Some(device);
    let options = |line: &str| line.rsplit(' ').next().map(str::to_owned);
    let is_quota = |option: &str| option.contains("quota") && option != "noquota";
    mounts.lines().filter(of_device).filter_map(options).any(|options| options.split(',').any(is_quota))
}

/// The bytes that a file system has left for this process. One that does not count its blocks, or does not say, has no end.
fn free(file: impl AsFd) -> u64 {
    match fstatvfs(file) {
        Ok(told) if told.f_blocks == 0 => u64::MAX,
        Ok(told) => told.f_bavail.saturating_mul(told.f_frsize),
        Err(Errno::NOSYS) => u64::MAX,
        Err(_) => 0,
    }
}

/// Whether a range has no hole, as far as the file system says.
fn is_data(file: impl AsFd, offset: u64, length: u64) -> bool {
    seek(file, SeekFrom::Hole(offset)).is_ok_and(|hole| hole >= offset + length)
}

/// Milliseconds on a clock that costs some nanoseconds to read.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    fn space() -> (tempfile::NamedTempFile, Space) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let space = Space::new(&file).expect("its space");
        (file, space)
    }

    #[test]
    fn quotas_are_seen_in_the_options_of_a_mount() {
        let line = |options: &str| {
            format!(
                "36 24 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 41 24 259:3 / /srv rw,relatime shared:2 - xfs /dev/nvme0n1p3 rw,{options}\n"
            )
        };
        for quotas in ["attr2,usrquota", "prjquota,inode64", "grpquota", "usrjquota=aquota.user,jqfmt=vfsv0", "quota"] {
            assert!(is_mounted_with_quotas(&line(quotas), "259:3"), "{quotas}");
            assert!(!is_mounted_with_quotas(&line(quotas), "8:1"), "{quotas}");
        }
        assert!(!is_mounted_with_quotas(&line("attr2,inode64,noquota"), "259:3"));
    }

    #[test]
    fn all_files_of_a_file_system_share_one_budget() {
        let ((_one, space), (_two, other)) = (space(), space());
        assert!(space.is(&other));
    }

    #[test]
    fn a_budget_is_taken_until_it_is_used_up_or_old() {
        let (_file, space) = space();
        let budget = |bytes, sampled| {
            space.0.budget.store(bytes, Ordering::Relaxed);
            space.0.sampled.store(sampled, Ordering::Relaxed);
        };
        budget(8192, now() + FRESH);
        assert!(space.has_room(4096) && space.has_room(4096) && !space.has_room(1));
        budget(8192, 0);
        assert!(!space.has_room(1), "it is old");
    }
}
