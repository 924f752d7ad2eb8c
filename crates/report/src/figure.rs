//! One chart of lines as a figure for a paper, told apart in grey too: by marks and dashes.

use crate::model::{Axis, Chart, Unit, X};
use crate::pdf::{self, Page};
use forebay_basis::show_bytes;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, RGBColor, register_font};
use std::fmt;
use std::ops::Range;
use std::sync::Once;

/// The letters of figures: DejaVu Sans. In SVG they only tell how much room a text takes.
const FONT: &[u8] = include_bytes!("../assets/dejavu-sans.ttf");
const FAMILY: &str = "sans-serif";

/// What says in a figure's first bytes that it is ours.
pub(crate) const SVG_MARK: &str = r#"data-generator="forebay""#;
pub(crate) const PNG_MARK: &str = "Software\0forebay";
pub(crate) const PDF_MARK: &str = "/Producer (forebay)";

/// The size of a figure in points of 1/96 inch: the width of a page of text.
const SIZE: (u32, u32) = (720, 440);
/// Pixels for each of them in PNG: 288 to the inch.
const PIXELS: u32 = 3;

const INK: RGBColor = RGBColor(0x20, 0x20, 0x20);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Okabe and Ito's palette without its yellow, which paper swallows: told apart by the colour-blind.
const COLORS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    INK,
];
/// Length and distance of dashes, after the solid line.
const DASHES: [(i32, i32); 3] = [(8, 4), (2, 3), (14, 5)];
const SHAPES: usize = 8;
/// About this many marks stand on a line.
const MARKS: usize = 12;

/// Why there is no figure.
#[derive(Debug)]
pub enum DrawError {
    /// There is nothing to draw.
    Nothing,
    /// It cannot be drawn.
    Drawing(String),
    /// It cannot be made a PNG.
    Png(png::EncodingError),
}

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("there is nothing to draw"),
            Self::Drawing(error) => f.write_str(error),
            Self::Png(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DrawError {}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self::Drawing(error.to_string())
    }
}

impl From<png::EncodingError> for DrawError {
    fn from(error: png::EncodingError) -> Self {
        Self::Png(error)
    }
}

/// Draws a figure.
pub type Draw = fn(&Chart) -> Result<Vec<u8>, DrawError>;

/// How figures are drawn in files whose names end so.
pub fn by_extension(extension: &str) -> Option<Draw> {
    match extension {
        "svg" => Some(svg),
        "png" => Some(png),
        "pdf" => Some(pdf),
        _ => None,
    }
}

/// The figure as SVG.
///
/// # Errors
/// If there is nothing to draw.
pub fn svg(chart: &Chart) -> Result<Vec<u8>, DrawError> {
    let mut text = String::new();
    draw(&SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), chart, 1)?;
    // Opened by itself it fits the window; where it is embedded it keeps its size.
    let opening = format!("<svg {SVG_MARK} style=\"max-width:100%;max-height:100vh\" ");
    Ok(text.replacen("<svg ", &opening, 1).into_bytes())
}

/// The figure as PDF, a page of its size.
///
/// # Errors
/// If there is nothing to draw.
pub fn pdf(chart: &Chart) -> Result<Vec<u8>, DrawError> {
    let mut content = pdf_writer::Content::new();
    draw(&Page::new(&mut content, SIZE, FONT).into_drawing_area(), chart, 1)?;
    Ok(pdf::file(content, SIZE, FONT, &chart.title))
}

/// The figure as PNG.
///
/// # Errors
/// If there is nothing to draw.
pub fn png(chart: &Chart) -> Result<Vec<u8>, DrawError> {
    let (width, height) = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);
    let mut pixels = vec![0; (width * height * 3) as usize];
    draw(&BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area(), chart, PIXELS as i32)?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: PIXELS_PER_METRE,
        yppu: PIXELS_PER_METRE,
        unit: png::Unit::Meter,
    }));
    encoder.add_text_chunk("Software".to_owned(), "forebay".to_owned())?;
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(file)
}

