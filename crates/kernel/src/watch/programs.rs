//! The programs that run in the kernel. Beside each piece stands the C that it is.
//!
//! All end in [`Writer::put`], which decides whether anybody wants to know, and writes the event. What it needs lies in registers:
//! `R6` the inode, `R7` the first page, `R8` the number of pages.

use super::event::{JUDGED, Kind, OWN, PROGRAM, RECLAIM, RECORD, field};
use crate::bpf::assemble::{AssembleError, Assembler, Condition, Instruction, Label, Operation, Register, Size};
use crate::bpf::groups::Groups;
use crate::bpf::helper;
use crate::bpf::layout::{Field, Layout, Target};
use crate::bpf::system::Attachment;
use Condition::{Above, AtLeastSigned, AtMost, Equal, NotEqual};
use Operation::{Add, And, Or, ShiftLeft, ShiftRight, ShiftRightSigned, Subtract, Xor};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// Bytes in the value of the settings' map, by which the daemon tells the programs what it wants.
pub(super) mod setting {
    /// `u32`: verdicts of files count that have this era.
    pub(crate) const FILES_ERA: i16 = 0;
    /// `u32`: the same, of groups.
    pub(crate) const GROUPS_ERA: i16 = 4;
    /// `u32` each: the file systems whose files are candidates. A 0 ends the list; `NO_DEVICE` is passed.
    pub(crate) const DEVICES: i16 = 8;
    /// `u64`: events that found the ring full. It lies in a cache line of its own.
    pub(crate) const LOST: i16 = 128;
    /// Bytes of the value.
    pub(crate) const BYTES: usize = 136;
}

/// The last read on each processor, in the only value of a map. Processors whose numbers differ by 64 share one.
pub(super) mod last_read {
    /// Bytes of one, as a power of two: it has a cache line of its own.
    pub(super) const SHIFT: i32 = 6;
    /// How many there are: a power of two.
    pub(super) const PLACES: i32 = 64;
    /// Bytes of all.
    pub(crate) const BYTES: usize = (PLACES as usize) << SHIFT;
    /// Process and thread, the inode's address, the first and the last page.
    pub(super) const THREAD: i16 = 0;
    pub(super) const INODE: i16 = 8;
    pub(super) const FIRST: i16 = 16;
    pub(super) const LAST: i16 = 24;
}

/// How many file systems can be followed.
pub(super) const MOST_DEVICES: usize = 16;

/// Bytes of a key and of a value of the map of files: inode, device, padding; generation, era and verdict.
pub(super) const FILE_ENTRY: [usize; 2] = [16, 8];
/// The same of the map of groups: number; era and verdict.
pub(super) const GROUP_ENTRY: [usize; 2] = [8, 4];

/// The lowest bit of an era with a verdict: followed, not ignored.
pub(super) const FOLLOWED: u32 = 1;

/// Offsets on the stack.
mod stack {
    /// The key of the map of files.
    pub(super) const KEY: i16 = -16;
    pub(super) const KEY_DEVICE: i16 = -8;
    pub(super) const KEY_PADDING: i16 = -4;
    pub(super) const FLAGS: i16 = -24;
    pub(super) const GROUP: i16 = -32;
    pub(super) const GENERATION: i16 = -40;
    pub(super) const ORDER: i16 = -48;
    pub(super) const POSITION: i16 = -56;
}

const FILE_TYPE: i32 = 0o170000;
const REGULAR: i32 = 0o100000;
/// `PF_MEMALLOC` of a task: it frees memory just now.
const RECLAIMS: i32 = 0x800;

/// Whether a watch works without a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    Required,
    Optional,
    /// It sees reads: the first of the list that can be attached is used, and one must be.
    Reads,
    /// It sees what the program of this name does not, and is attached if that is.
    Beside(&'static str),
}

