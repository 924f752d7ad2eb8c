//! Mixing: several traces as one, in the order of their times, as if all had happened at once on one machine.
//!
//! This is what CLOCK-Pro's paper does to see programs and files compete for one memory (S. Jiang, F. Chen and X. Zhang, USENIX
//! 2005, section 5.1.3): the file trace is scaled to the time of the program, and both are put in the order of their times.
//! Owners and objects are kept apart under the names of their sources.

use crate::error::{Error, Result};
use crate::names::Names;
use crate::pages::{DEFAULT_PAGE_SIZE, Paging};
use crate::reader::Reader;
use crate::request::{Request, Unit};
use std::path::Path;

/// Nanoseconds from one reference to the next of the longest trace, where none has times.
const PACE: u64 = 1000;

/// What must be known of a trace before it is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// References to pages.
    pub references: u64,
    /// The earliest time.
    pub first: u64,
    /// The latest time.
    pub last: u64,
}

impl Span {
    /// Reads a whole trace. `progress` is told the number of references so far.
    ///
    /// # Errors
    /// What is wrong with the trace, or that it is empty.
    pub fn of(
        name: &str,
        reader: &mut dyn Reader,
        page_size: Option<u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let paging = Paging::of(reader, page_size).map_err(|message| Error::new(name, message))?;
        let mut names = Names::new();
        let mut span = Self { references: 0, first: u64::MAX, last: 0 };
        let (mut batch, mut more) = (Vec::new(), true);
        while more {
            batch.clear();
            more = reader.fill(&mut names, 4096, &mut batch)?;
            for request in &batch {
                span.references += references(&paging, name, request)?;
                (span.first, span.last) = (span.first.min(request.time), span.last.max(request.time));
            }
            progress(span.references);
        }
        if span.references == 0 {
            return Err(Error::new(name, "has no references: there is nothing to mix"));
        }
        Ok(span)
    }

    /// Whether the trace has times.
    pub fn has_times(&self) -> bool {
        self.last > 0
    }
}

fn references(paging: &Paging, name: &str, request: &Request) -> Result<u64> {
    let pages = paging.checked_pages(request).map_err(|message| Error::new(name, message))?;
    Ok(pages.end - pages.start)
}

/// Which times the requests of the sources get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Those that they have.
    Recorded,
    /// Counted from each source's first request, so that all begin at once.
    FromStart,
    /// Stretched, so that all begin and end at once: as long as the longest that has times. A source without times is spread by
    /// its references.
    Scaled,
}

/// A trace to be mixed.
pub struct Source {
    /// What its owners and objects are named after.
    pub name: String,
    /// The trace itself.
    pub reader: Box<dyn Reader>,
    /// What is known of it.
    pub span: Span,
}

/// What a trace's owners and objects are named after, beside other sources: its file's name up to the first dot, or the kind of a
/// synthetic trace.
pub fn name(input: &str, others: &[Source]) -> String {
    let file = Path::new(input).file_name().and_then(|name| name.to_str()).unwrap_or(input);
    let first = Some(file.split(['.', ':']).next().unwrap_or_default()).filter(|name| !name.is_empty()).unwrap_or(file);
    let mut names = std::iter::once(first.to_owned()).chain((2..).map(|number| format!("{first}#{number}")));
    let is_free = |name: &String| others.iter().all(|source| source.name != *name);
    names.find(is_free).expect("there is always a next number")
}

/// The names of sources that end before the next one begins, with its name: they do not compete, which is seldom meant.
pub fn gaps(sources: &[Source]) -> Vec<(&str, &str)> {
    let mut by_start: Vec<&Source> = sources.iter().filter(|source| source.span.has_times()).collect();
    by_start.sort_by_key(|source| source.span.first);
    let mut latest: Option<&Source> = None;
    let mut gaps = Vec::new();
    for source in by_start {
        let before = latest.filter(|before| before.span.last < source.span.first);
        gaps.extend(before.map(|before| (before.name.as_str(), source.name.as_str())));
        if latest.is_none_or(|latest| latest.span.last < source.span.last) {
            latest = Some(source);
        }
    }
    gaps
}

/// The mixed trace.
pub struct Mix {
    sources: Vec<Merged>,
    unit: Unit,
}

/// A source under way.
struct Merged {
    name: String,
    reader: Box<dyn Reader>,
    span: Span,
    clock: Clock,
    paging: Paging,
    /// A unit of the source is this many of the mix.
    factor: u64,
    names: Names,
    /// The numbers in the mix of the source's owners and objects.
    owners: Vec<u32>,
    objects: Vec<u32>,
    references: u64,
    /// The request that comes next; its time is that in the mix.
    next: Option<Request>,
    started: bool,
}

/// How a source's times become those of the mix.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// They are counted from then on.
    From(u64),
    /// They are stretched to this duration.
    Stretched(u64),
}

