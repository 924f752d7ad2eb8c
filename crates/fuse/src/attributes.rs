//! Attributes of a file below in the library's words, and its device numbers in the kernel's.

use crate::times::Stamp;
use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::Statx;
use std::time::UNIX_EPOCH;

/// The attributes of a file that the kernel knows by `number`.
pub(crate) fn attributes_of(number: u64, found: &Statx) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: found.stx_size,
        blocks: found.stx_blocks,
        atime: Stamp::from(found.stx_atime).system_time(),
        mtime: Stamp::from(found.stx_mtime).system_time(),
        ctime: Stamp::from(found.stx_ctime).system_time(),
        crtime: UNIX_EPOCH,
        kind: kind_of(found.stx_mode.into()),
        perm: found.stx_mode & 0o7777,
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: encode_device(found.stx_rdev_major, found.stx_rdev_minor),
        blksize: found.stx_blksize,
        flags: 0,
    }
}

fn kind_of(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// A device number as the protocol has it: 12 bits of major among 20 of minor.
fn encode_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
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
        for (major, minor) in [(8, 1), (259, 0x12345), (0xfff, 0xfffff), (0, 0)] {
            let device = decode_device(encode_device(major, minor));
            assert_eq!((rustix::fs::major(device), rustix::fs::minor(device)), (major, minor));
        }
    }
}
