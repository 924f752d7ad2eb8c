//! Storage that fails: who learns of it, and what goes on.

use crate::common::{PAGE, ended, in_another_process, limit, map, pager, role, stored};
use forebay_pool::device::{Fault, Faulty, MemoryDevice, Operation, Rule};
use std::sync::Arc;

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
    region.sync().expect("it is written now");
    assert_eq!(stored(device.device())[0], 7);
}
