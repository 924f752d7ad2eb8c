//! A server of the Network Block Device protocol, in front of anything that is an [`Export`].

mod export;

pub use export::{Errno, Export, Extent, Failure, Features, Limits, Session};
