//! The devices that are known by name.

use super::model::Model;

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

/// The preset of that name.
pub fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
