//! A disk: an arm that seeks, platters that turn, and a cache that reads ahead.

use crate::request::{Address, Request};
use crate::seek::Seek;
use crate::units::{Amount, Count, Positive, transfer_ms};
use serde::Deserialize;
use std::collections::VecDeque;

/// A disk's parameters; addresses run from the outer edge inwards.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// 10^9 bytes. Addresses behind the end go on at the start.
    pub capacity_gb: Positive,
    /// Revolutions a minute.
    pub rpm: Positive,
    /// What a request waits for the platter.
    #[serde(default)]
    pub rotation: Rotation,
    /// What the drive's electronics take for each request.
    #[serde(default)]
    pub overhead_ms: Amount,
    /// The arm.
    pub seek: Seek,
    /// The rates of transfer, from the outer edge inwards; none: transfer costs nothing.
    #[serde(default)]
    pub zones: Zones,
    /// The drive's cache; none: it keeps nothing.
    pub cache: Option<Cache>,
}

/// How long a request waits for the platter.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Rotation {
    /// Half a revolution.
    #[default]
    Average,
    /// Until its first byte comes by. Tracks follow each other without loss.
    Tracked,
}

/// The zones of a disk.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<Zone>")]
pub struct Zones(Vec<Zone>);

impl Zones {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Tracks of equal length.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Zone {
    /// Where it ends, as a share of the capacity.
    until: Positive,
    /// Megabytes (10^6) a second.
    mb_s: Positive,
}

impl TryFrom<Vec<Zone>> for Zones {
    type Error = &'static str;

    fn try_from(zones: Vec<Zone>) -> Result<Self, Self::Error> {
        if zones.last().is_some_and(|last| last.until.get() == 1.0)
            && zones.windows(2).all(|pair| pair[0].until < pair[1].until)
        {
            return Ok(Self(zones));
        }
        Err("write zones whose `until` rises to 1.0")
    }
}

/// The drive's own cache.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// How many streams it holds; the one used longest ago makes room.
    pub segments: Count,
    /// The most that a segment holds, and that the drive reads ahead of a request.
    pub segment_kib: Count,
}

/// Bytes that the drive has read: `start..end` of an object, and more while nothing else is asked of it, up to `limit`.
#[derive(Clone, Copy, Debug)]
struct Segment {
    object: u32,
    start: u64,
    end: u64,
    limit: u64,
}

/// A disk at work.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    disk: Disk,
    capacity: u64,
    /// Behind the last transfer; none before the first.
    head: Option<Address>,
    /// The segment used last comes last; the head may be reading ahead for it.
    segments: VecDeque<Segment>,
    /// When the last request was done.
    idle_since: f64,
}

impl Drive {
    pub(crate) fn new(disk: Disk) -> Self {
        let capacity = (disk.capacity_gb.get() * 1e9).max(1.0) as u64;
        let segments = VecDeque::with_capacity(disk.cache.map_or(0, |cache| cache.segments.get() as usize));
        Self { disk, capacity, head: None, segments, idle_since: 0.0 }
    }

    /// Where on the disk an address is, in bytes from the outer edge. Where objects begin is not known: their starts are spread
    /// evenly by the golden ratio, the first at the edge.
    pub(crate) fn position(&self, address: Address) -> u64 {
        let turn = u64::from(address.object).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let start = ((u128::from(turn) * u128::from(self.capacity)) >> 64) as u64;
        // Few addresses lie behind the end: most are spared the division.
        let byte = if address.byte < self.capacity { address.byte } else { address.byte % self.capacity };
        let position = start + byte;
        if position < self.capacity { position } else { position - self.capacity }
    }

    /// Where the head is.
    pub(crate) fn head(&self) -> u64 {
        self.head.map_or(0, |head| self.position(head))
    }

