//! Bytes of files that are dirty or being written: why their pages stay in the cache.

use crate::act;
use crate::walk::Walk;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pages of files below a directory that are dirty or being written; 0 before Linux 6.5, which does not say.
pub fn unwritten(directory: &Path) -> u64 {
    let Ok(directory) = File::open(directory) else { return 0 };
    let (mut walk, mut pages) = (Walk::new(directory), 0);
    let mut visit = |file: BorrowedFd<'_>, _, bytes: u64, _| {
        let cached = act::cached(file, &(0..bytes.div_ceil(crate::steered::PAGE)));
        pages += cached.map_or(0, |cached| cached.dirty + cached.writeback);
    };
    while !walk.go_on(Instant::now() + Duration::from_secs(1), &mut visit) {}
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_unwritten_until_it_is_flushed() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let mut file = File::create(folder.path().join("file")).expect("a file");
        file.write_all(&[1; 20_000]).expect("a write");
        assert_eq!(unwritten(folder.path()), 5);
        file.sync_all().expect("a flush");
        assert_eq!(unwritten(folder.path()), 0);
    }
}
