//! Shares of the cache, as users ask for them: of one volume, or of several together.

use crate::config::Share;
use crate::core::memory::Memory;
use crate::core::replacer::Replacer;
use crate::core::shares::{MOST_SHARES, ShareState};
use crate::error::Error;
use crate::objects::volume::Volume;
use crate::pool::{Pool, Shared};
use crate::stats::{ShareStatistics, Together};
use forebay_basis::show_bytes;

impl<M: Memory> Pool<M> {
    /// Gives a volume a share of the cache: a policy of its own for its pages, of which others leave it `share.min` bytes when it needs
    /// them, and which never are more than `share.max`. A volume that has no share gets one before it is used.
    ///
    /// # Errors
    /// [`Error::Configuration`] if the mins of all shares do not fit in the cache, there are too many, the volume was used without one, or has that of
    /// a group.
    pub fn set_share(&self, volume: &Volume, share: Share) -> Result<(), Error> {
        let wrong = |what: String| Error::Configuration(format!("volume {}: {what}", volume.name()));
        let mut replacer = self.shared.replacer();
        let before = replacer.policy.of_object(volume.id());
        let frames = self.shared.share_frames(&mut replacer, before, share).map_err(wrong)?;
        if replacer.policy.is_of_several(before) {
            return Err(wrong("it has the share of its group: that can be changed as a whole".to_owned()));
        }
        if before.is_none() && replacer.knows(volume.id()) {
            return Err(wrong("it was used without a share: it gets one when it is attached anew".to_owned()));
        }
        let number = before.unwrap_or_else(|| replacer.policy.number());
        replacer.set_share(&self.shared.core, number, Some(volume.id()), frames);
        replacer.policy.join(volume.id(), number);
        Ok(())
    }

    /// A group of volumes that are counted together ([`count_together`](Self::count_together)) and have a share of the cache together, as one
    /// volume may have ([`set_share`](Self::set_share)): those that name it in their [`VolumeConfig`](crate::VolumeConfig).
    ///
    /// # Errors
    /// [`Error::Configuration`] if the mins of all shares do not fit in the cache, or there are too many.
    pub fn share_together(&self, share: Share) -> Result<Together, Error> {
        let number = {
            let mut replacer = self.shared.replacer();
            let frames = self.shared.share_frames(&mut replacer, None, share).map_err(Error::Configuration)?;
            let number = replacer.policy.number();
            replacer.set_share(&self.shared.core, number, None, frames);
            number
        };
        Ok(self.together(Some(number)))
    }

    /// Changes the share of a group.
    ///
    /// # Errors
    /// [`Error::Configuration`] if the mins of all shares do not fit in the cache, or the group has none.
    pub fn change_share(&self, group: &Together, share: Share) -> Result<(), Error> {
        let number = group
            .share
            .ok_or_else(|| Error::Configuration("the group has no share: it gets one when it is made".to_owned()))?;
        let mut replacer = self.shared.replacer();
        let frames = self.shared.share_frames(&mut replacer, Some(number), share).map_err(Error::Configuration)?;
        replacer.set_share(&self.shared.core, number, None, frames);
        Ok(())
    }

    /// What a group has of the cache, if it has a share of it.
    pub fn share_of(&self, group: &Together) -> Option<ShareStatistics> {
        self.shared.share_figures(&mut self.shared.replacer(), group.share?)
    }

    /// The fewest bytes that the cache can be resized to: the mins of all shares, and room for the rest.
    pub fn least_capacity(&self) -> u64 {
        let least = self.shared.replacer().policy.least() + self.shared.config.laundry;
        u64::from(least) * u64::from(self.shared.config.page_size)
    }
}

impl<M: Memory> Shared<M> {
    /// The frames of a share that is made, or that is to take the place of the one of that number; or why it cannot be.
    fn share_frames(&self, replacer: &mut Replacer, before: Option<u32>, share: Share) -> Result<(u32, u32), String> {
        let page_size = u64::from(self.config.page_size);
        if share.max < page_size {
            return Err(format!("max={} is below a page, {}", show_bytes(share.max), show_bytes(page_size)));
        }
        if share.max < share.min {
            return Err(format!("max={} is below min={}", show_bytes(share.max), show_bytes(share.min)));
        }
        let frames = |bytes: u64| u32::try_from(bytes / page_size).unwrap_or(u32::MAX);
        let (min, max) = (frames(share.min.next_multiple_of(page_size)), frames(share.max));
        let known = before.and_then(|number| replacer.share_of(&self.core, number));
        let others = replacer.policy.least() - known.map_or(0, |share| share.min.max(1));
        let room = replacer.policy.capacity();
        if u64::from(others) + u64::from(min.max(1)) > u64::from(room) {
            return Err(format!(
                "min={} does not fit: the cache has {} bytes for pages, of which others are to have {}",
                share.min,
                u64::from(room) * page_size,
                u64::from(others) * page_size
            ));
        }
        if known.is_none() && replacer.policy.shares() == MOST_SHARES {
            return Err(format!("a cache has at most {MOST_SHARES} shares"));
        }
        Ok((min, max))
    }

    /// What a share has, in bytes.
    pub(crate) fn share_figures(&self, replacer: &mut Replacer, number: u32) -> Option<ShareStatistics> {
        let ShareState { min, max, resident } = replacer.share_of(&self.core, number)?;
        let max = max.min(replacer.policy.capacity());
        let [min, max, resident] =
            [min, max, resident].map(|frames| u64::from(frames) * u64::from(self.config.page_size));
        Some(ShareStatistics { min, max, resident })
    }
}
