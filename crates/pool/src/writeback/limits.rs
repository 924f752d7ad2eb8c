//! How many pages may be dirty.

use crate::core::memory::Memory;
use crate::pool::Shared;
use crate::sync::Ordering;

/// One frame in this many is left to clean pages, whatever share may be dirty, so that a device which takes no writes holds up no other's
/// volumes: their pages come and go in these.
const CLEAN: u32 = 16;

/// The most of these frames that dirty pages may take.
fn most_dirty(frames: u32) -> u32 {
    frames - (frames / CLEAN).max(1)
}

/// The fewest frames of which dirty pages leave enough to clean ones.
pub(crate) fn least_frames(dirty: u32) -> u32 {
    (dirty + 1).max(dirty.saturating_mul(CLEAN).div_ceil(CLEAN - 1))
}

impl<M: Memory> Shared<M> {
    pub(crate) fn frames(&self) -> u64 {
        u64::from(self.frames.load(Ordering::Relaxed))
    }

    /// The most pages that may be dirty before writers wait.
    pub(crate) fn dirty_limit(&self) -> u64 {
        let share = f64::from_bits(self.dirty_share.load(Ordering::Relaxed));
        let most = u64::from(most_dirty(self.frames.load(Ordering::Relaxed)));
        ((self.frames() as f64 * share) as u64).min(most).max(1)
    }

    /// How many pages a writer may make dirty in one go: at least one.
    pub(crate) fn room_for_dirty(&self) -> u64 {
        let most = u64::from(most_dirty(self.frames.load(Ordering::Relaxed)));
        most.saturating_sub(self.dirty.load(Ordering::Relaxed)).max(1)
    }

    /// From how many dirty pages on they are written in the background.
    pub(crate) fn background_limit(&self) -> u64 {
        ((self.dirty_limit() as f64 * self.background).ceil() as u64).max(1)
    }
}
