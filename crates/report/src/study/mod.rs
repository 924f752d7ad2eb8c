//! What is to be looked at in an answer of a study: the sections of a report, with the studies' own figures and advice.

pub mod analysis;
mod analysis_tables;
pub mod comparison;
pub mod curves;
mod device;
mod distances;
pub mod levels;
mod table;

use crate::model::{Axis, Unit};
use forebay_sim::Dimensions;
use forebay_sim::study::counted;
use forebay_sim::study::figure::{self, Figure};

fn cache_size(trace: &Dimensions) -> Axis {
    Axis::log("cache size", Unit::Pages(trace.page_size))
}

/// What a trace is called: a file by its name alone, whatever folder it is in.
pub fn trace_name(trace: &str) -> &str {
    let file = std::path::Path::new(trace).file_name().and_then(|name| name.to_str());
    // A synthetic trace is called by its parameters.
    file.filter(|_| !trace.contains('=')).unwrap_or(trace)
}

/// A view's label: the cache's size.
fn in_pages(pages: u32) -> String {
    counted(pages.into(), "page")
}

/// In what a report shows a figure.
fn unit<T>(figure: &Figure<T>) -> Unit {
    match figure.unit {
        figure::Unit::Count | figure::Unit::Number | figure::Unit::Money => Unit::Number,
        figure::Unit::Ratio => Unit::Ratio,
        figure::Unit::Seconds | figure::Unit::TotalMilliseconds => Unit::Seconds,
        figure::Unit::Milliseconds => Unit::Milliseconds,
        figure::Unit::Bytes => Unit::Bytes,
    }
}

/// The number of a figure in that [`unit`].
fn number<T>(figure: &Figure<T>, of: &T) -> Option<f64> {
    let divisor = if figure.unit == figure::Unit::TotalMilliseconds { 1e3 } else { 1.0 };
    (figure.of)(of).map(|number| number / divisor)
}
