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
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column: its heading, and its cell for what happened between two reports of one thing.
type Columns<T> = &'static [(&'static str, fn(&Change<'_, T>) -> String)];

/// What happened in so many seconds.
struct Change<'a, T> {
    now: &'a T,
    before: &'a T,
    seconds: f64,
}

impl<T> Change<'_, T> {
    fn count(&self, count: fn(&T) -> u64) -> u64 {
        count(self.now).saturating_sub(count(self.before))
    }

    fn rate(&self, count: fn(&T) -> u64) -> f64 {
        self.count(count) as f64 / self.seconds
    }
}

const VOLUMES: Columns<VolumeReport> = &[
    ("volume", |of| of.now.pool.name.clone()),
    ("cache", |of| of.now.cache.clone()),
    ("size", |of| bytes(of.now.pool.size as f64)),
    ("hits %", |of| hits(of.count(|of| of.pool.hits), of.count(|of| of.pool.misses))),
    ("read/s", |of| bytes(of.rate(|of| of.clients.read_bytes))),
    ("written/s", |of| bytes(of.rate(|of| of.clients.written_bytes))),
    ("requests/s", |of| grouped(of.rate(|of| of.clients.requests.all()) as u64)),
    ("device read/s", |of| bytes(of.rate(|of| of.pool.device.read_bytes))),
    ("device written/s", |of| bytes(of.rate(|of| of.pool.device.written_bytes))),
    ("read ms", |of| ms(of.now.pool.device.read_time.since(&of.before.pool.device.read_time).mean())),
    ("write ms", |of| ms(of.now.pool.device.write_time.since(&of.before.pool.device.write_time).mean())),
    ("dirty pages", |of| grouped(of.now.pool.dirty)),
    ("errors", |of| grouped(of.now.clients.errors)),
];

const CACHES: Columns<CacheReport> = &[
    ("cache", |of| of.now.name.clone()),
    ("policy", |of| of.now.pool.policy.clone()),
    ("capacity", |of| bytes(of.now.pool.capacity as f64)),
    ("page", |of| bytes(of.now.pool.page_size.into())),
    ("resident", |of| grouped(of.now.pool.resident.into())),
    ("ghosts", |of| grouped(of.now.pool.ghosts.into())),
    ("dirty", |of| grouped(of.now.pool.dirty)),
    ("hits %", |of| hits(of.count(|of| of.pool.hits), of.count(|of| of.pool.misses))),
    ("references/s", |of| {
        grouped(((of.count(|of| of.pool.hits) + of.count(|of| of.pool.misses)) as f64 / of.seconds) as u64)
    }),
    ("evictions/s", |of| grouped(of.rate(|of| of.pool.evictions) as u64)),
    ("hit µs", |of| micros(of.now.pool.hit_time.since(&of.before.pool.hit_time).mean())),
    ("miss µs", |of| micros(of.now.pool.miss_time.since(&of.before.pool.miss_time).mean())),
    ("99 % of misses µs", |of| micros(of.now.pool.miss_time.since(&of.before.pool.miss_time).quantile(0.99) as f64)),
];

fn ms(nanoseconds: f64) -> String {
    format!("{:.2}", nanoseconds / 1e6)
}

fn micros(nanoseconds: f64) -> String {
    format!("{:.1}", nanoseconds / 1e3)
}

impl Figures {
    /// What happened from `before` to `now`. Before a server's start nothing had happened.
    pub(crate) fn new(now: &Report, before: &Report) -> Self {
        // A server that was started anew has counted from 0.
        let fresh = Report::default();
        let before = if before.uptime_seconds > now.uptime_seconds { &fresh } else { before };
        let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
        let recorded = now.recorded.map_or_else(String::new, |recorded| {
            let lost = now.record_lost.unwrap_or_default();
            format!(", {} references recorded, {} lost", grouped(recorded), grouped(lost))
        });
        Self {
            head: format!(
                "up {:.0} s, {} connections now, {} so far{recorded}",
                now.uptime_seconds,
                now.connections.open,
                grouped(now.connections.accepted)
            ),
            volumes: Rows::new(VOLUMES, &now.volumes, &before.volumes, |of| &of.pool.name, seconds),
            caches: Rows::new(CACHES, &now.caches, &before.caches, |of| &of.name, seconds),
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
        rows.write_record(&self.volumes.headings)?;
        self.volumes.rows.iter().try_for_each(|row| rows.write_record(row))?;
        Ok(rows.flush()?)
    }
}

impl Rows {
    fn new<T: Default>(columns: Columns<T>, now: &[T], before: &[T], name: fn(&T) -> &str, seconds: f64) -> Self {
        let new = T::default();
        let row = |now: &T| {
            let before = before.iter().find(|earlier| name(earlier) == name(now)).unwrap_or(&new);
            columns.iter().map(|(_, cell)| cell(&Change { now, before, seconds })).collect()
        };
        Self { headings: columns.iter().map(|(heading, _)| *heading).collect(), rows: now.iter().map(row).collect() }
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.headings).add_rows(&self.rows);
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

fn state(cache: &CacheReport) -> String {
    let figures: Vec<String> =
        cache.pool.policy_state.iter().map(|(name, value)| format!("{name} {value:.0}")).collect();
    format!("{} of cache {}: {}", cache.pool.policy, cache.name, figures.join(", "))
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
        let mut cache = CacheReport { name: "shared".to_owned(), ..CacheReport::default() };
        (cache.pool.hits, cache.pool.misses) = (hits, 100);
        let mut volume = VolumeReport::default();
        (volume.pool.hits, volume.pool.misses, volume.clients.read_bytes) = (hits, 100, read);
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
