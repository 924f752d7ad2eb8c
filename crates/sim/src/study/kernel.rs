//! What the kernel's own page cache of the same memory would make of a trace, alone and steered: what users have without a front end of ours.
//!
//! Both read ahead as Linux 6.18 does. Steered means that a policy of ours decides what leaves, as with `forebay steer`. The kernel has all the
//! memory of the recorded cache: the part that a front end of ours leaves to its policy is smaller (31/32).

use super::advice::Take;
use super::comparison::{Asked, Comparison, replay};
use super::error::{Error, Stop};
use super::monitor::Monitor;
use crate::input::trace::{Dimensions, Trace};
use crate::readahead::Readahead;
use crate::replay::outcome::RunOutcome;
use crate::replay::sweep::Sweep;
use crate::replay::watch::Watch;
use crate::words::{counted, significant};
use forebay_basis::show_bytes;
use forebay_policy::Spec;
use forebay_policy::managers::Rules;
use forebay_trace::Circumstances;

/// The model of its page replacement.
const POLICY: &str = "linux:kernel=6";
/// What it reads ahead unless a device is set otherwise.
const READAHEAD: &str = "kernel";
/// A front end that brings in this share less than the kernel is worth its own time.
const WORTH: f64 = 0.03;
/// Times that differ by less than this share are equal.
const NEAR: f64 = 0.05;
/// What `forebay steer` counts in, and how many of them it takes at least.
const MACHINE_PAGE: u64 = 4096;
const LEAST_PAGES: u64 = 64;
/// Steering brings in as few pages as a front end if it is no more than this share above.
const AS_FEW: f64 = 0.02;

/// The kernel's own page cache at each size of a comparison.
#[derive(Debug)]
pub struct BesideKernel {
    /// What it reads ahead.
    pub readahead: Readahead,
    /// By size: under the kernel's own replacement.
    pub alone: Vec<RunOutcome>,
    /// By policy, then by size: steered. None where nothing can be steered, as behind a volume.
    pub steered: Vec<RunOutcome>,
    /// The requests of the trace.
    pub requests: u64,
}

/// The pages that come into a cache: those that miss, and those read ahead.
pub fn brought_in(outcome: &RunOutcome) -> u64 {
    outcome.counted.misses + outcome.readahead.map_or(0, |ahead| ahead.fetched)
}

/// What the kernel would do in place of a front end.
struct Peer {
    readahead: Readahead,
    steers: bool,
}

impl Peer {
    /// None where the trace is not a front end's.
    fn of(recorded: Option<&Circumstances>, asked: bool) -> Option<Self> {
        let rule = |rule: &str| rule.parse().expect("there is such a rule");
        match recorded.map(|recorded| &*recorded.front_end) {
            Some("mount") => Some(Self { readahead: rule(READAHEAD), steers: true }),
            Some("serve" | "steer") => Some(Self { readahead: rule(READAHEAD), steers: false }),
            // Its swap.
            Some("run") => Some(Self { readahead: rule("none"), steers: false }),
            _ if asked => Some(Self { readahead: rule(READAHEAD), steers: true }),
            _ => None,
        }
    }
}

impl Asked {
    /// Whether the kernel's own cache is to be among the answers.
    pub(super) fn wants_kernel(&self, recorded: Option<&Circumstances>) -> bool {
        let comparable = self.behind.is_none() && self.sample.is_none() && !self.epochs;
        comparable && self.kernel != Some(false) && Peer::of(recorded, self.kernel == Some(true)).is_some()
    }

