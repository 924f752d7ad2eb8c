//! Naming a device on the command line, and telling what it costs.

use forebay_sim::device::presets;
use forebay_sim::{Cost, Model};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// A device as the user named it.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) model: Arc<Model>,
}

/// The device called `name`: a preset, or a TOML file.
pub(crate) fn parse(name: &str) -> Result<Device, String> {
    if let Some(preset) = presets::named(name) {
        return Ok(Device { name: name.to_owned(), model: Arc::new(preset.model()) });
    }
    if !name.ends_with(".toml") && !Path::new(name).exists() {
        let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
        return Err(format!("there is no such device; there are {}, or name a TOML file", names.join(", ")));
    }
    let text = std::fs::read_to_string(name).map_err(|error| format!("it cannot be read: {error}"))?;
    let model: Model = text.parse().map_err(|wrong| format!("{wrong}"))?;
    Ok(Device { name: name.to_owned(), model: Arc::new(model) })
}

/// What misses cost, by name.
pub(crate) fn to_json(cost: Cost) -> serde_json::Value {
    json!({
        "device_ms": cost.device_ms,
        "wait_mean_ms": cost.wait_mean_ms,
        "wait_p99_ms": cost.wait_p99_ms,
        "requests": cost.requests,
        "mean_request_pages": cost.mean_request_pages,
        "bytes": cost.bytes,
        "price": cost.price,
    })
}
