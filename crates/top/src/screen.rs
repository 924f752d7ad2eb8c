//! The view in a terminal, renewed until `q` is pressed.

use crate::figures::{Cell, Figures, Rows};
use crate::{Error, fetch};
use forebay_server::Report;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Wrap};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// Shows a server's figures, from a first report on, until the user presses `q`.
///
/// # Errors
/// [`Error::Terminal`].
pub fn show(address: &str, first: Report, every: Duration) -> Result<(), Error> {
    let mut terminal = ratatui::try_init().map_err(Error::Terminal)?;
    let shown = || -> Result<(), Error> {
        let mut figures = Figures::new(&first, &Report::default());
        let (mut before, mut trouble, mut history) = (first, None, History::default());
        loop {
            terminal
                .draw(|frame| draw(frame, address, &figures, &history, trouble.as_deref()))
                .map_err(Error::Terminal)?;
            if quits(every).map_err(Error::Terminal)? {
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
    }();
    ratatui::restore();
    shown
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
fn quits(every: Duration) -> io::Result<bool> {
    let until = Instant::now() + every;
    while event::poll(until.saturating_duration_since(Instant::now()))? {
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn draw(frame: &mut Frame<'_>, address: &str, figures: &Figures, history: &History, trouble: Option<&str>) {
    // The last figures would be taken for those of now.
    if let Some(trouble) = trouble {
        return frame.render_widget(Line::from(trouble).red(), frame.area());
    }
    let height = |rows: &Rows| Constraint::Length(rows.rows.len() as u16 + 2);
    let [head, moved, hits, _, volumes, caches, states] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        height(&figures.volumes),
        height(&figures.caches),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    let title = Line::from(format!("forebay, {address}: {} (q: end)", figures.head)).bold();
    frame.render_widget(Paragraph::new(title).wrap(Wrap { trim: true }), head);
    let most = history.moved.iter().max().copied().unwrap_or(0);
    let label = format!("to {}/s ", Cell::Bytes(most as f64).show());
    trend(frame, moved, &label, history.moved.iter().map(|&bytes| Some(bytes)), most);
    trend(frame, hits, "hits to 100 % ", history.hits.iter().copied(), 1000);
    frame.render_widget(table(&figures.volumes, volumes.width), volumes);
    frame.render_widget(table(&figures.caches, caches.width), caches);
    let lines: Vec<Line<'_>> = figures.states.iter().map(|state| Line::from(state.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), states);
}

/// Draws the latest of some figures, for which there is room, as bars up to `most`.
fn trend(
    frame: &mut Frame<'_>,
    area: Rect,
    label: &str,
    figures: impl DoubleEndedIterator<Item = Option<u64>>,
    most: u64,
) {
    let [named, bars] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Min(0)]).areas(area);
    frame.render_widget(Line::from(label.to_owned()).dim(), named);
    let mut latest: Vec<Option<u64>> = figures.rev().take(bars.width.into()).collect();
    latest.reverse();
    frame.render_widget(Sparkline::default().data(latest).max(most.max(1)), bars);
}

/// The room for what a trend is called.
const LABEL: u16 = 16;

/// The spaces between columns.
const GAP: u16 = 2;

fn table(rows: &Rows, room: u16) -> Table<'_> {
    let shown = rows.fitting(room.into(), GAP.into());
    let widths = shown.iter().map(|&column| Constraint::Length(rows.width(column) as u16)).collect::<Vec<_>>();
    let body = rows.rows.iter().map(|row| {
        Row::new(shown.iter().map(|&column| match &row[column] {
            Cell::Text(text) => Text::from(text.clone()),
            figure => Text::from(figure.show()).right_aligned(),
        }))
    });
    let headings = shown.iter().map(|&column| {
        let heading = Text::from(rows.columns[column].name);
        let words = rows.rows.iter().any(|row| matches!(row[column], Cell::Text(_)));
        if words { heading } else { heading.right_aligned() }
    });
    Table::new(body, widths).header(Row::new(headings).style(Style::new().dim())).column_spacing(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

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

    fn view(width: u16, history: &History, trouble: Option<&str>) -> String {
        let figures = Figures::new(&report(10.0, 100), &Report::default());
        let mut terminal = Terminal::new(TestBackend::new(width, 20)).expect("a terminal in memory");
        terminal.draw(|frame| draw(frame, "host:1", &figures, history, trouble)).expect("it is drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_volumes_caches_and_trouble() {
        let plain = view(160, &History::default(), None);
        assert!(["host:1", "data", "clock-pro", "requests/s"].iter().all(|text| plain.contains(text)), "{plain}");
        let gone = view(160, &History::default(), Some("it is gone"));
        assert!(gone.contains("it is gone") && !gone.contains("clock-pro"), "{gone}");
    }

    #[test]
    fn eighty_columns_show_what_matters_with_its_unit() {
        let narrow = view(80, &History::default(), None);
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
        let drawn = view(80, &history, None);
        assert!(drawn.contains("to 3.9 MiB/s") && drawn.contains("█▄"), "{drawn}");
        (0..2 * History::MOST).for_each(|_| history.add(&report(1.0, 0), &report(2.0, 1)));
        assert_eq!(history.moved.len(), History::MOST);
    }
}
