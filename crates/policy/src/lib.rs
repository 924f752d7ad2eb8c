//! Buffer replacement policies.
mod policy;
pub use policy::Operation;
