//! Keeps a directory to one mount: of two mounts of which one would cache what the other writes, the second is refused. The first may be
//! of another process or user, and be reached through a bind mount.
//!
//! A mount marks its source and all directories above it. A mark is an advisory lock of one byte of the directory (`F_OFD_SETLK` of
//! fcntl(2)), so it goes with its process. All are read locks, as no directory can be opened for writing: a mount sets its marks, and then
//! asks for those of others that are in its way. Of two that start together, both may see the other. Both then take their marks back, and
//! try again.

use crate::mountinfo::{self, Entry};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a mount waits for one that is in its way, which may be writing its last pages.
const LAST_PAGES: Duration = Duration::from_secs(10);

/// How long it waits in silence.
const SILENCE: Duration = Duration::from_secs(1);

/// The byte of the first mark: no other program is known to lock bytes of directories.
const FIRST: libc::off_t = 0x0f0_7eba_0000;

/// What a mount does with a directory. Its number is its byte's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It is the source, and is written to.
    Writes,
    /// It is the source, and is only read.
    Reads,
    /// The source of a mount that writes lies in it.
    WritesBelow,
    /// The source of a mount that reads lies in it.
    ReadsBelow,
}

impl Mark {
    /// The marks of another mount that are in the way of this one.
    fn against(self) -> &'static [Self] {
        match self {
            Self::Writes => &[Self::Writes, Self::Reads, Self::WritesBelow, Self::ReadsBelow],
            Self::Reads => &[Self::Writes, Self::WritesBelow],
            Self::WritesBelow => &[Self::Writes, Self::Reads],
            Self::ReadsBelow => &[Self::Writes],
        }
    }
}

/// The directories that a mount has marked, for as long as it is there.
#[derive(Default)]
pub(crate) struct Claim(Vec<Marked>);

struct Marked {
    place: Place,
    directory: OwnedFd,
    marks: Vec<Mark>,
}

/// Device and inode.
type Place = (u32, u32, u64);

impl Claim {
    /// Marks a source and the directories above it. Waits for mounts that are in the way, up to [`LAST_PAGES`].
    ///
    /// # Errors
    /// A mount is still in the way.
    pub(crate) fn new(source: &OwnedFd, read_only: bool) -> io::Result<Self> {
        let (start, mut said) = (Instant::now(), false);
        loop {
            let mut claim = Self::default();
            claim.mark_all(source.as_fd(), read_only)?;
            let Some(why) = claim.in_the_way(&path_of(source.as_fd())) else { return Ok(claim) };
            drop(claim);
            if start.elapsed() > LAST_PAGES {
                let what = format!(
                    "{why}, and the cache of one mount would not see what the other writes: unmount that one first"
                );
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            if !said && start.elapsed() > SILENCE {
                said = true;
                tracing::warn!("{why}: waiting up to {} seconds for that mount to end", LAST_PAGES.as_secs());
            }
            // Two that start together are not to meet again.
            std::thread::sleep(Duration::from_millis(20 + u64::from(std::process::id() % 17)));
        }
    }

    fn mark_all(&mut self, source: BorrowedFd<'_>, read_only: bool) -> io::Result<()> {
        let (own, above) = if read_only { (Mark::Reads, Mark::ReadsBelow) } else { (Mark::Writes, Mark::WritesBelow) };
        let mounts = mountinfo::read()?;
        let below = mounted_below(source, &mounts)?;
        for shown in std::iter::once(source).chain(below.iter().map(AsFd::as_fd)) {
            self.mark(shown, own)?;
            for directory in above_everywhere(shown, &mounts)? {
                self.mark(directory.as_fd(), above)?;
            }
        }
        Ok(())
    }

    /// Marks a directory, if this user can open it and its file system has locks.
    fn mark(&mut self, directory: BorrowedFd<'_>, mark: Mark) -> io::Result<()> {
        let (place, _) = place_of(directory)?;
        let known = self.0.iter().position(|marked| marked.place == place);
        let index = match known {
            Some(index) => index,
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let Ok(directory) = openat(directory, c".", flags, Mode::empty()) else { return Ok(()) };
                self.0.push(Marked { place, directory, marks: Vec::new() });
                self.0.len() - 1
            }
        };
        let marked = &mut self.0[index];
        if !marked.marks.contains(&mark) && lock(&marked.directory, libc::F_OFD_SETLK, mark).is_ok() {
            marked.marks.push(mark);
        }
        Ok(())
    }

