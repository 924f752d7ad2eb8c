//! The Python package `forebay`, as far as it is in Rust: traces, the studies' questions and answers, caches by the step, and policies
//! written in Python. `python/forebay/` has what is shown to users; it alone calls this module.
//!
//! ```text
//! trace      a trace by its name or in columns, a part of one, several mixed
//! columns    columns of Arrow as a reader of requests, and requests as columns
//! first      the first requests of a trace
//! study      what is asked of traces
//! answer     answers as Arrow tables, advice, reports
//! cache      a policy by the step; cached, functions whose results are; store, what both are made of
//! slices     a trace cut by the hash of its pages
//! guest      policies written in Python
//! recording  programs recorded as traces
//! pager      files mapped behind NumPy arrays
//! pool       files, devices and object stores read and written through a cache
//! storage    what these two have in common: errors, their log, fork
//! waiting    work without the interpreter's lock: progress, warnings, Ctrl-C
//! ```

mod answer;
mod arguments;
mod cache;
mod cached;
mod capsule;
mod columns;
mod first;
mod guest;
mod pager;
mod pool;
mod recording;
mod slices;
mod storage;
mod store;
mod study;
mod trace;
mod waiting;

use pyo3::prelude::*;

pyo3::create_exception!(
    forebay,
    Error,
    pyo3::exceptions::PyException,
    "What could not be done, in the command's words."
);
pyo3::create_exception!(
    forebay,
    TraceError,
    Error,
    "A trace that cannot be read or written: which file, where in it, what to do."
);

pyo3::create_exception!(forebay, PolicyError, Error, "A policy written in Python broke the contract.");

#[pymodule]
mod _forebay {
    #[pymodule_export]
    use super::answer::{Answer, Table};
    #[pymodule_export]
    use super::cache::Cache;
    #[pymodule_export]
    use super::cached::Cached;
    #[pymodule_export]
    use super::guest::Steps;
    #[pymodule_export]
    use super::pager::{Pager, Region};
    #[pymodule_export]
    use super::pool::{Opened, Pool};
    #[pymodule_export]
    use super::recording::record;
    #[pymodule_export]
    use super::slices::{in_pages, slices};
    #[pymodule_export]
    use super::study::{analyze, compare, curve, levels, needs};
    #[pymodule_export]
    use super::trace::Source;
    #[pymodule_export]
    use super::{Error, PolicyError, TraceError};
    use forebay_policy::POLICIES;
    use pyo3::prelude::*;

    /// The version of the package, which is that of the command.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Name, title, paper and whether it is off-line, of each policy of the registry.
    #[pyfunction]
    fn policies() -> Vec<(&'static str, &'static str, &'static str, bool)> {
        POLICIES.iter().map(|info| (info.name, info.title, info.paper, info.off_line)).collect()
    }

    /// The colours of reports, by name.
    #[pyfunction]
    fn colors() -> Vec<(&'static str, &'static str)> {
        forebay_report::colors().collect()
    }
}
