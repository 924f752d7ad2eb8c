//! Programs that say what a mount's cache is to keep: managers of their own, and advice.

mod advise;
mod mounted;
mod own_managers;
#[path = "../command/running.rs"]
mod running;
