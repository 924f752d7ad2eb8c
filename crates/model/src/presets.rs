//! The devices that are known by name.

use crate::model::{Model, WrongModel};
use forebay_basis::spelling::{did_you_mean, same};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

/// A device with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, each with its source.
    pub toml: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset { name: $name, toml: include_str!(concat!("presets/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub const PRESETS: &[Preset] = presets![
    "table-1",
    "ultrastar-18zx",
    "desktop-7200",
    "nearline",
    "nvme",
    "sata-ssd",
    "network-block",
    "object-storage",
];

impl Preset {
    /// What it is.
    pub fn model(&self) -> Model {
        self.toml.parse().expect("the presets are well-formed")
    }
}

/// A device as a user names it: by a preset's name, or a TOML file's.
#[derive(Clone, Debug)]
pub struct Named {
    /// What the user wrote.
    pub name: String,
    /// Its parameters.
    pub model: Arc<Model>,
}

/// Why there is no device of a name.
#[derive(Debug)]
pub enum NoDevice {
    /// It is neither a preset nor a file.
    Unknown(String),
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is wrong.
    Wrong(WrongModel),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let meant = did_you_mean(name, PRESETS.iter().map(|preset| preset.name));
                write!(f, "there is no such device{meant}; there are {}, or name a TOML file", names())
            }
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Self::Wrong(wrong) => wrong.fmt(f),
        }
    }
}

impl std::error::Error for NoDevice {}

impl FromStr for Named {
    type Err = NoDevice;

    fn from_str(name: &str) -> Result<Self, NoDevice> {
        let preset = named(name);
        let model = match preset {
            Some(preset) => preset.model(),
            None if !name.ends_with(".toml") && !Path::new(name).exists() => {
                return Err(NoDevice::Unknown(name.to_owned()));
            }
            None => {
                let text = std::fs::read_to_string(name).map_err(NoDevice::Unreadable)?;
                text.parse().map_err(NoDevice::Wrong)?
            }
        };
        Ok(Self { name: preset.map_or(name, |preset| preset.name).to_owned(), model: Arc::new(model) })
    }
}

/// The names of the presets, for a message.
pub fn names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// The preset of that name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| same(preset.name, name))
}
