//! The process that looks after steered programs once the one that steers has ended, however it did.

use crate::error::Error;
use crate::inherited::ignore;
use crate::steering::claim::{Claim, Of};
use forebay_kernel::memory;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a program is called with to be one. The paths of control groups follow.
const WORD: &str = "steer-guard";

/// The locks of a process that ends may go so much later than its end of a pipe.
const GOING: Duration = Duration::from_secs(1);

/// One that waits.
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts this program once more, for the processes of control groups. It is in a group of its own for signals, so that a terminal's do not reach it.
    ///
    /// # Errors
    /// No process can be started.
    pub(crate) fn start(groups: &[PathBuf]) -> Result<Self, Error> {
        // It runs in the root directory, lest it keep another in use.
        let groups = groups.iter().map(|group| group.canonicalize().unwrap_or_else(|_| group.clone()));
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORD).arg("--").args(groups).process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = command.spawn().map(Self);
        started.map_err(|error| {
            Error::Failed(format!("no process can look after programs when this one has ended: {error}"))
        })
    }

    /// No page has left, so there is nothing to look after.
    pub(crate) fn end(mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is one: waits for the end of the process that has started it, of which standard input tells. What asks services to stop asks nothing of it.
/// Where another process steers the same again, it ends.
///
/// # Errors
/// Standard input cannot be read.
pub fn guard(groups: &[PathBuf]) -> Result<(), Error> {
    ignore();
    let is_steered = || groups.iter().any(|group| Claim::is_free(group, Of::Memory).is_ok_and(|free| !free));
    let (mut asked, mut was_free) = (None, false);
    let steered_again = || {
        let steered = is_steered();
        was_free |= !steered;
        steered && (was_free || asked.get_or_insert_with(Instant::now).elapsed() > GOING)
    };
    memory::guard(groups, std::io::stdin(), steered_again)
        .map_err(|error| Error::Failed(format!("standard input: {error}")))
}
