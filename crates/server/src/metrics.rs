//! A report in the words of Prometheus: the OpenMetrics text.

use crate::report::{CacheReport, Histogram, Report, VolumeReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::fmt::{self, Debug};

/// What a scrape is answered with.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of a report.
pub(crate) fn text(report: Report) -> String {
    let mut registry = Registry::with_prefix("forebay");
    registry.register_collector(Box::new(Figures(report)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes all that is written");
    text
}

#[derive(Debug)]
struct Figures(Report);

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Writes families of figures.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn family<'l, T>(
        &mut self,
        (name, help, unit, kind): (&str, &str, Option<&Unit>, MetricType),
        rows: impl IntoIterator<Item = (Labels<'l>, T)>,
        mut encode: impl FnMut(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in rows {
            if labels.is_empty() {
                encode(&mut family, value)?;
            } else {
                encode(&mut family.encode_family(&labels)?, value)?;
            }
        }
        Ok(())
    }

    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> fmt::Result {
        self.family((name, help, None, MetricType::Counter), rows, |encoder, value| {
            encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
        })
    }

    fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        rows: impl IntoIterator<Item = (Labels<'l>, f64)>,
    ) -> fmt::Result {
        self.family((name, help, unit, MetricType::Gauge), rows, |encoder, value| encoder.encode_gauge(&value))
    }

    /// Histograms whose values are divided by `scale`.
    fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        (unit, scale): (&Unit, f64),
        rows: impl IntoIterator<Item = (Labels<'l>, &'l Histogram)>,
    ) -> fmt::Result {
        self.family((name, help, Some(unit), MetricType::Histogram), rows, |encoder, histogram| {
            let mut buckets: Vec<(f64, u64)> =
                (0..).zip(&histogram.buckets).map(|(power, &count)| (2_f64.powi(power) / scale, count)).collect();
            buckets.push((f64::INFINITY, 0));
            let count = histogram.buckets.iter().sum();
            let none: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
            encoder.encode_histogram(histogram.sum as f64 / scale, count, &buckets, none)
        })
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = &self.0;
        let mut page = Page(encoder);
        page.gauges("uptime", "Since the server started", Some(&Unit::Seconds), [(vec![], report.uptime_seconds)])?;
        page.gauges("connections", "Connections now", None, [(vec![], report.connections as f64)])?;
        let ended = [
            ("accepted", report.connections_accepted),
            ("refused", report.connections_refused),
            ("malformed", report.connections_malformed),
        ];
        let rows = ended.map(|(what, count)| (vec![("outcome", what)], count));
        page.counters(
            "connection_outcomes",
            "Connections accepted, refused as too many, and ended as malformed",
            rows,
        )?;
        let recorded = [("written", report.recorded), ("lost", report.record_lost)];
        let rows = recorded.into_iter().filter_map(|(what, count)| Some((vec![("outcome", what)], count?)));
        page.counters("recorded_references", "References of the trace being recorded, and those left out", rows)?;
        caches(&mut page, &report.caches)?;
        volumes(&mut page, &report.volumes)
    }
}

/// A figure's name, what it says, and how it is had of a report.
type Figure<R, T> = (&'static str, &'static str, fn(&R) -> T);

/// The same with its unit.
type Measure<R> = (&'static str, &'static str, Option<&'static Unit>, fn(&R) -> f64);

type HistogramOf = fn(&CacheReport) -> &Histogram;

fn caches(page: &mut Page<'_>, caches: &[CacheReport]) -> fmt::Result {
    fn labels(cache: &CacheReport) -> Labels<'_> {
        vec![("cache", &cache.name), ("policy", &cache.policy)]
    }
    let counts: [Figure<CacheReport, u64>; 7] = [
        ("cache_hits", "References that found their page resident", |cache| cache.hits),
        ("cache_misses", "References that did not find their page resident", |cache| cache.misses),
        ("cache_evictions", "Pages evicted", |cache| cache.evictions),
        ("cache_rescued", "Misses of evicted pages that were still to be written", |cache| cache.rescued),
        ("cache_refused_dirty", "Victims refused because they were dirty", |cache| cache.refused_dirty),
        ("cache_readahead_wasted", "Pages read ahead and evicted unused", |cache| cache.readahead_wasted),
        ("cache_references", "Hits and misses", |cache| cache.hits + cache.misses),
    ];
    for (name, help, of) in counts {
        page.counters(name, help, caches.iter().map(|cache| (labels(cache), of(cache))))?;
    }
    let sizes: [Measure<CacheReport>; 7] = [
        ("cache_capacity", "Memory of all frames", Some(&Unit::Bytes), |cache| cache.capacity as f64),
        ("cache_page", "A page", Some(&Unit::Bytes), |cache| cache.page_size.into()),
        ("cache_metadata", "Memory of metadata", Some(&Unit::Bytes), |cache| cache.metadata as f64),
        ("cache_resident_pages", "Resident pages", None, |cache| cache.resident.into()),
        ("cache_ghosts", "Pages that the policy remembers", None, |cache| cache.ghosts.into()),
        ("cache_dirty_pages", "Dirty pages", None, |cache| cache.dirty as f64),
        ("cache_laundry_pages", "Evicted pages that are still to be written", None, |cache| cache.laundry.into()),
    ];
    for (name, help, unit, of) in sizes {
        page.gauges(name, help, unit, caches.iter().map(|cache| (labels(cache), of(cache))))?;
    }
    let state = caches.iter().flat_map(|cache| {
        cache.policy_state.iter().map(|(figure, &value)| {
            let mut named = labels(cache);
            named.push(("figure", figure));
            (named, value)
        })
    });
    page.gauges("policy_state", "What the policy says of itself", None, state)?;
    let times: [(&str, &str, HistogramOf); 2] = [
        ("cache_hit_time", "The time of a hit, one of 64 measured", |cache| &cache.hit_time),
        ("cache_miss_time", "The time of a miss", |cache| &cache.miss_time),
    ];
    for (name, help, of) in times {
        page.histograms(name, help, (&Unit::Seconds, 1e9), caches.iter().map(|cache| (labels(cache), of(cache))))?;
    }
    Ok(())
}

fn volumes(page: &mut Page<'_>, volumes: &[VolumeReport]) -> fmt::Result {
    fn labels(volume: &VolumeReport) -> Labels<'_> {
        vec![("volume", &volume.name), ("cache", &volume.cache)]
    }
    fn with<'v>(volume: &'v VolumeReport, name: &'v str, value: &'v str) -> Labels<'v> {
        let mut named = labels(volume);
        named.push((name, value));
        named
    }
    let counts: [Figure<VolumeReport, u64>; 12] = [
        ("volume_hits", "References that found their page resident", |volume| volume.hits),
        ("volume_misses", "References that did not find their page resident", |volume| volume.misses),
        ("volume_readahead_pages", "Pages read ahead", |volume| volume.pages_read_ahead),
        ("volume_readahead_used", "Pages read ahead that were used", |volume| volume.readahead_used),
        ("volume_writeback_pages", "Pages written back", |volume| volume.pages_written_back),
        ("volume_writeback_failures", "Pages whose writeback failed; they stay dirty", |volume| {
            volume.failed_writebacks
        }),
        ("client_connections", "Connections that have chosen the volume", |volume| volume.clients.connections),
        ("client_immediate", "Requests answered without waiting", |volume| volume.clients.immediate),
        ("client_errors", "Requests answered with an error", |volume| volume.clients.errors),
        ("client_read_bytes", "Bytes that clients have read", |volume| volume.clients.read_bytes),
        ("client_written_bytes", "Bytes that clients have written", |volume| volume.clients.written_bytes),
        ("device_errors", "Requests to the device that failed", |volume| volume.device.errors),
    ];
    for (name, help, of) in counts {
        page.counters(name, help, volumes.iter().map(|volume| (labels(volume), of(volume))))?;
    }
    let requests = volumes.iter().flat_map(|volume| {
        volume.clients.requests.iter().map(move |(command, &count)| (with(volume, "command", command), count))
    });
    page.counters("client_requests", "Requests of clients", requests)?;
    let requests = volumes.iter().flat_map(|volume| {
        let device = &volume.device;
        [("read", device.reads), ("write", device.writes), ("flush", device.flushes)]
            .map(|(operation, count)| (with(volume, "operation", operation), count))
    });
    page.counters("device_requests", "Requests to the device", requests)?;
    let bytes = volumes.iter().flat_map(|volume| {
        [("read", volume.device.read_bytes), ("write", volume.device.written_bytes)]
            .map(|(operation, count)| (with(volume, "operation", operation), count))
    });
    page.counters("device_bytes", "Bytes read from and written to the device", bytes)?;
    let sizes: [Measure<VolumeReport>; 2] = [
        ("volume_size", "The volume", Some(&Unit::Bytes), |volume| volume.size as f64),
        ("volume_dirty_pages", "Dirty pages", None, |volume| volume.dirty as f64),
    ];
    for (name, help, unit, of) in sizes {
        page.gauges(name, help, unit, volumes.iter().map(|volume| (labels(volume), of(volume))))?;
    }
    let shares = volumes.iter().filter_map(|volume| Some((volume, volume.share?))).flat_map(|(volume, share)| {
        [("min", share.min), ("max", share.max), ("resident", share.resident)]
            .map(|(figure, bytes)| (with(volume, "figure", figure), bytes as f64))
    });
    page.gauges("volume_share", "What the volume has of its cache", Some(&Unit::Bytes), shares)?;
    let lengths = volumes.iter().map(|volume| (labels(volume), &volume.device.request_lengths));
    page.histograms("device_request_length", "The lengths of requests to the device", (&Unit::Bytes, 1.0), lengths)?;
    let times = volumes.iter().flat_map(|volume| {
        [("read", &volume.device.read_time), ("write", &volume.device.write_time)]
            .map(|(operation, histogram)| (with(volume, "operation", operation), histogram))
    });
    page.histograms("device_request_time", "The time of requests to the device", (&Unit::Seconds, 1e9), times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_page_of_families_with_labels() {
        let cache = CacheReport {
            name: "shared".to_owned(),
            policy: "lru".to_owned(),
            hits: 3,
            misses: 1,
            miss_time: Histogram { buckets: vec![0, 0, 1], sum: 3 },
            policy_state: [("cold target".to_owned(), 2.5)].into(),
            ..CacheReport::default()
        };
        let mut volume = VolumeReport { name: "a".to_owned(), cache: "shared".to_owned(), ..VolumeReport::default() };
        volume.clients.requests.insert("read".to_owned(), 4);
        let page = text(Report { caches: vec![cache], volumes: vec![volume], ..Report::default() });
        for line in [
            "forebay_cache_hits_total{cache=\"shared\",policy=\"lru\"} 3",
            "forebay_policy_state{cache=\"shared\",policy=\"lru\",figure=\"cold target\"} 2.5",
            "forebay_client_requests_total{volume=\"a\",cache=\"shared\",command=\"read\"} 4",
            "forebay_cache_miss_time_seconds_bucket{le=\"+Inf\",cache=\"shared\",policy=\"lru\"} 1",
            "forebay_cache_miss_time_seconds_count{cache=\"shared\",policy=\"lru\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
        assert!(!page.contains("recorded"), "nothing is recorded");
    }
}
