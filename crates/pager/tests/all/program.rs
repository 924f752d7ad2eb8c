//! What else programs do with their addresses.

use crate::common::{PAGE, Pest, ended, in_another_process, limit, map, options, pager, region, role, say, stored};
use forebay_pager::{Options, Pager};
use forebay_policy::Spec;
use forebay_pool::device::{Fault, Faulty, MemoryDevice, Rule};
use std::ffi::c_void;
use std::hint::black_box;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

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
fn direct_output_of_a_region_has_its_bytes() {
    let _limit = limit("direct output");
    let (pager, mut region, _) = region("clock-pro", 32 * PAGE, 256 * PAGE);
    if !pager.serves_system_calls() {
        println!("skipped: this user's system calls do not wait for pages");
        return;
    }
    for (at, byte) in region.iter_mut().enumerate() {
        *byte = (at / PAGE + at % 7) as u8;
    }
    let path = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file").into_temp_path();
    let mut options = std::fs::File::options();
    let file = options.write(true).custom_flags(libc::O_DIRECT).open(&path).expect("a file system with direct I/O");
    let mut done = 0;
    while done < region.len() {
        done += rustix::io::pwrite(&file, &region[done..], done as u64).expect("it is written");
    }
    assert!(std::fs::read(&path).expect("it is read") == region[..]);
}

#[test]
fn direct_input_into_pages_that_are_held_is_not_lost() {
    let _limit = limit("direct input");
    let options = Options { sampling: 1.0, ..options(96 * PAGE as u64, Spec::parse("clock").expect("a policy")) };
    let pager = Pager::new(&options).expect("a pager");
    let device = Arc::new(MemoryDevice::new(256 * PAGE as u64));
    let mut region = map(&pager, &device);
    let path = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file").into_temp_path();
    let bytes: Vec<u8> = (0..128 * PAGE).map(|at| (1 + at / PAGE + at % 7) as u8).collect();
    std::fs::write(&path, &bytes).expect("it is written");
    let mut options = std::fs::File::options();
    let file = options.read(true).custom_flags(libc::O_DIRECT).open(&path).expect("a file system with direct I/O");
    let (base, over) = (region.as_ptr() as usize, AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Others push pages out, and have dirty ones written back, all the time.
        scope.spawn(|| {
            for page in (128..256).cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                // SAFETY: a byte of the region's other half, which this thread alone uses.
                unsafe { ((base + page * PAGE) as *mut u8).write_volatile(1) };
            }
        });
        for first in (0..128).step_by(16) {
            let mut held = region.hold((first * PAGE) as u64, 16 * PAGE as u64).expect("they are held");
            let before = pager.statistics().evictions;
            while pager.statistics().evictions < before + 100 {
                std::thread::yield_now();
            }
            let count = rustix::io::pread(&file, &mut *held, (first * PAGE) as u64);
            assert_eq!(count, Ok(16 * PAGE));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(region[..128 * PAGE] == bytes);
    let most = pager.statistics().capacity / PAGE as u64 / 4;
    let held = region.hold_pages(0, most * PAGE as u64).expect("a quarter is held");
    assert_eq!(held.count() as u64, most);
    let refused =
        |offset: usize| region.hold_pages((offset * PAGE) as u64, 1).err().expect("it is refused").to_string();
    assert!(refused(200).contains("may be"), "and no more");
    assert!(refused(most as usize - 1).contains("held already"), "nor one twice");
    drop(held);
    assert!(region.hold(255 * PAGE as u64, 2 * PAGE as u64).is_err(), "it ends there");
    drop(region.hold(200 * PAGE as u64, 1).expect("they are let go of"));
    region.close().expect("it is written");
    assert!(stored(&*device)[..128 * PAGE] == bytes);
}

#[test]
fn held_pages_stay_mapped_while_mappings_are_taken_away() {
    let _limit = limit("pages that are held again and again");
    let options = Options { sampling: 1.0, ..options(96 * PAGE as u64, Spec::parse("clock").expect("a policy")) };
    let pager = Pager::new(&options).expect("a pager");
    let mut region = map(&pager, &Arc::new(MemoryDevice::new(256 * PAGE as u64)));
    let (base, over) = (region.as_ptr() as usize, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for page in (128..256).cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
                // SAFETY: a byte of the region's other half, which this thread alone uses.
                unsafe { ((base + page * PAGE) as *mut u8).write_volatile(1) };
            }
        });
        for round in 0..4000 {
            let mut held = region.hold((round % 8 * 16 * PAGE) as u64, 16 * PAGE as u64).expect("they are held");
            // One that was taken away would have this thread wait for itself.
            held.iter_mut().step_by(PAGE).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(region[..128 * PAGE].iter().step_by(PAGE).all(|&byte| byte == (4000_u32 / 8) as u8));
}

