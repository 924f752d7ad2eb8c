//! DULO: of blocks used as long ago, those that the disk reads in one sweep go first, and the random ones stay.
//!
//! X. Ding, S. Jiang and F. Chen, "A Buffer Cache Management Scheme Exploiting Both Temporal and Spatial Localities", ACM
//! Transactions on Storage 3(2), 2007, section 3.
//!
//! ```text
//! top      correlation buffer     takes what is fetched; keeps what is used again soon      \ staging
//!          sequencing bank        what has left the buffer, until there are BANK-MAX        / section
//! bottom   eviction section       sequences in the order of H; the bottom block is the victim
//! ```
//!
//! Below the correlation buffer the stack is CLOCK's: a hit marks the block as young; a young block at the bottom moves to the
//! top, its mark revoked. When the bank is full, `sequence` forms sequences of its blocks by the timestamps in the
//! `block_table`, and they enter the eviction section with `H = L + 1 / size`; when a block is evicted, `L` becomes its `H`.
//!
//! What the paper leaves open, and deviations:
//!
//! - A hit in the correlation buffer moves the block to the buffer's front and does not mark it: so bursts are filtered as by
//!   LRU-K's correlated reference period, to which the paper likens the buffer. (Marked, the page that two adjoining requests
//!   share outlives its neighbours, and each hole that it leaves in a sequence costs a seek.) So if no sequence is longer than
//!   a block, DULO is CLOCK when the buffer is empty, LRU when it is the whole cache.
//! - The paper gives the least eviction section, 64 of 512 MB, and says that the larger it is, the more control DULO has (Table III). Here
//!   the buffer is set and the section has the rest. A large section loses where a loop just fits into LRU. So the size adapts: the section has 2, 45
//!   or 95 % of the cache, by the seeks that each costs on a sample of the blocks (`trials`). `correlation` given sets it for good.
//! - When the section becomes smaller, what it has too much leaves in the order of the stack (`eviction`). By `H` sequences would go on leaving early, though
//!   trials have just shown that to cost seeks.
//! - The bank is 5 % of the cache: a nineteenth of the largest section, as 4 of 64 MB are (Table II). With `base=linux` it is a sixteenth of the section.
//! - `base=linux` is the paper's implementation (section 4.1): the inactive list of Linux's two is the stack, with a section of an eighth of the
//!   cache, and is kept twice as long as that. A hit makes an inactive page active, as in the policy `linux`. Its size does not adapt.
//! - With `access=process` the pages of `base=linux` are memory of processes (4.1.1). A hit sets a page's bit, and such a page becomes active at the tail of the
//!   inactive list. These pages are random until they have been swapped out (4.1.2): the fault that makes a page is no fetch. They have the block numbers of
//!   their places in memory, not those that a swap allocator would give them.
//! - The merge of the sorted bank with the sorted section is done by a list for each size (`eviction`): the same order
//!   without a walk over the section.
//! - Equal `H`: the longer sequence is nearer to the bottom; of one size, the one that stood lower in the stack.
//! - When the eviction section is empty, the bank is sequenced before it is full, and an empty bank takes the bottom block of
//!   the correlation buffer.
//! - The paper does not "discriminate" costs: each sequence costs a seek. Nor does `cost=seek`, the default. `cost=device` goes by what the device takes for requests and
//!   pages (`cost`). Where a request costs as much right behind the one before, as behind a network, sequences end with the user's request, and their blocks
//!   are neighbours, whatever `distance` says. With readahead that gains on the large traces of disks in `papers/dulo/README.md`. Without, it loses more often,
//!   so it is no default.
//! - The block table's nodes have 64 entries, not 512, and its global directory is a B-tree: several disks or
//!   files have one table. It is given 32 bytes for each page number, and forgets the older half when these are used up.
//! - In front of a file system (`forebay steer`, `forebay mount`) block numbers are the disk's, as far as they are known. A block that has no place on the disk yet,
//!   as it has not been written, has its place in the file instead: file systems lay out neighbours together. The paper has such pages
//!   be random. `numbers=file` knows no disk.
//! - A resident block has its timestamps itself, so it is in a sequence though the disk's number of it became known after it was fetched. The table is for its
//!   next fetch: that of a block whose place was not known then, or has changed, counts as its first.
//! - A block whose timestamps are forgotten stands alone, as the paper's pages without a disk mapping do. Of objects nothing else
//!   is kept, so those that are gone are reclaimed with the oldest blocks. Blocks that are discarded lose their timestamps at once, but for those of files of which
//!   the disk's numbers are known: what is written there next has them, as in the paper.
//!
//! Refused victims are put aside while others are offered, and then moved to the top, as if young; with `base=linux` active pages too, when all
//! inactive ones are refused.
//!
//! Reference figures: Table I, 95.0 and 66.5 ms, reference by reference; device time on real traces beside that of LRU, in
//! `papers/dulo/README.md`. Parameters: `correlation`, `bank`, `base`, `access`, `longest`, `distance`, `gap`, `numbers`, `cost`; of these `longest`, `distance` and `gap`
//! are the paper's.
//! Memory: 4 bytes a page (its slot), up to 32 for the block table (8 where blocks lie close), 52 a frame, 40
//! for each block of the bank; if the size adapts, 35 to 50 a frame below 65,536 frames, and 2.4 MB at the most above; and 64 KiB that do not depend on the size.
//! There are no ghosts: the trials know blocks by their places.

