//! Storage that fails: who learns of it, and what goes on.

use crate::common::{PAGE, ended, in_another_process, limit, map, pager, pager_of, role, say, stored};
use forebay_pager::Region;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{Fault, Faulty, FileDevice, FileOptions, MemoryDevice, Operation, Rule};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn failing(operation: Operation, range: std::ops::Range<u64>) -> Vec<Rule> {
    vec![Rule { operation: Some(operation), range, ..Rule::new(Fault::Error(libc::EIO)) }]
}

#[test]
fn a_read_that_fails_is_sigbus_for_who_touches_the_page() {
    let _limit = limit("a read that fails");
    let page = 20 * PAGE as u64;
    let rules = failing(Operation::Read, page..page + 1);
    if role().is_some() {
        let pager = pager("lru", 16 * PAGE);
        let device = Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE as u64), rules, 1));
        let region = map(&pager, &device);
        println!("the others are read: {}", (0..20).chain(21..64).all(|page| region[page * PAGE] == 0));
        std::hint::black_box(region[20 * PAGE]);
        println!("this one is not");
        return;
    }
    let child = in_another_process("failures::a_read_that_fails_is_sigbus_for_who_touches_the_page", "touch it");
    let (signal, said) = ended(child);
    assert_eq!(signal, Some(libc::SIGBUS), "{said}");
    assert!(said.contains("the others are read: true") && !said.contains("this one is not"), "{said}");
}

#[test]
fn a_system_call_at_a_page_that_fails_says_so_and_the_page_is_read_again_after_a_sync() {
    let _limit = limit("a system call at a page that fails");
    let pager = pager("lru", 16 * PAGE);
    if !pager.serves_system_calls() {
        println!("skipped: this user's system calls do not wait for pages");
        return;
    }
    let device = Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE as u64), failing(Operation::Read, 0..1), 1));
    let region = map(&pager, &device);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let written = || rustix::io::write(&writer, &region[..10]);
    assert_eq!(written(), Err(rustix::io::Errno::FAULT));
    device.set(Vec::new());
    assert_eq!(written(), Err(rustix::io::Errno::FAULT), "it stays as it is until it is asked for again");
    region.sync().expect("nothing is to be written");
    assert_eq!(written(), Ok(10));
    drop(reader);
    assert_eq!(pager.faults().failed, 1);
}

#[test]
fn a_writeback_that_fails_reaches_sync_and_its_page_is_written_later() {
    let _limit = limit("a writeback that fails");
    let pager = pager("clock-pro", 32 * PAGE);
    let device = Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE as u64), failing(Operation::Write, 0..1), 1));
    let mut region = map(&pager, &device);
    region.iter_mut().take(8 * PAGE).step_by(PAGE).for_each(|byte| *byte = 7);
    assert!(region.sync().is_err());
    assert_eq!(region[0], 7, "the program has what it wrote");
    device.set(Vec::new());
    // The background may have tried once more while the device failed: the next sync has that error.
    if region.sync().is_err() {
        region.sync().expect("it is written now");
    }
    assert_eq!(stored(device.device())[0], 7);
}

/// The page sizes by which a page is mapped at once, and in parts.
const SIZES: [usize; 2] = [4 << 10, 64 << 10];

#[test]
fn a_page_that_was_used_before_its_read_fails_is_sigbus_too() {
    let _limit = limit("a page that fails after it was used");
    if let Some(role) = role() {
        let (page_size, written) = role.split_once(' ').expect("two words");
        let (page_size, written) = (page_size.parse().expect("a number"), written == "written");
        let pager = pager_of(page_size, "lru", 16 * page_size);
        let device = Arc::new(Faulty::new(MemoryDevice::new((64 * page_size) as u64), Vec::new(), 1));
        let mut region = map(&pager, &device);
        if written {
            region[0] = 1;
        }
        black_box(region[0]);
        region.sync().expect("it is written");
        for page in 1..64 {
            black_box(region[page * page_size]);
        }
        device.set(failing(Operation::Read, 0..1));
        say("it was used");
        black_box(region[0]);
        say("and is used again");
        return;
    }
    for role in SIZES.iter().flat_map(|size| [format!("{size} read"), format!("{size} written")]) {
        let child = in_another_process("failures::a_page_that_was_used_before_its_read_fails_is_sigbus_too", &role);
        let (signal, said) = ended(child);
        assert_eq!(signal, Some(libc::SIGBUS), "{role}: {said}");
        assert!(said.contains("it was used") && !said.contains("used again"), "{role}: {said}");
    }
}

