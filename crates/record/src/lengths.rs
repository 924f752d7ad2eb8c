//! How long the files of a program are, asked of the file system as they are used.

use forebay_trace::{Names, Request};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::fs;
use std::path::Path;

/// What has been asked: each file at its first use, and again when a request goes beyond its end.
#[derive(Default)]
pub(crate) struct Lengths {
    /// By object.
    asked: Vec<bool>,
}

impl Lengths {
    /// Whether these processes name files as this one does.
    pub(crate) fn can_be_asked(pids: &[u32]) -> bool {
        let place = |of: &str| ["ns/mnt", "root"].map(|what| fs::read_link(format!("/proc/{of}/{what}")).ok());
        let own = place("self");
        own.iter().all(Option::is_some) && pids.iter().all(|pid| place(&pid.to_string()) == own)
    }

    /// Has the length of the file of a request in `names`, if it has one.
    pub(crate) fn note(&mut self, request: &Request, names: &mut Names) {
        let object = request.object as usize;
        if self.asked.len() <= object {
            self.asked.resize(object + 1, false);
        }
        let end = request.offset.saturating_add(request.length);
        let asked = std::mem::replace(&mut self.asked[object], true);
        if asked && names.length(request.object).is_none_or(|length| end <= length) {
            return;
        }
        if let Some(length) = length(Path::new(names.object_name(request.object))) {
            names.set_length(request.object, length);
        }
    }
}

/// The bytes of a regular file, as far as they are known here: a server of files that hangs is not asked.
fn length(path: &Path) -> Option<u64> {
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE;
    let found = path.is_absolute().then(|| statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted))?.ok()?;
    (FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile).then_some(found.stx_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_basis::Operation;

    #[test]
    fn a_file_is_asked_at_its_first_use_and_when_it_has_grown() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let set = |bytes| file.as_file().set_len(bytes).expect("it is set");
        let (mut lengths, mut names) = (Lengths::default(), Names::new());
        let mut note = |name: &str, offset| {
            let object = names.object(name);
            let request = Request { time: 0, owner: 0, object, offset, length: 100, operation: Operation::Read };
            lengths.note(&request, &mut names);
            names.length(object)
        };
        let path = file.path().to_str().expect("text");
        set(1000);
        assert_eq!(note(path, 0), Some(1000));
        set(500);
        assert_eq!(note(path, 900), Some(1000), "it is not asked for each use");
        set(5000);
        assert_eq!(note(path, 901), Some(5000));
        assert_eq!(["", "/dev/null", "/no/such/file", "relative"].map(|name| note(name, 0)), [None; 4]);
    }

    #[test]
    fn processes_that_name_files_otherwise_are_told_apart() {
        assert!(Lengths::can_be_asked(&[std::process::id()]) && !Lengths::can_be_asked(&[u32::MAX]));
    }
}
