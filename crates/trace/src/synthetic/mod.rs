//! Synthetic traces: named by a spec instead of a file name, made while they are read.
//!
//! A spec is a generator, a colon and its parameters, `zipf:pages=1M,references=10M,alpha=0.8,seed=1`; a parameter left
//! out has its default, so `zipf:` is a whole spec. Nothing in it needs quoting in a shell. A file that is called
//! like a spec is opened as `./zipf:…`.
//!
//! - `zipf:` pages, references, alpha, scatter, seed. The page of rank r is referenced with probability proportional to
//!   r^-alpha, independently of what came before. With `scatter=no` the ranks are the page numbers, so that hot pages
//!   are neighbours; with `scatter=yes` they are spread over all pages by the seed.
//! - `uniform:` pages, references, seed. Every page with the same probability.
//! - `scan:` references, length. Each page once, in sequence.
//! - `loop:` pages, references, length. The pages in sequence, again and again.
//! - `mix:` references and seed, then `+` and one generator after the other, with the share of the references that each
//!   makes as its `weight`: `mix:references=1M,seed=7+zipf:pages=10k,weight=3+loop:pages=50k`. Without parameters of
//!   its own it is `mix:zipf:+scan:`. The parts take turns at random, request by request.
//!
//! `length` is how many pages a sequential request has, as a program reads a file. Each generator reads an object of
//! its own, and is its owner; both are called by its name, the second of a kind `zipf-2` and so on. Times are 0 and all
//! requests are reads. Numbers may be written `100_000`, `100k`, `1M`, `1G`.
//!
//! The same spec gives the same references on every machine and in every release.

mod random;
mod spec;

use crate::error::{Error, Result};
use crate::formats::Format;
use crate::names::Names;
use crate::reader::Reader;
use crate::request::{Request, Unit};
use forebay_basis::Operation;
use forebay_basis::spelling::did_you_mean;
use random::{Random, Scatter, Zipf};
use spec::{Given, Parameter, Range};

/// What a synthetic trace is in place of a file format. It is in no file, so it is not in the registry of formats.
pub static SYNTHETIC: Format = Format {
    name: "synthetic",
    title: "made while it is read, from a spec like zipf:pages=1M,alpha=0.8",
    source: "Forebay, docs/trace-formats.md",
    recognise: |_| false,
    open: |input, _| Err(Error::new(input.file(), "is a file; a synthetic trace is a spec in place of a file's name")),
    example: b"",
};

// Ranks are computed in floating point, exact to 2^53; and the offsets of a scan must not overflow.
static PAGES: Parameter = Parameter { name: "pages", default: "100000", range: Range::Count(1, 1 << 40) };
static REFERENCES: Parameter = Parameter { name: "references", default: "1000000", range: Range::Count(1, 1 << 60) };
static ALPHA: Parameter = Parameter { name: "alpha", default: "1.0", range: Range::Real(0.0, 10.0) };
static SCATTER: Parameter = Parameter { name: "scatter", default: "yes", range: Range::YesNo };
static LENGTH: Parameter = Parameter { name: "length", default: "1", range: Range::Count(1, 1 << 20) };
static SEED: Parameter = Parameter { name: "seed", default: "1", range: Range::Count(0, u64::MAX) };
static WEIGHT: Parameter = Parameter { name: "weight", default: "1", range: Range::Count(1, 1_000_000) };

const MIX: &str = "mix";

/// A kind of references.
struct Generator {
    name: &'static str,
    /// Its parameters alone and in a mix; alone it also has references and, if it is random, a seed.
    parameters: &'static [&'static Parameter],
    random: bool,
    start: fn(&Given<'_>, &mut Random) -> Result<Pattern>,
}