    /// Replays a trace in the kernel's own page cache, at the sizes of a comparison.
    pub(super) fn beside_kernel(
        &self,
        of: &Sweep,
        trace: &Trace,
        monitor: &dyn Monitor,
    ) -> Result<(Option<BesideKernel>, Option<Stop>), Error> {
        let recorded = trace.circumstances.as_ref();
        let Some(Peer { readahead, steers }) = Peer::of(recorded, true).filter(|_| self.kernel == Some(true)) else {
            return Ok((None, None));
        };
        let mut specs = vec![Spec::parse(POLICY).expect("the policy is in the registry")];
        if steers {
            // The command that is advised has no rules.
            let managed = |spec: &Spec| self.managers.is_some() && Rules::are_for(spec);
            specs.extend(of.specs.iter().filter(|spec| !spec.needs_future() && !managed(spec)).cloned());
        }
        let sizes = of.sizes.iter().map(|&pages| whole(pages, recorded)).collect();
        let sweep = Sweep { specs, sizes, ..of.clone() };
        let watch = Watch { readahead: readahead.clone(), states: 0, distances: false, by: None, ..self.watch() };
        let (mut alone, stopped) = match replay(&sweep, &watch, trace, monitor) {
            Err(Error::Stopped(stop)) => return Ok((None, Some(stop))),
            replayed => replayed?,
        };
        if stopped.is_some() {
            return Ok((None, stopped));
        }
        let steered = alone.split_off(sweep.sizes.len());
        let requests = trace.requests.first.len() as u64;
        Ok((Some(BesideKernel { readahead, alone, steered, requests }), None))
    }
}

/// The pages of a cache's policy, of which all the memory has this many.
pub(super) fn of_policy(pages: u32, recorded: Option<&Circumstances>) -> u32 {
    let share = recorded.and_then(|recorded| Some((recorded.cache?, recorded.policy_bytes?)));
    match share {
        Some((cache, policy)) if policy > 0 && cache >= policy => {
            (u128::from(pages) * u128::from(policy) / u128::from(cache)).max(1) as u32
        }
        _ => pages,
    }
}

/// The pages of all the memory of a cache whose policy has this many.
fn whole(pages: u32, recorded: Option<&Circumstances>) -> u32 {
    let share = recorded.and_then(|recorded| Some((recorded.cache?, recorded.policy_bytes?)));
    match share {
        Some((cache, policy)) if policy > 0 && cache >= policy => {
            u32::try_from(u128::from(pages) * u128::from(cache) / u128::from(policy)).unwrap_or(u32::MAX)
        }
        _ => pages,
    }
}

impl BesideKernel {
    /// The outcomes of each steered policy, by size.
    pub fn steered(&self) -> impl Iterator<Item = &[RunOutcome]> {
        self.steered.chunks(self.alone.len().max(1))
    }

    /// The steered policy that brings in the fewest pages at a size.
    pub fn best_steered(&self, column: usize) -> Option<&RunOutcome> {
        self.steered().map(|of_policy| &of_policy[column]).min_by_key(|outcome| brought_in(outcome))
    }
}

