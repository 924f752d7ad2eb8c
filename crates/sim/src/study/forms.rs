//! Answers in the forms that programs read, by the declarations of their figures.

use super::advice::{self, Take};
use super::comparison::{Comparison, part_counts};
use super::curves::{Curves, Line};
use super::figure::{Column, Figure, Figures, csv, json, named, with};
use super::figures::{BY_DISTANCE, COST, COUNTS, LEVEL, PART, POINT, Point, READAHEAD, RUN, STORAGE};
use super::info;
use super::kernel::brought_in;
use super::levels::Levels;
use crate::input::trace::Dimensions;
use crate::levels::{self, Analysis, Hierarchy, Level, Passed};
use crate::replay::outcome::RunOutcome;
use crate::replay::watch::By;
use crate::size::Size;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An answer in the forms that programs read.
pub trait Answer {
    /// The CSV's columns.
    fn columns() -> Vec<Column>;

    /// Their names.
    fn header() -> Vec<String> {
        Self::columns().into_iter().map(|column| column.name).collect()
    }

    /// The rows of the CSV.
    fn rows(&self) -> Vec<Vec<String>>;

    /// All that is known.
    fn json(&self) -> Value;
}

/// A column that is no figure: name, unit, meaning.
pub(super) type Word = (&'static str, &'static str, &'static str);

const TRACE: Word = ("trace", "text", "The trace, as named on the command line.");
const POLICY: Word = ("policy", "text", "The policy, as named on the command line.");
/// The columns that say how large a cache is.
const SIZE: [Word; 3] = [
    ("size_bytes", "bytes", "The cache's size."),
    ("pages", "count", "The same in pages."),
    ("page_size", "bytes", "The size of a page."),
];

fn columns<T>(figures: &'static Figures<T>) -> impl Iterator<Item = Column> {
    figures.iter().map(Figure::column)
}

fn size(trace: &Dimensions, pages: u32) -> [String; 3] {
    [trace.bytes(pages), pages.into(), trace.page_size].map(|number| number.to_string())
}

/// The policy and the size that the advice names.
fn take(trace: &Dimensions, take: Option<&Take>) -> Value {
    take.map_or(Value::Null, |Take { policy, pages }| {
        let bytes = (!trace.has_objects()).then(|| trace.bytes(*pages));
        json!({ "policy": policy, "pages": pages, "size_bytes": bytes })
    })
}

impl Answer for Comparison {
    fn columns() -> Vec<Column> {
        let ahead = columns(READAHEAD).map(|column| Column { name: format!("ahead_{}", column.name), ..column });
        let first = [TRACE, POLICY].iter().chain(&SIZE).map(Column::new).chain(columns(COUNTS));
        let run = first.chain([named(RUN, "seconds").column()]).chain(columns(COST));
        run.chain(columns(BY_DISTANCE)).chain(ahead).collect()
    }

    /// A row for each run.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |of: &RunOutcome| {
            let mut row = vec![self.trace.name.clone(), of.policy.clone()];
            row.extend(size(&self.trace, of.pages));
            row.extend(csv(COUNTS, Some(&of.counted)));
            row.push(named(RUN, "seconds").csv(of));
            row.extend(csv(COST, of.device.as_ref()));
            row.extend(csv(BY_DISTANCE, of.by_distance.as_ref()));
            row.extend(csv(READAHEAD, of.readahead.as_ref()));
            row
        };
        self.outcomes.iter().map(row).collect()
    }

    fn json(&self) -> Value {
        let figures = |state: &[(&'static str, f64)]| state.iter().copied().collect::<BTreeMap<_, _>>();
        let states = |of: &RunOutcome| -> Vec<Value> {
            let state = of.states.iter();
            state.map(|state| json!({ "references": state.references, "state": figures(&state.figures) })).collect()
        };
        let beside = |of: &RunOutcome| {
            json!({
                "policy": of.policy,
                "size_bytes": self.trace.bytes(of.pages),
                "pages": of.pages,
                "counted": json(COUNTS, Some(&of.counted)),
                "device": json(COST, of.device.as_ref()),
                "readahead": json(READAHEAD, of.readahead.as_ref()),
                "brought_in": brought_in(of),
            })
        };
        let kernel = self.beside_kernel.as_ref().map(|kernel| {
            json!({
                "readahead": kernel.readahead.label,
                "alone": kernel.alone.iter().map(beside).collect::<Vec<_>>(),
                "steered": kernel.steered.iter().map(beside).collect::<Vec<_>>(),
            })
        });
        let run = |of: &RunOutcome| {
            let named = json!({
                "policy": of.policy,
                "off_line": of.off_line,
                "size": self.size(of.pages),
                "size_bytes": self.trace.bytes(of.pages),
                "counted": json(COUNTS, Some(&of.counted)),
                "total": json(COUNTS, Some(&of.total)),
                "device": json(COST, of.device.as_ref()),
                "readahead": json(READAHEAD, of.readahead.as_ref()),
                "by_distance": json(BY_DISTANCE, of.by_distance.as_ref()),
                "by_owner": self.split(of, By::Owner, "owner"),
                "by_file": self.split(of, By::File, "file"),
                "state": figures(&of.state),
                "states": states(of),
            });
            with(named, RUN, of)
        };
        let advised = advice::of_comparison(self);
        json!({
            "trace": self.trace.name,
            "device": self.device.as_ref().map(|device| &device.name),
            "readahead": self.readahead.label,
            "recorded": self.recorded.as_ref().map(info::recorded),
            "left_out": self.left_out,
            "references": self.trace.references,
            "footprint_pages": self.trace.pages,
            "page_size": self.trace.page_size,
            "page_size_origin": self.trace.page_size_origin.word(),
            "warmup": self.warmup,
            "estimate": self.sample.is_some(),
            "sample": self.sample.map(|(rate, pages)| json!({ "rate": rate, "pages": pages })),
            "runs": self.outcomes.iter().map(run).collect::<Vec<_>>(),
            "kernel": kernel,
            "advice": advised.text,
            "take": take(&self.trace, advised.take.as_ref()),
        })
    }
}

impl Comparison {
    fn split(&self, outcome: &RunOutcome, by: By, what: &str) -> Value {
        let one = |part: usize| with(json!({ what: self.parts[part] }), PART, &part_counts(outcome, part));
        if self.by == Some(by) { self.parts_by_references().into_iter().map(one).collect() } else { Value::Null }
    }

    /// A size as the user wrote it.
    fn size(&self, pages: u32) -> Option<Value> {
        let (_, size) = self.sizes.iter().find(|&&(of, _)| of == pages)?;
        Some(match size {
            Size::Pages(pages) => json!(pages),
            size => json!(size.to_string()),
        })
    }
}

impl Answer for Curves {
    fn columns() -> Vec<Column> {
        let figures = columns(POINT).filter(|column| column.name != "pages");
        [TRACE, POLICY].iter().chain(&SIZE).map(Column::new).chain(figures).collect()
    }

    /// A row for each point.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |(line, point): (&Line, Point)| {
            let names =
                [self.trace.name.clone(), line.policy.clone()].into_iter().chain(size(&self.trace, point.pages));
            let figures = POINT.iter().filter(|figure| figure.name != "pages");
            names.chain(figures.map(|figure| figure.csv(&point))).collect()
        };
        self.points().map(row).collect()
    }

    fn json(&self) -> Value {
        let Self { trace, sizes, sample, lines, .. } = self;
        let point = |line: &Line, pages: u32| {
            let mut point = json(POINT, Some(&self.point(line, pages)));
            point.as_object_mut().expect("figures make an object").remove("references");
            point["size_bytes"] = json!(trace.bytes(pages));
            point
        };
        let line = |line: &Line| {
            json!({
                "policy": line.policy,
                "spread": line.spread,
                "mean_absolute_error": line.error,
                "points": sizes.iter().map(|&pages| point(line, pages)).collect::<Vec<_>>(),
            })
        };
        let advised = advice::of_curves(self);
        json!({
            "trace": trace.name,
            "references": trace.references,
            "footprint_pages": trace.pages,
            "page_size": trace.page_size,
            "estimate": sample.is_some(),
            "sample": sample.map(|(rate, pages)| json!({ "rate": rate, "pages": pages })),
            "curves": lines.iter().map(line).collect::<Vec<_>>(),
            "advice": advised.text,
            "take": take(trace, advised.take.as_ref()),
        })
    }
}

