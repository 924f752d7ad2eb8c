//! The parameters of policies: declared once, set by name, checked before a policy sees them.

use forebay_basis::parse_bytes;

/// One parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Its value where none is given, as a user would write it.
    pub default: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number, both bounds included.
    Integer {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number, both bounds included.
    Real {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A part of the cache.
    Part,
    /// A length in pages or bytes, at least one.
    Length,
    /// A part of the cache, or one of these words.
    PartOr(&'static [&'static str]),
}

/// A part of the cache, as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// This many pages: `64`.
    Pages(u64),
    /// This many bytes: `4MiB`.
    Bytes(u64),
    /// Percent of the cache: `5%`.
    Percent(f64),
}

impl Part {
    /// The part in pages of `page_size` bytes, at most the whole of a cache of `capacity` pages.
    pub fn pages(self, capacity: u32, page_size: u64) -> u32 {
        let pages = match self {
            Self::Pages(pages) => pages,
            Self::Bytes(bytes) => bytes / page_size,
            Self::Percent(percent) => (f64::from(capacity) * percent / 100.0).round() as u64,
        };
        pages.min(u64::from(capacity)) as u32
    }

    /// A length in pages of `page_size` bytes: a length in bytes is at least two pages, since one page has nothing to follow it.
    fn length(self, page_size: u64) -> u64 {
        match self {
            Self::Pages(pages) => pages,
            Self::Bytes(bytes) => bytes.div_ceil(page_size).max(2),
            Self::Percent(_) => unreachable!("percent are refused when a length is read"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if let Some(percent) = text.strip_suffix('%') {
            percent.parse().ok().filter(|percent| (0.0..=100.0).contains(percent)).map(Self::Percent)
        } else if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            text.parse().ok().map(Self::Pages)
        } else {
            parse_bytes(text).ok().map(Self::Bytes)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(u64),
    Real(f64),
    Choice(&'static str),
    Part(Part),
}

/// The values of a policy's parameters, each within its bounds.
#[derive(Clone, Debug)]
pub struct Settings {
    parameters: &'static [Parameter],
    values: Vec<Value>,
}

impl Settings {
    /// Every parameter at its default.
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        Self::parse(parameters, []).expect("defaults are within their bounds")
    }

    /// Defaults, but for the parameters that are given as (name, value).
    ///
    /// # Errors
    /// A sentence that says which name or value is wrong and which are right.
    pub fn parse<'a>(
        parameters: &'static [Parameter],
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let mut values = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            values.push(parameter.parse(parameter.default)?);
        }
        let mut seen = vec![false; parameters.len()];
        for (name, text) in given {
            let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
                let known: Vec<String> = parameters.iter().map(Parameter::usage).collect();
                return Err(match known.is_empty() {
                    true => format!("there is no parameter `{name}`: this policy has none"),
                    false => format!("there is no parameter `{name}`; there are {}", known.join(", ")),
                });
            };
            if std::mem::replace(&mut seen[index], true) {
                return Err(format!("`{name}` is given twice: which of them holds?"));
            }
            values[index] = parameters[index].parse(text)?;
        }
        Ok(Self { parameters, values })
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Integer(value) => value,
            other => panic!("parameter `{name}` is no whole number but {other:?}"),
        }
    }

    /// A number.
    pub fn real(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Real(value) => value,
            other => panic!("parameter `{name}` is no real number but {other:?}"),
        }
    }

    /// One of several words.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Choice(value) => value,
            other => panic!("parameter `{name}` is no choice but {other:?}"),
        }
    }

    /// A part of the cache.
    pub fn part(&self, name: &str) -> Part {
        match self.value(name) {
            Value::Part(value) => value,
            other => panic!("parameter `{name}` is no part of the cache but {other:?}"),
        }
    }

    /// A length, in pages of `page_size` bytes.
    pub fn length(&self, name: &str, page_size: u64) -> u64 {
        self.part(name).length(page_size)
    }

    /// A part of the cache, or a word in its place.
    pub fn part_or_word(&self, name: &str) -> Option<Part> {
        match self.value(name) {
            Value::Part(value) => Some(value),
            Value::Choice(_) => None,
            other => panic!("parameter `{name}` is no part of the cache and no word but {other:?}"),
        }
    }

    /// Sets a whole number, which is within its bounds.
    pub(crate) fn set_integer(&mut self, name: &str, value: u64) {
        let index = self.index(name);
        self.values[index] = Value::Integer(value);
    }

    fn value(&self, name: &str) -> Value {
        self.values[self.index(name)]
    }

    fn index(&self, name: &str) -> usize {
        let index = self.parameters.iter().position(|parameter| parameter.name == name);
        index.unwrap_or_else(|| panic!("parameter `{name}` is not declared"))
    }
}

impl Parameter {
    /// Name, bounds and default: `max=1..255 (5)`.
    pub fn usage(&self) -> String {
        let values = match self.kind {
            Kind::Integer { least, most: u64::MAX } => format!("{least}.."),
            Kind::Integer { least, most } => format!("{least}..{most}"),
            Kind::Real { least, most } if most.is_infinite() => format!("{least}.."),
            Kind::Real { least, most } => format!("{least}..{most}"),
            Kind::Choice(words) => words.join("|"),
            Kind::Part => "PAGES|BYTES|PERCENT%".to_owned(),
            Kind::Length => "PAGES|BYTES".to_owned(),
            Kind::PartOr(words) => format!("PAGES|BYTES|PERCENT%|{}", words.join("|")),
        };
        format!("{}={values} ({})", self.name, self.default)
    }

    fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Integer { least, most } => {
                text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Integer)
            }
            Kind::Real { least, most } => {
                text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Real)
            }
            Kind::Choice(words) => choose(words, text),
            Kind::Part => Part::parse(text).map(Value::Part),
            Kind::Length => {
                Part::parse(text).filter(|part| matches!(part, Part::Pages(1..) | Part::Bytes(1..))).map(Value::Part)
            }
            Kind::PartOr(words) => choose(words, text).or_else(|| Part::parse(text).map(Value::Part)),
        };
        value.ok_or_else(|| {
            let wrong = match self.kind {
                Kind::Integer { .. } | Kind::Real { .. } => "is out of bounds",
                Kind::Choice(_) => "is none of its words",
                Kind::Part => "is no number of pages, no size and no share of up to 100%",
                Kind::PartOr(_) => "is no number of pages, no size, no share of up to 100% and none of its words",
                Kind::Length => "is no number of pages and no size, of a page or more",
            };
            format!("`{}={text}` {wrong}: {}", self.name, self.usage())
        })
    }
}

fn choose(words: &'static [&'static str], text: &str) -> Option<Value> {
    words.iter().find(|&&word| word == text).map(|word| Value::Choice(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMETERS: &[Parameter] = &[
        Parameter { name: "max", help: "", kind: Kind::Integer { least: 1, most: 255 }, default: "5" },
        Parameter { name: "share", help: "", kind: Kind::Real { least: 0.0, most: 1.0 }, default: "0.25" },
        Parameter { name: "buffer", help: "", kind: Kind::Part, default: "5%" },
        Parameter { name: "run", help: "", kind: Kind::Length, default: "64KiB" },
        Parameter { name: "ties", help: "", kind: Kind::Choice(&["lru", "fifo"]), default: "lru" },
    ];

    #[test]
    fn what_is_given_replaces_the_default_and_the_rest_keeps_it() {
        let settings = Settings::parse(PARAMETERS, [("max", "7"), ("ties", "fifo")]).unwrap();
        assert_eq!((settings.integer("max"), settings.real("share"), settings.choice("ties")), (7, 0.25, "fifo"));
    }

    #[test]
    fn a_wrong_name_or_value_is_refused_with_the_right_ones() {
        let wrong = |name, value| Settings::parse(PARAMETERS, [(name, value)]).unwrap_err();
        assert_eq!(
            wrong("maximum", "7"),
            "there is no parameter `maximum`; there are max=1..255 (5), share=0..1 (0.25), buffer=PAGES|BYTES|PERCENT% (5%), run=PAGES|BYTES (64KiB), ties=lru|fifo (lru)"
        );
        let twice = Settings::parse(PARAMETERS, [("max", "7"), ("max", "7")]).unwrap_err();
        assert_eq!(twice, "`max` is given twice: which of them holds?");
        assert_eq!(wrong("max", "0"), "`max=0` is out of bounds: max=1..255 (5)");
        assert_eq!(wrong("share", "NaN"), "`share=NaN` is out of bounds: share=0..1 (0.25)");
        assert_eq!(wrong("ties", "mru"), "`ties=mru` is none of its words: ties=lru|fifo (lru)");
    }

    #[test]
    fn a_part_of_the_cache_is_pages_bytes_or_percent_and_no_more_than_the_whole() {
        let pages =
            |text: &str| Settings::parse(PARAMETERS, [("buffer", text)]).map(|s| s.part("buffer").pages(1000, 4096));
        assert_eq!(["64", "4096B", "1MiB", "2.5%", "0", "0%"].map(|text| pages(text).unwrap()), [64, 1, 256, 25, 0, 0]);
        assert_eq!(["5000", "1GiB", "100%"].map(|text| pages(text).unwrap()), [1000; 3]);
        for text in ["", "%", "101%", "-1%", "NaN%", "4 parrots"] {
            assert!(
                pages(text).unwrap_err().contains(
                    "is no number of pages, no size and no share of up to 100%: buffer=PAGES|BYTES|PERCENT% (5%)"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn a_length_is_pages_or_bytes_of_at_least_two_pages() {
        let pages = |text: &str, page_size| {
            Settings::parse(PARAMETERS, [("run", text)]).map(|settings| settings.length("run", page_size))
        };
        assert_eq!([512, 4096, 8192, 65_536, 1 << 20].map(|size| pages("64KiB", size).unwrap()), [128, 16, 8, 2, 2]);
        assert_eq!(["1", "8"].map(|text| pages(text, 512).unwrap()), [1, 8]);
        for text in ["0", "5%", "0KiB", "some"] {
            assert!(
                pages(text, 4096)
                    .unwrap_err()
                    .contains("is no number of pages and no size, of a page or more: run=PAGES|BYTES (64KiB)"),
                "{text}"
            );
        }
    }
}
