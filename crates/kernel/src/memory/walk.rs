//! The kernel's page tables, read by a BPF program: which pages of a process are there, and their reference bits.
//!
//! ```text
//!   Walk::look -> map: process, tables --run--> program: task -> mm -> table of the top level -> … -> table of the lowest level
//!                 map: status, entries <--------------------------------------------------------------- copied whole, 512 entries
//! ```
//!
//! An entry holds the physical address of the next table. The kernel sees all memory from some address on, its *direct map*, which a program may read: what is read
//! at a wrong address is no page table, or nothing, and no harm. Where the direct map begins is not told everywhere, so it is looked up: a table of this very process, of
//! whose pages a pattern at random is there, shows it only where the right address was tried.
//!
//! A table that goes while it is read makes one look wrong: the policy errs for a moment, and nothing else comes of it.
//! This is for x86-64, with tables of four levels (tried) or five (not tried).

use super::machine::{Machine, Process, Seen, TABLE, TABLES, Table, WORDS, advise_on};
use crate::bpf::assemble::Register::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use crate::bpf::assemble::{Assembler, Condition, Operation, Size};
use crate::bpf::btf::{Btf, BtfKind};
use crate::bpf::error::{DESCRIPTION, WatchError};
use crate::bpf::layout::{Layout, Missing};
use crate::bpf::system::{self, MAPPABLE, Map, MapKind, Shared, Use};
use crate::bpf::{helper, own};
use crate::steered::PAGE;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Tables that are looked at by one call.
const MANY: usize = 64;

/// Bytes of the map's value: what is asked, what was found, and the entries of each table.
mod at {
    use super::MANY;
    /// The process's number.
    pub(super) const PROCESS: i16 = 0;
    /// Where the direct map begins.
    pub(super) const DIRECT_MAP: i16 = 8;
    /// The memory's structure, as the program found it at its beginning and at its end, and its table of the top level.
    pub(super) const MEMORY: i16 = 16;
    pub(super) const MEMORY_AFTER: i16 = 24;
    pub(super) const TOP: i16 = 32;
    /// The addresses of the first pages; a 0 ends them. With [`NEXT`](super::NEXT) it is the table of the next level that is copied.
    pub(super) const ADDRESSES: i16 = 64;
    pub(super) const STATUS: i16 = ADDRESSES + 8 * MANY as i16;
    pub(super) const ENTRIES: i32 = 4096;
    pub(super) const BYTES: usize = ENTRIES as usize + MANY * 4096;
}

/// What the program says of a table.
mod status {
    pub(super) const COPIED: i32 = 0;
    pub(super) const ABSENT: i32 = 1;
    /// A huge page, whose entry is the only one copied.
    pub(super) const HUGE: i32 = 2;
}

/// Bits of an entry.
const PRESENT: u64 = 1;
const USED: u64 = 1 << 5;
const HUGE: i32 = 1 << 7;
/// Present, though the process may not use it now, as the kernel wants to see the next use.
const PROTECTED: u64 = 1 << 8;
/// No page of the process: it is the page of zeros, for example.
const SPECIAL: u64 = 1 << 9;

/// The lowest bit of an address that indexes the table of each level, from the top.
const LEVELS: [i32; 5] = [48, 39, 30, 21, 12];

/// A bit that no page's address has.
const NEXT: u64 = 1;

/// Offsets on the stack.
const ENTRY: i16 = -8;
const ADDRESS: i16 = -16;

/// Where the direct map begins if its address is not at random, with tables of four levels; and what it is a multiple of if it is.
const USUAL: u64 = 0xffff_8880_0000_0000;
const STEP: u64 = 1 << 30;
/// How far from its beginning a table may be: 4 TiB of memory.
const FARTHEST: u64 = 4 << 40;
/// Addresses from here on are the kernel's with tables of four levels.
const FOUR_LEVELS: u64 = 0xffff_8000_0000_0000;

/// The page tables of processes.
pub(crate) struct Walk {
    program: OwnedFd,
    map: Map,
    shared: Shared,
}

