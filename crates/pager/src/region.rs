//! A range of addresses behind which there is a file, a device, or swap space.

use crate::error::Error;
use crate::extent::Extent;
use crate::pager::{Mapped, Pager, Shared};
use crate::signals;
use forebay_basis::show_bytes;
use forebay_pool::device::{CopyOnWrite, Device, FileDevice, FileOptions};
use forebay_pool::{Durability, Hint, VolumeConfig, VolumeStatistics, WriteMode};
use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How long a region waits for the threads that handle its last faults, and how long at a time: they are about to let go of it.
const ALONE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(50);

/// A range of addresses whose bytes are those of a device. Pages come when they are touched, and go as the pager's policy decides.
///
/// - What the program writes is in storage after [`sync`](Region::sync), or when its page has been evicted and the device flushed.
/// - A read that fails is `SIGBUS` for the thread that touches the page, as with `mmap`; the reason is in the log. A writeback that fails is kept
///   and tried again, and reaches `sync`. While storage takes no writes and half of the memory is dirty, the next write is `SIGBUS`, too.
/// - Bytes behind the device's end, up to the end of its last page, read as zeroes, and what is written there is lost.
/// - System calls may read and write absent pages where [`serves_system_calls`](Pager::serves_system_calls) says so.
/// - **No direct input to pages that are not [held](Region::hold)** (`O_DIRECT`, registered buffers of io_uring, `process_vm_writev`): the kernel would go
///   on writing to a page that has been evicted. Hold them, read into a buffer, or through the page cache.
/// - The range is not there in children of `fork`. `mprotect` and `munmap` of parts hold, `MADV_DONTNEED` loses nothing. What `mremap` moves cannot be used.
///
/// `docs/pager.md` has all of it.
pub struct Region {
    pager: Arc<Pager>,
    mapped: Mapped,
    open: bool,
    /// Whether its bytes outlive it.
    kept: bool,
}

/// What a program says of its uses to come. What is done in the background is done in no order: pages that were said not to be needed may leave after
/// they were said to be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing in particular: streams that go forward are read ahead.
    Normal,
    /// It will go through the region in order: more is read ahead, from the first fault on. The range is of no meaning.
    Sequential,
    /// It will jump: nothing is read ahead. The range is of no meaning.
    Random,
    /// These bytes will be used soon: they are read in the background.
    WillNeed,
    /// These bytes will not be used soon: their pages leave in the background, after their writeback.
    DoNotNeed,
    /// These bytes are not needed any more: they read as zeroes, and storage may give their space back.
    Zero,
    /// What was written there is not needed any more, and, as with [`Zero`](Advice::Zero), pages that failed are read again.
    /// The whole pages among these bytes are what the device makes of a
    /// [trim](forebay_pool::device::Device::trim). One that is copied on write has the bytes again that it had before.
    Discard,
}

impl Region {
    /// Maps a device. One that cannot be written, or a configuration that says so, makes a region that cannot be written: who tries gets `SIGSEGV`.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a device that is empty or has more than 2³² pages, and for [`WriteMode::Through`]; [`Error::Memory`] if there
    /// are no addresses for it; [`Error::Forked`].
    pub fn map(pager: &Arc<Pager>, device: Arc<dyn Device>, config: VolumeConfig) -> Result<Self, Error> {
        pager.check_process()?;
        signals::blocked(|| Self::map_device(pager, device, config, None))
    }

    /// The same from an address on that the caller has reserved: a multiple of the page size.
    ///
    /// # Safety
    /// Nobody uses what is mapped there, for the length of the device in whole pages: the region takes its place.
    ///
    /// # Errors
    /// As for [`map`](Region::map); [`Error::Configuration`] if the address lies within a page.
    pub unsafe fn map_at(
        pager: &Arc<Pager>,
        device: Arc<dyn Device>,
        config: VolumeConfig,
        address: NonNull<u8>,
    ) -> Result<Self, Error> {
        pager.check_process()?;
        signals::blocked(|| Self::map_device(pager, device, config, Some(address)))
    }

