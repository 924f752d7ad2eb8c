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
//! - The paper gives the least eviction section, 64 of 512 MB, and the bank, 4 to 8 MB, a sixteenth to an eighth of that.
//!   Here the buffer and the bank are set, by default to 75 and 5 % of the cache, and the section has the rest.
//! - The merge of the sorted bank with the sorted section is done by a list for each size (`eviction`): the same order
//!   without a walk over the section.
//! - Equal `H`: the longer sequence is nearer to the bottom; of one size, the one that stood lower in the stack.
//! - When the eviction section is empty, the bank is sequenced before it is full, and an empty bank takes the bottom block of
//!   the correlation buffer.
//! - The block table's nodes have 64 entries, not 512, and its global directory is a B-tree: several disks or
//!   files have one table. It is given 32 bytes for each page number, and forgets the older half when these are used up.
//! - A block whose timestamps are forgotten stands alone, as the paper's pages without a disk mapping do. Of objects nothing else
//!   is kept, so those that are gone are reclaimed with the oldest blocks.
//!
//! Refused victims are put aside while others are offered, and then moved to the top, as if young.
//!
//! Reference figures: Table I, 95.0 and 66.5 ms, reference by reference; device time on real traces beside that of LRU, in
//! `papers/dulo/README.md`. Parameters: `correlation`, `bank`, `longest`, `distance`, `gap`; the last three are the paper's.
//! Memory: 4 bytes a page (its slot), up to 32 for the block table (8 where blocks lie close), 44 a frame, 32 for each block of the
//! bank; and 64 KiB that do not depend on the size.

mod block_table;
mod eviction;
mod sequence;

use crate::list::{List, Nodes};
use crate::parameters::{Kind, Parameter, Part};
use crate::policy::{AllRefused, Caller, Info, Place, Policy, Reference, Setup, Uses};
use crate::slots::Slots;
use block_table::BlockTable;
use eviction::Eviction;
use sequence::{Member, Rules};

/// The block table's memory for each page number.
const TABLE_BYTES_PER_PAGE: usize = 32;

/// What is known of a block while it is resident.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Its LBN, and the disk or file that this is in.
    block: u64,
    object: u32,
    /// How many blocks its sequence has; 0 outside the eviction section.
    size: u16,
    in_bank: bool,
    young: bool,
    /// Its sequence's, in the eviction section.
    h: f64,
}

/// DULO: dual locality.
#[derive(Debug)]
pub struct Dulo {
    /// The resident pages have one, which is their number in all that follows.
    slots: Slots,
    /// D1. A block is in `correlation`, `bank` or `eviction` if and only if it is resident, as `in_bank` and `size` say. The
    /// bottom of each is its back.
    nodes: Nodes<Block>,
    /// D2. At most `correlation_max`, none of them young.
    correlation: List,
    /// D3. Fewer than `bank_max`.
    bank: List,
    eviction: Eviction,
    correlation_max: u32,
    bank_max: u32,
    table: BlockTable,
    rules: Rules,
    /// The bank while it is sequenced, kept lest that allocate.
    members: Vec<Member>,
    capacity: u32,
    page_size: u64,
    /// The settings that `correlation_max` and `bank_max` follow from.
    correlation_part: Part,
    bank_part: Part,
}

impl Policy for Dulo {
    const INFO: Info = Info {
        name: "dulo",
        title: "DULO: dual locality, temporal and on the disk",
        paper: "X. Ding, S. Jiang and F. Chen, A Buffer Cache Management Scheme Exploiting Both Temporal and Spatial \
                Localities, ACM TOS 3(2), 2007",
        parameters: &[
            Parameter { name: "correlation", help: "the correlation buffer", kind: Kind::Part, default: "75%" },
            Parameter {
                name: "bank",
                help: "the most blocks in the sequencing bank, no more than half of the cache",
                kind: Kind::Part,
                default: "5%",
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
                help: "the most fetches from one neighbour in a sequence to the next",
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "1",
            },
        ],
        uses: Uses { place: true, request: false },
        off_line: false,
        ghosts: 0,
        bytes_per_page: 96,
    };

    /// The block table's size follows the number of pages.
    const NEEDS_FOOTPRINT: bool = true;

