//! Hints, as a mount takes them: the same as `struct forebay_hint` in `include/forebay.h`.

use crate::real::keeping_errno;
use libc::{Ioctl, c_int};

/// `_IOW(0xFB, 1, struct forebay_hint)`.
const FOREBAY_HINT: Ioctl = 1 << 30 | (size_of::<Hint>() as Ioctl) << 16 | 0xFB << 8 | 1;

#[repr(C)]
struct Hint {
    offset: u64,
    /// 0: to the end of the file.
    length: u64,
    advice: u32,
    reserved: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Advice {
    Normal = 0,
    Random = 1,
    Sequential = 2,
    WillNeed = 3,
    DoNotNeed = 4,
    NoReuse = 5,
}

impl Advice {
    /// That of `posix_fadvise`.
    pub(crate) fn of_file(advice: c_int) -> Option<Self> {
        Some(match advice {
            libc::POSIX_FADV_NORMAL => Self::Normal,
            libc::POSIX_FADV_RANDOM => Self::Random,
            libc::POSIX_FADV_SEQUENTIAL => Self::Sequential,
            libc::POSIX_FADV_WILLNEED => Self::WillNeed,
            libc::POSIX_FADV_DONTNEED => Self::DoNotNeed,
            libc::POSIX_FADV_NOREUSE => Self::NoReuse,
            _ => return None,
        })
    }

    /// That of `madvise` and `posix_madvise`, as far as it says something of the file.
    pub(crate) fn of_memory(advice: c_int) -> Option<Self> {
        Some(match advice {
            libc::MADV_NORMAL => Self::Normal,
            libc::MADV_RANDOM => Self::Random,
            libc::MADV_SEQUENTIAL => Self::Sequential,
            libc::MADV_WILLNEED => Self::WillNeed,
            libc::MADV_COLD | libc::MADV_PAGEOUT => Self::DoNotNeed,
            _ => return None,
        })
    }

    /// Whether it is of an open file rather than of bytes.
    pub(crate) fn is_of_open_file(self) -> bool {
        matches!(self, Self::Normal | Self::Random | Self::Sequential | Self::NoReuse)
    }
}

/// Sends advice on a part of an open file, if it is on a FUSE file system. Another than ours refuses it, which harms nobody.
pub(crate) fn on_descriptor(fd: c_int, offset: u64, length: u64, advice: Advice) {
    keeping_errno(|| {
        if is_on_fuse(fd) {
            let hint = Hint { offset, length, advice: advice as u32, reserved: 0 };
            // SAFETY: the request's number says how long the hint is, which is only read.
            unsafe { libc::ioctl(fd, FOREBAY_HINT, &raw const hint) };
        }
    });
}

pub(crate) fn is_on_fuse(fd: c_int) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: there is room for the answer, which is read only if it is there.
    unsafe { libc::fstatfs(fd, found.as_mut_ptr()) == 0 && found.assume_init().f_type == libc::FUSE_SUPER_MAGIC }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_that_of_the_header() {
        assert_eq!(FOREBAY_HINT, 0x4018_FB01);
        assert_eq!(std::mem::offset_of!(Hint, advice), 16);
    }

    #[test]
    fn dropping_a_mapping_says_nothing_of_the_file() {
        assert_eq!(Advice::of_memory(libc::MADV_DONTNEED), None);
        assert_eq!(Advice::of_file(libc::POSIX_FADV_DONTNEED), Some(Advice::DoNotNeed));
    }
}
