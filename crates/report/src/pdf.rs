//! A page of PDF as large as a figure, with the letters embedded.

use pdf_writer::types::FontFlags;
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};
use std::convert::Infallible;
use ttf_parser::Face;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// Points of PDF in a point of a figure: 72 and 96 to the inch.
const SCALE: f32 = 0.75;
/// Letters of a size are drawn as large as SVG draws them.
const LETTERS: f64 = 1.0 / 1.24;
const FONT: Name<'static> = Name(b"F");
/// The codes that letters have in PDF's own encoding, and that of letters without one.
const CODES: std::ops::RangeInclusive<u8> = 0x20..=0xff;
const UNKNOWN: u8 = b'?';

/// What is drawn on the page.
pub(crate) struct Page<'a> {
    size: (u32, u32),
    content: &'a mut Content,
    face: Face<'a>,
}

impl<'a> Page<'a> {
    /// An empty page of a size, with letters of a font.
    ///
    /// # Panics
    /// If the font is none.
    pub(crate) fn new(content: &'a mut Content, size: (u32, u32), font: &'a [u8]) -> Self {
        // Figures begin at the top, pages of PDF at the bottom.
        content.transform([SCALE, 0.0, 0.0, -SCALE, 0.0, SCALE * size.1 as f32]);
        Self { size, content, face: face(font) }
    }

    fn path(&mut self, points: impl IntoIterator<Item = (f32, f32)>) {
        for (index, (x, y)) in points.into_iter().enumerate() {
            match index {
                0 => self.content.move_to(x, y),
                _ => self.content.line_to(x, y),
            };
        }
    }

    fn stroke<S: BackendStyle>(&mut self, style: &S) {
        let [red, green, blue] = rgb(style.color());
        self.content.set_stroke_rgb(red, green, blue).set_line_width(style.stroke_width() as f32).stroke();
    }

    fn fill(&mut self, color: BackendColor) {
        let [red, green, blue] = rgb(color);
        self.content.set_fill_rgb(red, green, blue).fill_nonzero();
    }
}

/// The file: one page with this content.
pub(crate) fn file(content: Content, size: (u32, u32), font: &[u8], title: &str) -> Vec<u8> {
    let [catalog, pages, page, drawn, letters, descriptor, letters_file, about] =
        [1, 2, 3, 4, 5, 6, 7, 8].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.document_info(about).title(TextStr(title)).producer(TextStr("forebay"));
    pdf.pages(pages).kids([page]).count(1);
    let mut sheet = pdf.page(page);
    sheet.media_box(Rect::new(0.0, 0.0, SCALE * size.0 as f32, SCALE * size.1 as f32));
    sheet.parent(pages).contents(drawn).resources().fonts().pair(FONT, letters);
    sheet.finish();
    pdf.stream(drawn, &content.finish());

    let face = face(font);
    let name = Name(b"DejaVuSans");
    let em = |units: i16| thousandths(&face, units.into());
    let mut dictionary = pdf.indirect(letters).dict();
    dictionary.pair(Name(b"Type"), Name(b"Font")).pair(Name(b"Subtype"), Name(b"TrueType"));
    dictionary.pair(Name(b"BaseFont"), name).pair(Name(b"Encoding"), Name(b"WinAnsiEncoding"));
    dictionary.pair(Name(b"FontDescriptor"), descriptor);
    dictionary.pair(Name(b"FirstChar"), i32::from(*CODES.start())).pair(Name(b"LastChar"), i32::from(*CODES.end()));
    dictionary.insert(Name(b"Widths")).array().items(CODES.map(|code| width(&face, letter(code))));
    dictionary.finish();
    let bounds = face.global_bounding_box();
    let mut described = pdf.font_descriptor(descriptor);
    described.name(name).flags(FontFlags::NON_SYMBOLIC).italic_angle(0.0).stem_v(80.0);
    described.bbox(Rect::new(em(bounds.x_min), em(bounds.y_min), em(bounds.x_max), em(bounds.y_max)));
    described.ascent(em(face.ascender())).descent(em(face.descender()));
    described.cap_height(em(face.capital_height().unwrap_or(face.ascender()))).font_file2(letters_file);
    described.finish();
    pdf.stream(letters_file, font).pair(Name(b"Length1"), font.len() as i32);
    pdf.finish()
}

