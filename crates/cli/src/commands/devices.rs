//! `forebay devices`: the devices that are known by name.

use crate::failure::Failure;
use crate::terminal::{beside, forms, say};
use clap::{Args, ValueEnum};
use forebay_model::Kind;
use forebay_model::presets::{self, PRESETS, Preset};
use serde_json::json;
use std::io::{self, Write};

/// List the devices for `compare --device`, or show one with its figures: a TOML file to start a device of your own from.
#[derive(Args)]
pub(crate) struct Arguments {
    /// One of them; by default all
    #[arg(value_name = "NAME", value_parser = parse)]
    name: Option<&'static Preset>,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    format: Form,
}

/// The form of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For a person
    #[default]
    Table,
    /// For a spreadsheet or a script
    Csv,
    /// For a program
    Json,
    /// As --device reads it
    Toml,
    /// The table of docs/devices.md
    Markdown,
}

fn parse(name: &str) -> Result<&'static Preset, String> {
    presets::named(name).ok_or_else(|| format!("there are {}", presets::names()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let presets: Vec<&Preset> = arguments.name.map_or_else(|| PRESETS.iter().collect(), |preset| vec![preset]);
    match arguments.format {
        Form::Table => {
            for preset in presets {
                let model = preset.model();
                writeln!(out, "{}", beside(preset.name, 16, &model.title))?;
                writeln!(out, "{}", beside("", 16, &model.source))?;
            }
            if let Some(preset) = arguments.name {
                write!(out, "\n{}", preset.toml)?;
            }
            let own = "A device of your own: `forebay devices nearline --format toml > mine.toml`, then `--device mine.toml`.";
            say(&mut out, format!("\n{own}"))?;
        }
        Form::Csv | Form::Json => {
            let record = |preset: &Preset| {
                let model = preset.model();
                let (name, kind) = (json!(preset.name), json!(kind(&model.kind)));
                [("name", name), ("kind", kind), ("title", json!(model.title)), ("source", json!(model.source))]
            };
            let form = if arguments.format == Form::Csv { forms::Form::Csv } else { forms::Form::Json };
            forms::records(&mut out, form, presets.into_iter().map(record).collect())?;
        }
        Form::Toml => match presets[..] {
            [preset] => write!(out, "{}", preset.toml)?,
            _ => {
                return Err(Failure::Usage(
                    "a file is of one device: name it, as in `forebay devices nearline`".to_owned(),
                ));
            }
        },
        Form::Markdown => {
            writeln!(out, "| name | kind | device | source |\n| --- | --- | --- | --- |")?;
            for preset in presets {
                let model = preset.model();
                writeln!(out, "| `{}` | {} | {} | {} |", preset.name, kind(&model.kind), model.title, model.source)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Disk(_) => "disk",
        Kind::Flash(_) => "flash",
        Kind::Network(_) => "network",
        Kind::Object(_) => "object",
    }
}