impl Walk {
    /// Loads the program, and finds the direct map.
    ///
    /// # Errors
    /// Missing rights, another machine than x86-64, a kernel without what is needed.
    pub(crate) fn start() -> Result<Self, WatchError> {
        if !cfg!(target_arch = "x86_64") {
            let what =
                "the reference bits of pages are read on x86-64 alone: on this machine `forebay run` pages programs";
            return Err(WatchError::Options(what.to_owned()));
        }
        let description = std::fs::read(DESCRIPTION).map_err(WatchError::NoDescription)?;
        let btf = Btf::parse(&description)?;
        let map = Map::create(MapKind::Array, "forebay_tables", [4, at::BYTES], 1, MAPPABLE)
            .map_err(|source| WatchError::system("a map for page tables cannot be made", source))?;
        let shared = Shared::map(&map, 0, at::BYTES, true)
            .map_err(|source| WatchError::system("a map for page tables cannot be mapped into memory", source))?;
        let mut walk = Self { program: load(&btf, &map, &LEVELS[1..])?, map, shared };
        let own = u32::try_from(own::process()?).unwrap_or(0);
        if own != std::process::id() {
            let what = "processes have other numbers here than the kernel's own: run this outside of PID namespaces";
            return Err(WatchError::Options(what.to_owned()));
        }
        walk.ask(own, &[]).map_err(|source| WatchError::system("a BPF program cannot be run", source))?;
        let top = walk.long(at::TOP);
        if top < FOUR_LEVELS {
            walk.program = load(&btf, &walk.map, &LEVELS)?;
        }
        walk.find_direct_map(own, top)?;
        Ok(walk)
    }

    /// Tries where the direct map begins.
    fn find_direct_map(&mut self, own: u32, top: u64) -> Result<(), WatchError> {
        let pattern =
            Pattern::new().map_err(|source| WatchError::system("memory to look for in page tables", source))?;
        let steps = (0..FARTHEST / STEP).map(|step| (top & !(STEP - 1)).wrapping_sub(step * STEP));
        for direct_map in [USUAL].into_iter().chain(steps) {
            self.set_long(at::DIRECT_MAP, direct_map);
            let ran = self.ask(own, &[first_of(pattern.table())]);
            ran.map_err(|source| WatchError::system("a BPF program cannot be run", source))?;
            if pattern.is(self.found(0)) {
                return Ok(());
            }
        }
        let what = "the page tables of this kernel are not where they are looked for. Please report this, with the kernel's version";
        Err(WatchError::Options(what.to_owned()))
    }

    /// Runs the program for at most [`MANY`] tables, by their addresses. `false`: the process has no memory, or another than before.
    fn ask(&mut self, process: u32, addresses: &[u64]) -> io::Result<bool> {
        self.set_long(at::PROCESS, process.into());
        let ends = if addresses.len() < MANY { Some(0) } else { None };
        let places = addresses.iter().copied().chain(ends).enumerate();
        places.for_each(|(place, address)| self.set_long(at::ADDRESSES + 8 * place as i16, address));
        system::run(self.program.as_fd())?;
        let (before, after) = (self.long(at::MEMORY), self.long(at::MEMORY_AFTER));
        Ok(before != 0 && before == after)
    }

    /// What the program has found of the table at a place of its list.
    fn found(&self, place: usize) -> Table {
        let entries = &self.shared.longs()[at::ENTRIES as usize / 8 + place * TABLE as usize..][..TABLE as usize];
        match i32::try_from(self.long(at::STATUS + 8 * place as i16)).unwrap_or(status::ABSENT) {
            status::COPIED => Table::Seen(seen(entries.iter().map(|entry| entry.load(Ordering::Relaxed)))),
            status::HUGE => {
                let young = entries[0].load(Ordering::Relaxed) & USED != 0;
                let young = if young { [u64::MAX; WORDS] } else { [0; WORDS] };
                Table::Seen(Seen { present: [u64::MAX; WORDS], young, out: [0; WORDS] })
            }
            _ => Table::Absent,
        }
    }

    fn long(&self, at: i16) -> u64 {
        self.shared.longs()[at as usize / 8].load(Ordering::Relaxed)
    }

    fn set_long(&self, at: i16, value: u64) {
        self.shared.longs()[at as usize / 8].store(value, Ordering::Relaxed);
    }
}

impl Machine for Walk {
    fn look(&mut self, process: &Process, tables: &[u64], show: &mut dyn FnMut(u64, Table)) -> io::Result<bool> {
        for some in tables.chunks(MANY) {
            let addresses: Vec<u64> = some.iter().map(|&table| first_of(table)).collect();
            if !self.ask(process.number, &addresses)? {
                return Ok(false);
            }
            some.iter().enumerate().for_each(|(place, &table)| show(table, self.found(place)));
        }
        Ok(true)
    }

