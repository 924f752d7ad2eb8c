//! What a running server does: its reports, asked for over HTTP, as tables and in a terminal.

mod figures;
mod screen;
mod terminal;

pub(crate) use figures::Figures;
pub(crate) use screen::show;

use forebay_server::Report;
use std::io;
use std::{error, fmt};

/// How long a server may take to answer, in seconds.
const PATIENCE: u64 = 5;

/// Why there is nothing to show.
#[derive(Debug)]
pub(crate) enum Error {
    /// No server answers at this address, or no report: why.
    Server(String),
    /// The terminal failed.
    Terminal(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(why) => f.write_str(why),
            Self::Terminal(error) => write!(f, "the terminal: {error}"),
        }
    }
}

impl error::Error for Error {}

/// What the server at an address, `HOST:PORT`, reports now.
///
/// # Errors
/// [`Error::Server`].
pub(crate) fn fetch(address: &str) -> Result<Report, Error> {
    let url = format!("http://{address}/statistics");
    let failed = |why: String| {
        let hint = format!("is there a `forebay serve`, `mount` or `steer` with --metrics {address}?");
        Error::Server(format!("{url}: {why}; {hint}"))
    };
    let answer = minreq::get(&url).with_timeout(PATIENCE).send().map_err(|error| failed(error.to_string()))?;
    if answer.status_code != 200 {
        return Err(failed(format!("the answer is {} {}", answer.status_code, answer.reason_phrase)));
    }
    serde_json::from_slice(answer.as_bytes()).map_err(|error| failed(format!("the answer is no report: {error}")))
}
