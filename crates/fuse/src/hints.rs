//! What programs say of their references to come, and what becomes of it.

use crate::data::Asked;
use crate::error::errno;
use crate::inode::attributes;
use crate::object::Object;
use crate::protocol::{Caller, Errno};
use crate::shared::{Open, Shared};
use forebay_basis::Operation;
use forebay_owning::{Advice, HINT, User};
use forebay_pool::Hint;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A hint about a part of a file; a length of 0 is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hinted {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) advice: Advice,
}

impl Hinted {
    pub(crate) fn whole(advice: Advice) -> Self {
        Self { offset: 0, length: 0, advice }
    }
}

/// How an open file is read ahead.
#[derive(Default)]
pub(crate) struct Readahead(AtomicU8);

impl Readahead {
    fn set(&self, advice: Advice) {
        self.0.store(advice as u8, Ordering::Relaxed);
    }

    /// `mapped`: of a use of a mapping. The kernel asks for a page at a time however far the program goes on: so a miss brings a long window.
    pub(crate) fn hint(&self, mapped: bool) -> Hint {
        match Advice::numbered(self.0.load(Ordering::Relaxed).into()) {
            Some(Advice::Random) => Hint::Random,
            Some(Advice::Sequential) => Hint::Sequential,
            _ if mapped => Hint::Sequential,
            _ => Hint::Normal,
        }
    }
}

/// A read with a hint, as it is recorded.
pub(crate) fn read_with(hint: Hint) -> Operation {
    match hint {
        Hint::Random => Operation::RandomRead,
        Hint::Sequential => Operation::SequentialRead,
        _ => Operation::Read,
    }
}

impl Shared {
    /// Takes a hint. Nothing is waited for.
    pub(crate) fn hint(&self, asked: &Asked, hinted: Hinted) -> Result<(), Errno> {
        let Asked { open, handle, process, .. } = asked;
        match hinted.advice {
            Advice::WillNeed | Advice::DoNotNeed => return self.hint_at(asked.object(), process.as_deref(), hinted),
            Advice::NoReuse => {}
            advice => open.readahead.set(advice),
        }
        // As in Linux, advice on readahead leaves alone that a file is used once.
        if let (Some(user), Advice::NoReuse | Advice::Normal) = (process, hinted.advice) {
            self.use_once((*handle, open, asked.object()), user, hinted.advice == Advice::NoReuse);
        }
        Ok(())
    }

    /// Has a part of a file read ahead, or leave.
    pub(crate) fn hint_at(&self, object: &Object, user: Option<&User>, hinted: Hinted) -> Result<(), Errno> {
        let Hinted { offset, length, advice } = hinted;
        let there = object.volume.len().saturating_sub(offset);
        let length = if length == 0 { there } else { length.min(there) };
        if length == 0 {
            return Ok(());
        }
        let hint = if advice == Advice::WillNeed {
            Hint::WillNeed { offset, length }
        } else {
            Hint::DoNotNeed { offset, length }
        };
        self.with_handle(user, |handle| handle.hint(&object.volume, hint).map_err(|error| errno(&error)))
    }

    /// Hints at a whole file, by its path below the mounted directory. What is to hold for later uses, too, becomes the file's attribute.
    pub(crate) fn hint_by_path(self: &Arc<Self>, path: &Path, advice: Advice) -> io::Result<()> {
        let (flags, within) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
        let fd = Arc::new(openat2(self.nodes.tree.root(), path, flags, Mode::empty(), within)?);
        let found = attributes(fd.as_fd())?;
        let node = self.nodes.enter(&fd, false, &found);
        let done = match advice {
            Advice::WillNeed | Advice::DoNotNeed if u32::from(found.stx_mode) & libc::S_IFMT != libc::S_IFREG => {
                Err(Errno::EISDIR)
            }
            Advice::WillNeed | Advice::DoNotNeed => {
                self.open(Arc::clone(&node), libc::O_RDONLY, None).and_then(|opened| {
                    let open = self.open.get(opened.handle)?;
                    let done =
                        self.object_of(&open).and_then(|object| self.hint_at(object, None, Hinted::whole(advice)));
                    self.close(opened.handle);
                    done
                })
            }
            Advice::Normal => match self.set_ours(Caller::ROOT, node.number, HINT, None) {
                // There was none.
                Err(errno) if errno.code() == libc::ENODATA => Ok(()),
                done => done,
            },
            advice => self.set_ours(Caller::ROOT, node.number, HINT, Some((advice.to_string().as_bytes(), 0))),
        };
        self.forget(node.number, 1);
        done.map_err(io::Error::from)
    }

    /// A file is opened whose attributes hint at something.
    pub(crate) fn hint_at_open(&self, open: &Open, object: &Object) {
        match object.users.hint() {
            Some(advice @ (Advice::Random | Advice::Sequential)) => open.readahead.set(advice),
            // A hint: that the file has become shorter just now matters to nobody.
            Some(advice @ Advice::WillNeed) => drop(self.hint_at(object, None, Hinted::whole(advice))),
            _ => {}
        }
    }

    /// Nobody has a file open any more.
    pub(crate) fn hint_at_close(&self, object: &Object) {
        if let Some(advice @ Advice::DoNotNeed) = object.users.hint() {
            // As at open.
            let _ = self.hint_at(object, None, Hinted::whole(advice));
        }
    }
}