const PIXELS_PER_METRE: u32 = (96.0 * PIXELS as f64 / 0.0254) as u32;

/// A line to draw: its name and its points.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

fn draw<DB: DrawingBackend>(root: &DrawingArea<DB, Shift>, chart: &Chart, scale: i32) -> Result<(), DrawError>
where
    DB::ErrorType: 'static,
{
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let registered = register_font(FAMILY, FontStyle::Normal, FONT);
        assert!(registered.is_ok(), "the embedded font is a font");
    });
    let lines = lines(chart);
    let all = || lines.iter().flat_map(|(_, points)| points);
    let (least, most) =
        all().fold((f64::INFINITY, 0.0f64), |(least, most), point| (least.min(point.0), most.max(point.0)));
    if least > most {
        return Err(DrawError::Nothing);
    }
    // One size alone is drawn in the middle.
    let (least, most) = if least == most { (least / 2.0, most * 2.0) } else { (least, most) };
    // Marks at the ends stay clear of the frame.
    let room = (most / least).powf(0.03);
    let (least, most) = (least / room, most * room);
    let highest = all().map(|point| point.1).fold(0.0, f64::max);
    let top = if highest == 0.0 { 1.0 } else { highest * 1.04 };

    let text = (FAMILY, 12 * scale).into_font().color(&INK);
    let widest = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let legend_width = (widest as i32 * 7 + 62) * scale;
    root.fill(&WHITE)?;
    let heading = (FAMILY, 15 * scale).into_font().color(&INK);
    root.draw(&Text::new(chart.title.clone(), (16 * scale, 10 * scale), heading))?;
    let (_, root) = root.split_vertically(30 * scale);
    let (left, legend) = root.split_horizontally(root.dim_in_pixel().0 as i32 - legend_width);
    let mut builder = ChartBuilder::on(&left);
    builder.margin(10 * scale).margin_right((MARGINS - 10) * scale);
    builder.x_label_area_size(40 * scale).y_label_area_size(Y_AREA * scale);
    let ticks = match chart.x.unit {
        _ if !chart.x.ticks.is_empty() => {
            let width = left.dim_in_pixel().0 as i32 / scale - Y_AREA - MARGINS;
            apart(&chart.x.ticks, least..most, width.into(), |at| shown(at, &chart.x).len())
        }
        Unit::Pages(_) => powers_of_two(least, most),
        _ => ticks(least, most),
    };
    let mut drawn = builder.build_cartesian_2d((least..most).log_scale().with_key_points(ticks), 0.0..top)?;
    drawn
        .configure_mesh()
        .x_desc(described(&chart.x))
        .y_desc(described(&chart.y))
        .x_label_formatter(&|&at| shown(at, &chart.x))
        .y_label_formatter(&|&at| shown(at, &chart.y))
        .label_style(text.clone())
        .axis_desc_style(text.clone())
        .axis_style(INK.stroke_width(scale as u32))
        .bold_line_style(GRID.stroke_width(scale as u32))
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(4 * scale)
        .draw()?;
    for (index, (_, points)) in lines.iter().enumerate() {
        let style = color(index).stroke_width(2 * scale as u32);
        match dashes(index) {
            None => drawn.draw_series([PathElement::new(points.clone(), style)])?,
            Some((length, distance)) => {
                drawn.draw_series([DashedPathElement::new(points.clone(), length * scale, distance * scale, style)])?
            }
        };
        let marked = points.iter().step_by(points.len().div_ceil(MARKS));
        let (outline, filled) = shape(index, scale);
        let fill = if filled { color(index) } else { WHITE }.filled();
        drawn.draw_series(marked.map(|&point| {
            EmptyElement::at(point)
                + Polygon::new(outline.clone(), fill)
                + PathElement::new(outline.clone(), color(index).stroke_width(scale as u32))
        }))?;
    }
    if let Some(mark) = &chart.mark
        && let Some((_, points)) = lines.iter().find(|(name, _)| *name == mark.series)
        && let Some(&at) = points.iter().find(|(x, _)| *x == mark.x)
    {
        let ring = Circle::new((0, 0), 9 * scale, INK.stroke_width(scale as u32));
        let in_pixels = |points: &Vec<_>| points.iter().map(|point| drawn.backend_coord(point)).collect();
        let lines: Vec<_> = lines.iter().map(|(_, points)| in_pixels(points)).collect();
        let place = word_place(drawn.backend_coord(&at), &lines, drawn.plotting_area().get_pixel_range(), scale);
        let word = Text::new("recommended", place, text.clone().pos(Pos::new(HPos::Center, VPos::Top)));
        drawn.draw_series([EmptyElement::at(at) + ring + word])?;
    }
    let step = (legend.dim_in_pixel().1 as i32 - 50 * scale) / lines.len().max(1) as i32;
    for (index, (name, _)) in lines.iter().enumerate() {
        let y = 18 * scale + index as i32 * step.min(20 * scale);
        let ends = [(0, y), (34 * scale, y)];
        let style = color(index).stroke_width(2 * scale as u32);
        match dashes(index) {
            None => legend.draw(&PathElement::new(ends, style))?,
            Some((length, distance)) => {
                legend.draw(&DashedPathElement::new(ends, length * scale, distance * scale, style))?;
            }
        }
        let (outline, filled) = shape(index, scale);
        let fill = if filled { color(index) } else { WHITE }.filled();
        legend.draw(
            &(EmptyElement::at((17 * scale, y))
                + Polygon::new(outline.clone(), fill)
                + PathElement::new(outline, color(index).stroke_width(scale as u32))),
        )?;
        legend.draw(&Text::new((*name).to_owned(), (42 * scale, y - 6 * scale), text.clone()))?;
    }
    root.present()?;
    Ok(())
}

