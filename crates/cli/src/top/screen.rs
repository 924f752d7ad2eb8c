//! The view in a terminal, renewed until `q` is pressed.

use super::figures::{Cell, Figures, Rows};
use super::terminal::{Line, Terminal};
use super::{Error, fetch};
use console::{Alignment, Style, pad_str};
use forebay_server::Report;
use forebay_sim::words::folded;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Shows a server's figures, from a first report on, until the user presses `q`.
///
/// # Errors
/// [`Error::Terminal`].
pub(crate) fn show(address: &str, first: Report, every: Duration) -> Result<(), Error> {
    let terminal = Terminal::new().map_err(Error::Terminal)?;
    let mut figures = Figures::new(&first, &Report::default());
    let (mut before, mut trouble, mut history) = (first, None, History::default());
    loop {
        let (width, _) = terminal.size().map_err(Error::Terminal)?;
        let lines = view(address, &figures, &history, trouble.as_deref(), width);
        terminal.draw(&lines).map_err(Error::Terminal)?;
        if quits(&terminal, every).map_err(Error::Terminal)? {
            return Ok(());
        }
        // A server that is not there may come back.
        match fetch(address) {
            Ok(now) => {
                figures = Figures::new(&now, &before);
                history.add(&before, &now);
                (before, trouble) = (now, None);
            }
            Err(Error::Server(_)) => trouble = Some(format!("{address}: no server answers (q: end)")),
            Err(other) => return Err(other),
        }
    }
}

/// What the last views showed of the server as a whole, the latest last.
#[derive(Default)]
struct History {
    /// Bytes a second, read and written.
    moved: VecDeque<u64>,
    /// Hits of a thousand references, without those on pages that had been read ahead; `None` where there was no reference.
    hits: VecDeque<Option<u64>>,
}

impl History {
    /// As many as the widest terminals have columns.
    const MOST: usize = 500;

    fn add(&mut self, before: &Report, now: &Report) {
        if self.moved.len() == Self::MOST {
            self.moved.pop_front();
            self.hits.pop_front();
        }
        // A server that was started anew has counted from 0.
        let fresh = Report::default();
        let before = if before.uptime_seconds > now.uptime_seconds { &fresh } else { before };
        let more = |count: fn(&Report) -> u64| count(now).saturating_sub(count(before));
        let bytes = more(|of| of.volumes.iter().map(|of| of.clients.read_bytes + of.clients.written_bytes).sum());
        // What programs use of a page cache is known in pages.
        let uses = more(|of| of.page_cache.iter().map(|of| of.figures.kernel_hits + of.figures.kernel_misses).sum());
        let bytes = bytes + (uses << 12);
        let found = more(|of| of.caches.iter().map(|of| of.pool.hits).sum());
        let ahead = more(|of| of.volumes.iter().map(|of| of.pool.readahead_used).sum());
        let hits = found.saturating_sub(ahead);
        let references = found + more(|of| of.caches.iter().map(|of| of.pool.misses).sum());
        let seconds = (now.uptime_seconds - before.uptime_seconds).max(1e-9);
        self.moved.push_back((bytes as f64 / seconds) as u64);
        self.hits.push_back((references > 0).then(|| hits * 1000 / references));
    }
}

/// Waits for the next view; whether the user has had enough.
fn quits(terminal: &Terminal, every: Duration) -> io::Result<bool> {
    let until = Instant::now() + every;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match terminal.key(left)? {
            Some(key) if ends(&key) => return Ok(true),
            None if left.is_zero() => return Ok(false),
            _ => {}
        }
    }
}

/// Whether a key is `q`, Escape or Ctrl-C. Other keys' codes begin with that of Escape. One of nothing is that of a terminal that is gone.
fn ends(key: &[u8]) -> bool {
    const ESCAPE: u8 = 0x1b;
    const INTERRUPT: u8 = 0x03;
    match key {
        [] | [ESCAPE] => true,
        [ESCAPE, ..] => false,
        typed => typed.iter().any(|&letter| letter == b'q' || letter == INTERRUPT),
    }
}

fn view(address: &str, figures: &Figures, history: &History, trouble: Option<&str>, width: usize) -> Vec<Line> {
    // The last figures would be taken for those of now.
    if let Some(trouble) = trouble {
        return vec![Line(trouble.to_owned(), Style::new().red())];
    }
    let title = folded(&format!("forebay, {address}: {} (q: end)", figures.head), width);
    let mut lines: Vec<Line> = title.lines().map(|line| Line(line.to_owned(), Style::new().bold())).collect();
    lines.resize_with(lines.len().max(2), empty);
    let most = history.moved.iter().max().copied().unwrap_or(0);
    let label = format!("to {}/s", Cell::Bytes(most as f64).show());
    lines.push(trend(&label, history.moved.iter().map(|&bytes| Some(bytes)), most, width));
    lines.push(trend("hits to 100 %", history.hits.iter().copied(), 1000, width));
    lines.push(empty());
    for rows in std::iter::once(&figures.volumes).chain(&figures.parts).chain([&figures.caches]) {
        lines.extend(table(rows, width));
        lines.push(empty());
    }
    let states = figures.states.iter().map(|state| folded(state, width));
    lines.extend(states.flat_map(|state| state.lines().map(plain).collect::<Vec<_>>()));
    lines
}

