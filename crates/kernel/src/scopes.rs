//! What is steered: files below directories, and what the processes of control groups use. Each is called by its place among those that were named.

use crate::error::Error;
use crate::file_system::FileSystem;
use forebay_basis::spelling::printable;
use rustix::fs::{Mode, OFlags, fstat, open};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the kernel puts behind the name of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// What is steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The files below a directory, on its own file system.
    Directory(PathBuf),
    /// The files that processes of a control group use, and of the groups below it.
    Group(PathBuf),
}

/// The devices whose files are steered, major and minor numbers: those of directories, and of all mounted file systems where there are groups.
///
/// # Errors
/// Which of what is to be steered cannot be, and why.
pub fn devices(scopes: &[Scope]) -> Result<Vec<(u32, u32)>, Error> {
    let numbers = |system: &Arc<FileSystem>| (system.device() >> 20, system.device() & 0xf_ffff);
    Ok(Scopes::new(scopes)?.systems.iter().map(numbers).collect())
}

/// The directories and control groups, and the file systems that they are on.
pub(crate) struct Scopes {
    directories: Vec<Directory>,
    groups: Vec<Group>,
    systems: Vec<Arc<FileSystem>>,
}

/// A directory that is steered. It is the same one when it is renamed.
struct Directory {
    scope: usize,
    opened: OwnedFd,
    /// The path that the kernel gives to it now, or gave to it before it was removed.
    path: PathBuf,
    /// The path under which it was opened.
    named: PathBuf,
    removed: bool,
    /// It was said that another directory has that path now.
    replaced: bool,
}

/// A control group that is steered.
struct Group {
    scope: usize,
    path: PathBuf,
    number: u64,
    removed: bool,
}

/// Which hierarchy control groups are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1's `memory`.
    Memory,
}

/// Refuses what cannot be steered, before anything is done.
///
/// # Errors
/// Which of them cannot be, and why.
pub fn check(scopes: &[Scope]) -> Result<(), Error> {
    Scopes::new(scopes)?.hierarchy().map(drop)
}

impl Scopes {
    /// Looks at what is to be steered.
    ///
    /// # Errors
    /// Which of them cannot be, and why.
    pub(crate) fn new(scopes: &[Scope]) -> Result<Self, Error> {
        let mut made = Self { directories: Vec::new(), groups: Vec::new(), systems: Vec::new() };
        for (place, scope) in scopes.iter().enumerate() {
            match scope {
                Scope::Directory(path) => made.add_directory(place, path)?,
                Scope::Group(path) => made.add_group(place, path)?,
            }
        }
        if !made.groups.is_empty() {
            made.add_mounted();
        }
        Ok(made)
    }

    /// The directories.
    pub(crate) fn directories(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.directories.iter().map(|directory| directory.opened.as_fd())
    }

    /// Looks where the directories are now, and whether the groups are the same. Whether any has another path, or has been made anew.
    pub(crate) fn follow(&mut self) -> bool {
        let mut changed = false;
        for directory in &mut self.directories {
            changed |= directory.follow();
        }
        for group in &mut self.groups {
            changed |= group.follow();
        }
        changed
    }

    /// The devices whose files are all looked at.
    pub(crate) fn devices(&self) -> Vec<u32> {
        let on = |directory: &Directory| fstat(&directory.opened).ok().map(|found| found.st_dev);
        let wanted: Vec<u64> = self.directories.iter().filter_map(on).collect();
        let device = |system: &Arc<FileSystem>| system.device();
        let number = |device: u32| libc::makedev(device >> 20, device & 0xf_ffff);
        self.systems.iter().map(device).filter(|&device| wanted.contains(&number(device))).collect()
    }

    /// The groups' hierarchy, if there are groups.
    ///
    /// # Errors
    /// They are of two.
    pub(crate) fn hierarchy(&self) -> Result<Option<Hierarchy>, Error> {
        let mut found = None;
        for group in &self.groups {
            let hierarchy = hierarchy_of(&group.path)?;
            if found.is_some_and(|found| found != hierarchy) {
                let what = "it is of another version of control groups than the others: name groups of one".to_owned();
                return Err(Error::Place { place: group.path.clone(), what });
            }
            found = Some(hierarchy);
        }
        Ok(found)
    }

