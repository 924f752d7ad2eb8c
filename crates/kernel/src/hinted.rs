//! What somebody says of the uses to come of a steered file: by hand, or for a program that does not say so itself.
//!
//! Readahead is the kernel's, and follows each open file: what programs say of that by `posix_fadvise` holds, and nobody else can say it.

use crate::act;
use crate::error::Error;
use crate::file_system::identify;
use crate::steered::PAGE;
use crate::steering::Steering;
use forebay_owning::{Advice, HINT};
use rustix::fs::{FileType, Mode, OFlags, XattrFlags, fremovexattr, fsetxattr, fstat, open};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;

/// What is to be read ahead.
#[derive(Debug)]
pub struct ReadAhead {
    file: Arc<File>,
    bytes: u64,
}

impl ReadAhead {
    /// Has the kernel read it, and does not wait for that; but storage that takes nothing is waited for.
    ///
    /// # Errors
    /// The system's.
    pub fn start(self) -> Result<(), Error> {
        act::read_ahead(self.file.as_fd(), self.bytes).map_err(|error| failed("the kernel to read a file ahead", error))
    }
}

impl Steering {
    /// Takes advice on a steered file. What is to be read ahead for that is the caller's to start: the file from its beginning, as far as it fits into the cache.
    ///
    /// # Errors
    /// It is no file that is steered, or not such advice; or the system refuses.
    pub fn hint(&self, path: &Path, advice: Advice) -> Result<Option<ReadAhead>, Error> {
        let refused = |what: &str| Error::Place { place: path.to_owned(), what: what.to_owned() };
        if matches!(advice, Advice::Random | Advice::Sequential) {
            return Err(refused(
                "readahead of a steered file is the kernel's: programs say by posix_fadvise(2) that they read in order, or at random",
            ));
        }
        let file = Arc::new(opened(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => refused("it is no regular file"),
            _ => refused(&error.to_string()),
        })?);
        let (id, bytes) = identify(&*file).map_err(|error| refused(&error.to_string()))?;
        let asked = Arc::clone(&file);
        let leaves = advice == Advice::DoNotNeed;
        let found = self.ask(move |state| state.find_hinted(asked.as_fd(), id, leaves));
        match found {
            Some(Ok(())) => {}
            Some(Err(what)) => return Err(refused(what)),
            None => return Err(no_answer()),
        }
        match advice {
            Advice::WillNeed => {
                let bytes = bytes.min(self.counts().asked * PAGE);
                return Ok(Some(ReadAhead { file, bytes }));
            }
            Advice::NoReuse | Advice::Normal => {
                note(&file, advice).map_err(|error| failed("the file to have user.forebay.hint changed", error))?;
                self.ask(move |state| state.read_attributes_of(id)).ok_or_else(no_answer)?;
            }
            _ => {}
        }
        Ok(None)
    }
}

fn failed(asked: &'static str, error: io::Error) -> Error {
    Error::System { asked, source: Arc::new(error) }
}

fn no_answer() -> Error {
    failed("the thread that steers", io::ErrorKind::TimedOut.into())
}

/// Opens a regular file, without a use of it.
fn opened(path: &Path) -> io::Result<File> {
    // What else lies there may do something when it is opened.
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME | OFlags::NONBLOCK;
    Ok(open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?.into())
}

/// Has a file's attribute say that it is used once, or nothing.
fn note(file: &File, advice: Advice) -> io::Result<()> {
    match advice {
        Advice::NoReuse => Ok(fsetxattr(file, HINT, advice.to_string().as_bytes(), XattrFlags::empty())?),
        _ => match fremovexattr(file, HINT) {
            // There was none.
            Err(rustix::io::Errno::NODATA) => Ok(()),
            done => Ok(done?),
        },
    }
}
