//! The frames of a memory in a circle, and the hand that goes round them: CLOCK's structure, as an array.
//!
//! ```text
//! frames:  [ 7 | 2 | - | 9 | 4 ]      the page in each frame
//!                    free^   ^hand    the hand goes to the right, and from the end on from the start
//! ```
//!
//! A page enters a free frame, and stays in it: the frame of a victim at the hand lies just behind the hand then. Each frame has a
//! value of the policy's beside it, so that the hand runs through memory in its order.

use crate::parts::prefetch::prefetch;

/// No page, or no frame.
const NONE: u32 = u32::MAX;

/// The frames of a picture between its ends.
pub(crate) const FRAMES: [&str; 2] = ["first frame", "last frame"];

/// Frames in a circle, each with a value.
#[derive(Debug)]
pub(crate) struct FrameCircle<T> {
    /// FC1. The page in each frame, or `NONE` if the frame is in `free`.
    pages: Vec<u32>,
    values: Vec<T>,
    free: Vec<u32>,
    /// FC2. The frame that a page is in, or `NONE`.
    frame_of: Vec<u32>,
    hand: usize,
}

impl<T: Copy> FrameCircle<T> {
    pub(crate) fn new(pages: u32, capacity: u32) -> Self {
        let mut frames =
            Self { pages: Vec::new(), values: Vec::new(), free: Vec::new(), frame_of: Vec::new(), hand: 0 };
        frames.reserve(pages);
        frames.reserve_frames(capacity);
        frames
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        if pages as usize > self.frame_of.len() {
            self.frame_of.resize(pages as usize, NONE);
        }
    }

    fn reserve_frames(&mut self, capacity: u32) {
        let more = (capacity as usize).min(self.frame_of.len()).saturating_sub(self.pages.len());
        self.pages.reserve_exact(more);
        self.values.reserve_exact(more);
    }

    pub(crate) fn bytes(&self) -> usize {
        let numbers = self.pages.capacity() + self.free.capacity() + self.frame_of.capacity();
        numbers * size_of::<u32>() + self.values.capacity() * size_of::<T>()
    }

    /// How many frames have a page.
    pub(crate) fn len(&self) -> u32 {
        (self.pages.len() - self.free.len()) as u32
    }

    #[inline]
    pub(crate) fn contains(&self, page: u32) -> bool {
        self.frame_of[page as usize] != NONE
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn value(&mut self, page: u32) -> &mut T {
        &mut self.values[self.frame_of[page as usize] as usize]
    }

    /// The value of a page that is in a frame.
    pub(crate) fn value_of(&self, page: u32) -> T {
        self.values[self.frame_of[page as usize] as usize]
    }

    /// The page's frame will be asked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        prefetch(&self.frame_of, page as usize);
    }

    /// The page at the hand and its value; the hand passes free frames.
    #[inline]
    pub(crate) fn at_hand(&mut self) -> Option<(u32, &mut T)> {
        if self.len() == 0 {
            return None;
        }
        while self.pages[self.hand] == NONE {
            self.turn();
        }
        Some((self.pages[self.hand], &mut self.values[self.hand]))
    }

    /// Moves the hand to the next frame.
    #[inline]
    pub(crate) fn turn(&mut self) {
        self.hand = if self.hand + 1 < self.pages.len() { self.hand + 1 } else { 0 };
    }

    /// Puts a page into a free frame: the one freed last, or else one that was never used, at the end.
    #[inline]
    pub(crate) fn enter(&mut self, page: u32, value: T) {
        let frame = match self.free.pop() {
            Some(frame) => {
                self.pages[frame as usize] = page;
                self.values[frame as usize] = value;
                frame
            }
            None => {
                self.pages.push(page);
                self.values.push(value);
                (self.pages.len() - 1) as u32
            }
        };
        self.frame_of[page as usize] = frame;
    }

    /// Takes a page out of its frame, if it is in one.
    #[inline]
    pub(crate) fn leave(&mut self, page: u32) {
        let frame = std::mem::replace(&mut self.frame_of[page as usize], NONE);
        if frame != NONE {
            self.pages[frame as usize] = NONE;
            self.free.push(frame);
            if frame as usize == self.hand {
                self.turn();
            }
        }
    }

    /// Another number of frames, no fewer than have a page: those move together, the one at the hand first.
    pub(crate) fn set_capacity(&mut self, capacity: u32) {
        let pages: Vec<u32> = self.pages().collect();
        let values = pages.iter().map(|&page| *self.value(page)).collect();
        (self.pages, self.values, self.free, self.hand) = (pages, values, Vec::new(), 0);
        self.reserve_frames(capacity);
        for (frame, &page) in self.pages.iter().enumerate() {
            self.frame_of[page as usize] = frame as u32;
        }
    }

    /// The pages in the order in which the hand meets them.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u32> {
        let (behind, ahead) = self.pages.split_at(self.hand);
        ahead.iter().chain(behind).copied().filter(|&page| page != NONE)
    }

    /// The pages in the order of their frames, each with its value.
    pub(crate) fn in_frames(&self) -> impl Iterator<Item = (u32, T)> {
        self.pages.iter().copied().zip(self.values.iter().copied()).filter(|&(page, _)| page != NONE)
    }

    /// The values of all frames.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Recounts the frames.
    pub(crate) fn check(&self) {
        assert!(self.free.iter().all(|&frame| self.pages[frame as usize] == NONE)); // FC1
        assert_eq!(self.pages().count(), self.len() as usize); // FC1
        let held = |(frame, &page): (usize, &u32)| page == NONE || self.frame_of[page as usize] == frame as u32;
        assert!(self.pages.iter().enumerate().all(held)); // FC2
        assert_eq!(self.frame_of.iter().filter(|&&frame| frame != NONE).count(), self.len() as usize); // FC2
        assert_eq!(self.pages.len(), self.values.len());
        assert!(self.hand < self.pages.len().max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_the_frame_that_was_freed_last() {
        let mut frames: FrameCircle<()> = FrameCircle::new(6, 3);
        for page in [2, 0, 3] {
            frames.enter(page, ());
        }
        assert_eq!(frames.pages().collect::<Vec<_>>(), [2, 0, 3]);
        frames.leave(2);
        assert!(!frames.contains(2) && frames.contains(0));
        assert_eq!(frames.at_hand(), Some((0, &mut ())));
        frames.enter(5, ());
        frames.check();
        assert_eq!(frames.pages().collect::<Vec<_>>(), [0, 3, 5]);
        frames.leave(0);
        frames.leave(3);
        assert_eq!(frames.at_hand(), Some((5, &mut ())));
        frames.check();
        frames.set_capacity(4);
        frames.check();
        frames.enter(1, ());
        assert_eq!(frames.pages().collect::<Vec<_>>(), [5, 1]);
    }

    #[test]
    fn empty_frames_have_no_page_at_the_hand() {
        let mut frames: FrameCircle<()> = FrameCircle::new(2, 2);
        assert_eq!(frames.at_hand(), None);
        frames.enter(1, ());
        frames.leave(1);
        assert_eq!(frames.at_hand(), None);
        frames.check();
    }
}
