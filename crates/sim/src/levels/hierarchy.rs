//! A hierarchy, and what comes of it.

use super::analysis::Analysis;
use forebay_model::{Cost, Model};
use forebay_policy::Spec;
use std::fmt;

/// The caches of one level: all of one policy and one size.
#[derive(Clone, Debug)]
pub struct Level {
    /// Their policy; it must not need to know the future.
    pub spec: Spec,
    /// The size of each in pages, at least 1.
    pub pages: u32,
    /// How many there are: more than one only at the first level, where owners are spread over them.
    pub caches: u32,
    /// What becomes of writes.
    pub write: Write,
}

/// What a cache does with a page that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It keeps the page and sends the write down.
    Through,
    /// It keeps the page dirty, and sends it down when it evicts it, or before.
    Back {
        /// All dirty pages are sent down each time that this many references of the trace have passed.
        flush: Option<u64>,
    },
}

/// Who keeps a page that passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every level that a page passes caches it, and evicts it without regard to the others.
    #[default]
    Inclusive,
    /// A page that is sent up leaves the cache below; one that is evicted is demoted to it (T. M. Wong and J. Wilkes, "My Cache
    /// or Yours? Making Storage More Exclusive", USENIX 2002).
    Exclusive,
    /// As inclusive; and of each page that it evicts, a cache tells the one below, and how often it has hit. The question that MQ's paper
    /// leaves open in its section 8.
    Hints,
}

impl fmt::Display for Write {
    /// As a user writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Through => f.write_str("through"),
            Self::Back { flush: None } => f.write_str("back"),
            Self::Back { flush: Some(references) } => write!(f, "back:{references}"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inclusive => "inclusive",
            Self::Exclusive => "exclusive",
            Self::Hints => "hints",
        })
    }
}

/// Levels of caches, from the first one down.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// At least one.
    pub levels: Vec<Level>,
    /// Who keeps a page that passes.
    pub mode: Mode,
    /// What the last level's misses and writes go to, if its cost is asked for.
    pub device: Option<Model>,
    /// Whether to analyze the references that each level gets.
    pub analyze: bool,
}

/// What came of a hierarchy.
#[derive(Clone, Debug)]
pub struct HierarchyOutcome {
    /// By level.
    pub levels: Vec<Passed>,
    /// Pages read from storage.
    pub storage_reads: u64,
    /// Pages written to storage.
    pub storage_writes: u64,
    /// What these cost on the device, if there is one.
    pub device: Option<Cost>,
    /// The time of the replay.
    pub seconds: f64,
}

/// What came to the caches of a level, and what they sent on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passed {
    /// Reads and writes.
    pub references: u64,
    /// Those that found their page resident.
    pub hits: u64,
    /// The reads alone.
    pub reads: u64,
    /// The reads that found their page resident.
    pub read_hits: u64,
    /// Pages with new content that came: writes, and dirty pages among the demoted.
    pub writes_received: u64,
    /// Pages with new content that were sent down: writes sent through, writebacks, and dirty pages among the demoted.
    pub writes_sent: u64,
    /// Pages that were demoted to this level, clean or dirty; they are no references.
    pub demotions_received: u64,
    /// Evictions above that this level was told of.
    pub hints_received: u64,
    /// The references by temporal distance and by frequency, if asked for.
    pub analysis: Option<Analysis>,
}

impl Passed {
    /// Hits by references.
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 { 0.0 } else { self.hits as f64 / self.references as f64 }
    }

    /// Hits of reads by reads.
    pub fn read_hit_ratio(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.read_hits as f64 / self.reads as f64 }
    }
}
