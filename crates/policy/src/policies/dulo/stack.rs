//! DULO's stack: the correlation buffer, the sequencing bank and the eviction section, and Linux's active list above them with `base=linux`.

use super::active::Active;
use super::block_table::{BlockTable, Timestamps};
use super::eviction::Eviction;
use super::sequence::{Member, Rules};
use crate::drawing::{Drawing, Drawn, QUEUE};
use crate::layout::Layout;
use crate::parts::list::{List, Nodes};
use crate::parts::slots::PageSlots;
use forebay_basis::Place;
use std::sync::Arc;

/// By how many blocks the correlation buffer's limit changes at a miss, or Linux's inactive list is made longer: so that no step is long.
pub(super) const STEP: u32 = 64;

/// In which list a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum At {
    #[default]
    Buffer,
    Bank,
    Eviction,
    Active,
}

/// What is known of a block while it is resident.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Its number, and the disk or file that this is in: what it is known by, whatever its file's layout.
    pub(super) block: u64,
    pub(super) object: u32,
    /// When it was fetched.
    pub(super) timestamps: Timestamps,
    /// How many blocks its sequence has, in the eviction section.
    pub(super) size: u16,
    pub(super) at: At,
    pub(super) young: bool,
    /// Its sequence's, in the eviction section.
    pub(super) h: f64,
    /// When it entered the eviction section, counted in blocks.
    pub(super) entered: u64,
}

/// What is known of the disk: when blocks were fetched, and where files lie.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) table: BlockTable,
    pub(super) layout: Option<Arc<dyn Layout>>,
}

impl Disk {
    /// Where a block lies on its disk; as long as that is not known, where it lies in its file.
    pub(super) fn lies(&self, place: Place) -> Place {
        self.layout.as_deref().and_then(|layout| layout.on_disk(place)).unwrap_or(place)
    }
}

/// DULO's stack: `capacity` frames, in three lists, or four with Linux's active one.
#[derive(Debug)]
pub(super) struct Stack {
    /// The resident pages have one, which is their number in all that follows.
    slots: PageSlots,
    /// D1. A block is in `correlation`, `bank`, `eviction` or the active list if and only if it is resident, as `at` says. The bottom of each
    /// is its back.
    nodes: Nodes<Block>,
    /// D2. At most `correlation_max`, but that Linux's inactive list shrinks under it; none of them young, but pages of processes.
    correlation: List,
    /// D3. Fewer than `bank_max`.
    pub(super) bank: List,
    pub(super) eviction: Eviction,
    /// With `base=linux`.
    pub(super) active: Option<Active>,
    rules: Rules,
    pub(super) correlation_max: u32,
    bank_max: u32,
    /// The bank while it is sequenced, kept lest that allocate.
    members: Vec<Member>,
    capacity: u32,
}

impl Stack {
    /// A stack for pages with numbers below `pages`.
    pub(super) fn new(pages: u32, capacity: u32, rules: Rules, active: Option<Active>) -> Self {
        let slots = PageSlots::new(pages, u64::from(capacity));
        Self {
            nodes: Nodes::new(slots.end()),
            slots,
            correlation: List::new(),
            bank: List::new(),
            eviction: Eviction::new(rules.longest, rules.prices),
            active,
            rules,
            correlation_max: 0,
            bank_max: 1,
            members: Vec::new(),
            capacity,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.inactive() + self.active.as_ref().map_or(0, Active::len)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == self.capacity
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some()
    }

    pub(super) fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        self.slots.reserve(pages, u64::from(self.capacity));
        self.nodes.reserve(self.slots.end());
    }

