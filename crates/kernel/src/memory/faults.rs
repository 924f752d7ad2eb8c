//! Page faults, seen by a BPF program: which process has asked for which page, in order.
//!
//! The program is at the tracepoints of x86's page faults: those of programs, and those of the kernel where it reads or writes a program's memory for it. It knows the
//! control groups whose processes count. What comes into memory in another way is left to the next look: by direct I/O into it, for example, or by another process.

use crate::bpf::assemble::Register::{R0, R1, R2, R3, R6, R10};
use crate::bpf::assemble::{Assembler, Condition, Operation, Size};
use crate::bpf::btf::Btf;
use crate::bpf::error::{DESCRIPTION, WatchError};
use crate::bpf::groups::Groups;
use crate::bpf::helper;
use crate::bpf::layout::{Layout, Target};
use crate::bpf::ring::Ring;
use crate::bpf::system::{self, Attachment, MAPPABLE, Map, MapKind, Shared, Use};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Control groups that are known at most: those unused longest are forgotten, and told anew.
const MOST_GROUPS: u32 = 4096;
/// Bytes of the ring: 43,000 faults, as a program makes in a tenth of a second at the most. A program with little memory makes them
/// as fast, but the look that follows a loss is short there: so a quarter of that is enough.
const RING: RangeInclusive<u64> = 256 << 10..=1 << 20;
/// A part of the size in this many is within these.
const RING_PART: u64 = 256;
/// Bytes of a record: the address; thread and process.
const RECORD: usize = 16;

/// Offsets on the stack.
const GROUP: i16 = -8;
const ADDRESS: i16 = -16;

/// Those of programs, which must be seen, and those of the kernel.
const OF_PROGRAMS: Target = Target { name: "page_fault_user", takes: &[], since: "5.5, on x86" };
const OF_KERNEL: Target = Target { name: "page_fault_kernel", takes: &[], since: "5.5, on x86" };

/// Pages from here on are the kernel's own.
const MOST_PAGES: u64 = 1 << 44;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) process: u32,
    /// The page's number: its address divided by the size of pages.
    pub(crate) page: u64,
}

/// The faults of the processes of control groups. Dropping it detaches the program.
pub(crate) struct Faults {
    programs: Vec<OwnedFd>,
    _attached: Vec<OwnedFd>,
    groups: Map,
    ring_map: Map,
    lost: Shared,
    /// The reader's position, and behind it the program's position and the data.
    reader: Shared,
    data: Shared,
}

impl Faults {
    /// Attaches the program. No group is known yet.
    ///
    /// # Errors
    /// Missing rights, or a kernel without what is needed.
    pub(crate) fn start(size: u64, by: impl FnOnce(&Layout) -> Result<Groups, WatchError>) -> Result<Self, WatchError> {
        let ring = 1_u32 << (size / RING_PART).clamp(*RING.start(), *RING.end()).ilog2();
        let description = std::fs::read(DESCRIPTION).map_err(WatchError::NoDescription)?;
        let btf = Btf::parse(&description)?;
        let layout = Layout::find(&btf)?;
        let groups_by = by(&layout)?;
        let made = |made: io::Result<Map>| {
            made.map_err(|source| WatchError::system("a map for page faults cannot be made", source))
        };
        let groups = made(Map::create(MapKind::LruHash, "forebay_groups", [8, 4], MOST_GROUPS, 0))?;
        let lost_map = made(Map::create(MapKind::Array, "forebay_lost", [4, 8], 1, MAPPABLE))?;
        let ring_map = made(Map::create(MapKind::Ring, "forebay_faults", [0, 0], ring, 0))?;
        let page = system::page_bytes();
        let memory = |map, offset, bytes, writable| {
            Shared::map(map, offset, bytes, writable)
                .map_err(|source| WatchError::system("a map for page faults cannot be mapped into memory", source))
        };
        let mut asm = Assembler::default();
        assemble(&mut asm, &layout, groups_by, [groups.number(), ring_map.number(), lost_map.number()]);
        let code = asm.finish().expect("the program has all its labels, and is short");
        let attach = |target: Target| -> Result<(OwnedFd, OwnedFd), WatchError> {
            let id = target.tracepoint(&btf)?;
            let program = system::load_program(target.name, &code, Use::Attached(Attachment::Tracepoint, id))
                .map_err(|error| WatchError::refused(target.name, error))?;
            let attached = system::attach(program.as_fd())
                .map_err(|source| WatchError::refused(target.name, (source, String::new())))?;
            Ok((program, attached))
        };
        // Without those of the kernel, what it brings is found by the next look.
        let of_kernel = attach(OF_KERNEL).inspect_err(|error| tracing::debug!("{error}")).ok();
        let (programs, attached) = [attach(OF_PROGRAMS)?].into_iter().chain(of_kernel).unzip();
        Ok(Self {
            programs,
            _attached: attached,
            lost: memory(&lost_map, 0, page, true)?,
            reader: memory(&ring_map, 0, page, true)?,
            data: memory(&ring_map, page, page + ring as usize, false)?,
            groups,
            ring_map,
        })
    }

