//! Miss-ratio curves.

use super::table::Columns;
use super::{cache_size, trace_name, unit};
use crate::model::{Axis, Chart, Key, Kind, Mark, Section, Series, Unit, View, X};
use forebay_sim::study::advice;
use forebay_sim::study::curves::{Curves, Line};
use forebay_sim::study::figure::named;
use forebay_sim::study::figures::{POINT, Point};
use forebay_sim::words::sampled;

/// The policies, all shown.
pub fn keys(curves: &Curves) -> Vec<Key> {
    let key = |line: &Line| Key { name: line.policy.clone(), bound: line.off_line, shown: true };
    curves.lines.iter().map(key).collect()
}

/// Curves as a section, of one chart.
pub fn section(curves: &Curves) -> Section {
    let Curves { trace, sizes, sample, lines, .. } = curves;
    let miss_ratio = named(POINT, "miss_ratio");
    let x = sizes.iter().map(|&size| f64::from(size)).collect();
    let ratios = |line: &Line| sizes.iter().map(|&size| line.curve.miss_ratio(size)).collect::<Vec<_>>();
    let series = lines.iter().map(|line| Series::new(&line.policy, ratios(line))).collect();
    let words = ("miss-ratio", "Miss ratio by cache size", miss_ratio.meaning);
    let y = Axis::linear(miss_ratio.title, unit(miss_ratio));
    let chart = Chart::new(words, Kind::Lines, (cache_size(trace), y)).keyed([View::only(X::Numbers(x), series)]);
    let points: Vec<(&Line, Point)> = curves.points().collect();
    let point = |(_, point): &(&Line, Point)| Some(*point);
    let memory = |(_, point): &(&Line, Point)| Some(f64::from(point.pages) * trace.page_size as f64);
    let table = Columns::new("All figures", &points)
        .text("policy", |(line, _)| &line.policy)
        .number("cache size", Unit::Bytes, memory)
        .figure(named(POINT, "pages"), point)
        .figures([named(POINT, "hit_ratio"), miss_ratio], point)
        .table();
    let mut subtitle = trace.in_words(if sample.is_some() { "about " } else { "" });
    if let Some((rate, pages)) = sample {
        subtitle += &format!("; {}", sampled(*rate, *pages));
    }
    let advised = advice::of_curves(curves);
    let mark = advised.take.map(|take| Mark { series: take.policy, x: take.pages.into() });
    let charts = vec![Chart { mark, ..chart }];
    Section { title: trace_name(&trace.name).to_owned(), subtitle, advice: advised.text, charts, tables: vec![table] }
}