/// A program, and what it is attached to.
pub(super) struct Program {
    pub(super) attachment: Attachment,
    pub(super) target: Target,
    pub(super) need: Need,
    write: fn(&mut Writer<'_>),
}

/// Sees reads exactly: the open file, too.
const FILEMAP_READ: &str = "filemap_read";
/// Sees reads, where programs may not be attached to functions. [`super::repeats`] drops what it sees twice.
pub(super) const FILEMAP_GET_PAGES: &str = "mm_filemap_get_pages";

const READ: &[&str] = &["kiocb", "iov_iter"];
const FOLIO: &[&str] = &["folio"];
const MAPPING: &[&str] = &["address_space"];

/// A program at the entry of a function.
const fn function(
    name: &'static str,
    takes: &'static [&'static str],
    since: &'static str,
    need: Need,
    write: fn(&mut Writer<'_>),
) -> Program {
    Program { attachment: Attachment::FunctionEntry, target: Target { name, takes, since }, need, write }
}

/// A program at a tracepoint.
const fn tracepoint(
    name: &'static str,
    takes: &'static [&'static str],
    since: &'static str,
    need: Need,
    write: fn(&mut Writer<'_>),
) -> Program {
    Program { attachment: Attachment::Tracepoint, target: Target { name, takes, since }, need, write }
}

/// All programs, in the order in which they are attached.
pub(super) const PROGRAMS: [Program; 10] = [
    tracepoint("mm_filemap_delete_from_page_cache", FOLIO, "5.16", Need::Required, removed),
    tracepoint("mm_filemap_add_to_page_cache", FOLIO, "5.16", Need::Required, added),
    function(FILEMAP_READ, READ, "5.12", Need::Reads, read),
    function("filemap_splice_read", &["file"], "6.5", Need::Beside(FILEMAP_READ), spliced),
    tracepoint(FILEMAP_GET_PAGES, MAPPING, "6.12", Need::Reads, got),
    function("generic_perform_write", READ, "5.19", Need::Optional, written),
    function("iomap_file_buffered_write", READ, "4.8", Need::Optional, written),
    tracepoint("mm_filemap_fault", MAPPING, "6.12", Need::Optional, faulted),
    tracepoint("mm_filemap_map_pages", MAPPING, "6.12", Need::Optional, mapped_around),
    tracepoint("writeback_dirty_folio", FOLIO, "5.18", Need::Optional, dirtied),
];

/// What programs are written for.
pub(super) struct Machine<'a> {
    pub(super) layout: &'a Layout,
    pub(super) groups: Groups,
    /// The maps' numbers.
    pub(super) files_map: i32,
    pub(super) groups_map: i32,
    pub(super) settings_map: i32,
    pub(super) ring: i32,
    pub(super) last_reads_map: i32,
    /// This process, by its number outside of all namespaces.
    pub(super) own: i32,
    /// The page's size is two to this power.
    pub(super) page_shift: i32,
}

impl Program {
    /// Its instructions.
    pub(super) fn assemble(&self, machine: &Machine<'_>) -> Result<Vec<Instruction>, AssembleError> {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.set(R0, R1);
        let mut writer = Writer { asm, machine, end };
        (self.write)(&mut writer);
        let Writer { mut asm, .. } = writer;
        asm.place(end);
        asm.set(R0, 0);
        asm.exit();
        asm.finish()
    }
}

/// A program being written.
struct Writer<'a> {
    asm: Assembler,
    machine: &'a Machine<'a>,
    /// The program's end.
    end: Label,
}

/// `mm_filemap_get_pages(struct address_space *mapping, pgoff_t first, pgoff_t last)`
fn got(w: &mut Writer<'_>) {
    let layout = w.machine.layout;
    let within = w.asm.label();
    // inode = mapping->host; end = (inode->i_size - 1) >> PAGE_SHIFT; if (last > end) last = end; if (first > last) return 0;
    w.argument(R2, 0);
    w.argument(R7, 1);
    w.argument(R8, 2);
    w.load(R6, R2, layout.mapping_inode);
    w.load(R3, R6, layout.inode_bytes);
    w.asm.calculate(Subtract, R3, 1);
    w.asm.calculate(ShiftRightSigned, R3, w.machine.page_shift);
    w.asm.jump_if(R8, AtMost, R3, within);
    w.asm.set(R8, R3);
    w.asm.place(within);
    w.asm.jump_if(R7, Above, R8, w.end);
    without_repeats(w);
    w.count_to_last();
    w.put(Kind::Read);
}