mod active;
mod block_table;
mod cost;
mod eviction;
mod sequence;
mod stack;
mod trials;

use crate::drawing::Drawing;
use crate::parameters::{Kind, Parameter, Part};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use active::Active;
use block_table::{BlockTable, MOST_GAP, Timestamps};
use cost::Prices;
use forebay_basis::Place;
use sequence::Rules;
use stack::{Disk, Stack};
use std::ops::Range;
use trials::Trials;

/// The block table's memory for each page number.
const TABLE_BYTES_PER_PAGE: usize = 32;

/// What `base=linux` leaves to the eviction section: 64 of 512 MB in the paper.
const SECTION_IN_LINUX: f64 = 0.125;

/// The bank: of the cache, and with `base=linux` of its eviction section, 4 of 64 MB in the paper.
const BANK: Part = Part::Percent(5.0);
const BANK_IN_LINUX: f64 = 0.0625;

/// DULO: dual locality.
#[derive(Debug)]
pub struct Dulo {
    stack: Stack,
    disk: Disk,
    /// With `correlation=adapts`.
    trials: Option<Trials>,
    rules: Rules,
    /// Whether pages have no place on the disk until they are swapped out.
    anonymous: bool,
    /// Whether the next fetch is of another request than the last one, where that matters.
    begins: bool,
    capacity: u32,
    page_size: u64,
    /// The settings that the sizes of the buffer and the bank follow from.
    correlation_part: Option<Part>,
    bank_part: Option<Part>,
}