fn face(font: &[u8]) -> Face<'_> {
    Face::parse(font, 0).expect("the embedded font is a font")
}

fn thousandths(face: &Face<'_>, units: i32) -> f32 {
    units as f32 * 1000.0 / f32::from(face.units_per_em())
}

/// The width of a letter in thousandths of its size.
fn width(face: &Face<'_>, letter: char) -> f32 {
    let advance = face.glyph_index(letter).and_then(|glyph| face.glyph_hor_advance(glyph));
    thousandths(face, advance.unwrap_or(0).into())
}

/// The letters that PDF's encoding has at other codes than Unicode.
const ELSEWHERE: [(u8, char); 8] =
    [(0x85, '…'), (0x91, '‘'), (0x92, '’'), (0x93, '“'), (0x94, '”'), (0x95, '•'), (0x96, '–'), (0x97, '—')];

fn letter(code: u8) -> char {
    ELSEWHERE.iter().find(|(of, _)| *of == code).map_or(char::from(code), |&(_, letter)| letter)
}

fn code(letter: char) -> u8 {
    CODES.into_iter().find(|&code| self::letter(code) == letter).unwrap_or(UNKNOWN)
}

fn rgb(color: BackendColor) -> [f32; 3] {
    let (red, green, blue) = color.rgb;
    [red, green, blue].map(|part| f32::from(part) / 255.0)
}

impl DrawingBackend for Page<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.content.rect(x as f32, y as f32, 1.0, 1.0);
        self.fill(color);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
        if fill { self.fill_polygon(corners, style) } else { self.draw_path(corners, style) }
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if style.color().alpha > 0.0 {
            self.path(path.into_iter().map(|(x, y)| (x as f32, y as f32)));
            self.stroke(style);
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if style.color().alpha > 0.0 {
            self.path(path.into_iter().map(|(x, y)| (x as f32, y as f32)));
            self.fill(style.color());
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, (x, y): BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        // The eye sees no corners.
        const CORNERS: u8 = 48;
        let at = |corner: u8| {
            let (sin, cos) = (f32::from(corner) * std::f32::consts::TAU / f32::from(CORNERS)).sin_cos();
            (x as f32 + cos * radius as f32, y as f32 + sin * radius as f32)
        };
        self.path((0..=CORNERS).map(at));
        if fill {
            self.fill(style.color())
        } else {
            self.stroke(style)
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let size = (style.size() * LETTERS) as f32;
        let codes: Vec<u8> = text.chars().map(code).collect();
        let long: f32 = codes.iter().map(|&code| width(&self.face, letter(code))).sum::<f32>() * size / 1000.0;
        let back = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => long / 2.0,
            HPos::Right => long,
        };
        let down = match style.anchor().v_pos {
            VPos::Top => 0.76,
            VPos::Center => 0.27,
            VPos::Bottom => -0.27,
        } * size;
        // What lies along the text, and what across it, downwards.
        let ((along_x, along_y), (across_x, across_y)) = match style.transform() {
            FontTransform::Rotate90 => ((0.0, 1.0), (-1.0, 0.0)),
            FontTransform::Rotate180 => ((-1.0, 0.0), (0.0, -1.0)),
            FontTransform::Rotate270 => ((0.0, -1.0), (1.0, 0.0)),
            _ => ((1.0, 0.0), (0.0, 1.0)),
        };
        let (x, y) = (x as f32 - along_x * back + across_x * down, y as f32 - along_y * back + across_y * down);
        let [red, green, blue] = rgb(style.color());
        self.content.set_fill_rgb(red, green, blue).begin_text().set_font(FONT, size);
        self.content.set_text_matrix([along_x, along_y, -across_x, -across_y, x, y]).show(Str(&codes)).end_text();
        Ok(())
    }
}