    fn new(setup: &Setup) -> Self {
        let rules = Rules {
            distance: setup.settings.integer("distance"),
            gap: setup.settings.integer("gap") as u32,
            longest: setup.settings.integer("longest") as u16,
        };
        let slots = Slots::new(setup.pages, u64::from(setup.capacity));
        let mut dulo = Self {
            nodes: Nodes::new(slots.end()),
            slots,
            correlation: List::new(),
            bank: List::new(),
            eviction: Eviction::new(rules.longest),
            correlation_max: 0,
            bank_max: 0,
            table: BlockTable::new(TABLE_BYTES_PER_PAGE * setup.pages as usize),
            rules,
            members: Vec::new(),
            capacity: setup.capacity,
            page_size: setup.page_size,
            correlation_part: setup.settings.part("correlation"),
            bank_part: setup.settings.part("bank"),
        };
        dulo.divide();
        dulo
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.correlation.len() + self.bank.len() + self.eviction.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        let block = &mut self.nodes[slot];
        if block.size > 0 || block.in_bank {
            block.young = true;
        } else {
            self.correlation.move_to_front(&mut self.nodes, slot);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let Place { object, block } = reference.place;
        self.table.record(reference.place);
        let slot = self.slots.give(reference.page);
        self.nodes[slot] = Block { block, object, ..Block::default() };
        self.enter(slot);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let mut refused = List::new();
        let mut result = Err(AllRefused);
        // Ends: each turn takes a mark or a block from the stack.
        while let Some(slot) = self.bottom() {
            let Block { young, h, .. } = self.nodes[slot];
            self.eviction.remove(&mut self.nodes, slot);
            if young {
                self.nodes[slot].young = false;
                self.enter(slot);
            } else if caller.evict(self.slots.page(slot)) {
                self.eviction.inflate(&mut self.nodes, h);
                caller.forget(self.slots.take_back(slot));
                result = Ok(());
                break;
            } else {
                refused.push_front(&mut self.nodes, slot);
            }
        }
        while let Some(slot) = refused.back() {
            refused.remove(&mut self.nodes, slot);
            self.enter(slot);
        }
        result
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        let Some(slot) = self.slots.of(page) else { return };
        let Block { size, in_bank, .. } = self.nodes[slot];
        if size > 0 {
            self.eviction.remove(&mut self.nodes, slot);
        } else if in_bank {
            self.bank.remove(&mut self.nodes, slot);
        } else {
            self.correlation.remove(&mut self.nodes, slot);
        }
        self.table.reset(self.place(slot));
        self.slots.take_back(slot);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.reserve(self.slots.pages());
        self.divide();
        self.settle();
    }

    fn reserve(&mut self, pages: u32) {
        self.slots.reserve(pages, u64::from(self.capacity));
        self.nodes.reserve(self.slots.end());
        self.table.limit(TABLE_BYTES_PER_PAGE * pages as usize);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("correlation buffer", f64::from(self.correlation.len()));
        show("sequencing bank", f64::from(self.bank.len()));
        show("eviction section", f64::from(self.eviction.len()));
        show("inflation", self.eviction.inflation());
        show("mean sequence", self.eviction.mean_sequence());
    }

    fn bytes(&self) -> usize {
        let members = self.members.capacity() * size_of::<Member>();
        self.slots.bytes() + self.nodes.bytes() + self.table.bytes() + self.eviction.bytes() + members
    }

    fn check_invariants(&self) {
        self.slots.check(self.len());
        self.correlation.check(&self.nodes);
        self.bank.check(&self.nodes);
        self.eviction.check(&self.nodes); // D1
        self.table.check();
        let staged = |list: &List, in_bank: bool| {
            list.back_to_front(&self.nodes)
                .all(|page| self.nodes[page].size == 0 && self.nodes[page].in_bank == in_bank)
        };
        assert!(staged(&self.correlation, false) && staged(&self.bank, true)); // D1
        assert!(self.correlation.len() <= self.correlation_max); // D2
        assert!(self.correlation.back_to_front(&self.nodes).all(|page| !self.nodes[page].young)); // D2
        assert!(self.bank.len() < self.bank_max); // D3
        assert!(self.len() <= self.capacity);
    }
}

impl Dulo {
    /// Sets the sizes of the buffer and the bank for the capacity.
    fn divide(&mut self) {
        let pages = |part: Part| part.pages(self.capacity, self.page_size);
        self.correlation_max = pages(self.correlation_part);
        self.bank_max = pages(self.bank_part).min(self.capacity / 2).max(1);
    }

    fn place(&self, slot: u32) -> Place {
        let Block { block, object, .. } = self.nodes[slot];
        Place { object, block }
    }

    /// A block enters at the top of the stack.
    fn enter(&mut self, slot: u32) {
        self.correlation.push_front(&mut self.nodes, slot);
        self.settle();
    }

