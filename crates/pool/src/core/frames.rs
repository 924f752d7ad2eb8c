//! The memory of the pool: one mapping, cut into frames of a page each.

use crate::core::memory::Memory;
use std::io;
use std::ptr::NonNull;

/// The pool's own memory: all frames. Who may touch a frame's bytes is decided by the state of the page in it (`page.rs`); nothing is here.
pub struct Frames {
    base: NonNull<u8>,
    bytes: usize,
    page_size: usize,
}

// SAFETY: the mapping belongs to this value alone and lives as long as it; access to the bytes goes through raw pointers whose
// users say why theirs is exclusive or shared.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    /// Room for `count` frames of `page_size` bytes, a multiple of 4 KiB. Memory is taken as frames are touched.
    pub(crate) fn new(count: u32, page_size: usize, huge_pages: bool) -> io::Result<Self> {
        let bytes = (count as usize)
            .checked_mul(page_size)
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory that is in use.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let advice = if huge_pages { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is the mapping made above. That the kernel may know no huge pages harms nothing.
        unsafe { libc::madvise(base, bytes, advice) };
        // SAFETY: as above. What users have in their files is not to be in a core file, which would have the size of the cache.
        unsafe { libc::madvise(base, bytes, libc::MADV_DONTDUMP) };
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Self { base, bytes, page_size })
    }
}

impl Memory for Frames {
    #[inline]
    fn page_size(&self) -> usize {
        self.page_size
    }

    #[inline]
    fn pointer(&self, frame: u32) -> *mut u8 {
        let start = frame as usize * self.page_size;
        assert!(start < self.bytes, "a frame of this pool");
        // SAFETY: the offset is within the mapping.
        unsafe { self.base.as_ptr().add(start) }
    }

    /// Touched again it is zero.
    fn retire(&self, frame: u32) {
        // SAFETY: the frame is within the mapping, and free: nobody reads or writes it.
        unsafe { libc::madvise(self.pointer(frame).cast(), self.page_size, libc::MADV_DONTNEED) };
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and pins borrow the pool that owns it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_no_core_file() {
        let frames = Frames::new(4, 4096, false).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        // The kernel shows mappings of one kind that lie side by side as one, so it may begin before.
        let holds = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            let [from, to] = [from, to].map(|address| usize::from_str_radix(address, 16).ok());
            Some((from?..to?).contains(&frames.pointer(0).addr()))
        };
        let mut lines = maps.lines().skip_while(|line| holds(line) != Some(true));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
    }

    #[test]
    fn frames_are_aligned_apart_and_zero_again_once_retired() {
        let frames = Frames::new(4, 4096, false).unwrap();
        for frame in 0..4 {
            let bytes = frames.pointer(frame);
            assert_eq!(bytes as usize % 4096, 0);
            // SAFETY: the test is alone with the frames.
            unsafe { bytes.write_bytes(frame as u8 + 1, 4096) };
        }
        frames.retire(2);
        // SAFETY: as above.
        let firsts: Vec<u8> = (0..4).map(|frame| unsafe { frames.pointer(frame).add(4095).read() }).collect();
        assert_eq!(firsts, [1, 2, 0, 4]);
    }
}
