//! `forebay compare --dask`: the Python package asks the workers of a Dask cluster, and their runs are shown as any others.

use crate::failure::Failure;
use crate::terminal::progress::Terminal;
use forebay_sim::study::comparison::Asked;
use forebay_sim::study::{Comparison, Monitor};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Says what to install where it is missing, and else does what is asked on the standard input.
const PACKAGE: &str = "
import sys
try:
    from forebay import _command
except ImportError as missing:
    sys.exit(f\"forebay: --dask: the Python package is missing ({missing}): \"
             f\"{sys.executable} -m pip install 'forebay[dask]'\")
sys.exit(_command.main())
";

/// A line of what it answers.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// References that are replayed, and the share of the runs that are made.
    Done(u64, f64),
    /// The runs over the next trace.
    Trace(Value),
}

/// The Python of the environment that this program is installed in, or the one on the path.
fn python() -> PathBuf {
    let environment = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.parent()?.to_owned()));
    let own = environment.filter(|folder| folder.join("pyvenv.cfg").is_file()).map(|folder| folder.join("bin/python3"));
    own.unwrap_or_else(|| "python3".into())
}

/// Asks the workers of this scheduler about each trace.
pub(crate) fn comparisons(scheduler: &str, asked: &Asked, traces: &[String]) -> Result<Vec<Comparison>, Failure> {
    let python = python();
    let failed = |what: String| Failure::from(format!("--dask {scheduler}: {}: {what}", python.display()));
    let child = Command::new(&python).args(["-c", PACKAGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(format!("cannot be started: {error}")))?;
    let (question, answer) = (child.stdin.take(), child.stdout.take());
    let (mut question, answer) = question.zip(answer).expect("both are pipes");
    let asking = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scheduler": scheduler,
        "traces": traces,
        "ends": asked.weighs_ends(),
        "asked": asked.for_elsewhere(),
    });
    // An error here is not ours to report: Python has said why it ended. The pipe stays open as long as somebody waits for the answer.
    let _ = writeln!(question, "{asking}");
    let progress = Terminal.begin(format!("comparing on {scheduler}"), None, false);
    let mut comparisons = Vec::new();
    for line in BufReader::new(answer).lines() {
        let line = line.and_then(|line| Ok(serde_json::from_str(&line)?));
        match line.map_err(|error| failed(format!("answers nonsense: {error}")))? {
            Line::Done(references, share) => drop(progress.set(references, Some(share))),
            Line::Trace(known) => {
                comparisons.push(asked.from_elsewhere(known).map_err(|error| failed(error.to_string()))?);
            }
        }
    }
    drop(progress);
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    match status.code() {
        Some(0) if comparisons.len() == traces.len() => Ok(comparisons),
        // It has said why.
        Some(code @ (1 | 2 | 130)) => Err(Failure::Said(code as u8)),
        _ => Err(failed(format!("ended with {status}"))),
    }
}
