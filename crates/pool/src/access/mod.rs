//! How a thread uses pages: handles, pins, bytes, misses, and ranges that are given up.

pub(crate) mod bytes;
pub(crate) mod discard;
pub(crate) mod elsewhere;
pub(crate) mod extents;
pub(crate) mod grow;
pub(crate) mod handle;
pub(crate) mod hints;
pub(crate) mod load;
pub(crate) mod pins;
pub(crate) mod room;
