//! Readahead by stream: which blocks to fetch before they are asked for.
//!
//! Several streams may go through a volume at a time. A miss that begins where a stream's last one ended is sequential: a window
//! of blocks behind it is read ahead. The first block of each window is its marker: when that is used the next window, twice as
//! long up to the most, is read ahead, so that a steady reader never waits. A stream whose pages were evicted before they were
//! used has its window halved. (Linux's `mm/readahead.c` keeps one stream to an open file, with such a marker.)

use foldhash::HashMap;
use std::ops::Range;

/// Streams remembered; the one that went on the longest ago gives way.
const STREAMS: usize = 32;

/// What a program says of its references to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Advice {
    #[default]
    Normal,
    Sequential,
    Random,
    Once,
}

pub(crate) struct Streams {
    /// The longest window in blocks; 0 for no readahead.
    most: u64,
    /// The first window.
    least: u64,
    /// The latest last.
    streams: Vec<Stream>,
}

struct Stream {
    /// The block that a sequential reader misses next.
    next: u64,
    /// The first block that has not been read ahead.
    end: u64,
    marker: u64,
    window: u64,
}

impl Streams {
    pub(crate) fn new(most_bytes: u32, page_size: u32) -> Self {
        let most = u64::from(most_bytes / page_size);
        Self { most, least: most.min(u64::from((64 << 10) / page_size).max(1)), streams: Vec::new() }
    }

    /// Blocks were missed: what to read ahead.
    pub(crate) fn miss(&mut self, missed: &Range<u64>, advice: Advice) -> Option<Range<u64>> {
        if self.most == 0 || matches!(advice, Advice::Random | Advice::Once) {
            return None;
        }
        let known = self.streams.iter().position(|stream| (stream.next..=stream.end).contains(&missed.start));
        let mut stream = match known {
            Some(known) => self.streams.remove(known),
            None => Stream { next: missed.start, end: missed.start, marker: u64::MAX, window: 0 },
        };
        let evicted_unused = stream.end > missed.start;
        stream.window = match advice {
            Advice::Sequential => self.most,
            _ if evicted_unused => (stream.window / 2).max(self.least),
            _ if known.is_some() => (stream.window * 2).clamp(self.least, self.most),
            _ => 0,
        };
        stream.next = missed.end;
        stream.end = missed.end + stream.window;
        stream.marker = if stream.window > 0 { missed.end } else { u64::MAX };
        let fetch = missed.end..stream.end;
        self.keep(stream);
        (!fetch.is_empty()).then_some(fetch)
    }

    /// A block that was read ahead is used for the first time: what to read ahead next.
    pub(crate) fn used(&mut self, block: u64) -> Option<Range<u64>> {
        let place = self.streams.iter().position(|stream| stream.marker == block)?;
        let mut stream = self.streams.remove(place);
        stream.window = (stream.window * 2).min(self.most);
        let fetch = stream.end..stream.end + stream.window;
        stream.marker = stream.end;
        stream.next = stream.end;
        stream.end = fetch.end;
        self.keep(stream);
        Some(fetch)
    }

    fn keep(&mut self, stream: Stream) {
        if self.streams.len() == STREAMS {
            self.streams.remove(0);
        }
        self.streams.push(stream);
    }
}

/// Half of the objects whose streams are remembered.
const OBJECTS: usize = 512;

/// The streams of the objects that were read last, so that an object which is not read costs nothing.
#[derive(Default)]
pub(crate) struct StreamsByObject {
    young: HashMap<u32, Streams>,
    /// Those that were young before there were too many.
    old: HashMap<u32, Streams>,
}

impl StreamsByObject {
    /// An object's, if they are remembered.
    pub(crate) fn known(&mut self, object: u32) -> Option<&mut Streams> {
        if !self.young.contains_key(&object) {
            let streams = self.old.remove(&object)?;
            self.keep(object, streams);
        }
        self.young.get_mut(&object)
    }

    /// An object's, which reads so many bytes ahead.
    pub(crate) fn of(&mut self, object: u32, most_bytes: u32, page_size: u32) -> &mut Streams {
        if !self.young.contains_key(&object) {
            let streams = self.old.remove(&object).unwrap_or_else(|| Streams::new(most_bytes, page_size));
            self.keep(object, streams);
        }
        self.young.get_mut(&object).expect("it was put there")
    }

    /// The object has gone.
    pub(crate) fn forget(&mut self, object: u32) {
        self.young.remove(&object);
        self.old.remove(&object);
    }

    fn keep(&mut self, object: u32, streams: Streams) {
        if self.young.len() == OBJECTS {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object, streams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> Streams {
        Streams::new(512 << 10, 4096)
    }

    #[test]
    fn the_second_miss_in_a_row_reads_ahead_and_each_marker_doubles_the_window() {
        let mut streams = streams();
        assert_eq!(streams.miss(&(0..4), Advice::Normal), None);
        assert_eq!(streams.miss(&(4..8), Advice::Normal), Some(8..24));
        assert_eq!(streams.used(9), None);
        assert_eq!(streams.used(8), Some(24..56));
        assert_eq!(streams.used(24), Some(56..120));
        assert_eq!(streams.used(56), Some(120..248));
        assert_eq!(streams.used(120), Some(248..376));
    }

    #[test]
    fn random_misses_read_nothing_ahead() {
        let mut streams = streams();
        for block in [5, 900, 17, 3, 44, 1000, 6000] {
            assert_eq!(streams.miss(&(block..block + 1), Advice::Normal), None);
        }
        assert_eq!(streams.miss(&(6001..6002), Advice::Random), None);
    }

    #[test]
    fn streams_of_the_objects_read_last_are_remembered() {
        let mut all = StreamsByObject::default();
        for object in 0..100_000 {
            all.of(object, 512 << 10, 4096).miss(&(0..4), Advice::Normal);
            assert_eq!(all.of(7, 512 << 10, 4096).streams.len(), usize::from(object >= 7));
        }
        assert!(all.young.len() + all.old.len() <= 2 * OBJECTS);
        assert!(all.known(99_999 - OBJECTS as u32 / 2).is_some() && all.known(9).is_none());
        all.forget(7);
        assert!(all.known(7).is_none());
    }

    #[test]
    fn streams_are_kept_apart() {
        let mut streams = streams();
        streams.miss(&(0..1), Advice::Normal);
        streams.miss(&(1000..1001), Advice::Normal);
        assert_eq!(streams.miss(&(1..2), Advice::Normal), Some(2..18));
        assert_eq!(streams.miss(&(1001..1002), Advice::Normal), Some(1002..1018));
        assert_eq!(streams.used(2), Some(18..50));
    }

    #[test]
    fn a_window_evicted_before_its_use_is_halved() {
        let mut streams = streams();
        streams.miss(&(0..1), Advice::Normal);
        streams.miss(&(1..2), Advice::Normal);
        assert_eq!(streams.used(2), Some(18..50));
        assert_eq!(streams.miss(&(18..19), Advice::Normal), Some(19..35));
    }

    #[test]
    fn a_program_that_says_sequential_gets_the_longest_window_at_once() {
        assert_eq!(streams().miss(&(7..8), Advice::Sequential), Some(8..136));
    }
}
