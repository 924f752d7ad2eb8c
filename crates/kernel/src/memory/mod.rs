//! The memory of programs, steered: what is used is seen, a policy decides, and its victims leave for swap space. The kernel is not changed, and pages in.
//!
//! ```text
//! paging     the thread: it takes faults, asks the policy, and has pages leave
//!   look     what reference bits tell, at the end of an epoch
//!   leaving  victims leave, and those that stay are tried again
//!   epoch    when that is
//!   duel     whether the policy chooses, or the kernel
//!   tending  which processes there are, and how much they have
//!   lists    the kernel is to know how long its lists are
//!   guard    after the end, too: by another process
//!   spaces   processes, and what lies where in their memory
//! machine    what is asked of the machine, behind one trait
//!   walk     by the kernel's page tables
//! faults     which page is asked for, in order: a BPF program and its ring
//! ```
//!
//! A fault is a reference that misses, in its order. Uses of pages that are there set the reference bits in the processor's tables, as in the kernels that the CLOCK
//! policies were written for. The bit of a page that came in this epoch says nothing: the fault has set it.
//! What the policy makes of it is in `steered`, as for the page cache. A page is written to swap space before it leaves, by the kernel, and comes back by a fault: nothing
//! can be lost, and without this thread the kernel goes on with its own lists.

mod duel;
mod epoch;
mod faults;
mod guard;
mod leaving;
mod lists;
mod look;
mod machine;
mod paging;
mod spaces;
mod tending;
#[cfg(test)]
mod tests;
mod walk;

pub use duel::Chooser;
pub use guard::guard;
pub use paging::{Counts, Options, Paging, SetLimit};