#[test]
fn a_writer_gets_sigbus_when_storage_is_full_and_half_of_the_memory_is_dirty() {
    let _limit = limit("storage that is full");
    if role().is_some() {
        let pager = pager("clock-pro", 32 * PAGE);
        let full = Rule { operation: Some(Operation::Write), ..Rule::new(Fault::Error(libc::ENOSPC)) };
        let mut region = map(&pager, &Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE as u64), vec![full], 1)));
        for page in 0..64 {
            region[page * PAGE] = 1;
            say(&format!("page {page}"));
        }
        return;
    }
    let child = in_another_process(
        "failures::a_writer_gets_sigbus_when_storage_is_full_and_half_of_the_memory_is_dirty",
        "write",
    );
    let (signal, said) = ended(child);
    assert_eq!(signal, Some(libc::SIGBUS), "{said}");
    assert!(said.contains("page 8\n") && !said.contains("page 40\n"), "{said}");
}

#[test]
fn what_was_written_is_there_when_storage_has_room_again() {
    let _limit = limit("storage that has room again");
    let pager = pager("lru", 64 * PAGE);
    let full = Rule { operation: Some(Operation::Write), ..Rule::new(Fault::Error(libc::ENOSPC)) };
    let device = Arc::new(Faulty::new(MemoryDevice::new(256 * PAGE as u64), vec![full], 1));
    let mut region = map(&pager, &device);
    region.iter_mut().take(16 * PAGE).step_by(PAGE).for_each(|byte| *byte = 7);
    // Reads go on, in what is left.
    assert!((16..256).all(|page| region[page * PAGE] == 0));
    let error = region.sync().expect_err("it is full");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(pager.statistics().resident <= 64);
    device.set(Vec::new());
    region.close().expect("it has room");
    assert!((0..16).all(|page| stored(device.device())[page * PAGE] == 7));
}

#[test]
fn a_file_that_has_become_shorter_is_sigbus_behind_its_end() {
    let _limit = limit("a file that has become shorter");
    if let Some(path) = role() {
        let device = Arc::new(FileDevice::open(&path, FileOptions::default()).expect("the file"));
        let region = map(&pager("lru", 16 * PAGE), &device);
        std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(32 * PAGE as u64)).expect("cut");
        say(&format!("the beginning: {}", region[PAGE]));
        black_box(region[60 * PAGE]);
        say("the end, too");
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(64 * PAGE as u64).expect("it has room");
    let path = file.path().to_str().expect("a name");
    let (signal, said) =
        ended(in_another_process("failures::a_file_that_has_become_shorter_is_sigbus_behind_its_end", path));
    assert_eq!(signal, Some(libc::SIGBUS), "{said}");
    assert!(said.contains("the beginning: 0") && !said.contains("the end, too"), "{said}");
}

static UNWRITTEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn read_it_still(signal: libc::c_int) {
    // SAFETY: an address of the region, which lives as long as the process.
    let byte = unsafe { (UNWRITTEN.load(Ordering::Relaxed) as *const u8).read_volatile() };
    say(&format!("and is read still: {byte}"));
    // SAFETY: the write is tried again, and ends the process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[test]
fn a_region_that_cannot_be_written_is_read_and_a_write_is_a_signal() {
    let _limit = limit("a region that cannot be written");
    if let Some(role) = role() {
        let pager = pager("lru", 16 * PAGE);
        let config = VolumeConfig { read_only: true, ..VolumeConfig::new("read-only") };
        let region = Region::map(&pager, Arc::new(MemoryDevice::new(64 * PAGE as u64)), config).expect("a region");
        assert!(region.read_only() && region.iter().all(|&byte| byte == 0));
        say("it is read");
        if role == "mprotect" {
            UNWRITTEN.store(region.as_ptr() as usize, Ordering::Relaxed);
            // SAFETY: the handler reads a byte, and prints.
            unsafe { libc::signal(libc::SIGSEGV, read_it_still as extern "C" fn(libc::c_int) as usize) };
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the range is the region's.
            assert_eq!(unsafe { libc::mprotect(region.as_ptr().cast(), region.len(), writable) }, 0);
        }
        // SAFETY: the byte is the region's; that it cannot be written ends the process.
        unsafe { region.as_ptr().write_volatile(1) };
        say("and written");
        return;
    }
    for role in ["plainly", "mprotect"] {
        let test = "failures::a_region_that_cannot_be_written_is_read_and_a_write_is_a_signal";
        let (signal, said) = ended(in_another_process(test, role));
        assert_eq!(signal, Some(libc::SIGSEGV), "{role}: {said}");
        assert!(said.contains("it is read") && !said.contains("and written"), "{role}: {said}");
        assert!(role == "plainly" || said.contains("and is read still: 0"), "{role}: {said}");
    }
}
