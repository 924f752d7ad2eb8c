//! Streaming: policies × sizes over a trace that is not held.
//!
//! While all runs replay one chunk of the trace, the next one is numbered and the one after that is read. Memory is bounded by
//! the distinct pages: their numbering, each run's metadata, and two chunks.

use super::ends::{self, Ends};
use super::outcome::RunOutcome;
use super::run::{Run, Start};
use super::sweep::Sweep;
use super::watch::Watch;
use super::{Stretch, one_pass};
use crate::input::ingest::{Chunk, Ingest, LoadTimes, ingest};
use crate::input::places::Places;
use crate::input::trace::{Dimensions, NO_REFERENCES};
use crate::size::room_for;
use forebay_policy::Spec;
use forebay_trace::{Error, PageSize, Reader, Result};
use rayon::prelude::*;

/// References of a chunk: 1 MiB, which stays in the caches while one run after the other replays it.
const CHUNK: usize = 1 << 18;
/// A run has room for its whole cache from the start, up to this many pages, since policies size their tables by it.
const ROOM: u32 = 1 << 22;

/// What came of a streamed trace.
#[derive(Debug)]
pub struct Streamed {
    /// What there was of the trace, or of the part that was replayed.
    pub trace: Dimensions,
    /// As those of [`Sweep::run`].
    pub outcomes: Vec<RunOutcome>,
    /// What the trace costs at both ends of all curves, if a device is watched at several sizes.
    pub ends: Option<Ends>,
    /// What reading took.
    pub times: LoadTimes,
    /// Whether it was stopped before the trace ended.
    pub stopped: bool,
}

impl Sweep {
    /// Whether these policies can replay a trace that is not held.
    pub fn can_stream(specs: &[Spec]) -> bool {
        !specs.iter().any(|spec| spec.needs_future() || spec.info.needs_footprint)
    }

    /// Like [`run_watching`](Sweep::run_watching), over a trace that is read meanwhile and not held. `progress` is told how many
    /// references of the trace are done, and the share of the trace that is read, where that is known; `false` stops after
    /// them, and the outcomes are those of the references so far.
    ///
    /// # Errors
    /// What is wrong with the trace.
    ///
    /// # Panics
    /// If a policy cannot, or readahead or states are asked along a trace whose length is not known.
    pub fn stream(
        &self,
        watch: &Watch,
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        progress: &mut dyn FnMut(u64, Option<f64>) -> bool,
    ) -> Result<Streamed> {
        self.stream_by(CHUNK, watch, name, reader, page_size, progress)
    }

