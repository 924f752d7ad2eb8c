//! Numbers as a person reads them.

/// A number with its thousands apart: `12,672,123`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 page`, `1,787 pages`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Percent with one decimal.
pub fn percent(ratio: f64) -> String {
    format!("{:.1}", 100.0 * ratio)
}

/// Sums of times that stand together: all in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// In milliseconds.
    Milliseconds,
    /// In seconds, to a tenth.
    Seconds,
}

impl Times {
    /// From this many milliseconds on, tenths of a second are exact enough.
    const LONG: f64 = 1e4;

    /// The unit for times of this many milliseconds: seconds if the shortest of those that are not 0 is long.
    pub fn of(milliseconds: impl IntoIterator<Item = f64>) -> Self {
        let shortest = milliseconds.into_iter().filter(|&time| time > 0.0).fold(f64::INFINITY, f64::min);
        if shortest.is_finite() && shortest >= Self::LONG { Self::Seconds } else { Self::Milliseconds }
    }

    /// The unit's sign.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// A time of this many milliseconds, without the unit.
    pub fn shown(self, milliseconds: f64) -> String {
        match self {
            Self::Milliseconds => grouped(milliseconds.round() as u64),
            Self::Seconds => {
                let tenths = (milliseconds / 100.0).round() as u64;
                format!("{}.{}", grouped(tenths / 10), tenths % 10)
            }
        }
    }
}

/// About two digits that matter: 0.013, 0.52, 1.0, 10, 150, 4,837.
pub fn significant(number: f64) -> String {
    if number >= 999.5 {
        return grouped(number.round() as u64);
    }
    let decimals = if number >= 9.95 || number == 0.0 { 0 } else { (1.0 - number.log10().floor()).max(0.0) as usize };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A text in lines that end between words and are no longer than this; longer words stand alone.
pub fn folded(text: &str, width: usize) -> String {
    let (mut folded, mut used) = (String::with_capacity(text.len()), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            folded.push('\n');
            used = 0;
        } else if used > 0 {
            folded.push(' ');
            used += 1;
        }
        folded += word;
        used += length;
    }
    folded
}

/// From how many pages, and what share of all, figures are estimated.
pub fn sampled(rate: f64, pages: u32) -> String {
    let (pages, percent) = (grouped(u64::from(pages)), 100.0 * rate);
    format!("estimated from {pages} sampled pages, {percent:.3} % of all")
}

/// An owner's name.
pub fn owner_name(name: &str) -> &str {
    if name.is_empty() { "(unnamed)" } else { name }
}

/// The program of an owner that is one of its processes: their names differ in a number behind a space, or in block traces behind a slash.
pub fn process(owner: &str) -> Option<&str> {
    let (program, number) = owner.rsplit_once([' ', '/'])?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_their_numbers() {
        assert_eq!(
            ["cat 12", "cat/12", "cat", "a/b", "cat "].map(process),
            [Some("cat"), Some("cat"), None, None, None]
        );
    }

    #[test]
    fn texts_are_folded_between_words() {
        assert_eq!(folded("Take lru with 8 MiB: it hits all", 12), "Take lru\nwith 8 MiB:\nit hits all");
        assert_eq!(folded("a word-that-is-long b", 6), "a\nword-that-is-long\nb");
        assert_eq!([folded("", 5), folded("as it is", 80)], ["", "as it is"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 12_672_123].map(grouped), ["0", "999", "1,000", "12,672,123"]);
        assert_eq!([0, 1, 1787].map(|number| counted(number, "page")), ["0 pages", "1 page", "1,787 pages"]);
    }

    #[test]
    fn shares_are_shown_with_the_digits_that_matter() {
        assert_eq!(
            [0.0134, 0.5, 1.0, 2.04, 9.96, 10.2, 150.0, 999.6, 4836.9].map(significant),
            ["0.013", "0.5", "1", "2", "10", "10", "150", "1,000", "4,837"]
        );
    }

    #[test]
    fn times_that_stand_together_have_one_unit() {
        let shown = |times: [f64; 3]| {
            let unit = Times::of(times);
            (unit.unit(), times.map(|time| unit.shown(time)))
        };
        assert_eq!(shown([0.0, 9_999.0, 5_253_030.4]), ("ms", ["0", "9,999", "5,253,030"].map(str::to_owned)));
        assert_eq!(shown([0.0, 10_040.0, 5_253_060.0]), ("s", ["0.0", "10.0", "5,253.1"].map(str::to_owned)));
        assert_eq!(shown([0.0; 3]).0, "ms");
    }
}
