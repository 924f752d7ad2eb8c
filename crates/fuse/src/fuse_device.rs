//! Whether this user may open the device by which the kernel's requests are received, and what to do if not.

use crate::error::Error;
use crate::protocol::DEVICE;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;

/// Whether this process can open it. `fusermount3`, which mounts for other users than root, opens it with that user's rights.
///
/// # Errors
/// Why it cannot, and what to do.
pub(crate) fn check() -> Result<(), Error> {
    let opened = File::options().read(true).write(true).open(DEVICE);
    opened.map(drop).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::EACCES) => format!(
                "{}; as root, run `chmod 0666 {DEVICE}`, as distributions have it, and to keep it so write \
                 KERNEL==\"fuse\", MODE=\"0666\" to /etc/udev/rules.d/99-fuse.rules",
                who_may()
            ),
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
                "the kernel's module is not loaded; as root, run `modprobe fuse`".to_owned()
            }
            Some(libc::EPERM) => format!("this container may not use it; start it with `--device {DEVICE}`"),
            _ => error.to_string(),
        };
        Error::System { what: format!("{DEVICE} cannot be opened"), source: io::Error::new(error.kind(), why) }
    })
}

/// Who may open it, by its mode.
fn who_may() -> String {
    let mode = std::fs::metadata(DEVICE).map_or(0, |found| found.permissions().mode() & 0o777);
    match mode {
        mode if mode & 0o066 == 0 => "only root may open it".to_owned(),
        mode => format!("its mode is {mode:04o}, which does not let this user open it"),
    }
}
