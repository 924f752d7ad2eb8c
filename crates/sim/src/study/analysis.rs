//! What a trace is like, and in words what that means for caches, LRU's first. The room [`analysis`] declares the
//! figures.

use super::advice::{NOTHING_AGAIN, POINTS_THAT_MATTER};
use super::check::best;
use super::comparison::{give, read};
use super::error::Error;
use super::monitor::Monitor;
use super::recorded::warn_of_readahead;
use crate::analysis::{self, Analysis, Best, Classes, DistancePoint, FrequencyPoint, HitsByDistance};
use crate::size::{Size, SizeError};
use crate::words::{counted, grouped, percent, significant};
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use forebay_trace::Reader;

/// Loops with this share of the references are worth a policy that knows them.
const MANY: f64 = 0.1;

/// What is asked of every trace.
#[derive(Debug)]
pub struct Asked {
    /// All but what depends on the trace: its sizes are not looked at.
    pub asked: analysis::Asked,
    /// The sizes of the policies.
    pub sizes: Vec<Size>,
    /// The managers of the policy `lru-sp`.
    pub managers: Option<Rules>,
    /// The bytes of a page; by default the trace's own.
    pub page_size: Option<u64>,
}

impl Asked {
    /// Analyses the trace called `name`.
    ///
    /// # Errors
    /// What is wrong with the trace, or with the question for this trace.
    pub fn of(&self, name: &str, reader: &mut dyn Reader, monitor: &dyn Monitor) -> Result<Analysis, Error> {
        let mut asked = self.asked.clone();
        let trace = read(name, reader, self.page_size, asked.keep(), monitor)?;
        warn_of_readahead(name, trace.circumstances.as_ref(), "these figures", monitor);
        let sizes = self.sizes.iter().map(|size| size.pages(trace.page_size, trace.pages));
        asked.sizes = sizes.collect::<Result<_, SizeError>>()?;
        asked.sizes.sort_unstable();
        asked.sizes.dedup();
        if let Some(managers) = &self.managers {
            give(managers, &mut asked.specs, &trace, monitor)?;
        }
        let analyzing = monitor.begin(format!("analyzing {name}"), Some(asked.work(&trace)), false);
        let mut analysis = Analysis::of(&trace, &asked, &|more| {
            analyzing.add(more);
        });
        drop(analyzing);
        analysis.best = long_loops(&analysis).map(|(_, pages)| best(&trace, pages, asked.threads, monitor));
        Ok(analysis)
    }
}

