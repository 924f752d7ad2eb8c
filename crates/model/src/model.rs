//! A device's parameters, as read from TOML.

use crate::disk::{Disk, Rotation};
use crate::parallel::{Flash, Network, Object};
use crate::queue::Scheduler;
use crate::units::Amount;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use toml::Spanned;

/// What a device is.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it is called in a sentence.
    pub title: String,
    /// Where its figures come from.
    pub source: String,
    /// Which of the requests that wait is served next; for disks alone, others serve them at once.
    pub scheduler: Scheduler,
    /// How long a request may wait under [`Scheduler::Deadline`].
    pub deadline_ms: f64,
    /// Its kind, with its parameters.
    pub kind: Kind,
}

/// The kinds of devices.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A disk.
    Disk(Disk),
    /// Flash.
    Flash(Flash),
    /// A volume behind a network.
    Network(Network),
    /// Storage of objects.
    Object(Object),
}

/// What is wrong with a model's TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongModel {
    /// The line, from 1, and what stands there; none if something is missing in the whole.
    pub line: Option<(usize, String)>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for WrongModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some((number, text)) => write!(f, "line {number}, `{text}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for WrongModel {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    scheduler: Option<Spanned<Scheduler>>,
    /// Linux's `read_expire`.
    #[serde(default = "half_a_second")]
    deadline_ms: Amount,
    disk: Option<Spanned<Disk>>,
    flash: Option<Spanned<Flash>>,
    network: Option<Spanned<Network>>,
    object: Option<Spanned<Object>>,
}

fn half_a_second() -> Amount {
    Amount::try_from(500.0).expect("it is above 0")
}

impl FromStr for Model {
    type Err = WrongModel;

    fn from_str(text: &str) -> Result<Self, WrongModel> {
        let wrong = |at: Option<usize>, message: &str| {
            let line = at.map(|at| {
                let before = &text.as_bytes()[..at.min(text.len())];
                let number = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
                (number, text.lines().nth(number - 1).unwrap_or_default().trim().to_owned())
            });
            WrongModel { line, message: message.replace('\n', " ") }
        };
        let written: Written =
            toml::from_str(text).map_err(|error| wrong(error.span().map(|span| span.start), error.message()))?;
        let Written { title, source, scheduler, deadline_ms, disk, flash, network, object } = written;
        let kinds = [
            disk.map(|disk| (disk.span(), Kind::Disk(disk.into_inner()))),
            flash.map(|flash| (flash.span(), Kind::Flash(flash.into_inner()))),
            network.map(|network| (network.span(), Kind::Network(network.into_inner()))),
            object.map(|object| (object.span(), Kind::Object(object.into_inner()))),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let (span, kind) = kinds
            .next()
            .ok_or_else(|| wrong(None, "says no kind of device: write [disk], [flash], [network] or [object]"))?;
        if let Some((second, _)) = kinds.next() {
            let later = second.start.max(span.start);
            return Err(wrong(
                Some(later),
                "a device is of one kind: write one of [disk], [flash], [network] and [object]",
            ));
        }
        match &kind {
            Kind::Disk(disk) => {
                if disk.rotation == Rotation::Tracked && disk.zones.is_empty() {
                    return Err(wrong(
                        Some(span.start),
                        "a tracked rotation needs `zones`, which say how long a track is",
                    ));
                }
            }
            _ => {
                if let Some(scheduler) = &scheduler {
                    return Err(wrong(Some(scheduler.span().start), "only a [disk] has a scheduler: leave it out"));
                }
            }
        }
        let scheduler = scheduler.map_or_else(Scheduler::default, Spanned::into_inner);
        Ok(Self { title, source, scheduler, deadline_ms: deadline_ms.get(), kind })
    }
}
