//! Memory of this library and of the pager's threads, which no thread of the program can keep from them.
//!
//! A signal may interrupt the program's `malloc` while it has a lock of the C library's, and the signal's handler may touch a paged page. The
//! thread that brings this page must not need that lock. Therefore:
//!
//! 1. What this library allocates comes from here, and what the C library allocates on the pager's [threads](crate::threads).
//! 2. A lock of this heap is held for a few instructions, with signals blocked. The pager's threads have them blocked always.
//! 3. Nothing here calls the C library's allocator, nor touches a region.
//!
//! Blocks of up to 256 KiB have one of 52 sizes, four for each power of two, and lie in runs of their size in an area that is reserved once. A run
//! consists of slabs of 64 KiB; a table has the size of the blocks in each slab, for those who free a block and only know its address. Blocks of one size have a
//! lock, and a list of the free ones. Longer blocks are mappings of their own.
//!
//! A child of fork may find any lock held by a thread that it does not have. It begins another heap in the same area
//! ([`begin_anew`]), and leaves its parent's blocks where they are. It maps nothing for that: the system could choose addresses that regions of its
//! parent had, and that their copies go to.

use crate::real::system::{self, FAILED};
use crate::signals;
use crate::threads;
use libc::{
    MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE,
};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What every block is aligned to.
const ALIGNED: usize = 16;

/// The system's page.
const PART: usize = 4096;

/// What the area is divided into.
const SLAB: usize = 64 << 10;

/// The addresses that are reserved: `RESERVED` bytes, or this part of the process' limit of addresses if that is less.
const RESERVED: usize = SLABS * SLAB;
const PART_OF_LIMIT: u64 = 16;
const SLABS: usize = 64 << 10;

/// The sizes of blocks, and how many blocks a run has at least.
const SIZES: usize = 52;
const LONGEST: usize = 256 << 10;
const RUN: usize = 8;

/// Where the area begins and ends; what is behind `NEXT` is not used yet. Blocks before `OWN` are those of this process' parent.
static BASE: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static OWN: AtomicUsize = AtomicUsize::new(0);

/// For each slab the number of its blocks' size.
static SIZE_OF_SLAB: [AtomicU8; SLABS] = [const { AtomicU8::new(0) }; SLABS];

/// The heap of this process.
static HEAP: Place = Place(UnsafeCell::new(Heap::new()));

struct Place(UnsafeCell<Heap>);

// SAFETY: it is written to in a process that has a single thread, and is in no lock; otherwise it is shared as its locks are.
unsafe impl Sync for Place {}

struct Heap {
    sizes: [Mutex<Blocks>; SIZES],
}

impl Heap {
    const fn new() -> Self {
        Self { sizes: [const { Mutex::new(Blocks { free: 0, next: 0, end: 0 }) }; SIZES] }
    }
}

/// Blocks of one size.
struct Blocks {
    /// The first free block, which has the address of the next one; 0: there is none.
    free: usize,
    /// What has not been used of the last run.
    next: usize,
    end: usize,
}

/// The number of the least size that is enough.
fn number_of(size: usize) -> usize {
    if size <= 4 * ALIGNED {
        return size.div_ceil(ALIGNED).max(1) - 1;
    }
    let last = size - 1;
    let power = last.ilog2() as usize;
    4 * (power - 5) + (last >> (power - 2) & 3)
}

/// The bytes of blocks with this number.
fn size_of(number: usize) -> usize {
    if number < 4 { (number + 1) * ALIGNED } else { (5 + number % 4) << (number / 4 + 3) }
}

/// Does something with a lock of the heap.
fn undisturbed<T>(act: impl FnOnce() -> T) -> T {
    if threads::is_pagers() {
        return act();
    }
    let before = signals::block();
    let done = act();
    signals::restore(&before);
    done
}

fn heap() -> &'static Heap {
    // SAFETY: as of the place.
    unsafe { &*HEAP.0.get() }
}

fn map(length: usize, protection: i32, how: i32) -> usize {
    // SAFETY: a new mapping touches no memory that is in use.
    let mapped = unsafe { system::mmap(null_mut(), length, protection, MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0) };
    if mapped == FAILED { 0 } else { mapped as usize }
}

/// # Safety
/// Nobody uses these addresses.
unsafe fn unmap(address: usize, length: usize) {
    if length > 0 {
        // SAFETY: as above.
        unsafe { system::munmap(address as *mut _, length) };
    }
}

