//! Faults that are handled by the handler of a signal, beside the program's own signals.

use crate::common::{PAGE, Pest, ended, in_another_process, limit, map, options, pager, region, role, say};
use forebay_pager::{Options, Pager, Region};
use forebay_policy::Spec;
use forebay_pool::VolumeConfig;
use forebay_pool::device::{Device, Extent, Fault, Faulty, MemoryDevice, Operation, Rule};
use libc::{c_int, c_void, siginfo_t};
use std::hint::black_box;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Has this process do something at a signal.
fn on_signal(signal: c_int, handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void), flags: c_int) {
    // SAFETY: the handlers of these tests touch memory, write to a descriptor, or end the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Runs a part of a test in a process of its own, and says by which signal it ended and what it said.
fn part(test: &str, role: &str) -> (Option<i32>, String) {
    ended(in_another_process(&format!("signals::{test}"), role))
}

#[test]
fn faults_are_handled_on_the_threads_that_have_them() {
    let _limit = limit("four threads");
    let (pager, mut region, _) = region("clock-pro", 256 * PAGE, 2048 * PAGE);
    for turn in 0..3_u8 {
        std::thread::scope(|scope| {
            for (number, part) in region.chunks_mut(512 * PAGE).enumerate() {
                scope.spawn(move || {
                    for step in 0..512 {
                        let at = (step * 77 + number) % 512 * PAGE + step;
                        assert_eq!(part[at], if turn == 0 { 0 } else { turn + number as u8 - 1 });
                        part[at] = turn + number as u8;
                    }
                });
            }
        });
    }
    let faults = pager.faults();
    let all = faults.major + faults.minor + faults.protection;
    assert!(faults.in_place > all / 2 && faults.failed == 0, "{faults:?}");
    region.close().expect("it is written");
}

extern "C" fn say_which(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's record of the signal.
    let code = unsafe { (*info).si_code };
    say(&format!("its own handler, code {code}"));
    // SAFETY: it ends the process.
    unsafe { libc::_exit(0) };
}

/// Touches a page of a mapped file behind the file's end.
fn touch_behind_the_end() {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(2 * PAGE as u64).expect("it has room");
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapped = unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(std::ptr::null_mut(), 2 * PAGE, read, shared, std::os::fd::AsRawFd::as_raw_fd(&file), 0)
    };
    file.set_len(0).expect("it is cut");
    // SAFETY: within the mapping of above; that it has nothing there is a signal.
    black_box(unsafe { mapped.cast::<u8>().read_volatile() });
}

/// A region whose device cannot be read.
fn of_no_use() -> (Arc<Pager>, Region) {
    let pager = pager("lru", 64 * PAGE);
    let rule = Rule { operation: Some(Operation::Read), ..Rule::new(Fault::Error(libc::EIO)) };
    let device = Arc::new(Faulty::new(MemoryDevice::new(64 * PAGE as u64), vec![rule], 1));
    let region = map(&pager, &device);
    (pager, region)
}

