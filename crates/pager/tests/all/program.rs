//! What else programs do with their addresses.

use crate::common::{PAGE, limit, region};
use std::ffi::c_void;

/// A page of the region, for calls of the system.
fn page(region: &forebay_pager::Region, page: usize) -> *mut c_void {
    region.as_ptr().wrapping_add(page * PAGE).cast()
}

#[test]
fn system_calls_read_and_write_absent_pages() {
    let _limit = limit("system calls");
    let (pager, mut region, _) = region("clock-pro", 16 * PAGE, 256 * PAGE);
    if !pager.serves_system_calls() {
        println!("skipped: this user's system calls do not wait for pages");
        return;
    }
    let bytes: Vec<u8> = (0..100 * PAGE).map(|at| (at / PAGE + at % 7) as u8).collect();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("data"), &bytes).expect("it is written");
    let file = std::fs::File::open(folder.path().join("data")).expect("a file");
    // More than is ever resident, in one call.
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::io::pread(&file, &mut region[PAGE + filled..PAGE + bytes.len()], filled as u64)
            .expect("it is read");
    }
    assert!(region[PAGE..][..bytes.len()] == bytes);
    let mut copied = vec![0_u8; bytes.len()];
    let local = libc::iovec { iov_base: copied.as_mut_ptr().cast(), iov_len: copied.len() };
    let remote = libc::iovec { iov_base: page(&region, 1), iov_len: bytes.len() };
    // SAFETY: both ranges are this process's, and as long as is said.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    assert!(count > 0 && copied[..count as usize] == bytes[..count as usize], "{count} bytes");
    std::fs::write(folder.path().join("copy"), &region[PAGE..][..bytes.len()]).expect("it is written");
    assert!(std::fs::read(folder.path().join("copy")).expect("it is read") == bytes);
}

#[test]
fn taking_mappings_away_loses_nothing() {
    let _limit = limit("madvise");
    let (_pager, mut region, _) = region("lru", 64 * PAGE, 64 * PAGE);
    region.fill(7);
    // SAFETY: the range is the region's, whose bytes are in the pager's hands.
    assert_eq!(unsafe { libc::madvise(page(&region, 0), 64 * PAGE, libc::MADV_DONTNEED) }, 0);
    assert!(region.iter().all(|&byte| byte == 7));
}

#[test]
fn a_page_that_the_program_protects_is_protected() {
    let _limit = limit("mprotect");
    let (pager, mut region, _) = region("lru", 16 * PAGE, 64 * PAGE);
    region.fill(7);
    // SAFETY: the range is the region's; nobody writes to it meanwhile.
    assert_eq!(unsafe { libc::mprotect(page(&region, 0), 64 * PAGE, libc::PROT_READ) }, 0);
    assert!(region.iter().step_by(PAGE).all(|&byte| byte == 7));
    if pager.serves_system_calls() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        rustix::io::write(&writer, b"x").expect("it has room");
        assert_eq!(rustix::io::read(&reader, &mut region[..1]), Err(rustix::io::Errno::FAULT));
    }
}

#[test]
fn a_child_of_fork_does_not_have_the_region() {
    let _limit = limit("fork");
    let (_pager, mut region, _) = region("lru", 16 * PAGE, 64 * PAGE);
    region[0] = 7;
    let address = region.as_ptr();
    // SAFETY: the child calls nothing but `_exit` and touches one byte.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it is not mapped here: a signal ends the child.
        let byte = unsafe { address.read_volatile() };
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(byte)) };
    }
    let mut status = 0;
    // SAFETY: the child of above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "status {status}");
    assert_eq!(region[0], 7);
}