    fn tables(
        &mut self,
        process: &Process,
        above: &[u64],
        show: &mut dyn FnMut(u64, [u64; WORDS]),
    ) -> io::Result<bool> {
        for some in above.chunks(MANY) {
            let addresses: Vec<u64> = some.iter().map(|&above| first_of(above * TABLES) | NEXT).collect();
            if !self.ask(process.number, &addresses)? {
                return Ok(false);
            }
            for (place, &above) in some.iter().enumerate() {
                if let Table::Seen(seen) = self.found(place) {
                    show(above, seen.present);
                }
            }
        }
        Ok(true)
    }

    fn cool(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()> {
        advise_on(process, pages, libc::MADV_COLD)
    }

    fn cool_all(&mut self, process: &Process) -> io::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", process.number), "1")
    }

    fn page_out(&mut self, process: &Process, pages: &[Range<u64>]) -> io::Result<()> {
        advise_on(process, pages, libc::MADV_PAGEOUT)
    }

    fn memory(&self) -> u64 {
        system::map_bytes(&self.map).unwrap_or(0)
    }
}

/// The address of a table's first page.
fn first_of(table: u64) -> u64 {
    table * TABLE * PAGE
}

/// What entries say.
fn seen(entries: impl Iterator<Item = u64>) -> Seen {
    let mut seen = Seen::default();
    for (page, entry) in entries.enumerate() {
        let (word, bit) = (page / 64, page % 64);
        let present = entry & (PRESENT | PROTECTED) != 0;
        let of_process = present && entry & SPECIAL == 0;
        seen.present[word] |= u64::from(of_process) << bit;
        seen.young[word] |= u64::from(of_process && entry & USED != 0) << bit;
        seen.out[word] |= u64::from(!present && entry != 0) << bit;
    }
    seen
}

fn load(btf: &Btf<'_>, map: &Map, levels: &[i32]) -> Result<OwnedFd, WatchError> {
    let layout = Layout::find(btf)?;
    let function = |name: &str| {
        let missing = || Missing::function(name, "6.2");
        btf.find(BtfKind::Function, name).ok_or_else(missing)
    };
    let functions = [function("bpf_task_from_pid")?, function("bpf_task_release")?];
    let mut asm = Assembler::default();
    assemble(&mut asm, &layout, functions, map.number(), levels);
    let code = asm.finish().expect("the program has all its labels, and is short");
    system::load_program("forebay_tables", &code, Use::CallsKernel)
        .map_err(|error| WatchError::refused("page tables", error))
}

