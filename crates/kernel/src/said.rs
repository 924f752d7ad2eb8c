//! What extended attributes of steered files, and of the directories above them, say of their managers. As on a mount, to set one takes the right to write to the file.

use forebay_owning::{Attributes, Directories, Mistakes, Word};
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The attributes of directories that were read, and the log of those that make no sense.
#[derive(Default)]
pub(crate) struct Said {
    directories: Directories,
    mistakes: Mistakes,
}

impl Said {
    /// The manager that a file's attributes name, or those of the nearest directory above that has one: up to `top` if that is known, and in any case on the file's own file system.
    pub(crate) fn of(&self, file: BorrowedFd<'_>, path: &Path, top: Option<&Path>) -> Option<Word> {
        let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let mut found = self.read(&opened, path);
        let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
        let own = device(&opened);
        let above = path.ancestors().skip(1);
        for directory in above.take_while(|directory| top.is_none_or(|top| directory.starts_with(top))) {
            if found.manager().is_some() && found.hint.is_some() || device(directory) != own {
                break;
            }
            found = found.over(self.directories.of(directory, || self.read(directory, directory)));
        }
        found.manager()
    }

    /// Those of directories are read anew.
    pub(crate) fn forget(&self) {
        self.directories.forget();
    }

    fn read(&self, place: &Path, name: &Path) -> Attributes {
        Attributes::read(place, &mut |attribute, wrong| {
            self.mistakes.log(&format!("{}: {attribute}: {wrong}", name.display()));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_owning::{HINT, MANAGER};
    use rustix::fs::{XattrFlags, setxattr};
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_s_own_attribute_goes_before_those_above_and_the_top_is_the_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().join("top");
        let (below, path) = (top.join("below"), top.join("below/file"));
        fs::create_dir_all(&below).expect("folders");
        let file = File::create(&path).expect("a file");
        let said = Said::default();
        let set = |place: &Path, name: &str, value: &str| {
            said.forget();
            setxattr(place, name, value.as_bytes(), XattrFlags::empty())
        };
        if set(folder.path(), MANAGER, "lru").is_err() {
            eprintln!("skipped: the temporary folder's file system has no attributes of users");
            return;
        }
        let found = || said.of(file.as_fd(), &path, Some(&top)).map(|word| word.to_string());
        assert_eq!(found(), None, "what lies above the top says nothing");
        assert_eq!(said.of(file.as_fd(), &path, None).map(|word| word.to_string()), Some("lru".to_owned()));
        for (place, name, value, manager) in [
            (&top, MANAGER, "mru", "mru"),
            (&below, HINT, "noreuse", "access-once"),
            (&path, MANAGER, "lru-k:k=3", "lru-k:k=3"),
            (&path, HINT, "random", "lru-k:k=3"),
            (&path, MANAGER, "none", "none"),
            (&path, MANAGER, "mruu", "access-once"),
        ] {
            set(place, name, value).expect("it is taken");
            assert_eq!(found().as_deref(), Some(manager), "{}: {name} {value}", place.display());
        }
    }
}
