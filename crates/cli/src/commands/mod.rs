//! The commands, a file each.

pub(crate) mod advise;
pub(crate) mod analyze;
pub(crate) mod clock;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod curve;
pub(crate) mod dask;
pub(crate) mod devices;
pub(crate) mod experiment;
pub(crate) mod formats;
pub(crate) mod guard;
pub(crate) mod info;
pub(crate) mod levels;
pub(crate) mod managers;
pub(crate) mod manual;
pub(crate) mod mix;
pub(crate) mod mount;
pub(crate) mod policies;
pub(crate) mod record;
pub(crate) mod replayed;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod steer;
pub(crate) mod top;