static GENERATORS: &[Generator] = &[
    Generator {
        name: "zipf",
        parameters: &[&PAGES, &ALPHA, &SCATTER],
        random: true,
        start: |given, random| {
            let pages = given.count(&PAGES)?;
            // Drawn in any case, so that the ranks are the same ones with and without.
            let scatter = Scatter::new(pages, random);
            let scatter = given.yes(&SCATTER)?.then_some(scatter);
            Ok(Pattern::Zipf { zipf: Zipf::new(pages, given.real(&ALPHA)?), scatter })
        },
    },
    Generator {
        name: "uniform",
        parameters: &[&PAGES],
        random: true,
        start: |given, _| Ok(Pattern::Uniform { pages: given.count(&PAGES)? }),
    },
    Generator {
        name: "scan",
        parameters: &[&LENGTH],
        random: false,
        start: |given, _| Ok(Pattern::Sequence { next: 0, end: u64::MAX, length: given.count(&LENGTH)? }),
    },
    Generator {
        name: "loop",
        parameters: &[&PAGES, &LENGTH],
        random: false,
        start: |given, _| Ok(Pattern::Sequence { next: 0, end: given.count(&PAGES)?, length: given.count(&LENGTH)? }),
    },
];

/// Whether a name is that of a synthetic trace: a generator or `mix`, and a colon.
pub fn recognise(name: &str) -> bool {
    name.split_once(':').is_some_and(|(generator, _)| generator == MIX || named(generator).is_some())
}

/// For a name that is no file's: the generator that is meant, if the name looks like a synthetic trace.
pub(crate) fn meant(name: &str) -> String {
    if let Some(generator) = named(name) {
        return format!("; a synthetic trace is written {}:pages=1k,references=10k", generator.name);
    }
    let generator = name.split_once(':').map_or("", |(generator, _)| generator);
    let known = GENERATORS.iter().map(|generator| generator.name).chain([MIX]);
    if generator.is_empty() { String::new() } else { did_you_mean(generator, known) }
}

fn named(name: &str) -> Option<&'static Generator> {
    GENERATORS.iter().find(|generator| generator.name == name)
}

fn known(separator: &str) -> String {
    GENERATORS.iter().map(|generator| generator.name).collect::<Vec<_>>().join(separator)
}

/// Starts the synthetic trace that `spec` names.
pub fn open(spec: &str) -> Result<Box<dyn Reader>> {
    // Without its colon a generator's name is a file's.
    let (name, rest) = spec.split_once(':').unwrap_or_default();
    if name == MIX {
        return Ok(Box::new(mix(spec, rest)?));
    }
    let Some(generator) = named(name) else {
        return Err(Error::new(spec, format!("is no synthetic trace; these begin with {}: or {MIX}:", known(":, "))));
    };
    let mut allowed = generator.parameters.to_vec();
    allowed.push(&REFERENCES);
    if generator.random {
        allowed.push(&SEED);
    }
    let given = Given::parse(spec, name, rest, &allowed)?;
    let mut random = Random::new(given.count(&SEED)?);
    let pattern = (generator.start)(&given, &mut random)?;
    let part = Part { name: name.to_owned(), below: 1.0, pattern, random: random.split() };
    let left = given.count(&REFERENCES)?;
    Ok(Box::new(Synthetic { parts: vec![part], random, references: left, left }))
}

fn mix(spec: &str, text: &str) -> Result<Synthetic> {
    let mut texts = text.split('+').peekable();
    // Parameters of the mix itself have no generator before them.
    let own = texts.next_if(|part| !part.contains(':')).unwrap_or("");
    let given = Given::parse(spec, MIX, own, &[&REFERENCES, &SEED])?;
    let mut random = Random::new(given.count(&SEED)?);
    let mut parts: Vec<Part> = Vec::new();
    let mut weights = 0.0;
    for text in texts {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(generator) = named(name).filter(|_| text.contains(':')) else {
            let message = format!("a part of a mix is one of {}: and its parameters, not `{text}`", known(":, "));
            return Err(Error::new(spec, message));
        };
        let mut allowed = generator.parameters.to_vec();
        allowed.push(&WEIGHT);
        let given = Given::parse(spec, name, rest, &allowed)?;
        let mut random = random.split();
        let pattern = (generator.start)(&given, &mut random)?;
        // Weights are shares of the references, and turns are taken by requests.
        weights += given.count(&WEIGHT)? as f64 / pattern.length() as f64;
        let same = parts.iter().filter(|part| part.name.split('-').next() == Some(name)).count();
        let name = if same == 0 { name.to_owned() } else { format!("{name}-{}", same + 1) };
        parts.push(Part { name, below: weights, pattern, random });
    }
    if parts.is_empty() {
        return Err(Error::new(spec, "a mix has parts; write for example mix:zipf:pages=10k,weight=3+scan:"));
    }
    for part in &mut parts {
        part.below /= weights;
    }
    let left = given.count(&REFERENCES)?;
    Ok(Synthetic { parts, random, references: left, left })
}

