//! Files that are written whole or not at all.

use crate::figure::{DrawError, PDF_MARK, PNG_MARK, SVG_MARK};
use crate::page::GENERATOR;
use std::fs::File;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{error, fmt};
use tempfile::NamedTempFile;

/// Why a file is not there.
#[derive(Debug)]
pub enum FileError {
    /// There is a file that is not ours.
    Another(PathBuf),
    /// What is there is a device, a pipe or a socket, which a file must not take the place of.
    Special(PathBuf),
    /// No file can be made at this path.
    NotMade(PathBuf, io::Error),
    /// There is nothing to write.
    NotDrawn(PathBuf, DrawError),
    /// The system failed meanwhile.
    NotWritten(PathBuf, io::Error),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Another(path) => write!(
                f,
                "{}: is there, and was not made by forebay: remove it first, or name another file",
                path.display()
            ),
            Self::Special(path) => {
                write!(f, "{}: is a device, a pipe or a socket, which is not replaced: name a file", path.display())
            }
            Self::NotMade(path, error) => {
                let there = folder_of(path).is_dir();
                let (folder, path) = (folder_of(path).display(), path.display());
                match error.kind() {
                    io::ErrorKind::NotFound if !there => {
                        write!(f, "{path}: there is no folder {folder}: make it first, or name another")
                    }
                    what => write!(
                        f,
                        "{path}: cannot be written to the folder {folder} ({what}): name one that you may write to"
                    ),
                }
            }
            Self::NotDrawn(path, error) => write!(f, "{}: writing failed: {error}", path.display()),
            Self::NotWritten(path, error) => write!(f, "{}: writing failed: {error}", path.display()),
        }
    }
}

impl error::Error for FileError {}

/// Checks before long work that a file can be made there.
///
/// # Errors
/// Why not.
pub fn check(path: &Path) -> Result<(), FileError> {
    beside(path).map(drop)
}

/// Checks that a report or a figure replaces nothing but another one, or an empty file.
///
/// # Errors
/// There is another file.
pub fn check_replaced(path: &Path) -> Result<(), FileError> {
    let mut start = Vec::new();
    let Ok(file) = File::open(path) else { return Ok(()) };
    file.take(START).read_to_end(&mut start).map_err(|error| FileError::NotWritten(path.to_owned(), error))?;
    let ours = |mark: &&str| start.windows(mark.len()).any(|part| part == mark.as_bytes());
    if start.is_empty() || [GENERATOR, SVG_MARK, PNG_MARK, PDF_MARK].iter().any(ours) {
        Ok(())
    } else {
        Err(FileError::Another(path.to_owned()))
    }
}

/// The bytes in which our files say what they are.
const START: u64 = 1024;

/// Writes the file.
///
/// # Errors
/// Why it is not there, or is as it was.
pub fn write(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let failed = |error| FileError::NotWritten(path.to_owned(), error);
    let mut file = beside(path)?;
    // Errors of the file itself would name what it is called until it is whole.
    file.as_file_mut().write_all(content).map_err(failed)?;
    file.persist(path).map(drop).map_err(|error| failed(error.error))
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that goes away unless it takes the path's place.
fn beside(path: &Path) -> Result<NamedTempFile, FileError> {
    let there = path.symlink_metadata().map(|found| found.file_type());
    if there.is_ok_and(|there| !there.is_file() && !there.is_dir() && !there.is_symlink()) {
        return Err(FileError::Special(path.to_owned()));
    }
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    builder.tempfile_in(folder_of(path)).map_err(|error| FileError::NotMade(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let refused = write(&path, b"figures").unwrap_err().to_string();
        assert!(refused.ends_with("is a device, a pipe or a socket, which is not replaced: name a file"), "{refused}");
        assert!(!path.symlink_metadata().unwrap().is_file(), "it is there");
    }
}