#[test]
fn what_is_not_a_regions_goes_to_the_handler_that_the_program_had() {
    let _limit = limit("processes that have SIGBUS");
    let test = "what_is_not_a_regions_goes_to_the_handler_that_the_program_had";
    if let Some(role) = role() {
        if role.contains("handled") {
            on_signal(libc::SIGBUS, say_which, 0);
        } else {
            // Rust's own handler takes a signal that was sent for one that may be tried again.
            let former = if role.contains("ignored") { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: nothing is to happen at this signal, or what happens without a handler.
            unsafe { libc::signal(libc::SIGBUS, former) };
        }
        let (_pager, mut region, _) = region("lru", 64 * PAGE, 128 * PAGE);
        region.fill(1);
        match role.split(' ').next() {
            // SAFETY: this sends a signal to this thread.
            Some("sent") => _ = unsafe { libc::raise(libc::SIGBUS) },
            Some("cut") => touch_behind_the_end(),
            _ => {
                let (_pager, region) = of_no_use();
                black_box(region[0]);
            }
        }
        say("it goes on");
        return;
    }
    // Whether a page that failed has a code of its own depends on how the kernel was built.
    for (role, codes) in [("sent handled", [libc::SI_TKILL; 2]), ("cut handled", [2; 2]), ("failed handled", [2, 4])] {
        let (signal, said) = part(test, role);
        let known = codes.iter().any(|code| said.contains(&format!("its own handler, code {code}")));
        assert!(signal.is_none() && known, "{role}: {signal:?} {said}");
    }
    let (signal, said) = part(test, "sent ignored");
    assert!(signal.is_none() && said.contains("it goes on"), "{signal:?} {said}");
    for role in ["sent", "cut", "failed", "cut ignored", "failed ignored"] {
        let (signal, said) = part(test, role);
        assert!(signal == Some(libc::SIGBUS) && !said.contains("goes on"), "{role}: {signal:?} {said}");
    }
}

/// What the handlers below touch: the region's first byte, and its pages.
static TOUCHED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

extern "C" fn touch_a_page(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let page = TURN.fetch_add(7, Ordering::Relaxed) % TOUCHED[1].load(Ordering::Relaxed);
    // SAFETY: the region lives as long as signals come, and nobody else writes this byte of a page.
    unsafe { (TOUCHED[0].load(Ordering::Relaxed) as *mut u8).add(page * PAGE + 1).write_volatile(1) };
}

#[test]
fn faults_of_a_handler_are_handed_to_threads() {
    let _limit = limit("a handler that touches a region");
    if role().is_none() {
        let (signal, said) = part("faults_of_a_handler_are_handed_to_threads", "compute");
        assert!(signal.is_none() && said.contains("all is computed"), "{signal:?} {said}");
        return;
    }
    let (pager, mut region, _) = region("clock-pro", 32 * PAGE, 256 * PAGE);
    region.fill(1);
    TOUCHED[0].store(region.as_ptr() as usize, Ordering::Relaxed);
    TOUCHED[1].store(256, Ordering::Relaxed);
    on_signal(libc::SIGUSR1, touch_a_page, libc::SA_RESTART);
    let pest = Pest::new(libc::SIGUSR1, Duration::from_micros(300));
    let (before, mut sum) = (pager.faults(), 0_u64);
    // Nothing is allocated here.
    while pager.faults().major < before.major + 500 {
        (0..100_000_u64).for_each(|number| sum = black_box(sum.wrapping_mul(31).wrapping_add(number)));
    }
    drop(pest);
    assert_eq!(pager.faults().in_place, before.in_place, "threads handle them");
    // After the handler's end they are this thread's own again.
    region.iter_mut().step_by(PAGE).for_each(|byte| *byte = 2);
    assert!(pager.faults().in_place > before.in_place + 100);
    say("all is computed");
}

/// What a handler was that has been taken the place of.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn ask_the_one_before(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the address of the pager's handler, which is of this kind.
    let before: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(BEFORE.load(Ordering::Relaxed)) };
    before(signal, info, context);
}

#[test]
fn a_handler_that_comes_later_may_pass_signals_on_to_the_pagers() {
    let _limit = limit("a handler that passes signals on");
    if role().is_none() {
        let (signal, said) = part("a_handler_that_comes_later_may_pass_signals_on_to_the_pagers", "pass on");
        assert!(signal.is_none() && said.contains("all is touched"), "{signal:?} {said}");
        return;
    }
    let (pager, mut region, _) = region("clock-pro", 32 * PAGE, 256 * PAGE);
    // SAFETY: this asks for what is.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action);
        action
    };
    BEFORE.store(action.sa_sigaction, Ordering::Relaxed);
    on_signal(libc::SIGBUS, ask_the_one_before, libc::SA_NODEFER);
    region.iter_mut().step_by(PAGE).for_each(|byte| *byte = 5);
    assert!(region.iter().step_by(PAGE).all(|&byte| byte == 5) && pager.faults().in_place > 200);
    say("all is touched");
}

