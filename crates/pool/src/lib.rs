//! A buffer pool: frames of memory in front of a [`device`](device::Device), under any of Forebay's replacement policies.

pub mod device;