impl Mix {
    /// Mixes traces. A page size is needed where sources count in different units, one of which is pages; it is 8 KiB by default.
    ///
    /// # Errors
    /// A sentence that says why these cannot be mixed so.
    pub fn new(sources: Vec<Source>, times: Times, page_size: Option<u64>) -> Result<Self> {
        let stretched = sources.iter().filter(|source| source.span.has_times());
        let longest = stretched.map(|Source { span, .. }| span.last - span.first).max();
        let by_references = || sources.iter().map(|source| source.span.references.saturating_mul(PACE)).max();
        let duration = longest.or_else(by_references).unwrap_or(0);
        let units: Vec<Unit> = sources.iter().map(|source| source.reader.unit()).collect();
        let unit = if units.windows(2).all(|pair| pair[0] == pair[1]) { units[0] } else { Unit::Bytes };
        let merge = |source: Source| {
            let Source { name, reader, span } = source;
            if times != Times::Scaled && !span.has_times() {
                return Err(Error::new(&name, "has no times to mix it by: --scale spreads it by its references"));
            }
            let paging = Paging::of(reader.as_ref(), page_size).map_err(|message| Error::new(&name, message))?;
            let clock = match times {
                Times::Recorded => Clock::From(0),
                Times::FromStart => Clock::From(span.first),
                Times::Scaled => Clock::Stretched(duration),
            };
            let factor = match reader.unit() {
                of_source if of_source == unit => 1,
                Unit::Bytes => 1,
                Unit::Blocks(size) => size.into(),
                Unit::Pages => page_size.unwrap_or(DEFAULT_PAGE_SIZE),
            };
            Ok(Merged {
                name,
                reader,
                span,
                clock,
                paging,
                factor,
                names: Names::new(),
                owners: Vec::new(),
                objects: Vec::new(),
                references: 0,
                next: None,
                started: false,
            })
        };
        Ok(Self { sources: sources.into_iter().map(merge).collect::<Result<_>>()?, unit })
    }
}

impl Reader for Mix {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn has_lengths(&self) -> bool {
        self.sources.iter().any(|source| source.reader.has_lengths())
    }

    fn next(&mut self, names: &mut Names) -> Result<Option<Request>> {
        for source in self.sources.iter_mut().filter(|source| !source.started) {
            source.started = true;
            source.advance(names)?;
        }
        let waiting = self.sources.iter_mut().filter_map(|source| source.next.map(|request| (request.time, source)));
        // Of several at one time the source that was named first comes first.
        let Some((_, source)) = waiting.min_by_key(|&(time, _)| time) else { return Ok(None) };
        let request = source.next;
        source.advance(names)?;
        Ok(request)
    }
}

impl Merged {
    /// Reads the next request. The order of a source's requests stays as it is, even where its times go back.
    fn advance(&mut self, names: &mut Names) -> Result<()> {
        let before = self.next.map_or(0, |request| request.time);
        self.next = match self.reader.next(&mut self.names)? {
            None => None,
            Some(request) => Some(self.place(request, before, names)?),
        };
        Ok(())
    }

    /// The request as it is in the mix.
    fn place(&mut self, request: Request, before: u64, names: &mut Names) -> Result<Request> {
        let time = self.time(&request).max(before);
        self.references += references(&self.paging, &self.name, &request)?;
        let scaled = |number: u64| {
            let beyond = || Error::new(&self.name, "an offset in bytes exceeds 2^64: the sources cannot be mixed");
            number.checked_mul(self.factor).ok_or_else(beyond)
        };
        let (offset, length) = (scaled(request.offset)?, scaled(request.length)?);
        for owner in &self.names.owners()[self.owners.len()..] {
            self.owners.push(names.owner(&within(&self.name, owner)));
        }
        for object in &self.names.objects()[self.objects.len()..] {
            self.objects.push(names.object(&within(&self.name, object)));
        }
        let (owner, object) = (self.owners[request.owner as usize], self.objects[request.object as usize]);
        if let Some(bytes) = self.names.length(request.object) {
            names.set_length(object, bytes);
        }
        Ok(Request { time, owner, object, offset, length, ..request })
    }

    fn time(&self, request: &Request) -> u64 {
        let Span { references, first, last } = self.span;
        match self.clock {
            Clock::From(start) => request.time.saturating_sub(start),
            Clock::Stretched(duration) => {
                let (part, all) = if self.span.has_times() {
                    (request.time.saturating_sub(first), last - first)
                } else {
                    (self.references, references)
                };
                // In 128 bits, since nanoseconds times nanoseconds exceed 64.
                (u128::from(part) * u128::from(duration) / u128::from(all.max(1))) as u64
            }
        }
    }
}

