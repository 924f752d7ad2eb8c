//! What policies are made of.

pub(crate) mod four_lists;
pub(crate) mod frame_circle;
pub(crate) mod growth;
pub(crate) mod heap;
pub(crate) mod list;
#[cfg(test)]
pub(crate) mod long_run;
pub(crate) mod ordered;
pub mod prefetch;
pub(crate) mod slots;
pub(crate) mod time_set;
