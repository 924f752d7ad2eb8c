//! Where processes have mapped what, as `/proc/PID/maps` says, and advice on it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Ranges that advice is given on at once.
const RANGES: usize = 512;

/// A line of `/proc/PID/maps`, `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE NAME`.
pub(crate) struct Line<'a> {
    pub(crate) addresses: Range<u64>,
    pub(crate) permissions: &'a str,
    pub(crate) offset: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The beginning of the name, up to a space.
    pub(crate) name: &'a str,
}

impl<'a> Line<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let offset = hexadecimal(fields.next()?)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = hexadecimal(major)? << 20 | hexadecimal(minor)?;
        let inode: u64 = fields.next()?.parse().ok()?;
        let addresses = hexadecimal(start)?..hexadecimal(end)?;
        Some(Self { addresses, permissions, offset, device, inode, name: fields.next().unwrap_or("") })
    }
}

/// Gives advice on ranges of a process's memory. Those on which none can be given, as nothing is mapped there any more, are passed over.
///
/// # Errors
/// The process has ended, or may not be asked.
pub(crate) fn advise(process: &OwnedFd, ranges: &[libc::iovec], advice: libc::c_int) -> io::Result<()> {
    let mut rest = ranges;
    while !rest.is_empty() {
        let some = &rest[..rest.len().min(RANGES)];
        let (call, process) = (libc::SYS_process_madvise, process.as_raw_fd());
        // SAFETY: the kernel reads as many ranges as there are. Their addresses are the other process's, and the advice changes no byte of its memory.
        let advised = unsafe { libc::syscall(call, process, some.as_ptr(), some.len(), advice, 0) };
        let mut bytes = match usize::try_from(advised) {
            Ok(bytes) => bytes,
            Err(_) => match io::Error::last_os_error() {
                error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOMEM | libc::EFAULT)) => 0,
                error => return Err(error),
            },
        };
        let whole = some.iter().take_while(|range| match bytes.checked_sub(range.iov_len) {
            Some(left) => {
                bytes = left;
                true
            }
            None => false,
        });
        let done = whole.count();
        // The first that is not done is in the way of the others.
        rest = &rest[(done + usize::from(done < some.len())).min(rest.len())..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    #[test]
    fn a_line_says_what_is_where() {
        let line = Line::parse("7f00-8f00 rw-p 00002000 08:01 77   /a b").expect("a line");
        assert_eq!((line.addresses, line.permissions, line.offset), (0x7f00..0x8f00, "rw-p", 0x2000));
        assert_eq!((line.device, line.inode, line.name), (8 << 20 | 1, 77, "/a"));
        assert!(Line::parse("1000-2000 rw-p 0 00:00 0").is_some_and(|line| line.name.is_empty()));
        assert!(
            ["", "1000", "1000-x rw-p 0 00:00 0", "1000-2000 rw-p 0 0000 0"]
                .iter()
                .all(|line| Line::parse(line).is_none())
        );
    }

    #[test]
    fn advice_on_what_is_not_mapped_is_passed_over() {
        let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor");
        let mut memory = vec![1u8; 3 << 12];
        let mapped = libc::iovec { iov_base: (memory.as_mut_ptr() as usize & !4095) as *mut _, iov_len: 4096 };
        let unmapped = libc::iovec { iov_base: std::ptr::without_provenance_mut(4096), iov_len: 4096 };
        advise(&own, &[unmapped, mapped, unmapped, unmapped, mapped], libc::MADV_COLD).expect("it is given");
        advise(&own, &[], libc::MADV_COLD).expect("nothing is asked");
        assert!(memory.iter().all(|&byte| byte == 1));
    }
}