/// Leaves out pages from `R7` to `R8` that are no new use: a long read comes once for each batch of folios, each time up to its end.
/// What a thread read on another processor is left to `repeats.rs`.
fn without_repeats(w: &mut Writer<'_>) {
    let (other, other_page) = (w.asm.label(), w.asm.label());
    // before = &last_reads[bpf_get_smp_processor_id() % 64]; thread = bpf_get_current_pid_tgid();
    w.asm.call(helper::PROCESSOR);
    w.asm.calculate(And, R0, last_read::PLACES - 1);
    w.asm.calculate(ShiftLeft, R0, last_read::SHIFT);
    w.asm.load_map_value(R9, w.machine.last_reads_map);
    w.asm.calculate(Add, R9, R0);
    w.asm.call(helper::CURRENT_PROCESS);
    // if (before->thread != thread || before->inode != inode) goto other;
    w.asm.load(Size::Long, R1, R9, last_read::THREAD);
    w.asm.load(Size::Long, R2, R9, last_read::INODE);
    w.asm.load(Size::Long, R3, R9, last_read::FIRST);
    w.asm.load(Size::Long, R4, R9, last_read::LAST);
    w.asm.store(Size::Long, R9, last_read::THREAD, R0);
    w.asm.store(Size::Long, R9, last_read::INODE, R6);
    w.asm.store(Size::Long, R9, last_read::FIRST, R7);
    w.asm.store(Size::Long, R9, last_read::LAST, R8);
    w.asm.jump_if(R1, NotEqual, R0, other);
    w.asm.jump_if(R2, NotEqual, R6, other);
    // if (first == before->last && ++first > last) return 0;
    w.asm.jump_if(R4, NotEqual, R7, other_page);
    w.asm.calculate(Add, R7, 1);
    w.asm.jump_if(R7, Above, R8, w.end);
    w.asm.jump(other);
    // else if (last == before->last && first > before->first) return 0;
    w.asm.place(other_page);
    w.asm.jump_if(R4, NotEqual, R8, other);
    w.asm.jump_if(R7, Above, R3, w.end);
    w.asm.place(other);
}

/// `filemap_read(struct kiocb *request, struct iov_iter *iterator, ssize_t already)`
fn read(w: &mut Writer<'_>) {
    let layout = w.machine.layout;
    // file = request->ki_filp; position = request->ki_pos; bytes = iterator->count;
    w.argument(R1, 0);
    w.argument(R2, 1);
    w.load(R9, R1, layout.request_file);
    w.load(R7, R1, layout.request_position);
    w.load(R8, R2, layout.iterator_bytes);
    read_pages(w);
}

/// `filemap_splice_read(struct file *file, loff_t *position, struct pipe_inode_info *pipe, size_t bytes, unsigned flags)`
fn spliced(w: &mut Writer<'_>) {
    w.argument(R9, 0);
    w.argument(R8, 3);
    // bpf_probe_read_kernel(&at, sizeof at, position): a pointer to a number may not be followed otherwise.
    w.argument(R3, 1);
    w.asm.set(R1, R10);
    w.asm.calculate(Add, R1, i32::from(stack::POSITION));
    w.asm.set(R2, 8);
    w.asm.call(helper::READ_KERNEL);
    w.asm.load(Size::Long, R7, R10, stack::POSITION);
    read_pages(w);
}

/// The pages from byte `R7`, `R8` bytes, of the open file `R9`.
fn read_pages(w: &mut Writer<'_>) {
    let layout = w.machine.layout;
    let shift = w.machine.page_shift;
    let (within, other_page) = (w.asm.label(), w.asm.label());
    // if (!bytes) return 0;
    w.asm.jump_if(R8, Equal, 0, w.end);
    // inode = file->f_mapping->host; if (position >= inode->i_size) return 0;
    w.load(R6, R9, layout.file_mapping);
    w.load(R6, R6, layout.mapping_inode);
    w.load(R3, R6, layout.inode_bytes);
    w.asm.jump_if(R7, AtLeastSigned, R3, w.end);
    // last = (min(position + bytes, inode->i_size) - 1) >> PAGE_SHIFT; first = position >> PAGE_SHIFT;
    w.asm.calculate(Add, R8, R7);
    w.asm.jump_if(R8, AtMost, R3, within);
    w.asm.set(R8, R3);
    w.asm.place(within);
    w.asm.calculate(Subtract, R8, 1);
    w.asm.calculate(ShiftRight, R8, shift);
    w.asm.calculate(ShiftRight, R7, shift);
    // The kernel counts a page once that the same open file reads twice running. prev_pos lies behind the last byte read, and is -1 at first.
    // if (first == (file->f_ra.prev_pos - 1) >> PAGE_SHIFT && ++first > last) return 0;
    w.load(R4, R9, layout.file_last_position);
    w.asm.calculate(Subtract, R4, 1);
    w.asm.calculate(ShiftRightSigned, R4, shift);
    w.asm.jump_if(R4, NotEqual, R7, other_page);
    w.asm.calculate(Add, R7, 1);
    w.asm.jump_if(R7, Above, R8, w.end);
    w.asm.place(other_page);
    w.count_to_last();
    w.put(Kind::Read);
}