    pub(super) fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.reserve(self.slots.pages());
    }

    /// Sets the limits of the buffer and the bank. Lists that are too long become shorter in [`settle`](Self::settle).
    pub(super) fn divide(&mut self, correlation_max: u32, bank_max: u32) {
        (self.correlation_max, self.bank_max) = (correlation_max, bank_max);
    }

    /// Moves the buffer's limit to `wanted` pages: down by [`STEP`] at most, up at once. A larger buffer fills with the blocks that enter while the section drains.
    pub(super) fn approach(&mut self, wanted: u32) {
        self.correlation_max = wanted.max(self.correlation_max.saturating_sub(STEP));
    }

    pub(super) fn hit(&mut self, page: u32) {
        let slot = self.slots.of(page).expect("a hit is of a resident page");
        let block = &mut self.nodes[slot];
        match (block.at, &mut self.active) {
            (At::Active, _) => block.young = true,
            (_, Some(active)) if active.by_calls => {
                take(&mut self.nodes, slot, &mut self.correlation, &mut self.bank, &mut self.eviction);
                active.push(&mut self.nodes, slot);
            }
            (At::Buffer, None) => self.correlation.move_to_front(&mut self.nodes, slot),
            _ => block.young = true,
        }
    }

    /// When a resident page was fetched.
    pub(super) fn timestamps(&self, page: u32) -> Timestamps {
        self.slots.of(page).map(|slot| self.nodes[slot].timestamps).unwrap_or_default()
    }

    /// The clock is set back.
    pub(super) fn set_clock_back(&mut self) {
        (0..self.slots.end()).for_each(|slot| self.nodes[slot].timestamps.set_back());
    }

    /// A page enters, for which there is room.
    pub(super) fn admit(&mut self, page: u32, at: Place, timestamps: Timestamps, disk: &Disk) {
        let slot = self.slots.give(page);
        self.nodes[slot] = Block { block: at.block, object: at.object, timestamps, ..Block::default() };
        self.enter(slot, disk);
    }

    /// Evicts the first page that is not refused. Returns the page and where it lies.
    pub(super) fn evict(&mut self, disk: &Disk, mut offer: impl FnMut(u32) -> bool) -> Option<(u32, Place)> {
        self.refill_inactive(disk);
        let drains = self.active.is_none() && self.eviction.len() > self.section();
        self.eviction.set_drains(&self.nodes, drains);
        let mut refused = List::new();
        let mut evicted = None;
        // Ends: each turn takes a mark or a block from the stack.
        while let Some(slot) = self.bottom(disk) {
            let Block { young, h, .. } = self.nodes[slot];
            self.eviction.remove(&mut self.nodes, slot);
            if young {
                self.nodes[slot].young = false;
                match &mut self.active {
                    Some(active) => active.push(&mut self.nodes, slot),
                    None => self.enter(slot, disk),
                }
            } else if offer(self.slots.page(slot)) {
                self.eviction.inflate(&mut self.nodes, h);
                evicted = Some((self.slots.take_back(slot), self.place(slot)));
                break;
            } else {
                refused.push_front(&mut self.nodes, slot);
            }
        }
        while let Some(slot) = refused.back() {
            refused.remove(&mut self.nodes, slot);
            self.enter(slot, disk);
        }
        evicted
    }

    /// Drops a page. Returns where it lies, if it is in the stack.
    pub(super) fn remove(&mut self, page: u32) -> Option<Place> {
        let slot = self.slots.of(page)?;
        match (self.nodes[slot].at, &mut self.active) {
            (At::Active, Some(active)) => active.remove(&mut self.nodes, slot),
            _ => take(&mut self.nodes, slot, &mut self.correlation, &mut self.bank, &mut self.eviction),
        }
        self.slots.take_back(slot);
        Some(self.place(slot))
    }

    pub(super) fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("correlation buffer", f64::from(self.correlation.len()));
        show("sequencing bank", f64::from(self.bank.len()));
        show("eviction section", f64::from(self.eviction.len()));
        if let Some(active) = &self.active {
            show("active list", f64::from(active.len()));
        }
        show("inflation", self.eviction.inflation());
        show("mean sequence", self.eviction.mean_sequence());
    }

    pub(super) fn draw(&self, drawing: &mut Drawing) {
        let ends = ["top", "bottom"];
        let drawn = |slot| Drawn::resident(self.slots.page(slot)).bit("young mark", self.nodes[slot].young);
        if let Some(active) = &self.active {
            drawing.row("active list", QUEUE, active.pages(&self.nodes).map(drawn));
        }
        drawing.row("correlation buffer", ends, self.correlation.front_to_back(&self.nodes).map(drawn));
        drawing.row("sequencing bank", ends, self.bank.front_to_back(&self.nodes).map(drawn));
        let in_section = |slot| {
            let Block { size, h, .. } = self.nodes[slot];
            drawn(slot).number("sequence of", size).number("H", h)
        };
        let section = self.eviction.in_order(&self.nodes).into_iter().rev();
        drawing.row("eviction section", ends, section.map(in_section));
        drawing.number("L", self.eviction.inflation());
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.nodes.bytes() + self.eviction.bytes() + self.members.capacity() * size_of::<Member>()
    }

    pub(super) fn check(&self) {
        self.slots.check(self.len());
        self.correlation.check(&self.nodes);
        self.bank.check(&self.nodes);
        self.eviction.check(&self.nodes); // D1
        let staged = |list: &List, at| list.back_to_front(&self.nodes).all(|slot| self.nodes[slot].at == at);
        assert!(staged(&self.correlation, At::Buffer) && staged(&self.bank, At::Bank)); // D1
        assert!(self.active.is_some() || self.correlation.len() <= self.correlation_max); // D2
        if let Some(active) = &self.active {
            active.check(&self.nodes);
        }
        let of_processes = self.active.as_ref().is_some_and(|active| !active.by_calls);
        assert!(of_processes || self.correlation.back_to_front(&self.nodes).all(|page| !self.nodes[page].young)); // D2
        assert!(self.bank.len() < self.bank_max); // D3
        assert!(self.len() <= self.capacity);
    }

    /// The blocks that are not in Linux's active list.
    pub(super) fn inactive(&self) -> u32 {
        self.correlation.len() + self.bank.len() + self.eviction.len()
    }

    fn place(&self, slot: u32) -> Place {
        let Block { block, object, .. } = self.nodes[slot];
        Place { object, block }
    }

    /// A block enters at the top.
    fn enter(&mut self, slot: u32, disk: &Disk) {
        self.nodes[slot].at = At::Buffer;
        self.correlation.push_front(&mut self.nodes, slot);
        self.settle(disk);
    }

    /// What the correlation buffer has too much of goes to the bank, and a full bank to the eviction section.
    pub(super) fn settle(&mut self, disk: &Disk) {
        // Linux's inactive list has its eviction section first; what it lacks after activations is made up step by step.
        let (most, steps) = match &self.active {
            Some(_) => (self.inactive().saturating_sub(self.section()), STEP),
            None => (self.correlation_max, u32::MAX),
        };
        for _ in 0..self.correlation.len().saturating_sub(most).min(steps) {
            self.fill_bank();
            if self.bank.len() >= self.bank_max {
                self.refill(disk);
            }
        }
        if self.bank.len() >= self.bank_max {
            self.refill(disk);
        }
    }

    /// The pages that the correlation buffer leaves to the eviction section.
    fn section(&self) -> u32 {
        self.capacity - self.correlation_max
    }

    /// `refill_inactive_zone`: pages that have not been used lately come to the top of the inactive list.
    fn refill_inactive(&mut self, disk: &Disk) {
        let (inactive, section) = (self.inactive(), self.section());
        let due = self.active.as_mut().map_or(0, |active| active.due(inactive, section));
        for _ in 0..due {
            self.deactivate(disk);
        }
    }

    fn deactivate(&mut self, disk: &Disk) {
        if let Some(slot) = self.active.as_mut().and_then(|active| active.pop(&mut self.nodes)) {
            self.enter(slot, disk);
        }
    }

    /// The bottom block of the correlation buffer enters the bank.
    fn fill_bank(&mut self) {
        let slot = self.correlation.back().expect("the correlation buffer has a block");
        self.correlation.remove(&mut self.nodes, slot);
        self.nodes[slot].at = At::Bank;
        self.bank.push_front(&mut self.nodes, slot);
    }

    /// The bottom, in the eviction section.
    fn bottom(&mut self, disk: &Disk) -> Option<u32> {
        if self.inactive() == 0 {
            self.deactivate(disk);
        }
        if self.eviction.len() == 0 {
            if self.bank.is_empty() && !self.correlation.is_empty() {
                self.fill_bank();
            }
            self.refill(disk);
        }
        self.eviction.bottom()
    }

    /// Refills the eviction section with the bank's blocks, in sequences.
    fn refill(&mut self, disk: &Disk) {
        self.members.clear();
        self.members.reserve_exact(self.bank.len() as usize);
        while let Some(slot) = self.bank.back() {
            self.bank.remove(&mut self.nodes, slot);
            let (place, depth) = (self.place(slot), self.members.len() as u32);
            let timestamps = self.nodes[slot].timestamps;
            self.members.push(Member { slot, place: disk.lies(place), timestamps, depth, size: 0 });
        }
        self.rules.form(&mut self.members);
        for &Member { slot, size, .. } in &self.members {
            self.eviction.push(&mut self.nodes, slot, size);
        }
    }
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
