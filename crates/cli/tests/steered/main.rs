//! Programs that steer the cache of a mount: managers of their own.

mod mounted;
mod own_managers;
