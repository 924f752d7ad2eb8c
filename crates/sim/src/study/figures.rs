//! The figures of all answers.

use super::figure::{Figure, Figures, Unit};
use crate::levels::{self, Passed};
use crate::readahead::ReadaheadCounts;
use crate::replay::outcome::{ByDistance, PartCounts};
use crate::replay::outcome::{Counts, RunOutcome};
use forebay_model::Cost;

/// What a cache of one size makes of a trace, by a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The cache's size.
    pub pages: u32,
    /// Of the whole trace.
    pub references: u64,
    /// By the ratio, and so rounded.
    pub misses: u64,
    /// Misses by references.
    pub miss_ratio: f64,
}

/// A line for each figure: name, title, unit, what differs from the usual, meaning, number.
macro_rules! figures {
    ($($(#[$doc:meta])* $figures:ident of $type:ty {
        $($name:literal $title:literal $unit:ident $({ $($field:ident: $value:expr),* })? $meaning:literal |$of:ident| $number:expr;)*
    })*) => {
        $($(#[$doc])* pub static $figures: &Figures<$type> = &[$(Figure {
            $($($field: $value,)*)?
            ..Figure {
                name: $name,
                title: $title,
                heading: $title,
                unit: Unit::$unit,
                decimals: 6,
                meaning: $meaning,
                of: |$of: &$type| $number.into_number(),
            }
        }),*];)*
    };
}

