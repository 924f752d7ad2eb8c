//! Who is at the other end, and for whom it may speak.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Uid, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// A process, which stays the same one although its number may come to be another's.
pub(crate) struct Process {
    pub(crate) number: u32,
    fd: OwnedFd,
}

/// The process that has connected.
pub(crate) struct Peer {
    pub(crate) process: Process,
    pub(crate) user: Uid,
}

impl Process {
    /// A process, if it is a user's as `owner` finds.
    fn of_user(pid: Pid, user: Uid, owner: fn(u32) -> io::Result<u32>) -> io::Result<Self> {
        let fd = pidfd_open(pid, PidfdFlags::empty())?;
        let number = pid.as_raw_nonzero().get() as u32;
        let owner = owner(number)?;
        let process = Self { number, fd };
        // What was found was found of this process, if it is still there.
        if process.has_ended() || (owner != user.as_raw() && !user.is_root()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(process)
    }

    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    /// Becomes readable when it has ended.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        let known = socket_peercred(stream)?;
        Ok(Self { process: Process::of_user(known.pid, known.uid, effective_user)?, user: known.uid })
    }

    /// The process of this number, or itself for 0, if it may speak for it.
    pub(crate) fn speaks_for(&self, process: u64) -> io::Result<Process> {
        if process == 0 || process == u64::from(self.process.number) {
            return Ok(Process { number: self.process.number, fd: self.process.fd.try_clone()? });
        }
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        Process::of_user(pid.ok_or(io::ErrorKind::NotFound)?, self.user, who_may_trace)
    }

    /// Device and inode of one of its open files. The file is not opened, and its file system not asked: it may be one that does not answer.
    pub(crate) fn file(&self, descriptor: u64) -> io::Result<(u64, u64)> {
        let path = format!("/proc/{}/fd/{descriptor}", self.process.number);
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
        if self.process.has_ended() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
    }
}

/// The user in whose name a process acts.
fn effective_user(process: u32) -> io::Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = users.and_then(|users| users.split_whitespace().nth(1)?.parse().ok());
    effective.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The user who may look into a process: root, if it has or had more rights than its user.
fn who_may_trace(process: u32) -> io::Result<u32> {
    Ok(std::fs::metadata(format!("/proc/{process}"))?.uid())
}
