//! The longest file that this process may write (`ulimit -f`): a write of a user behind that fails at once, and not at its writeback.

use rustix::process::{Resource, getrlimit};
use std::sync::OnceLock;

/// Whether a file may be so long.
pub(crate) fn allows(length: u64) -> bool {
    static LONGEST: OnceLock<u64> = OnceLock::new();
    length <= *LONGEST.get_or_init(|| getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX))
}
