//! A volatile write cache: what was not flushed is lost, in part or whole, when the power fails.

use super::faulty::SECTOR;
use super::pieces::{by_unit, cut, cut_mut, gather, scatter, total, within, writable, write_zeroes};
use super::{Device, Extent, Reserved, Space};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Mutex, MutexGuard};

/// The longest run that a flush writes.
const LONGEST: usize = 1 << 20;

type Sector = [u8; SECTOR as usize];

/// A device that keeps writes in memory until `flush`, as a drive without a battery may. Over a file it loses them with the
/// process; [`crash`](Self::crash) loses some of them in a living one. It keeps all that is written between flushes in memory.
pub struct Volatile<D> {
    device: D,
    /// What was written since the last flush, by the sector's number. Held during a flush, so that none of it changes.
    cache: Mutex<BTreeMap<u64, Box<Sector>>>,
}

impl<D: Device> Volatile<D> {
    /// A write cache, empty, before the device.
    pub fn new(device: D) -> Self {
        Self { device, cache: Mutex::default() }
    }

    /// How many sectors would be lost now.
    pub fn unflushed(&self) -> usize {
        self.cache().len()
    }

    /// The power fails: of each sector not flushed either what was written last has reached storage, or nothing, by the
    /// seed's choice. What it was before a write between is not among the choices.
    ///
    /// # Errors
    /// The storage behind failed.
    pub fn crash(&self, seed: u64) -> io::Result<()> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut cache = self.cache();
        let lost = std::mem::take(&mut *cache);
        let kept = lost.into_iter().filter(|_| random.next_u64() & 1 == 1).collect();
        self.store(&kept)
    }

    fn cache(&self) -> MutexGuard<'_, BTreeMap<u64, Box<Sector>>> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes sectors to the device, those that follow each other as one run.
    fn store(&self, sectors: &BTreeMap<u64, Box<Sector>>) -> io::Result<()> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, sector) in sectors {
            let at = number * SECTOR;
            // The last sector may reach behind the end.
            let length = (self.device.len() - at).min(SECTOR) as usize;
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == at && run.len() < LONGEST => {
                    run.extend_from_slice(&sector[..length]);
                }
                _ => runs.push((at, sector[..length].to_vec())),
            }
        }
        let runs: Vec<_> = runs.iter().map(|(at, run)| (*at, IoSlice::new(run))).collect();
        self.device.write_many(&runs).into_iter().collect()
    }

    /// What the device holds of a sector.
    fn stored(&self, number: u64) -> io::Result<Box<Sector>> {
        let mut sector = Box::new([0; SECTOR as usize]);
        let at = number * SECTOR;
        let length = (self.device.len() - at).min(SECTOR) as usize;
        self.device.read(at, &mut [IoSliceMut::new(&mut sector[..length])])?;
        Ok(sector)
    }
}

/// A range cut into sectors: number, where it begins there, length.
fn sectors(offset: u64, length: u64) -> Vec<(u64, u64, u64)> {
    by_unit(offset, length, SECTOR).collect()
}

impl<D: Device> Device for Volatile<D> {
    forward!(self => self.device; len measure read_only describe spaces reserve);

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        // Held while the device is read: a flush between the two would hide what it has moved there.
        let cache = self.cache();
        self.device.read(offset, buffers)?;
        let sectors = sectors(offset, length);
        for ((number, inside, _), mut parts) in
            sectors.iter().zip(cut_mut(buffers, sectors.iter().map(|sector| sector.2)))
        {
            if let Some(sector) = cache.get(number) {
                scatter(&sector[*inside as usize..], &mut parts);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        writable(self, offset, length)?;
        let mut cache = self.cache();
        let sectors = sectors(offset, length);
        for ((number, inside, length), parts) in sectors.iter().zip(cut(buffers, sectors.iter().map(|sector| sector.2)))
        {
            if !cache.contains_key(number) {
                let whole = *length == SECTOR;
                let old = if whole { Box::new([0; SECTOR as usize]) } else { self.stored(*number)? };
                cache.insert(*number, old);
            }
            if let Some(sector) = cache.get_mut(number) {
                gather(&mut sector[*inside as usize..], &parts);
            }
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut cache = self.cache();
        // After an error the cache keeps all of it, and a later flush writes it again.
        self.store(&cache).and_then(|()| self.device.flush())?;
        cache.clear();
        Ok(())
    }

    /// A new length is not volatile.
    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut cache = self.cache();
        self.device.set_len(length)?;
        drop(cache.split_off(&length.div_ceil(SECTOR)));
        if let Some(last) = cache.get_mut(&(length / SECTOR)) {
            last[(length % SECTOR) as usize..].fill(0);
        }
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        // It may read as what it was.
        writable(self, offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, _allocate: bool) -> io::Result<()> {
        writable(self, offset, length)?;
        write_zeroes(self, offset, length)
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let cache = self.cache();
        let written = length > 0 && cache.range(offset / SECTOR..=(offset + length - 1) / SECTOR).next().is_some();
        if written {
            Ok(vec![Extent { length, hole: false, zero: false }])
        } else {
            self.device.extents(offset, length)
        }
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::*;
    use std::sync::Arc;

    fn read(device: &impl Device, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        device.read(offset, &mut [IoSliceMut::new(&mut bytes)]).expect("memory is read");
        bytes
    }

    #[test]
    fn storage_sees_nothing_before_a_flush_and_all_after_it() {
        let storage = Arc::new(MemoryDevice::new(10_000));
        let device = Volatile::new(storage.clone());
        device.write(300, &[IoSlice::new(&[1; 9_700])]).expect("it lies on the device");
        let whole = [vec![0; 300], vec![1; 9_700]].concat();
        assert_eq!(read(&device, 0, 10_000), whole);
        assert_eq!(read(&storage, 0, 10_000), [0; 10_000]);
        device.flush().expect("memory is written");
        assert_eq!((read(&storage, 0, 10_000), device.unflushed()), (whole, 0));
    }

    #[test]
    fn a_crash_leaves_each_sector_old_or_new_and_what_was_flushed_whole() {
        let storage = Arc::new(MemoryDevice::new(64 * SECTOR));
        let device = Volatile::new(storage.clone());
        device.write(0, &[IoSlice::new(&[1; 64 * 512])]).expect("it lies on the device");
        device.flush().expect("memory is written");
        device.write(32 * SECTOR, &[IoSlice::new(&[2; 32 * 512])]).expect("it lies on the device");
        device.crash(3).expect("memory is written");
        let bytes = read(&device, 0, 64 * 512);
        assert_eq!(bytes, read(&storage, 0, 64 * 512));
        assert!(bytes[..32 * 512].iter().all(|byte| *byte == 1));
        let (mut old, mut new) = (0, 0);
        for sector in bytes[32 * 512..].chunks(512) {
            match sector {
                sector if sector == [1; 512] => old += 1,
                sector if sector == [2; 512] => new += 1,
                _ => panic!("a sector is mixed"),
            }
        }
        assert!(old > 0 && new > 0, "{old} old, {new} new");
    }
}
