//! A report in the words of Prometheus: the OpenMetrics text.

use crate::figures::{CacheReport, Report, VolumeReport};
use crate::paging::figures::MemoryFigures;
use crate::steering::figures::PageCacheFigures;
use forebay_figures::{Figure, Kind, Value};
use forebay_nbd::{Counts, Requests, ServerCounts};
use forebay_owning::Counts as ManagerCounts;
use forebay_pool::{DeviceStatistics, ShareStatistics, Statistics, VolumeStatistics};
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

/// A metric before its rows: its name, what it says, and what it is.
type Head<'a> = (&'a str, &'a str, Kind);

/// Writes families of figures.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn family<'l>(
        &mut self,
        (name, help, kind): Head<'_>,
        rows: impl IntoIterator<Item = (Labels<'l>, Value<'l>)>,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let (unit, metric) = match kind {
            Kind::Count => (None, MetricType::Counter),
            Kind::Level => (None, MetricType::Gauge),
            Kind::Bytes => (Some(Unit::Bytes), MetricType::Gauge),
            Kind::Seconds => (Some(Unit::Seconds), MetricType::Gauge),
            Kind::Times => (Some(Unit::Seconds), MetricType::Histogram),
            Kind::Lengths => (Some(Unit::Bytes), MetricType::Histogram),
        };
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), metric)?;
        for (labels, value) in rows {
            if labels.is_empty() {
                encode(&mut family, kind, value)?;
            } else {
                encode(&mut family.encode_family(&labels)?, kind, value)?;
            }
        }
        Ok(())
    }

    /// Figures that are declared, of things that have these labels.
    fn figures<S>(&mut self, figures: &[Figure<S>], things: &[(Labels<'_>, &S)]) -> fmt::Result {
        for family in figures.chunk_by(|one, next| one.metric == next.metric) {
            let help: Vec<&str> = family.iter().map(Figure::meaning).collect();
            let rows = things.iter().flat_map(|(labels, thing)| {
                family.iter().map(|figure| (labels.iter().copied().chain(figure.label).collect(), figure.of(thing)))
            });
            self.family((family[0].metric, &help.join("; "), family[0].kind), rows)?;
        }
        Ok(())
    }
}

/// A row: times in seconds, as Prometheus wants them.
fn encode(encoder: &mut MetricEncoder<'_>, kind: Kind, value: Value<'_>) -> fmt::Result {
    match value {
        Value::Number(count) if kind == Kind::Count => encoder.encode_counter::<NoLabelSet, u64, f64>(&count, None),
        Value::Number(level) => encoder.encode_gauge(&(level as f64)),
        Value::Real(level) => encoder.encode_gauge(&level),
        Value::Distribution(values) => {
            let scale = if kind == Kind::Times { 1e9 } else { 1.0 };
            let powers = values.by_powers_of_two();
            let mut buckets: Vec<(f64, u64)> = powers.map(|(bound, count)| (bound as f64 / scale, count)).collect();
            buckets.push((f64::INFINITY, 0));
            let none: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
            encoder.encode_histogram(values.sum as f64 / scale, values.count(), &buckets, none)
        }
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let report = &self.0;
        let mut page = Page(encoder);
        let uptime = [(vec![], (&report.uptime_seconds).into())];
        page.family(("uptime", "Since the server started", Kind::Seconds), uptime)?;
        page.figures(ServerCounts::FIGURES, &[(vec![], &report.connections)])?;
        let recorded = [("written", report.recorded), ("lost", report.record_lost)];
        let rows = recorded.iter().filter_map(|(what, count)| Some((vec![("outcome", *what)], count.as_ref()?.into())));
        let help = "References of the trace being recorded, and those left out";
        page.family(("recorded_references", help, Kind::Count), rows)?;
        let managers: Vec<_> = report.managers.iter().map(|counts| (vec![], counts)).collect();
        page.figures(ManagerCounts::FIGURES, &managers)?;
        let page_cache = report.page_cache.iter().map(|of| (vec![("of", &*of.name)], &of.figures));
        page.figures(PageCacheFigures::FIGURES, &page_cache.collect::<Vec<_>>())?;
        let memory = report.memory.iter().map(|of| (vec![("of", &*of.name)], &of.figures));
        page.figures(MemoryFigures::FIGURES, &memory.collect::<Vec<_>>())?;
        caches(&mut page, &report.caches)?;
        volumes(&mut page, &report.volumes)
    }
}

fn caches(page: &mut Page<'_>, caches: &[CacheReport]) -> fmt::Result {
    fn labels(cache: &CacheReport) -> Labels<'_> {
        vec![("cache", &cache.name), ("policy", &cache.pool.policy)]
    }
    let pools: Vec<_> = caches.iter().map(|cache| (labels(cache), &cache.pool)).collect();
    page.figures(Statistics::FIGURES, &pools)?;
    let references: Vec<u64> = caches.iter().map(|cache| cache.pool.hits + cache.pool.misses).collect();
    let rows = caches.iter().zip(&references).map(|(cache, count)| (labels(cache), count.into()));
    page.family(("cache_references", "Hits and misses", Kind::Count), rows)?;
    let states = caches.iter().flat_map(|cache| {
        let named = |figure| labels(cache).into_iter().chain([("figure", figure)]).collect();
        cache.pool.policy_state.iter().map(move |(figure, value)| (named(&**figure), value.into()))
    });
    page.family(("policy_state", "What the policy says of itself", Kind::Level), states)
}

