//! What the policy makes of streams of events, and of a kernel that is played.

use super::*;
use forebay_pool::device::MemoryDevice;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A use by nobody in particular.
const READ: (Operation, Option<u32>) = (Operation::Read, None);

fn steered(policy: &str, pages: u64) -> (Steered, Vec<Arc<Volume>>) {
    let steered = Steered::played(policy, pages, Side::Files);
    let volume = |name| steered.attach(Arc::new(MemoryDevice::new(0)), VolumeConfig::new(name));
    let volumes = vec![volume("one"), volume("two")];
    (steered, volumes)
}

#[test]
fn victims_leave_in_order_and_neighbours_together() {
    let (mut steered, volumes) = steered("lru", 8);
    for page in 0..12 {
        steered.used(&volumes[0], page..page + 1, READ);
        steered.added(&volumes[0], page, 1);
    }
    assert_eq!(steered.take_leaving(), [(volumes[0].id(), 0..4)]);
    assert_eq!((steered.residents().there(), steered.residents().kept()), (12, 4));
    (0..4).for_each(|page| steered.removed(&volumes[0], page, 1, false));
    assert_eq!((steered.residents().there(), steered.residents().kept()), (8, 0));
    let pages = steered.pages();
    assert_eq!((pages.kernel_misses, pages.kernel_hits, pages.let_go, pages.dropped), (12, 0, 4, 4));
    assert!(steered.take_leaving().is_empty());
}

#[test]
fn a_page_that_is_let_go_before_it_comes_was_not_read_ahead() {
    let (mut steered, volumes) = steered("mru", 4);
    steered.used(&volumes[0], 0..8, READ);
    assert!(steered.take_leaving().is_empty(), "none is there");
    steered.used(&volumes[0], 5..6, READ);
    steered.added(&volumes[0], 0, 4);
    steered.added(&volumes[0], 4, 4);
    let pool = steered.pool().statistics();
    assert_eq!((pool.misses, pool.volumes[0].pages_read_ahead), (9, 0));
    assert_eq!(steered.take_leaving(), [], "the folio of page 5 is kept");
    (4..8).for_each(|page| steered.removed(&volumes[0], page, 1, true));
    steered.used(&volumes[0], 9..10, READ);
    steered.added(&volumes[0], 9, 2);
    assert_eq!(steered.pool().statistics().volumes[0].pages_read_ahead, 1);
}

#[test]
fn what_was_kept_for_a_moment_takes_no_room() {
    let begin = Instant::now();
    let mut kept = Kept { since: begin, least: [0; 2] };
    assert_eq!(kept.least(900, begin), 0, "it was less before");
    assert_eq!(kept.least(900, begin + EASE), 0);
    assert_eq!(kept.least(700, begin + EASE * 3 / 2), 0, "and in the period before this one");
    assert_eq!(kept.least(800, begin + EASE * 2), 700);
    assert_eq!(kept.least(20, begin + EASE * 2), 20, "fewer are believed at once");
}

#[test]
fn a_page_that_is_used_again_before_it_left_stays() {
    let (mut steered, volumes) = steered("lru", 4);
    for page in [0, 1, 2, 3, 4, 0] {
        steered.used(&volumes[0], page..page + 1, READ);
        if !steered.residents().is_there(volumes[0].id(), page) {
            steered.added(&volumes[0], page, 1);
        }
    }
    assert_eq!(steered.take_leaving(), [(volumes[0].id(), 1..2)], "0 was let go, and is wanted again");
    assert_eq!(steered.pages().rescued, 1);
}

#[test]
fn pages_that_are_given_up_leave_and_are_not_the_policy_s() {
    let (mut steered, volumes) = steered("lru", 8);
    steered.used(&volumes[0], 0..8, READ);
    steered.added(&volumes[0], 0, 8);
    steered.give_up(&volumes[0], 0..2);
    assert!(steered.take_leaving().is_empty(), "the folio is kept by its other pages");
    steered.give_up(&volumes[0], 0..8);
    assert_eq!(steered.take_leaving(), [(volumes[0].id(), 0..8)]);
    assert_eq!((steered.pool().statistics().resident, steered.residents().kept()), (0, 8));
    steered.removed(&volumes[0], 0, 8, false);
    assert_eq!((steered.pages().let_go, steered.pages().dropped, steered.residents().there()), (8, 8, 0));
}

