//! Readahead: pages fetched before they are referenced, by one of several rules.
//!
//! A *read* is one request of the trace. Its own pages are asked for whether there is readahead or not; what is read ahead lies
//! behind them. When a read is over its rule says which blocks are expected next; those that are not resident are admitted
//! to the policy as [`Operation::Readahead`](forebay_basis::Operation), and asked of the device without anyone waiting. The first
//! reference to such a page is a hit, a *used* page; one evicted before that is *wasted*.
//!
//! ```text
//! rules:       fixed, linux, regular    which blocks are expected behind a read; linux is forebay_policy::readahead, as in real caches
//! kernel       the kernel's own, which also says in which requests the read's own pages come
//! folios       what is cached, for that
//! successors   the pages of an object in the order of their blocks: where it ends, and where its holes are
//! holes        blocks that the trace never refers to have page numbers of their own in a run
//! marks        a bit for each page: read ahead, and not used yet
//! reader       a run's readahead at work
//! ```

mod folios;
mod holes;
mod kernel;
mod marks;
mod reader;
mod regular;
mod successors;

pub(crate) use reader::Reader;
pub(crate) use successors::Successors;

use crate::input::places::Places;
use forebay_policy::readahead::{Read, Streams};
use forebay_policy::{Parameter, Part, Settings};
use kernel::Kernel;
use regular::Regular;
use serde::Deserialize;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A rule of readahead, as it is listed.
#[derive(Debug)]
pub struct Kind {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What can be set, with defaults.
    pub parameters: &'static [Parameter],
}

/// The most pages that any rule reads ahead at once.
const MOST_PAGES: u64 = 1 << 20;

const MAX: [Parameter; 1] = [Parameter {
    name: "max",
    help: "the most that is read ahead at once, up to 1048576 pages",
    kind: forebay_policy::Kind::Part,
    default: "128KiB",
}];

/// All rules.
pub static KINDS: &[Kind] = &[
    Kind { name: "none", help: "nothing is read ahead", parameters: &[] },
    Kind {
        name: "fixed",
        help: "the next pages behind every read that misses",
        parameters: &[Parameter {
            name: "pages",
            help: "how many",
            kind: forebay_policy::Kind::Integer { least: 1, most: MOST_PAGES },
            default: "8",
        }],
    },
    Kind { name: "linux", help: "Linux's window for each stream, which doubles", parameters: &MAX },
    Kind {
        name: "kernel",
        help: "Linux 6.18's own: a window for each open file, folios, and a look at what is cached",
        parameters: &[
            MAX[0],
            Parameter {
                name: "request",
                help: "the longest request of the device: a read of more than max has windows of its own size, up to this",
                kind: forebay_policy::Kind::Part,
                default: "1280KiB",
            },
        ],
    },
    Kind { name: "regular", help: "sequences and loops, as UBM detects them", parameters: &MAX },
];

/// A rule of readahead with its parameters, as a user names it: `linux:max=256KiB`.
#[derive(Clone, Debug)]
pub struct Readahead {
    /// The rule.
    pub kind: &'static Kind,
    /// Its parameters' values.
    pub settings: Settings,
    /// What the user wrote.
    pub label: String,
}

impl Default for Readahead {
    fn default() -> Self {
        "none".parse().expect("there is such a rule")
    }
}

/// A text that is no [`Readahead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// There is no rule of that name.
    Unknown(String),
    /// A part behind the rule's name is no PARAMETER=VALUE.
    NoParameter(&'static str, String),
    /// The rule has no such parameter, or the parameter no such value.
    Setting(&'static str, String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                write!(f, "there is no readahead `{name}`; there are {}", known.join(", "))
            }
            Self::NoParameter(rule, part) => write!(f, "{rule}: `{part}` is no PARAMETER=VALUE"),
            Self::Setting(rule, error) => write!(f, "{rule}: {error}"),
        }
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Readahead {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let kind = KINDS.iter().find(|kind| kind.name == name);
        let kind = kind.ok_or_else(|| RuleError::Unknown(name.to_owned()))?;
        let given: Vec<(&str, &str)> = parts
            .map(|part| part.split_once('=').ok_or_else(|| RuleError::NoParameter(kind.name, part.to_owned())))
            .collect::<Result<_, _>>()?;
        let wrong = |error: String| RuleError::Setting(kind.name, error);
        let settings = Settings::parse(kind.parameters, given).map_err(wrong)?;
        Ok(Self { kind, settings, label: text.to_owned() })
    }
}

impl Readahead {
    /// Whether there is no rule. `kernel` without readahead still has one: it reads page by page.
    pub fn is_none(&self) -> bool {
        match self.kind.name {
            "none" => true,
            "fixed" | "kernel" => false,
            _ => matches!(self.settings.part("max"), Part::Pages(0) | Part::Bytes(0) | Part::Percent(0.0)),
        }
    }

