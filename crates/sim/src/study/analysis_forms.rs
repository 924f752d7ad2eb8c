//! An analysis for a spreadsheet: a row for each number, with what it is of. JSON holds the same and the space–time graph.

use super::figure::Column;
use super::forms::{Answer, Word};
use crate::analysis::Analysis;
use crate::analysis::{OwnerHits, Owners};
use serde_json::{Value, json};

const COLUMNS: [Word; 8] = [
    ("trace", "text", "The trace, as named on the command line."),
    ("section", "text", "The section of the analysis; `sources` and `programs` are of `owners`."),
    ("name", "text", "What it is of: a class of references, an owner, `requests` or `sequences`."),
    ("policy", "text", "The policy; empty for the trace itself."),
    ("pages", "count", "The cache's size."),
    ("at", "count", "Where: references so far, a window, a distance, a number of times, a length in pages."),
    ("figure", "text", "Which number it is, by its name in JSON."),
    ("value", "as the figure", "The number."),
];

impl Answer for Analysis {
    fn columns() -> Vec<Column> {
        COLUMNS.iter().map(Column::new).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        // What it is of: name, policy, pages.
        type Of<'a> = (&'a str, &'a str, Option<u32>);
        const TRACE: Of<'_> = ("", "", None);
        let mut add = |section: &str, (name, policy, pages): Of<'_>, at: Option<u64>, figure: &str, value: String| {
            let pages = pages.map_or_else(String::new, |pages| pages.to_string());
            let at = at.map_or_else(String::new, |at| at.to_string());
            let words = [section, name, policy, &pages, &at, figure, &value].map(str::to_owned);
            rows.push([self.trace.clone()].into_iter().chain(words).collect());
        };
        for point in self.footprint.iter().flatten() {
            add("footprint", TRACE, Some(point.references), "pages", point.pages.to_string());
        }
        for point in self.working_set.iter().flatten() {
            add("working-set", TRACE, Some(point.window), "mean_pages", point.mean_pages.to_string());
        }
        if let Some(distances) = &self.temporal_distance {
            for point in &distances.points {
                let count = point.references.to_string();
                add("temporal-distance", TRACE, Some(point.distance), "references", count);
            }
            add("temporal-distance", TRACE, None, "first_uses", distances.first_uses.to_string());
        }
        for point in self.frequency.iter().flatten() {
            let at = Some(point.times);
            add("frequency", TRACE, at, "pages", point.pages.to_string());
            add("frequency", TRACE, at, "pages_percent", point.pages_percent.to_string());
            add("frequency", TRACE, at, "references", point.references.to_string());
            add("frequency", TRACE, at, "references_percent", point.references_percent.to_string());
        }
        if let Some(classes) = &self.classes {
            let counts = [("sequential", classes.sequential), ("looping", classes.looping), ("other", classes.other)];
            for (class, count) in counts {
                add("classes", (class, "", None), None, "references", count.to_string());
            }
            for point in &classes.by_period {
                add("classes", ("looping", "", None), Some(point.distance), "references", point.references.to_string());
            }
        }
        for run in self.hits_by_distance.iter().flatten() {
            let of = ("", run.policy.as_str(), Some(run.pages));
            for point in &run.points {
                add("hits-by-distance", of, Some(point.distance), "hits", point.hits.to_string());
                add("hits-by-distance", of, Some(point.distance), "misses", point.misses.to_string());
            }
            let sums = [
                ("near_hits", run.near_hits),
                ("near_misses", run.near_misses),
                ("far_hits", run.far_hits),
                ("far_misses", run.far_misses),
            ];
            for (figure, count) in sums {
                add("hits-by-distance", of, None, figure, count.to_string());
            }
        }
        for lengths in self.request_length.iter().flatten() {
            let policy = lengths.policy.as_deref().unwrap_or_default();
            for (name, points) in [("requests", &lengths.requests), ("sequences", &lengths.sequences)] {
                for point in points {
                    add(
                        "request-length",
                        (name, policy, lengths.pages),
                        Some(point.length),
                        "count",
                        point.count.to_string(),
                    );
                }
            }
        }
        if let Some(Owners { owners, sources, programs }) = &self.owners {
            let mut all = |section: &str, owners: &[OwnerHits]| {
                for of in owners {
                    add(section, (&of.owner, "", None), None, "references", of.references.to_string());
                    for run in &of.runs {
                        let under = (of.owner.as_str(), run.policy.as_str(), Some(run.pages));
                        add(section, under, None, "hits", run.hits.to_string());
                        add(section, under, None, "misses", run.misses.to_string());
                        add(section, under, None, "miss_ratio", format!("{:.6}", run.miss_ratio));
                    }
                }
            };
            all("owners", owners);
            all("sources", sources);
            all("programs", programs);
        }
        rows
    }

    fn json(&self) -> Value {
        json!(self)
    }
}