/// `generic_perform_write(struct kiocb *request, struct iov_iter *iterator)`, and the same of iomap with more after it.
fn written(w: &mut Writer<'_>) {
    let layout = w.machine.layout;
    let shift = w.machine.page_shift;
    // position = request->ki_pos; bytes = iterator->count; if (!bytes) return 0;
    w.argument(R1, 0);
    w.argument(R2, 1);
    w.load(R7, R1, layout.request_position);
    w.load(R8, R2, layout.iterator_bytes);
    w.asm.jump_if(R8, Equal, 0, w.end);
    // inode = request->ki_filp->f_mapping->host;
    w.load(R6, R1, layout.request_file);
    w.load(R6, R6, layout.file_mapping);
    w.load(R6, R6, layout.mapping_inode);
    // last = (position + bytes - 1) >> PAGE_SHIFT; first = position >> PAGE_SHIFT;
    w.asm.calculate(Add, R8, R7);
    w.asm.calculate(Subtract, R8, 1);
    w.asm.calculate(ShiftRight, R8, shift);
    w.asm.calculate(ShiftRight, R7, shift);
    w.count_to_last();
    w.put(Kind::Write);
}

/// `mm_filemap_add_to_page_cache(struct folio *folio)`
fn added(w: &mut Writer<'_>) {
    w.folio();
    w.put(Kind::Added);
}

/// `mm_filemap_delete_from_page_cache(struct folio *folio)`
fn removed(w: &mut Writer<'_>) {
    w.folio();
    w.put(Kind::Removed);
}

/// `writeback_dirty_folio(struct folio *folio, struct address_space *mapping)`
fn dirtied(w: &mut Writer<'_>) {
    w.folio();
    w.put(Kind::Dirtied);
}

/// `mm_filemap_fault(struct address_space *mapping, pgoff_t page)`
fn faulted(w: &mut Writer<'_>) {
    // inode = mapping->host; first = page; count = 1;
    w.argument(R1, 0);
    w.load(R6, R1, w.machine.layout.mapping_inode);
    w.argument(R7, 1);
    w.asm.set(R8, 1);
    w.put(Kind::Mapped);
}

/// `mm_filemap_map_pages(struct address_space *mapping, pgoff_t first, pgoff_t last)`
fn mapped_around(w: &mut Writer<'_>) {
    // inode = mapping->host;
    w.argument(R2, 0);
    w.argument(R7, 1);
    w.argument(R8, 2);
    w.load(R6, R2, w.machine.layout.mapping_inode);
    w.count_to_last();
    w.put(Kind::Mapped);
}

