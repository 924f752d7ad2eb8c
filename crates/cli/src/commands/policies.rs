//! `forebay policies`: every policy with its paper and parameters.

use crate::failure::Failure;
use crate::terminal::forms::{self, PageForm as Form};
use clap::Args;
use forebay_policy::registry::POLICIES;
use forebay_policy::{Info, Parameter};
use serde_json::json;
use std::io::{self, Write};

/// List every policy with its paper and parameters.
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
            for info in POLICIES {
                writeln!(
                    out,
                    "{:<12}{}{}",
                    info.name,
                    info.title,
                    if info.off_line { " (off-line: knows the future)" } else { "" }
                )?;
                writeln!(out, "            {}", info.paper)?;
                for parameter in info.parameters {
                    writeln!(out, "            {}: {}", parameter.usage(), parameter.help)?;
                }
            }
            writeln!(out, "\nParameters are set by name: `--policies gclock:initial=0:max=3,lfu:ageing=10`.")?;
        }
        Form::Csv => {
            let head = ["name", "title", "paper", "off_line", "bytes_per_page", "parameters"].map(str::to_owned);
            let row = |info: &&Info| {
                let parameters: Vec<String> = info.parameters.iter().map(Parameter::usage).collect();
                let (off_line, bytes) = (info.off_line.to_string(), info.bytes_per_page.to_string());
                let [name, title, paper] = [info.name, info.title, info.paper].map(str::to_owned);
                [name, title, paper, off_line, bytes, parameters.join("; ")]
            };
            forms::csv(&mut out, std::iter::once(head).chain(POLICIES.iter().map(row)))?;
        }
        Form::Markdown => write!(out, "{}", forebay_policy::page())?,
        Form::Json => forms::json(&mut out, &POLICIES.iter().map(|info| to_json(info)).collect::<Vec<_>>())?,
    }
    Ok(out.flush()?)
}

fn to_json(info: &Info) -> serde_json::Value {
    let parameters = info.parameters.iter().map(|parameter| {
        json!({ "name": parameter.name, "help": parameter.help, "default": parameter.default, "usage": parameter.usage() })
    });
    json!({
        "name": info.name,
        "title": info.title,
        "paper": info.paper,
        "off_line": info.off_line,
        "ghosts_per_page_of_capacity": info.ghosts,
        "bytes_per_page": info.bytes_per_page,
        "parameters": parameters.collect::<Vec<_>>(),
    })
}
