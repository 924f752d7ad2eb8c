//! The file of an experiment: which commands to run, and which of their figures to show beside which printed ones.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use toml::Value;

/// The letters that stand for the seed in an experiment's names.
pub(super) const SEED: &str = "{seed}";

/// An experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it shows.
    pub title: String,
    /// Where the printed figures stand.
    pub source: Option<String>,
    /// What agrees with them and what does not, in a sentence.
    pub finding: Option<String>,
    /// Each is run this often, `{seed}` replaced; the means are shown.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Its tables.
    #[serde(rename = "table", default)]
    pub tables: Vec<Wanted>,
}

/// The most digits behind the point: all that a figure has.
const MOST_DECIMALS: usize = 15;

/// One command, and a table of its figures.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    /// What it shows; by default the trace.
    pub title: Option<String>,
    /// A command that answers in JSON.
    #[serde(default = "compare")]
    pub command: String,
    /// The trace that the command is given.
    pub trace: String,
    /// Where in the answer the list of figures stands.
    #[serde(default = "runs")]
    pub list: String,
    /// Where in an element of the list its row's name stands.
    #[serde(default = "policy")]
    pub rows: String,
    /// Where its column's name stands, if there is one figure in an element; of several each is a column. By default it is the size as it
    /// was asked, or else in pages.
    columns: Option<String>,
    /// Where the figure stands; or a list of figures, or a table of their columns' names.
    #[serde(default = "hit_ratio")]
    values: Values,
    /// Figures of ours are multiplied by this: 100 for percent.
    #[serde(default = "percent")]
    pub scale: f64,
    /// Digits behind the point.
    #[serde(default = "one")]
    pub decimals: usize,
    /// The printed figures by row, in the order of the columns; "-" where there is none.
    #[serde(default)]
    pub theirs: BTreeMap<String, Vec<Printed>>,
    /// All other keys are options of the command.
    #[serde(flatten)]
    options: BTreeMap<String, Value>,
}

/// Where figures stand.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    More(Vec<String>),
    Named(toml::Table),
}

/// A printed figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Printed {
    /// A figure with a point.
    Figure(f64),
    /// A whole one.
    Whole(i64),
    /// `-`: there is none.
    None(String),
}

fn compare() -> String {
    "compare".to_owned()
}

fn runs() -> String {
    "runs".to_owned()
}

fn policy() -> String {
    "policy".to_owned()
}

fn hit_ratio() -> Values {
    Values::One("counted.hit_ratio".to_owned())
}

fn percent() -> f64 {
    100.0
}

fn one() -> usize {
    1
}

impl Plan {
    /// Reads the file.
    ///
    /// # Errors
    /// Why it cannot be read, or what is wrong where.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let error = |what| PlanError { file: path.display().to_string(), what };
        let text = std::fs::read_to_string(path).map_err(|failed| error(WrongPlan::Unreadable(failed)))?;
        let plan: Self = toml::from_str(&text).map_err(|wrong| {
            let line = wrong.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            error(WrongPlan::Line(line, wrong.message().to_owned()))
        })?;
        if plan.tables.is_empty() {
            return Err(error(WrongPlan::NoTable));
        }
        for (index, table) in plan.tables.iter().enumerate() {
            table.check().map_err(|wrong| error(WrongPlan::Table(index + 1, wrong)))?;
        }
        Ok(plan)
    }

    /// The seeds, or one run without.
    pub fn seeds(&self) -> Vec<Option<u64>> {
        if self.seeds.is_empty() { vec![None] } else { self.seeds.iter().copied().map(Some).collect() }
    }
}

/// A file that is no experiment.
#[derive(Debug)]
pub struct PlanError {
    file: String,
    what: WrongPlan,
}

/// What is wrong with it.
#[derive(Debug)]
enum WrongPlan {
    Unreadable(io::Error),
    Line(usize, String),
    NoTable,
    Table(usize, String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.what {
            WrongPlan::Unreadable(error) => match error.kind() {
                io::ErrorKind::NotFound => {
                    write!(f, "{file}: there is no such file; an experiment is a TOML file, as in papers/")
                }
                io::ErrorKind::IsADirectory => write!(f, "{file}: is a folder; name the TOML files in it"),
                _ => write!(f, "{file}: {error}"),
            },
            WrongPlan::Line(line, what) => write!(f, "{file}, line {line}: {what}"),
            WrongPlan::NoTable => write!(f, "{file}: has no [[table]]: there is nothing to run"),
            WrongPlan::Table(number, what) => write!(f, "{file}, table {number}: {what}"),
        }
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    /// Whether the file cannot be read at all.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.what, WrongPlan::Unreadable(_))
    }
}