/// The name of each thread of this process, and the signals that it has blocked.
fn blocked_signals() -> Vec<(String, u64)> {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    let of = |thread: std::fs::DirEntry| {
        // A thread may end meanwhile.
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((field("Name:")?.to_owned(), u64::from_str_radix(field("SigBlk:")?, 16).ok()?))
    };
    threads.filter_map(|thread| of(thread.expect("a thread"))).collect()
}

#[test]
fn no_thread_of_the_pager_runs_a_signal_handler_of_the_program() {
    let _limit = limit("threads of each kind under load");
    let pager = pager("lru", 64 * PAGE);
    let rule = Rule::new(Fault::Stall(Duration::from_millis(20)));
    let mut region = map(&pager, &Arc::new(Faulty::new(MemoryDevice::new(512 * PAGE as u64), vec![rule], 1)));
    region.advise(0, 64 * PAGE as u64, forebay_pager::Advice::WillNeed).expect("it is read ahead");
    let mut names = Vec::new();
    std::thread::scope(|scope| {
        for part in region.chunks_mut(64 * PAGE) {
            scope.spawn(|| part.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1));
        }
        let kinds = ["forebay-fault", "forebay-pager", "readahead", "writeback", "writer"];
        let is_there = |names: &[(String, u64)], kind: &str| names.iter().any(|(name, _)| name.starts_with(kind));
        // They are started as they are needed. The limit of time says what is waited for.
        while !kinds.iter().all(|kind| is_there(&names, kind)) {
            std::thread::sleep(Duration::from_millis(5));
            names = blocked_signals();
        }
    });
    let ours = |name: &str| ["forebay-", "readahead", "write"].iter().any(|ours| name.starts_with(ours));
    names.retain(|(name, _)| ours(name));
    for signal in [libc::SIGUSR1, libc::SIGALRM, libc::SIGPROF, libc::SIGTERM] {
        let open = names.iter().find(|(_, blocked)| blocked & (1 << (signal - 1)) == 0);
        assert!(open.is_none(), "signal {signal} runs on {open:?}");
    }
}

#[test]
fn memory_that_is_locked_from_its_beginning_is_paged_as_any_other() {
    let _limit = limit("mlockall");
    if role().is_some() {
        // SAFETY: this process has nothing whose locking would harm.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
        let device = Arc::new(MemoryDevice::new(256 * PAGE as u64));
        let before = map(&pager("lru", 64 * PAGE), &device);
        drop(before);
        let pager = pager("lru", 64 * PAGE);
        let mut region = map(&pager, &device);
        for turn in 0..3 {
            for page in 0..256 {
                assert_eq!(region[page * PAGE], turn, "page {page}");
                region[page * PAGE] += 1;
            }
        }
        assert!(pager.statistics().resident <= 64);
        region.close().expect("it is written");
        assert!((0..256).all(|page| stored(&*device)[page * PAGE] == 3));
        say("all is there");
        return;
    }
    let child = in_another_process("program::memory_that_is_locked_from_its_beginning_is_paged_as_any_other", "lock");
    let (signal, said) = ended(child);
    assert!(signal.is_none() && said.contains("all is there"), "{signal:?} {said}");
}

#[test]
fn locking_a_region_brings_its_pages_one_after_the_other() {
    let _limit = limit("mlock");
    let (pager, mut region, _) = region("clock", 32 * PAGE, 128 * PAGE);
    if !pager.serves_system_calls() {
        println!("skipped: this user's system calls do not wait for pages");
        return;
    }
    region.fill(7);
    // SAFETY: the range is the region's.
    assert_eq!(unsafe { libc::mlock(page(&region, 0), 128 * PAGE) }, 0);
    assert!(pager.statistics().resident <= 32, "its limit holds");
    assert!(region.iter().all(|&byte| byte == 7));
}

