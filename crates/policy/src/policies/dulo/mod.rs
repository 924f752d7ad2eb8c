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
//!   the buffer is set and the section has the rest. A large section loses where a loop just fits into LRU. So the size adapts: the section has 2 to
//!   95 % of the cache, by the seeks that it saves or costs beside LRU of the same size (`adaptive`).
//! - The bank is 5 % of the cache: a nineteenth of the largest section, as 4 of 64 MB are (Table II).
//! - `base=linux` is the paper's implementation (section 4.1): the inactive list of Linux's two is the stack, with a section of an eighth of the
//!   cache, and is kept twice as long as that. A hit makes an inactive page active, as in the policy `linux`. Its size does not adapt.
//! - The merge of the sorted bank with the sorted section is done by a list for each size (`eviction`): the same order
//!   without a walk over the section.
//! - Equal `H`: the longer sequence is nearer to the bottom; of one size, the one that stood lower in the stack.
//! - When the eviction section is empty, the bank is sequenced before it is full, and an empty bank takes the bottom block of
//!   the correlation buffer.
//! - The block table's nodes have 64 entries, not 512, and its global directory is a B-tree: several disks or
//!   files have one table. It is given 32 bytes for each page number, and forgets the older half when these are used up.
//! - In front of a file system (`forebay steer`) block numbers are the disk's, as far as they are known. A block that has no place on the disk yet,
//!   as it has not been written, has its place in the file instead: file systems lay out neighbours together. The paper has such pages
//!   be random. Timestamps are kept by places in files, so they outlive a change of the layout. `numbers=file` knows no disk.
//! - A block whose timestamps are forgotten stands alone, as the paper's pages without a disk mapping do. Of objects nothing else
//!   is kept, so those that are gone are reclaimed with the oldest blocks. Blocks that are discarded lose their timestamps at once, resident or not.
//!
//! Refused victims are put aside while others are offered, and then moved to the top, as if young; with `base=linux` active pages too, when all
//! inactive ones are refused.
//!
//! Reference figures: Table I, 95.0 and 66.5 ms, reference by reference; device time on real traces beside that of LRU, in
//! `papers/dulo/README.md`. Parameters: `correlation`, `bank`, `base`, `longest`, `distance`, `gap`, `numbers`; the three before the last are the paper's.
//! Memory: 4 bytes a page (its slot), 9 for LRU beside it if the size adapts, up to 32 for the block table (8 where blocks lie close), 44 a frame, 32
//! for each block of the bank; and 64 KiB that do not depend on the size. Ghosts: what LRU would hold and DULO does not.

mod active;
mod adaptive;
mod block_table;
mod eviction;
mod sequence;

use crate::layout::Layout;
use crate::parameters::{Kind, Parameter, Part};
use crate::parts::list::{List, Nodes};
use crate::parts::slots::PageSlots;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use active::Active;
use adaptive::Adaptive;
use block_table::BlockTable;
use eviction::Eviction;
use forebay_basis::Place;
use sequence::{Member, Rules};
use std::ops::Range;
use std::sync::Arc;

/// The block table's memory for each page number.
const TABLE_BYTES_PER_PAGE: usize = 32;

/// What `base=linux` leaves to the eviction section: 64 of 512 MB in the paper.
const SECTION_IN_LINUX: f64 = 0.125;
/// By how many blocks the correlation buffer's limit changes at a miss, or Linux's inactive list is made longer: so that no step is long.
const STEP: u32 = 64;

/// In which list a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Buffer,
    Bank,
    Eviction,
    Active,
}

/// What is known of a block while it is resident.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Its number, and the disk or file that this is in: what it is known by, whatever its file's layout.
    block: u64,
    object: u32,
    /// How many blocks its sequence has, in the eviction section.
    size: u16,
    at: At,
    young: bool,
    /// Its sequence's, in the eviction section.
    h: f64,
}

