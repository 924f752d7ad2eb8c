//! The crate as its users see it, one module for each of its sides.

mod address_space;
mod bytes;
mod common;
mod crash;
mod device;
mod device_file;
mod equal_to_simulator;
mod faults;
mod forecast;
mod full_disk;
mod hints;
mod hung_devices;
mod lengths;
mod metadata;
mod objects;
mod pins;
mod readahead;
mod shares;
