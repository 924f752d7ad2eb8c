//! What the benchmarks share: the trace that they replay.

use forebay_sim::{Keep, Trace};
use forebay_trace::{Options, Reader};
use std::path::Path;

/// A Zipf trace and the size of a cache for it.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Pages that may be referenced.
    pub pages: u32,
    /// References.
    pub references: u64,
    /// Pages of the cache.
    pub size: u32,
}

impl Workload {
    /// The one that libCacheSim is compared on if the environment says `FOREBAY_BENCH=full`, else a tenth of it.
    pub fn chosen() -> Self {
        match std::env::var("FOREBAY_BENCH").as_deref() {
            Ok("full") => Self { pages: 1_000_000, references: 20_000_000, size: 100_000 },
            _ => Self { pages: 100_000, references: 2_000_000, size: 10_000 },
        }
    }

    /// Its references, made while they are read.
    ///
    /// # Panics
    /// If the trace reader does not know its own generator.
    pub fn open(&self) -> Box<dyn Reader> {
        let spec = format!("zipf:pages={},references={},alpha=1.0", self.pages, self.references);
        forebay_trace::open(Path::new(&spec), &Options::default()).expect("a synthetic trace opens").1
    }

    /// Its references in memory, with all that any policy looks at.
    ///
    /// # Panics
    /// As [`open`](Workload::open).
    pub fn load(&self) -> Trace {
        let keep = Keep { places: true, requests: true };
        Trace::load("zipf", self.open().as_mut(), None, keep, &mut |_| {}).expect("a synthetic trace loads")
    }
}