/// What the figures of the y axis and the margins take of the width.
const Y_AREA: i32 = 58;
const MARGINS: i32 = 24;

/// The ticks whose labels, of `length` characters each, do not meet on a logarithmic axis of this width; the last one among them.
fn apart(ticks: &[f64], axis: Range<f64>, width: f64, length: impl Fn(f64) -> usize) -> Vec<f64> {
    let middle = |at: f64| (at / axis.start).ln() / (axis.end / axis.start).ln() * width;
    // A letter and half a space on each side.
    let half = |at: f64| (length(at) + 1) as f64 * 3.6;
    let mut kept: Vec<f64> = Vec::new();
    for &tick in ticks.iter().rev() {
        if kept.last().is_none_or(|&next| middle(tick) + half(tick) <= middle(next) - half(next)) {
            kept.push(tick);
        }
    }
    kept.reverse();
    kept
}

/// Half the width, and the height, of the word beside the mark.
const WORD: (i32, i32) = (40, 15);

/// Where the word's middle and top are, from the mark on: within the frame, where the word covers the least of lines.
fn word_place(
    mark: (i32, i32),
    lines: &[Vec<(i32, i32)>],
    (across, down): (Range<i32>, Range<i32>),
    scale: i32,
) -> (i32, i32) {
    let (half, height) = (WORD.0 * scale, WORD.1 * scale);
    let covered = |(x, y): (i32, i32)| {
        let (middle, top) = (mark.0 + x, mark.1 + y);
        let frame = [middle - half, middle + half].iter().all(|x| across.contains(x));
        if !(frame && down.contains(&top) && down.contains(&(top + height))) {
            return usize::MAX;
        }
        // By the points of each line, a pixel apart.
        let points = lines.iter().flat_map(|line| line.windows(2)).flat_map(|ends| {
            let [(from, at), (to, then)] = [ends[0], ends[1]];
            (from..=to).map(move |x| (x, at + (then - at) * (x - from) / (to - from).max(1)))
        });
        points
            .filter(|&(x, y)| (middle - half..=middle + half).contains(&x) && (top..=top + height).contains(&y))
            .count()
    };
    let places = [(0, -26), (0, 12), (-54, -24), (54, 10), (54, -24), (-54, 10), (0, -60), (0, 48)];
    places.map(|(x, y)| (x * scale, y * scale)).into_iter().min_by_key(|&place| covered(place)).unwrap_or_default()
}