    /// The directories of the groups of version 2.
    pub(crate) fn unified_groups(&self) -> impl Iterator<Item = &Path> {
        let groups = self.groups.iter().map(|group| &*group.path);
        groups.filter(|group| hierarchy_of(group).is_ok_and(|found| found == Hierarchy::Unified))
    }

    /// The file system of a device, if its files can be steered.
    pub(crate) fn system(&self, device: u32) -> Option<&Arc<FileSystem>> {
        self.systems.iter().find(|system| system.device() == device)
    }

    /// The directory, by its place among [`directories`](Self::directories).
    pub(crate) fn directory(&self, index: usize) -> usize {
        self.directories[index].scope
    }

    /// The directory that an open file lies below.
    pub(crate) fn directory_of(&self, file: BorrowedFd<'_>) -> Option<usize> {
        let path = path_of(file)?;
        let found = self.directories.iter().find(|directory| path.starts_with(&directory.path));
        found.map(|directory| directory.scope)
    }

    /// The steered group that a group is, or lies below.
    pub(crate) fn group_of(&self, number: u64) -> Option<usize> {
        let found = self.groups.iter().find(|group| group.number == number || is_below(&group.path, number));
        found.map(|group| group.scope)
    }

    /// The path of a file, and the directory that is steered above it, if there is one.
    pub(crate) fn place(&self, file: BorrowedFd<'_>) -> Option<(PathBuf, Option<&Path>)> {
        let path = path_of(file)?;
        let above = self.directories.iter().map(|directory| &*directory.path).find(|above| path.starts_with(above));
        Some((path, above))
    }

    /// The path of a file, as a trace names it: below the only directory, or whole.
    pub(crate) fn name(&self, file: BorrowedFd<'_>) -> Option<String> {
        let path = path_of(file)?;
        let below = match &*self.directories {
            [directory] if self.groups.is_empty() => path.strip_prefix(&directory.path).unwrap_or(&path),
            _ => &path,
        };
        Some(below.to_string_lossy().into_owned())
    }

    fn add_directory(&mut self, scope: usize, path: &Path) -> Result<(), Error> {
        let failed = |what: String| Error::Place { place: path.to_owned(), what };
        let whole = path.canonicalize().map_err(|error| failed(error.to_string()))?;
        if !whole.is_dir() {
            return Err(failed("it is no directory: name the one that the file is in".to_owned()));
        }
        self.add_system(FileSystem::of(&whole)?);
        self.directories.push(Directory::open(scope, whole).map_err(|error| failed(error.to_string()))?);
        Ok(())
    }

    fn add_group(&mut self, scope: usize, path: &Path) -> Result<(), Error> {
        let failed = |what: String| Error::Place { place: path.to_owned(), what };
        let path = path.canonicalize().map_err(|error| failed(error.to_string()))?;
        hierarchy_of(&path)?;
        let number = fs::metadata(&path).map_err(|error| failed(error.to_string()))?.ino();
        self.groups.push(Group { scope, path, number, removed: false });
        Ok(())
    }

    /// All mounted file systems whose files can be steered: processes of a group use any.
    fn add_mounted(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for line in mounts.lines() {
            let Some(place) = line.split(' ').nth(4) else { continue };
            if let Ok(system) = FileSystem::mounted_at(&unescape(place)) {
                self.add_system(system);
            }
        }
    }

    fn add_system(&mut self, system: FileSystem) {
        if self.system(system.device()).is_none() {
            self.systems.push(Arc::new(system));
        }
    }
}