    /// What another mount has that is in the way of this one.
    fn in_the_way(&self, source: &Path) -> Option<String> {
        let found = self.0.iter().find_map(|marked| {
            let against = marked.marks.iter().flat_map(|mark| mark.against());
            let mut others =
                against.filter(|other| lock(&marked.directory, libc::F_OFD_GETLK, **other).is_ok_and(|held| held));
            others.next().map(|other| (path_of(marked.directory.as_fd()), *other))
        });
        let (path, other) = found?;
        let (name, at) = (source.display(), path.display());
        Some(match other {
            Mark::Writes | Mark::Reads if path == source => format!("{name}: is mounted already"),
            Mark::Writes | Mark::Reads => format!("{name}: shares files with {at}, which is mounted already"),
            Mark::WritesBelow | Mark::ReadsBelow => format!("{name}: a directory in {at} is mounted already"),
        })
    }
}

/// Sets a mark by `F_OFD_SETLK`, or asks for another's by `F_OFD_GETLK`: whether there is one.
fn lock(directory: &OwnedFd, command: libc::c_int, mark: Mark) -> io::Result<bool> {
    // SAFETY: plain numbers, for which zeroes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // A write lock would be refused by the read lock that is a mark.
    let kind = if command == libc::F_OFD_GETLK { libc::F_WRLCK } else { libc::F_RDLCK };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = FIRST + mark as libc::off_t;
    lock.l_len = 1;
    // SAFETY: the descriptor is open, and `lock` is what both commands read and write.
    if unsafe { libc::fcntl(directory.as_raw_fd(), command, &raw mut lock) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
}

/// The roots of file systems and bind mounts that a source shows, too, where they are mounted on directories in it. Only those of disks, and
/// of the source's own file system: others may not answer, and have files of their own.
fn mounted_below(source: BorrowedFd<'_>, mounts: &[Entry]) -> io::Result<Vec<OwnedFd>> {
    let (path, (_, id)) = (path_of(source), place_of(source)?);
    let own = mounts.iter().find(|mount| mount.id == id).map(|mount| mount.device);
    let shown = |mount: &&Entry| {
        let local = mount.device.0 != 0 || Some(mount.device) == own;
        local && mount.mountpoint != path && mount.mountpoint.starts_with(&path)
    };
    Ok(mounts.iter().filter(shown).filter_map(|mount| open(&mount.mountpoint)).collect())
}

/// The directories above one, on each path by which a mount of its file system shows it: through a bind mount of a part there is no way
/// to what lies above that part.
fn above_everywhere(directory: BorrowedFd<'_>, mounts: &[Entry]) -> io::Result<Vec<OwnedFd>> {
    let mut all = above(directory)?;
    let (place, id) = place_of(directory)?;
    let path = path_of(directory);
    let own = mounts.iter().find(|mount| mount.id == id);
    let inner = own.and_then(|own| Some((own, own.root.join(path.strip_prefix(&own.mountpoint).ok()?))));
    let Some((own, inner)) = inner else { return Ok(all) };
    for mount in mounts.iter().filter(|mount| mount.device == own.device && mount.id != own.id) {
        let shown = inner.strip_prefix(&mount.root).ok().and_then(|rest| open(&mount.mountpoint.join(rest)));
        // Another mount may lie over it.
        if let Some(shown) = shown.filter(|shown| place_of(shown.as_fd()).is_ok_and(|found| found.0 == place)) {
            all.extend(above(shown.as_fd())?);
        }
    }
    Ok(all)
}

/// The directories above one, up to the root of this process, as far as the user may go there.
fn above(directory: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut all: Vec<OwnedFd> = Vec::new();
    let mut last = place_of(directory)?;
    loop {
        let here = all.last().map_or(directory, AsFd::as_fd);
        let Ok(up) = openat(here, c"..", PATH, Mode::empty()) else { return Ok(all) };
        let place = place_of(up.as_fd())?;
        if place == last {
            return Ok(all);
        }
        last = place;
        all.push(up);
    }
}

const PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, PATH, Mode::empty()).ok()
}

/// What a directory is, and the number of its mount.
fn place_of(directory: BorrowedFd<'_>) -> io::Result<(Place, u64)> {
    let asked = StatxFlags::INO | StatxFlags::MNT_ID;
    let found = statx(directory, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, asked)?;
    Ok(((found.stx_dev_major, found.stx_dev_minor, found.stx_ino), found.stx_mnt_id))
}

fn path_of(directory: BorrowedFd<'_>) -> PathBuf {
    std::fs::read_link(crate::inode::proc_path(directory)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_of_one_has_that_one_in_its_way() {
        let all = [Mark::Writes, Mark::Reads, Mark::WritesBelow, Mark::ReadsBelow];
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            assert_eq!(one.against().contains(other), other.against().contains(one), "{one:?} and {other:?}");
        }
    }
}