#[test]
fn what_the_kernel_reclaims_is_counted_and_forgotten() {
    let (mut steered, volumes) = steered("clock-pro", 16);
    steered.used(&volumes[0], 0..16, READ);
    steered.added(&volumes[0], 0, 16);
    steered.removed(&volumes[0], 0, 16, true);
    assert_eq!((steered.pages().reclaimed, steered.pages().dropped, steered.residents().there()), (16, 0, 0));
    assert_eq!(steered.pool().statistics().resident, 0);
    steered.used(&volumes[1], 0..16, READ);
    assert_eq!(steered.pages().let_go, 0, "there was room");
}

#[test]
fn pages_that_are_kept_take_the_policy_s_room() {
    let (mut steered, volumes) = steered("lru", 128);
    steered.used(&volumes[0], 0..128, READ);
    steered.added(&volumes[0], 0, 128);
    let now = Instant::now();
    steered.fit(Size { asked: 128, left: 128, kept: 10 }, now).expect("it can be smaller");
    assert_eq!(steered.pool().statistics().resident, 118);
    assert!(steered.take_leaving().is_empty(), "the folio is kept by its other pages");
    steered.fit(Size { asked: 128, left: 128, kept: 4 }, now).expect("it can be larger");
    assert_eq!(steered.pool().capacity(), 118 * PAGE, "not at once");
    steered.fit(Size { asked: 128, left: 128, kept: 4 }, now + EASE).expect("it can be larger");
    assert_eq!(steered.pool().capacity(), 124 * PAGE);
}

/// A kernel that has any number of pages, and drops folios that are clean.
#[derive(Default)]
struct Kernel {
    /// Folios by file and first page: their pages.
    folios: BTreeMap<(usize, u64), u64>,
}

impl Kernel {
    fn folio_of(&self, file: usize, page: u64) -> Option<(u64, u64)> {
        let (&(_, first), &count) = self.folios.range((file, 0)..=(file, page)).next_back()?;
        (page < first + count).then_some((first, count))
    }
}

proptest! {
    /// Uses, readahead in folios, reclaim, and events that come twice or not at all.
    #[test]
    fn it_knows_what_is_there_and_no_wanted_page_is_dropped(
        policy in prop::sample::select(vec!["lru", "clock-pro", "2q", "arc", "ubm", "dulo", "lru-sp", "s3-fifo"]),
        steps in proptest::collection::vec((0usize..2, 0u64..200, 0u32..6, 0u8..20), 1..300),
    ) {
        let (mut steered, volumes) = steered(policy, 32);
        let mut kernel = Kernel::default();
        for (file, page, order, chance) in steps {
            let volume = &volumes[file];
            if chance == 0 {
                // Reclaim, or truncation.
                if let Some((first, count)) = kernel.folio_of(file, page) {
                    kernel.folios.remove(&(file, first));
                    steered.removed(volume, first, count, order > 2);
                }
                continue;
            }
            steered.used(volume, page..page + 1, READ);
            if kernel.folio_of(file, page).is_none() {
                let count = 1u64 << order;
                let first = page / count * count;
                let (first, count) =
                    if (first..first + count).all(|page| kernel.folio_of(file, page).is_none()) { (first, count) } else { (page, 1) };
                kernel.folios.insert((file, first), count);
                steered.added(volume, first, count);
                if chance == 1 {
                    steered.added(volume, first, count);
                }
            }
            for (object, pages) in steered.take_leaving() {
                let file = volumes.iter().position(|volume| volume.id() == object).expect("it is a file");
                for page in pages.clone() {
                    prop_assert!(!steered.handle.is_resident(&volumes[file], page), "a wanted page is not dropped");
                }
                let inside: Vec<(u64, u64)> = kernel
                    .folios
                    .range((file, pages.start)..(file, pages.end))
                    .map(|(&(_, first), &count)| (first, count))
                    .filter(|(first, count)| first + count <= pages.end)
                    .collect();
                // What is dirty stays.
                for (first, count) in inside.into_iter().filter(|_| chance != 2) {
                    kernel.folios.remove(&(file, first));
                    steered.removed(&volumes[file], first, count, false);
                }
            }
            let there: u64 = kernel.folios.values().sum();
            prop_assert_eq!(steered.residents().there(), there);
            let resident = u64::from(steered.pool().statistics().resident);
            prop_assert!(resident <= 32);
            let wanted = (0..2usize).flat_map(|file| (0..256u64).map(move |page| (file, page)));
            let wanted = wanted.filter(|&(file, page)| steered.residents().is_wanted(volumes[file].id(), page)).count() as u64;
            prop_assert_eq!(wanted, resident, "what is wanted is what the policy has");
        }
    }
}
