//! A device that is never written: changes go to another one.

use super::pieces::{by_unit, cut_mut, total, within, write_zeroes};
use super::{Device, Reserved, Space};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// What is written is kept by units of this size, each whole.
const UNIT: u64 = 4096;

/// The bytes of a device, of which those that are written lie on another one from then on, until they are trimmed. What is written is as durable as
/// nothing: it is known to this process alone which bytes these are.
pub struct CopyOnWrite<D, C> {
    device: D,
    changes: C,
    len: u64,
    /// A bit for each unit that was written.
    changed: Vec<AtomicU64>,
    /// Held exclusively while the rest of a unit is copied that is written in part, so that no other write to it is lost.
    first_writes: RwLock<()>,
}

impl<D: Device, C: Device> CopyOnWrite<D, C> {
    /// `changes` is as long as the device at least; what is on it does not matter.
    ///
    /// # Errors
    /// It is shorter.
    pub fn new(device: D, changes: C) -> io::Result<Self> {
        let len = device.len();
        within(&changes, 0, len)?;
        let changed = (0..len.div_ceil(UNIT).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { device, changes, len, changed, first_writes: RwLock::default() })
    }

    fn is_changed(&self, unit: u64) -> bool {
        self.changed[(unit / 64) as usize].load(Ordering::Acquire) & (1 << (unit % 64)) != 0
    }

    fn set_changed(&self, unit: u64) {
        self.changed[(unit / 64) as usize].fetch_or(1 << (unit % 64), Ordering::AcqRel);
    }

    fn forget_change(&self, unit: u64) {
        self.changed[(unit / 64) as usize].fetch_and(!(1 << (unit % 64)), Ordering::AcqRel);
    }

    /// A range as the longest runs that lie on one of both: whether it is that of the changes, and the run's length.
    fn runs(&self, offset: u64, length: u64) -> Vec<(bool, u64)> {
        let mut runs: Vec<(bool, u64)> = Vec::new();
        for (unit, _, length) in by_unit(offset, length, UNIT) {
            let changed = self.is_changed(unit);
            match runs.last_mut() {
                Some((last, run)) if *last == changed => *run += length,
                _ => runs.push((changed, length)),
            }
        }
        runs
    }

    /// Copies the rest of a unit of which a part is about to be written.
    fn keep_rest(&self, unit: u64) -> io::Result<()> {
        let start = unit * UNIT;
        let mut bytes = vec![0; (self.len - start).min(UNIT) as usize];
        self.device.read(start, &mut [IoSliceMut::new(&mut bytes)])?;
        self.changes.write(start, &[IoSlice::new(&bytes)])
    }
}

