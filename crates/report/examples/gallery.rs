//! Writes a report with a chart of every kind, for the test in a browser: `gallery FILE.html`.

use forebay_report::{
    Axis, Cell, Chart, Column, Document, Grid, Key, Kind, Made, Mark, Section, Series, Table, Unit, View, X,
};

fn main() -> std::io::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: gallery FILE.html");
        std::process::exit(2);
    };
    let keys = [("lru", false), ("clock-pro", false), ("opt", true)];
    let keys = keys.map(|(name, bound)| Key { name: name.to_owned(), bound, shown: true }).into();
    let section = Section {
        title: "Every kind of chart".to_owned(),
        subtitle: "Data made up for the purpose".to_owned(),
        advice: "Take this as what a report can show; a trace's own says what to do.".to_owned(),
        charts: vec![curves(), ranking(), states(), histogram(), cumulative(), space_time()],
        tables: vec![table()],
    };
    let made = Made { command: "gallery FILE.html".to_owned(), date: "Today".to_owned() };
    std::fs::write(path, Document { title: "Gallery".to_owned(), made, keys, sections: vec![section] }.html())
}

fn chart(id: &str, title: &str, kind: Kind, x: Axis, y: Axis, keyed: bool, views: Vec<View>) -> Chart {
    let explanation = "A sentence says how it is to be read.";
    Chart { keyed, ..Chart::new((id, title, explanation), kind, (x, y)).with(views) }
}

fn curves() -> Chart {
    let sizes: Vec<f64> = (0..40).map(|index| (1.4f64.powi(index)).round()).collect();
    let line =
        |name: &str, bend: f64| Series::new(name, sizes.iter().map(|size| 1.0 / (1.0 + (size / 500.0).powf(bend))));
    let lines = vec![line("lru", 0.7), line("clock-pro", 0.8), line("opt", 0.95)];
    let x = Axis::log("cache size in pages", Unit::Pages(8192));
    let y = Axis::linear("miss ratio", Unit::Ratio);
    let chart = chart("curves", "Curves", Kind::Lines, x, y, true, vec![View::only(X::Numbers(sizes.clone()), lines)]);
    Chart { mark: Some(Mark { series: "clock-pro".to_owned(), x: sizes[18] }), ..chart }
}

fn ranking() -> Chart {
    let view = |label: &str, more: f64| {
        let labels = ["lru", "clock-pro", "opt"].map(str::to_owned);
        let series =
            vec![Series::new("hits", [10.0 + more, 12.0, 15.0]), Series::new("misses", [10.0, 8.0 + more, 5.0])];
        View { label: label.to_owned(), ..View::only(X::Labels(labels.into()), series) }
    };
    let (x, y) = (Axis::linear("policy", Unit::Text), Axis::linear("references", Unit::Number));
    chart("ranking", "Ranking", Kind::Ranking, x, y, true, vec![view("100 pages", 0.0), view("200 pages", 4.0)])
}

fn states() -> Chart {
    let view = |group: &str, label: &str, period: f64| {
        let times: Vec<f64> = (1..=200).map(|step| f64::from(step) * 1e4).collect();
        let hot: Vec<f64> = times.iter().map(|time| (500.0 + 300.0 * (time / period).sin()).round()).collect();
        let cold: Vec<f64> = hot.iter().map(|hot| 1000.0 - hot).collect();
        let far = Series { shown: false, ..Series::new("far out of scale", times.iter().copied()) };
        let series = vec![Series::new("hot", hot), Series::new("cold", cold), far];
        View { group: group.to_owned(), label: label.to_owned(), ..View::only(X::Numbers(times), series) }
    };
    let views = vec![
        view("clock-pro", "1,000 pages", 1e5),
        view("clock-pro", "2,000 pages", 2e5),
        view("ubm", "1,000 pages", 3e5),
    ];
    let (x, y) = (Axis::linear("references", Unit::Number), Axis::linear("pages", Unit::Number));
    chart("states", "States over time", Kind::Lines, x, y, false, views)
}

fn histogram() -> Chart {
    let labels = (0..20).map(|power| (1u64 << power).to_string()).collect();
    let counts = |peak: f64| (0..20).map(move |power| (1e6 * (-(f64::from(power) - peak).powi(2) / 8.0).exp()).round());
    let series = vec![Series::new("reads", counts(7.0)), Series::new("writes", counts(12.0))];
    let (x, y) = (Axis::linear("temporal distance", Unit::Number), Axis::linear("references", Unit::Number));
    chart("histogram", "Histogram", Kind::Bars, x, y, false, vec![View::only(X::Labels(labels), series)])
}

fn cumulative() -> Chart {
    let line = |name: &str, y: [Option<f64>; 5]| Series { name: name.to_owned(), y: y.into(), shown: true };
    let before = line("before the cache", [Some(0.2), None, Some(0.5), None, Some(1.0)]);
    let after = line("after it", [Some(0.1), Some(0.15), None, Some(0.4), Some(1.0)]);
    let view = View::only(X::Numbers(vec![1.0, 2.0, 8.0, 16.0, 64.0]), vec![before, after]);
    let x = Axis::log("blocks of a request", Unit::Number);
    let y = Axis::linear("share of the requests", Unit::Ratio);
    chart("cumulative", "Cumulative distribution", Kind::Steps, x, y, false, vec![view])
}

fn space_time() -> Chart {
    let (columns, rows) = (300, 160);
    let cells = |count: fn(usize, usize) -> usize| {
        (0..columns * rows).map(move |cell| count(cell % columns, cell / columns) as f64)
    };
    let sequential = cells(|column, row| if column.abs_diff(2 * row) < 2 { 900 } else { 0 });
    let looping = cells(|column, row| if row < 40 && (column % 60).abs_diff(row) < 3 { 300 } else { 0 });
    let other = cells(|column, row| (column * 7919 + row * 104_729) % 97 / 90 * (row % 13));
    let grid = Grid { columns, rows, x: (0.0, 13e6), y: (0.0, 800_000.0) };
    let series =
        vec![Series::new("sequential", sequential), Series::new("looping", looping), Series::new("other", other)];
    let view = View { grid: Some(grid), ..View::only(X::Numbers(Vec::new()), series) };
    let (x, y) = (Axis::linear("references", Unit::Number), Axis::linear("page", Unit::Number));
    chart("space-time", "Space–time graph", Kind::Grid, x, y, false, vec![view])
}

fn table() -> Table {
    let column = |title: &str, unit| Column { title: title.to_owned(), unit };
    let row = |name: &str, ratio, wait| vec![Cell::Text(name.to_owned()), Cell::Number(ratio), wait];
    Table {
        title: "All figures".to_owned(),
        columns: vec![
            column("policy", Unit::Text),
            column("hit ratio", Unit::Ratio),
            column("mean wait", Unit::Milliseconds),
        ],
        rows: vec![row("lru", 0.5, Cell::Number(3.25)), row("opt", 0.75, Cell::Empty)],
    }
}
