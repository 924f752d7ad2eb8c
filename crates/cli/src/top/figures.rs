//! What happened between two reports, in rows of a table.

use comfy_table::{CellAlignment, Table, presets};
use forebay_figures::Distribution;
use forebay_server::{CacheReport, MemoryReport, PageCacheReport, Report, VolumeReport};
use forebay_sim::study::{grouped, percent};
use forebay_sim::words::folded;
use std::io::Write;

/// The figures of the time between two reports.
pub(crate) struct Figures {
    /// A line on the server as a whole.
    pub(crate) head: String,
    /// The volumes, or the page cache or memory that is steered.
    pub(crate) volumes: Rows,
    /// Memory that is steered beside files, and the parts that have the policy together.
    pub(crate) parts: Vec<Rows>,
    pub(crate) caches: Rows,
    /// What each cache's policy says of itself.
    pub(crate) states: Vec<String>,
}

/// Rows under headings; the first column is a name.
pub(crate) struct Rows {
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// What a column is called, and when it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Heading {
    pub(crate) name: &'static str,
    /// In CSV, where its unit belongs to the name.
    csv: &'static str,
    /// Where there is no room for all columns, those of rank 0 are shown first, then those of 1, and so on.
    rank: u8,
}

/// A figure; `None` where nothing was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Bytes(f64),
    /// Bytes where there are any.
    Size(Option<f64>),
    Number(f64),
    /// Of 1, shown in percent.
    Ratio(Option<f64>),
    /// In seconds.
    Millis(Option<f64>),
    Micros(Option<f64>),
}

impl Cell {
    /// As it is shown to people.
    pub(crate) fn show(&self) -> String {
        let measured = |figure: &Option<f64>, show: &dyn Fn(f64) -> String| figure.map_or("–".to_owned(), show);
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(figure) => bytes(*figure),
            Self::Size(figure) => measured(figure, &bytes),
            Self::Number(figure) => grouped(figure.round() as u64),
            Self::Ratio(figure) => measured(figure, &percent),
            // What is measured is not nothing.
            Self::Millis(figure) => measured(figure, &|seconds| match seconds * 1e3 {
                short if short > 0.0 && short < 0.005 => "<0.01".to_owned(),
                millis => format!("{millis:.2}"),
            }),
            Self::Micros(figure) => measured(figure, &|seconds| format!("{:.2}", seconds * 1e6)),
        }
    }

    /// As a number without a unit, for programs; empty where nothing was measured.
    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(figure) | Self::Number(figure) => figure.to_string(),
            Self::Ratio(figure) | Self::Millis(figure) | Self::Micros(figure) | Self::Size(figure) => {
                figure.map_or_else(String::new, |figure| figure.to_string())
            }
        }
    }
}

