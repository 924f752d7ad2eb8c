//! How a pool and its volumes are made.

use crate::error::Error;
use crate::stats::Together;
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The smallest page.
pub const LEAST_PAGE_SIZE: u32 = 4 << 10;
/// The largest page.
pub const MOST_PAGE_SIZE: u32 = 2 << 20;

/// What a pool is made from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The bytes of all frames.
    pub capacity: u64,
    /// The most bytes that [`Pool::resize`](crate::Pool::resize) may ever set: address space alone is taken for it.
    pub most_capacity: u64,
    /// The bytes of a page: a power of two from 4 KiB to 2 MiB.
    pub page_size: u32,
    /// The replacement policy.
    pub policy: Spec,
    /// For how many pages a number is kept at this capacity, resident, ghosts and forgotten ones together. DULO detects
    /// sequences among this many pages: the more, the farther back it sees, at some 200 bytes a page. MQ's sample is drawn by
    /// number ([`Info::numbers_kept`](forebay_policy::Info::numbers_kept)). The others need their ghosts alone.
    pub known_pages: u32,
    /// How many shares there will be ([`Pool::set_share`](crate::Pool::set_share), [`Pool::share_together`](crate::Pool::share_together)), each with a
    /// policy of its own, whose metadata counts. With more of them there is more metadata than [`most_metadata`](Self::most_metadata) says.
    pub shares: u32,
    /// Whether the system is asked for huge pages.
    pub huge_pages: bool,
    /// Frames for pages that the policy has evicted and that are still to be written: the laundry. They are part of the
    /// capacity; the policy has the others. With none, dirty pages are refused as victims.
    pub laundry: u32,
    /// The share of the frames that may be dirty before writers have to wait, though never the last 16th.
    pub dirty_limit: f64,
    /// Background writeback begins at this share of the dirty limit: above 0, at most 1.
    pub background: f64,
    /// How long a page may be dirty before it is written back.
    pub dirty_age: Duration,
    /// The longest request to a device, in bytes.
    pub request: u32,
    /// For how many writebacks at a time there is memory for copies of what they write: a 64th of the capacity each, from 256 KiB to 4 MiB, or a page where that
    /// is more. Where more are under way they have less each, or wait for one another.
    pub copies: u32,
    /// Another cache holds the bytes of pages ([`Handle::refer`](crate::Handle::refer)): nothing is read or written, so no thread is started for that.
    pub elsewhere: bool,
}

/// The most bytes that are read ahead of a stream, unless a volume says otherwise.
pub const READAHEAD: u32 = 512 << 10;

/// The bytes that a writeback copies at a time: a 64th of the capacity between these.
const COPY_BYTES: RangeInclusive<u64> = 256 << 10..=4 << 20;

impl Config {
    /// A pool of `capacity` bytes under `policy`, with pages of 4 KiB, a 32nd of them for the laundry.
    pub fn new(capacity: u64, policy: Spec) -> Self {
        Self {
            capacity,
            most_capacity: capacity,
            page_size: LEAST_PAGE_SIZE,
            policy,
            known_pages: 0,
            shares: 0,
            huge_pages: false,
            laundry: 0,
            dirty_limit: 0.5,
            background: 0.5,
            dirty_age: Duration::from_secs(5),
            request: 1 << 20,
            copies: 8,
            elsewhere: false,
        }
        .with_page_size(LEAST_PAGE_SIZE)
    }

    /// A pool whose policy decides over `capacity` bytes in pages of 4 KiB that another cache holds.
    pub fn elsewhere(capacity: u64, policy: Spec) -> Self {
        Self { laundry: 0, copies: 1, elsewhere: true, ..Self::new(capacity, policy) }
    }

