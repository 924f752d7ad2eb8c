//! `forebay policies`: every policy with its paper and parameters.

use crate::failure::Failure;
use crate::terminal::beside;
use crate::terminal::forms::{self, PageForm as Form};
use crate::terminal::say;
use clap::Args;
use forebay_policy::registry::POLICIES;
use forebay_policy::{Info, Parameter, Spec};
use serde_json::json;
use std::io::{self, Write};

/// List every policy with its paper and parameters, or explain some.
#[derive(Args)]
pub(crate) struct Arguments {
    /// These alone
    #[arg(value_name = "NAME", value_delimiter = ',', value_parser = parse_name)]
    names: Vec<&'static Info>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
}

fn parse_name(name: &str) -> Result<&'static Info, String> {
    Spec::parse(name).map(|spec| spec.info)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let chosen = if arguments.names.is_empty() { POLICIES } else { &arguments.names };
    match arguments.format {
        Form::Table => {
            for info in chosen {
                let future = if info.off_line { " (off-line: knows the future)" } else { "" };
                writeln!(out, "{}", beside(info.name, 12, &format!("{}{future}", info.title)))?;
                writeln!(out, "{}", beside("", 12, info.paper))?;
                for parameter in info.parameters {
                    // With spaces, so that a long choice is folded.
                    let usage = parameter.usage().replace('|', " | ");
                    writeln!(out, "{}", beside("", 12, &format!("{usage}: {}", parameter.help)))?;
                }
                if !arguments.names.is_empty() {
                    explain(info, &mut out)?;
                }
            }
            let set = "Parameters are set by name: `--policies gclock:initial=0:max=3,lfu:ageing=10`.";
            say(&mut out, format!("\n{set}"))?;
        }
        Form::Csv => {
            let head = ["name", "title", "paper", "off_line", "bytes_per_page", "parameters"].map(str::to_owned);
            let row = |info: &&Info| {
                let parameters: Vec<String> = info.parameters.iter().map(Parameter::usage).collect();
                let (off_line, bytes) = (info.off_line.to_string(), info.bytes_per_page.to_string());
                let [name, title, paper] = [info.name, info.title, info.paper].map(str::to_owned);
                [name, title, paper, off_line, bytes, parameters.join("; ")]
            };
            forms::csv(&mut out, std::iter::once(head).chain(chosen.iter().map(row)))?;
        }
        Form::Markdown => write!(out, "{}", forebay_policy::page())?,
        Form::Json => forms::json(&mut out, &chosen.iter().map(|info| to_json(info)).collect::<Vec<_>>())?,
    }
    Ok(out.flush()?)
}

/// What it costs, and where it is described.
fn explain(info: &Info, out: &mut impl Write) -> Result<(), Failure> {
    let sees = [("files and blocks", info.uses.place), ("owners and operations", info.uses.request)];
    let sees: Vec<&str> =
        std::iter::once("pages").chain(sees.iter().filter(|(_, is)| *is).map(|(what, _)| *what)).collect();
    let Info { name, bytes_per_page, ghosts, .. } = info;
    for line in [
        format!("looks at {}", sees.join(", ")),
        format!(
            "at most {bytes_per_page} bytes of metadata for each page number, and {}",
            match ghosts {
                0 => "no ghosts".to_owned(),
                1 => "as many ghosts as pages".to_owned(),
                _ => format!("{ghosts} times as many ghosts as pages"),
            }
        ),
        format!("try it: forebay compare TRACE --policies lru,{name},opt"),
    ] {
        writeln!(out, "{}", beside("", 12, &line))?;
    }
    Ok(())
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
