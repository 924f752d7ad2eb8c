//! What page tables tell of a process's memory: pages that came and went without a fault, and those that were used.

use super::duel::Chooser;
use super::machine::{TABLE, TABLES, Table, WORDS, runs};
use super::paging::State;
use forebay_basis::Operation;
use forebay_pool::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Runs of used pages that are no farther from each other have their bits cleared together.
const GAP: u64 = 8;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// All memory: pages may have come without a fault.
    All,
    /// The tables with pages that are known.
    Known,
}

impl State {
    /// Looks at all processes: an epoch ends. Memory that a process has moved, or mapped with its pages in it, comes without a fault.
    pub(super) fn look(&mut self, place: Where) {
        let began = Instant::now();
        for object in self.spaces.objects() {
            self.look_at(object, place);
        }
        self.fresh.clear();
        self.epoch.looked(self.steered.all_came(), began, Instant::now());
    }

    /// Tells the policy again which pages were used in this epoch so far, and clears no bit. Where files are read beside, they have the policy's hands turn in less
    /// time than there may be between two looks that clear bits, and memory in use would leave.
    pub(super) fn glance(&mut self) {
        let began = Instant::now();
        for object in self.spaces.objects() {
            if let Some(volume) = self.spaces.get(object).map(|space| Arc::clone(&space.volume)) {
                self.learn_known(&volume, &mut Vec::new());
            }
        }
        self.epoch.glanced(self.steered.all_came(), began, Instant::now());
    }

    /// Looks at the tables with pages that are known. `false`: the process is not steered any more.
    fn learn_known(&mut self, volume: &Arc<Volume>, used: &mut Vec<Range<u64>>) -> bool {
        self.known_tables(volume.id()).chunks(TABLES as usize).all(|some| self.learn_all(volume, some, used))
    }