    fn map_device(
        pager: &Arc<Pager>,
        device: Arc<dyn Device>,
        config: VolumeConfig,
        at: Option<NonNull<u8>>,
    ) -> Result<Self, Error> {
        let page_size = pager.shared.page_size;
        let wrong = |what: &str| Err(Error::Configuration(format!("{}: {what}", config.name)));
        if config.mode == WriteMode::Through {
            return wrong("a region cannot write through, as its writes are instructions: map it write-back, and sync");
        }
        let most = page_size as u64 * u64::from(u32::MAX);
        let bytes = usize::try_from(device.len()).ok().filter(|bytes| (1..=most).contains(&(*bytes as u64)));
        let Some(length) = bytes.and_then(|bytes| bytes.checked_next_multiple_of(page_size)) else {
            return wrong(&format!("{} bytes cannot be mapped: a region has 1 to {most}", device.len()));
        };
        if let Some(at) = at.filter(|at| !(at.as_ptr() as usize).is_multiple_of(page_size)) {
            return wrong(&format!("address {at:p} lies within a page of {page_size} bytes"));
        }
        let read_only = config.read_only || device.read_only();
        let faults = &pager.shared.space.faults;
        let extent = Extent::new(faults, &config.name, length, page_size, read_only, at)
            .map_err(|source| Error::Memory { what: "there are no addresses for a region", source })?;
        let extent = Arc::new(extent);
        let reads_in_place = device.reads_in_place();
        let volume = pager.shared.pool.attach(device, config);
        pager.shared.space.add(volume.id(), Arc::clone(&extent));
        let mapped = Mapped { extent, volume, stream: Arc::default(), order: Arc::default(), reads_in_place };
        let region = Self { pager: Arc::clone(pager), mapped: mapped.clone(), open: true, kept: true };
        pager.shared.add(mapped);
        Ok(region)
    }

    /// Maps `length` bytes of swap space, which read as zeroes at first: memory whose pages go to a file without a name in `folder`. It is gone with the
    /// region, or with the process.
    ///
    /// # Errors
    /// As for [`map`](Region::map); [`Error::Memory`] if no file can be made there.
    pub fn map_swap(pager: &Arc<Pager>, folder: &Path, length: u64) -> Result<Self, Error> {
        let device =
            swap_space(folder, length).map_err(|source| Error::Memory { what: "there is no swap space", source })?;
        let mut region = Self::map(pager, Arc::new(device), VolumeConfig::new("swap"))?;
        region.kept = false;
        Ok(region)
    }

    /// Maps a device that stays as it is: changed pages go to a file without a name in `folder`, and are gone with the region.
    ///
    /// # Errors
    /// As for [`map_swap`](Region::map_swap).
    pub fn map_private(
        pager: &Arc<Pager>,
        device: Arc<dyn Device>,
        config: VolumeConfig,
        folder: &Path,
    ) -> Result<Self, Error> {
        let changed = swap_space(folder, device.len()).and_then(|changes| CopyOnWrite::new(device, changes));
        let changed = changed.map_err(|source| Error::Memory { what: "there is no swap space", source })?;
        let mut region = Self::map(pager, Arc::new(changed), config)?;
        region.kept = false;
        Ok(region)
    }

    pub(crate) fn parts(&self) -> (&Arc<Pager>, &Mapped) {
        (&self.pager, &self.mapped)
    }