/// The name, within the mix, of what a source calls so: `SOURCE/NAME`, or `SOURCE` for the unnamed one.
fn within(source: &str, name: &str) -> String {
    if name.is_empty() { source.to_owned() } else { format!("{source}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::reader::{Options, read};

    fn reader(text: &'static str) -> Box<dyn Reader> {
        let options = Options { format: Some("csv".to_owned()), ..Options::default() };
        read(Input::from_bytes("test", text).unwrap(), &options).unwrap().1
    }

    /// What is in a mix: time, owner, object and offset.
    fn mixed(texts: &[(&str, &'static str)], times: Times) -> Result<Vec<(u64, String, String, u64)>> {
        let source = |&(name, text): &(&str, &'static str)| {
            let span = Span::of(name, reader(text).as_mut(), None, &mut |_| {})?;
            Ok(Source { name: name.to_owned(), reader: reader(text), span })
        };
        let mut mix = Mix::new(texts.iter().map(source).collect::<Result<_>>()?, times, None)?;
        let mut names = Names::new();
        let mut requests = Vec::new();
        while let Some(Request { time, owner, object, offset, .. }) = mix.next(&mut names)? {
            let (owner, object) = (names.owner_name(owner).to_owned(), names.object_name(object).to_owned());
            requests.push((time, owner, object, offset));
        }
        Ok(requests)
    }

    fn times_and_offsets(requests: &[(u64, String, String, u64)]) -> Vec<(u64, u64)> {
        requests.iter().map(|&(time, .., offset)| (time, offset)).collect()
    }

    const A: (&str, &str) = ("a", "time_ns,owner,object,offset,length\n100,x,f,1,1\n300,y,f,2,1\n500,x,f,3,1\n");
    const B: (&str, &str) = ("b", "time_ns,owner,object,offset,length\n1000,x,,10,1\n1100,,f,20,1\n1050,,f,30,1\n");
    const UNTIMED: (&str, &str) = ("c", "offset,length\n5,1\n6,1\n7,1\n8,1\n");

    #[test]
    fn a_source_is_named_after_its_file_or_its_kind() {
        let names = ["/tmp/gzip.lackey.zst", "zipf:pages=10", "web", ".hidden"].map(|input| name(input, &[]));
        assert_eq!(names, ["gzip", "zipf", "web", ".hidden"]);
    }

    #[test]
    fn recorded_times_order_the_requests_and_names_keep_sources_apart() {
        let requests = mixed(&[B, A], Times::Recorded).unwrap();
        let owners: Vec<&str> = requests.iter().map(|request| request.1.as_str()).collect();
        assert_eq!(owners, ["a/x", "a/y", "a/x", "b/x", "b", "b"]);
        let objects: Vec<&str> = requests.iter().map(|request| request.2.as_str()).collect();
        assert_eq!(objects, ["a/f", "a/f", "a/f", "b", "b/f", "b/f"]);
        // A source whose times go back keeps its order.
        assert_eq!(times_and_offsets(&requests)[3..], [(1000, 10), (1100, 20), (1100, 30)]);
    }

    #[test]
    fn from_their_starts_sources_begin_at_once() {
        let requests = mixed(&[A, B], Times::FromStart).unwrap();
        assert_eq!(times_and_offsets(&requests), [(0, 1), (0, 10), (100, 20), (100, 30), (200, 2), (400, 3)]);
    }

    #[test]
    fn scaled_sources_end_at_once_and_one_without_times_is_spread_by_references() {
        let requests = mixed(&[A, UNTIMED], Times::Scaled).unwrap();
        let expected = [(0, 1), (0, 5), (100, 6), (200, 2), (200, 7), (300, 8), (400, 3)];
        assert_eq!(times_and_offsets(&requests), expected);
        let requests = mixed(&[A, B], Times::Scaled).unwrap();
        assert_eq!(times_and_offsets(&requests), [(0, 1), (0, 10), (200, 2), (400, 3), (400, 20), (400, 30)]);
    }

    #[test]
    fn without_any_times_the_longest_source_sets_the_pace() {
        let requests = mixed(&[UNTIMED, ("d", "offset,length\n1,1\n2,1\n")], Times::Scaled).unwrap();
        let expected = [(0, 5), (0, 1), (1000, 6), (2000, 7), (2000, 2), (3000, 8)];
        assert_eq!(times_and_offsets(&requests), expected);
    }

    #[test]
    fn a_source_without_times_or_references_is_an_error_that_names_it() {
        let error = mixed(&[A, UNTIMED], Times::Recorded).unwrap_err().to_string();
        assert!(error.starts_with("c: has no times") && error.contains("--scale"), "{error}");
        let error = mixed(&[A, ("e", "offset,length\n")], Times::Scaled).unwrap_err().to_string();
        assert!(error.starts_with("e: has no references"), "{error}");
    }

    #[test]
    fn sources_that_count_differently_are_mixed_in_bytes() {
        let requests = mixed(&[A, ("p", "time_ns,page\n7,3\n")], Times::Recorded).unwrap();
        assert_eq!(times_and_offsets(&requests)[0], (7, 3 * DEFAULT_PAGE_SIZE));
        let error =
            mixed(&[A, ("p", "time_ns,page\n7,9999999999999999999\n")], Times::Recorded).unwrap_err().to_string();
        assert!(error.starts_with("p: an offset in bytes exceeds 2^64"), "{error}");
    }
}
