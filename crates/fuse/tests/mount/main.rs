//! Real mounts: a directory behind a pool, used as any program uses a directory.

mod behind;
mod bytes;
mod durability;
#[path = "../../../pool/tests/all/forecast.rs"]
mod forecast;
mod hints;
mod layouts;
mod made;
mod managers;
mod mounted;
mod names;
mod once;
mod outside;
mod permissions;
mod privileges;
mod reader;
mod sharing;
mod simulator;
mod words;
