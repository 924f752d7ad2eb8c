//! Volumes that grow as their storage has, or become as long as somebody says.

use crate::access::handle::Handle;
use crate::access::load::Held;
use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::sync::lock;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

impl<M: Memory> Handle<M> {
    /// Looks how long the volume's storage is by now, and makes the volume as long if it has grown. Returns the volume's bytes. This
    /// handle holds no page meanwhile, and one thread at a time measures a volume.
    ///
    /// # Errors
    /// [`Error::Device`], also if the storage has shrunk, and those of [`write`](Handle::write) where the last page was a part of one.
    pub fn measure(&self, volume: &Arc<Volume>) -> Result<u64, Error> {
        let before = volume.len();
        let failed = |error| volume.failed("measuring", 0, before, error);
        let found = volume.device.measure().map_err(failed)?;
        if found < before {
            let message =
                format!("its storage has shrunk to {found} bytes: what lies behind can neither be read nor written");
            return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
        }
        let page_size = u64::from(self.shared.config.page_size);
        let known = before % page_size;
        if found > before && known > 0 {
            self.lengthen_last_page(volume, known as usize, found)?;
        } else if found > before {
            let _writing = lock(&volume.writing);
            volume.set_len(found);
        }
        Ok(volume.len())
    }

    /// Makes the volume and its storage as long as this. Bytes behind a nearer end are gone, and their pages never written; those before a
    /// farther one read as zeroes. This handle holds no page meanwhile; reads and writes that are under way may fail with
    /// [`Error::OutOfRange`] when they come to what is gone.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Detached`], and the device's, after which the volume is as it was.
    pub fn set_len(&self, volume: &Arc<Volume>, length: u64) -> Result<(), Error> {
        volume.check_writable()?;
        let page_size = u64::from(self.shared.config.page_size);
        let (before, _change, held) = loop {
            let before = volume.len();
            let blocks = before.min(length) / page_size..u64::MAX;
            // Changes of the length have u64::MAX in common: one at a time gets here.
            let (change, held) = self.hold_range(volume, &blocks);
            if volume.len() == before {
                break (before, change, held);
            }
            held.iter().for_each(|&(_, number)| self.shared.let_go(number));
        };
        let writing = lock(&volume.writing);
        let changed =
            volume.device.set_len(length).map_err(|source| volume.failed("change of length", 0, length, source));
        let last = before.min(length) / page_size;
        let (stays, behind): (Vec<Held>, Vec<Held>) =
            held.into_iter().partition(|&(block, _)| changed.is_err() || block < length.div_ceil(page_size));
        if changed.is_ok() {
            let inside = (before.min(length) % page_size) as usize;
            for &(_, number) in stays.iter().filter(|&&(block, _)| block == last) {
                let frame = self.shared.memory.pointer(self.shared.core.pages.get(number).frame());
                // SAFETY: the page is held exclusively (PG2), and has `page_size` bytes.
                unsafe { frame.add(inside).write_bytes(0, page_size as usize - inside) };
            }
            volume.set_len(length);
        }
        drop(writing);
        self.drop_held(volume, &behind);
        if changed.is_ok() && length < before {
            let cut = length.div_ceil(page_size)..u64::MAX;
            self.shared.replacer().discard(&self.shared.core, volume.id, &cut);
        }
        stays.iter().for_each(|&(_, number)| self.shared.let_go(number));
        changed
    }

    /// The last page has had bytes of the volume up to `known` alone; behind them it gets those of the device.
    fn lengthen_last_page(&self, volume: &Arc<Volume>, known: usize, length: u64) -> Result<(), Error> {
        let page_size = self.shared.config.page_size as usize;
        let before = volume.len();
        let number = self.hold(volume, before / page_size as u64, true)?;
        let more = (length - before).min((page_size - known) as u64);
        let frame = self.shared.memory.pointer(self.shared.core.pages.get(number).frame());
        // SAFETY: the page is held exclusively (PG2), so that its frame is this thread's alone; it has `page_size` bytes.
        let frame = unsafe { std::slice::from_raw_parts_mut(frame, page_size) };
        let rest = &mut frame[known..known + more as usize];
        let read = volume.read(before, more, &mut [IoSliceMut::new(rest)]);
        if read.is_ok() {
            let _writing = lock(&volume.writing);
            volume.set_len(length);
        }
        self.shared.let_go(number);
        read
    }
}
