//! BPF: programs of this crate's own, written when they are needed, and what they and this process share.
//!
//! ```text
//! layout      where the running kernel keeps what programs read, as it describes itself
//!   btf       that description
//! assemble    instructions
//!   groups    those that find a process's control group
//! system      the system call, and shared memory
//! own         this process's number there
//! ring        what programs have written for this process, in order
//! error       what is missing on this machine
//! ```

pub(crate) mod assemble;
pub(crate) mod btf;
pub(crate) mod error;
pub(crate) mod groups;
pub(crate) mod layout;
pub(crate) mod own;
pub(crate) mod ring;
pub(crate) mod system;

/// Functions of the kernel for programs, by their numbers in `enum bpf_func_id`.
pub(crate) mod helper {
    pub(crate) const MAP_LOOKUP: i32 = 1;
    pub(crate) const CURRENT_PROCESS: i32 = 14;
    pub(crate) const PROCESSOR: i32 = 8;
    pub(crate) const CURRENT_USER: i32 = 15;
    pub(crate) const CURRENT_NAME: i32 = 16;
    pub(crate) const READ_KERNEL: i32 = 113;
    pub(crate) const RING_RESERVE: i32 = 131;
    pub(crate) const RING_SUBMIT: i32 = 132;
    pub(crate) const CURRENT_TASK: i32 = 158;

    /// A record's reader looks by itself (`BPF_RB_NO_WAKEUP`).
    pub(crate) const NO_WAKE_UP: i32 = 1;
}
