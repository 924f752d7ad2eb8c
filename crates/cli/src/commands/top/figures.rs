//! What happened between two reports, in rows of a table.

use comfy_table::{CellAlignment, Table, presets};
use forebay_server::{CacheReport, Report, VolumeReport};
use forebay_sim::study::{grouped, percent};
use std::io::Write;

/// The figures of the time between two reports.
pub(crate) struct Figures {
    /// A line on the server as a whole.
    pub(crate) head: String,
    /// Volumes, under their headings.
    pub(crate) volumes: Rows,
    /// Caches, under their headings.
    pub(crate) caches: Rows,
    /// What each cache's policy says of itself.
    pub(crate) states: Vec<String>,
}

/// Rows under headings; the first column is a name, the others are figures.
pub(crate) struct Rows {
    pub(crate) headings: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
}

const VOLUMES: &[&str] = &[
    "volume",
    "cache",
    "size",
    "hits %",
    "read/s",
    "written/s",
    "requests/s",
    "device read/s",
    "device written/s",
    "read ms",
    "write ms",
    "dirty pages",
    "errors",
];

const CACHES: &[&str] = &[
    "cache",
    "policy",
    "capacity",
    "page",
    "resident",
    "ghosts",
    "dirty",
    "hits %",
    "references/s",
    "evictions/s",
    "hit µs",
    "miss µs",
    "99 % of misses µs",
];

impl Figures {
    /// What happened from `before` to `now`. Before a server's start nothing had happened.
    pub(crate) fn new(now: &Report, before: &Report) -> Self {
        // A server that was started anew has counted from 0.
        let fresh = Report::default();
        let before = if before.uptime_seconds > now.uptime_seconds { &fresh } else { before };
        let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
        let volume = |volume: &VolumeReport| {
            let earlier = before.volumes.iter().find(|earlier| earlier.name == volume.name).cloned();
            volume_row(volume, &earlier.unwrap_or_default(), seconds)
        };
        let cache = |cache: &CacheReport| {
            let earlier = before.caches.iter().find(|earlier| earlier.name == cache.name).cloned();
            cache_row(cache, &earlier.unwrap_or_default(), seconds)
        };
        let recorded = now.recorded.map_or_else(String::new, |recorded| {
            let lost = now.record_lost.unwrap_or_default();
            format!(", {} references recorded, {} lost", grouped(recorded), grouped(lost))
        });
        Self {
            head: format!(
                "up {:.0} s, {} connections now, {} so far{recorded}",
                now.uptime_seconds,
                now.connections,
                grouped(now.connections_accepted)
            ),
            volumes: Rows { headings: VOLUMES, rows: now.volumes.iter().map(volume).collect() },
            caches: Rows { headings: CACHES, rows: now.caches.iter().map(cache).collect() },
            states: now.caches.iter().map(state).collect(),
        }
    }

    /// Everything as plain text.
    pub(crate) fn table(&self) -> String {
        let states: String = self.states.iter().map(|state| format!("{state}\n")).collect();
        format!("{}\n\n{}\n\n{}\n\n{states}", self.head, self.volumes.table(), self.caches.table())
    }

    /// The volumes' rows.
    pub(crate) fn write_csv(&self, out: impl Write) -> Result<(), csv::Error> {
        let mut rows = csv::Writer::from_writer(out);
        rows.write_record(self.volumes.headings)?;
        self.volumes.rows.iter().try_for_each(|row| rows.write_record(row))?;
        Ok(rows.flush()?)
    }
}