/// Reserves the area, once: there are other allocations at the same time.
#[cold]
fn reserve() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let length = limit.map_or(RESERVED, |limit| RESERVED.min((limit / PART_OF_LIMIT) as usize));
    let length = length / SLAB * SLAB;
    let mapped = map(length + SLAB, PROT_NONE, MAP_NORESERVE);
    if mapped == 0 {
        return;
    }
    let base = mapped.next_multiple_of(SLAB);
    if BASE.compare_exchange(0, base, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: it was mapped here.
        unsafe { unmap(mapped, length + SLAB) };
        return;
    }
    // SAFETY: the area is this library's own.
    unsafe { system::madvise(base as *mut _, length, MADV_NOHUGEPAGE) };
    END.store(base + length, Ordering::Release);
    NEXT.store(base, Ordering::Release);
}

/// A run for blocks of one size: its addresses.
fn take_run(number: usize) -> Option<(usize, usize)> {
    if BASE.load(Ordering::Acquire) == 0 {
        reserve();
    }
    let length = (RUN * size_of(number)).next_multiple_of(SLAB);
    let end = END.load(Ordering::Acquire);
    let more = |next: usize| (next != 0 && next + length <= end).then_some(next + length);
    let start = NEXT.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
    let first = (start - BASE.load(Ordering::Relaxed)) / SLAB;
    SIZE_OF_SLAB[first..first + length / SLAB].iter().for_each(|slab| slab.store(number as u8, Ordering::Release));
    // SAFETY: these addresses are reserved, and this caller's alone.
    let done = unsafe { system::mprotect(start as *mut _, length, PROT_READ | PROT_WRITE) };
    (done == 0).then_some((start, start + length))
}

/// A block of a size; 0: there is no memory.
fn take(number: usize) -> usize {
    let size = size_of(number);
    undisturbed(|| {
        let mut blocks = heap().sizes[number].lock().unwrap_or_else(PoisonError::into_inner);
        if blocks.free != 0 {
            let block = blocks.free;
            // SAFETY: a free block has the address of the next.
            blocks.free = unsafe { (block as *const usize).read() };
            return block;
        }
        if blocks.end - blocks.next < size {
            let Some(run) = take_run(number) else { return 0 };
            (blocks.next, blocks.end) = run;
        }
        let block = blocks.next;
        blocks.next += size;
        block
    })
}

/// # Safety
/// The block is of this size, and nobody uses it any more.
unsafe fn give_back(block: usize, number: usize) {
    // The parent's are never used again.
    if block < OWN.load(Ordering::Relaxed) {
        return;
    }
    undisturbed(|| {
        let mut blocks = heap().sizes[number].lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the block is nobody's, and has room for an address.
        unsafe { (block as *mut usize).write(blocks.free) };
        blocks.free = block;
    });
}

/// The number of the size for a layout; `None`: it is a mapping of its own.
fn number_for(size: usize, alignment: usize) -> Option<usize> {
    // Blocks whose size is a power of two are aligned to it.
    let size = if alignment <= ALIGNED { size } else { size.max(alignment).checked_next_power_of_two()? };
    (size <= LONGEST && alignment <= SLAB).then(|| number_of(size))
}

/// A mapping; 0: there is no memory.
fn take_mapping(size: usize, alignment: usize) -> usize {
    let Some(length) = size.checked_next_multiple_of(PART) else { return 0 };
    if alignment <= PART {
        return map(length, PROT_READ | PROT_WRITE, 0);
    }
    let Some(more) = length.checked_add(alignment) else { return 0 };
    let mapped = map(more, PROT_READ | PROT_WRITE, 0);
    if mapped == 0 {
        return 0;
    }
    let start = mapped.next_multiple_of(alignment);
    // SAFETY: it was mapped here, and nobody has what is before and behind the block.
    unsafe {
        unmap(mapped, start - mapped);
        unmap(start + length, mapped + more - start - length);
    }
    start
}

/// Whether a block lies in the area.
#[inline]
pub(crate) fn owns(block: usize) -> bool {
    block >= BASE.load(Ordering::Relaxed) && block < END.load(Ordering::Relaxed)
}

/// A block for the C library on a pager's thread; null: there is no memory, or it is to be longer than such a block can be.
pub(crate) fn allocate(size: usize, alignment: usize) -> *mut u8 {
    number_for(size, alignment).map_or(null_mut(), |number| without_provenance_mut(take(number)))
}

/// The bytes of a block in the area.
pub(crate) fn usable(block: usize) -> usize {
    size_of(number_at(block))
}

/// Gives back a block in the area.
///
/// # Safety
/// Nobody uses it any more.
pub(crate) unsafe fn free(block: usize) {
    // SAFETY: as above; the slab's size is the block's.
    unsafe { give_back(block, number_at(block)) };
}

fn number_at(block: usize) -> usize {
    SIZE_OF_SLAB[(block - BASE.load(Ordering::Relaxed)) / SLAB].load(Ordering::Acquire).into()
}

