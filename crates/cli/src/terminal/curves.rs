//! Curves on a terminal: a row for each size, with the miss ratios as figures and as marks on a scale from 0 to 100 %.

use super::grid::Grid;
use super::say;
use super::width;
use crate::failure::Failure;
use forebay_sim::study::advice::of_curves;
use forebay_sim::study::{Curves, grouped, percent};
use forebay_sim::words::sampled;
use std::io::Write;

/// The least and the most width of the scale.
const WIDTH: (usize, usize) = (16, 50);
/// The width of the columns before it: sizes, and the ratios of each policy.
const BEFORE: (usize, usize) = (22, 10);
/// The marks of the policies, in their order and then over again.
const MARKS: [char; 6] = ['●', '○', '◆', '◇', '■', '□'];

/// Prints the curves, and what is known of their errors.
pub(crate) fn print(curves: &Curves, out: &mut impl Write) -> Result<(), Failure> {
    let Curves { trace, sizes, sample, lines, .. } = curves;
    let about = if sample.is_some() { "about " } else { "" };
    say(out, format!("{}: {}; miss ratios in percent", trace.name, trace.in_words(about)))?;
    if let Some((rate, pages)) = sample {
        writeln!(out, "{}", sampled(*rate, *pages))?;
    }
    let marks = || MARKS.iter().copied().cycle();
    let mut head = vec!["cache size".to_owned(), "pages".to_owned()];
    head.extend(lines.iter().zip(marks()).map(|(line, mark)| format!("{} {mark}", line.policy)));
    let wide = width().map_or(WIDTH.1, |width| width.saturating_sub(BEFORE.0 + BEFORE.1 * lines.len()));
    let wide = wide.clamp(WIDTH.0, WIDTH.1);
    head.push(format!("0{:>wide$}", "100"));
    let mut grid = Grid::new(&[head.len() - 1], head).in_blocks();
    for &size in sizes {
        let ratios: Vec<f64> = lines.iter().map(|line| line.curve.miss_ratio(size)).collect();
        let mut scale = vec![' '; wide + 1];
        // Where two meet, the first is seen.
        for (ratio, mark) in ratios.iter().zip(marks()).collect::<Vec<_>>().into_iter().rev() {
            scale[(ratio * wide as f64).round() as usize] = mark;
        }
        let mut row = vec![trace.bytes_in_words(size), grouped(u64::from(size))];
        row.extend(ratios.iter().map(|&ratio| percent(ratio)));
        row.push(scale.into_iter().collect());
        grid.row(row);
    }
    grid.print(out)?;
    for line in lines {
        if let Some(spread) = line.spread {
            writeln!(out, "{}: standard error {:.4}, as slices of the sample tell", line.policy, spread)?;
        }
        if let Some(error) = line.error {
            say(
                out,
                format!("{}: mean absolute error {error:.4} over these sizes, against the exact curve", line.policy),
            )?;
        }
    }
    say(out, format!("\n{}", of_curves(curves).text))
}
