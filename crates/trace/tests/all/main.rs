//! The crate as its users see it, one module for each of its sides.

mod cloudphysics;
mod field;
mod formats;
mod parquet_damage;
mod parquet_tables;
mod real_trace;
