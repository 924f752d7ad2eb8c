//! The CSV and JSON of `forebay compare`.

use crate::advice::advice;
use crate::by_owner;
use crate::compare::Comparison;
use crate::device;
use crate::failure::Failure;
use forebay_sim::{ByDistance, Cost, ReadaheadCounts, Size};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

/// The columns of the CSV.
pub(crate) const CSV_HEADER: &str = "trace,policy,pages,references,hits,misses,compulsory_misses,hit_ratio,seconds,\
    device_ms,wait_mean_ms,wait_p99_ms,requests,mean_request_pages,bytes,price,\
    near_hits,near_misses,far_hits,far_misses,\
    ahead_fetched,ahead_used,ahead_wasted,ahead_late";

/// A row for each run.
pub(crate) fn print_csv(comparison: &Comparison, out: &mut impl Write) -> Result<(), Failure> {
    let mut rows = csv::Writer::from_writer(out);
    for outcome in &comparison.outcomes {
        let counts = outcome.counted;
        let distance = |count: fn(&ByDistance) -> u64| {
            outcome.by_distance.as_ref().map_or_else(String::new, |counts| count(counts).to_string())
        };
        let cost = |figure: fn(&Cost) -> Option<String>| outcome.device.as_ref().and_then(figure).unwrap_or_default();
        let ahead = |count: fn(&ReadaheadCounts) -> Option<u64>| {
            outcome.readahead.as_ref().and_then(count).map_or_else(String::new, |count| count.to_string())
        };
        rows.write_record([
            &comparison.trace.name,
            &outcome.policy,
            &outcome.pages.to_string(),
            &counts.references.to_string(),
            &counts.hits.to_string(),
            &counts.misses.to_string(),
            &counts.compulsory_misses.to_string(),
            &format!("{:.6}", counts.hit_ratio()),
            &format!("{:.6}", outcome.seconds),
            &cost(|cost| Some(format!("{:.1}", cost.device_ms))),
            &cost(|cost| Some(format!("{:.6}", cost.wait_mean_ms))),
            &cost(|cost| Some(format!("{:.3}", cost.wait_p99_ms))),
            &cost(|cost| Some(cost.requests.to_string())),
            &cost(|cost| Some(format!("{:.3}", cost.mean_request_pages))),
            &cost(|cost| Some(cost.bytes.to_string())),
            &cost(|cost| cost.price.map(|price| format!("{price:.6}"))),
            &distance(|counts| counts.near_hits),
            &distance(|counts| counts.near_misses),
            &distance(|counts| counts.far_hits),
            &distance(|counts| counts.far_misses),
            &ahead(|counts| Some(counts.fetched)),
            &ahead(|counts| Some(counts.used)),
            &ahead(|counts| Some(counts.wasted)),
            &ahead(|counts| counts.late),
        ])?;
    }
    rows.flush()?;
    Ok(())
}

/// A size as the user wrote it.
fn asked(comparison: &Comparison, pages: u32) -> Option<serde_json::Value> {
    let (_, size) = comparison.sizes.iter().find(|&&(of, _)| of == pages)?;
    Some(match size {
        Size::Pages(pages) => json!(pages),
        size => json!(size.to_string()),
    })
}

/// All that is known.
pub(crate) fn to_json(comparison: &Comparison) -> serde_json::Value {
    let Comparison { trace, warmup, device, readahead, sample, outcomes, .. } = comparison;
    let counts = |counts: forebay_sim::Counts| {
        json!({
            "references": counts.references,
            "hits": counts.hits,
            "misses": counts.misses,
            "compulsory_misses": counts.compulsory_misses,
            "hit_ratio": counts.hit_ratio(),
        })
    };
    let figures = |state: &[(&'static str, f64)]| state.iter().copied().collect::<BTreeMap<_, _>>();
    let runs = outcomes.iter().map(|outcome| {
        json!({
            "policy": outcome.policy,
            "off_line": outcome.off_line,
            "pages": outcome.pages,
            "size": asked(comparison, outcome.pages),
            "counted": counts(outcome.counted),
            "total": counts(outcome.total),
            "seconds": outcome.seconds,
            "device": outcome.device.map(device::to_json),
            "readahead": outcome.readahead.map(|counts| json!({
                "fetched": counts.fetched,
                "used": counts.used,
                "wasted": counts.wasted,
                "late": counts.late,
            })),
            "by_distance": outcome.by_distance.map(|counts| json!({
                "near_hits": counts.near_hits,
                "near_misses": counts.near_misses,
                "far_hits": counts.far_hits,
                "far_misses": counts.far_misses,
            })),
            "by_owner": by_owner::to_json(comparison, outcome),
            "metadata_bytes": outcome.bytes,
            "state": figures(&outcome.state),
            "states": outcome.states.iter().map(|state| json!({
                "references": state.references,
                "state": figures(&state.figures),
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "trace": trace.name,
        "device": device.as_ref().map(|device| &device.name),
        "readahead": readahead.label,
        "references": trace.references,
        "footprint_pages": trace.pages,
        "page_size": trace.page_size,
        "warmup": warmup,
        "estimate": sample.is_some(),
        "sample": sample.map(|(rate, pages)| json!({ "rate": rate, "pages": pages })),
        "runs": runs.collect::<Vec<_>>(),
        "advice": advice(comparison),
    })
}