    /// The tables with pages that are known, in order.
    fn known_tables(&self, object: u32) -> Vec<u64> {
        let mut tables = self.steered.residents().indexes_of(object);
        tables.iter_mut().for_each(|index| *index = *index * 64 / TABLE);
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// Looks at a process, tells the policy of what was used, and clears the reference bits.
    pub(super) fn look_at(&mut self, object: u32, place: Where) {
        let Some(space) = self.spaces.get_mut(object) else { return };
        let place = if space.is_stale { Where::All } else { place };
        if place == Where::All {
            space.read();
        }
        let volume = Arc::clone(&space.volume);
        let mut used = Vec::new();
        match place {
            Where::All => {
                // What was found is not held for all of them.
                for tables in self.tables_of(object).chunks(TABLES as usize) {
                    if !self.learn_all(&volume, tables, &mut used) {
                        return;
                    }
                }
            }
            Where::Known => {
                if !self.learn_known(&volume, &mut used) {
                    return;
                }
            }
        }
        let Some(space) = self.spaces.get(object).filter(|_| !used.is_empty()) else { return };
        let cleared = match self.observe {
            // The kernel's own lists stay as they are.
            true => self.machine.cool_all(&space.process),
            // So do they where they choose; what is used is seen as well as they leave it.
            false if self.chooser == Chooser::Kernel => Ok(()),
            false => self.machine.cool(&space.process, &used),
        };
        if let Err(error) = cleared {
            tracing::debug!("reference bits stay: {error}");
        }
    }

    /// Looks at tables, and takes note of what is there. `false`: the process is not steered any more.
    fn learn_all(&mut self, volume: &Arc<Volume>, tables: &[u64], used: &mut Vec<Range<u64>>) -> bool {
        let Some(found) = self.find(volume.id(), tables) else { return false };
        found.into_iter().for_each(|(table, found)| self.learn(volume, table, found, used));
        true
    }

    /// The tables that there are of all that a process has mapped, in order. Some processes reserve terabytes, or have pages all over them, so those of the next level are asked.
    /// Nothing may have become of pages that were there, so their tables are among them all the same.
    pub(super) fn tables_of(&mut self, object: u32) -> Vec<u64> {
        let Some(space) = self.spaces.get(object) else { return Vec::new() };
        let all = space.tables();
        let mut above: Vec<u64> = all.iter().map(|(above, _)| *above).collect();
        above.dedup();
        let mut there = Vec::with_capacity(above.len().min(TABLES as usize));
        match self.machine.tables(&space.process, &above, &mut |above, tables| there.push((above, tables))) {
            Ok(true) => {}
            Ok(false) => {
                self.forget(object);
                return Vec::new();
            }
            Err(error) => {
                tracing::debug!("page tables are not read: {error}");
                return Vec::new();
            }
        }
        let mut tables = self.known_tables(object);
        for (above, mapped) in all {
            let Ok(place) = there.binary_search_by_key(&above, |(above, _)| *above) else { continue };
            runs(&there[place].1, above * TABLES, 0, &mut |run| {
                tables.extend(run.start.max(mapped.start)..run.end.min(mapped.end));
            });
        }
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// What is there of tables of a process. A process without memory is not steered any more.
    pub(super) fn find(&mut self, object: u32, tables: &[u64]) -> Option<Vec<(u64, Table)>> {
        let process = &self.spaces.get(object)?.process;
        let mut found = Vec::with_capacity(tables.len());
        match self.machine.look(process, tables, &mut |table, seen| found.push((table, seen))) {
            Ok(true) => Some(found),
            Ok(false) => {
                self.forget(object);
                None
            }
            Err(error) => {
                tracing::debug!("page tables are not read: {error}");
                None
            }
        }
    }

    /// Takes note of what is there of a table. `cooled` gets the pages whose reference bits are set.
    fn learn(&mut self, volume: &Arc<Volume>, table: u64, found: Table, used: &mut Vec<Range<u64>>) {
        let (object, first) = (volume.id(), table * TABLE);
        let mask = self.spaces.get(object).map_or([0; WORDS], |space| space.mask(table));
        let seen = if let Table::Seen(seen) = found { seen } else { Default::default() };
        let [mut gone, mut swapped, mut came, mut first_used, mut again, mut young] = [[0; WORDS]; 6];
        let kernel_chooses = if self.chooser == Chooser::Kernel { u64::MAX } else { 0 };
        for word in 0..WORDS {
            let index = first / 64 + word as u64;
            let (there, wanted) = self.steered.residents().words(object, index);
            let present = seen.present[word] & mask[word];
            let left = there & !present;
            // The kernel has chosen what the policy had and what is in swap space now; in its own turns all that is there.
            swapped[word] = left & (wanted | kernel_chooses) & seen.out[word];
            gone[word] = left & !swapped[word];
            // In the kernel's turns a victim of the policy stays in memory: the policy gets it back.
            came[word] = present & !(there & (wanted | !kernel_chooses));
            young[word] = present & seen.young[word];
            first_used[word] = came[word] & young[word] & !there;
            again[word] = young[word] & there & !self.fresh.get(&(object, index)).copied().unwrap_or(0);
        }
        let steered = &mut self.steered;
        let mut reclaimed = 0;
        runs(&gone, first, 0, &mut |pages| steered.removed(volume, pages.start, pages.end - pages.start, false));
        runs(&swapped, first, 0, &mut |pages| {
            reclaimed += pages.end - pages.start;
            steered.removed(volume, pages.start, pages.end - pages.start, true);
        });
        self.reclaimed += reclaimed;
        runs(&came, first, 0, &mut |pages| steered.found(volume, pages));
        runs(&again, first, 0, &mut |pages| steered.used(volume, pages, (Operation::Read, None)));
        // The faults of pages that came may be taken later, and tell nothing new.
        runs(&first_used, first, 0, &mut |pages| self.record(object, pages));
        runs(&again, first, 0, &mut |pages| self.record(object, pages));
        runs(&young, first, GAP, &mut |pages| used.push(pages));
    }
}
