//! `forebay formats`: the trace formats.

use crate::failure::Failure;
use crate::output::Form;
use clap::Args;
use forebay_trace::FORMATS;
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
        Form::Csv => {
            let mut rows = csv::Writer::from_writer(&mut out);
            rows.write_record(["name", "title", "source"])?;
            for format in FORMATS {
                rows.write_record([format.name, format.title, format.source])?;
            }
            rows.flush()?;
        }
        Form::Json => {
            let formats = FORMATS.iter().map(|f| json!({ "name": f.name, "title": f.title, "source": f.source }));
            serde_json::to_writer_pretty(&mut out, &formats.collect::<Vec<_>>())?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}