impl Writer<'_> {
    /// `to = argument`, counted from 0. They lie behind `R0`, until the first call.
    fn argument(&mut self, to: Register, number: i16) {
        self.asm.load(Size::Long, to, R0, number * 8);
    }

    /// `to = from->field`
    fn load(&mut self, to: Register, from: Register, field: Field) {
        self.asm.load(field.size, to, from, field.offset);
    }

    /// `count = last - first + 1`
    fn count_to_last(&mut self) {
        self.asm.calculate(Subtract, R8, R7);
        self.asm.calculate(Add, R8, 1);
    }

    /// The pages of the folio that is the first argument.
    fn folio(&mut self) {
        let layout = self.machine.layout;
        let small = self.asm.label();
        // mapping = folio->mapping; if (!mapping) return 0; inode = mapping->host; first = folio->index;
        self.argument(R1, 0);
        self.load(R6, R1, layout.folio_mapping);
        self.asm.jump_if(R6, Equal, 0, self.end);
        self.load(R6, R6, layout.mapping_inode);
        self.load(R7, R1, layout.folio_index);
        // order = 0; count = 1; if (folio->flags & head) { order = folio->_flags_1 & 0xff; count <<= order; }
        self.asm.set(R8, 1);
        self.asm.set(R3, 0);
        self.load(R2, R1, layout.folio_flags);
        self.asm.calculate(And, R2, layout.head_bit);
        self.asm.jump_if(R2, Equal, 0, small);
        self.load(R3, R1, layout.folio_order);
        self.asm.calculate(And, R3, 0xff);
        self.asm.calculate(ShiftLeft, R8, R3);
        self.asm.place(small);
        self.asm.store(Size::Long, R10, stack::ORDER, R3);
    }

    /// Writes the event, if the file or the process's group is followed or not judged yet.
    fn put(&mut self, kind: Kind) {
        let layout = self.machine.layout;
        let (known, unknown) = (self.asm.label(), self.asm.label());
        let (judged, unjudged, by_group, write) =
            (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        // if ((inode->i_mode & S_IFMT) != S_IFREG) return 0;
        self.load(R1, R6, layout.inode_mode);
        self.asm.calculate(And, R1, FILE_TYPE);
        self.asm.jump_if(R1, NotEqual, REGULAR, self.end);
        // key = { inode->i_ino, inode->i_sb->s_dev }; generation = inode->i_generation;
        self.load(R1, R6, layout.inode_number);
        self.asm.store(Size::Long, R10, stack::KEY, R1);
        self.load(R1, R6, layout.inode_file_system);
        self.load(R1, R1, layout.file_system_device);
        self.asm.store(Size::Word, R10, stack::KEY_DEVICE, R1);
        self.asm.store_number(Size::Word, R10, stack::KEY_PADDING, 0);
        self.load(R1, R6, layout.inode_generation);
        self.asm.store(Size::Word, R10, stack::GENERATION, R1);
        // verdict = bpf_map_lookup_elem(&files, &key);
        self.asm.load_map(R1, self.machine.files_map);
        self.asm.set(R2, R10);
        self.asm.calculate(Add, R2, i32::from(stack::KEY));
        self.asm.call(helper::MAP_LOOKUP);
        self.asm.load_map_value(R2, self.machine.settings_map);
        // if (!verdict || verdict->generation != generation) goto unknown;
        self.asm.jump_if(R0, Equal, 0, unknown);
        self.asm.load(Size::Word, R1, R0, 0);
        self.asm.load(Size::Word, R3, R10, stack::GENERATION);
        self.asm.jump_if(R1, NotEqual, R3, unknown);
        // switch (verdict->era ^ settings.files_era) { case 0: goto known; case FOLLOWED: goto judged; }
        self.asm.load(Size::Word, R1, R0, 4);
        self.asm.load(Size::Word, R3, R2, setting::FILES_ERA);
        self.asm.calculate(Xor, R1, R3);
        self.asm.jump_if(R1, Equal, 0, known);
        self.asm.jump_if(R1, Equal, FOLLOWED as i32, judged);
        // for (i = 0; i < 16; i++) { if (settings.devices[i] == key.device) goto unjudged; if (!settings.devices[i]) break; }
        self.asm.place(unknown);
        self.asm.store_number(Size::Long, R10, stack::FLAGS, 0);
        self.asm.load(Size::Word, R1, R10, stack::KEY_DEVICE);
        for device in 0..MOST_DEVICES {
            self.asm.load(Size::Word, R3, R2, setting::DEVICES + 4 * device as i16);
            self.asm.jump_if(R3, Equal, R1, unjudged);
            self.asm.jump_if(R3, Equal, 0, by_group);
        }
        self.asm.jump(by_group);
        self.asm.place(known);
        self.asm.store_number(Size::Long, R10, stack::FLAGS, i32::from(JUDGED));
        self.asm.place(by_group);
        if self.machine.groups == Groups::None {
            self.asm.jump(self.end);
        } else {
            // followed = bpf_map_lookup_elem(&groups, &group);
            self.group();
            self.asm.load_map(R1, self.machine.groups_map);
            self.asm.set(R2, R10);
            self.asm.calculate(Add, R2, i32::from(stack::GROUP));
            self.asm.call(helper::MAP_LOOKUP);
            // if (followed) switch (*followed ^ settings.groups_era) { case 0: return 0; case FOLLOWED: goto write; }
            let unknown_group = self.asm.label();
            self.asm.jump_if(R0, Equal, 0, unknown_group);
            self.asm.load(Size::Word, R1, R0, 0);
            self.asm.load_map_value(R2, self.machine.settings_map);
            self.asm.load(Size::Word, R3, R2, setting::GROUPS_ERA);
            self.asm.calculate(Xor, R1, R3);
            self.asm.jump_if(R1, Equal, 0, self.end);
            self.asm.jump_if(R1, Equal, FOLLOWED as i32, write);
            self.asm.place(unknown_group);
            self.asm.store_number(Size::Long, R10, stack::FLAGS, 0);
            self.asm.jump(write);
        }
        self.asm.place(judged);
        self.asm.store_number(Size::Long, R10, stack::FLAGS, i32::from(JUDGED));
        self.asm.place(unjudged);
        if self.machine.groups != Groups::None {
            self.group();
        }
        self.asm.place(write);
        self.write(kind);
    }

    /// `group = ` the number of the current process's control group, on the stack.
    fn group(&mut self) {
        self.machine.groups.number(&mut self.asm, self.machine.layout, stack::GROUP);
    }

    /// Writes the event.
    fn write(&mut self, kind: Kind) {
        let (full, not_own, not_reclaim) = (self.asm.label(), self.asm.label(), self.asm.label());
        // event = bpf_ringbuf_reserve(&ring, sizeof *event, 0); if (!event) goto full;
        self.asm.load_map(R1, self.machine.ring);
        self.asm.set(R2, RECORD as i32);
        self.asm.set(R3, 0);
        self.asm.call(helper::RING_RESERVE);
        self.asm.jump_if(R0, Equal, 0, full);
        self.asm.set(R9, R0);
        // event->… = …;
        self.copy(Size::Long, stack::KEY, field::INODE);
        self.copy(Size::Word, stack::KEY_DEVICE, field::DEVICE);
        self.copy(Size::Word, stack::GENERATION, field::GENERATION);
        self.asm.store(Size::Long, R9, field::FIRST, R7);
        self.asm.store(Size::Word, R9, field::COUNT, R8);
        self.asm.store_number(Size::Byte, R9, field::KIND, kind as i32);
        match kind {
            Kind::Added | Kind::Removed | Kind::Dirtied => {
                self.asm.load(Size::Long, R1, R10, stack::ORDER);
                self.asm.store(Size::Byte, R9, field::ORDER, R1);
            }
            Kind::Read | Kind::Write | Kind::Mapped => self.asm.store_number(Size::Byte, R9, field::ORDER, 0),
        }
        match self.machine.groups {
            Groups::None => self.asm.store_number(Size::Long, R9, field::GROUP, 0),
            Groups::Unified | Groups::Controller(_) => self.copy(Size::Long, stack::GROUP, field::GROUP),
        }
        // event->user = (u32)bpf_get_current_uid_gid();
        self.asm.call(helper::CURRENT_USER);
        self.asm.store(Size::Word, R9, field::USER, R0);
        // bpf_get_current_comm(event->program, sizeof event->program);
        self.asm.set(R1, R9);
        self.asm.calculate(Add, R1, i32::from(field::PROGRAM));
        self.asm.set(R2, PROGRAM as i32);
        self.asm.call(helper::CURRENT_NAME);
        // ids = bpf_get_current_pid_tgid(); event->thread = (u32)ids; event->process = ids >> 32; if (event->process == own) flags |= OWN;
        self.asm.load(Size::Long, R8, R10, stack::FLAGS);
        self.asm.call(helper::CURRENT_PROCESS);
        self.asm.store(Size::Word, R9, field::THREAD, R0);
        self.asm.calculate(ShiftRight, R0, 32);
        self.asm.store(Size::Word, R9, field::PROCESS, R0);
        self.asm.jump_if(R0, NotEqual, self.machine.own, not_own);
        self.asm.calculate(Or, R8, i32::from(OWN));
        self.asm.place(not_own);
        if kind == Kind::Removed {
            // if (bpf_get_current_task_btf()->flags & PF_MEMALLOC) flags |= RECLAIM;
            self.asm.call(helper::CURRENT_TASK);
            self.load(R1, R0, self.machine.layout.task_flags);
            self.asm.calculate(And, R1, RECLAIMS);
            self.asm.jump_if(R1, Equal, 0, not_reclaim);
            self.asm.calculate(Or, R8, i32::from(RECLAIM));
            self.asm.place(not_reclaim);
        }
        self.asm.store(Size::Byte, R9, field::FLAGS, R8);
        // bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP); return 0;
        self.asm.set(R1, R9);
        self.asm.set(R2, helper::NO_WAKE_UP);
        self.asm.call(helper::RING_SUBMIT);
        self.asm.jump(self.end);
        // full: __sync_fetch_and_add(&settings.lost, 1); return 0;
        self.asm.place(full);
        self.asm.load_map_value(R1, self.machine.settings_map);
        self.asm.set(R2, 1);
        self.asm.add_atomically(R1, setting::LOST, R2);
    }

    /// Copies from the stack into the event.
    fn copy(&mut self, size: Size, from: i16, to: i16) {
        self.asm.load(size, R1, R10, from);
        self.asm.store(size, R9, to, R1);
    }
}
