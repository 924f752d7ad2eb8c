//! A range of addresses behind which there is a file, a device, or swap space.

use crate::error::Error;
use crate::pager::{Mapped, Pager};
use crate::space::Extent;
use forebay_pool::device::Device;
use forebay_pool::{VolumeConfig, VolumeStatistics};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A range of addresses whose bytes are those of a device. Pages come when they are touched, and go as the pager's policy decides.
///
/// - What the program writes is in storage after [`sync`](Region::sync), or when its page has been evicted and the device flushed.
/// - A read that fails is `SIGBUS` for the thread that touches the page, as with `mmap`; the reason is in the log. A writeback that fails is kept
///   and tried again, and reaches `sync`.
/// - Bytes behind the device's end, up to the end of its last page, read as zeroes, and what is written there is lost.
/// - System calls may read and write absent pages where [`serves_system_calls`](Pager::serves_system_calls) says so.
/// - **No direct I/O into a region** (`O_DIRECT`, registered buffers of io_uring, `vmsplice`): the device would go on writing to a page that has
///   been evicted. Read into a buffer, or through the page cache.
/// - The range is not there in children of `fork`. `mprotect` holds, `MADV_DONTNEED` loses nothing. **No `munmap`, `mremap` or other mapping of a part**:
///   the pager would take mappings away there, whatever they are by then.
pub struct Region {
    pager: Arc<Pager>,
    mapped: Mapped,
    open: bool,
}

impl Region {
    /// Maps a device.
    ///
    /// # Errors
    /// [`Error::Configuration`] for an empty device; [`Error::Memory`] if there are no addresses for it.
    pub fn map(pager: &Arc<Pager>, device: Arc<dyn Device>, config: VolumeConfig) -> Result<Self, Error> {
        let bytes = usize::try_from(device.len()).ok().filter(|&bytes| bytes > 0);
        let page_size = pager.shared.page_size;
        let length = bytes.and_then(|bytes| bytes.checked_next_multiple_of(page_size));
        let Some(length) = length else {
            let what = format!("{}: {} bytes cannot be mapped", config.name, device.len());
            return Err(Error::Configuration(what));
        };
        let no_memory = |source| Error::Memory { what: "addresses for a region", source };
        let extent = Arc::new(Extent::new(&config.name, length, page_size).map_err(no_memory)?);
        let volume = pager.pool.attach(device, config);
        pager.shared.space.add(volume.id(), Arc::clone(&extent));
        let mapped = Mapped { extent: Arc::clone(&extent), volume };
        pager.shared.add(mapped.clone());
        let region = Self { pager: Arc::clone(pager), mapped, open: true };
        pager.shared.space.faults.register(extent.base as usize, length).map_err(no_memory)?;
        Ok(region)
    }

    /// Its first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapped.extent.base
    }

    /// Makes what was written before durable. Pages whose read has failed are read again when they are touched after this.
    ///
    /// # Errors
    /// Each failed writeback since the last time; pages that could not be written are dirty still.
    pub fn sync(&self) -> Result<(), Error> {
        self.mapped.extent.try_again(self.pager.shared.page_size);
        Ok(self.pager.pool.flush_volume(&self.mapped.volume)?)
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

    fn end(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let Mapped { extent, volume } = &self.mapped;
        let synced = self.pager.pool.flush_volume(volume);
        let detached = if synced.is_ok() { self.pager.pool.detach(volume) } else { self.pager.pool.discard(volume) };
        self.pager.shared.remove(extent);
        if detached.is_ok() {
            self.pager.shared.space.remove(volume.id());
        }
        synced?;
        Ok(detached?)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!(%error, "{}: what was written last is not in storage", self.mapped.volume.name());
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

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has the region.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.extent.base, self.mapped.extent.length) }
    }
}