/// What the figures say; a sentence for each thing that was asked for.
pub fn advice(analysis: &Analysis, specs: &[Spec]) -> String {
    let references = analysis.references;
    if references > 0 && references == u64::from(analysis.footprint_pages) {
        return NOTHING_AGAIN.to_owned();
    }
    let mut sentences = Vec::new();
    sentences.extend(analysis.classes.as_ref().map(|found| classes(found, references)));
    sentences.extend(analysis.frequency.as_ref().and_then(|points| frequency(points)));
    if let Some(runs) = &analysis.hits_by_distance {
        let largest = runs.iter().map(|run| run.pages).max().unwrap_or(0);
        let at: Vec<&HitsByDistance> = runs.iter().filter(|run| run.pages == largest).collect();
        sentences.extend(at.first().map(|run| near(run, analysis)));
        sentences.extend(policies(&at, specs, references));
    }
    sentences.extend(long_loops(analysis).map(|(beyond, pages)| loops(beyond, pages, references)));
    sentences.extend(analysis.best.as_ref().map(most_hits));
    sentences.join(" ")
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// How much is sequential and looping, and how long the loops take.
fn classes(classes: &Classes, references: u64) -> String {
    let Classes { sequential, looping, by_period, .. } = classes;
    let mut text = format!(
        "As UBM tells them, {} % of the references are sequential and {} % looping",
        percent(share(*sequential, references)),
        percent(share(*looping, references)),
    );
    let mut sum = 0;
    let half = by_period.iter().find(|point| {
        sum += point.references;
        2 * sum >= *looping
    });
    if let (Some(half), Some(longest)) = (half.filter(|_| *looping > 0), by_period.last()) {
        // A point counts periods up to its distance, and none is longer than the trace.
        let [half, longest] = [half, longest].map(|point| point.distance.min(references));
        text += &format!(", half of these with periods of at most {} references", grouped(half));
        if longest > half {
            text += &format!(", the longest with up to {}", grouped(longest));
        }
    }
    text + "."
}

/// The pages that take most of the references for their number.
fn frequency(points: &[FrequencyPoint]) -> Option<String> {
    let lead = |point: &FrequencyPoint| point.references_percent - point.pages_percent;
    let most = points.iter().max_by(|one, other| lead(one).total_cmp(&lead(other))).filter(|most| lead(most) >= 1.0)?;
    Some(format!(
        "The {:.1} % of the pages that are referenced at least {} times take {:.1} % of the references.",
        most.pages_percent,
        grouped(most.times),
        most.references_percent,
    ))
}

/// What comes back nearer than the cache has pages, what farther, and what is new.
fn near(run: &HitsByDistance, analysis: &Analysis) -> String {
    let part = |count| percent(share(count, analysis.references));
    format!(
        "{} % of all references come back before as many others as a cache of {} ({}) has pages, which LRU \
            always hits; {} % come back later, and {} % are first uses, which no cache hits.",
        part(run.near_hits + run.near_misses),
        counted(run.pages.into(), "page"),
        show_bytes(u64::from(run.pages) * analysis.page_size),
        part(run.far_hits + run.far_misses),
        part(u64::from(analysis.footprint_pages)),
    )
}

/// What LRU, the best of the others and the limit hit of it all.
fn policies(at: &[&HitsByDistance], specs: &[Spec], references: u64) -> Option<String> {
    let hit_ratio = |run: &HitsByDistance| share(run.near_hits + run.far_hits, references);
    let on_line = |run: &HitsByDistance| specs.iter().any(|spec| spec.label == run.policy && !spec.needs_future());
    let named = |name: &str| at.iter().find(|run| run.policy == name);
    let others = at.iter().filter(|run| run.policy != "lru" && on_line(run));
    let best = others.max_by(|one, other| hit_ratio(one).total_cmp(&hit_ratio(other)));
    let limit = named("opt").map(|opt| format!("; the limit is {} %", percent(hit_ratio(opt)))).unwrap_or_default();
    let (lru, best) = match (named("lru"), best) {
        (None, None) => return None,
        (Some(only), None) | (None, Some(only)) => {
            return Some(format!("At that size {} hits {} %{limit}.", only.policy, percent(hit_ratio(only))));
        }
        (Some(lru), Some(best)) => (lru, best),
    };
    let gain = 100.0 * (hit_ratio(best) - hit_ratio(lru));
    let than = match gain {
        gain if gain >= POINTS_THAT_MATTER => format!("{} {gain:.1} points more", best.policy),
        gain if gain <= -POINTS_THAT_MATTER => format!("{} {:.1} points less", best.policy, -gain),
        _ => format!("{} as much", best.policy),
    };
    Some(format!("At that size lru hits {} %, {than}{limit}.", percent(hit_ratio(lru))))
}

/// The looping references whose blocks come back after more references than the cache has pages, whatever lies between.
fn beyond(by_period: &[DistancePoint], pages: u32) -> u64 {
    // A point counts periods of more than half its own.
    by_period.iter().filter(|point| point.distance / 2 >= u64::from(pages)).map(|point| point.references).sum()
}

/// How many references are in loops longer than the largest cache that was asked for, if they are many, and its pages.
fn long_loops(analysis: &Analysis) -> Option<(u64, u32)> {
    let largest = analysis.hits_by_distance.as_ref()?.iter().map(|run| run.pages).max()?;
    let beyond = beyond(&analysis.classes.as_ref()?.by_period, largest);
    (share(beyond, analysis.references) >= MANY).then_some((beyond, largest))
}

fn loops(beyond: u64, pages: u32, references: u64) -> String {
    format!(
        "{} % of the references are in loops longer than {} references, which LRU loses block by block unless much between is to \
            the same pages.",
        percent(share(beyond, references)),
        grouped(pages.into()),
    )
}

fn most_hits(best: &Best) -> String {
    let Best { policy, hit_ratio, lru_hit_ratio, sample, .. } = best;
    let of = if *sample < 1.0 { format!(", by {} % of the pages", significant(100.0 * sample)) } else { String::new() };
    let gain = 100.0 * (hit_ratio - lru_hit_ratio);
    if gain < POINTS_THAT_MATTER {
        return format!("No policy hits more than lru there{of}.");
    }
    format!(
        "Of all policies {policy} hits most there, {gain:.1} points more than lru{of}: `forebay compare` has other sizes."
    )
}
