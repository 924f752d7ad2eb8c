//! Many runs over one trace: policies × sizes, on all cores.

use crate::replay::{Outcome, Run};
use crate::trace::{Keep, Trace};
use crate::watch::Watch;
use forebay_policy::{Future, Spec, registry};
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
    pub fn work(&self, trace: &Trace) -> u64 {
        (self.specs.len() * self.sizes.len()) as u64 * trace.len() as u64
    }

    /// Makes all runs; the outcomes stand by policy and, within a policy, by size. `progress` is told of each further number
    /// of references replayed, from any thread, and may answer `false` to stop: runs not finished then are left out.
    ///
    /// # Panics
    /// If the warm-up is longer than the trace, or the trace lacks what [`Sweep::keep`] says.
    pub fn run(&self, trace: &Trace, progress: &(dyn Fn(u64) -> bool + Sync)) -> Vec<Outcome> {
        self.run_watching(&Watch::default(), trace, progress)
    }

    /// Like [`run`](Sweep::run), and answers what is asked besides.
    ///
    /// # Panics
    /// Also if there is a disk and the trace has no places.
    pub fn run_watching(&self, watch: &Watch, trace: &Trace, progress: &(dyn Fn(u64) -> bool + Sync)) -> Vec<Outcome> {
        assert!(self.warmup <= trace.len(), "the warm-up is longer than the trace");
        assert!(watch.disk.is_none() || !trace.places.is_empty(), "device time needs the places of pages");
        let future = self.specs.iter().any(|spec| spec.needs_future()).then(|| {
            let references = Arc::clone(&trace.references);
            Arc::new(Future::new(references, trace.pages))
        });
        let runs: Vec<(&Spec, u32)> =
            self.specs.iter().flat_map(|spec| self.sizes.iter().map(move |&size| (spec, size))).collect();
        let one = |&(spec, size): &(&Spec, u32)| {
            let mut setup = spec.setup(size, trace.pages);
            setup.page_size = trace.page_size;
            setup.future = future.clone().filter(|_| spec.needs_future());
            let run = Run { trace, spec, setup, warmup: self.warmup, watch, progress };
            registry::visit(spec.info.name, run).expect("the policy is in the registry")
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build().expect("threads can be started");
        pool.install(|| runs.par_iter().with_max_len(1).filter_map(one).collect())
    }
}