/// DULO: dual locality.
#[derive(Debug)]
pub struct Dulo {
    /// The resident pages have one, which is their number in all that follows.
    slots: PageSlots,
    /// D1. A block is in `correlation`, `bank`, `eviction` or the active list if and only if it is resident, as `at` says. The bottom of each
    /// is its back.
    nodes: Nodes<Block>,
    /// D2. At most `correlation_max`, but that Linux's inactive list shrinks under it; none of them young.
    correlation: List,
    /// D3. Fewer than `bank_max`.
    bank: List,
    eviction: Eviction,
    /// With `base=linux`.
    active: Option<Active>,
    /// With `correlation=adapts`.
    adaptive: Option<Adaptive>,
    correlation_max: u32,
    bank_max: u32,
    table: BlockTable,
    rules: Rules,
    /// Where files lie on disks.
    layout: Option<Arc<dyn Layout>>,
    /// The bank while it is sequenced, kept lest that allocate.
    members: Vec<Member>,
    capacity: u32,
    page_size: u64,
    /// The settings that `correlation_max` and `bank_max` follow from.
    correlation_part: Option<Part>,
    bank_part: Part,
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
                help: "the correlation buffer, whose size adapts between 5 and 98 % of the cache; 87.5% with base=linux",
                kind: Kind::PartOr(&["adapts"]),
                default: "adapts",
            },
            Parameter {
                name: "bank",
                help: "the most blocks in the sequencing bank, no more than half of the cache",
                kind: Kind::Part,
                default: "5%",
            },
            Parameter {
                name: "base",
                help: "the policy that DULO changes: CLOCK, or the inactive list of Linux's two",
                kind: Kind::Choice(&["clock", "linux"]),
                default: "clock",
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
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "1",
            },
            Parameter {
                name: "numbers",
                help: "the block numbers of files: the disk's where the file system tells them, or the places in files",
                kind: Kind::Choice(&["disk", "file"]),
                default: "disk",
            },
        ],
        uses: Uses { place: true, request: false },
        ghosts: 1,
        bytes_per_page: 104,
        // The block table's size follows the number of pages.
        needs_footprint: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let rules = Rules {
            distance: setup.settings.integer("distance"),
            gap: setup.settings.integer("gap") as u32,
            longest: setup.settings.integer("longest") as u16,
        };
        let slots = PageSlots::new(setup.pages, u64::from(setup.capacity));
        let linux = setup.settings.choice("base") == "linux";
        let correlation_part = setup.settings.part_or_word("correlation");
        let adapts = correlation_part.is_none() && !linux;
        let mut dulo = Self {
            nodes: Nodes::new(slots.end()),
            slots,
            correlation: List::new(),
            bank: List::new(),
            eviction: Eviction::new(rules.longest),
            active: linux.then(Active::new),
            adaptive: adapts.then(|| Adaptive::new(setup.pages, setup.capacity)),
            correlation_max: 0,
            bank_max: 0,
            table: BlockTable::new(TABLE_BYTES_PER_PAGE * setup.pages as usize),
            rules,
            layout: setup.layout.clone().filter(|_| setup.settings.choice("numbers") == "disk"),
            members: Vec::new(),
            capacity: setup.capacity,
            page_size: setup.page_size,
            correlation_part,
            bank_part: setup.settings.part("bank"),
        };
        dulo.divide();
        dulo
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.inactive() + self.active.as_ref().map_or(0, Active::len)
    }

    fn ghosts(&self) -> u32 {
        self.adaptive.as_ref().map_or(0, Adaptive::ghosts)
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
        if let Some(adaptive) = &self.adaptive {
            adaptive.prefetch(page);
        }
    }

    fn hit(&mut self, reference: &Reference) {
        if let Some(adaptive) = &mut self.adaptive {
            let at = || lies(self.layout.as_deref(), reference.place);
            adaptive.reference(reference.page, at, (true, false), |page| self.slots.of(page).is_some());
        }
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        let block = &mut self.nodes[slot];
        match (block.at, &mut self.active) {
            (At::Active, _) => block.young = true,
            (_, Some(active)) => {
                take(&mut self.nodes, slot, &mut self.correlation, &mut self.bank, &mut self.eviction);
                active.push(&mut self.nodes, slot);
            }
            (At::Buffer, None) => self.correlation.move_to_front(&mut self.nodes, slot),
            (At::Bank | At::Eviction, None) => block.young = true,
        }
    }

    /// The order in which blocks are fetched is what sequences are formed from. So a block that is read ahead enters the stack at once.
    fn ranks_readahead(&self) -> bool {
        true
    }

    /// Linux's readahead sets no bit: this use does what the read of a missing page would have done.
    fn first_use<C: Caller>(&mut self, reference: &Reference, _: &mut C) {
        if self.active.is_none() {
            self.hit(reference);
        }
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        // Asked for now, it is known by the time that the block's sequence is formed.
        let at = lies(self.layout.as_deref(), reference.place);
        if let Some(adaptive) = &mut self.adaptive {
            let again = self.table.timestamps(reference.place).newest > 0;
            adaptive.reference(reference.page, || at, (false, again), |page| self.slots.of(page).is_some());
            let wanted = adaptive.buffer();
            let (least, most) = (self.correlation_max.saturating_sub(STEP), self.correlation_max.saturating_add(STEP));
            self.correlation_max = wanted.clamp(least, most);
        }
        let Place { object, block } = reference.place;
        self.table.record(reference.place);
        let slot = self.slots.give(reference.page);
        self.nodes[slot] = Block { block, object, ..Block::default() };
        self.enter(slot);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.forget(caller);
        }
        self.refill_inactive();
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
                let page = self.slots.take_back(slot);
                if !self.adaptive.as_mut().is_some_and(|adaptive| adaptive.evicted(page)) {
                    caller.forget(page);
                }
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
        let slot = self.slots.of(page);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.remove(page, slot.is_some());
        }
        let Some(slot) = slot else { return };
        match (self.nodes[slot].at, &mut self.active) {
            (At::Active, Some(active)) => active.remove(&mut self.nodes, slot),
            _ => take(&mut self.nodes, slot, &mut self.correlation, &mut self.bank, &mut self.eviction),
        }
        self.table.reset(self.place(slot));
        self.slots.take_back(slot);
    }

    fn discard(&mut self, object: u32, blocks: Range<u64>) {
        self.table.reset_all(object, blocks);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.set_capacity(capacity, |page| self.slots.of(page).is_some(), caller);
        }
        self.reserve(self.slots.pages());
        self.divide();
        self.settle();
    }

    fn reserve(&mut self, pages: u32) {
        self.slots.reserve(pages, u64::from(self.capacity));
        self.nodes.reserve(self.slots.end());
        self.table.limit(TABLE_BYTES_PER_PAGE * pages as usize);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.reserve(pages);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("correlation buffer", f64::from(self.correlation.len()));
        show("sequencing bank", f64::from(self.bank.len()));
        show("eviction section", f64::from(self.eviction.len()));
        if let Some(active) = &self.active {
            show("active list", f64::from(active.len()));
        }
        if let Some(adaptive) = &self.adaptive {
            show("seeks below LRU's, percent", adaptive.gain());
            show("ghosts", f64::from(adaptive.ghosts()));
        }
        show("inflation", self.eviction.inflation());
        show("mean sequence", self.eviction.mean_sequence());
    }

    fn bytes(&self) -> usize {
        let members = self.members.capacity() * size_of::<Member>();
        let adaptive = self.adaptive.as_ref().map_or(0, Adaptive::bytes);
        adaptive + self.slots.bytes() + self.nodes.bytes() + self.table.bytes() + self.eviction.bytes() + members
    }

    fn check_invariants(&self) {
        self.slots.check(self.len());
        self.correlation.check(&self.nodes);
        self.bank.check(&self.nodes);
        self.eviction.check(&self.nodes); // D1
        self.table.check();
        let staged = |list: &List, at| list.back_to_front(&self.nodes).all(|slot| self.nodes[slot].at == at);
        assert!(staged(&self.correlation, At::Buffer) && staged(&self.bank, At::Bank)); // D1
        assert!(self.active.is_some() || self.correlation.len() <= self.correlation_max); // D2
        if let Some(active) = &self.active {
            active.check(&self.nodes);
        }
        if let Some(adaptive) = &self.adaptive {
            adaptive.check(|page| self.slots.of(page).is_some());
        }
        assert!(self.correlation.back_to_front(&self.nodes).all(|page| !self.nodes[page].young)); // D2
        assert!(self.bank.len() < self.bank_max); // D3
        assert!(self.len() <= self.capacity);
    }
}

