//! The crate as its users see it, one module for each of its sides.

mod client;
mod limits;
mod protocol;
mod running;
mod server;
