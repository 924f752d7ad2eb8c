//! `forebay formats`: the trace formats.

use crate::failure::Failure;
use crate::terminal::forms::{Form, records};
use clap::Args;
use forebay_trace::{FORMATS, Format};
use serde_json::json;
use std::io::{self, Write};

/// List the trace formats that are read.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match arguments.format {
        Form::Table => {
            for format in FORMATS {
                writeln!(out, "{:<16}{}\n                {}", format.name, format.title, format.source)?;
            }
            writeln!(
                out,
                "\nAny of them may be compressed with gzip, zstd or xz. They are recognised by content and name."
            )?;
        }
        form => {
            let record =
                |of: &&Format| [("name", json!(of.name)), ("title", json!(of.title)), ("source", json!(of.source))];
            records(&mut out, form, FORMATS.iter().map(record).collect())?;
        }
    }
    Ok(out.flush()?)
}