    /// The processes of a control group count from now on, by the group's number.
    ///
    /// # Errors
    /// The system has no memory.
    pub(crate) fn follow(&self, group: u64) -> io::Result<()> {
        self.groups.update(&group.to_ne_bytes(), &[1, 0, 0, 0])
    }

    /// Takes at most `most` faults, in order, without waiting for any. Returns how many there were.
    pub(crate) fn drain(&mut self, most: usize, each: &mut dyn FnMut(Fault)) -> usize {
        let (produced, data) = self.data.longs().split_at(system::page_bytes() / 8);
        let ring = Ring { consumed: &self.reader.longs()[0], produced: &produced[0], data };
        ring.drain(most, &mut |record: &[u8; RECORD]| {
            let (address, ids) = record.split_at(8);
            let long = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
            let fault = Fault { process: (long(ids) >> 32) as u32, page: long(address) / crate::steered::PAGE };
            if fault.page < MOST_PAGES {
                each(fault);
            }
        })
    }

    /// Faults that found the ring full, or came while the program ran on the same processor.
    pub(crate) fn lost(&self) -> u64 {
        let full = self.lost.longs()[0].load(Ordering::Relaxed);
        let left_out = |program: &OwnedFd| system::left_out(program.as_fd()).ok();
        self.programs.iter().filter_map(left_out).fold(full, u64::saturating_add)
    }

    /// Bytes of memory that the maps and the ring take.
    pub(crate) fn memory(&self) -> u64 {
        [&self.groups, &self.ring_map].into_iter().filter_map(|map| system::map_bytes(map).ok()).sum()
    }
}

/// `page_fault_user(unsigned long address, …)`, and the same of the kernel.
fn assemble(asm: &mut Assembler, layout: &Layout, groups_by: Groups, [groups, ring, lost]: [i32; 3]) {
    let (end, full) = (asm.label(), asm.label());
    asm.load(Size::Long, R2, R1, 0);
    asm.store(Size::Long, R10, ADDRESS, R2);
    // if (!bpf_map_lookup_elem(&groups, &group)) return 0;
    groups_by.number(asm, layout, GROUP);
    asm.load_map(R1, groups);
    asm.set(R2, R10);
    asm.calculate(Operation::Add, R2, i32::from(GROUP));
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(R0, Condition::Equal, 0, end);
    // fault = bpf_ringbuf_reserve(&ring, sizeof *fault, 0); if (!fault) goto full;
    asm.load_map(R1, ring);
    asm.set(R2, RECORD as i32);
    asm.set(R3, 0);
    asm.call(helper::RING_RESERVE);
    asm.jump_if(R0, Condition::Equal, 0, full);
    asm.set(R6, R0);
    // fault->address = address; fault->ids = bpf_get_current_pid_tgid(); bpf_ringbuf_submit(fault, BPF_RB_NO_WAKEUP); return 0;
    asm.load(Size::Long, R1, R10, ADDRESS);
    asm.store(Size::Long, R6, 0, R1);
    asm.call(helper::CURRENT_PROCESS);
    asm.store(Size::Long, R6, 8, R0);
    asm.set(R1, R6);
    asm.set(R2, helper::NO_WAKE_UP);
    asm.call(helper::RING_SUBMIT);
    asm.jump(end);
    // full: __sync_fetch_and_add(&lost, 1); return 0;
    asm.place(full);
    asm.load_map_value(R1, lost);
    asm.set(R2, 1);
    asm.add_atomically(R1, 0, R2);
    asm.place(end);
    asm.set(R0, 0);
    asm.exit();
}
