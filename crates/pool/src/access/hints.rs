//! What a program says of its references to come.

use crate::access::handle::Handle;
use crate::core::memory::Memory;
use crate::error::Error;
use crate::objects::volume::Volume;
use forebay_basis::Operation;
use std::sync::Arc;

/// Pages of a hint that the policy is notified of at once: others wait for its lock.
const HINTED: u64 = 64;

/// What a program says of its references to come. What is done in the background is done in no order: pages that were said not to be needed may leave
/// after they were said to be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing in particular: readahead follows the streams that it sees.
    Normal,
    /// This handle will go through volumes in the order of blocks: the longest readahead from the first miss on, unless many miss in vain.
    Sequential,
    /// This handle will jump: no readahead.
    Random,
    /// This handle will use nothing twice: what [`read_at`](Handle::read_at) does not find is read past the cache.
    Once,
    /// These bytes will be used soon: they are fetched in the background.
    WillNeed {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// These bytes will not be used soon: their pages leave, dirty ones after their writeback, in the background. The next
    /// flush reports its errors.
    DoNotNeed {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A cache of the program's own has just evicted these bytes: from now on their next use comes to the pool. No page is loaded or
    /// leaves by this, and it is no reference. `mq` adds the hits to each page's uses; most policies take a clean page as used now.
    EvictedAbove {
        /// The first byte.
        offset: u64,
        /// How many.
        length: u64,
        /// The hits that they had in the program's cache since they came to it.
        hits: u32,
        /// They were changed there, and have just been written to the pool: that write was their use.
        dirty: bool,
    },
}

/// What a program has said of its references to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Advice {
    #[default]
    Normal,
    Sequential,
    Random,
    Once,
}

impl<M: Memory> Handle<M> {
    /// Gives hints.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Detached`].
    pub fn hint(&self, volume: &Arc<Volume>, hint: Hint) -> Result<(), Error> {
        match hint {
            Hint::Normal => self.advice.set(Advice::Normal),
            Hint::Sequential => self.advice.set(Advice::Sequential),
            Hint::Random => self.advice.set(Advice::Random),
            Hint::Once => self.advice.set(Advice::Once),
            Hint::WillNeed { offset, length } => {
                volume.check_range(offset, length)?;
                let page_size = u64::from(self.shared.config.page_size);
                let blocks = offset / page_size..(offset + length).div_ceil(page_size);
                self.shared.readahead.hint(volume, blocks, self.owner(volume));
            }
            Hint::DoNotNeed { offset, length } => {
                volume.check_range(offset, length)?;
                let page_size = u64::from(self.shared.config.page_size);
                self.shared.leave_behind(volume, offset / page_size..(offset + length).div_ceil(page_size))?;
            }
            Hint::EvictedAbove { offset, length, hits, dirty } => {
                volume.check_range(offset, length)?;
                let page_size = u64::from(self.shared.config.page_size);
                let mut blocks = offset / page_size..(offset + length).div_ceil(page_size);
                if length == 0 {
                    blocks.end = blocks.start;
                }
                let (owner, operation) = (self.owner(volume), if dirty { Operation::Write } else { Operation::Read });
                while !blocks.is_empty() {
                    let some = blocks.start..blocks.end.min(blocks.start + HINTED);
                    blocks.start = some.end;
                    let mut replacer = self.shared.replacer();
                    self.deliver(&mut replacer);
                    replacer.evicted_above(&self.shared.core, volume.id(), some, owner, operation, hits);
                }
            }
        }
        Ok(())
    }
}