impl Policy for Dulo {
    const INFO: Info = Info {
        name: "dulo",
        title: "DULO: dual locality, temporal and on the disk",
        paper: "X. Ding, S. Jiang and F. Chen, A Buffer Cache Management Scheme Exploiting Both Temporal and Spatial \
                Localities, ACM TOS 3(2), 2007",
        parameters: &[
            Parameter {
                name: "correlation",
                help: "the correlation buffer, which adapts: 5, 55 or 98 % of the cache; 87.5% with base=linux",
                kind: Kind::PartOr(&["adapts"]),
                default: "adapts",
            },
            Parameter {
                name: "bank",
                help: "the most blocks in the sequencing bank, no more than half of the cache; auto: 5 % of it, or 6 % of the section with base=linux",
                kind: Kind::PartOr(&["auto"]),
                default: "auto",
            },
            Parameter {
                name: "base",
                help: "the policy that DULO changes: CLOCK, or the inactive list of Linux's two",
                kind: Kind::Choice(&["clock", "linux"]),
                default: "clock",
            },
            Parameter {
                name: "access",
                help: "with base=linux: what a use is, a system call on a file, or an access of a process to its memory",
                kind: Kind::Choice(&["file", "process"]),
                default: "file",
            },
            Parameter {
                name: "longest",
                help: "the most blocks of a sequence",
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "128",
            },
            Parameter {
                name: "distance",
                help: "the most that the block numbers of neighbours in a sequence differ",
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "4",
            },
            Parameter {
                name: "gap",
                help: "the most fetches between two neighbours of a sequence",
                kind: Kind::Integer { least: 1, most: MOST_GAP as u64 },
                default: "1",
            },
            Parameter {
                name: "numbers",
                help: "the block numbers of files: the disk's where the file system tells them, or the places in files",
                kind: Kind::Choice(&["disk", "file"]),
                default: "disk",
            },
            Parameter {
                name: "cost",
                help: "what a sequence costs: a seek, as in the paper, or what the device of `compare --device` takes; without one, a seek",
                kind: Kind::Choice(&["seek", "device"]),
                default: "seek",
            },
        ],
        uses: Uses { place: true, layout: true, ..Uses::PAGE },
        bytes_per_page: 128,
        // The block table's size follows the number of pages.
        needs_footprint: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let device = setup.device.filter(|_| setup.settings.choice("cost") == "device");
        let prices = device.map_or(Prices::SEEK, Prices::of);
        let rules = Rules {
            distance: if prices.apart { 1 } else { setup.settings.integer("distance") },
            gap: setup.settings.integer("gap") as u32,
            longest: setup.settings.integer("longest") as u16,
            prices,
        };
        let linux = setup.settings.choice("base") == "linux";
        let correlation_part = setup.settings.part_or_word("correlation");
        let adapts = correlation_part.is_none() && !linux;
        let layout = setup.layout.clone().filter(|_| setup.settings.choice("numbers") == "disk");
        let bank_part = setup.settings.part_or_word("bank");
        let bank = share(bank_part, setup.capacity, setup.page_size);
        let by_calls = setup.settings.choice("access") == "file";
        let mut dulo = Self {
            stack: Stack::new(setup.pages, setup.capacity, rules, linux.then(|| Active::new(by_calls))),
            disk: Disk { table: BlockTable::new(TABLE_BYTES_PER_PAGE * setup.pages as usize), layout },
            trials: adapts.then(|| Trials::new(setup.capacity, rules, bank)),
            rules,
            anonymous: linux && !by_calls,
            begins: false,
            capacity: setup.capacity,
            page_size: setup.page_size,
            correlation_part,
            bank_part,
        };
        dulo.divide();
        dulo
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.stack.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.stack.contains(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.stack.prefetch(page);
    }

    fn begin_request(&mut self) {
        if self.rules.prices.apart {
            self.begins = true;
            if let Some(trials) = &mut self.trials {
                trials.begin_request();
            }
        }
    }

    fn hit(&mut self, reference: &Reference) {
        if let Some(trials) = &mut self.trials {
            trials.reference(reference.place, || self.stack.timestamps(reference.page), &self.disk);
        }
        self.stack.hit(reference.page);
    }

    /// The order in which blocks are fetched is what sequences are formed from. So a block that is read ahead enters the stack at once.
    fn ranks_readahead(&self) -> bool {
        true
    }

    /// Linux's readahead sets no bit: this use does what the read of a missing page would have done, or the fault of a process.
    fn first_use<C: Caller>(&mut self, reference: &Reference, _: &mut C) {
        if self.stack.active.is_none() {
            self.hit(reference);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.stack.is_full() {
            self.evict(caller)?;
        }
        let timestamps = self.fetch(reference.place);
        if let Some(trials) = &mut self.trials {
            trials.reference(reference.place, || timestamps, &self.disk);
            self.stack.approach(trials.buffer(self.capacity));
        }
        self.stack.admit(reference.page, reference.place, timestamps, &self.disk);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let (page, place) = self.stack.evict(&self.disk, |page| caller.evict(page)).ok_or(AllRefused)?;
        if self.anonymous {
            self.disk.table.write(self.disk.lies(place));
        }
        caller.forget(page);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if let Some(place) = self.stack.remove(page) {
            self.disk.table.reset(self.disk.lies(place));
        }
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        self.disk.table.reset_all(object, blocks);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.stack.set_capacity(capacity);
        if let Some(trials) = &mut self.trials {
            trials.set_capacity(capacity, share(self.bank_part, capacity, self.page_size), &self.disk);
        }
        self.divide();
        self.stack.settle(&self.disk);
    }

    fn reserve(&mut self, pages: u32) {
        self.stack.reserve(pages);
        self.disk.table.limit(TABLE_BYTES_PER_PAGE * pages as usize);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.stack.state(show);
        if let Some(trials) = &self.trials {
            trials.state(show);
        }
    }

    fn draw(&self, drawing: &mut Drawing) {
        self.stack.draw(drawing);
    }

    fn bytes(&self) -> usize {
        self.stack.bytes() + self.disk.table.bytes() + self.trials.as_ref().map_or(0, Trials::bytes)
    }

    fn check_invariants(&self) {
        self.stack.check();
        self.disk.table.check();
        if let Some(trials) = &self.trials {
            trials.check();
        }
    }
}

impl Dulo {
    /// A block is fetched, at these times. A process's page is not, if it was never swapped out.
    fn fetch(&mut self, place: Place) -> Timestamps {
        if self.disk.table.is_late() {
            self.disk.table.set_back();
            self.stack.set_clock_back();
            self.trials.iter_mut().for_each(Trials::set_clock_back);
        }
        if std::mem::take(&mut self.begins) {
            self.disk.table.interrupt(self.rules.gap);
        }
        let at = self.disk.lies(place);
        if self.anonymous && !self.disk.table.knows(at) { Timestamps::default() } else { self.disk.table.record(at) }
    }

    /// Sets the sizes of the buffer and the bank for the capacity.
    fn divide(&mut self) {
        let pages = |part: Part| part.pages(self.capacity, self.page_size);
        let correlation_max = match (self.correlation_part, &self.trials) {
            (Some(part), _) => pages(part),
            (None, Some(trials)) => trials.buffer(self.capacity),
            (None, None) => self.capacity - (f64::from(self.capacity) * SECTION_IN_LINUX).round() as u32,
        };
        let bank_max = match (self.bank_part, &self.stack.active) {
            (None, Some(_)) => (f64::from(self.capacity - correlation_max) * BANK_IN_LINUX).round() as u32,
            (part, _) => pages(part.unwrap_or(BANK)),
        };
        self.stack.divide(correlation_max, bank_max.min(self.capacity / 2).max(1));
    }
}

/// The share of a cache that the bank is.
fn share(bank: Option<Part>, capacity: u32, page_size: u64) -> f64 {
    f64::from(bank.unwrap_or(BANK).pages(capacity, page_size)) / f64::from(capacity)
}

#[cfg(test)]
mod tests;