/// The program. `R6` is the map's value, `R7` a table, `R8` the place in the list, `R9` the task.
fn assemble(asm: &mut Assembler, layout: &Layout, [find, release]: [u32; 2], map: i32, levels: &[i32]) {
    use Condition::{Above, Equal, NotEqual};
    use Operation::{Add, And, ShiftLeft, ShiftRight};
    let (end, done, again) = (asm.label(), asm.label(), asm.label());
    let (copy, absent, huge, say) = (asm.label(), asm.label(), asm.label(), asm.label());
    // value->memory = 0; task = bpf_task_from_pid(value->process); if (!task) return 0;
    asm.load_map_value(R6, map);
    asm.store_number(Size::Long, R6, at::MEMORY, 0);
    asm.load(Size::Word, R1, R6, at::PROCESS);
    asm.call_kernel(find);
    asm.jump_if(R0, Equal, 0, end);
    asm.set(R9, R0);
    // value->memory = task->mm; value->top = task->mm->pgd;
    asm.load(layout.task_memory.size, R1, R9, layout.task_memory.offset);
    asm.store(Size::Long, R6, at::MEMORY, R1);
    asm.jump_if(R1, Equal, 0, done);
    asm.load(layout.memory_tables.size, R1, R1, layout.memory_tables.offset);
    asm.store(Size::Long, R6, at::TOP, R1);
    // for (i = 0; i < MANY; i++) {
    asm.set(R8, 0);
    asm.place(again);
    asm.jump_if(R8, Above, MANY as i32 - 1, done);
    // address = value->addresses[i]; if (!address) break; table = value->top;
    asm.set(R1, R8);
    asm.calculate(ShiftLeft, R1, 3);
    asm.calculate(Add, R1, R6);
    asm.load(Size::Long, R1, R1, at::ADDRESSES);
    asm.jump_if(R1, Equal, 0, done);
    asm.store(Size::Long, R10, ADDRESS, R1);
    asm.load(Size::Long, R7, R6, at::TOP);
    let (lowest, upper) = levels.split_last().expect("there are levels");
    for (&shift, below) in upper.iter().zip(upper.iter().skip(1).chain([lowest])) {
        asm.load(Size::Long, R3, R10, ADDRESS);
        if below == lowest {
            // if (address & NEXT) goto copy;
            asm.set(R1, R3);
            asm.calculate(And, R1, NEXT as i32);
            asm.jump_if(R1, NotEqual, 0, copy);
        }
        // bpf_probe_read_kernel(&entry, 8, table + (address >> shift & 511) * 8)
        asm.calculate(ShiftRight, R3, shift);
        asm.calculate(And, R3, TABLE as i32 - 1);
        asm.calculate(ShiftLeft, R3, 3);
        asm.calculate(Add, R3, R7);
        asm.set(R1, R10);
        asm.calculate(Add, R1, i32::from(ENTRY));
        asm.set(R2, 8);
        asm.call(helper::READ_KERNEL);
        // if (failed || !(entry & PRESENT)) goto absent; if (entry & HUGE) goto huge;
        asm.jump_if(R0, NotEqual, 0, absent);
        asm.load(Size::Long, R7, R10, ENTRY);
        asm.set(R1, R7);
        asm.calculate(And, R1, PRESENT as i32);
        asm.jump_if(R1, Equal, 0, absent);
        asm.set(R1, R7);
        asm.calculate(And, R1, HUGE);
        // A page of a GiB is not the policy's.
        asm.jump_if(R1, NotEqual, 0, if below == lowest { huge } else { absent });
        // table = (entry & 0x000ffffffffff000) + value->direct_map;
        asm.calculate(ShiftLeft, R7, 12);
        asm.calculate(ShiftRight, R7, 24);
        asm.calculate(ShiftLeft, R7, 12);
        asm.load(Size::Long, R1, R6, at::DIRECT_MAP);
        asm.calculate(Add, R7, R1);
    }
    // copy: if (bpf_probe_read_kernel(value->entries[i], 4096, table)) goto absent; status = COPIED; goto say;
    asm.place(copy);
    asm.set(R1, R8);
    asm.calculate(ShiftLeft, R1, 12);
    asm.calculate(Add, R1, R6);
    asm.calculate(Add, R1, at::ENTRIES);
    asm.set(R2, 4096);
    asm.set(R3, R7);
    asm.call(helper::READ_KERNEL);
    asm.jump_if(R0, NotEqual, 0, absent);
    asm.set(R1, status::COPIED);
    asm.jump(say);
    // huge: value->entries[i][0] = entry; status = HUGE; goto say;
    asm.place(huge);
    asm.set(R1, R8);
    asm.calculate(ShiftLeft, R1, 12);
    asm.calculate(Add, R1, R6);
    asm.calculate(Add, R1, at::ENTRIES);
    asm.store(Size::Long, R1, 0, R7);
    asm.set(R1, status::HUGE);
    asm.jump(say);
    asm.place(absent);
    asm.set(R1, status::ABSENT);
    // say: value->status[i] = status; }
    asm.place(say);
    asm.set(R2, R8);
    asm.calculate(ShiftLeft, R2, 3);
    asm.calculate(Add, R2, R6);
    asm.store(Size::Long, R2, at::STATUS, R1);
    asm.calculate(Add, R8, 1);
    asm.jump(again);
    // value->memory_after = task->mm; bpf_task_release(task); return 0;
    asm.place(done);
    asm.load(layout.task_memory.size, R1, R9, layout.task_memory.offset);
    asm.store(Size::Long, R6, at::MEMORY_AFTER, R1);
    asm.set(R1, R9);
    asm.call_kernel(release);
    asm.place(end);
    asm.set(R0, 0);
    asm.exit();
}

/// A table of this process, of whose pages a pattern at random is there.
struct Pattern {
    address: *mut libc::c_void,
    present: [u64; WORDS],
}

impl Pattern {
    /// Bytes that are mapped: a whole table lies in them.
    const BYTES: usize = 2 * TABLE as usize * PAGE as usize;