/// This process is a child of fork, and has no thread but this.
pub(crate) fn begin_anew() {
    OWN.store(NEXT.load(Ordering::Acquire), Ordering::Release);
    // SAFETY: this is the only thread, and it was in no lock of the heap when it forked.
    unsafe { HEAP.0.get().write(Heap::new()) };
}

/// This library's allocator.
pub(crate) struct Own;

// SAFETY: blocks do not overlap, have the size and alignment of their layout, and live until they are given back. A layout's kind is known by its size and
// alignment, and where it lies.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        let block = number_for(size, alignment).map_or(0, take);
        // Where the area is full there are mappings still.
        (if block == 0 { take_mapping(size, alignment) } else { block }) as *mut u8
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout.
        let block = unsafe { self.alloc(layout) };
        // A new mapping is zeroes.
        if owns(block as usize) {
            // SAFETY: the block has as many bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, own) = (layout.size(), owns(block as usize));
        if own && layout.align() <= ALIGNED && size <= usable(block as usize) && size >= old / 2 {
            return block;
        }
        if !own && layout.align() <= PART && size > LONGEST {
            let (old, new) = (old.next_multiple_of(PART), size.next_multiple_of(PART));
            // SAFETY: the block is a mapping of its own.
            let moved = unsafe { system::mremap(block.cast(), old, new, MREMAP_MAYMOVE, null_mut()) };
            return if moved == FAILED { null_mut() } else { moved.cast() };
        }
        // SAFETY: the caller has seen to it that the size is one.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have as many bytes, and the old one is the caller's.
            unsafe {
                new.copy_from_nonoverlapping(block, size.min(old));
                self.dealloc(block, layout);
            }
        }
        new
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block, made above.
        unsafe {
            if owns(block as usize) {
                free(block as usize);
            } else {
                unmap(block as usize, layout.size().next_multiple_of(PART));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_enough_and_at_most_a_quarter_too_much() {
        for size in (1..=LONGEST).step_by(7).chain([16, 64, 65, 80, 128, 129, LONGEST]) {
            let number = number_of(size);
            assert!(number < SIZES && size_of(number) >= size, "{size}");
            assert!(size < 64 || size_of(number) <= size + size / 4 + ALIGNED, "{size}: {}", size_of(number));
            assert!(number == 0 || size_of(number - 1) < size, "{size}");
        }
        assert_eq!((number_of(0), size_of(SIZES - 1)), (0, LONGEST));
    }

    #[test]
    fn blocks_of_several_threads_keep_their_bytes_and_their_alignment() {
        const BLOCKS: usize = 64;
        let work = |thread: usize| {
            let mut held: Vec<(*mut u8, Layout, u8)> = Vec::new();
            let mut state = thread as u64 + 1;
            let mut next = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as usize % below
            };
            for round in 0..4_000 {
                if held.len() == BLOCKS {
                    let (block, layout, byte) = held.swap_remove(next(BLOCKS));
                    // SAFETY: blocks of this thread, of that size.
                    unsafe {
                        let (block, layout) = if round % 3 == 0 {
                            let size = 1 + next(400_000);
                            let new = Own.realloc(block, layout, size);
                            let kept = size.min(layout.size());
                            assert!(std::slice::from_raw_parts(new, kept).iter().all(|own| *own == byte));
                            let layout = Layout::from_size_align(size, layout.align()).expect("a layout");
                            new.write_bytes(byte, size);
                            (new, layout)
                        } else {
                            (block, layout)
                        };
                        assert!(std::slice::from_raw_parts(block, layout.size()).iter().all(|own| *own == byte));
                        Own.dealloc(block, layout);
                    }
                }
                let most = [100, 3_000, 60_000, 600_000][next(4)];
                let size = 1 + next(most);
                let layout = Layout::from_size_align(size, 1 << next(18)).expect("a layout");
                let (byte, zeroed) = (round as u8, round % 2 == 0);
                // SAFETY: the layout has bytes.
                let block = unsafe { if zeroed { Own.alloc_zeroed(layout) } else { Own.alloc(layout) } };
                assert!((block as usize).is_multiple_of(layout.align()) && !block.is_null(), "{layout:?}");
                // SAFETY: the block has as many bytes.
                unsafe {
                    let all = std::slice::from_raw_parts(block, if zeroed { size } else { 0 });
                    assert!(all.iter().all(|own| *own == 0), "{layout:?}");
                    block.write_bytes(byte, size);
                }
                held.push((block, layout, byte));
            }
            // SAFETY: blocks of this thread.
            held.into_iter().for_each(|(block, layout, _)| unsafe { Own.dealloc(block, layout) });
        };
        std::thread::scope(|scope| (0..4).for_each(|thread| _ = scope.spawn(move || work(thread))));
    }
}
