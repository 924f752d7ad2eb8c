//! Devices that serve many requests at once: flash, network block storage, object storage.

use crate::request::Request;
use crate::units::{Amount, Count, Positive, transfer_ms};
use serde::Deserialize;

/// A flash drive.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Microseconds from a read to its first byte.
    pub read_us: Amount,
    /// Microseconds that a write takes before its transfer.
    pub write_us: Amount,
    /// How many requests are served at once.
    pub channels: Count,
    /// Megabytes (10^6) a second, of all channels together.
    pub mb_s: Positive,
}

/// A volume behind a network.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Milliseconds from a request to its first byte.
    pub latency_ms: Amount,
    /// Megabytes (10^6) a second.
    pub mb_s: Positive,
    /// Requests a second.
    pub iops: Positive,
    /// A longer request counts as several.
    pub request_kib: Count,
}

/// Storage of objects, paid by the request.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Milliseconds from a request to its first byte.
    pub first_byte_ms: Amount,
    /// Megabytes (10^6) a second, of each connection.
    pub mb_s: Positive,
    /// How many parts are transferred at once.
    pub connections: Count,
    /// A longer request is made in parts.
    pub part_kib: Count,
    /// What 1,000 reads of a part cost.
    #[serde(default)]
    pub price_per_1000_reads: Amount,
    /// What 1,000 writes of a part cost.
    #[serde(default)]
    pub price_per_1000_writes: Amount,
    /// What 10^9 bytes cost.
    #[serde(default)]
    pub price_per_gb: Amount,
}

impl Object {
    pub(crate) fn price(&self, request: &Request) -> f64 {
        let each = if request.write { self.price_per_1000_writes } else { self.price_per_1000_reads };
        let parts = pieces(request.bytes, self.part_kib) as f64;
        parts * each.get() / 1e3 + request.bytes as f64 * self.price_per_gb.get() / 1e9
    }
}

/// How many pieces of this many KiB there are in this many bytes.
fn pieces(bytes: u64, kib: Count) -> u64 {
    bytes.div_ceil(u64::from(kib.get()) * 1024)
}

/// What goes on at once: the times at which it ends, at most this many.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    ends: Vec<f64>,
    most: usize,
}

impl Lanes {
    pub(crate) fn new(most: Count) -> Self {
        Self { ends: Vec::new(), most: most.get() as usize }
    }

    /// When one more may begin, from `at` on: it takes the place of one that has ended.
    fn begin(&mut self, at: f64) -> f64 {
        self.ends.retain(|&end| end > at);
        if self.ends.len() < self.most {
            return at;
        }
        let first = (0..self.most).min_by(|&one, &other| self.ends[one].total_cmp(&self.ends[other]));
        self.ends.swap_remove(first.expect("there is at least one"))
    }
}

/// A device of many lanes at work.
#[derive(Clone, Debug)]
pub(crate) enum Parallel {
    Flash { flash: Flash, lanes: Lanes, bus: f64 },
    Network { network: Network, next: f64, bus: f64 },
    Object { object: Object, lanes: Lanes },
}

impl Parallel {
    /// When a request is done.
    pub(crate) fn serve(&mut self, request: &Request) -> f64 {
        match self {
            Self::Flash { flash, lanes, bus } => {
                let latency = if request.write { flash.write_us } else { flash.read_us };
                let begin = lanes.begin(request.at);
                *bus = bus.max(begin + latency.get() / 1e3) + transfer_ms(request.bytes, flash.mb_s.get());
                lanes.ends.push(*bus);
                *bus
            }
            Self::Network { network, next, bus } => {
                let begin = next.max(request.at);
                *next = begin + pieces(request.bytes, network.request_kib) as f64 * 1e3 / network.iops.get();
                *bus = bus.max(begin + network.latency_ms.get()) + transfer_ms(request.bytes, network.mb_s.get());
                *bus
            }
            Self::Object { object, lanes } => {
                let part = u64::from(object.part_kib.get()) * 1024;
                let mut done = request.at;
                for index in 0..pieces(request.bytes, object.part_kib) {
                    let bytes = part.min(request.bytes - index * part);
                    let transfer = transfer_ms(bytes, object.mb_s.get());
                    let end = lanes.begin(request.at) + object.first_byte_ms.get() + transfer;
                    lanes.ends.push(end);
                    done = done.max(end);
                }
                done
            }
        }
    }
}