impl Answer for Levels {
    fn columns() -> Vec<Column> {
        let first = [
            TRACE,
            ("mode", "text", "Who keeps a page that passes: inclusive, exclusive, hints."),
            ("hierarchy", "count", "The number of the combination of alternatives, from 1."),
            ("level", "count", "The number of the level, from 1, the first one."),
            POLICY,
        ];
        let last = [
            ("caches", "count", "How many caches of that size the level has."),
            ("write", "text", "What becomes of writes: through, back, back:REFERENCES."),
        ];
        let first = first.iter().chain(&SIZE).chain(&last).map(Column::new);
        first.chain(columns(LEVEL)).chain(columns(STORAGE)).chain(columns(COST)).collect()
    }

    /// A row for each level of each hierarchy; storage and device, which are the hierarchy's, stand in the rows of its last level.
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for (number, (hierarchy, outcome)) in self.runs.iter().enumerate() {
            for (index, (level, passed)) in hierarchy.levels.iter().zip(&outcome.levels).enumerate() {
                let last = index + 1 == hierarchy.levels.len();
                let mut row = vec![
                    self.trace.name.clone(),
                    hierarchy.mode.to_string(),
                    (number + 1).to_string(),
                    (index + 1).to_string(),
                    level.spec.label.clone(),
                ];
                row.extend(size(&self.trace, level.pages));
                row.extend([level.caches.to_string(), level.write.to_string()]);
                row.extend(csv(LEVEL, Some(passed)));
                row.extend(csv(STORAGE, last.then_some(outcome)));
                row.extend(csv(COST, outcome.device.as_ref().filter(|_| last)));
                rows.push(row);
            }
        }
        rows
    }

    fn json(&self) -> Value {
        let level = |(level, passed): (&Level, &Passed)| {
            let named = json!({
                "policy": level.spec.label,
                "size_bytes": self.trace.bytes(level.pages),
                "pages": level.pages,
                "caches": level.caches,
                "write": level.write.to_string(),
                "analysis": passed.analysis.as_ref().map(analysis),
            });
            with(named, LEVEL, passed)
        };
        let run = |(hierarchy, outcome): &(Hierarchy, levels::HierarchyOutcome)| {
            let named = json!({
                "levels": hierarchy.levels.iter().zip(&outcome.levels).map(level).collect::<Vec<_>>(),
                "mode": hierarchy.mode.to_string(),
                "device": json(COST, outcome.device.as_ref()),
                "seconds": outcome.seconds,
            });
            with(named, STORAGE, outcome)
        };
        json!({
            "trace": self.trace.name,
            "device": self.device.as_ref().map(|device| &device.name),
            "references": self.trace.references,
            "footprint_pages": self.trace.pages,
            "page_size": self.trace.page_size,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "advice": self.advice(),
        })
    }
}

/// As `forebay analyze` tells it of a trace.
fn analysis(analysis: &Analysis) -> Value {
    let frequency = analysis.frequency.iter().zip(analysis.shares()).map(|(point, (pages, references))| {
        json!({ "times": point.times, "pages_percent": 100.0 * pages, "references_percent": 100.0 * references })
    });
    json!({
        "temporal_distance": { "points": analysis.distances },
        "frequency": frequency.collect::<Vec<_>>(),
    })
}