    /// What the correlation buffer has too much of goes to the bank, and a full bank to the eviction section.
    fn settle(&mut self) {
        while self.correlation.len() > self.correlation_max {
            self.fill_bank();
            if self.bank.len() >= self.bank_max {
                self.refill();
            }
        }
        if self.bank.len() >= self.bank_max {
            self.refill();
        }
    }

    /// The bottom block of the correlation buffer enters the bank.
    fn fill_bank(&mut self) {
        let slot = self.correlation.back().expect("the correlation buffer has a block");
        self.correlation.remove(&mut self.nodes, slot);
        self.nodes[slot].in_bank = true;
        self.bank.push_front(&mut self.nodes, slot);
    }

    /// The bottom of the stack, in the eviction section.
    fn bottom(&mut self) -> Option<u32> {
        if self.eviction.len() == 0 {
            if self.bank.is_empty() && !self.correlation.is_empty() {
                self.fill_bank();
            }
            self.refill();
        }
        self.eviction.bottom()
    }

    /// Refills the eviction section with the bank's blocks, in sequences.
    fn refill(&mut self) {
        self.members.clear();
        self.members.reserve_exact(self.bank.len() as usize);
        while let Some(slot) = self.bank.back() {
            self.bank.remove(&mut self.nodes, slot);
            self.nodes[slot].in_bank = false;
            let (place, depth) = (self.place(slot), self.members.len() as u32);
            self.members.push(Member { slot, place, timestamps: self.table.timestamps(place), depth, size: 0 });
        }
        self.rules.form(&mut self.members);
        for &Member { slot, size, .. } in &self.members {
            self.eviction.push(&mut self.nodes, slot, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::eviction::MOST_INFLATION;
    use super::*;
    use crate::long_run;
    use crate::{Clock, Lru, Settings};

    struct AnyVictim(Vec<u32>);

    impl Caller for AnyVictim {
        fn evict(&mut self, page: u32) -> bool {
            self.0.push(page);
            true
        }

        fn forget(&mut self, _: u32) {}
    }

    /// The victims of references, some skewed and some a loop, to pages whose blocks stand so far `apart`.
    fn victims<P: Policy>(capacity: u32, settings: &[(&str, &str)], apart: u64) -> Vec<u32> {
        let settings = Settings::parse(P::INFO.parameters, settings.iter().copied()).unwrap();
        let mut policy = P::new(&Setup::new(capacity, 1000, settings));
        let mut caller = AnyVictim(Vec::new());
        for i in 0..20_000u64 {
            let page = if i % 3 == 0 { i * i % 1009 % 97 } else { i / 3 % 1000 } as u32;
            let place = Place { object: 0, block: u64::from(page) * apart };
            let reference = Reference { place, ..Reference::of(page) };
            if policy.contains(page) {
                policy.hit(&reference);
            } else {
                policy.miss(&reference, &mut caller).unwrap();
            }
        }
        policy.check_invariants();
        caller.0
    }

    // The whole of what was evicted is too long to be shown: so `assert!`.
    #[test]
    fn when_all_blocks_are_random_it_is_its_base_clock_or_lru() {
        for capacity in [1, 2, 7, 100, 400] {
            for bank in ["0", "2%", "50%"] {
                let dulo = |correlation| victims::<Dulo>(capacity, &[("correlation", correlation), ("bank", bank)], 5);
                assert!(dulo("0") == victims::<Clock>(capacity, &[], 1), "{capacity} {bank}");
                assert!(dulo("100%") == victims::<Lru>(capacity, &[], 1), "{capacity} {bank}");
            }
        }
    }

    #[test]
    fn sequences_change_what_is_evicted() {
        let of_blocks = |apart| victims::<Dulo>(100, &[("correlation", "20%"), ("bank", "20%")], apart);
        assert!(of_blocks(1) != of_blocks(5));
    }

    #[test]
    fn setting_the_clock_and_the_inflation_back_changes_nothing() {
        for spec in ["dulo", "dulo:correlation=20%:bank=20%:longest=8", "dulo:correlation=0:bank=0:gap=9"] {
            long_run::is_as_the_first::<Dulo>(
                spec,
                &[
                    |dulo| dulo.table.set_clock(u32::MAX - 5),
                    |dulo| dulo.table.set_clock(u32::MAX - 1_000),
                    |dulo| dulo.eviction.set_inflation(MOST_INFLATION - 2.0),
                    |dulo| dulo.eviction.set_inflation(MOST_INFLATION - 50.0),
                ],
            );
        }
    }
}
