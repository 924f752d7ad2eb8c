//! The socket of `--control`: a line of JSON for each command, a line of JSON for each answer.
//!
//! It is its owner's alone: the socket has mode 0600 from the moment it is there, in a folder where nobody else can put another
//! in its place, and the system says who has connected.

use crate::control::{Answer, Command, Steered};
use crate::error::Error;
use crate::listen::{Made, remove_dead};
use forebay_trace::write::folder_of;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::geteuid;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes of a command, at the most.
const MOST_LINE: u64 = 64 << 10;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 16;

/// Commands at a time that may wait for a device or a folder: there are places left for the others, whatever hangs.
const MOST_WAITING: usize = 8;

/// How long a connection may be silent, or take nothing of its answer.
const SILENCE: Duration = Duration::from_secs(60);

/// How long to wait when no connection can be accepted, as for want of descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// Makes the socket, which goes with its name.
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, Made), Error> {
    let bound = check_folder(path).and_then(|()| {
        remove_dead(path)?;
        Ok((listen(path)?, Made::new(path)?))
    });
    bound.map_err(|error| Error::Failed(format!("--control {}: {error}", path.display())))
}

/// Serves commands until the process ends.
pub(crate) fn start(service: Arc<dyn Steered>, listener: UnixListener) -> Result<(), Error> {
    let accept = move || accept(&service, &listener);
    let thread = std::thread::Builder::new().name("control".to_owned()).spawn(accept);
    thread.map(drop).map_err(|error| Error::Failed(format!("no thread for --control: {error}")))
}

/// A server's answer to a command: a line of JSON.
///
/// # Errors
/// There is no server at this socket, or it is another user's.
pub fn ask(socket: &Path, command: &Command) -> Result<String, Error> {
    let name = socket.display();
    let failed = |error: io::Error| {
        Error::Failed(format!(
            "{name}: {error}; is there a `forebay serve --control {name}`, a mount or a steered page cache, and is it yours?"
        ))
    };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    let line = serde_json::to_string(command).map_err(|error| Error::Failed(error.to_string()))?;
    stream.write_all((line + "\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
    if answer.is_empty() {
        return Err(Error::Failed(format!("{name}: the server has closed the connection without an answer")));
    }
    Ok(answer)
}

/// Whether nobody but its owner and root can remove or rename what is in the folder of `path`.
fn check_folder(path: &Path) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    let folder = folder_of(path);
    let found = std::fs::metadata(folder)?;
    let ours = found.uid() == geteuid().as_raw() || found.uid() == 0;
    if ours && (found.mode() & OTHERS_WRITE == 0 || found.mode() & STICKY != 0) {
        return Ok(());
    }
    let message = format!("others can write to the folder {}: choose one that is yours alone", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Before it has a name, so that there is no moment in which others could connect.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, MOST_CONNECTIONS as i32)?;
    Ok(UnixListener::from(socket))
}

fn accept(service: &Arc<dyn Steered>, listener: &UnixListener) {
    let (open, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!("control: no connection can be accepted: {error}");
                std::thread::sleep(BREATH);
                continue;
            }
        };
        let Some(counted) = Counted::new(&open, MOST_CONNECTIONS) else {
            tracing::warn!("control: more than {MOST_CONNECTIONS} connections: one is closed");
            continue;
        };
        let (service, waiting) = (Arc::clone(service), Arc::clone(&waiting));
        let serve = move || {
            let _counted = counted;
            if let Err(error) = serve(&service, &waiting, stream) {
                tracing::debug!("control: a connection has ended: {error}");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("command".to_owned()).spawn(serve) {
            tracing::warn!("control: no thread for a connection: {error}");
        }
    }
}

/// A connection or a command, counted while it is there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// One more, unless there are `most`.
    fn new(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let counted = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < most).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(service: &Arc<dyn Steered>, waiting: &Arc<AtomicUsize>, stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let peer = sockopt::socket_peercred(&stream)?.uid;
    if peer != geteuid() && !peer.is_root() {
        tracing::warn!("control: user {} is refused", peer.as_raw());
        return answer(&stream, &Answer::Refused { message: "only the server's owner controls it".to_owned() });
    }
    let mut lines = BufReader::new(&stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == MOST_LINE {
            return answer(&stream, &Answer::Refused { message: format!("a command has at most {MOST_LINE} bytes") });
        }
        let answered = match serde_json::from_slice::<Command>(&line) {
            Ok(command) => execute(service, waiting, command),
            Err(error) => Answer::Refused { message: format!("that is no command: {error}") },
        };
        answer(&stream, &answered)?;
    }
}

fn execute(service: &Arc<dyn Steered>, waiting: &Arc<AtomicUsize>, command: Command) -> Answer {
    if !command.may_wait() {
        return Arc::clone(service).execute(command);
    }
    let Some(_counted) = Counted::new(waiting, MOST_WAITING) else {
        let message = format!("{MOST_WAITING} commands that may wait for storage are under way: try again");
        return Answer::Failed { message };
    };
    Arc::clone(service).execute(command)
}

fn answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_socket_is_its_owners_alone_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let _bound = bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn no_more_are_counted_than_there_may_be_and_places_return() {
        let count = Arc::new(AtomicUsize::new(0));
        let first = Counted::new(&count, 2);
        let second = Counted::new(&count, 2);
        assert!(first.is_some() && second.is_some() && Counted::new(&count, 2).is_none());
        drop(first);
        assert!(Counted::new(&count, 2).is_some());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let check = || check_folder(&folder.path().join("control"));
        for (bits, right) in [(0o700, true), (0o755, true), (0o775, false), (0o777, false), (0o1777, true)] {
            mode(bits);
            assert_eq!(check().is_ok(), right, "{bits:o}");
        }
        assert!(check_folder(Path::new("/no/such/folder")).is_err());
    }
}