/// The lines of the first view, without points that a logarithmic axis has no place for.
fn lines(chart: &Chart) -> Vec<Line<'_>> {
    let Some((view, X::Numbers(x))) = chart.views.first().map(|view| (view, &view.x)) else { return Vec::new() };
    let points = |y: &[Option<f64>]| -> Vec<(f64, f64)> {
        let known = x.iter().zip(y).filter_map(|(&x, &y)| Some((x, y?)));
        known.filter(|&(x, y)| x > 0.0 && y.is_finite()).collect()
    };
    let lines = view.series.iter().map(|series| (series.name.as_str(), points(&series.y)));
    lines.filter(|(_, points)| !points.is_empty()).collect()
}

/// Round numbers between two: 1, 2 and 5 of each power of ten, or the powers alone where these are many.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let of = |steps: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|&tick| least <= tick && tick <= most).collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= 9 { fine } else { of(&[1.0]) }
}

/// The same of sizes in pages: powers of two, every second or third of them and so on where these are many.
fn powers_of_two(least: f64, most: f64) -> Vec<f64> {
    let powers: Vec<i32> = (least.log2().ceil() as i32..=most.log2().floor() as i32).collect();
    powers.iter().step_by(powers.len().div_ceil(9).max(1)).map(|&power| 2f64.powi(power)).collect()
}

fn color(index: usize) -> RGBColor {
    COLORS[index % COLORS.len()]
}

fn dashes(index: usize) -> Option<(i32, i32)> {
    // Moved on by one with each round of shapes, so that no shape meets its dashes again soon.
    match (index + index / SHAPES) % (DASHES.len() + 1) {
        0 => None,
        dashes => Some(DASHES[dashes - 1]),
    }
}

/// The outline of a line's mark, and whether it is filled.
fn shape(index: usize, scale: i32) -> (Vec<(i32, i32)>, bool) {
    let size = 4 * scale;
    let round = || {
        (0..=12).map(|step| {
            let (sin, cos) = (f64::from(step) * std::f64::consts::TAU / 12.0).sin_cos();
            ((cos * f64::from(size)).round() as i32, (sin * f64::from(size)).round() as i32)
        })
    };
    let square = vec![(-size, -size), (size, -size), (size, size), (-size, size), (-size, -size)];
    let triangle = vec![(-size, size), (0, -size), (size, size), (-size, size)];
    let diamond = vec![(-size, 0), (0, -size), (size, 0), (0, size), (-size, 0)];
    match index % SHAPES {
        0 => (round().collect(), true),
        1 => (square, true),
        2 => (triangle, true),
        3 => (round().collect(), false),
        4 => (diamond, true),
        5 => (square, false),
        6 => (triangle, false),
        _ => (diamond, false),
    }
}

fn described(axis: &Axis) -> String {
    let unit = match axis.unit {
        Unit::Ratio => " (%)",
        Unit::Seconds => " (s)",
        Unit::Milliseconds => " (ms)",
        Unit::Bytes => " (bytes)",
        Unit::Text | Unit::Number | Unit::Pages(_) => "",
    };
    format!("{}{unit}", axis.title)
}

