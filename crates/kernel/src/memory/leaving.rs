//! Pages that the policy has let go leave for swap space, and those that stay are tried again.

use super::machine::{Seen, TABLE, Table, WORDS};
use super::paging::{FEW, MANY, State};
use forebay_basis::Operation;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// How often pages that stay are tried before the policy has them again.
const TRIES: u8 = 3;
/// How often victims are looked for in a turn: those that were used cost others their place.
const ROUNDS: usize = 4;

impl State {
    /// Has pages leave that the policy has let go.
    pub(super) fn leave(&mut self, now: Instant) {
        // Memory alone gives none back: a loop that does not fit has used all of its pages, and took 16 % longer so.
        for _ in 0..if self.files_beside { ROUNDS } else { 1 } {
            let leaving = self.steered.take_leaving();
            if self.rests() || leaving.is_empty() {
                return;
            }
            for of_process in leaving.chunk_by(|one, next| one.0 == next.0) {
                let runs: Vec<_> = of_process.iter().map(|(_, run)| run.clone()).collect();
                let unused = if self.files_beside { self.give_back_used(of_process[0].0, &runs) } else { runs };
                if !unused.is_empty() {
                    self.page_out(of_process[0].0, unused, 0, now);
                }
            }
        }
    }

    /// Of pages that the policy has let go, tells it of those that were used in this epoch: it did not know. Returns the others.
    ///
    /// A page is given back once in an epoch. A policy that lets it go again, as MRU does, has it leave.
    fn give_back_used(&mut self, object: u32, pages: &[Range<u64>]) -> Vec<Range<u64>> {
        let Some(found) = self.find(object, &tables_of(pages)) else { return pages.to_vec() };
        let Some(volume) = self.spaces.get(object).map(|space| Arc::clone(&space.volume)) else { return Vec::new() };
        let mut unused: Vec<Range<u64>> = Vec::new();
        for page in pages.iter().cloned().flatten() {
            let is_young = bit_of(&found, page, |seen| &seen.young);
            let told = self.fresh.get(&(object, page / 64)).copied().unwrap_or(0);
            if is_young && told >> (page % 64) & 1 == 0 {
                self.fresh.insert((object, page / 64), told | 1 << (page % 64));
                self.record(object, page..page + 1);
                self.steered.used(&volume, page..page + 1, (Operation::Read, None));
                continue;
            }
            match unused.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => unused.push(page..page + 1),
            }
        }
        unused
    }

    /// Has pages of a process leave: those that do not are tried again later.
    fn page_out(&mut self, object: u32, pages: Vec<Range<u64>>, tries: u8, now: Instant) {
        let Some(space) = self.spaces.get(object) else { return };
        if let Err(error) = self.machine.page_out(&space.process, &pages) {
            tracing::debug!("pages stay: {error}");
        }
        // Of those that stay nothing is said.
        self.notice_gone(object, &pages);
        let residents = self.steered.residents();
        let stay: Vec<_> = pages.into_iter().flat_map(|run| residents.all_leaving(object, run)).collect();
        stay.into_iter().for_each(|run| self.later.add(object, run, tries, now));
    }

    /// Looks which of some pages are still there.
    fn notice_gone(&mut self, object: u32, pages: &[Range<u64>]) {
        let Some(found) = self.find(object, &tables_of(pages)) else { return };
        let Some(volume) = self.spaces.get(object).map(|space| Arc::clone(&space.volume)) else { return };
        for page in pages.iter().cloned().flatten() {
            if !bit_of(&found, page, |seen| &seen.present) && self.steered.residents().is_there(object, page) {
                self.steered.removed(&volume, page, 1, false);
            }
        }
    }

    /// Tries again what has stayed, or gives it back to the policy.
    pub(super) fn try_again(&mut self, now: Instant) {
        let mut still: Vec<(u32, u8, Range<u64>)> = Vec::new();
        while let Some((object, pages, tries)) = self.later.due(now) {
            let runs = self.steered.residents().all_leaving(object, pages);
            still.extend(runs.into_iter().map(|run| (object, tries, run)));
        }
        still.sort_unstable_by_key(|(object, tries, run)| (*object, *tries, run.start));
        for alike in still.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            let (object, tries) = (alike[0].0, alike[0].1);
            let runs: Vec<Range<u64>> = alike.iter().map(|(_, _, run)| run.clone()).collect();
            if tries < TRIES {
                self.page_out(object, runs, tries + 1, now);
            } else if let Some(space) = self.spaces.get(object) {
                let volume = Arc::clone(&space.volume);
                for run in runs {
                    self.counts.refused += run.end - run.start;
                    self.steered.stayed(&volume, run, None);
                }
                // A page that is just written, or read, stays for a moment.
                let many = self.counts.refused > (self.budget.pages() / MANY).max(FEW);
                if many && !std::mem::replace(&mut self.said, true) {
                    tracing::warn!(
                        "some pages stay: other processes have them, too, they are locked, or swap space is full"
                    );
                }
            }
        }
    }
}

/// The tables of pages, in order.
fn tables_of(pages: &[Range<u64>]) -> Vec<u64> {
    let mut tables: Vec<u64> = pages.iter().flat_map(|pages| pages.start / TABLE..pages.end.div_ceil(TABLE)).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}

/// A page's bit in what was found of tables. All of them were looked at.
fn bit_of(found: &[(u64, Table)], page: u64, words: fn(&Seen) -> &[u64; WORDS]) -> bool {
    let Ok(place) = found.binary_search_by_key(&(page / TABLE), |(table, _)| *table) else { return false };
    let in_table = (page % TABLE) as usize;
    match &found[place].1 {
        Table::Seen(seen) => words(seen)[in_table / 64] >> (in_table % 64) & 1 == 1,
        Table::Absent => false,
    }
}
