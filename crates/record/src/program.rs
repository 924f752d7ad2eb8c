//! Programs that are run for the user.

use crate::error::Error;
use rustix::fs::{Access, access};
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The program's file, as a shell finds it.
///
/// # Errors
/// There is no such program, or it is not executable.
pub fn find(program: &OsStr) -> Result<PathBuf, Error> {
    let shown = program.display();
    let missing = || Error::Program(127, format!("{shown}: there is no such program"));
    let refused = |path: &Path| Error::Program(126, format!("{}: it is not executable", path.display()));
    let executable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return if executable(&path) {
            Ok(path)
        } else if path.exists() {
            Err(refused(&path))
        } else {
            Err(missing())
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let there: Vec<PathBuf> =
        env::split_paths(&folders).map(|folder| folder.join(program)).filter(|path| path.is_file()).collect();
    match there.iter().find(|path| executable(path)) {
        Some(path) => Ok(path.clone()),
        None => Err(there.first().map_or_else(missing, |path| refused(path))),
    }
}
