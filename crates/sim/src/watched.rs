//! The replay of a run that is asked for more than hits and misses, or reads ahead, this request by request.

use crate::readahead::Reader;
use crate::replay::{AHEAD, Cursor, STRIDE, Stretch};
use crate::watch::Watcher;
use forebay_policy::{Caller, Policy};
use std::ops::Range;

/// So many requests ahead readahead is told of the ends of requests.
const SOON: usize = 8;

/// A simulated cache has no data, every victim may go that is not being read ahead.
pub(crate) struct Frames<'a>(pub(crate) Option<&'a mut Reader>);

impl Caller for Frames<'_> {
    fn evict(&mut self, page: u32) -> bool {
        self.0.as_mut().is_none_or(|reader| reader.evict(page))
    }

    fn forget(&mut self, page: u32) {
        if let Some(reader) = &mut self.0 {
            reader.forgotten(page);
        }
    }
}

/// Replays some references and returns the hits; `None` if stopped.
pub(crate) fn replay<P: Policy>(
    policy: &mut P,
    watcher: &mut Watcher,
    mut reader: Option<&mut Reader>,
    trace: &Stretch<'_>,
    range: Range<usize>,
    cursor: &mut Cursor,
    progress: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let mut hits = 0;
    let mut start = range.start;
    while start < range.end {
        let most = range.end.min(start + STRIDE) - start;
        let end = start + watcher.stop_within(trace.start + start as u64, most);
        let mut at = start;
        while at < end {
            let mut until = end;
            if let Some(reader) = &mut reader {
                if watcher.at_request(trace, at) {
                    reader.end_read(policy, watcher, trace);
                }
                watcher.request(trace, at);
                if let Some(page) = watcher.end_of_later(trace, at, SOON) {
                    reader.prefetch_end(page, trace.places);
                }
                until = end.min(watcher.end_of_request(trace, at));
            }
            hits += replay_part(policy, watcher, reader.as_deref_mut(), trace, at..until, cursor);
            at = until;
        }
        watcher.look(policy, trace.start + end as u64);
        if !progress((end - start) as u64) {
            return None;
        }
        start = end;
    }
    Some(hits)
}

/// Replays some references: with readahead, of one request.
#[inline]
fn replay_part<P: Policy>(
    policy: &mut P,
    watcher: &mut Watcher,
    mut reader: Option<&mut Reader>,
    trace: &Stretch<'_>,
    range: Range<usize>,
    cursor: &mut Cursor,
) -> u64 {
    let mut hits = 0;
    let mut missed = None;
    for index in range.clone() {
        let page = trace.references[index];
        let reference = cursor.parts::<P>(trace, index, page);
        if let Some(&soon) = trace.references.get(index + AHEAD) {
            policy.prefetch(soon);
            watcher.prefetch(trace, soon);
            if let Some(reader) = &reader {
                reader.prefetch(soon);
            }
        }
        let hit = policy.contains(page);
        if hit {
            hits += 1;
            match reader.as_mut().and_then(|reader| reader.use_first(page, watcher)) {
                Some(()) => policy.first_use(&reference),
                None => policy.hit(&reference),
            }
        } else {
            missed = missed.or(Some(page));
            policy.miss(&reference, &mut Frames(reader.as_deref_mut())).expect("no victim is refused");
            if watcher.device.is_some() {
                watcher.request(trace, index);
                watcher.miss(trace.places.of(page));
            }
        }
        watcher.reference(trace, index, page, hit);
    }
    if let Some(reader) = reader {
        reader.refer(&trace.references[range], missed, trace.places);
    }
    hits
}
