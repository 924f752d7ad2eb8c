//! The kernel's page cache and paging, steered: what is used is seen, a policy decides, and its victims leave. The kernel is not changed, and its hits stay its own.
//!
//! ```text
//! watch           which pages of which files are used, added and removed: BPF programs and their ring
//! steering        the thread that takes these events, and lets pages leave
//!     lookup      what is there at the start, and after lost events
//!   arrivals      pages that have come, until it is known what for
//!   steered       what the policy makes of them; it calls no kernel
//!     common      the pool, which files and programs' memory may have together
//!   residents     which pages are there, which are wanted, and which are one folio
//!   budget        how many may stay: what is asked for, or what the kernel leaves of it
//!     limits      what control groups leave
//!     pressure    whether programs wait for memory
//!   mapped        processes that have mapped pages, which keeps these in the cache
//!   later         pages that could not leave yet
//!   writeout      dirty ones of them are written
//!   files         steered files as volumes of the pool, and the shares that they have together
//!     finding     where they lie on their disks, for a policy that goes by it
//!   managing      the owners of uses, and the managers of these uses
//!     said        what attributes of files say of that
//!   hinted        what is said of a file's uses to come
//! scopes          what is steered: directories, control groups
//!   file_system   files by their inodes
//!   descriptors   files that are open for a while
//!   walk          what lies below a directory
//! unwritten       what keeps pages from leaving
//! act             the calls that let pages leave, write them, and say which are there
//! memory          programs' memory instead of files: faults, reference bits, and pages that leave for swap space
//! maps            where processes have mapped what
//! bpf             what programs in the kernel need: an assembler, offsets, rings
//! ```
//!
//! The policy, its owners and figures are those of a [pool](forebay_pool) whose frames hold no bytes ([`Handle::refer`](forebay_pool::Handle::refer)).
//! Nothing can be lost: only clean pages leave, and without this thread the kernel goes on with its own lists.

mod act;
mod arrivals;
mod bpf;
mod budget;
mod common;
mod descriptors;
mod error;
mod file_system;
mod files;
mod finding;
mod hinted;
mod later;
mod limits;
mod managing;
mod mapped;
mod maps;
pub mod memory;
mod pressure;
mod residents;
mod said;
mod scopes;
mod steered;
mod steering;
mod unwritten;
mod walk;
pub mod watch;
mod writeout;

pub use common::Common;
pub use error::Error;
pub use hinted::ReadAhead;
pub use limits::Limits;
pub use scopes::{Scope, check, devices};
pub use steered::Pages;
pub use steering::{Counts, Finder, Options, Steering, Users};
pub use unwritten::unwritten;