/// What to say of the kernel beside what the advice takes. With less memory than may be asked for, a target is reached by what the advice takes alone.
pub(super) fn advice(comparison: &Comparison, take: &Take) -> Option<String> {
    let beside = comparison.beside_kernel.as_ref().filter(|_| comparison.reached.is_none())?;
    let front_end = comparison.front_end();
    let Some(column) = comparison.sizes.iter().position(|&(pages, _)| pages == take.pages) else {
        let text = " The kernel's own page cache does the same with memory for all pages: leave it to the kernel.";
        return Some(text.to_owned());
    };
    let ours =
        comparison.policies().map(|of_policy| &of_policy[column]).find(|outcome| outcome.policy == take.policy)?;
    let (kernel, trace) = (&beside.alone[column], &comparison.trace);
    let [of_ours, of_kernel] = [ours, kernel].map(brought_in);
    let all = match kernel.pages == take.pages {
        true => String::new(),
        false => format!(", {} with the part that is not the policy's,", trace.bytes_in_words(kernel.pages)),
    };
    let mut text = format!(
        " The kernel's own page cache with the same memory{all} would bring in {}, {}.",
        pages_in_words(of_kernel, trace),
        compared(of_kernel, of_ours, &take.policy)
    );
    let steered = beside.best_steered(column).map(|outcome| (outcome, brought_in(outcome)));
    let steer = |(outcome, of): (&RunOutcome, u64)| {
        format!(
            "{} would bring in {}, {}",
            command(trace, outcome),
            pages_in_words(of, trace),
            compared(of, of_kernel, "the kernel alone")
        )
    };
    if let Some(times) = Times::of(comparison, beside) {
        let of_steered = steered.map(|(outcome, _)| times.of_kernel(outcome));
        let (in_front, alone) = (times.of_front_end(ours), times.of_kernel(kernel));
        let least = of_steered.unwrap_or(f64::INFINITY).min(in_front);
        text += &format!(" {}: that is {} s with the {front_end}", times.in_words(), significant(in_front));
        text += &of_steered.map_or(String::new(), |steered| format!(", {} s steered", significant(steered)));
        text += &format!(" and {} s in the kernel alone.", significant(alone));
        text += &match steered {
            _ if alone <= (1.0 + NEAR) * least => " Leave it to the kernel.".to_owned(),
            Some(steered) if of_steered == Some(least) => format!(" So steer it: {}.", steer(steered)),
            _ => format!(" The {front_end} is worth its own time."),
        };
        return Some(text);
    }
    let worth = |of: u64| (of as f64) < (1.0 - WORTH) * of_kernel as f64;
    let as_few = |of: u64| of as f64 <= (1.0 + AS_FEW) * of_ours as f64;
    text += &match steered {
        Some(steered) if worth(steered.1) && (as_few(steered.1) || !worth(of_ours)) => {
            format!(" So steer it: {}, and hits stay the kernel's own.", steer(steered))
        }
        _ if worth(of_ours) => format!(" What a {front_end} itself takes for a request is not in this figure."),
        _ => format!(" So a {front_end} saves next to nothing: leave it to the kernel."),
    };
    Some(text)
}

/// The command that steers so, in whole pages of the machine's.
fn command(trace: &Dimensions, outcome: &RunOutcome) -> String {
    let size = (trace.bytes(outcome.pages) / MACHINE_PAGE).max(LEAST_PAGES) * MACHINE_PAGE;
    format!("`forebay steer DIRECTORY --policy {} --cache {}KiB --folio-limit 128KiB`", outcome.policy, size / 1024)
}

/// What a front end took while it was recorded, in seconds.
struct Times {
    requests: f64,
    request: f64,
    hit: f64,
    read: f64,
}

impl Times {
    /// None where it was not measured.
    fn of(comparison: &Comparison, beside: &BesideKernel) -> Option<Self> {
        let recorded = comparison.recorded.as_ref()?;
        let [request, hit, read] =
            [recorded.request_ns?, recorded.hit_ns?, recorded.read_ns?].map(|time| time as f64 / 1e9);
        Some(Self { requests: beside.requests as f64, request, hit, read })
    }

    fn of_front_end(&self, outcome: &RunOutcome) -> f64 {
        self.requests * self.request + outcome.counted.hits as f64 * self.hit + self.of_kernel(outcome)
    }

    /// The device's alone: the kernel takes next to nothing for a hit.
    fn of_kernel(&self, outcome: &RunOutcome) -> f64 {
        brought_in(outcome) as f64 * self.read
    }

    fn in_words(&self) -> String {
        let micros = |seconds: f64| significant(seconds * 1e6);
        format!(
            "While it was recorded a request took {} µs on its way, a page that hit {} µs, and the device {} µs for each page that it read",
            micros(self.request),
            micros(self.hit),
            micros(self.read)
        )
    }
}

fn pages_in_words(pages: u64, trace: &Dimensions) -> String {
    let bytes = show_bytes(pages * trace.page_size);
    format!("{} ({bytes})", counted(pages, "page"))
}

/// `12 % more than arc`
fn compared(of: u64, other: u64, than: &str) -> String {
    let percent = 100.0 * (of as f64 - other as f64) / other.max(1) as f64;
    match percent.abs() {
        share if share < 0.5 => format!("as many as {than}"),
        share => format!("{} % {} than {than}", significant(share), if percent > 0.0 { "more" } else { "fewer" }),
    }
}
