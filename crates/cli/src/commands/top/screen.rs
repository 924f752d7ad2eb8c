//! The view in a terminal, renewed until `q` is pressed.

use super::fetch;
use super::figures::{Figures, Rows};
use crate::failure::Failure;
use forebay_server::Report;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, Wrap};
use std::io;
use std::time::{Duration, Instant};

pub(super) fn show(address: &str, first: Report, every: Duration) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::from(format!("the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = || -> Result<(), Failure> {
        let mut figures = Figures::new(&first, &Report::default());
        let (mut before, mut trouble) = (first, None);
        loop {
            terminal.draw(|frame| draw(frame, address, &figures, trouble.as_deref())).map_err(failed)?;
            if quits(every).map_err(failed)? {
                return Ok(());
            }
            // A server that is not there may come back: the last figures stay, with the reason.
            match fetch(address) {
                Ok(now) => {
                    figures = Figures::new(&now, &before);
                    (before, trouble) = (now, None);
                }
                Err(Failure::Failed(error)) => trouble = Some(error.to_string()),
                Err(other) => return Err(other),
            }
        }
    }();
    ratatui::restore();
    shown
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

fn draw(frame: &mut Frame<'_>, address: &str, figures: &Figures, trouble: Option<&str>) {
    let height = |rows: &Rows| Constraint::Length(rows.rows.len() as u16 + 2);
    let [head, volumes, caches, states] = Layout::vertical([
        Constraint::Length(2),
        height(&figures.volumes),
        height(&figures.caches),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    let title = match trouble {
        Some(trouble) => Line::from(trouble.to_owned()).red(),
        None => Line::from(format!("forebay serve, {address}: {} (q: end)", figures.head)).bold(),
    };
    frame.render_widget(title, head);
    frame.render_widget(table(&figures.volumes), volumes);
    frame.render_widget(table(&figures.caches), caches);
    let lines: Vec<Line<'_>> = figures.states.iter().map(|state| Line::from(state.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), states);
}

fn table(rows: &Rows) -> Table<'_> {
    let width = |index: usize| {
        let cells = rows.rows.iter().map(|row| row[index].chars().count());
        cells.chain([rows.headings[index].chars().count()]).max().unwrap_or(0) as u16
    };
    let widths = (0..rows.headings.len()).map(|index| Constraint::Length(width(index)));
    let body = rows.rows.iter().map(|row| Row::new(row.iter().map(String::as_str)));
    Table::new(body, widths).header(Row::new(rows.headings.iter().copied()).style(Style::new().dim())).column_spacing(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_view_shows_volumes_caches_and_trouble() {
        let mut report =
            Report { volumes: vec![Default::default()], caches: vec![Default::default()], ..Report::default() };
        report.volumes[0].pool.name = "data".to_owned();
        report.caches[0].pool.policy = "clock-pro".to_owned();
        let figures = Figures::new(&report, &Report::default());
        let view = |trouble| {
            let mut terminal = Terminal::new(TestBackend::new(160, 20)).expect("a terminal in memory");
            terminal.draw(|frame| draw(frame, "host:1", &figures, trouble)).expect("it is drawn");
            terminal.backend().to_string()
        };
        let plain = view(None);
        assert!(["host:1", "data", "clock-pro", "requests/s"].iter().all(|text| plain.contains(text)), "{plain}");
        assert!(view(Some("it is gone")).contains("it is gone"));
    }
}