/// What the next page depends on.
enum Pattern {
    Zipf { zipf: Zipf, scatter: Option<Scatter> },
    Uniform { pages: u64 },
    Sequence { next: u64, end: u64, length: u64 },
}

impl Pattern {
    /// How many pages a request has, unless the sequence ends in it.
    fn length(&self) -> u64 {
        match self {
            Self::Zipf { .. } | Self::Uniform { .. } => 1,
            Self::Sequence { end, length, .. } => *length.min(end),
        }
    }

    /// The next request's first page and its number of pages, at most `most`.
    fn next(&mut self, random: &mut Random, most: u64) -> (u64, u64) {
        match self {
            Self::Zipf { zipf, scatter } => {
                let rank = zipf.sample(random);
                (scatter.as_ref().map_or(rank, |scatter| scatter.page(rank)), 1)
            }
            Self::Uniform { pages } => (random.below(*pages), 1),
            Self::Sequence { next, end, length } => {
                let first = *next;
                let length = (*length).min(*end - first).min(most);
                *next = if first + length == *end { 0 } else { first + length };
                (first, length)
            }
        }
    }
}

/// A generator at work.
struct Part {
    name: String,
    /// A turn is this part's if it is drawn below this, and not below the part's before.
    below: f64,
    pattern: Pattern,
    random: Random,
}

struct Synthetic {
    parts: Vec<Part>,
    /// Draws the turns.
    random: Random,
    references: u64,
    /// The references still to be made.
    left: u64,
}

impl Reader for Synthetic {
    fn unit(&self) -> Unit {
        Unit::Pages
    }