fn shown(at: f64, axis: &Axis) -> String {
    if let Unit::Pages(page_size) = axis.unit {
        return show_bytes((at * page_size as f64).round() as u64);
    }
    let at = if axis.unit == Unit::Ratio { 100.0 * at } else { at };
    // What a sum of tenths has behind its digits is not shown.
    let number = (at * 1e6).round() / 1e6;
    let short = |divisor: f64, letter: &str| format!("{}{letter}", (number / divisor * 1e3).round() / 1e3);
    match number {
        number if number >= 1e9 => short(1e9, " G"),
        number if number >= 1e6 => short(1e6, " M"),
        number if number >= 1e4 => short(1e3, " k"),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Kind, Mark, Series, View};

    fn chart(lines: usize) -> Chart {
        let x = vec![10.0, 100.0, 1000.0];
        let series =
            (0..lines).map(|line| Series::new(format!("policy-{line}"), [0.1, 0.3, 0.5 + line as f64 / 100.0]));
        Chart {
            id: "hit-ratio".to_owned(),
            title: "Hit ratio by cache size".to_owned(),
            explanation: String::new(),
            kind: Kind::Lines,
            x: Axis::log("cache size", Unit::Pages(4096)),
            y: Axis::linear("hit ratio", Unit::Ratio),
            keyed: true,
            views: vec![View::only(X::Numbers(x), series.collect())],
            first: 0,
            mark: Some(Mark { series: "policy-0".to_owned(), x: 100.0 }),
        }
    }

    #[test]
    fn a_figure_names_every_line_and_both_axes() {
        let text = String::from_utf8(svg(&chart(28)).unwrap()).unwrap();
        for word in ["policy-0", "policy-27", "cache size", "512 KiB", "hit ratio (%)", "Hit ratio by", "recommended"] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_png_has_lines_of_every_colour() {
        let file = png(&chart(COLORS.len())).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        for color in COLORS {
            let of_color = pixels.chunks(3).filter(|pixel| *pixel == [color.0, color.1, color.2]).count();
            assert!(of_color > 1000, "{color:?}: {of_color} pixels");
        }
    }

    #[test]
    fn a_pdf_has_one_page_its_letters_and_every_line() {
        let file = pdf(&chart(COLORS.len())).unwrap();
        let text = String::from_utf8_lossy(&file);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"));
        for part in ["/Count 1", "/FontFile2", "/Title (Hit ratio by cache size)", "(policy-0) Tj", "(recommended) Tj"]
        {
            assert!(text.contains(part), "{part}");
        }
        for RGBColor(red, green, blue) in COLORS {
            let [red, green, blue] = [red, green, blue].map(|part| f32::from(part) / 255.0);
            let mut stroke = pdf_writer::Content::new();
            stroke.set_stroke_rgb(red, green, blue);
            let stroke = stroke.finish();
            assert!(file.windows(stroke.len()).any(|part| part == &*stroke), "{red} {green} {blue}");
        }
    }

    #[test]
    fn shapes_and_dashes_together_tell_28_lines_apart() {
        let kinds: std::collections::HashSet<_> = (0..28).map(|line| (line % SHAPES, dashes(line))).collect();
        assert_eq!(kinds.len(), 28);
    }

    #[test]
    fn labels_that_would_meet_are_left_out() {
        let sizes = [893.0, 982.0, 1072.0, 1161.0, 1250.0, 1340.0, 1787.0, 2680.0];
        assert_eq!(apart(&sizes, 860.0..2770.0, 760.0, |_| 8), [982.0, 1161.0, 1340.0, 1787.0, 2680.0]);
        assert_eq!(apart(&sizes, 860.0..2770.0, 200.0, |_| 8), [1161.0, 1787.0, 2680.0]);
        assert_eq!(apart(&[], 1.0..2.0, 200.0, |_| 8), [0.0; 0]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(89.0, 4468.0), [100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(ticks(1.0, 800_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(powers_of_two(89.0, 4468.0), [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0]);
        assert_eq!(powers_of_two(1.0, 800_000.0), [1.0, 8.0, 64.0, 512.0, 4096.0, 32_768.0, 262_144.0]);
    }
}