figures! {
    /// What became of references.
    COUNTS of Counts {
        "references" "references" Count "All references, after those to warm up." |of| of.references;
        "hits" "hits" Count "Those that found their page resident." |of| of.hits;
        "misses" "misses" Count "Those that did not." |of| of.misses;
        "compulsory_misses" "compulsory misses" Count
            "The misses that no cache could have avoided: first uses of a page." |of| of.compulsory_misses;
        "hit_ratio" "hit ratio" Ratio
            "The share of the references whose page is in the cache; the higher, the better." |of| of.hit_ratio();
        "miss_ratio" "miss ratio" Ratio "The other references, which must be fetched." |of| 1.0 - of.hit_ratio();
    }

    /// What misses cost on a device.
    COST of Cost {
        "device_ms" "device time" TotalMilliseconds { heading: "device ms", decimals: 1 }
            "How long the device is at work for what misses; many misses in a row may cost less than a few scattered ones."
            |of| of.device_ms;
        "wait_mean_ms" "mean wait" Milliseconds { heading: "wait, mean ms" }
            "How long a reference waits in the mean, over hits and misses." |of| of.wait_mean_ms;
        "wait_p99_ms" "99 % wait at most" Milliseconds { decimals: 3 }
            "99 of 100 references wait no longer." |of| of.wait_p99_ms;
        "requests" "requests" Count "How many requests the device gets." |of| of.requests;
        "read_requests" "read requests" Count "How many of them read; the others write." |of| of.read_requests;
        "mean_request_pages" "pages each" Number { decimals: 3 }
            "How many pages a request to the device fetches in the mean: misses of adjacent pages go together."
            |of| of.mean_request_pages;
        "device_bytes" "bytes" Bytes "How many bytes are transferred." |of| of.bytes;
        "price" "price" Money "What the requests cost in money, where requests do." |of| of.price;
    }

    /// Hits and misses by temporal distance.
    BY_DISTANCE of ByDistance {
        "near_hits" "nearer hits" Count { heading: "nearer: hits" }
            "Hits at temporal distances below the number of pages in the cache." |of| of.near_hits;
        "near_misses" "nearer misses" Count { heading: "misses" } "Misses there." |of| of.near_misses;
        "far_hits" "farther hits" Count { heading: "farther: hits" } "Hits at that distance and more." |of| of.far_hits;
        "far_misses" "farther misses" Count { heading: "misses" } "Misses there." |of| of.far_misses;
    }

    /// What became of pages read ahead.
    READAHEAD of ReadaheadCounts {
        "fetched" "fetched" Count
            "Pages read ahead; after a warm-up also those that were still unused at its end." |of| of.fetched;
        "used" "used" Count
            "Those referenced while resident: this many of the hits are thanks to readahead." |of| of.used;
        "wasted" "wasted" Count "The others, evicted before a use or left at the end." |of| of.wasted;
        "late" "late" Count "With a device: the used ones whose reference had to wait." |of| of.late;
    }

    /// What a run is, and takes.
    RUN of RunOutcome {
        "pages" "pages" Count "The cache's size." |of| u64::from(of.pages);
        "seconds" "replay" Seconds "The time of the replay alone." |of| of.seconds;
        "metadata_bytes" "metadata" Bytes "The memory of the policy." |of| of.bytes as u64;
    }

    /// An owner's references.
    PART of PartCounts {
        "references" "references" Count "How many references the owner makes." |of| (of.hits + of.misses);
        "hits" "hits" Count "Those that hit." |of| of.hits;
        "misses" "misses" Count "Those that miss." |of| of.misses;
        "miss_ratio" "miss ratio" Ratio "Misses by references." |of| (of.misses as f64 / (of.hits + of.misses) as f64);
    }

    /// A point of a curve.
    POINT of Point {
        "pages" "pages" Count "The cache's size." |of| u64::from(of.pages);
        "references" "references" Count "All references." |of| of.references;
        "hits" "hits" Count "Those that find their page resident." |of| (of.references - of.misses);
        "misses" "misses" Count "Those that do not." |of| of.misses;
        "hit_ratio" "hit ratio" Ratio "Hits by references." |of| (1.0 - of.miss_ratio);
        "miss_ratio" "miss ratio" Ratio
            "The share of the references whose page must be fetched; the lower, the better." |of| of.miss_ratio;
    }

    /// What comes to the caches of a level, and what they send on.
    LEVEL of Passed {
        "references" "references" Count "Reads and writes." |of| of.references;
        "hits" "hits" Count "Those that found their page resident." |of| of.hits;
        "hit_ratio" "hit ratio" Ratio { heading: "hit ratio %" } "Hits by references." |of| of.hit_ratio();
        "reads" "reads" Count "The reads alone." |of| of.reads;
        "read_hits" "read hits" Count "The reads that found their page resident." |of| of.read_hits;
        "writes_received" "writes received" Count
            "Pages with new content that came: writes, and dirty pages among the demoted." |of| of.writes_received;
        "writes_sent" "writes sent" Count
            "Pages with new content sent down: writes sent through, writebacks, and dirty pages among the demoted."
            |of| of.writes_sent;
        "demotions_received" "demotions received" Count
            "Pages that were demoted to this level, clean or dirty; they are no references." |of| of.demotions_received;
        "hints_received" "hints received" Count
            "Evictions above of which this level was notified." |of| of.hints_received;
    }

    /// The share of a level's reads that hit: for a person alone, since programs have `reads` and `read_hits`.
    READS of Passed {
        "read_hit_ratio" "of reads" Ratio { heading: "of reads %" } "Hits of reads by reads." |of| of.read_hit_ratio();
    }

    /// What a hierarchy leaves for the storage.
    STORAGE of levels::HierarchyOutcome {
        "storage_reads" "storage reads" Count "Pages read from storage." |of| of.storage_reads;
        "storage_writes" "storage writes" Count "Pages written to storage." |of| of.storage_writes;
    }
}

/// The figures of [`COST`] that a table for a person shows beside the device's time.
pub const WAITS_AND_REQUESTS: [&str; 4] = ["wait_mean_ms", "wait_p99_ms", "requests", "mean_request_pages"];

/// What figures are declared with.
trait IntoNumber {
    fn into_number(self) -> Option<f64>;
}

impl IntoNumber for u64 {
    fn into_number(self) -> Option<f64> {
        Some(self as f64)
    }
}

impl IntoNumber for f64 {
    fn into_number(self) -> Option<f64> {
        Some(self)
    }
}

impl<N: IntoNumber> IntoNumber for Option<N> {
    fn into_number(self) -> Option<f64> {
        self.and_then(N::into_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::figure::names;

    #[test]
    fn the_manuals_name_every_figure() {
        let page = |name: &str| {
            let path = format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).expect(&path)
        };
        let named = names(COST).map(|name| ("devices", name)).chain(names(READAHEAD).map(|name| ("readahead", name)));
        for (manual, name) in named {
            assert!(page(manual).contains(&format!("`{name}`")), "docs/{manual}.md does not name {name}");
        }
    }
}
