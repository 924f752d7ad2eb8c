//! Why there is no answer, or not all of it.

use crate::size::SizeError;
use crate::words::grouped;
use forebay_policy::managers::RulesError;
use std::fmt;

/// Why there is no answer.
#[derive(Debug)]
pub enum Error {
    /// The trace cannot be read, or holds nothing.
    Trace(forebay_trace::Error),
    /// The file of managers cannot be read, or is wrong.
    Managers(RulesError),
    /// Threads cannot be started.
    Threads(rayon::ThreadPoolBuildError),
    /// The question makes no sense, at least for this trace.
    Question(Question),
    /// It was stopped before anything could be told.
    Stopped(Stop),
}

/// Why a question makes no sense.
#[derive(Debug)]
pub enum Question {
    /// No cache can have this size.
    Size(SizeError),
    /// No page can have this size.
    PageSize(String),
    /// A warm-up of this many references leaves nothing to count of this trace, which has this many.
    WarmUp(u64, String, u64),
    /// A sample and a warm-up exclude each other.
    WarmUpOfSample,
    /// This policy knows the future, and so takes no readahead.
    ReadaheadForeseen(String),
    /// Of this trace nothing misses in a first-level cache of this many pages.
    NothingMisses(String, u32),
    /// Of this trace no page is taken at this sampling rate.
    NoPageSampled(String, f64),
    /// Nothing is left of the miniature of a cache of this many pages.
    NoMiniature(u32),
    /// The errors of curves that are not estimated.
    ErrorsOfExact,
    /// Errors are asked of a trace that can be read only once.
    ErrorsOfInput,
    /// A sample of a fixed size is for LRU alone.
    FixedSizeBeyondLru,
    /// Several caches below the first level.
    CachesBelow,
    /// This many ways to write, for this many levels.
    WritesBeyondLevels(usize, usize),
}

/// Where work was stopped, and so what the answer lacks.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// After N of M runs over this trace; the answer has all that are done.
    Runs(usize, usize, String),
    /// The same; the answer has the policies that are done at all sizes.
    Policies(usize, usize, String),
    /// After this many references were read of this trace, of which nothing is known yet.
    Reading(u64, String),
    /// After this many references of this trace, which was not held, and this share of it if that is known.
    References(u64, String, Option<f64>),
}

/// Why a text does not say what is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ParseError {
    /// There is no such policy, or it has no such parameter.
    Policy(String),
    /// There is no such size.
    Size(SizeError),
    /// No warm-up.
    WarmUp,
    /// No first-level cache.
    FirstLevel,
    /// This policy knows the future, which no first-level cache does.
    FirstLevelForeseen(String),
    /// No cache of a level.
    Level(String),
    /// This policy knows the future, which no cache of a hierarchy does.
    LevelForeseen(String),
    /// No number of caches, or too many.
    Caches(String),
    /// No way to write.
    Write(String),
    /// No interval of writing.
    Interval(String),
}

/// This many caches are more than anybody has in front of one: each takes memory for every page of the trace.
pub(super) const MOST_CACHES: u32 = 4096;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Managers(error) => error.fmt(f),
            Self::Threads(error) => write!(f, "threads cannot be started: {error}"),
            Self::Question(question) => question.fmt(f),
            Self::Stopped(stop) => stop.fmt(f),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size(error) => return error.fmt(f),
            Self::PageSize(error) => error,
            Self::WarmUp(asked, trace, all) => {
                let (asked, all) = (grouped(*asked), grouped(*all));
                return write!(f, "a warm-up of {asked} references leaves nothing to count: {trace} has {all}");
            }
            Self::WarmUpOfSample => "a sample has no warm-up of its own: leave out --warmup or --sample",
            Self::ReadaheadForeseen(policy) => {
                let what =
                    "knows what is referenced next, and not what is read ahead, by --readahead or as it was recorded: leave it out, or say --readahead none";
                return write!(f, "{policy} {what}");
            }
            Self::NothingMisses(trace, pages) => {
                return write!(f, "nothing of {trace} misses in a first-level cache of {pages} pages");
            }
            Self::NoPageSampled(trace, rate) => {
                let percent = 100.0 * rate;
                return write!(f, "a sampling rate of {percent}% takes no page of {trace}: take a higher one");
            }
            Self::NoMiniature(pages) => {
                let advice = "take a higher rate or a larger cache";
                return write!(f, "at this sampling rate not one page is left of a cache of {pages} pages: {advice}");
            }
            Self::ErrorsOfExact => {
                "--errors compares estimated curves with exact ones: add --sample RATE or --sample-pages NUMBER"
            }
            Self::ErrorsOfInput => "--errors reads the trace twice, which standard input does not allow: name a file",
            Self::FixedSizeBeyondLru => {
                "--sample-pages estimates LRU's curve alone: say --policies lru, or take --sample RATE"
            }
            Self::CachesBelow => "several caches (*N) are for the first --level: those below are one cache each",
            Self::WritesBeyondLevels(writes, levels) => {
                return write!(f, "--write names {writes} levels, and --level {levels}: leave some out");
            }
        })
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs(done, all, trace) => write!(f, "stopped after {done} of {all} runs over {trace}"),
            Self::Policies(done, all, trace) => {
                write!(f, "stopped after {done} of {all} runs over {trace}; shown are the policies done at all sizes")
            }
            Self::Reading(read, trace) => {
                let read = grouped(*read);
                write!(f, "stopped after reading {read} references of {trace}; nothing is known of it yet")
            }
            Self::References(done, trace, share) => {
                let share = share.map_or_else(String::new, |share| format!(" (about {:.0} % of it)", 100.0 * share));
                write!(f, "stopped after {} references of {trace}{share}; shown is what they gave", grouped(*done))
            }
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(error) => f.write_str(error),
            Self::Size(error) => error.fmt(f),
            Self::WarmUp => {
                f.write_str("write a number of references (100000) or percent of the trace (20%), less than all of it")
            }
            Self::FirstLevel => f.write_str("write POLICY@SIZE, as in lru@1000 or lru@64MiB"),
            Self::FirstLevelForeseen(policy) => write!(f, "{policy} knows the future: it is no first-level cache"),
            Self::Level(text) => {
                write!(f, "`{text}` is no level: write POLICY:SIZE, as in lru:64MiB, mq:10% or lru:8MiB*12")
            }
            Self::LevelForeseen(policy) => write!(
                f,
                "{policy} knows the future, which here depends on the caches above: \
                 for a bound at the second level see `forebay compare --behind`"
            ),
            Self::Caches(text) => write!(f, "`{text}`: write 1 to {MOST_CACHES} caches, as in lru:8MiB*12"),
            Self::Write(text) => write!(f, "`{text}` is no way to write: take through, back or back:REFERENCES"),
            Self::Interval(text) => write!(f, "`{text}`: after `back:` write a number of references, at least 1"),
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for ParseError {}

macro_rules! from {
    ($($from:ty => $to:ty: $variant:expr;)*) => {
        $(impl From<$from> for $to {
            fn from(error: $from) -> Self {
                $variant(error)
            }
        })*
    };
}

from! {
    forebay_trace::Error => Error: Self::Trace;
    RulesError => Error: Self::Managers;
    Question => Error: Self::Question;
    SizeError => Error: |error| Self::Question(Question::Size(error));
    SizeError => ParseError: Self::Size;
}
