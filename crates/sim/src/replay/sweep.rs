//! Many runs over one trace: policies × sizes, on all cores.

use super::outcome::RunOutcome;
use super::run::Start;
use super::watch::{By, Watch};
use super::{Stretch, one_pass};
use crate::input::ingest::Keep;
use crate::input::trace::Trace;
use crate::readahead::Successors;
use forebay_policy::{Future, Spec};
use rayon::prelude::*;
use std::sync::Arc;

/// Policies × sizes over one trace.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The policies.
    pub specs: Vec<Spec>,
    /// The sizes in pages, each at least 1.
    pub sizes: Vec<u32>,
    /// References at the start that warm the caches and are not counted.
    pub warmup: usize,
    /// Threads to run on; 0: one for each core.
    pub threads: usize,
}

impl Sweep {
    /// What a trace must keep for these policies.
    pub fn keep(specs: &[Spec]) -> Keep {
        Keep {
            places: specs.iter().any(|spec| spec.info.uses.place),
            requests: specs.iter().any(|spec| spec.info.uses.request),
        }
    }

    /// How many references all runs replay together.
    pub fn work(&self, watch: &Watch, trace: &Trace) -> u64 {
        self.runs(watch).len() as u64 * trace.len() as u64
    }

    /// Makes all runs, those of a stack algorithm at many sizes in one pass; the outcomes stand by policy and, within a policy, by size. `progress` is notified of each further number
    /// of references replayed, from any thread, and may answer `false` to stop: runs not finished then are left out.
    ///
    /// # Panics
    /// If the warm-up is longer than the trace, or the trace lacks what [`Sweep::keep`] says.
    pub fn run(&self, trace: &Trace, progress: &(dyn Fn(u64) -> bool + Sync)) -> Vec<RunOutcome> {
        self.run_watching(&Watch::default(), trace, progress)
    }

    /// Like [`run`](Sweep::run), and answers what is asked besides.
    ///
    /// # Panics
    /// Also if there is a device or readahead and the trace has no places, if owners are asked for and it has no requests, or readahead and a policy knows the future.
    pub fn run_watching(
        &self,
        watch: &Watch,
        trace: &Trace,
        progress: &(dyn Fn(u64) -> bool + Sync),
    ) -> Vec<RunOutcome> {
        assert!(self.warmup <= trace.len(), "the warm-up is longer than the trace");
        assert!(watch.device.is_none() || !trace.places.is_empty(), "device time needs the places of pages");
        assert!(watch.readahead.is_none() || !trace.places.is_empty(), "readahead needs the places of pages");
        assert!(watch.by != Some(By::Owner) || !trace.requests.first.is_empty(), "hits by owner need the requests");
        assert!(watch.by != Some(By::File) || !trace.places.is_empty(), "hits by file need the places of pages");
        let off_line = self.specs.iter().find(|spec| spec.needs_future());
        assert!(watch.readahead.is_none() || off_line.is_none(), "who knows the future takes no readahead");
        let runs = self.runs(watch);
        let knows_future = |&(spec, sizes): &(&Spec, &[u32])| spec.needs_future() && sizes.len() == 1;
        let future = runs.iter().any(knows_future).then(|| {
            let references = Arc::clone(&trace.references);
            Arc::new(Future::new(references, trace.pages))
        });
        let references = trace.len() as u64;
        let successors = || Arc::new(Successors::new(&trace.places, &trace.names, trace.page_size));
        let successors = (!watch.readahead.is_none()).then(successors);
        let compulsory_misses = (u64::from(trace.pages), trace.compulsory_misses(self.warmup));
        let one = |&(spec, sizes): &(&Spec, &[u32])| {
            // To set up a run takes time, too.
            if !progress(0) {
                return Vec::new();
            }
            let mut run = match *sizes {
                [size] => {
                    let mut setup = spec.setup(size, trace.pages);
                    setup.page_size = trace.page_size;
                    setup.device = watch.cost_of_reads(trace.page_size);
                    setup.future = future.clone().filter(|_| spec.needs_future());
                    let (warmup, successors) = (self.warmup as u64, successors.as_ref());
                    Start { spec, setup, warmup, watch, references, successors }.run()
                }
                _ => one_pass::start(spec, sizes, self.warmup as u64, trace.pages),
            };
            if run.replay(&Stretch::of(trace), progress) { run.outcomes(compulsory_misses) } else { Vec::new() }
        };
        self.pool().install(|| runs.par_iter().with_max_len(1).flat_map_iter(one).collect())
    }

    /// Policies and the sizes that one run gives, in the order of the outcomes: one size, or all where [`one_pass::pays`].
    pub(crate) fn runs(&self, watch: &Watch) -> Vec<(&Spec, &[u32])> {
        let runs = |spec| {
            let at_once = !watch.anything() && one_pass::pays(spec, self.sizes.len());
            self.sizes.chunks(if at_once { self.sizes.len() } else { 1 }).map(move |sizes| (spec, sizes))
        };
        self.specs.iter().flat_map(runs).collect()
    }

    pub(crate) fn pool(&self) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(self.threads).build().expect("threads can be started")
    }
}
