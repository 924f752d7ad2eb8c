//! The references that miss in a cache.

use super::run::Start;
use super::watch::Watch;
use super::{Cursor, Stretch};
use crate::input::places::Places;
use crate::input::requests::Requests;
use crate::input::trace::Trace;
use forebay_policy::{Future, Setup, Spec};
use std::sync::Arc;

/// The times of the references that miss. `future` is for a policy that needs it; `progress` gets each further number of
/// references done.
pub(crate) fn misses(
    trace: &Trace,
    spec: &Spec,
    pages: u32,
    future: Option<Arc<Future>>,
    progress: &dyn Fn(u64),
) -> Vec<u32> {
    let setup = Setup { page_size: trace.page_size, future, ..spec.setup(pages, trace.pages) };
    let watch = Watch { misses: true, ..Watch::default() };
    let mut run =
        Start { spec, setup, warmup: 0, watch: &watch, references: trace.len() as u64, successors: None }.run();
    let whole = run.replay(&Stretch::of(trace), &|more| {
        progress(more);
        true
    });
    assert!(whole, "nothing stops it");
    run.outcomes((0, 0)).into_iter().flat_map(|outcome| outcome.missed).collect()
}

/// The trace of a second-level cache: the references that miss in a first-level cache of that policy and size, pages
/// numbered anew. `None` if nothing misses.
///
/// # Panics
/// If the trace lacks what the policy looks at, or the policy needs to know the future.
pub fn behind(trace: &Trace, spec: &Spec, pages: u32) -> Option<Trace> {
    assert!(!spec.needs_future(), "{} needs to know the future", spec.label);
    let missed = misses(trace, spec, pages, None, &|_| {});
    let mut numbers = vec![u32::MAX; trace.pages as usize];
    let mut below = Trace {
        name: format!("{} behind {} of {pages} pages", trace.name, spec.label),
        references: Arc::default(),
        pages: 0,
        page_size: trace.page_size,
        page_size_origin: trace.page_size_origin,
        places: Places::default(),
        requests: Requests::default(),
        names: trace.names.clone(),
        circumstances: None,
        times: trace.times,
    };
    let mut references = Vec::with_capacity(missed.len());
    let mut cursor = Cursor::default();
    for time in missed {
        let page = trace.references[time as usize];
        // A request that misses in several pages stays one.
        if cursor.advance(&trace.requests, time as usize) && !trace.requests.first.is_empty() {
            let (owner, operation) = cursor.request(&trace.requests);
            below.requests.push(references.len() as u32, owner, operation);
        }
        let number = &mut numbers[page as usize];
        if *number == u32::MAX {
            *number = below.pages;
            below.pages += 1;
            if !trace.places.is_empty() {
                below.places.push(trace.places.of(page));
            }
        }
        references.push(*number);
    }
    below.references = Arc::new(references);
    (!below.is_empty()).then_some(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ingest::Keep;
    use forebay_trace::{Input, Options};

    #[test]
    fn behind_a_first_level_cache_only_its_misses_are_left() {
        // Blocks 10 to 12, then 11, 13 and 10: two pages of LRU hit only the use of 11.
        let input = Input::from_bytes("test", "10 3 0 0\n11 1 0 1\n13 1 0 2\n10 1 0 3\n").unwrap();
        let (_, mut reader) = forebay_trace::reader::read(input, &Options::default()).unwrap();
        let keep = Keep { places: true, requests: true };
        let trace = Trace::load("test", reader.as_mut(), None, keep, &mut |_| {}).unwrap();
        let below = behind(&trace, &Spec::parse("lru").unwrap(), 2).unwrap();
        assert_eq!((&*below.references, below.pages), (&[0, 1, 2, 3, 0][..].to_vec(), 4));
        assert_eq!(below.places.iter().map(|place| place.block).collect::<Vec<_>>(), [10, 11, 12, 13]);
        assert_eq!(below.requests.first, [0, 3, 4]);
        assert_eq!(below.name, "test behind lru of 2 pages");
    }
}
