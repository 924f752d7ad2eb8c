//! What programs say of open files by `ioctl`: `include/forebay.h` as this side reads it.

use crate::hints::Hinted;
use crate::protocol::Errno;
use forebay_owning::Advice;
use std::ffi::CStr;

/// The type of all requests, in the second byte of their number.
const TYPE: u32 = 0xfb;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// `FOREBAY_HINT`.
    Hint(Hinted),
    /// `FOREBAY_MANAGE`: the manager, and the process that manages, or 0.
    Manage(String, u64),
}

impl Said {
    /// Reads a request by its number, as `_IOW` makes it, and its structure.
    pub(crate) fn read(number: u32, data: &[u8]) -> Result<Self, Errno> {
        // _IOW: two bits of direction (to the kernel), 14 of size, 8 of type, 8 of number.
        let [kind, of, ..] = number.to_le_bytes();
        if u32::from(of) != TYPE {
            return Err(Errno::ENOTTY);
        }
        let sized = |size: u32| {
            let right = number >> 16 == 1 << 14 | size && data.len() == size as usize;
            if right { Ok(()) } else { Err(Errno::EINVAL) }
        };
        match kind {
            1 => {
                sized(24)?;
                let word = |at: usize| u64::from_ne_bytes(data[at..at + 8].try_into().expect("eight bytes"));
                let half = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().expect("four bytes"));
                let (offset, length, advice, reserved) = (word(0), word(8), half(16), half(20));
                let advice = Advice::numbered(advice).filter(|_| reserved == 0).ok_or(Errno::EINVAL)?;
                offset.checked_add(length).ok_or(Errno::EINVAL)?;
                Ok(Self::Hint(Hinted { offset, length, advice }))
            }
            2 => {
                sized(128)?;
                let (name, process) = data.split_at(120);
                let name = CStr::from_bytes_until_nul(name).ok().and_then(|name| name.to_str().ok());
                let process = u64::from_ne_bytes(process.try_into().expect("eight bytes"));
                Ok(Self::Manage(name.ok_or(Errno::EINVAL)?.to_owned(), process))
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_IOW(0xFB, 1, struct forebay_hint)`.
    const HINT: u32 = 0x4018_fb01;

    fn hint(offset: u64, length: u64, advice: u32, reserved: u32) -> Vec<u8> {
        [&offset.to_ne_bytes()[..], &length.to_ne_bytes(), &advice.to_ne_bytes(), &reserved.to_ne_bytes()].concat()
    }

    #[test]
    fn a_hint_is_read_as_c_has_it() {
        let said = Said::read(HINT, &hint(4096, 8192, libc::POSIX_FADV_DONTNEED as u32, 0));
        let hinted = Hinted { offset: 4096, length: 8192, advice: Advice::DoNotNeed };
        assert_eq!(said.expect("it is a hint"), Said::Hint(hinted));
    }

    #[test]
    fn what_is_none_of_these_requests_is_refused_as_the_header_says() {
        let errno = |number, data: &[u8]| Said::read(number, data).expect_err("it is wrong").code();
        let right = hint(0, 0, 0, 0);
        assert_eq!(errno(HINT & !0xff | 77, &right), libc::ENOTTY);
        assert_eq!(errno(0x5401, &[]), libc::ENOTTY);
        assert_eq!(errno(0x4010_fb01, &right[..16]), libc::EINVAL);
        assert_eq!(errno(0x8018_fb01, &right), libc::EINVAL);
        assert_eq!(errno(HINT, &hint(0, 0, 6, 0)), libc::EINVAL);
        assert_eq!(errno(HINT, &hint(0, 0, 0, 1)), libc::EINVAL);
        assert_eq!(errno(HINT, &hint(2, u64::MAX, 0, 0)), libc::EINVAL);
    }
}
