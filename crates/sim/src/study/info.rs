//! What a trace holds, in the forms that programs read.

use forebay_trace::summary::Part;
use forebay_trace::{Circumstances, Summary};
use serde_json::{Value, json};

/// Each figure of the trace called `name`, which is in that format, under its name.
pub fn figures(name: &str, format: &str, summary: &Summary) -> [(&'static str, Value); 16] {
    let size = |&(bytes, requests): &(u64, u64)| json!({ "bytes": bytes, "requests": requests });
    let part = |part: &Part| json!({ "name": part.name, "references": part.references, "pages": part.pages });
    let list = |values: Vec<Value>| Value::Array(values);
    [
        ("trace", json!(name)),
        ("format", json!(format)),
        ("requests", json!(summary.requests)),
        ("references", json!(summary.references)),
        ("pages", json!(summary.pages)),
        ("page_size", json!(summary.page_size)),
        ("objects", json!(summary.objects)),
        ("owners", json!(summary.owners)),
        ("reads", json!(summary.reads)),
        ("writes", json!(summary.writes)),
        ("readaheads", json!(summary.readaheads)),
        ("recorded", json!(summary.recorded.as_ref().map(recorded))),
        ("span_seconds", json!(summary.span.map(|span| span as f64 / 1e9))),
        ("request_sizes", list(summary.request_sizes.iter().map(size).collect())),
        ("largest_objects", list(summary.largest_objects.iter().map(part).collect())),
        ("busiest_owners", list(summary.busiest_owners.iter().map(part).collect())),
    ]
}

/// How a trace was recorded.
pub(super) fn recorded(circumstances: &Circumstances) -> Value {
    let Circumstances { front_end, readahead, policy, cache, policy_bytes, mode, request_ns, hit_ns, read_ns } =
        circumstances;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    json!({
        "front_end": front_end,
        "readahead": readahead,
        "policy": policy,
        "cache": cache,
        "policy_bytes": policy_bytes,
        "mode": mode,
        "request_seconds": request_ns.map(seconds),
        "hit_seconds": hit_ns.map(seconds),
        "read_seconds": read_ns.map(seconds),
    })
}

/// The same as an object.
pub fn json(name: &str, format: &str, summary: &Summary) -> Value {
    figures(name, format, summary).into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}