impl<D: Device, C: Device> Device for CopyOnWrite<D, C> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let runs = self.runs(offset, length);
        let parts = cut_mut(buffers, runs.iter().map(|&(_, length)| length));
        let mut at = offset;
        for ((changed, length), mut part) in runs.into_iter().zip(parts) {
            if changed {
                self.changes.read(at, &mut part)?
            } else {
                self.device.read(at, &mut part)?
            }
            at += length;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let in_part = |&(unit, inside, length): &(u64, u64, u64)| {
            (inside > 0 || length < (self.len - unit * UNIT).min(UNIT)) && !self.is_changed(unit)
        };
        let put = || {
            self.changes.write(offset, buffers)?;
            by_unit(offset, length, UNIT).for_each(|(unit, _, _)| self.set_changed(unit));
            Ok(())
        };
        if by_unit(offset, length, UNIT).any(|part| in_part(&part)) {
            let _alone = self.first_writes.write().unwrap_or_else(PoisonError::into_inner);
            by_unit(offset, length, UNIT).filter(in_part).try_for_each(|(unit, _, _)| self.keep_rest(unit))?;
            put()
        } else {
            let _beside_whole_units = self.first_writes.read().unwrap_or_else(PoisonError::into_inner);
            put()
        }
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// The units that lie in the range as a whole are the device's again.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        within(self, offset, length)?;
        let end = offset + length;
        let last = if end == self.len { end.div_ceil(UNIT) } else { end / UNIT };
        let units = offset.div_ceil(UNIT)..last;
        if units.is_empty() {
            return Ok(());
        }
        let _alone = self.first_writes.write().unwrap_or_else(PoisonError::into_inner);
        units.clone().for_each(|unit| self.forget_change(unit));
        let (start, end) = (units.start * UNIT, (units.end * UNIT).min(self.len));
        self.changes.trim(start, end - start)
    }

    fn write_zeroes(&self, offset: u64, length: u64, _allocate: bool) -> io::Result<()> {
        within(self, offset, length)?;
        write_zeroes(self, offset, length)
    }

    fn spaces(&self) -> Vec<Space> {
        self.changes.spaces()
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        let start = offset - offset % UNIT;
        let end = (offset + length).next_multiple_of(UNIT).min(self.len);
        self.changes.reserve(start, end - start)
    }

    fn describe(&self) -> String {
        format!("{}, copied on write", self.device.describe())
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::*;
    use proptest::prelude::*;

    fn read(device: &impl Device, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        device.read(offset, &mut [IoSliceMut::new(&mut bytes)]).unwrap();
        bytes
    }

    fn original() -> (MemoryDevice, Vec<u8>) {
        let bytes: Vec<u8> = (0..5 * UNIT + 100).map(|at| (at % 251) as u8).collect();
        let device = MemoryDevice::new(bytes.len() as u64);
        device.write(0, &[IoSlice::new(&bytes)]).unwrap();
        (device, bytes)
    }

    proptest! {
        #[test]
        fn reads_see_the_writes_and_the_device_sees_none(writes in prop::collection::vec((0u64..20_580, 1usize..9_000, any::<u8>()), 1..12)) {
            let (device, mut expected) = original();
            let before = expected.clone();
            let changes = MemoryDevice::new(expected.len() as u64 + 7);
            changes.write(0, &[IoSlice::new(&vec![0xee; expected.len()])]).unwrap();
            let device = std::sync::Arc::new(device);
            let changed = CopyOnWrite::new(std::sync::Arc::clone(&device), changes).unwrap();
            for (offset, length, byte) in writes {
                let end = expected.len().min(offset as usize + length);
                let new = vec![byte; end - offset as usize];
                let (head, tail) = new.split_at(new.len() / 3);
                changed.write(offset, &[IoSlice::new(head), IoSlice::new(tail)]).unwrap();
                expected[offset as usize..end].fill(byte);
                prop_assert_eq!(read(&changed, 0, expected.len()), expected.clone());
                let inside = offset.saturating_sub(5);
                prop_assert_eq!(read(&changed, inside, end - inside as usize), &expected[inside as usize..end]);
            }
            prop_assert_eq!(read(&device, 0, before.len()), before);
        }
    }

    #[test]
    fn writes_to_parts_of_one_unit_at_once_are_all_kept() {
        const THREADS: u64 = 4;
        for _ in 0..200 {
            let (device, _) = original();
            let changed = CopyOnWrite::new(device, MemoryDevice::new(5 * UNIT + 100)).unwrap();
            let start = std::sync::Barrier::new(THREADS as usize);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (changed, start) = (&changed, &start);
                    scope.spawn(move || {
                        start.wait();
                        changed.write(thread * 1000, &[IoSlice::new(&[254; 1000])]).unwrap();
                    });
                }
            });
            assert!(read(&changed, 0, 4000).iter().all(|&byte| byte == 254));
        }
    }

    #[test]
    fn what_lies_behind_the_end_is_refused_and_zeroes_are_a_change() {
        let (device, bytes) = original();
        assert!(CopyOnWrite::new(original().0, MemoryDevice::new(100)).is_err());
        let changed = CopyOnWrite::new(device, MemoryDevice::new(bytes.len() as u64)).unwrap();
        let error = changed.write(5 * UNIT, &[IoSlice::new(&[1; 101])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read(&changed, 0, bytes.len()), bytes);
        changed.write_zeroes(10, 20, false).unwrap();
        assert_eq!((read(&changed, 8, 24)[2..22].to_vec(), read(&changed, 30, 1)[0]), (vec![0; 20], bytes[30]));
        assert!(!changed.read_only() && changed.set_len(1).is_err());
    }

    #[test]
    fn what_is_trimmed_is_the_devices_again() {
        let (device, bytes) = original();
        let changed = CopyOnWrite::new(device, MemoryDevice::new(bytes.len() as u64)).unwrap();
        let mut expected = vec![255; bytes.len()];
        changed.write(0, &[IoSlice::new(&expected)]).unwrap();
        // Units 1 and 2 as a whole, and parts of those beside them.
        changed.trim(UNIT - 1, 2 * UNIT + 2).unwrap();
        let unit = UNIT as usize;
        expected[unit..3 * unit].copy_from_slice(&bytes[unit..3 * unit]);
        assert_eq!(read(&changed, 0, bytes.len()), expected);
        // The last one ends where the device does.
        changed.trim(5 * UNIT, 100).unwrap();
        expected[5 * unit..].copy_from_slice(&bytes[5 * unit..]);
        assert_eq!(read(&changed, 0, bytes.len()), expected);
        changed.write(UNIT + 5, &[IoSlice::new(&[254])]).unwrap();
        expected[unit + 5] = 254;
        assert_eq!(read(&changed, 0, bytes.len()), expected, "what is written again is kept again");
        assert!(changed.trim(5 * UNIT, 101).is_err());
    }
}
