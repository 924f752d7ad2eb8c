//! What file lies at an address, by `/proc/self/maps`.

use crate::hint::{Advice, is_on_fuse, on_descriptor};
use crate::real::keeping_errno;
use libc::c_int;
use std::ffi::CStr;

/// Descriptors of the program that are looked at for one of the mapped file.
const LOOKED_AT: c_int = 256;

/// The longest line of maps that is understood: a path of the greatest length, and the words before it.
const LINE: usize = libc::PATH_MAX as usize + 128;

/// A line of maps.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'l> {
    start: usize,
    end: usize,
    shared: bool,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: &'l CStr,
}

impl<'l> Mapping<'l> {
    /// That of a line that ends in 0.
    fn parse(line: &'l CStr) -> Option<Self> {
        let bytes = line.to_bytes();
        let mut words = bytes.splitn(6, |&byte| byte == b' ');
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = word()?.split_once('-')?;
        let shared = word()?.ends_with('s');
        let offset = hexadecimal(word()?)?;
        let (major, minor) = word()?.split_once(':')?;
        let inode = word()?.parse().ok()?;
        let at = bytes.iter().position(|&byte| byte == b'/')?;
        Some(Self {
            start: hexadecimal(start)? as usize,
            end: hexadecimal(end)? as usize,
            shared,
            offset,
            device: (hexadecimal(major)? as u32, hexadecimal(minor)? as u32),
            inode,
            path: CStr::from_bytes_with_nul(line.to_bytes_with_nul().get(at..)?).ok()?,
        })
    }

    /// Whether a descriptor is of its file.
    fn is_of(&self, fd: c_int) -> bool {
        let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: there is room for the answer, which is read only if it is there.
        unsafe {
            libc::fstat(fd, found.as_mut_ptr()) == 0 && {
                let found = found.assume_init();
                (libc::major(found.st_dev), libc::minor(found.st_dev)) == self.device && found.st_ino == self.inode
            }
        }
    }
}

/// Sends advice on memory to the shared files that are mapped there.
pub(crate) fn advise(address: usize, length: usize, advice: Advice) {
    let Some(end) = address.checked_add(length) else { return };
    keeping_errno(|| {
        each_line(|line| match Mapping::parse(line) {
            Some(mapping) if mapping.shared && mapping.start < end && address < mapping.end => {
                let (from, to) = (mapping.start.max(address), mapping.end.min(end));
                send(&mapping, mapping.offset + (from - mapping.start) as u64, (to - from) as u64, advice);
                true
            }
            // Lines are in the order of addresses.
            Some(mapping) => mapping.start < end,
            None => true,
        });
    });
}

fn send(mapping: &Mapping<'_>, offset: u64, length: u64, advice: Advice) {
    // SAFETY: the path ends in 0. To open it so touches nothing but the path.
    let at = unsafe { libc::open(mapping.path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if at < 0 {
        return;
    }
    if is_on_fuse(at) && mapping.is_of(at) {
        let open = (0..LOOKED_AT).find(|&fd| fd != at && mapping.is_of(fd) && has_bytes(fd));
        if let Some(fd) = open {
            on_descriptor(fd, offset, length, advice);
        } else if !advice.is_of_open_file() {
            let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
            // SAFETY: the path ends in 0.
            let fd = unsafe { libc::open(mapping.path.as_ptr(), flags) };
            if mapping.is_of(fd) {
                on_descriptor(fd, offset, length, advice);
            }
            close(fd);
        }
    }
    close(at);
}

/// Whether a descriptor is of an open file, rather than of a path.
fn has_bytes(fd: c_int) -> bool {
    // SAFETY: it only asks.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_PATH == 0
}

fn close(fd: c_int) {
    if fd >= 0 {
        // SAFETY: it was opened here, and nobody else has it.
        unsafe { libc::close(fd) };
    }
}

/// Calls `take` with each line of maps, until it answers `false`. Lines that are too long are left out.
fn each_line(mut take: impl FnMut(&CStr) -> bool) {
    // SAFETY: the path ends in 0.
    let fd = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return;
    }
    let (mut buffer, mut filled) = ([0_u8; LINE], 0);
    loop {
        let room = &mut buffer[filled..];
        // SAFETY: there is as much room.
        let read = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
        if read <= 0 {
            return close(fd);
        }
        filled += read as usize;
        let mut done = 0;
        while let Some(length) = buffer[done..filled].iter().position(|&byte| byte == b'\n') {
            buffer[done + length] = 0;
            let more = CStr::from_bytes_with_nul(&buffer[done..=done + length]).map_or(true, &mut take);
            if !more {
                return close(fd);
            }
            done += length + 1;
        }
        if done == 0 && filled == LINE {
            done = LINE;
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_mapped_where() {
        let line = c"7f2c4a000000-7f2c4a010000 r--s 00003000 00:2f 1234                       /mnt/src/a b";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!((mapping.start, mapping.end), (0x7f2c_4a00_0000, 0x7f2c_4a01_0000));
        assert_eq!((mapping.shared, mapping.offset, mapping.device, mapping.inode), (true, 0x3000, (0, 0x2f), 1234));
        assert_eq!(mapping.path, c"/mnt/src/a b");
        for line in
            [c"", c"x", c"1-2", c"1-2 r--p 0 0:0 0", c"g-2 r--p 0 0:0 0 /a", c"1-2 r--p 0 00 0 /a", c"1-2 r--p  "]
        {
            assert_eq!(Mapping::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn every_line_of_this_process_is_seen() {
        let mut lines = 0;
        each_line(|_| {
            lines += 1;
            true
        });
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it can be read");
        assert!(maps.lines().count().abs_diff(lines) < 10, "{lines}");
    }
}