impl Wanted {
    /// Checks what the command would not name clearly.
    fn check(&self) -> Result<(), String> {
        if self.decimals > MOST_DECIMALS {
            return Err(format!("decimals = {} is too many: {MOST_DECIMALS} are the most", self.decimals));
        }
        if !self.scale.is_finite() {
            return Err(format!("scale = {} is no number to multiply by", self.scale));
        }
        if !COMMANDS.contains(&self.command.as_str()) {
            return Err(format!(
                "there is no command `{}` to experiment with; there are {}",
                self.command,
                COMMANDS.join(", ")
            ));
        }
        if let Some(key) =
            self.options.keys().find(|key| ["format", "report", "plot", "help", "verbose"].contains(&key.as_str()))
        {
            return Err(format!("`{key}` is not an experiment's to set: it is given to `forebay experiment`"));
        }
        for (key, value) in &self.options {
            words(key, value)?;
        }
        if let Values::Named(paths) = &self.values
            && let Some((name, _)) = paths.iter().find(|(_, path)| !path.is_str())
        {
            return Err(format!("values.{name} does not say where a figure stands, as text"));
        }
        for (row, figures) in &self.theirs {
            if let Some(Printed::None(text)) =
                figures.iter().find(|figure| matches!(figure, Printed::None(text) if text != "-"))
            {
                return Err(format!("theirs.{row}: `{text}` is no figure; write \"-\" where none is printed"));
            }
        }
        Ok(())
    }

    /// The words of the command line with this seed; the trace, found by `find`, is the second.
    pub fn words(&self, seed: Option<u64>, experiment: &Path, find: impl Fn(&str) -> PathBuf) -> Vec<String> {
        let trace = find(&with_seed(&self.trace, seed)).display().to_string();
        [self.command.clone(), trace].into_iter().chain(self.arguments(seed, experiment)).collect()
    }

    /// The command line but for the trace, with this seed. Files are named from the experiment's folder on.
    pub(super) fn arguments(&self, seed: Option<u64>, experiment: &Path) -> Vec<String> {
        let options = self.options.iter().flat_map(|(key, value)| words(key, value).unwrap_or_default());
        let word = |word: String| match with_seed(&word, seed) {
            file if file.ends_with(".toml") => find(&file, None, experiment).display().to_string(),
            word => word,
        };
        options.map(word).collect()
    }

    /// Where the name of an element's column may stand: the first that is there counts. Sizes in percent are other pages with each seed.
    pub(super) fn columns(&self) -> Vec<&str> {
        self.columns.as_deref().map_or_else(|| vec!["size", "pages"], |path| vec![path])
    }

    /// Where the figures of an element stand, and the name of its column unless that stands in the element.
    pub(super) fn values(&self) -> Vec<(Option<&str>, &str)> {
        match &self.values {
            Values::One(path) => vec![(None, path)],
            Values::More(paths) => paths.iter().map(|path| (Some(last_key(path)), path.as_str())).collect(),
            Values::Named(paths) => {
                paths.iter().map(|(name, path)| (Some(name.as_str()), path.as_str().unwrap_or_default())).collect()
            }
        }
    }
}

/// What a figure is called: the end of its path.
fn last_key(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, key)| key)
}

/// The commands whose answers can be put into tables.
const COMMANDS: [&str; 4] = ["compare", "curve", "levels", "analyze"];

/// A name with the seed in its place.
pub(super) fn with_seed(text: &str, seed: Option<u64>) -> String {
    seed.map_or_else(|| text.to_owned(), |seed| text.replace(SEED, &seed.to_string()))
}

/// The options that take a list; others are given several times.
const LISTS: [&str; 2] = ["policies", "sizes"];

/// An option as words of a command line; `true` is one without a value.
fn words(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let option = || format!("--{key}");
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    let words = match value {
        Value::Boolean(true) => Some(vec![option()]),
        Value::Boolean(false) => Some(Vec::new()),
        Value::Array(values) if LISTS.contains(&key) => {
            let texts: Option<Vec<_>> = values.iter().map(plain).collect();
            texts.map(|texts| vec![option(), texts.join(",")])
        }
        Value::Array(values) => {
            let words: Option<Vec<_>> = values.iter().map(|value| Some([option(), plain(value)?])).collect();
            words.map(|words| words.into_iter().flatten().collect())
        }
        value => plain(value).map(|text| vec![option(), text]),
    };
    words.ok_or_else(|| format!("`{key}` is neither text, number, true nor false, nor a list of them"))
}

/// Where a trace is: as named, in the folder of traces, or beside the experiment.
pub fn find(trace: &str, traces: Option<&Path>, beside: &Path) -> PathBuf {
    let folders = traces.into_iter().chain(beside.parent());
    let found = folders.map(|folder| folder.join(trace)).find(|path| path.exists());
    found.filter(|_| !Path::new(trace).exists()).unwrap_or_else(|| trace.into())
}

/// The words as one would type them.
pub fn typed(words: &[String]) -> String {
    let plain = |word: &str| word.chars().all(|c| c.is_alphanumeric() || "-_./:=,%@+".contains(c));
    let quoted = |word: &String| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
