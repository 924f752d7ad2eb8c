//! `forebay formats`: the trace formats.

use crate::failure::Failure;
use crate::terminal::forms::{Form, records};
use crate::terminal::{beside, say};
use clap::Args;
use forebay_trace::{FORMATS, Format};
use serde_json::json;
use std::io::{self, Write};

/// List the trace formats that are read, or explain some by an example.
#[derive(Args)]
pub(crate) struct Arguments {
    /// These alone
    #[arg(value_name = "NAME", value_parser = parse_name)]
    names: Vec<&'static Format>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
}

fn parse_name(name: &str) -> Result<&'static Format, String> {
    forebay_trace::formats::named(name).ok_or_else(|| forebay_trace::formats::unknown(name))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let chosen = if arguments.names.is_empty() { FORMATS } else { &arguments.names };
    match arguments.format {
        Form::Table => {
            for format in chosen {
                writeln!(out, "{}", beside(format.name, 16, format.title))?;
                writeln!(out, "{}", beside("", 16, format.source))?;
                let example = std::str::from_utf8(format.example).ok().filter(|_| !arguments.names.is_empty());
                for line in example.into_iter().flat_map(str::lines) {
                    writeln!(out, "                    {line}")?;
                }
            }
            let any = "Any of them may be compressed with gzip, zstd or xz. They are recognised by content and name.";
            say(&mut out, format!("\n{any}"))?;
        }
        form => {
            let record =
                |of: &&Format| [("name", json!(of.name)), ("title", json!(of.title)), ("source", json!(of.source))];
            records(&mut out, form, chosen.iter().map(record).collect())?;
        }
    }
    Ok(out.flush()?)
}
