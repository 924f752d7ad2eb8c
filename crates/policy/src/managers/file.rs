//! The file of `--managers`: which manager is in charge of which owners and files.

use super::rule::{Glob, Kind, Rule, Written, Wrong, unknown};
use super::{Assignment, Filter, MANAGERS, Manager, Weights};
use crate::{LruSp, Policy, Spec};
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use std::{fmt, io};
use toml::Spanned;

/// The rules, read and checked but for the names, which only a trace knows.
#[derive(Debug)]
pub struct Rules {
    path: String,
    text: String,
    default: Option<Manager>,
    rules: Vec<Rule>,
}

/// Why there are no rules.
#[derive(Debug)]
pub enum RulesError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The file is wrong at one place.
    Wrong {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => write!(f, "{path}: {error}"),
            Self::Wrong { path, line, message } => write!(f, "{path} line {line}: {message}"),
        }
    }
}

impl std::error::Error for RulesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            Self::Wrong { .. } => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    default: Option<Spanned<String>>,
    #[serde(default, rename = "manager")]
    rules: Vec<Written>,
}

impl Rules {
    /// Reads the file and checks it.
    ///
    /// # Errors
    /// Why it cannot be read, or what is wrong where.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, text),
            Err(error) => Err(RulesError::Unreadable { path: name, error }),
        }
    }

    /// Checks the text of a file that is called `path`.
    ///
    /// # Errors
    /// What is wrong where.
    pub fn parse(path: &str, text: String) -> Result<Self, RulesError> {
        let parsed = toml::from_str(&text)
            .map_err(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))
            .and_then(check);
        let mut made = Self { path: path.to_owned(), text, default: None, rules: Vec::new() };
        (made.default, made.rules) = parsed.map_err(|wrong| made.error(wrong))?;
        Ok(made)
    }

    /// The rules over the owners and files of the trace called `trace`, whose numbers are the names' indices. `warn` is notified of each
    /// pattern that matches nothing.
    ///
    /// # Errors
    /// What is wrong where.
    pub fn assign(
        &self,
        trace: &str,
        owners: &[String],
        files: &[String],
        warn: &dyn Fn(&str),
    ) -> Result<Assignment, RulesError> {
        let numbers = |globs: &[Glob], what: &str, names: &[String]| {
            let mut numbers = Vec::new();
            for Glob { pattern, span, .. } in globs {
                let matching = names.iter().enumerate().filter(|(_, name)| pattern.matches(name));
                let mut matching: Vec<(&String, u32)> = matching.map(|(number, name)| (name, number as u32)).collect();
                if matching.is_empty() {
                    let (path, line) = (&self.path, self.line(span));
                    warn(&format!("{path} line {line}: no {what} of {trace} is like `{pattern}`"));
                }
                // As a shell expands it.
                matching.sort_unstable();
                numbers.extend(matching.iter().map(|&(_, number)| number));
            }
            numbers
        };
        let owners = |globs: &[Glob]| numbers(globs, "owner", owners);
        let files = |globs: &[Glob]| numbers(globs, "file", files);
        let mut assignment = Assignment::new(self.default.clone());
        for rule in &self.rules {
            let manager = match &rule.manager {
                Kind::Ready(manager) => manager.clone(),
                Kind::Filter(globs) => Manager::Filter(Filter::new(&files(globs))),
                Kind::Weights { span, files: globs } => {
                    let weigh = |(glob, weight): &(Glob, f64)| {
                        files(std::slice::from_ref(glob)).into_iter().map(|file| (file, *weight)).collect::<Vec<_>>()
                    };
                    let weights = Weights::new(&globs.iter().flat_map(weigh).collect::<Vec<_>>());
                    Manager::Weights(weights.map_err(|error| self.error((span.clone(), error)))?)
                }
            };
            let of_owners = rule.owners.as_deref().map(owners);
            let of_files = rule.files.as_deref().map(files);
            assignment.add(manager, of_owners.as_deref(), of_files.as_deref());
        }
        Ok(assignment)
    }

    /// The rules for a running cache, that for where no other fits last.
    ///
    /// # Errors
    /// That one's manager needs to know the references to come.
    pub fn for_running(mut self) -> Result<Vec<Rule>, RulesError> {
        let mut rules = std::mem::take(&mut self.rules);
        rules.extend(self.default.as_ref().map(Rule::default));
        rules.into_iter().map(Rule::for_running).collect::<Result<_, _>>().map_err(|wrong| self.error(wrong))
    }

    /// Whether a manager among them must know the references to come.
    pub fn need_future(&self) -> bool {
        let ready = self.rules.iter().filter_map(|rule| match &rule.manager {
            Kind::Ready(manager) => Some(manager),
            Kind::Filter(_) | Kind::Weights { .. } => None,
        });
        self.default.iter().chain(ready).any(Manager::needs_future)
    }

    /// Whether the policy has managers.
    pub fn are_for(spec: &Spec) -> bool {
        spec.info.name == LruSp::INFO.name
    }

    fn error(&self, (span, message): Wrong) -> RulesError {
        RulesError::Wrong { path: self.path.clone(), line: self.line(&span), message: message.replace('\n', " ") }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count()
    }
}

fn check(content: Content) -> Result<(Option<Manager>, Vec<Rule>), Wrong> {
    let default = content.default.map(|name| {
        let wrong = || match MANAGERS.iter().any(|about| about.name == name.get_ref()) {
            true => {
                (name.span(), format!("`{}` cannot be the default: take a manager that needs no list", name.get_ref()))
            }
            false => unknown(&name),
        };
        Manager::plain(name.get_ref()).ok_or_else(wrong)
    });
    if let Some(rule) = content.rules.get(Assignment::MOST_RULES) {
        return Err((rule.name.span(), format!("there are more than {} managers", Assignment::MOST_RULES)));
    }
    let rules = content.rules.into_iter().map(Rule::of).collect::<Result<_, _>>()?;
    Ok((default.transpose()?, rules))
}