impl Directory {
    fn open(scope: usize, path: PathBuf) -> io::Result<Self> {
        let opened = open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { scope, opened, named: path.clone(), path, removed: false, replaced: false })
    }

    /// Says, once, that another directory has the path under which this one was opened: after `mv d d.old; mv d.new d` that may be the one that is meant.
    fn say_if_replaced(&mut self) {
        if self.path == self.named {
            self.replaced = false;
        } else if !self.replaced && self.named.is_dir() {
            self.replaced = true;
            tracing::warn!(
                "{}: is another directory now, which is not steered: the one that had this path is {}. Start anew to steer the other one",
                shown(&self.named),
                shown(&self.path)
            );
        }
    }

    /// Looks where it is now. Whether it has another path, or another directory has been made in its place.
    fn follow(&mut self) -> bool {
        let Ok(found) = fstat(&self.opened) else { return false };
        if found.st_nlink > 0 {
            let path = path_of(self.opened.as_fd()).filter(|path| *path != self.path);
            let moved = path.is_some();
            if let Some(path) = path {
                tracing::info!("{}: is {} now, and steered there", shown(&self.path), shown(&path));
                self.path = path;
            }
            self.say_if_replaced();
            return moved;
        }
        if !self.removed {
            self.removed = true;
            tracing::warn!("{}: was removed; a directory that is made in its place is steered", shown(&self.path));
        }
        // One on another file system is not watched.
        let is_near = |made: &Self| fstat(&made.opened).is_ok_and(|other| other.st_dev == found.st_dev);
        let mut places = [self.named.clone(), self.path.clone()].into_iter();
        let Some(made) = places.find_map(|place| Self::open(self.scope, place).ok().filter(is_near)) else {
            return false;
        };
        tracing::info!("{}: is another directory now, which is steered", shown(&made.path));
        *self = made;
        true
    }
}

impl Group {
    /// Whether another group has its path now, as after the restart of a service: that one is steered from now on.
    fn follow(&mut self) -> bool {
        let Ok(found) = fs::metadata(&self.path) else {
            if !std::mem::replace(&mut self.removed, true) {
                tracing::warn!("{}: was removed; a group that is made in its place is steered", shown(&self.path));
            }
            return false;
        };
        if found.ino() == self.number {
            return false;
        }
        (self.number, self.removed) = (found.ino(), false);
        tracing::info!("{}: is another group now, which is steered", shown(&self.path));
        true
    }
}

/// A path as a line of the log has it.
fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// The path of an open file, also of one that was deleted.
fn path_of(file: BorrowedFd<'_>) -> Option<PathBuf> {
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let bytes = link.as_os_str().as_bytes();
    let Some(name) = bytes.strip_suffix(DELETED) else { return Some(link) };
    // A file may have a name that ends so.
    let is_name = || {
        let (found, named) = (fstat(file).ok()?, fs::symlink_metadata(&link).ok()?);
        Some((found.st_dev, found.st_ino) == (named.dev(), named.ino()))
    };
    Some(if is_name() == Some(true) { link } else { PathBuf::from(OsString::from_vec(name.to_vec())) })
}

/// Which hierarchy a group is of.
fn hierarchy_of(group: &Path) -> Result<Hierarchy, Error> {
    let failed = |what: String| Error::Place { place: group.to_owned(), what };
    let kind = rustix::fs::statfs(group).map_err(|error| failed(std::io::Error::from(error).to_string()))?.f_type;
    if kind == libc::CGROUP2_SUPER_MAGIC {
        return Ok(Hierarchy::Unified);
    }
    if kind == libc::CGROUP_SUPER_MAGIC && group.join("memory.limit_in_bytes").exists() {
        return Ok(Hierarchy::Memory);
    }
    let what = "it is no control group of version 2, nor of the memory controller of version 1: name its directory below /sys/fs/cgroup";
    Err(failed(what.to_owned()))
}

/// Whether a directory below this group is the group of that number.
fn is_below(group: &Path, number: u64) -> bool {
    let mut below = vec![group.to_owned()];
    while let Some(directory) = below.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.metadata().is_ok_and(|found| found.ino() == number) {
                return true;
            }
            below.push(entry.path());
        }
    }
    false
}

/// A path as `/proc/self/mountinfo` writes it: blanks and the like as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// A control group and those that it lies in, whatever path it is given by.
pub(crate) fn above(group: &Path) -> Vec<PathBuf> {
    let group = group.canonicalize().unwrap_or_else(|_| group.to_owned());
    group.ancestors().take_while(|above| above.join("cgroup.procs").exists()).map(Path::to_owned).collect()
}