    /// How long the request takes from `now` on.
    pub(crate) fn serve(&mut self, request: &Request, now: f64) -> f64 {
        self.read_ahead(now);
        let (start, end) = (request.start, request.end());
        let overhead = self.disk.overhead_ms.get();
        let held = if request.write { None } else { self.held(start) };
        let segment = held.and_then(|index| self.segments.remove(index));
        if let Some(segment) = segment.filter(|segment| segment.end >= end.byte) {
            self.keep(segment.start, Address { byte: segment.end, ..start }, end.byte);
            self.idle_since = now + overhead;
            return overhead;
        }
        // What the cache holds of it need not be read from the platter.
        let from = segment.map_or(start, |segment| Address { byte: segment.end, ..start });
        let reads_on = self.head == Some(from) && (segment.is_some() || self.disk.rotation == Rotation::Average);
        let position = self.position(from);
        let reached = if reads_on { 0.0 } else { self.reach(position, now + overhead) };
        if request.write {
            let apart = |segment: &Segment| {
                segment.object != start.object || segment.end <= start.byte || segment.start >= end.byte
            };
            self.segments.retain(apart);
        } else {
            self.keep(segment.map_or(start.byte, |segment| segment.start), end, end.byte);
        }
        self.head = Some(end);
        let ms = overhead + reached + self.transfer(position, end.byte - from.byte);
        self.idle_since = now + ms;
        ms
    }

    /// What the drive has read on its own since the last request.
    fn read_ahead(&mut self, now: f64) {
        let Some(segment) = self.segments.back().copied() else { return };
        let at = Address { object: segment.object, byte: segment.end };
        let idle = now - self.idle_since;
        if idle > 0.0 && self.head == Some(at) && segment.end < segment.limit {
            let most = segment.limit - segment.end;
            let read = self.rate(self.position(at)).map_or(most, |rate| ((idle * rate * 1e3) as u64).min(most));
            self.head = Some(Address { byte: at.byte + read, ..at });
            self.segments.back_mut().expect("there is a segment").end += read;
        }
    }

    /// The segment that holds the byte at `start`, or ends right before it.
    fn held(&self, start: Address) -> Option<usize> {
        let holds = |held: &Segment| held.object == start.object && (held.start..=held.end).contains(&start.byte);
        self.segments.iter().rposition(holds)
    }

    /// Makes a segment the one used last: from `start` to `end` as far as there is room, to be read on behind `used`.
    fn keep(&mut self, start: u64, end: Address, used: u64) {
        let Some(Cache { segments, segment_kib }) = self.disk.cache else { return };
        if self.segments.len() == segments.get() as usize {
            self.segments.pop_front();
        }
        let room = u64::from(segment_kib.get()) * 1024;
        let limit = used.saturating_add(room).max(end.byte);
        let start = start.max(end.byte.saturating_sub(room));
        self.segments.push_back(Segment { object: end.object, start, end: end.byte, limit });
    }

    /// Seek and rotation to a position, beginning at `now`.
    fn reach(&self, position: u64, now: f64) -> f64 {
        let distance = self.head().abs_diff(position) as f64 / self.capacity as f64;
        let seek = self.disk.seek.ms(distance);
        let revolution = 60_000.0 / self.disk.rpm.get();
        let tracked = if self.disk.rotation == Rotation::Tracked { self.rate(position) } else { None };
        let rotation = tracked.map_or(revolution / 2.0, |rate| {
            let turns = position as f64 / (rate * 1e3 * revolution) - (now + seek) / revolution;
            turns.rem_euclid(1.0) * revolution
        });
        seek + rotation
    }

    fn transfer(&self, position: u64, bytes: u64) -> f64 {
        self.rate(position).map_or(0.0, |rate| transfer_ms(bytes, rate))
    }

    /// Megabytes a second at a position.
    fn rate(&self, position: u64) -> Option<f64> {
        let zones = &self.disk.zones.0;
        let last = zones.last()?;
        let share = position as f64 / self.capacity as f64;
        let zone = zones.iter().find(|zone| share < zone.until.get()).unwrap_or(last);
        Some(zone.mb_s.get())
    }
}
