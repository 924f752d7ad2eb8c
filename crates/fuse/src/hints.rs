//! What programs say of their references to come, and what becomes of it.

use crate::data::Asked;
use crate::error::errno;
use crate::shared::Shared;
use forebay_pool::Hint;
use fuser::Errno;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a program will do with a file; the numbers are those of `POSIX_FADV_*` on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Normal,
    Random,
    Sequential,
    WillNeed,
    DoNotNeed,
    NoReuse,
}

impl Advice {
    const ALL: [Self; 6] =
        [Self::Normal, Self::Random, Self::Sequential, Self::WillNeed, Self::DoNotNeed, Self::NoReuse];

    pub(crate) fn numbered(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// A hint about a part of a file; a length of 0 is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hinted {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) advice: Advice,
}

/// How an open file is read ahead.
#[derive(Default)]
pub(crate) struct Readahead(AtomicU8);

impl Readahead {
    fn set(&self, advice: Advice) {
        self.0.store(advice as u8, Ordering::Relaxed);
    }

    pub(crate) fn hint(&self) -> Hint {
        match Advice::numbered(self.0.load(Ordering::Relaxed).into()) {
            Some(Advice::Random) => Hint::Random,
            Some(Advice::Sequential) => Hint::Sequential,
            _ => Hint::Normal,
        }
    }
}

impl Shared {
    /// Takes a hint. Nothing is waited for.
    pub(crate) fn hint(&self, asked: &Asked, Hinted { offset, length, advice }: Hinted) -> Result<(), Errno> {
        let object = &asked.open.object;
        let there = object.volume.len().saturating_sub(offset);
        let length = if length == 0 { there } else { length.min(there) };
        let in_background = |hint: Hint| {
            if length == 0 {
                return Ok(());
            }
            self.with_handle(asked.process.as_ref(), |handle| {
                handle.hint(&object.volume, hint).map_err(|error| errno(&error))
            })
        };
        match advice {
            Advice::Normal | Advice::Random | Advice::Sequential => {
                asked.open.readahead.set(advice);
                Ok(())
            }
            Advice::WillNeed => in_background(Hint::WillNeed { offset, length }),
            Advice::DoNotNeed => in_background(Hint::DoNotNeed { offset, length }),
            Advice::NoReuse => Ok(()),
        }
    }
}