    /// Its first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapped.extent.base
    }

    /// Whether it cannot be written.
    pub fn read_only(&self) -> bool {
        self.mapped.extent.read_only
    }

    /// Makes what was written before durable. Pages whose read has failed are read again when they are touched after this.
    ///
    /// # Errors
    /// Each failed writeback since the last time; pages that could not be written are dirty still. [`Error::Forked`].
    pub fn sync(&self) -> Result<(), Error> {
        self.pager.check_process()?;
        Ok(signals::blocked(|| {
            self.mapped.extent.try_again();
            self.pager.shared.pool.flush_volume(&self.mapped.volume)
        })?)
    }

    /// Takes advice on `length` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Pool`] for a range that reaches behind the device's end, and for [`Advice::Zero`] and [`Advice::Discard`] if storage refuses.
    /// [`Error::Forked`].
    pub fn advise(&self, offset: u64, length: u64, advice: Advice) -> Result<(), Error> {
        self.pager.check_process()?;
        signals::blocked(|| self.take_advice(offset, length, advice))
    }

    fn take_advice(&self, offset: u64, length: u64, advice: Advice) -> Result<(), Error> {
        // A thread that has the pager's handle may wait for another region's storage.
        let (shared, own);
        let handle = match self.pager.handle.try_lock() {
            Ok(free) => {
                shared = free;
                &*shared
            }
            Err(_) => {
                own = self.pager.shared.pool.handle()?;
                &own
            }
        };
        let volume = &self.mapped.volume;
        let hint = match advice {
            Advice::Normal => Hint::Normal,
            Advice::Sequential => Hint::Sequential,
            Advice::Random => Hint::Random,
            Advice::WillNeed => Hint::WillNeed { offset, length },
            Advice::DoNotNeed => Hint::DoNotNeed { offset, length },
            Advice::Zero | Advice::Discard => {
                let done = if advice == Advice::Zero {
                    handle.write_zeroes(volume, offset, length, false, Durability::Flush)
                } else {
                    handle.trim(volume, offset, length)
                };
                self.mapped.extent.try_again();
                // Pages that left before may still be mapped with what they were (rule 4 of `leaving.rs`).
                self.pager.shared.space.give_back();
                return Ok(done?);
            }
        };
        if self.mapped.set_stream(hint) {
            return Ok(());
        }
        Ok(handle.hint(volume, hint)?)
    }

    /// Writes bytes from `offset` on, without touching the region's addresses: for those who must not have a fault.
    ///
    /// # Errors
    /// [`Error::Pool`] for a range that reaches behind the device's end, or if a page cannot be read. [`Error::Forked`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.pager.check_process()?;
        signals::blocked(|| {
            let handle = self.pager.handle.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(handle.write_at(&self.mapped.volume, offset, bytes, Durability::Flush)?)
        })
    }

    /// What the pool has done for this region, if it is counted by itself.
    pub fn statistics(&self) -> Option<VolumeStatistics> {
        let volumes = self.pager.statistics().volumes;
        volumes.into_iter().find(|volume| volume.name == self.mapped.volume.name())
    }

    /// Unmaps it when all that was written is durable.
    ///
    /// # Errors
    /// As for [`sync`](Region::sync); what could not be written is lost then.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Unmaps it; what is not in storage by then is lost.
    ///
    /// # Errors
    /// [`Error::Pool`] if the device hangs in a write. [`Error::Forked`].
    pub fn discard(mut self) -> Result<(), Error> {
        self.kept = false;
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        if !self.pager.is_of_this_process() {
            // Its addresses are not there, and the descriptor for them is the parent's.
            std::mem::forget((self.mapped.clone(), Arc::clone(&self.pager)));
            return Err(Error::Forked);
        }
        signals::blocked(|| self.leave())
    }

    fn leave(&self) -> Result<(), Error> {
        let Mapped { extent, volume, .. } = &self.mapped;
        let Shared { pool, space, .. } = &*self.pager.shared;
        let synced = if self.kept { pool.flush_volume(volume) } else { Ok(()) };
        let detached = if self.kept && synced.is_ok() { pool.detach(volume) } else { pool.discard(volume) };
        self.pager.shared.remove(extent);
        if detached.is_ok() {
            space.remove(volume.id());
            self.wait_until_alone()?;
        }
        synced?;
        Ok(detached?)
    }

    /// Waits until no thread that handles a fault has the addresses any more: when the region is gone, so are they, and may be another's.
    fn wait_until_alone(&self) -> Result<(), Error> {
        let begin = Instant::now();
        while Arc::strong_count(&self.mapped.extent) > 1 {
            if begin.elapsed() > ALONE {
                let source = io::ErrorKind::TimedOut.into();
                return Err(Error::Memory { what: "a thread has a region's addresses, and does not let go", source });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// A file without a name.
fn swap_space(folder: &Path, length: u64) -> io::Result<FileDevice> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!(".forebay-swap-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let describe = |error: io::Error| {
        let (kind, what) = match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => (
                io::ErrorKind::FileTooLarge,
                format!(
                    "{} is longer than a file may be there, by its file system or `ulimit -f`: ask for less, or name another folder",
                    show_bytes(length)
                ),
            ),
            kind @ (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                (kind, format!("{error}: free some space, or name another folder"))
            }
            kind => (kind, error.to_string()),
        };
        io::Error::new(kind, format!("{}: {what}", folder.display()))
    };
    let file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(describe)?;
    let device = file.set_len(length).map_err(describe).and_then(|()| FileDevice::open(&path, FileOptions::default()));
    std::fs::remove_file(&path).map_err(describe)?;
    device
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.end() {
            Ok(()) | Err(Error::Forked) => {}
            Err(error) => {
                tracing::error!(%error, "{}: what was written last is not in storage", self.mapped.volume.name());
            }
        }
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has these bytes as long as the region lives; they change by this program's writes alone, for which it must own the region.
        unsafe { std::slice::from_raw_parts(self.mapped.extent.base, self.mapped.extent.length) }
    }
}

/// # Panics
/// If the region is read-only.
impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(!self.read_only(), "{}: this region cannot be written", self.mapped.volume.name());
        // SAFETY: as above, and nobody else has the region.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.extent.base, self.mapped.extent.length) }
    }
}