    /// The same with another page size, a 32nd of the frames for the laundry and, for policies that look at places, numbers for four
    /// times as many pages as there are frames, unless they need none; for those that decide by number, for as many as they state and metadata
    /// may take.
    #[must_use]
    pub fn with_page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        let frames = self.capacity / u64::from(page_size.max(1));
        self.laundry = (frames / 32).clamp(1, u64::from(MOST_FRAMES)) as u32;
        let by_number = u64::from(self.policy.info.numbers_kept).min(self.numbers_of_a_frame());
        let far = if self.policy.info.remembers_by_number() { 4 } else { by_number };
        self.known_pages = (frames * far).min(u64::from(MOST_FRAMES)) as u32;
        self
    }

    /// The same that may be resized up to `bytes`, as far as there are numbers for their pages, and never less than its capacity.
    #[must_use]
    pub fn with_most_capacity(mut self, bytes: u64) -> Self {
        let page_size = u64::from(self.page_size.max(1));
        let frames = (bytes / page_size).min(u64::from(MOST_FRAMES));
        self.most_capacity = self.capacity.max(frames * page_size);
        self
    }

    /// The bytes that the policy decides over: all but the laundry.
    pub fn policy_bytes(&self) -> u64 {
        self.frames().saturating_sub(self.laundry.into()) * u64::from(self.page_size)
    }

    /// The frames there are.
    pub(crate) fn frames(&self) -> u64 {
        self.capacity / u64::from(self.page_size.max(1))
    }

    /// The frames there may ever be.
    pub(crate) fn most_frames(&self) -> u32 {
        (self.most_capacity / u64::from(self.page_size.max(1))) as u32
    }

    /// The pages that a writeback copies at a time.
    pub(crate) fn copied_pages(&self) -> u32 {
        let bytes = (self.most_capacity / 64).clamp(*COPY_BYTES.start(), *COPY_BYTES.end());
        (bytes / u64::from(self.page_size.max(1))).max(1) as u32
    }

    /// The pages that there are copies of at most.
    pub(crate) fn most_copied_pages(&self) -> u32 {
        self.copied_pages().saturating_mul(self.copies)
    }

    /// The most bytes of copies while no more than this many volumes are written at a time.
    pub fn copies_of(&self, volumes: u32) -> u64 {
        u64::from(self.copied_pages()) * u64::from(self.page_size) * u64::from(self.copies.min(volumes))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Configuration(what));
        if !self.page_size.is_power_of_two() || !(LEAST_PAGE_SIZE..=MOST_PAGE_SIZE).contains(&self.page_size) {
            return wrong(format!("a page of {} bytes: it is a power of two from 4 KiB to 2 MiB", self.page_size));
        }
        if self.most_capacity < self.capacity {
            return wrong(format!(
                "a cache of {}: it can grow to {} at most, which is what it was made for at the start",
                show_bytes(self.capacity),
                show_bytes(self.most_capacity)
            ));
        }
        if self.most_capacity / u64::from(self.page_size) > u64::from(MOST_FRAMES) {
            return wrong(format!(
                "a cache of {} has more than {MOST_FRAMES} pages: take larger ones",
                show_bytes(self.most_capacity)
            ));
        }
        if self.frames() <= u64::from(self.laundry) {
            return wrong(format!(
                "a cache of {} is too small, as {} are kept for evicted pages until they are written; make it larger, at least {} KiB",
                show_bytes(self.capacity),
                show_bytes(u64::from(self.laundry) * u64::from(self.page_size)),
                ((u64::from(self.laundry) + 1) * u64::from(self.page_size)) >> 10
            ));
        }
        if !(self.dirty_limit > 0.0 && self.dirty_limit <= 1.0) {
            return wrong(format!("a dirty limit of {}: it is a share above 0, and at most 1", self.dirty_limit));
        }
        if !(self.background > 0.0 && self.background <= 1.0) {
            return wrong(format!(
                "background writeback from {} on: it is a share above 0, and at most 1",
                self.background
            ));
        }
        if self.copies == 0 {
            return wrong(
                "no memory for copies of what is written: a pool has them for 1 writeback or more".to_owned(),
            );
        }
        if self.policy.needs_future() {
            return wrong(format!("{} needs to know the future: it can be simulated, not run", self.policy.label));
        }
        Ok(())
    }
}

/// The most frames: page numbers, ghosts included, are 32 bits.
const MOST_FRAMES: u32 = 1 << 28;

/// When a write is in storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// When it returns, though durable only after a flush.
    Through,
    /// Some time later, at the latest by a flush.
    #[default]
    Back,
}

/// What a volume, or several together, have of a cache that they share with others, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Others leave it so much when it needs it.
    pub min: u64,
    /// It never has more.
    pub max: u64,
}

/// How a volume is attached.
#[derive(Clone, Debug)]
pub struct VolumeConfig {
    /// Its name, for messages.
    pub name: String,
    /// When writes are in storage.
    pub mode: WriteMode,
    /// Whether writes are refused.
    pub read_only: bool,
    /// The most bytes read ahead of a stream; 0 for none.
    pub readahead: u32,
    /// The group with which it is counted, as one of a million files is, and whose share of the cache it has, if the group has one. By default it is
    /// counted by itself, in [`Statistics::volumes`](crate::Statistics::volumes).
    pub together: Option<Together>,
}

impl VolumeConfig {
    /// A volume of that name in write-back mode that reads up to 512 KiB ahead.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), mode: WriteMode::Back, read_only: false, readahead: READAHEAD, together: None }
    }
}
