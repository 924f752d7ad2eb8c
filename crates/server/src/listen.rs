//! Where clients connect: TCP, unix sockets, and sockets that the service manager hands on.

use crate::error::Error;
use crate::words::read_as_words;
use forebay_nbd::Listener;
use rustix::fs::{Mode, OFlags, fstat, lstat, open};
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address to listen at: `tcp:HOST:PORT` or `unix:PATH`, also written as `HOST:PORT` or an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A host and a port; 0 takes any that is free.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

read_as_words!(Listen);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) if is_host_and_port(address) => Ok(Self::Tcp(address.to_owned())),
            Some(("tcp" | "unix", _)) => Err(no_address(text)),
            // As `--metrics` and `--control` take theirs.
            _ if text.starts_with('/') => Ok(Self::Unix(text.into())),
            _ if is_host_and_port(text) => Ok(Self::Tcp(text.to_owned())),
            _ => Err(no_address(text)),
        }
    }
}

/// A host's address of version 6 is in brackets.
fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let whole = !host.is_empty() && (!host.contains(':') || host.starts_with('['));
        whole && port.parse::<u16>().is_ok()
    })
}

fn no_address(text: &str) -> String {
    format!("`{text}` is no address: write tcp:127.0.0.1:10809, tcp:[::1]:10809 or unix:/run/forebay.sock")
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens. One made here in the file system is removed with it.
pub(crate) struct Bound {
    pub(crate) listener: Listener,
    /// What it really is: port 0 has become a number.
    pub(crate) address: String,
    pub(crate) made: Option<Made>,
}

/// A socket's name in the file system, which goes with this value, unless it is another socket's by then.
pub(crate) struct Made {
    path: PathBuf,
    /// The socket itself. As long as it is open no other can have its inode number.
    inode: OwnedFd,
}

impl Made {
    /// Of the socket that was just made there.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let inode = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        // As for want of descriptors: the start fails then, and leaves nothing.
        let inode = inode.inspect_err(|_| drop(std::fs::remove_file(path)))?;
        Ok(Self { path: path.to_owned(), inode })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn still_there(&self) -> io::Result<bool> {
        let (ours, found) = (fstat(&self.inode)?, lstat(&self.path)?);
        Ok((ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Somebody may have removed it already, which is what is wanted; and a successor may have put its own there.
        if self.still_there().is_ok_and(|there| there) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What to do about an address that cannot be listened at.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: stop it, or choose another address",
        _ => "",
    }
}

/// Listens at an address.
pub(crate) fn bind(listen: &Listen) -> Result<Bound, Error> {
    let failed = |error: io::Error| Error::Failed(format!("cannot listen on {listen}: {error}{}", hint(&error)));
    match listen {
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            Ok(Bound { listener: listener.into(), address: format!("tcp:{address}"), made: None })
        }
        Listen::Unix(path) => {
            remove_dead(path).map_err(failed)?;
            let listener = UnixListener::bind(path).map_err(failed)?;
            let made = Some(Made::new(path).map_err(failed)?);
            Ok(Bound { listener: listener.into(), address: listen.to_string(), made })
        }
    }
}

/// Removes the socket that a server left behind when it was killed: one that nobody listens to.
pub(crate) fn remove_dead(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name, which is no socket"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "the socket is in use")),
            Err(error) => Err(error),
        },
    }
}

/// The sockets that whoever started this process has handed on, as systemd does.
pub(crate) fn inherited() -> Result<Vec<Bound>, Error> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut bound = Vec::new();
    for index in 0..handed.len() {
        let failed = |error: io::Error| Error::Failed(format!("socket {index} handed on in LISTEN_FDS: {error}"));
        // One or the other: asked for the wrong kind it refuses, and keeps the socket.
        let (listener, address) = match handed.take_unix_listener(index) {
            Ok(Some(listener)) => {
                let address = listener.local_addr().map_err(failed)?;
                let path = address.as_pathname().map_or_else(|| "(unnamed)".into(), |path| path.display().to_string());
                (Listener::from(listener), format!("unix:{path}"))
            }
            Ok(None) => continue,
            Err(_) => {
                let Some(listener) = handed.take_tcp_listener(index).map_err(failed)? else { continue };
                let address = listener.local_addr().map_err(failed)?;
                (Listener::from(listener), format!("tcp:{address}"))
            }
        };
        bound.push(Bound { listener, address, made: None });
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_one_kind_and_whole() {
        assert_eq!("unix:/tmp/s".parse(), Ok(Listen::Unix("/tmp/s".into())));
        assert_eq!("tcp:[::1]:0".parse(), Ok(Listen::Tcp("[::1]:0".into())));
        for (short, whole) in
            [("127.0.0.1:1", "tcp:127.0.0.1:1"), ("/run/s", "unix:/run/s"), ("[::1]:1", "tcp:[::1]:1")]
        {
            assert_eq!(short.parse::<Listen>().map(|listen| listen.to_string()).as_deref(), Ok(whole));
        }
        for wrong in ["", "unix:", "tcp:10809", "tcp:host:", "tcp::10809", "tcp:host:66000", "s", "udp:host:1", ":1"] {
            assert!(wrong.parse::<Listen>().unwrap_err().contains("write tcp:127.0.0.1:10809"), "{wrong}");
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listen = Listen::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let bound = bind(&listen).unwrap_or_else(|error| panic!("{error}"));
        let refused = |listen: &Listen| bind(listen).err().expect("it is refused").to_string();
        assert!(refused(&listen).contains("another program listens there"), "{}", refused(&listen));
        drop(bound);
        assert!(!path.exists(), "its name goes with it");
        let before = bind(&listen).unwrap_or_else(|error| panic!("{error}"));
        drop(before.listener);
        let successor = bind(&listen).unwrap_or_else(|error| panic!("{error}"));
        drop(before.made);
        assert!(path.exists(), "a successor's socket stays");
        drop(successor);
        std::fs::write(&path, "a file").unwrap();
        assert!(refused(&listen).contains("no socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    }
}
