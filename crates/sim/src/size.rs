//! The size of a cache, as a user writes it.

use forebay_basis::{parse_bytes, show_bytes};
use std::fmt;
use std::str::FromStr;

/// The most pages that a cache can have: page numbers are 32 bits wide, and two of them are no pages.
pub const MOST_PAGES: u64 = u32::MAX as u64 - 2;

/// The page numbers to make room for when there are `pages`, and more to come.
pub(crate) fn room_for(pages: u32) -> u32 {
    pages.saturating_add(pages / 8).min(MOST_PAGES as u32)
}

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// This many pages: `1000`.
    Pages(u64),
    /// This many bytes: `64MiB`.
    Bytes(u64),
    /// Percent of the pages that the trace refers to: `10%`.
    Percent(f64),
}

/// Why a text is no size, or no cache can have it.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeError {
    /// The text is none of the forms.
    NoSize(String),
    /// The text ends in `%`, and is no percentage.
    NoPercentage(String),
    /// The text says none at all.
    Nothing(String),
    /// The text is a number of pages beyond all bounds.
    TooManyPages(String),
    /// A page is larger.
    HoldsNoPage(Size, u64),
    /// No page is left.
    NoPages,
    /// There are more pages than numbers for them.
    TooLarge(Size),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSize(text) => {
                write!(f, "`{text}` is no size: write pages (1000), bytes (64MiB) or percent of the footprint (10%)")
            }
            Self::NoPercentage(text) => {
                write!(f, "`{text}` is no size: a percentage is written like 10% or 0.5%")
            }
            Self::Nothing(text) => write!(f, "a cache of {text} holds nothing: take at least 1 page"),
            Self::TooManyPages(text) => {
                write!(f, "a cache of {text} pages is too large: {MOST_PAGES} are the most")
            }
            Self::HoldsNoPage(size, page_size) => {
                // Rounded it might be as large as a page.
                let exact = match size {
                    Size::Bytes(bytes @ 2..) => format!("{bytes} bytes"),
                    size => size.to_string(),
                };
                write!(f, "a cache of {exact} holds no page: a page has {page_size} bytes")
            }
            Self::NoPages => f.write_str("a cache of 0 pages holds nothing: take at least 1"),
            Self::TooLarge(size) => {
                write!(
                    f,
                    "a cache of {size} is too large: {MOST_PAGES} pages are the most; a number without a letter is pages"
                )
            }
        }
    }
}

impl std::error::Error for SizeError {}

impl Size {
    /// The size in pages of `page_size` bytes, for a trace with a footprint of `footprint` pages.
    ///
    /// # Errors
    /// Why no cache can have this size.
    pub fn pages(self, page_size: u64, footprint: u32) -> Result<u32, SizeError> {
        let pages = match self {
            Self::Pages(pages) => pages,
            Self::Bytes(bytes) if bytes < page_size => return Err(SizeError::HoldsNoPage(self, page_size)),
            Self::Bytes(bytes) => bytes / page_size,
            // At least one page: a percent of a tiny footprint is still a cache.
            Self::Percent(percent) => ((f64::from(footprint) * percent / 100.0).round() as u64).max(1),
        };
        match u32::try_from(pages) {
            Ok(pages @ 1..) if u64::from(pages) <= MOST_PAGES => Ok(pages),
            Ok(0) => Err(SizeError::NoPages),
            _ => Err(SizeError::TooLarge(self)),
        }
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let owned = || text.to_owned();
        let size = if let Some(percent) = text.strip_suffix('%') {
            let percent =
                percent.trim_end().parse().ok().filter(|percent: &f64| percent.is_finite() && *percent >= 0.0);
            Self::Percent(percent.ok_or_else(|| SizeError::NoPercentage(owned()))?)
        } else if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            Self::Pages(text.parse().map_err(|_| SizeError::TooManyPages(owned()))?)
        } else {
            Self::Bytes(parse_bytes(text).map_err(|_| SizeError::NoSize(owned()))?)
        };
        match size {
            Self::Pages(0) | Self::Bytes(0) => Err(SizeError::Nothing(format!("`{text}`"))),
            Self::Percent(0.0) => Err(SizeError::Nothing("0%".to_owned())),
            size => Ok(size),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pages(pages) => write!(f, "{pages} page{}", if pages == 1 { "" } else { "s" }),
            Self::Bytes(bytes) => f.write_str(&show_bytes(bytes)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What to say where a list of sizes was perhaps meant as one number: `1,787` is 1 page and 787 pages.
pub fn doubt(sizes: &[Size]) -> Option<String> {
    let [Size::Pages(first @ 1..10), rest @ ..] = sizes else { return None };
    let groups = rest.iter().map(|size| match size {
        Size::Pages(pages @ 100..1000) => Some(pages.to_string()),
        _ => None,
    });
    let groups: Vec<String> = groups.collect::<Option<_>>().filter(|groups: &Vec<_>| !groups.is_empty())?;
    let (list, one) = (groups.join(" and "), groups.concat());
    Some(format!("the sizes are {first} and {list} pages; if you mean one of {first}{one}, write it without commas"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_pages_bytes_or_percent() {
        let pages = |text: &str| text.parse::<Size>().and_then(|size| size.pages(8192, 5000));
        assert_eq!(pages("1000"), Ok(1000));
        assert_eq!(pages("64MiB"), Ok(8192));
        assert_eq!(pages("64M"), Ok(8192));
        assert_eq!(pages("1.5GiB"), Ok(196_608));
        assert_eq!(pages("1MB"), Ok(122));
        assert_eq!(pages("10%"), Ok(500));
        assert_eq!(pages("0.001%"), Ok(1));
        assert_eq!(pages("150 %"), Ok(7500));
    }

    #[test]
    fn what_no_cache_can_have_is_refused_with_a_reason() {
        let wrong = |text: &str| text.parse::<Size>().and_then(|size| size.pages(8192, 5000)).unwrap_err().to_string();
        assert!(wrong("0").contains("holds nothing"));
        assert!(wrong("0%").contains("holds nothing"));
        assert!(wrong("0KiB").contains("holds nothing"));
        assert!(wrong("100B").contains("holds no page"));
        assert!(wrong("99999999999").contains("too large"));
        assert!(wrong("99999999999999999999999").contains("too large"));
        assert!(wrong("900TiB").contains("too large"));
        for text in ["", "x", "-5", "5 parrots", "1e9", "NaN%", "-1%", "%", "1.2.3MiB", "MiB"] {
            assert!(wrong(text).contains("is no size"), "{text}: {}", wrong(text));
        }
    }

    #[test]
    fn a_list_that_may_be_one_number_is_doubted() {
        let doubt = |text: &str| {
            let sizes: Vec<Size> = text.split(',').map(|size| size.parse().expect("a size")).collect();
            doubt(&sizes)
        };
        assert!(doubt("1,787").expect("a doubt").contains("1 and 787 pages; if you mean one of 1787"));
        assert!(doubt("4,194,304").expect("a doubt").contains("one of 4194304"));
        for sure in ["1", "787", "1,10", "1,1000", "10,100", "100,200,400", "1%,200", "1,200%", "1,50,100"] {
            assert_eq!(doubt(sure), None, "{sure}");
        }
    }
}
