//! The end of steering, so that no program suffers by it.
//!
//! A page that comes back from swap space goes to the kernel's active list if little has left since it left: then the kernel takes it for one of the working set.
//! For pages that left by `MADV_PAGEOUT` the kernel counts what has left the whole machine, and not the group. That is little beside all memory, so all of them become active.
//! Where all pages of a control group are active, the kernel was seen to find nothing to reclaim in it: it killed programs for lack of memory in groups of 34 and
//! 66 MiB, which had been steered until a moment before. So pages that come back are made inactive for a while, as each look does while it steers.

use super::machine::{Table, runs};
use super::paging::{Events, State};
use std::time::{Duration, Instant};

/// How long that is at most; it ends earlier if as many pages have come back as were in swap space, or none for a moment.
const LONGEST: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(1);
/// Between two times that pages are made inactive.
const PAUSE: Duration = Duration::from_millis(20);
/// Runs that are no farther from each other are one.
const GAP: u64 = 8;
/// Faults that are taken at once.
const MOST_FAULTS: usize = 1 << 14;

impl State {
    /// Steers no more, and has pages that come back be inactive for a while.
    pub(super) fn end_softly(&mut self, events: &mut Events) {
        if self.observe || self.steered.pages().dropped == 0 {
            return;
        }
        let objects = self.spaces.objects();
        let swapped: u64 = objects.iter().filter_map(|object| self.spaces.get(*object)?.swapped()).sum();
        let began = Instant::now();
        let (mut came, mut quiet) = (0, began);
        while came < swapped && began.elapsed() < LONGEST && quiet.elapsed() < QUIET {
            let faults = events.drain(MOST_FAULTS, &mut |_| ());
            came += faults as u64;
            if faults > 0 {
                quiet = Instant::now();
            }
            objects.iter().for_each(|&object| self.make_inactive(object));
            std::thread::sleep(PAUSE);
        }
    }

    /// Makes all pages of a process that are there inactive.
    fn make_inactive(&mut self, object: u32) {
        for tables in self.tables_of(object) {
            let Some(found) = self.find(object, &tables.collect::<Vec<_>>()) else { return };
            let Some(space) = self.spaces.get(object) else { return };
            let mut there = Vec::new();
            for (table, found) in found {
                if let Table::Seen(seen) = found {
                    let mask = space.mask(table);
                    let may_leave = std::array::from_fn(|word| seen.present[word] & mask[word]);
                    runs(&may_leave, table * super::machine::TABLE, GAP, &mut |run| there.push(run));
                }
            }
            if let Err(error) = self.machine.cool(&space.process, &there) {
                tracing::debug!("pages stay active: {error}");
            }
        }
    }
}