/// Where a block lies on its disk; as long as that is not known, where it lies in its file.
fn lies(layout: Option<&dyn Layout>, place: Place) -> Place {
    layout.and_then(|layout| layout.on_disk(place)).unwrap_or(place)
}

/// Takes a block out of the list that it is in, other than the active one.
fn take(nodes: &mut Nodes<Block>, slot: u32, correlation: &mut List, bank: &mut List, eviction: &mut Eviction) {
    match nodes[slot].at {
        At::Buffer => correlation.remove(nodes, slot),
        At::Bank => bank.remove(nodes, slot),
        At::Eviction => eviction.remove(nodes, slot),
        At::Active => unreachable!("it is in the active list"),
    }
}

impl Dulo {
    /// The blocks that are not in Linux's active list.
    fn inactive(&self) -> u32 {
        self.correlation.len() + self.bank.len() + self.eviction.len()
    }

    /// Sets the sizes of the buffer and the bank for the capacity.
    fn divide(&mut self) {
        let pages = |part: Part| part.pages(self.capacity, self.page_size);
        self.correlation_max = match (self.correlation_part, &self.adaptive) {
            (Some(part), _) => pages(part),
            (None, Some(adaptive)) => adaptive.buffer(),
            (None, None) => self.capacity - (f64::from(self.capacity) * SECTION_IN_LINUX).round() as u32,
        };
        self.bank_max = pages(self.bank_part).min(self.capacity / 2).max(1);
    }