    fn share(&self) -> Option<f64> {
        Some(1.0 - self.left as f64 / self.references as f64)
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        if self.left == 0 {
            return Ok(None);
        }
        let turn = if self.parts.len() > 1 { self.random.unit() } else { 0.0 };
        // The last part's bound is 1, but for rounding.
        let last = self.parts.len() - 1;
        let part = self.parts.iter().position(|part| turn < part.below).unwrap_or(last);
        let part = &mut self.parts[part];
        let (offset, length) = part.pattern.next(&mut part.random, self.left);
        self.left -= length;
        let (owner, object) = (names.owner(&part.name), names.object(&part.name));
        Ok(Some(Request { time: 0, owner, object, offset, length, operation: Operation::Read }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::{self, Options};
    use std::path::Path;

    fn requests(spec: &str, most: usize) -> (Vec<Request>, Names) {
        let (mut names, mut requests) = (Names::new(), Vec::new());
        open(spec).unwrap().fill(&mut names, most, &mut requests).unwrap();
        (requests, names)
    }

    fn pages(spec: &str) -> Vec<u64> {
        requests(spec, usize::MAX)
            .0
            .iter()
            .flat_map(|request| request.offset..request.offset + request.length)
            .collect()
    }

    #[test]
    fn a_loop_goes_round_and_a_scan_goes_on() {
        assert_eq!(pages("loop:pages=3,references=7"), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(pages("scan:references=5"), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_long_request_ends_with_its_sequence_and_with_the_trace() {
        let (requests, _) = requests("loop:pages=5,references=9,length=3", 100);
        let seen: Vec<_> = requests.iter().map(|request| (request.offset, request.length)).collect();
        assert_eq!(seen, [(0, 3), (3, 2), (0, 3), (3, 1)]);
    }

    /// The numbers are those of a second implementation, written in Python from the papers and the generators'
    /// reference code, with Python's logarithms.
    #[test]
    fn a_spec_gives_the_same_pages_for_ever() {
        assert_eq!(pages("uniform:pages=1000,references=6,seed=1"), [811, 747, 100, 746, 184, 590]);
        assert_eq!(pages("zipf:pages=1000,references=6,seed=1,scatter=no"), [3, 471, 3, 249, 11, 0]);
        assert_eq!(pages("zipf:pages=1000,references=6,seed=1"), [217, 496, 217, 897, 83, 459]);
        assert_eq!(pages("mix:references=6+zipf:+scan:"), [0, 45640, 1, 2, 3, 59604]);
    }

    #[test]
    fn seeds_differ_and_the_default_seed_is_1() {
        assert_ne!(pages("uniform:references=10,seed=1"), pages("uniform:references=10,seed=2"));
        assert_eq!(pages("uniform:references=10"), pages("uniform:references=10,seed=1"));
    }

    #[test]
    fn a_mix_makes_each_parts_share_of_the_references_under_its_own_name() {
        let spec = "mix:references=100k,seed=7+zipf:pages=1k,weight=3+zipf:pages=10+loop:pages=100,length=10,weight=4";
        let (requests, names) = requests(spec, usize::MAX);
        assert_eq!(names.objects().iter().filter(|name| name.starts_with("zipf")).count(), 2);
        let share = |name: &str| {
            let object = names.objects().iter().position(|object| object == name).unwrap() as u32;
            assert!(requests.iter().all(|request| request.owner == request.object));
            requests.iter().filter(|request| request.object == object).map(|request| request.length).sum::<u64>()
        };
        let shares = [share("zipf"), share("zipf-2"), share("loop")];
        assert_eq!(shares.iter().sum::<u64>(), 100_000);
        for (share, expected) in shares.into_iter().zip([37_500, 12_500, 50_000]) {
            assert!(share.abs_diff(expected) < 1000, "{shares:?}");
        }
    }

    #[test]
    fn all_that_a_generator_needs_has_a_default() {
        for spec in ["zipf:", "uniform:", "scan:", "loop:", "mix:zipf:+scan:", "mix:references=10+uniform:"] {
            assert!(!requests(spec, 10).0.is_empty(), "{spec}");
        }
    }

    #[test]
    fn more_references_than_memory_holds_are_begun_at_once() {
        assert_eq!(requests("zipf:pages=1G,references=1G,alpha=0.9", 10).0.len(), 10);
    }

    #[test]
    fn only_a_generator_and_a_colon_make_a_spec() {
        assert!(recognise("zipf:pages=10") && recognise("mix:") && recognise("loop:"));
        for file in ["./zipf:pages=10", "zipf", "zipf.gz", "Zipf:", "c:\\trace", "a:b", "", ":"] {
            assert!(!recognise(file), "{file}");
        }
    }

    #[test]
    fn opening_a_spec_is_opening_a_trace() {
        let (format, mut reader) = reader::open(Path::new("scan:references=2"), &Options::default()).unwrap();
        assert_eq!((format.name, reader.unit()), ("synthetic", Unit::Pages));
        let mut names = Names::new();
        assert!(reader.next(&mut names).unwrap().is_some());
        assert_eq!(names.objects(), ["", "scan"]);
    }

    #[test]
    fn errors_list_the_right_parameters_with_their_ranges() {
        for (spec, says) in [
            ("zapf:", "is no synthetic trace; these begin with zipf:, uniform:, scan:, loop: or mix:"),
            ("zipf", "is no synthetic trace"),
            (
                "zipf:page=3",
                "has no parameter `page`; it has pages (1 to 1099511627776, default 100000), alpha (0 to 10",
            ),
            ("zipf:3", "has no parameter `3`"),
            ("zipf:pages", "cannot take `pages=`: give pages (1 to"),
            ("zipf:pages=0", "cannot take `pages=0`"),
            ("zipf:alpha=-1", "cannot take `alpha=-1`: give alpha (0 to 10, default 1.0)"),
            ("zipf:alpha=NaN", "cannot take `alpha=NaN`"),
            ("zipf:scatter=maybe", "give scatter (yes or no, default yes)"),
            ("zipf:pages=1,pages=2", "is given `pages` twice"),
            ("scan:pages=3", "scan has no parameter `pages`; it has length"),
            ("loop:seed=3", "loop has no parameter `seed`"),
            ("mix:", "a mix has parts"),
            ("mix:references=10", "a mix has parts"),
            ("mix:pages=10+zipf:", "mix has no parameter `pages`; it has references"),
            (
                "mix:zipf:seed=3+scan:",
                "zipf has no parameter `seed`; it has pages (1 to 1099511627776, default 100000)",
            ),
            (
                "mix:zipf:+mix:",
                "a part of a mix is one of zipf:, uniform:, scan:, loop: and its parameters, not `mix:`",
            ),
            ("mix:zipf:+scan", "not `scan`"),
        ] {
            let error = open(spec).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }
}