fn plain(text: &str) -> Line {
    Line(text.to_owned(), Style::new())
}

fn empty() -> Line {
    plain("")
}

/// The room for what a trend is called.
const LABEL: usize = 16;

/// The latest of some figures, for which there is room, as bars up to `most`.
fn trend(label: &str, figures: impl DoubleEndedIterator<Item = Option<u64>>, most: u64, width: usize) -> Line {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |figure: Option<u64>| BARS[figure.map_or(0, |figure| (figure * 8 / most.max(1)).min(8) as usize)];
    let mut latest: Vec<char> = figures.rev().take(width.saturating_sub(LABEL)).map(bar).collect();
    latest.reverse();
    plain(&format!("{}{}", pad_str(label, LABEL, Alignment::Left, None), latest.iter().collect::<String>()))
}

/// The spaces between columns.
const GAP: usize = 2;

fn table(rows: &Rows, room: usize) -> Vec<Line> {
    let shown = rows.fitting(room, GAP);
    let line = |cell: &dyn Fn(usize) -> (String, bool)| {
        let cells = shown.iter().map(|&column| {
            let (text, left) = cell(column);
            let side = if left { Alignment::Left } else { Alignment::Right };
            pad_str(&text, rows.width(column), side, None).into_owned()
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
    };
    let is_text = |row: &[Cell], column: usize| matches!(row[column], Cell::Text(_));
    let heading =
        |column: usize| (rows.columns[column].name.to_owned(), rows.rows.iter().any(|row| is_text(row, column)));
    let body = rows.rows.iter().map(|row| plain(&line(&|column| (row[column].show(), is_text(row, column)))));
    [Line(line(&heading), Style::new().dim())].into_iter().chain(body).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(seconds: f64, hits: u64) -> Report {
        let mut report = Report {
            uptime_seconds: seconds,
            volumes: vec![Default::default()],
            caches: vec![Default::default()],
            ..Report::default()
        };
        report.volumes[0].pool.name = "data".to_owned();
        report.volumes[0].clients.read_bytes = hits << 12;
        report.caches[0].pool.policy = "clock-pro".to_owned();
        report.caches[0].pool.hits = hits;
        report
    }

    fn drawn(width: usize, history: &History, trouble: Option<&str>) -> String {
        let figures = Figures::new(&report(10.0, 100), &Report::default());
        let lines = view("host:1", &figures, history, trouble, width);
        lines.into_iter().map(|Line(text, _)| text + "\n").collect()
    }

    #[test]
    fn the_view_shows_volumes_caches_and_trouble() {
        let plain = drawn(160, &History::default(), None);
        assert!(["host:1", "data", "clock-pro", "requests/s"].iter().all(|text| plain.contains(text)), "{plain}");
        let gone = drawn(160, &History::default(), Some("it is gone"));
        assert!(gone.contains("it is gone") && !gone.contains("clock-pro"), "{gone}");
    }

    #[test]
    fn q_escape_and_interrupt_end_the_view_and_arrows_do_not() {
        let ends = [&b"q"[..], b"\x1b", b"\x03", b"", b"\x1b[A", b"x", b"\x1bOq"].map(ends);
        assert_eq!(ends, [true, true, true, true, false, false, false]);
    }

    #[test]
    fn eighty_columns_show_what_matters_with_its_unit() {
        let narrow = drawn(80, &History::default(), None);
        assert!(
            ["hits %", "read/s", "written/s", "40.0 KiB", "capacity"].iter().all(|text| narrow.contains(text)),
            "{narrow}"
        );
        assert!(!narrow.contains("device wr"), "{narrow}");
    }

    #[test]
    fn the_last_views_are_drawn_as_bars() {
        let mut history = History::default();
        history.add(&report(1.0, 0), &report(2.0, 1000));
        history.add(&report(2.0, 1000), &report(3.0, 1500));
        history.add(&report(3.0, 1500), &report(4.0, 1500));
        assert_eq!(
            (&history.moved, &history.hits),
            (&[4_096_000, 2_048_000, 0].into(), &[Some(1000), Some(1000), None].into())
        );
        let drawn = drawn(80, &history, None);
        assert!(drawn.contains("to 3.9 MiB/s") && drawn.contains("█▄"), "{drawn}");
        (0..2 * History::MOST).for_each(|_| history.add(&report(1.0, 0), &report(2.0, 1)));
        assert_eq!(history.moved.len(), History::MOST);
    }
}