    fn place(&self, slot: u32) -> Place {
        let Block { block, object, .. } = self.nodes[slot];
        Place { object, block }
    }

    /// A block enters at the top of the stack.
    fn enter(&mut self, slot: u32) {
        self.nodes[slot].at = At::Buffer;
        self.correlation.push_front(&mut self.nodes, slot);
        self.settle();
    }

    /// What the correlation buffer has too much of goes to the bank, and a full bank to the eviction section.
    fn settle(&mut self) {
        // Linux's inactive list has its eviction section first; what it lacks after activations is made up step by step.
        let (most, steps) = match &self.active {
            Some(_) => (self.inactive().saturating_sub(self.section()), STEP),
            None => (self.correlation_max, u32::MAX),
        };
        for _ in 0..self.correlation.len().saturating_sub(most).min(steps) {
            self.fill_bank();
            if self.bank.len() >= self.bank_max {
                self.refill();
            }
        }
        if self.bank.len() >= self.bank_max {
            self.refill();
        }
    }

    /// The pages that the correlation buffer leaves to the eviction section.
    fn section(&self) -> u32 {
        self.capacity - self.correlation_max
    }

    /// `refill_inactive_zone`: pages that have not been used lately come to the top of the inactive list.
    fn refill_inactive(&mut self) {
        let (inactive, section) = (self.inactive(), self.section());
        let due = self.active.as_mut().map_or(0, |active| active.due(inactive, section));
        for _ in 0..due {
            self.deactivate();
        }
    }

    fn deactivate(&mut self) {
        if let Some(slot) = self.active.as_mut().and_then(|active| active.pop(&mut self.nodes)) {
            self.enter(slot);
        }
    }

    /// The bottom block of the correlation buffer enters the bank.
    fn fill_bank(&mut self) {
        let slot = self.correlation.back().expect("the correlation buffer has a block");
        self.correlation.remove(&mut self.nodes, slot);
        self.nodes[slot].at = At::Bank;
        self.bank.push_front(&mut self.nodes, slot);
    }

    /// The bottom of the stack, in the eviction section.
    fn bottom(&mut self) -> Option<u32> {
        if self.inactive() == 0 {
            self.deactivate();
        }
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
            let (place, depth) = (self.place(slot), self.members.len() as u32);
            let (timestamps, place) = (self.table.timestamps(place), lies(self.layout.as_deref(), place));
            self.members.push(Member { slot, place, timestamps, depth, size: 0 });
        }
        self.rules.form(&mut self.members);
        for &Member { slot, size, .. } in &self.members {
            self.eviction.push(&mut self.nodes, slot, size);
        }
    }
}

#[cfg(test)]
mod tests;
