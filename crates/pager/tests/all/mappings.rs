//! Programs that change the mappings of a region, or of parts of its pages.

use crate::common::{
    PAGE, ended, in_another_process, limit, map, options, pager, pager_of, region, role, say, stored, wait_until,
};
use forebay_pager::{Advice, Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Arc;

const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn at(region: &Region, byte: usize) -> *mut c_void {
    region.as_ptr().wrapping_add(byte).cast()
}

/// A region of pages of 64 KiB, all of them resident, with the page's number in each byte.
fn of_large_pages() -> (Arc<Pager>, Region, Arc<MemoryDevice>) {
    let pager = pager_of(16 * PAGE, "car", 32 * 16 * PAGE);
    let device = Arc::new(MemoryDevice::new(16 * 16 * PAGE as u64));
    let mut region = map(&pager, &device);
    for (page, bytes) in region.chunks_mut(16 * PAGE).enumerate() {
        bytes.fill(page as u8);
    }
    (pager, region, device)
}

#[test]
fn advice_on_a_part_of_a_page_loses_nothing() {
    let _limit = limit("MADV_DONTNEED of parts");
    let (_pager, mut region, device) = of_large_pages();
    for clean in [false, true] {
        if clean {
            region.sync().expect("it is written");
        }
        for part in (0..region.len()).step_by(3 * PAGE) {
            // SAFETY: the range is the region's, whose bytes are in the pager's hands.
            assert_eq!(unsafe { libc::madvise(at(&region, part), PAGE, libc::MADV_DONTNEED) }, 0);
        }
        assert!(region.chunks(16 * PAGE).enumerate().all(|(page, bytes)| bytes.iter().all(|&byte| byte == page as u8)));
        for part in (0..region.len() - PAGE).step_by(5 * PAGE) {
            // SAFETY: as above.
            assert_eq!(unsafe { libc::madvise(at(&region, part), 2 * PAGE, libc::MADV_DONTNEED) }, 0);
            region[part] = (part / PAGE / 16) as u8;
        }
        region.sync().expect("it is written");
        let stored = stored(&*device);
        assert!(stored.chunks(16 * PAGE).enumerate().all(|(page, bytes)| bytes.iter().all(|&byte| byte == page as u8)));
    }
}

#[test]
fn a_part_of_a_page_is_protected_and_the_rest_is_used() {
    let _limit = limit("mprotect of parts");
    let (_pager, mut region, device) = of_large_pages();
    region.sync().expect("it is written");
    for page in 0..16 {
        // SAFETY: the ranges are the region's; nobody writes to the first.
        unsafe {
            assert_eq!(libc::mprotect(at(&region, (16 * page + 5) * PAGE), 3 * PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::madvise(at(&region, 16 * page * PAGE), 16 * PAGE, libc::MADV_DONTNEED), 0);
        }
        region[(16 * page + 4) * PAGE] = 99;
        region[(16 * page + 8) * PAGE] = 99;
        assert_eq!(region[(16 * page + 6) * PAGE], page as u8);
    }
    region.sync().expect("it is written");
    let stored = stored(&*device);
    assert!((0..16).all(|page| stored[(16 * page + 4) * PAGE] == 99 && stored[(16 * page + 8) * PAGE] == 99));
    // And can be written when it may be again.
    // SAFETY: as above.
    assert_eq!(unsafe { libc::mprotect(at(&region, 0), region.len(), WRITABLE) }, 0);
    region.fill(7);
    region.sync().expect("it is written");
}

#[test]
fn memory_that_the_program_removes_reads_as_zeroes_and_nothing_waits() {
    let _limit = limit("MADV_REMOVE");
    for size in [1, 16] {
        let pager = pager_of(size * PAGE, "clock", 64 * size * PAGE);
        let device = Arc::new(MemoryDevice::new((32 * size * PAGE) as u64));
        let mut region = map(&pager, &device);
        region.fill(7);
        region.sync().expect("it is written");
        // A page that is clean, and one that is dirty.
        region[size * PAGE] = 8;
        for page in 0..2 {
            // SAFETY: the range is the region's.
            assert_eq!(unsafe { libc::madvise(at(&region, page * size * PAGE), PAGE, libc::MADV_REMOVE) }, 0);
        }
        assert!(region[..PAGE].iter().all(|&byte| byte == 0));
        region[size * PAGE + 1] = 9;
        assert_eq!(region[size * PAGE..][..3], [0, 9, 0]);
        assert!(region[PAGE..size * PAGE].iter().all(|&byte| byte == 7), "the rest of the page is as it was");
        assert!(region[2 * size * PAGE..].iter().all(|&byte| byte == 7));
        region.close().expect("it is written");
        let stored = stored(&*device);
        assert_eq!((stored[0], stored[size * PAGE], stored[size * PAGE + 1], stored[2 * size * PAGE]), (0, 0, 9, 7));
    }
}

#[test]
fn what_a_program_unmaps_is_its_own_again() {
    let _limit = limit("munmap of parts");
    // Mappings are taken away all the time.
    let options = Options { sampling: 1.0, ..options(64 * PAGE as u64, Spec::parse("clock").expect("a policy")) };
    let pager = Pager::new(&options).expect("a pager");
    let device = Arc::new(MemoryDevice::new(128 * PAGE as u64));
    let mut region = map(&pager, &device);
    region.fill(7);
    let part = at(&region, 16 * PAGE);
    // SAFETY: nobody uses that part of the region any more.
    assert_eq!(unsafe { libc::munmap(part, 16 * PAGE) }, 0);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is mapped there.
    let own = unsafe { libc::mmap(part, 8 * PAGE, WRITABLE, flags, -1, 0) };
    assert_eq!(own, part, "the addresses are free");
    // SAFETY: the mapping of above, over another part of the region that nobody uses.
    let over = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(at(&region, 64 * PAGE), 8 * PAGE, WRITABLE, flags, -1, 0)
    };
    // SAFETY: both mappings are this test's.
    let mappings = unsafe { [own, over].map(|mapping| std::slice::from_raw_parts_mut(mapping.cast::<u8>(), 8 * PAGE)) };
    let [own, over] = mappings;
    own.fill(1);
    over.fill(2);
    region.advise(0, 0, Advice::Random).expect("it is known");
    // As the hand gets to it.
    while pager.faults().unmapped < 200 {
        for page in (0..16).chain(32..64).chain(72..128) {
            assert_eq!(region[page * PAGE], 7);
        }
    }
    assert!(own.iter().all(|&byte| byte == 1) && over.iter().all(|&byte| byte == 2));
    region.close().expect("what was unmapped is written, too");
    assert!(own.iter().all(|&byte| byte == 1) && over.iter().all(|&byte| byte == 2), "they outlive the region");
    assert!(stored(&*device).iter().all(|&byte| byte == 7));
    // SAFETY: the mappings of above.
    assert_eq!(unsafe { [own, over].map(|mapping| libc::munmap(mapping.as_mut_ptr().cast(), 8 * PAGE)) }, [0, 0]);
}

#[test]
fn a_part_of_a_page_is_unmapped_and_the_rest_is_used() {
    let _limit = limit("munmap of a part of a page");
    let (pager, mut region, device) = of_large_pages();
    for page in 0..16 {
        // SAFETY: nobody uses that part of the region any more.
        assert_eq!(unsafe { libc::munmap(at(&region, (16 * page + 3) * PAGE), 5 * PAGE) }, 0);
    }
    region.sync().expect("it is written");
    for page in 0..16 {
        for part in (0..3).chain(8..16) {
            region[(16 * page + part) * PAGE] += 1;
        }
    }
    let faults = pager.faults();
    assert!(faults.protection >= 16 && faults.failed == 0, "{faults:?}");
    region.close().expect("it is written");
    let stored = stored(&*device);
    assert!(
        (0..16).all(|page| stored[16 * page * PAGE] == page as u8 + 1 && stored[(16 * page + 3) * PAGE] == page as u8)
    );
}

#[test]
fn what_mremap_moves_cannot_be_used_and_the_rest_can() {
    let _limit = limit("mremap");
    let moved = |region: &Region, from: usize, length: usize| {
        // SAFETY: nobody uses that part of the region any more.
        unsafe { libc::mremap(at(region, from), length, length * 2, libc::MREMAP_MAYMOVE) }
    };
    if let Some(role) = role() {
        let (_pager, mut region, _) = region("lru", 64 * PAGE, 128 * PAGE);
        region.fill(7);
        let (from, length) = if role == "all" { (0, 128 * PAGE) } else { (8 * PAGE, 8 * PAGE) };
        let to = moved(&region, from, length);
        assert_ne!(to, libc::MAP_FAILED);
        if role == "all" {
            say("it is moved");
        } else {
            let all = (0..8).chain(16..128).all(|page| region[page * PAGE] == 7);
            say(&format!("the rest is used: {all}"));
        }
        // SAFETY: the mapping that the kernel has answered; that it cannot be used ends the process.
        black_box(unsafe { to.cast::<u8>().read_volatile() });
        say("so is what was moved");
        return;
    }
    for (role, expected) in [("all", "it is moved"), ("a part", "the rest is used: true")] {
        let child = in_another_process("mappings::what_mremap_moves_cannot_be_used_and_the_rest_can", role);
        let (signal, said) = ended(child);
        assert_eq!(signal, Some(libc::SIGSEGV), "{said}");
        assert!(said.contains(expected) && !said.contains("so is"), "{said}");
    }
    // And the region goes without what was moved, which is the program's.
    let (_pager, mut region, device) = region("lru", 64 * PAGE, 128 * PAGE);
    region.fill(7);
    let to = moved(&region, 8 * PAGE, 8 * PAGE);
    region.close().expect("it is written");
    assert!(stored(&*device).iter().all(|&byte| byte == 7));
    // SAFETY: the mapping that the kernel has answered.
    assert_eq!(unsafe { libc::munmap(to, 16 * PAGE) }, 0);
}

#[test]
fn a_region_is_advised() {
    let _limit = limit("advice");
    let (pager, mut region, device) = region("lru", 64 * PAGE, 128 * PAGE);
    region.advise(0, 0, Advice::Random).expect("it is known");
    for page in 0..32 {
        black_box(region[page * PAGE]);
    }
    assert_eq!(pager.faults().major, 32, "nothing is read ahead");
    region.advise(0, 0, Advice::Sequential).expect("it is known");
    for page in 32..96 {
        black_box(region[page * PAGE]);
    }
    assert!(pager.faults().major < 32 + 32, "much is read ahead: {:?}", pager.faults());
    region[100 * PAGE..102 * PAGE].fill(7);
    region.advise(100 * PAGE as u64, PAGE as u64, Advice::Zero).expect("it is done");
    assert!(region[100 * PAGE..101 * PAGE].iter().all(|&byte| byte == 0));
    assert!(region[101 * PAGE..102 * PAGE].iter().all(|&byte| byte == 7));
    wait_until("all pages have left", || {
        // Those that were in use just then leave by another.
        region.advise(0, 128 * PAGE as u64, Advice::DoNotNeed).expect("they leave");
        pager.statistics().resident == 0
    });
    assert_eq!((stored(&*device)[100 * PAGE], stored(&*device)[101 * PAGE]), (0, 7), "after their writeback");
    // Advice from above that is still waiting takes pages of that region away again.
    let (pager, region, _) = self::region("lru", 64 * PAGE, 128 * PAGE);
    region.advise(0, 8 * PAGE as u64, Advice::WillNeed).expect("they come");
    wait_until("eight pages have come", || pager.statistics().resident == 8);
    black_box(region[0]);
    assert_eq!(pager.faults().major, 0, "it was there");
    assert!(region.advise(127 * PAGE as u64, 2 * PAGE as u64, Advice::WillNeed).is_err());
}

#[test]
fn a_device_of_another_length_is_mapped_at_addresses_that_were_unmapped_before() {
    let _limit = limit("regions that come and go");
    let pager = pager("lru", 64 * PAGE);
    for turn in 1..20_usize {
        let device = Arc::new(MemoryDevice::new((turn * 8 * PAGE) as u64));
        let mut region = map(&pager, &device);
        region.fill(turn as u8);
        // SAFETY: nobody uses that part of the region any more.
        assert_eq!(unsafe { libc::munmap(at(&region, 4 * PAGE), 2 * PAGE) }, 0);
        region.close().expect("it is written");
        assert!(stored(&*device).iter().all(|&byte| byte == turn as u8), "turn {turn}");
    }
    assert_ne!(null_mut(), at(&map(&pager, &Arc::new(MemoryDevice::new(PAGE as u64))), 0));
}
