//! The references that miss in a cache.

use super::{At, Cursor, Observer, Stretch, replay};
use crate::input::places::Places;
use crate::input::requests::Requests;
use crate::input::trace::Trace;
use forebay_policy::registry::{self, Visitor};
use forebay_policy::{Future, Policy, Setup, Spec};
use std::sync::Arc;

/// When references missed, rising.
struct Missed(Vec<u32>);

impl Observer for Missed {
    #[inline(always)]
    fn referenced<P: Policy>(&mut self, _: &P, at: &At<'_>, hit: bool) {
        if !hit {
            self.0.push(at.index as u32);
        }
    }
}

/// The times of the references that miss. `future` is for a policy that needs it; `progress` gets each further number of
/// references done.
pub(crate) fn misses(
    trace: &Trace,
    spec: &Spec,
    pages: u32,
    future: Option<Arc<Future>>,
    progress: &dyn Fn(u64),
) -> Vec<u32> {
    struct Misses<'a>(&'a Trace, Setup, &'a dyn Fn(u64));
    impl Visitor for Misses<'_> {
        type Output = Vec<u32>;

        fn visit<P: Policy>(self) -> Vec<u32> {
            let Self(trace, setup, progress) = self;
            let (stretch, mut missed) = (Stretch::of(trace), Missed(Vec::new()));
            let progress = |more| {
                progress(more);
                true
            };
            replay(&mut P::new(&setup), &mut missed, &stretch, 0..trace.len(), &mut Cursor::default(), &progress);
            missed.0
        }
    }
    let setup = Setup { page_size: trace.page_size, future, ..spec.setup(pages, trace.pages) };
    registry::visit(spec.info.name, Misses(trace, setup, progress)).expect("the policy is in the registry")
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