#[test]
fn a_thread_that_blocks_signals_without_a_handler_handles_its_faults_itself() {
    let _limit = limit("a thread that blocks signals");
    let (pager, region, _) = region("lru", 64 * PAGE, 512 * PAGE);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: this thread's own mask.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                for signal in [libc::SIGWINCH, libc::SIGURG, libc::SIGRTMAX()] {
                    libc::sigaddset(&raw mut set, signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
            (0..512).for_each(|page| assert_eq!(region[page * 77 % 512 * PAGE], 0));
        });
    });
    let faults = pager.faults();
    assert!(faults.in_place > 200 && faults.in_place + 50 > faults.major + faults.minor, "{faults:?}");
}

#[test]
fn system_calls_at_absent_pages_are_refused_and_work_at_those_that_are_there() {
    let _limit = limit("system calls");
    let (pager, mut region, _) = region("lru", 64 * PAGE, 256 * PAGE);
    assert!(!pager.serves_system_calls());
    region.fill(7);
    let (reader, writer) = io::pipe().expect("a pipe");
    let absent = &raw mut region[0];
    // SAFETY: a byte of the region, which the kernel is to write to, or read.
    let absent = unsafe { std::slice::from_raw_parts_mut(absent, 16) };
    assert_eq!(rustix::io::write(&writer, absent), Err(rustix::io::Errno::FAULT));
    (&writer).write_all(b"0123456789abcdef").expect("it has room");
    assert_eq!(rustix::io::read(&reader, &mut absent[..]), Err(rustix::io::Errno::FAULT));
    let part = libc::iovec { iov_base: absent.as_mut_ptr().cast(), iov_len: 16 };
    let mut copy = [0_u8; 16];
    let room = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: 16 };
    // SAFETY: a call that copies from this process to this process, where there is room.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const room, 1, &raw const part, 1, 0) };
    assert_eq!((copied, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
    // Held, they are there.
    let mut held = region.hold(0, 16).expect("they are held");
    (&writer).write_all(b"0123456789abcdef").expect("it has room");
    let count = rustix::io::read(&reader, &mut held[..]).expect("it is there");
    assert!(count == 16 && held[..4] == *b"0123", "{count}");
    drop(held);
    // And touched.
    region[0] = b'x';
    // SAFETY: as above.
    assert_eq!(unsafe { libc::process_vm_readv(libc::getpid(), &raw const room, 1, &raw const part, 1, 0) }, 16);
    assert_eq!(copy[..4], *b"x123");
    region.close().expect("it is written");
}

#[test]
fn a_failure_is_logged_and_a_signal_while_the_program_prints() {
    let _limit = limit("a process that prints");
    if role().is_some() {
        on_signal(libc::SIGBUS, say_which, 0);
        let (_pager, region) = of_no_use();
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{}", region[0]);
        return;
    }
    let (signal, said) = part("a_failure_is_logged_and_a_signal_while_the_program_prints", "print");
    assert!(signal.is_none() && said.contains("its own handler, code"), "{signal:?} {said}");
}

/// A thread whose stack has this many bytes touches pages.
fn touch_with_a_stack_of(bytes: usize, base: usize, pages: usize) {
    let touch = move || {
        for page in (0..pages).chain((0..pages).rev()) {
            // SAFETY: a byte of the region, which outlives this thread.
            unsafe { ((base + page * 77 % pages * PAGE) as *mut u8).write_volatile(1) };
        }
    };
    std::thread::Builder::new().stack_size(bytes).spawn(touch).expect("a thread").join().expect("no panic");
}

#[test]
fn a_thread_with_a_stack_of_64_kib_handles_its_faults() {
    let _limit = limit("a thread with a small stack");
    for policy in ["clock-pro", "ubm", "dulo", "lirs"] {
        let (pager, region, _) = region(policy, 64 * PAGE, 512 * PAGE);
        touch_with_a_stack_of(64 << 10, region.as_ptr() as usize, 512);
        assert!(pager.faults().in_place > 500, "{policy}: {:?}", pager.faults());
    }
}

#[test]
fn a_thread_that_panics_may_touch_a_region_as_it_unwinds() {
    let _limit = limit("a thread that panics");
    struct Touches<'a>(&'a mut Region);
    impl Drop for Touches<'_> {
        fn drop(&mut self) {
            self.0.iter_mut().step_by(PAGE).for_each(|byte| *byte = 3);
        }
    }
    let (_pager, mut region, _) = region("lru", 32 * PAGE, 128 * PAGE);
    let panics = || {
        let _touches = Touches(&mut region);
        panic!("as the test wants");
    };
    assert!(std::thread::scope(|scope| scope.spawn(panics).join()).is_err());
    assert!(region.iter().step_by(PAGE).all(|&byte| byte == 3));
    region.sync().expect("nothing is poisoned");
}

