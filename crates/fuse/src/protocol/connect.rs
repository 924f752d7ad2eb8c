//! Connects a mount point with this process: by the system's call as root, by `fusermount3` as another user.

use super::channel::Channel;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that mounts for users.
const HELPER: &str = "fusermount3";

/// In its environment: the number of the descriptor by which it hands over the connection.
const HAND_OVER: &str = "_FUSE_COMMFD";

/// What the file system is called, behind `fuse.`.
const KIND: &str = "forebay";

/// How a directory is mounted.
pub(crate) struct Place<'p> {
    /// What is shown, as lists of mounts name it.
    pub(crate) source: &'p Path,
    pub(crate) mountpoint: &'p Path,
    pub(crate) read_only: bool,
    /// All users may enter.
    pub(crate) allow_other: bool,
    /// The kernel checks modes, owners and access lists.
    pub(crate) kernel_checks: bool,
}

impl Place<'_> {
    /// Mounts it, and answers by which descriptor the kernel's requests come.
    pub(super) fn connect(&self, superuser: bool) -> io::Result<OwnedFd> {
        if !superuser {
            return self.by_helper();
        }
        let device = Channel::open_device()?;
        match self.by_call(&device) {
            // It may not mount: it is root in a namespace of its own.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => self.by_helper(),
            done => done.map(|()| device),
        }
    }

    /// Set-user-id and devices are as they are below.
    fn by_call(&self, device: &OwnedFd) -> io::Result<()> {
        let (number, user, group) = (device.as_raw_fd(), getuid().as_raw(), getgid().as_raw());
        // The mount point is a directory.
        let mut options = format!("fd={number},rootmode=40000,user_id={user},group_id={group},subtype={KIND}");
        self.common(&mut options);
        let flags = if self.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        let options = CString::new(options)?;
        Ok(mount(self.source, self.mountpoint, c"fuse", flags, Some(options.as_c_str()))?)
    }

    fn by_helper(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut options = format!("subtype={KIND},fsname=").into_bytes();
        // A comma would begin another option.
        for &byte in self.source.as_os_str().as_bytes() {
            if matches!(byte, b',' | b'\\') {
                options.push(b'\\');
            }
            options.push(byte);
        }
        let mut rest = if self.read_only { ",ro".to_owned() } else { String::new() };
        self.common(&mut rest);
        options.extend_from_slice(rest.as_bytes());
        // Its standard input is the socket: that needs no descriptor that others could inherit.
        let helper = Command::new(HELPER)
            .arg("-o")
            .arg(std::ffi::OsStr::from_bytes(&options))
            .arg("--")
            .arg(self.mountpoint)
            .env(HAND_OVER, "0")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let helper = helper.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let why = format!("{HELPER} is missing, which mounts for users: install fuse3, or mount as root");
                io::Error::new(io::ErrorKind::NotFound, why)
            }
            _ => error,
        })?;
        let device = received(&ours);
        let said = helper.wait_with_output()?;
        match device {
            Ok(device) => Ok(device),
            Err(error) => {
                let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
                Err(if said.is_empty() { error } else { io::Error::other(said) })
            }
        }
    }

    fn common(&self, options: &mut String) {
        if self.kernel_checks {
            options.push_str(",default_permissions");
        }
        if self.allow_other {
            options.push_str(",allow_other");
        }
    }
}

/// The descriptor that the helper hands over.
fn received(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC;
    while let Err(error) = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handed) => handed.next(),
        _ => None,
    });
    device.ok_or_else(|| io::Error::other(format!("{HELPER} has handed over no connection")))
}
