//! What misses cost on a device, by size.

use super::unit;
use crate::model::{Axis, Chart};
use forebay_model::Cost;
use forebay_sim::study::Figure;
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::COST;

/// The figures that are drawn: a chart's name in addresses, the figure's, the chart's title, and its axis.
const DRAWN: [(&str, &str, &str, &str); 4] = [
    ("device-time", "device_ms", "Device time", "device time"),
    ("mean-wait", "wait_mean_ms", "Mean wait", "mean wait"),
    ("long-wait", "wait_p99_ms", "99th percentile of the waits", "wait of the 99th percentile"),
    ("request-length", "mean_request_pages", "Mean request", "pages in a request"),
];

/// A chart of each, as `draw` draws it by its words, its axis and its figure.
pub(super) fn charts(
    device: &str,
    draw: impl Fn((&str, &str, &str), Axis, &'static Figure<Cost>) -> Chart,
) -> Vec<Chart> {
    let chart = |(id, figure, title, axis): (&str, &str, &str, &str)| {
        let figure: &Figure<Cost> = named(COST, figure);
        let title = format!("{title} by cache size, on {device}");
        draw((id, &title, figure.meaning), Axis::linear(axis, unit(figure)), figure)
    };
    DRAWN.into_iter().map(chart).collect()
}