/// The processes of a control group, without those of groups below it.
pub(crate) fn members(group: &Path) -> Vec<u32> {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|member| member.parse().ok()).collect()
}

/// A control group and those below it.
pub(crate) fn within(group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while let Some(group) = all.get(next) {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        all.extend(below);
        next += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_steered_is_named_with_its_reason() {
        let refused = |scope: Scope| Scopes::new(&[scope]).err().expect("it is refused").to_string();
        let no_directory = refused(Scope::Directory("/proc/self/stat".into()));
        assert!(no_directory.ends_with("it is no directory: name the one that the file is in"), "{no_directory}");
        let no_group = refused(Scope::Group("/proc".into()));
        assert!(no_group.contains("/proc: it is no control group"), "{no_group}");
        let missing = refused(Scope::Directory("/there/is/no/such".into()));
        assert!(missing.contains("/there/is/no/such: No such file"), "{missing}");
        let memory = refused(Scope::Directory("/dev/shm".into()));
        assert!(memory.contains("tmpfs"), "{memory}");
    }

    #[test]
    fn a_name_may_end_as_the_kernel_marks_what_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().canonicalize().expect("it is there").join(name);
        let file = fs::File::create(path("a (deleted)")).expect("a file");
        let name = || path_of(file.as_fd()).expect("it has a path");
        assert_eq!(name(), path("a (deleted)"));
        fs::hard_link(path("a (deleted)"), path("b")).expect("a link");
        fs::remove_file(path("a (deleted)")).expect("it is there");
        assert_eq!(name(), path("a (deleted)"), "its other name is not what it was opened by");
        fs::remove_file(path("b")).expect("it is there");
        assert_eq!(name(), path("a (deleted)"));
        let file = fs::File::create(path("a")).expect("a file");
        fs::remove_file(path("a")).expect("it is there");
        fs::File::create(path("a (deleted)")).expect("another file");
        assert_eq!(path_of(file.as_fd()), Some(path("a")));
    }

    #[test]
    fn a_directory_is_followed_where_it_goes_and_when_it_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().canonicalize().expect("it is there").join(name);
        ["a/b", "z"].iter().for_each(|name| fs::create_dir_all(path(name)).expect("a folder"));
        let mut directory = Directory::open(0, path("a/b")).expect("a directory");
        assert!(!directory.follow(), "it is where it was");
        fs::rename(path("a"), path("z/a")).expect("a rename");
        assert!(directory.follow() && !directory.follow());
        assert_eq!(directory.path, path("z/a/b"));
        fs::remove_dir(path("z/a/b")).expect("it is empty");
        assert!(!directory.follow() && directory.removed && directory.path == path("z/a/b"));
        fs::create_dir(path("z/a/b")).expect("a folder");
        assert!(directory.follow() && !directory.removed && !directory.follow());
    }

    #[test]
    fn another_directory_under_its_name_is_steered_once_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().canonicalize().expect("it is there").join(name);
        ["d", "d.new"].iter().for_each(|name| fs::create_dir(path(name)).expect("a folder"));
        let mut directory = Directory::open(0, path("d")).expect("a directory");
        fs::rename(path("d"), path("d.old")).expect("a rename");
        assert!(directory.follow() && !directory.replaced, "nothing has its name");
        fs::rename(path("d.new"), path("d")).expect("a rename");
        assert!(!directory.follow() && directory.replaced && directory.path == path("d.old"));
        fs::remove_dir(path("d.old")).expect("it is empty");
        assert!(directory.follow() && directory.path == path("d") && !directory.replaced);
    }

    #[test]
    fn a_path_in_the_log_ends_no_line() {
        assert!(!shown(Path::new("/a\nb\u{1b}[1m")).contains(['\n', '\u{1b}']));
    }

    #[test]
    fn a_mount_point_may_have_a_blank() {
        assert_eq!(unescape(r"/a\040b\134c\04"), Path::new(r"/a b\c\04"));
    }
}