impl Rows {
    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.headings).add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate().skip(1) {
            if !TEXTS.contains(&self.headings[index]) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

/// Columns that hold words.
const TEXTS: &[&str] = &["cache", "policy"];

fn volume_row(now: &VolumeReport, before: &VolumeReport, seconds: f64) -> Vec<String> {
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let requests = |volume: &VolumeReport| volume.clients.requests.values().sum::<u64>();
    let ms = |nanoseconds: f64| format!("{:.2}", nanoseconds / 1e6);
    vec![
        now.name.clone(),
        now.cache.clone(),
        bytes(now.size as f64),
        hits(now.hits - before.hits.min(now.hits), now.misses - before.misses.min(now.misses)),
        bytes(rate(now.clients.read_bytes, before.clients.read_bytes)),
        bytes(rate(now.clients.written_bytes, before.clients.written_bytes)),
        grouped(rate(requests(now), requests(before)) as u64),
        bytes(rate(now.device.read_bytes, before.device.read_bytes)),
        bytes(rate(now.device.written_bytes, before.device.written_bytes)),
        ms(now.device.read_time.since(&before.device.read_time).mean()),
        ms(now.device.write_time.since(&before.device.write_time).mean()),
        grouped(now.dirty),
        grouped(now.clients.errors),
    ]
}

fn cache_row(now: &CacheReport, before: &CacheReport, seconds: f64) -> Vec<String> {
    let (hit, missed) = (now.hits - before.hits.min(now.hits), now.misses - before.misses.min(now.misses));
    let micros = |nanoseconds: f64| format!("{:.1}", nanoseconds / 1e3);
    let miss_time = now.miss_time.since(&before.miss_time);
    vec![
        now.name.clone(),
        now.policy.clone(),
        bytes(now.capacity as f64),
        bytes(now.page_size.into()),
        grouped(now.resident.into()),
        grouped(now.ghosts.into()),
        grouped(now.dirty),
        hits(hit, missed),
        grouped(((hit + missed) as f64 / seconds) as u64),
        grouped(((now.evictions - before.evictions.min(now.evictions)) as f64 / seconds) as u64),
        micros(now.hit_time.since(&before.hit_time).mean()),
        micros(miss_time.mean()),
        micros(miss_time.quantile(0.99) as f64),
    ]
}

fn state(cache: &CacheReport) -> String {
    let figures: Vec<String> = cache.policy_state.iter().map(|(name, value)| format!("{name} {value:.0}")).collect();
    format!("{} of cache {}: {}", cache.policy, cache.name, figures.join(", "))
}

/// The hit ratio in percent, if there were references.
fn hits(hits: u64, misses: u64) -> String {
    if hits + misses == 0 { "-".to_owned() } else { percent(hits as f64 / (hits + misses) as f64) }
}

/// Bytes in the unit that suits them.
fn bytes(bytes: f64) -> String {
    let (mut value, mut unit) = (bytes, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" || value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: f64, hits: u64, read: u64) -> Report {
        let cache = CacheReport { name: "shared".to_owned(), hits, misses: 100, ..CacheReport::default() };
        let mut volume = VolumeReport { name: "a".to_owned(), hits, misses: 100, ..VolumeReport::default() };
        volume.clients.read_bytes = read;
        Report { uptime_seconds: seconds, caches: vec![cache], volumes: vec![volume], ..Report::default() }
    }

    #[test]
    fn figures_are_of_the_time_between_two_reports() {
        let figures = Figures::new(&report(12.0, 700, 5 << 20), &report(10.0, 100, 1 << 20));
        let row = &figures.volumes.rows[0];
        assert_eq!([&row[3], &row[4]], ["100.0", "2.0 MiB"], "600 hits, and 4 MiB in 2 s");
        assert_eq!(figures.caches.rows[0][8], "300");
        assert!(figures.volumes.rows.iter().all(|row| row.len() == VOLUMES.len()));
        assert!(figures.caches.rows.iter().all(|row| row.len() == CACHES.len()));
    }

    #[test]
    fn a_server_started_anew_counts_from_its_start() {
        let figures = Figures::new(&report(2.0, 300, 0), &report(1000.0, 900, 0));
        assert_eq!(figures.volumes.rows[0][3], "75.0");
    }

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!([0.0, 1023.0, 1536.0, 200.0 * 1024.0].map(bytes), ["0 B", "1023 B", "1.5 KiB", "200 KiB"]);
    }
}