    fn new() -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses an address that nothing else uses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let random = RandomState::new();
        let pattern = Self { address, present: std::array::from_fn(|word| random.hash_one(word)) };
        // SAFETY: the mapping is this value's, and as long. A huge page would be there as a whole.
        unsafe { libc::madvise(address, Self::BYTES, libc::MADV_NOHUGEPAGE) };
        let first = pattern.table() * TABLE * PAGE;
        for page in (0..TABLE).filter(|page| pattern.present[*page as usize / 64] >> (page % 64) & 1 == 1) {
            let byte = std::ptr::with_exposed_provenance_mut::<u8>((first + page * PAGE) as usize);
            // SAFETY: it lies in the mapping, in which a whole table lies, and nobody else has it.
            unsafe { byte.write_volatile(1) };
        }
        Ok(pattern)
    }

    /// The first whole table in the mapping.
    fn table(&self) -> u64 {
        (self.address.expose_provenance() as u64 / PAGE).div_ceil(TABLE)
    }

    fn is(&self, table: Table) -> bool {
        matches!(table, Table::Seen(seen) if seen.present == self.present)
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing refers to it.
        unsafe { libc::munmap(self.address, Self::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_what_is_there() {
        let mut entries = [0; TABLE as usize];
        entries[0] = PRESENT;
        entries[1] = PRESENT | USED;
        entries[64] = PROTECTED | USED;
        entries[65] = 0xdead << 12;
        entries[511] = PRESENT | USED | SPECIAL;
        let seen = seen(entries.into_iter());
        assert_eq!((seen.present[0], seen.young[0], seen.out[0]), (0b11, 0b10, 0));
        assert_eq!((seen.present[1], seen.young[1], seen.out[1]), (1, 1, 0b10));
        assert_eq!((seen.present[7], seen.young[7], seen.out[7]), (0, 0, 0));
    }

    /// What a look at this very process shows of one of its tables.
    fn own(walk: &mut Walk, process: &Process, table: u64) -> Seen {
        let mut found = None;
        let look = walk.look(process, &[table], &mut |_, table| found = Some(table));
        assert!(look.expect("it may look"), "this process has memory");
        if let Some(Table::Seen(seen)) = found { seen } else { Seen::default() }
    }

    #[test]
    fn pages_are_seen_as_they_come_are_used_and_leave() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI skips nothing: page tables are read by root");
            let said = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: page tables are read by root\n");
            return said.expect("standard error can be written to");
        }
        let mut walk = Walk::start().expect("a walk");
        let number = u32::try_from(own::process().expect("a number")).expect("a process's");
        let held = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        let process = Process { number, held: Some(held.expect("a descriptor")) };
        let pattern = Pattern::new().expect("memory");
        let (table, first) = (pattern.table(), pattern.table() * TABLE);
        let seen = own(&mut walk, &process, table);
        assert_eq!((seen.present, seen.young), (pattern.present, pattern.present));
        walk.cool(&process, std::slice::from_ref(&(first..first + TABLE))).expect("it may");
        let seen = own(&mut walk, &process, table);
        assert_eq!((seen.present, seen.young), (pattern.present, [0; WORDS]));
        let used = (0..TABLE).find(|page| pattern.present[*page as usize / 64] >> (page % 64) & 1 == 1).expect("one");
        let address = ((first + used) * PAGE) as usize;
        // SAFETY: it lies in the pattern's mapping, which is there until the end of this test.
        assert_eq!(unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }, 1);
        let used = own(&mut walk, &process, table).young;
        walk.cool_all(&process).expect("it may");
        assert_eq!(own(&mut walk, &process, table).young, [0; WORDS]);
        assert_eq!(used.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
        let shown = |walk: &mut Walk, above: u64| {
            let mut tables = Vec::new();
            let looked = walk.tables(&process, &[above], &mut |above, there| tables.push((above, there)));
            assert!(looked.expect("it may look"), "this process has memory");
            tables
        };
        let (above, in_above) = (table / TABLES, (table % TABLES) as usize);
        let [(which, there)] = shown(&mut walk, above)[..] else { panic!("one was asked for") };
        assert!(which == above && there[in_above / 64] >> (in_above % 64) & 1 == 1);
        assert_eq!(shown(&mut walk, 0x7f00_0000_0000 / PAGE / TABLE / TABLES / 2), [], "nothing is there");
        let nobody = Process { number: 0x7fff_fffe, held: None };
        assert!(!walk.look(&nobody, &[table], &mut |_, _| ()).expect("it may look"));
        assert!(walk.memory() > 0);
    }
}
