//! The folder of a recording that is made to be compared at once. It is locked while the recording is made, so that the next one can tell
//! what a killed one left.

use std::fs::{File, read_dir, remove_dir, remove_file};
use std::io;
use std::path::Path;
use tempfile::{Builder, TempDir};

/// How the folders' names begin.
const PREFIX: &str = "forebay-record-";

/// A folder, and its lock.
pub struct Folder {
    folder: TempDir,
    _held: File,
}

impl Folder {
    /// Makes one among the temporary files, and removes those of recordings that were killed.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let among = std::env::temp_dir();
        remove_left(&among);
        loop {
            let folder = Builder::new().prefix(PREFIX).tempdir_in(&among)?;
            let held = File::open(folder.path())?;
            // Where the storage has no locks nothing is removed.
            let _ = held.lock();
            // Another recorder may have removed it before it was locked.
            if folder.path().exists() {
                return Ok(Self { folder, _held: held });
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// It stays, and what is in it is the user's.
    pub fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Removes folders that nobody holds, and in which there is nothing but what was being written.
fn remove_left(among: &Path) {
    let named = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    for entry in read_dir(among).into_iter().flatten().flatten().filter(named) {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let Some(held) = File::open(entry.path()).ok().filter(|_| is_folder) else { continue };
        if held.try_lock().is_err() {
            continue;
        }
        for file in read_dir(entry.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|what| what == "tmp" || what == "spool") {
                let _ = remove_file(file.path());
            }
        }
        // Of a recording that is whole it is not empty, and stays.
        let _ = remove_dir(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_recorders_left_goes_and_all_else_stays() {
        let among = tempfile::tempdir().expect("a folder");
        let make = |folder: &str, files: &[&str]| {
            let folder = among.path().join(folder);
            std::fs::create_dir(&folder).expect("a folder");
            files.iter().for_each(|file| std::fs::write(folder.join(file), "x").expect("a file"));
            folder
        };
        let left = [make("forebay-record-a", &["make.parquet.17.tmp"]), make("forebay-record-b", &[])];
        let whole = make("forebay-record-c", &["make.parquet", "make.parquet.9.tmp"]);
        let others = make("forebay-data", &["x.tmp"]);
        let under_way = make("forebay-record-d", &["sh.parquet.3.tmp"]);
        let held = File::open(&under_way).expect("it is there");
        held.lock().expect("a lock");
        remove_left(among.path());
        assert!(left.iter().all(|folder| !folder.exists()));
        assert!(whole.join("make.parquet").exists() && others.join("x.tmp").exists());
        assert!(under_way.join("sh.parquet.3.tmp").exists());
        drop(held);
        remove_left(among.path());
        assert!(!under_way.exists());
    }
}
