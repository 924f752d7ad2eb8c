//! `forebay explain`: a policy step by step, along a short string of references.

use crate::failure::Failure;
use crate::files::{check_path, write};
use crate::terminal::explanation::print;
use crate::terminal::forms;
use clap::{Args, ValueEnum};
use forebay_policy::Spec;
use forebay_report::{explanation, file};
use forebay_sim::study::explain::{Asked, MOST_PAGES, References};
use std::io::{self, Write};
use std::path::PathBuf;

const EXAMPLES: &str = include_str!("explain.txt").trim_ascii_end();

/// Explain a policy step by step: what it keeps after each reference of a short string, and in a sentence what the reference has changed.
///
/// The policy itself runs, as in `compare`. Without options it runs its own example, whose parameters are shown. The text goes to the terminal; with
/// `-o page.html` there is one HTML file to step through, forward and back, by keys or buttons.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The policy, with its parameters if wanted; `forebay policies` lists them
    #[arg(value_name = "NAME[:PARAMETER=VALUE]…", value_parser = Spec::parse)]
    policy: Spec,
    /// The references: letters (abcab, capitals are a second file) or numbers (1,2,3,1); by default the policy's example
    #[arg(short, long, value_name = "STRING", value_parser = str::parse::<References>)]
    references: Option<References>,
    /// The cache's size in pages; by default the example's
    #[arg(short, long, value_name = "PAGES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PAGES)))]
    size: Option<u32>,
    /// The file to write instead of standard output; a page replaces an earlier one
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The form of the answer; by default what the file's name ends in, .html or .json, and else text
    #[arg(short, long, value_enum)]
    format: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For a terminal
    Text,
    /// One page to step through, without a network
    Html,
    /// For a program
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { policy, references, size, output, .. } = arguments;
    let form = arguments.form();
    if let Some(path) = output {
        check_path("--output", path, &[])?;
        match form {
            Form::Html => file::check_replaced(path)?,
            _ if path.exists() => {
                let path = path.display();
                return Err(Failure::Usage(format!("{path} exists: remove it first, or name another file")));
            }
            _ => {}
        }
    }
    let explained = Asked::new(policy.clone(), references.clone(), *size).of();
    let mut answer = Vec::new();
    match form {
        Form::Text => print(&explained, &mut answer)?,
        Form::Html => answer = explanation::html(&explained).into_bytes(),
        Form::Json => forms::json(&mut answer, &explained.json())?,
    }
    match output {
        Some(path) => write(path, &answer),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(&answer)?;
            Ok(out.flush()?)
        }
    }
}

impl Arguments {
    fn form(&self) -> Form {
        let extension = self.output.as_ref().and_then(|path| path.extension()).unwrap_or_default();
        self.format.unwrap_or(match extension.to_string_lossy().to_lowercase().as_str() {
            "html" | "htm" => Form::Html,
            "json" => Form::Json,
            _ => Form::Text,
        })
    }
}
