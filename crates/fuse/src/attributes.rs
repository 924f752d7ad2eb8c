//! Attributes of a file, as they are answered, and its device numbers in the kernel's words.

use crate::times::Stamp;
use rustix::fs::{Statx, StatxFlags};

/// What is known of a file. The kernel knows it by `number`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) accessed: Stamp,
    pub(crate) modified: Stamp,
    pub(crate) changed: Stamp,
    /// Where the file system below keeps it.
    pub(crate) born: Option<Stamp>,
    /// With the kind of file.
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Major and minor, of a device.
    pub(crate) device: (u32, u32),
    pub(crate) block_size: u32,
}

impl Attributes {
    pub(crate) fn new(number: u64, found: &Statx) -> Self {
        let born = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            number,
            size: found.stx_size,
            blocks: found.stx_blocks,
            accessed: found.stx_atime.into(),
            modified: found.stx_mtime.into(),
            changed: found.stx_ctime.into(),
            born: born.then(|| found.stx_btime.into()),
            mode: found.stx_mode.into(),
            links: found.stx_nlink,
            user: found.stx_uid,
            group: found.stx_gid,
            device: (found.stx_rdev_major, found.stx_rdev_minor),
            block_size: found.stx_blksize,
        }
    }

    /// The fields that are known, as `statx` numbers them.
    pub(crate) fn known(&self) -> u32 {
        let born = if self.born.is_some() { StatxFlags::BTIME } else { StatxFlags::empty() };
        (StatxFlags::BASIC_STATS | born).bits()
    }

    /// The device as the protocol has it: 12 bits of major among 20 of minor.
    pub(crate) fn encoded_device(&self) -> u32 {
        let (major, minor) = self.device;
        minor & 0xff | major << 8 | (minor & !0xff) << 12
    }
}

/// The same back, as system calls have it.
pub(crate) fn decode_device(device: u32) -> u64 {
    rustix::fs::makedev(device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_protocol() {
        for device in [(8, 1), (259, 0x12345), (0xfff, 0xfffff), (0, 0)] {
            let decoded = decode_device(Attributes { device, ..Attributes::default() }.encoded_device());
            assert_eq!((rustix::fs::major(decoded), rustix::fs::minor(decoded)), device);
        }
    }
}