    fn stream_by(
        &self,
        chunk: usize,
        watch: &Watch,
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        progress: &mut dyn FnMut(u64, Option<f64>) -> bool,
    ) -> Result<Streamed> {
        assert!(Self::can_stream(&self.specs), "one of the policies needs the trace held");
        assert!(watch.readahead.is_none(), "readahead needs to know where objects end");
        assert_eq!(watch.states, 0, "states along the way need the length of the trace");
        let mut keep = Self::keep(&self.specs);
        keep.places |= watch.device.is_some() || watch.epochs;
        keep.requests |= watch.device.is_some();
        let pool = self.pool();
        let ((mut streamed, runs, warm_pages), _, times) = ingest(name, reader, page_size, keep, |ingest| {
            let (mut chunk_now, mut chunk_next) = (Chunk::default(), Chunk::default());
            let mut more = ingest.fill(chunk, &mut chunk_next)?;
            let mut runs = self.start(watch, ingest, more);
            let mut places = Places::default();
            let (mut references, mut pages, mut warm_pages, mut stopped) = (0, 0, 0, false);
            while !chunk_next.references.is_empty() && !stopped {
                std::mem::swap(&mut chunk_now, &mut chunk_next);
                chunk_next.clear();
                if keep.places {
                    // The numbering's own places grow while these are read.
                    places.extend(ingest.numbering.places().iter_from(places.len()));
                }
                let Chunk { references: now, requests, pages: pages_now } = &chunk_now;
                let stretch =
                    Stretch { start: references, references: now, requests, places: &places, pages: *pages_now };
                let replay = |run: &mut Box<dyn Run + '_>| {
                    run.replay(&stretch, &|_| true);
                };
                let (filled, ()) = pool.install(|| {
                    rayon::join(
                        || if more { ingest.fill(chunk, &mut chunk_next) } else { Ok(false) },
                        || runs.par_iter_mut().with_max_len(1).for_each(replay),
                    )
                });
                let warm = (self.warmup as u64).saturating_sub(references).min(now.len() as u64) as usize;
                if warm > 0 {
                    let used = now[..warm].iter().max().map_or(0, |&page| page + 1);
                    warm_pages = used.max(warm_pages);
                }
                references += now.len() as u64;
                pages = *pages_now;
                more = filled?;
                let left = more || !chunk_next.references.is_empty();
                stopped = !progress(references, ingest.share()) && left;
            }
            if references == 0 {
                return Err(Error::new(name, NO_REFERENCES));
            }
            let PageSize { bytes: page_size, origin: page_size_origin } = ingest.page_size();
            let trace = Dimensions { name: name.to_owned(), references, pages, page_size, page_size_origin };
            let streamed = Streamed { trace, outcomes: Vec::new(), ends: None, times: LoadTimes::default(), stopped };
            Ok((streamed, runs, warm_pages))
        })?;
        let pages = streamed.trace.pages;
        let compulsory_misses = (u64::from(pages), u64::from(pages - warm_pages));
        streamed.outcomes = runs.into_iter().flat_map(|run| run.outcomes(compulsory_misses)).collect();
        if self.weighs_time(watch) {
            let [without, with_all] = streamed.outcomes.split_off(streamed.outcomes.len() - 2).try_into().expect("two");
            streamed.ends = Some(Ends { without, with_all });
        }
        streamed.times = times;
        Ok(streamed)
    }

    /// Starts all runs once the first chunk is numbered.
    fn start<'a>(&'a self, watch: &'a Watch, ingest: &Ingest<'_>, more: bool) -> Vec<Box<dyn Run + 'a>> {
        let pages = ingest.numbering.pages();
        let one = |(spec, sizes): (&'a Spec, &'a [u32])| {
            let &[capacity] = sizes else { return one_pass::start(spec, sizes, self.warmup as u64, room_for(pages)) };
            let room = if more { room_for(pages).max(capacity.min(ROOM)) } else { pages };
            let mut setup = spec.setup(capacity, room);
            setup.page_size = ingest.page_size().bytes;
            setup.device = watch.cost_of_reads(setup.page_size);
            Start { spec, setup, warmup: self.warmup as u64, watch, references: 0, successors: None }.run()
        };
        let ends = ends::SIZES.into_iter().filter(|_| self.weighs_time(watch)).map(|size| {
            let mut setup = ends::LRU.setup(size, room_for(pages));
            setup.page_size = ingest.page_size().bytes;
            Start { spec: &ends::LRU, setup, warmup: self.warmup as u64, watch, references: 0, successors: None }.run()
        });
        self.runs(watch).into_iter().map(one).chain(ends).collect()
    }

    /// Whether sizes are to be weighed against each other by a device's time.
    fn weighs_time(&self, watch: &Watch) -> bool {
        watch.device.is_some() && self.sizes.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ingest::Keep;
    use crate::input::trace::Trace;
    use forebay_model::presets;
    use forebay_trace::{Input, Options};

    fn sample() -> Box<dyn Reader> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/sample.parquet");
        forebay_trace::reader::read(Input::open(file.as_ref()).unwrap(), &Options::default()).unwrap().1
    }

    #[test]
    fn streaming_gives_what_loading_gives_for_every_policy_that_can_stream() {
        let mut specs = Spec::all();
        specs.retain(|spec| Sweep::can_stream(std::slice::from_ref(spec)));
        assert!(specs.len() >= 25, "{} policies can stream", specs.len());
        let watch = Watch {
            device: Some(presets::named("desktop-7200").unwrap().model()),
            distances: true,
            ..Watch::default()
        };
        let sweep = Sweep { specs, sizes: vec![89, 1787], warmup: 20_000, threads: 0 };
        let keep = Keep { places: true, requests: true };
        let trace = Trace::load("sample", sample().as_mut(), None, keep, &mut |_| {}).unwrap();
        let loaded = sweep.run_watching(&watch, &trace, &|_| true);
        let ends = Ends::runs(trace.pages, sweep.warmup, 0, &watch);
        let ends = ends.map(|(sweep, watch)| sweep.run_watching(&watch, &trace, &|_| true).remove(0));
        for chunk in [7_001, CHUNK] {
            let streamed = sweep.stream_by(chunk, &watch, "sample", sample().as_mut(), None, &mut |_, _| true).unwrap();
            assert_eq!((&streamed.trace, streamed.stopped), (&trace.dimensions(), false));
            assert_eq!(streamed.outcomes.len(), loaded.len());
            let Ends { without, with_all } = streamed.ends.expect("a device at two sizes");
            for (streamed, loaded) in [without, with_all].iter().zip(&ends) {
                assert_eq!((streamed.counted, streamed.device), (loaded.counted, loaded.device));
            }
            for (streamed, loaded) in streamed.outcomes.iter().zip(&loaded) {
                let label = format!("{} of {} pages by {chunk}", loaded.policy, loaded.pages);
                assert_eq!((streamed.total, streamed.counted), (loaded.total, loaded.counted), "{label}");
                assert_eq!(streamed.by_distance, loaded.by_distance, "{label}");
                assert_eq!(streamed.device, loaded.device, "{label}");
                assert_eq!((&streamed.policy, streamed.pages), (&loaded.policy, loaded.pages));
            }
        }
    }

    #[test]
    fn a_stopped_stream_tells_of_the_references_so_far() {
        let sweep = Sweep { specs: vec![Spec::parse("lru").unwrap()], sizes: vec![2], warmup: 0, threads: 1 };
        let mut reader = forebay_trace::open("loop:pages=3,references=1G".as_ref(), &Options::default()).unwrap().1;
        let stop = &mut |done, _| done < 3000;
        let streamed = sweep.stream_by(1000, &Watch::default(), "loop", reader.as_mut(), None, stop).unwrap();
        assert!(streamed.stopped);
        assert_eq!((streamed.trace.references, streamed.trace.pages), (3000, 3));
        assert_eq!((streamed.outcomes[0].total.misses, streamed.outcomes[0].counted.references), (3000, 3000));
    }
}