fn volumes(page: &mut Page<'_>, volumes: &[VolumeReport]) -> fmt::Result {
    fn of<S>(volumes: &[VolumeReport], part: fn(&VolumeReport) -> Option<&S>) -> Vec<(Labels<'_>, &S)> {
        let labelled = |volume| Some((labels(volume), part(volume)?));
        volumes.iter().filter_map(labelled).collect()
    }
    fn labels(volume: &VolumeReport) -> Labels<'_> {
        vec![("volume", &volume.pool.name), ("cache", &volume.cache)]
    }
    page.figures(VolumeStatistics::FIGURES, &of(volumes, |volume| Some(&volume.pool)))?;
    page.figures(ShareStatistics::FIGURES, &of(volumes, |volume| volume.pool.share.as_ref()))?;
    page.figures(DeviceStatistics::FIGURES, &of(volumes, |volume| Some(&volume.pool.device)))?;
    page.figures(Counts::FIGURES, &of(volumes, |volume| Some(&volume.clients)))?;
    page.figures(Requests::FIGURES, &of(volumes, |volume| Some(&volume.clients.requests)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_figures::Distribution;

    #[test]
    fn a_report_is_a_page_of_families_with_labels() {
        let pool = Statistics {
            policy: "lru".to_owned(),
            hits: 3,
            misses: 1,
            miss_time: Distribution { buckets: vec![0, 0, 1], sum: 3 },
            policy_state: [("cold target".to_owned(), 2.5)].into(),
            ..Statistics::default()
        };
        let cache = CacheReport { name: "shared".to_owned(), pool };
        let mut volume = VolumeReport { cache: "shared".to_owned(), ..VolumeReport::default() };
        volume.pool.name = "a".to_owned();
        volume.clients.requests.read = 4;
        volume.pool.share = Some(ShareStatistics { min: 1, max: 3, resident: 2 });
        let page = text(Report { caches: vec![cache], volumes: vec![volume], ..Report::default() });
        for line in [
            "forebay_cache_hits_total{cache=\"shared\",policy=\"lru\"} 3",
            "forebay_policy_state{cache=\"shared\",policy=\"lru\",figure=\"cold target\"} 2.5",
            "forebay_volume_share_bytes{volume=\"a\",cache=\"shared\",figure=\"max\"} 3.0",
            "# HELP forebay_device_requests Reads from the device; Writes to the device; Flushes of the device",
            "forebay_client_requests_total{volume=\"a\",cache=\"shared\",command=\"read\"} 4",
            "forebay_cache_miss_time_seconds_bucket{le=\"+Inf\",cache=\"shared\",policy=\"lru\"} 1",
            "forebay_cache_miss_time_seconds_count{cache=\"shared\",policy=\"lru\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
        assert!(!page.contains("recorded"), "nothing is recorded");
    }
    /// The metrics that a set of figures makes, as rows of the manual.
    fn rows<S>(figures: &[Figure<S>], labels: &str) -> String {
        let families = figures.chunk_by(|one, next| one.metric == next.metric);
        let row = |family: &[Figure<S>]| {
            let Figure { metric, kind, label, .. } = &family[0];
            let (suffix, unit) = match kind {
                Kind::Count => ("_total", "counter"),
                Kind::Level => ("", "gauge"),
                Kind::Bytes => ("_bytes", "gauge, bytes"),
                Kind::Seconds => ("_seconds", "gauge, s"),
                Kind::Times => ("_seconds", "histogram, s"),
                Kind::Lengths => ("_bytes", "histogram, bytes"),
            };
            let labels: Vec<&str> =
                labels.split(' ').chain(label.map(|(name, _)| name)).filter(|label| !label.is_empty()).collect();
            let meaning: Vec<&str> = family.iter().map(Figure::meaning).collect();
            format!("| `forebay_{metric}{suffix}` | {unit} | {} | {} |\n", labels.join(", "), meaning.join("; "))
        };
        families.map(row).collect()
    }

    #[test]
    fn the_manual_has_every_metric() {
        let own = "| `forebay_uptime_seconds` | gauge, s |  | Since the server started |\n\
            | `forebay_recorded_references_total` | counter | outcome | References of the trace being recorded, and those left out |\n\
            | `forebay_cache_references_total` | counter | cache, policy | Hits and misses |\n\
            | `forebay_policy_state` | gauge | cache, policy, figure | What the policy says of itself |\n";
        let (cache, volume) = ("cache policy", "volume cache");
        let made = [
            "| metric | kind, unit | labels | |\n| --- | --- | --- | --- |\n".to_owned(),
            own.to_owned(),
            rows(ServerCounts::FIGURES, ""),
            rows(ManagerCounts::FIGURES, ""),
            rows(PageCacheFigures::FIGURES, "of"),
            rows(Statistics::FIGURES, cache),
            rows(VolumeStatistics::FIGURES, volume),
            rows(ShareStatistics::FIGURES, volume),
            rows(DeviceStatistics::FIGURES, volume),
            rows(Counts::FIGURES, volume),
            rows(Requests::FIGURES, volume),
        ]
        .concat();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas.md");
        let page = std::fs::read_to_string(page).expect("docs/schemas.md is there");
        assert!(page.contains(&made), "docs/schemas.md is not current: its metrics are\n{made}");
    }
}
