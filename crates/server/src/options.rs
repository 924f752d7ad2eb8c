//! The options that all services have, whatever they show: those of their cache, and of what runs beside it.

use crate::declared::options;
use crate::words::{Address, Age, Policy, Share, Size};
use clap::ValueEnum;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// How long a stopping service waits for storage that takes nothing, unless it is said.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(60);

options! {
    /// What runs beside a service.
    pub struct BesideOptions {
        /// Serve figures by HTTP: /metrics for Prometheus, /statistics as JSON for `forebay top`
        #[arg(long, value_name = "HOST:PORT")]
        pub metrics: Option<Address> = restart("metrics");
        /// Take commands of `forebay control` at a unix socket, its owner's alone
        #[arg(long, value_name = "PATH")]
        pub control: Option<PathBuf> = restart("control");
        /// Write the references to a trace, which is whole when the service has stopped
        #[arg(long, value_name = "FILE")]
        pub record: Option<PathBuf> = restart("record");
    }
}

options! {
    /// A cache, and what runs beside it. A service that knows better words for an option's help has them at its own struct.
    pub struct ServiceOptions {
        /// The size of the cache [default: 512MiB]
        #[arg(short, long, value_name = "SIZE")]
        pub cache: Option<Size> = live("cache");
        /// The policy of the cache: `forebay policies` lists them [default: clock-pro]
        #[arg(short, long, value_name = "NAME[:PARAMETER=VALUE]…")]
        pub policy: Option<Policy> = restart("policy");
        /// The page size of the cache, a power of two from 4KiB to 2MiB [default: 4KiB]
        #[arg(long, value_name = "SIZE")]
        pub page: Option<Size> = restart("page");
        /// What runs beside it.
        #[command(flatten)]
        pub beside: BesideOptions = part;
        /// Make files as slow as on a disk: a preset of `forebay devices`, or a TOML file
        #[arg(long, value_name = "DEVICE")]
        pub delay: Option<String> = restart("delay");
        /// The share of the cache that may be dirty before writers wait [default: 50%]
        #[arg(long, value_name = "SHARE")]
        pub dirty_limit: Option<Share> = live("dirty-limit");
        /// How long a page may be dirty before it is written back [default: 5s]
        #[arg(long, value_name = "TIME")]
        pub dirty_age: Option<Age> = live("dirty-age");
        /// How long a request to storage may take [default: for ever]
        #[arg(long, value_name = "TIME")]
        pub device_timeout: Option<Age> = restart("device-timeout");
        /// How long a stop waits for storage that takes nothing; then it names what is not durable, and exits with 1 [default: 60s]
        #[arg(long, value_name = "TIME")]
        pub stop_timeout: Option<Age> = restart("stop-timeout");
        /// Ask the system for huge pages for the cache
        #[arg(long)]
        pub huge_pages: bool = restart("huge-pages");
        /// Whether files bypass the system's page cache: `auto` where they can [default: auto]
        #[arg(long, value_enum, value_name = "WHEN", hide_possible_values = true)]
        pub direct: Option<Direct> = restart("direct");
    }
}

/// Whether files bypass the system's page cache.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Direct {
    /// Where they can
    #[default]
    Auto,
    /// It is an error if one cannot
    Yes,
    /// None does
    No,
}

impl ServiceOptions {
    /// How long storage is waited for that takes nothing, when it is to stop.
    pub(crate) fn patience(&self) -> Duration {
        self.stop_timeout.map_or(STOP_TIMEOUT, |limit| limit.0)
    }
}
