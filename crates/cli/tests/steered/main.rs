//! Programs that steer the cache of a mount: managers of their own, and advice.

mod advise;
mod mounted;
mod own_managers;
#[path = "../command/running.rs"]
mod running;
