//! A library that `forebay run` preloads into a program: its large memory lies in regions of a pager, under a policy.
//!
//! ```text
//!   malloc, free, …      allocate.rs   blocks of 128 KiB and more
//!   mmap, munmap, …      map.rs        private memory, and private mappings of files, of 128 KiB and more
//!   open, fcntl, …       direct.rs     files are read through the system's cache
//!     |
//!     v
//!   heap.rs, ranges.rs   which addresses are in use, in an area that is reserved for regions (spans.rs: sets of addresses)
//!     |  fork.rs, staged.rs: what a child gets
//!     v
//!   service.rs           a thread that has the pager, with open files of its own
//!     |  regions.rs: what it does with regions; lanes.rs: with those of files, whose storage may hang
//!     |  own.rs: its memory, and that of the pager's threads (threads.rs)
//!     |  files.rs: files that the program maps
//!     |  swap.rs: a file without a name, of which only what was written is read (bits.rs: which pages that are)
//!     |  room.rs: what the program has, it can write
//!     |  messages.rs: what there is to say
//!     v
//!   forebay-pager        its threads bring pages when the program touches them
//! ```
//!
//! **Who handles a fault must not wait for one.** So nothing that this library and the pager allocate lies in a region, nor is it the C library's,
//! whose locks a thread of the program may hold while it waits for its fault: a signal's handler may have it. Both have a heap of their own. No thread
//! touches a region while it has a lock that the service needs.
//!
//! It begins with the first large allocation or mapping: a process without any has no thread more. Without the settings of `forebay run` it does nothing.

mod allocate;
mod bits;
mod direct;
mod files;
mod fork;
mod heap;
mod lanes;
mod map;
mod messages;
mod own;
mod ranges;
mod real;
mod regions;
mod room;
mod service;
mod signals;
mod spans;
mod staged;
mod swap;
mod threads;

#[global_allocator]
static OWN: own::Own = own::Own;

/// Before the program registers anything for its forks; `fork.rs` sees to it that libraries whose beginnings come before do not either.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_THE_START: extern "C" fn() = fork::prepare_for_forks;

/// The program ends in order: its figures are written down.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = at_the_end;

extern "C" fn at_the_end() {
    heap::started().into_iter().for_each(service::Service::note);
}
