//! The crate as its users see it, one module for each of its sides.

mod contract;
mod hands;
mod in_a_pool;
mod invariants;
mod loops;
mod lru_sp;
mod managed;
mod models;
mod once;
mod readahead;
mod revoke;
mod sharing;