/// A device that reads what a region has, of which it should know nothing.
struct Touching(Arc<AtomicUsize>);

impl Device for Touching {
    fn len(&self) -> u64 {
        64 * PAGE as u64
    }

    fn read(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        // SAFETY: a byte of a region that lives.
        let byte = unsafe { (self.0.load(Ordering::Relaxed) as *const u8).read_volatile() };
        buffers.iter_mut().for_each(|buffer| buffer.fill(byte));
        Ok(())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn extents(&self, _: u64, length: u64) -> io::Result<Vec<Extent>> {
        Ok(vec![Extent { length, hole: false, zero: false }])
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "a device that touches a region".to_owned()
    }
}

#[test]
fn a_device_that_touches_a_region_ends_the_process_and_it_is_said() {
    let _limit = limit("a process that ends");
    if role().is_some() {
        let (_pager, other, _) = region("lru", 16 * PAGE, 64 * PAGE);
        let address = Arc::new(AtomicUsize::new(other.as_ptr() as usize));
        let device = Arc::new(Touching(address));
        let pager = pager("lru", 16 * PAGE);
        // The thread that reads ahead may touch the other region, and then its page is there already.
        let config = VolumeConfig { readahead: 0, ..VolumeConfig::new("touching") };
        let region = Region::map(&pager, device, config).expect("a region");
        black_box(region[0]);
        return;
    }
    let (signal, said) = part("a_device_that_touches_a_region_ends_the_process_and_it_is_said", "touch");
    assert!(signal == Some(libc::SIGABRT) && said.contains("has touched a region"), "{signal:?} {said}");
}

#[test]
fn a_child_of_fork_passes_its_own_signals_on() {
    let _limit = limit("a child of fork");
    if role().is_some() {
        on_signal(libc::SIGBUS, say_which, 0);
        let (_pager, mut region, _) = region("lru", 16 * PAGE, 64 * PAGE);
        region.fill(1);
        // SAFETY: the child touches memory and has a signal, whose handler ends it.
        if unsafe { libc::fork() } == 0 {
            touch_behind_the_end();
        }
        let mut status = 0;
        // SAFETY: the child of above.
        unsafe { libc::wait(&raw mut status) };
        region.fill(2);
        say(&format!("its parent goes on, status {status}"));
        return;
    }
    let (signal, said) = part("a_child_of_fork_passes_its_own_signals_on", "fork");
    assert!(signal.is_none(), "{signal:?} {said}");
    assert!(said.contains("its own handler, code 2") && said.contains("its parent goes on, status 0"), "{said}");
}

#[test]
fn uses_cannot_be_watched() {
    let watch = forebay_pager::Watch::new(|_, _| {});
    let options = options(64 * PAGE as u64, Spec::parse("lru").expect("a policy"));
    let refused = Pager::new(&Options { watch: Some(watch), ..options }).err().expect("it is refused");
    assert!(refused.to_string().contains("let threads handle them"), "{refused}");
}