    fn rule(&self, capacity: u32, pages: u32, page_size: u64) -> Rule {
        let part = |name| {
            let pages = match self.settings.part(name) {
                Part::Pages(pages) => pages,
                // Of an odd number of bytes the last page is not whole.
                Part::Bytes(bytes) => (bytes / page_size).max(bytes.min(1)),
                part => u64::from(part.pages(capacity, page_size)),
            };
            pages.min(MOST_PAGES)
        };
        match self.kind.name {
            "fixed" => Rule::Fixed(self.settings.integer("pages")),
            "linux" => Rule::Linux(Streams::default(), part("max").max(1)),
            "kernel" => Rule::Kernel(Some(Box::new(Kernel::new(part("max"), part("request").max(1))))),
            "regular" => Rule::Regular(Box::new(Regular::new(pages, page_size, part("max").max(1)))),
            name => unreachable!("{name} is no rule"),
        }
    }
}

/// What became of the pages that were read ahead.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct ReadaheadCounts {
    /// How many there were; with a warm-up, those that had not been used at its end among them.
    pub fetched: u64,
    /// Those referenced while resident: this many hits are thanks to readahead.
    pub used: u64,
    /// The others: evicted before they were used, or left unused at the end.
    pub wasted: u64,
    /// Those of the used ones whose reference had to wait for the device, if there is one.
    pub late: Option<u64>,
}

/// What is expected behind a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Expected {
    /// Blocks of the read's object, behind the read.
    blocks: Range<u64>,
    /// Read nothing ahead if this one of them is resident.
    unless: Option<u64>,
    /// Blocks from the start of a loop.
    again: Range<u64>,
}

impl From<Range<u64>> for Expected {
    fn from(blocks: Range<u64>) -> Self {
        Self { blocks, ..Self::default() }
    }
}

#[derive(Debug)]
enum Rule {
    Fixed(u64),
    /// With the most that is read ahead at once.
    Linux(Streams, u64),
    Regular(Box<Regular>),
    /// It reads by itself, and is not here while it does.
    Kernel(Option<Box<Kernel>>),
}

impl Rule {
    /// Pages are referenced, one after the other.
    fn refer(&mut self, pages: &[u32], places: &Places) {
        if let Self::Regular(regular) = self {
            pages.iter().for_each(|&page| regular.refer(places.of(page)));
        }
    }

    /// Of a window that was to end at `end` there was no room from block `at` on.
    fn shorten(&mut self, object: u32, end: u64, at: u64) {
        if let Self::Linux(streams, _) = self {
            streams.shorten(object, end, at);
        }
    }

    /// A read is over. `asks`: it missed, or was the first to use something read ahead, and does not write.
    fn expect(&mut self, read: &Read, asks: bool) -> Expected {
        match self {
            Self::Fixed(pages) => match read.missed {
                Some(_) => (read.end..read.end.saturating_add(*pages)).into(),
                None => Expected::default(),
            },
            Self::Linux(streams, most) if asks => streams.expect(read, *most).into(),
            Self::Linux(..) | Self::Kernel(_) => Expected::default(),
            Self::Regular(regular) => regular.expect(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_rule_or_parameter_is_refused_with_the_right_ones() {
        let wrong = |text: &str| text.parse::<Readahead>().unwrap_err().to_string();
        assert_eq!(wrong("lynux"), "there is no readahead `lynux`; there are none, fixed, linux, kernel, regular");
        assert_eq!(wrong("fixed:8"), "fixed: `8` is no PARAMETER=VALUE");
        assert_eq!(wrong("fixed:pages=0"), "fixed: `pages=0` is out of bounds: pages=1..1048576 (8)");
        assert!(wrong("none:max=1").contains("has none"));
        assert!(
            ["none", "linux:max=0", "regular:max=0%"]
                .into_iter()
                .all(|text| text.parse::<Readahead>().unwrap().is_none())
        );
    }

    #[test]
    fn a_length_is_the_same_in_pages_and_in_bytes_whatever_the_cache_and_a_share_is_of_the_cache() {
        let most = |text: &str| match text.parse::<Readahead>().unwrap().rule(100, 1000, 4096) {
            Rule::Linux(_, most) => most,
            rule => panic!("{rule:?}"),
        };
        for (text, pages) in [("1024", 1024), ("4MiB", 1024), ("5000B", 1), ("1B", 1), ("20%", 20), ("0.1%", 1)] {
            assert_eq!(most(&format!("linux:max={text}")), pages, "{text}");
        }
        assert_eq!(most("linux:max=18446744073709551615"), MOST_PAGES);
        assert!(!"kernel:max=0".parse::<Readahead>().unwrap().is_none(), "it reads page by page");
    }

    #[test]
    fn the_manual_lists_every_rule_with_its_defaults() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/readahead.md");
        let page = std::fs::read_to_string(path).expect("docs/readahead.md is there");
        for kind in KINDS {
            let parameters =
                kind.parameters.iter().map(|parameter| format!(":{}={}", parameter.name, parameter.default));
            let rule = format!("| `{}{}` |", kind.name, parameters.collect::<String>());
            assert!(page.contains(&rule), "docs/readahead.md does not list {rule}");
        }
    }

    #[test]
    fn a_rule_without_parameters_has_its_defaults() {
        for kind in KINDS {
            let readahead: Readahead = kind.name.parse().unwrap();
            assert_eq!((readahead.kind.name, readahead.label.as_str()), (kind.name, kind.name));
            assert_eq!(readahead.is_none(), kind.name == "none");
        }
    }
}