/// A column: its heading, and its cell for what happened between two reports of one thing.
struct Column<T>(&'static str, &'static str, u8, fn(&Change<'_, T>) -> Cell);

/// What happened in a number of seconds.
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

    /// The share of the references that were of one kind.
    fn share(&self, part: u64, references: u64) -> Cell {
        Cell::Ratio((references > 0).then(|| part.min(references) as f64 / references as f64))
    }

    fn times(&self, times: fn(&T) -> &Distribution) -> Distribution {
        times(self.now).since(times(self.before))
    }

    fn mean(&self, of: fn(&T) -> &Distribution) -> Option<f64> {
        let times = self.times(of);
        (times.count() > 0).then(|| times.mean() / 1e9)
    }

    fn most(&self, of: fn(&T) -> &Distribution) -> Option<f64> {
        let times = self.times(of);
        (times.count() > 0).then(|| times.quantile(0.99) as f64 / 1e9)
    }
}

fn references(of: &Change<'_, VolumeReport>) -> u64 {
    of.count(|of| of.pool.hits + of.pool.misses)
}

/// Hits on pages that had been used before: the others were there because they had been read ahead.
fn again(of: &Change<'_, VolumeReport>) -> u64 {
    of.count(|of| of.pool.hits).saturating_sub(of.count(|of| of.pool.readahead_used))
}

const VOLUMES: &[Column<VolumeReport>] = &[
    Column("volume", "volume", 0, |of| Cell::Text(of.now.pool.name.clone())),
    Column("cache", "cache", 4, |of| Cell::Text(of.now.cache.clone())),
    // A directory has none.
    Column("size", "size_bytes", 3, |of| Cell::Size((of.now.pool.size > 0).then_some(of.now.pool.size as f64))),
    Column("hits %", "hit_ratio", 0, |of| of.share(again(of), references(of))),
    Column("ahead %", "readahead_ratio", 1, |of| of.share(of.count(|of| of.pool.readahead_used), references(of))),
    Column("read/s", "read_bytes_per_second", 0, |of| Cell::Bytes(of.rate(|of| of.clients.read_bytes))),
    Column("written/s", "written_bytes_per_second", 0, |of| Cell::Bytes(of.rate(|of| of.clients.written_bytes))),
    Column("requests/s", "requests_per_second", 1, |of| Cell::Number(of.rate(|of| of.clients.requests.all()))),
    Column("99 % ms", "client_p99_seconds", 1, |of| Cell::Millis(of.most(|of| &of.clients.request_time))),
    Column("device read/s", "device_read_bytes_per_second", 3, |of| {
        Cell::Bytes(of.rate(|of| of.pool.device.read_bytes))
    }),
    Column("device written/s", "device_written_bytes_per_second", 3, |of| {
        Cell::Bytes(of.rate(|of| of.pool.device.written_bytes))
    }),
    Column("read ms", "device_read_seconds", 2, |of| Cell::Millis(of.mean(|of| &of.pool.device.read_time))),
    Column("write ms", "device_write_seconds", 2, |of| Cell::Millis(of.mean(|of| &of.pool.device.write_time))),
    Column("dirty pages", "dirty_pages", 2, |of| Cell::Number(of.now.pool.dirty as f64)),
    Column("errors", "errors", 1, |of| Cell::Number(of.now.clients.errors as f64)),
];

fn uses(of: &Change<'_, PageCacheReport>) -> u64 {
    of.count(|of| of.figures.kernel_hits + of.figures.kernel_misses)
}

/// The kernel's page cache where that is steered, in place of volumes.
const PAGE_CACHE: &[Column<PageCacheReport>] = &[
    Column("page cache of", "page_cache", 0, |of| Cell::Text(of.now.name.clone())),
    Column("there", "there_bytes", 0, |of| pages(of.now.figures.there)),
    Column("size", "size_bytes", 0, |of| pages(of.now.figures.size)),
    Column("asked", "asked_bytes", 2, |of| pages(of.now.figures.asked)),
    Column("kept", "kept_bytes", 1, |of| pages(of.now.figures.kept)),
    Column("hits %", "kernel_hit_ratio", 0, |of| {
        of.share(of.count(|of| of.figures.kernel_hits.saturating_sub(of.figures.readahead_used)), uses(of))
    }),
    Column("ahead %", "readahead_ratio", 1, |of| of.share(of.count(|of| of.figures.readahead_used), uses(of))),
    Column("uses/s", "uses_per_second", 0, |of| {
        Cell::Number(of.rate(|of| of.figures.kernel_hits + of.figures.kernel_misses))
    }),
    Column("let go/s", "let_go_per_second", 1, |of| Cell::Number(of.rate(|of| of.figures.let_go))),
    Column("left/s", "dropped_per_second", 2, |of| Cell::Number(of.rate(|of| of.figures.dropped))),
    Column("rescued/s", "rescued_per_second", 3, |of| Cell::Number(of.rate(|of| of.figures.rescued))),
    Column("refused", "refused_pages", 2, |of| Cell::Number(of.now.figures.refused as f64)),
    Column("reclaimed", "reclaimed_pages", 1, |of| Cell::Number(of.now.figures.reclaimed as f64)),
];

/// Programs' memory where that is steered.
const MEMORY: &[Column<MemoryReport>] = &[
    Column("memory", "memory", 0, |of| Cell::Text(of.now.name.clone())),
    Column("there", "there_bytes", 0, |of| pages(of.now.figures.there + of.now.figures.others)),
    Column("size", "size_bytes", 0, |of| pages(of.now.figures.size)),
    Column("asked", "asked_bytes", 2, |of| pages(of.now.figures.asked)),
    Column("kept", "kept_bytes", 1, |of| pages(of.now.figures.kept)),
    Column("programs", "programs_bytes", 2, |of| pages(of.now.figures.others)),
    Column("misses/s", "misses_per_second", 0, |of| Cell::Number(of.rate(|of| of.figures.misses))),
    Column("let go/s", "let_go_per_second", 1, |of| Cell::Number(of.rate(|of| of.figures.let_go))),
    Column("left/s", "dropped_per_second", 2, |of| Cell::Number(of.rate(|of| of.figures.dropped))),
    Column("refused", "refused_pages", 2, |of| Cell::Number(of.now.figures.refused as f64)),
    Column("reclaimed", "reclaimed_pages", 1, |of| Cell::Number(of.now.figures.reclaimed as f64)),
    Column("chooses", "chooses", 1, |of| {
        Cell::Text(if of.now.figures.policy_chooses > 0 { "policy" } else { "kernel" }.to_owned())
    }),
];

/// As bytes: the kernel's pages have 4 KiB.
fn pages(pages: u64) -> Cell {
    Cell::Bytes((pages << 12) as f64)
}

/// A cache, with the pages that its volumes used after they had been read ahead.
#[derive(Default)]
struct CacheRow {
    report: CacheReport,
    ahead: u64,
}

impl CacheRow {
    fn all(report: &Report) -> Vec<Self> {
        let row = |cache: &CacheReport| {
            let volumes = report.volumes.iter().filter(|volume| volume.cache == cache.name);
            Self { report: cache.clone(), ahead: volumes.map(|volume| volume.pool.readahead_used).sum() }
        };
        report.caches.iter().map(row).collect()
    }
}

fn references_of_cache(of: &Change<'_, CacheRow>) -> u64 {
    of.count(|of| of.report.pool.hits + of.report.pool.misses)
}

fn again_of_cache(of: &Change<'_, CacheRow>) -> u64 {
    of.count(|of| of.report.pool.hits).saturating_sub(of.count(|of| of.ahead))
}

const CACHES: &[Column<CacheRow>] = &[
    Column("cache", "cache", 0, |of| Cell::Text(of.now.report.name.clone())),
    Column("policy", "policy", 0, |of| Cell::Text(of.now.report.pool.policy.clone())),
    Column("capacity", "capacity_bytes", 0, |of| Cell::Bytes(of.now.report.pool.capacity as f64)),
    Column("page", "page_size", 3, |of| Cell::Bytes(of.now.report.pool.page_size.into())),
    Column("resident", "resident_pages", 1, |of| Cell::Number(of.now.report.pool.resident.into())),
    Column("ghosts", "ghosts", 3, |of| Cell::Number(of.now.report.pool.ghosts.into())),
    Column("dirty", "dirty_pages", 1, |of| Cell::Number(of.now.report.pool.dirty as f64)),
    Column("hits %", "hit_ratio", 0, |of| of.share(again_of_cache(of), references_of_cache(of))),
    Column("ahead %", "readahead_ratio", 1, |of| of.share(of.count(|of| of.ahead), references_of_cache(of))),
    Column("references/s", "references_per_second", 1, |of| {
        Cell::Number(of.rate(|of| of.report.pool.hits + of.report.pool.misses))
    }),
    Column("evictions/s", "evictions_per_second", 2, |of| Cell::Number(of.rate(|of| of.report.pool.evictions))),
    Column("hit µs", "hit_seconds", 3, |of| Cell::Micros(of.mean(|of| &of.report.pool.hit_time))),
    Column("miss µs", "miss_seconds", 2, |of| Cell::Micros(of.mean(|of| &of.report.pool.miss_time))),
    Column("99 % of misses µs", "miss_p99_seconds", 3, |of| Cell::Micros(of.most(|of| &of.report.pool.miss_time))),
];

impl Figures {
    /// What happened from `before` to `now`. Before a server's start nothing had happened.
    pub(crate) fn new(now: &Report, before: &Report) -> Self {
        // A server that was started anew has counted from 0.
        let fresh = Report::default();
        let before = if before.uptime_seconds > now.uptime_seconds { &fresh } else { before };
        let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
        let recorded = now.recorded.map_or_else(String::new, |recorded| {
            let lost = now.record_lost.unwrap_or_default();
            format!(", {} requests recorded, {} lost", grouped(recorded), grouped(lost))
        });
        let files = now.page_cache.as_ref().map(|PageCacheReport { figures, .. }| {
            let [events, lost] = [figures.events, figures.lost].map(grouped);
            format!("{}, {events} events, {lost} lost", steered(figures.files, ["file", "files"]))
        });
        let memory = now.memory.as_ref().map(|MemoryReport { figures, .. }| {
            let [faults, lost] = [figures.faults, figures.lost].map(grouped);
            format!("{}, {faults} faults, {lost} lost", steered(figures.processes, ["process", "processes"]))
        });
        let users = match (files, memory) {
            (Some(files), Some(memory)) => format!("{files}, {memory}"),
            (Some(steered), None) | (None, Some(steered)) => steered,
            (None, None) => {
                let connections = &now.connections;
                format!("{} connections now, {} so far", connections.open, grouped(connections.accepted))
            }
        };
        let volumes = Rows::new(VOLUMES, &now.volumes, &before.volumes, |of| &of.pool.name, seconds);
        let rows = |files: &[PageCacheReport]| {
            Rows::new(PAGE_CACHE, files, before.page_cache.as_slice(), |of| &of.name, seconds)
        };
        let files = now.page_cache.is_some().then(|| rows(now.page_cache.as_slice()));
        let rows =
            |memory: &[MemoryReport]| Rows::new(MEMORY, memory, before.memory.as_slice(), |of| &of.name, seconds);
        let memory = now.memory.is_some().then(|| rows(now.memory.as_slice()));
        let mut parts: Vec<Rows> = files.into_iter().chain(memory).collect();
        // One part is the whole.
        if parts.is_empty() || now.volumes.len() > 1 {
            parts.push(volumes);
        }
        let volumes = parts.remove(0);
        Self {
            head: format!("up {:.0} s, {users}{recorded}", now.uptime_seconds),
            volumes,
            parts,
            caches: Rows::new(CACHES, &CacheRow::all(now), &CacheRow::all(before), |of| &of.report.name, seconds),
            states: now.caches.iter().map(state).collect(),
        }
    }

    /// Everything as plain text, in lines of at most `width` characters if that is given.
    pub(crate) fn table(&self, width: Option<usize>) -> String {
        let width_or_all = width.unwrap_or(usize::MAX);
        let states: String = self.states.iter().map(|state| folded(state, width_or_all) + "\n").collect();
        let tables = std::iter::once(&self.volumes).chain(&self.parts).chain([&self.caches]);
        let tables: String = tables.map(|rows| rows.table(width) + "\n\n").collect();
        format!("{}\n\n{tables}{states}", self.head)
    }

    /// The volumes' rows.
    ///
    /// # Errors
    /// Those of what is written to.
    pub(crate) fn write_csv(&self, out: impl Write) -> Result<(), csv::Error> {
        let mut rows = csv::Writer::from_writer(out);
        rows.write_record(self.volumes.columns.iter().map(|column| column.csv))?;
        self.volumes.rows.iter().try_for_each(|row| rows.write_record(row.iter().map(Cell::plain)))?;
        Ok(rows.flush()?)
    }
}

impl Rows {
    fn new<T: Default>(columns: &[Column<T>], now: &[T], before: &[T], name: fn(&T) -> &str, seconds: f64) -> Self {
        let new = T::default();
        let row = |now: &T| {
            let before = before.iter().find(|earlier| name(earlier) == name(now)).unwrap_or(&new);
            columns.iter().map(|Column(_, _, _, cell)| cell(&Change { now, before, seconds })).collect()
        };
        let heading = |&Column(name, csv, rank, _): &Column<T>| Heading { name, csv, rank };
        Self { columns: columns.iter().map(heading).collect(), rows: now.iter().map(row).collect() }
    }

    /// The width of a column.
    pub(crate) fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].show().chars().count());
        cells.chain([self.columns[column].name.chars().count()]).max().unwrap_or(0)
    }

    /// The columns for which there is room, `gap` characters apart: the first, and of the others those of the lowest ranks. More room shows
    /// no column less.
    pub(crate) fn fitting(&self, room: usize, gap: usize) -> Vec<usize> {
        let mut ranked: Vec<usize> = (0..self.columns.len()).collect();
        ranked.sort_by_key(|&column| self.columns[column].rank);
        let (mut used, mut shown) = (0, Vec::new());
        for column in ranked {
            let more = self.width(column) + if shown.is_empty() { 0 } else { gap };
            if !shown.is_empty() && used + more > room {
                break;
            }
            used += more;
            shown.push(column);
        }
        shown.sort_unstable();
        shown
    }

    fn table(&self, width: Option<usize>) -> String {
        let shown = self.fitting(width.unwrap_or(usize::MAX), GAP);
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(shown.iter().map(|&column| self.columns[column].name));
        table.add_rows(self.rows.iter().map(|row| shown.iter().map(|&column| row[column].show())));
        for (column, &shown) in table.column_iter_mut().zip(&shown) {
            if self.rows.iter().all(|row| !matches!(row[shown], Cell::Text(_))) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

/// The spaces between columns of a plain table.
const GAP: usize = 2;

fn state(cache: &CacheReport) -> String {
    let state = &cache.pool.policy_state;
    let figures: Vec<String> = state.iter().map(|(name, value)| format!("{name} {value:.0}")).collect();
    let shown = if figures.is_empty() { "–".to_owned() } else { figures.join(", ") };
    format!("{} of cache {}: {shown}", cache.pool.policy, cache.name)
}

/// Bytes in the unit that suits them.
/// `1 file steered`, `2 files steered`.
fn steered(count: u64, [one, many]: [&str; 2]) -> String {
    format!("{} {} steered", grouped(count), if count == 1 { one } else { many })
}

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
    use forebay_figures::{Histogram, Tally};

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
        assert_eq!([row[3].show(), row[5].show()], ["100.0", "2.0 MiB"], "600 hits, and 4 MiB in 2 s");
        assert_eq!(figures.caches.rows[0][9], Cell::Number(300.0));
    }

    #[test]
    fn of_a_steered_page_cache_the_kernel_s_hits_are_shown() {
        let steered = |seconds: f64, hits: u64| {
            let mut page_cache = PageCacheReport { name: "/srv".to_owned(), ..PageCacheReport::default() };
            (page_cache.figures.kernel_hits, page_cache.figures.kernel_misses) = (hits, 100);
            (page_cache.figures.there, page_cache.figures.files) = (256, 7);
            Report { page_cache: Some(page_cache), ..report(seconds, hits, 0) }
        };
        let mut now = steered(12.0, 700);
        now.page_cache.as_mut().unwrap().figures.kernel_misses = 300;
        let figures = Figures::new(&now, &steered(10.0, 100));
        assert_eq!(figures.head, "up 12 s, 7 files steered, 0 events, 0 lost");
        let row: Vec<String> = figures.volumes.rows[0].iter().map(Cell::show).collect();
        assert_eq!([&row[0], &row[1], &row[5], &row[7]], ["/srv", "1.0 MiB", "75.0", "400"], "600 of 800 uses in 2 s");
    }

    #[test]
    fn of_steered_memory_its_faults_are_shown_alone_or_beside_files_with_what_the_policy_has_of_each() {
        let steered = |seconds: f64, misses: u64| {
            let mut memory = MemoryReport { name: "train".to_owned(), ..MemoryReport::default() };
            (memory.figures.misses, memory.figures.there, memory.figures.others) = (misses, 200, 56);
            memory.figures.processes = 1;
            Report { memory: Some(memory), ..report(seconds, 0, 0) }
        };
        let (mut now, before) = (steered(12.0, 700), steered(10.0, 100));
        let figures = Figures::new(&now, &before);
        assert_eq!(figures.head, "up 12 s, 1 process steered, 0 faults, 0 lost");
        let row: Vec<String> = figures.volumes.rows[0].iter().map(Cell::show).collect();
        assert_eq!(
            ([&row[0], &row[1], &row[6]], figures.parts.len()),
            (["train", "1.0 MiB", "300"].map(String::from).each_ref(), 0)
        );
        now.page_cache = Some(PageCacheReport { name: "/srv".to_owned(), ..PageCacheReport::default() });
        now.volumes.push(VolumeReport::default());
        let text = Figures::new(&now, &before).table(None);
        let place = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(place("page cache of") < place("memory  ") && place("memory  ") < place("volume"), "{text}");
        assert!(text.starts_with("up 12 s, 0 files steered, 0 events, 0 lost, 1 process steered"), "{text}");
    }

    #[test]
    fn pages_found_because_they_were_read_ahead_are_no_hits() {
        let mut now = report(2.0, 300, 0);
        now.volumes[0].cache = "shared".to_owned();
        now.volumes[0].pool.readahead_used = 200;
        let figures = Figures::new(&now, &Report::default());
        for row in [&figures.volumes.rows[0][3..5], &figures.caches.rows[0][7..9]] {
            assert_eq!(row, [Cell::Ratio(Some(0.25)), Cell::Ratio(Some(0.5))]);
        }
        let heading = |rows: &Rows, column: usize| rows.columns[column].name;
        assert_eq!([heading(&figures.volumes, 4), heading(&figures.caches, 8)], ["ahead %"; 2]);
    }

    #[test]
    fn a_directory_has_no_size() {
        let mut now = report(2.0, 300, 0);
        assert_eq!(Figures::new(&now, &Report::default()).volumes.rows[0][2].show(), "–");
        now.volumes[0].pool.size = 1 << 20;
        assert_eq!(Figures::new(&now, &Report::default()).volumes.rows[0][2].show(), "1.0 MiB");
    }

    #[test]
    fn a_server_started_anew_counts_from_its_start() {
        let figures = Figures::new(&report(2.0, 300, 0), &report(1000.0, 900, 0));
        assert_eq!(figures.volumes.rows[0][3], Cell::Ratio(Some(0.75)));
    }

    #[test]
    fn programs_get_numbers_without_units_and_nothing_where_nothing_was_measured() {
        let mut csv = Vec::new();
        Figures::new(&report(4.0, 300, 8 << 20), &Report::default()).write_csv(&mut csv).expect("it is written");
        let text = String::from_utf8(csv).expect("text");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let of = |name| lines[1][lines[0].iter().position(|&heading| heading == name).expect("a column")];
        assert_eq!([of("hit_ratio"), of("read_bytes_per_second"), of("client_p99_seconds")], ["0.75", "2097152", ""]);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas.md");
        let page = std::fs::read_to_string(page).expect("docs/schemas.md is there");
        let missing: Vec<&&str> = lines[0].iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/schemas.md does not name {missing:?}");
    }

    #[test]
    fn a_narrow_table_leaves_out_what_matters_less_and_cuts_nothing() {
        let mut now = report(12.0, 700, 5 << 30);
        now.volumes[0].pool.name = "a-volume-of-some-name".to_owned();
        let figures = Figures::new(&now, &report(10.0, 100, 1 << 20));
        for width in [40, 80, 120, 200] {
            let text = figures.volumes.table(Some(width));
            assert!(text.lines().all(|line| line.trim_end().chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("a-volume-of-some-name") && text.contains("hits %"), "{width}:\n{text}");
        }
        assert!(figures.volumes.table(Some(80)).contains("written/s"));
        let shown = |room| figures.volumes.fitting(room, GAP);
        assert!((40..200).all(|room| shown(room).iter().all(|column| shown(room + 1).contains(column))));
        assert!(figures.volumes.table(None).contains("device written/s"));
    }

    #[test]
    fn the_slowest_requests_of_the_interval_are_shown_and_none_where_there_were_none() {
        let taken = |quick: u64, slow: u64| {
            let times = Histogram::default();
            times.add_many(2_000, quick);
            times.add_many(3_000_000, slow);
            let mut report = report(2.0, 0, 0);
            report.volumes[0].clients.request_time = times.read();
            report
        };
        let waited = |now: &Report, before: &Report| Figures::new(now, before).volumes.rows[0][8].clone();
        let is_about = |cell: Cell, millis: f64| {
            let Cell::Millis(Some(seconds)) = cell else { panic!("{cell:?}") };
            (seconds * 1e3 - millis).abs() <= millis / 8.0
        };
        let none = Report::default();
        assert!(is_about(waited(&taken(10, 990), &none), 3.0));
        assert!(is_about(waited(&taken(1_000, 0), &none), 0.002));
        assert!(is_about(waited(&taken(1_990, 990), &taken(990, 990)), 0.002));
        assert_eq!(waited(&taken(5, 5), &taken(5, 5)), Cell::Millis(None));
    }

    #[test]
    fn a_policy_says_its_figures_zeroes_too_and_one_without_any_nothing() {
        let mut now = report(12.0, 700, 0);
        now.caches[0].pool.policy = "ubm".to_owned();
        let said = |now: &Report| Figures::new(now, &Report::default()).states[0].clone();
        now.caches[0].pool.policy_state.clear();
        assert_eq!(said(&now), "ubm of cache shared: –");
        now.caches[0].pool.policy_state = [("loops".to_owned(), 0.0), ("other".to_owned(), 0.0)].into();
        assert_eq!(said(&now), "ubm of cache shared: loops 0, other 0");
    }

    #[test]
    fn bytes_have_a_unit() {
        assert_eq!([0.0, 1023.0, 1536.0, 200.0 * 1024.0].map(bytes), ["0 B", "1023 B", "1.5 KiB", "200 KiB"]);
    }
}
