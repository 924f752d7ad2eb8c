//! Real mounts: a directory behind a pool, used as any program uses a directory.

mod bytes;
mod durability;
mod hints;
mod made;
mod managers;
mod memory;
mod mounted;
mod names;
mod outside;
mod reader;
mod simulator;
mod words;