#[test]
fn a_process_that_dumps_core_ends_and_its_dump_has_what_was_resident() {
    let _limit = limit("a core dump");
    if let Some(folder) = role() {
        std::env::set_current_dir(folder).expect("a folder");
        let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: this sets a limit of this process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const unlimited) }, 0);
        let (_pager, mut region, _) = region("lru", 16 * PAGE, 4096 * PAGE);
        for page in 0..4096 {
            region[page * PAGE] = 1;
        }
        region[4095 * PAGE..][..20].copy_from_slice(b"this was resident...");
        std::process::abort();
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let path = folder.path().to_str().expect("a name");
    let (signal, said) =
        ended(in_another_process("program::a_process_that_dumps_core_ends_and_its_dump_has_what_was_resident", path));
    assert_eq!(signal, Some(libc::SIGABRT), "{said}");
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("a setting");
    if pattern.trim() != "core" {
        println!("skipped: this machine's dumps go elsewhere, to {pattern}");
        return;
    }
    let mut files = std::fs::read_dir(folder.path()).expect("a folder");
    let core = std::fs::read(files.next().expect("a dump").expect("a file").path()).expect("it is read");
    let marker = [b"this was ".as_slice(), b"resident..."].concat();
    assert!(core.windows(marker.len()).any(|bytes| bytes == marker), "{} bytes", core.len());
}

#[test]
fn a_child_of_fork_that_uses_its_parents_region_gets_errors_and_changes_nothing() {
    let _limit = limit("a child that ends in the ordinary way");
    let (pager, mut region, device) = region("lru", 16 * PAGE, 64 * PAGE);
    region[0] = 7;
    // SAFETY: this thread alone goes on in the child, and ends it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = region.sync().is_err() && region.advise(0, 1, forebay_pager::Advice::WillNeed).is_err();
        let closed = region.close().is_err();
        drop(pager);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(if refused && closed { 3 } else { 4 }) };
    }
    let mut status = 0;
    // SAFETY: the child of above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 3, "status {status}");
    for page in 1..64 {
        black_box(region[page * PAGE]);
    }
    assert_eq!(region[0], 7, "it is brought again");
    region.close().expect("it is written");
    assert_eq!(stored(&*device)[0], 7);
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

#[test]
fn a_user_without_rights_has_regions_and_system_calls_at_absent_pages_fail() {
    let _limit = limit("a process of another user");
    if role().is_some() {
        // SAFETY: this thread's rights, from which the pager's threads have theirs.
        unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        let (pager, mut region, device) = region("clock-pro", 64 * PAGE, 256 * PAGE);
        for page in 0..256 {
            region[page * PAGE] = page as u8;
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        rustix::io::write(&writer, b"bytes").expect("it has room");
        let absent = rustix::io::read(&reader, &mut region[..5]);
        if pager.serves_system_calls() {
            assert_eq!(absent, Ok(5));
        } else {
            assert_eq!(absent, Err(rustix::io::Errno::FAULT));
            region[0] = 1;
            assert_eq!(rustix::io::read(&reader, &mut region[..5]), Ok(5), "it has been touched");
        }
        assert_eq!(&region[..5], b"bytes");
        region.close().expect("it is written");
        assert!((1..256).all(|page| stored(&*device)[page * PAGE] == page as u8));
        say("it has");
        return;
    }
    let test = "program::a_user_without_rights_has_regions_and_system_calls_at_absent_pages_fail";
    let (signal, said) = ended(in_another_process(test, "nobody"));
    assert!(signal.is_none() && said.contains("it has"), "{signal:?} {said}");
}

/// What the handler of the test below writes to: the region's first byte and its pages.
static TOUCHED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

extern "C" fn touch_a_page(_: libc::c_int) {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let [base, pages] = &TOUCHED;
    let page = TURN.fetch_add(7, Ordering::Relaxed) % pages.load(Ordering::Relaxed);
    // SAFETY: the region lives as long as signals come, and nobody else writes this byte of a page.
    unsafe { (base.load(Ordering::Relaxed) as *mut u8).add(page * PAGE + 1).write_volatile(1) };
}

#[test]
fn a_handler_that_touches_a_region_may_interrupt_a_sync() {
    let _limit = limit("a sync that signals interrupt");
    if role().is_none() {
        let child = in_another_process("program::a_handler_that_touches_a_region_may_interrupt_a_sync", "sync");
        let (signal, said) = ended(child);
        assert!(signal.is_none() && said.contains("all rounds are done"), "{signal:?}: {said}");
        return;
    }
    let (_pager, mut region, _device) = region("clock-pro", 32 * PAGE, 256 * PAGE);
    TOUCHED[0].store(region.as_ptr() as usize, Ordering::Relaxed);
    TOUCHED[1].store(256, Ordering::Relaxed);
    // SAFETY: a handler that does nothing but write to memory.
    unsafe { libc::signal(libc::SIGUSR1, touch_a_page as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    let pest = Pest::new(libc::SIGUSR1, Duration::from_micros(150));
    for round in 0..300usize {
        (0..256).step_by(3).for_each(|page| region[page * PAGE] = round as u8);
        region.sync().expect("it is durable");
    }
    drop(pest);
    say("all rounds are done");
}
