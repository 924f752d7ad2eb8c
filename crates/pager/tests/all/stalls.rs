//! Storage that is slow: who waits for it, and who does not.

use crate::common::{Hung, PAGE, limit, map, options, pager, stored};
use forebay_pager::{Options, Pager};
use forebay_policy::Spec;
use forebay_pool::device::{Fault, Faulty, MemoryDevice, Operation, Rule};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a read of slow storage takes.
const STALL: Duration = Duration::from_secs(3);

fn slow(pages: usize) -> Arc<Faulty<MemoryDevice>> {
    let rule = Rule { operation: Some(Operation::Read), ..Rule::new(Fault::Stall(STALL)) };
    Arc::new(Faulty::new(MemoryDevice::new((pages * PAGE) as u64), vec![rule], 1))
}

#[test]
fn who_uses_another_region_does_not_wait_for_storage_that_hangs() {
    let _limit = limit("a region beside one with storage that hangs");
    for threads in [4, 64] {
        let options = Options { threads, ..options(512 * PAGE as u64, Spec::parse("lru").expect("a policy")) };
        let pager = Pager::new(&options).expect("a pager");
        let (hung, quick) = (Arc::new(Hung::new(256)), Arc::new(MemoryDevice::new(2048 * PAGE as u64)));
        let (slow, mut fast) = (map(&pager, &hung), map(&pager, &quick));
        let (began, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for page in 0..8 {
                let (slow, began, ended) = (&slow, &began, &ended);
                scope.spawn(move || {
                    began.fetch_add(1, Ordering::SeqCst);
                    black_box(slow[page * 32 * PAGE]);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
            // More than the smaller pager has threads for.
            while began.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
            hung.wait_for_a_read();
            for page in 0..2048 {
                assert_eq!(fast[page * PAGE], 0);
                fast[page * PAGE] = page as u8;
            }
            fast.sync().expect("it is written");
            assert_eq!(ended.load(Ordering::SeqCst), 0, "{threads} handlers: the others wait still");
            hung.let_go();
        });
        assert!((0..2048).all(|page| stored(&*quick)[page * PAGE] == page as u8));
    }
}

#[test]
fn all_who_touch_one_page_go_on_when_it_has_come() {
    let _limit = limit("a page that many touch");
    let pager = pager("lru", 64 * PAGE);
    let region = map(&pager, &slow(64));
    let base = region.as_ptr() as usize;
    std::thread::scope(|scope| {
        for thread in 0..100 {
            scope.spawn(move || {
                // SAFETY: bytes of the region, each of one thread.
                unsafe {
                    let byte = (base + thread) as *mut u8;
                    if thread % 2 == 0 {
                        byte.write_volatile(thread as u8 + 1);
                    } else {
                        assert_eq!(byte.read_volatile(), 0);
                    }
                }
            });
        }
    });
    assert!((0..100).all(|thread| region[thread] == if thread % 2 == 0 { thread as u8 + 1 } else { 0 }));
    let faults = pager.faults();
    assert!(faults.major + faults.minor + faults.protection <= 10, "each page is brought once: {faults:?}");
}
