//! The file of `--managers`: which manager is in charge of which owners and files.

use super::{Assignment, FileOrder, Filter, MANAGERS, MOST_USES, Manager, Weights};
use crate::{LruSp, Policy, Spec};
use glob::Pattern;
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

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Spanned<String>,
    owners: Option<Vec<Spanned<String>>>,
    files: Option<Vec<Spanned<String>>>,
    k: Option<Spanned<usize>>,
    order: Option<Spanned<Vec<Spanned<String>>>>,
    weights: Option<Spanned<Vec<Weight>>>,
}

/// Files, and what each of them weighs.
type Weight = (Spanned<String>, f64);

#[derive(Debug)]
struct Rule {
    owners: Option<Vec<Glob>>,
    files: Option<Vec<Glob>>,
    manager: Kind,
}

#[derive(Debug)]
enum Kind {
    Ready(Manager),
    Filter(Vec<Glob>),
    Weights { span: Range<usize>, files: Vec<(Glob, f64)> },
}

#[derive(Debug)]
struct Glob {
    pattern: Pattern,
    span: Range<usize>,
}

/// What is wrong, and where in the text.
type Wrong = (Range<usize>, String);

fn unknown(name: &Spanned<String>) -> Wrong {
    let known: Vec<&str> = MANAGERS.iter().map(|about| about.name).collect();
    (name.span(), format!("there is no manager `{}`; there are {}", name.get_ref(), known.join(", ")))
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

    /// The rules over the owners and files of the trace called `trace`, whose numbers are the names' indices. `warn` is told of each
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
            for Glob { pattern, span } in globs {
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

impl Rule {
    fn of(written: Written) -> Result<Self, Wrong> {
        let Written { name, owners, files, k, order, weights } = written;
        let (written, at) = (name.clone(), name.span());
        let name = name.into_inner();
        let belongs = |key: &str, of: &[&str], span: Option<Range<usize>>| match span {
            Some(span) if !of.contains(&name.as_str()) => Err((span, format!("`{name}` has no `{key}`"))),
            _ => Ok(()),
        };
        belongs("k", &["lru-k"], k.as_ref().map(Spanned::span))?;
        belongs("order", &["file-order", "filter"], order.as_ref().map(Spanned::span))?;
        belongs("weights", &["weights"], weights.as_ref().map(Spanned::span))?;
        let needs = |what: &str| (at.clone(), format!("`{name}` needs {what}"));
        let manager = match name.as_str() {
            "lru-k" => Kind::Ready(Manager::LruK(k.map_or(Ok(2), |k| match *k.get_ref() {
                uses @ 1..=MOST_USES => Ok(uses),
                uses => Err((k.span(), format!("k is 1 to {MOST_USES}, not {uses}"))),
            })?)),
            "file-order" => {
                let order = order.ok_or_else(|| needs("`order`, a list of ranges of blocks such as \"100..120\""))?;
                let parts = order.into_inner().iter().map(part).collect::<Result<_, _>>()?;
                Kind::Ready(Manager::FileOrder(FileOrder::new(parts)))
            }
            "filter" => {
                let order =
                    order.ok_or_else(|| needs("`order`, a list of files in the order in which they are read"))?;
                Kind::Filter(globs(order.into_inner())?)
            }
            "weights" => {
                let weights = weights.ok_or_else(|| needs("`weights`, a list of [files, weight]"))?;
                let span = weights.span();
                if let Some((_, wrong)) =
                    weights.get_ref().iter().find(|(_, weight)| !(*weight > 0.0 && weight.is_finite()))
                {
                    return Err((span, format!("a weight is a positive number, not {wrong}")));
                }
                let files = weights.into_inner().into_iter().map(|(file, weight)| Ok((glob(file)?, weight)));
                Kind::Weights { span, files: files.collect::<Result<_, _>>()? }
            }
            plain => Kind::Ready(Manager::plain(plain).ok_or_else(|| unknown(&written))?),
        };
        Ok(Self { owners: owners.map(globs).transpose()?, files: files.map(globs).transpose()?, manager })
    }
}

fn globs(patterns: Vec<Spanned<String>>) -> Result<Vec<Glob>, Wrong> {
    patterns.into_iter().map(glob).collect()
}

fn glob(pattern: Spanned<String>) -> Result<Glob, Wrong> {
    let span = pattern.span();
    match Pattern::new(pattern.get_ref()) {
        Ok(pattern) => Ok(Glob { pattern, span }),
        Err(error) => Err((span, format!("`{}` is no pattern: {}", pattern.get_ref(), error.msg))),
    }
}

/// A range of blocks: `100..120`, or `100..` to the end.
fn part(text: &Spanned<String>) -> Result<Range<u64>, Wrong> {
    let wrong =
        || (text.span(), format!("`{}` is no range of blocks: write 0..16, or 16.. to the end", text.get_ref()));
    let (start, end) = text.get_ref().split_once("..").ok_or_else(wrong)?;
    let start = start.parse().map_err(|_| wrong())?;
    let end = if end.is_empty() { u64::MAX } else { end.parse().map_err(|_| wrong())? };
    if start < end { Ok(start..end) } else { Err(wrong()) }
}
