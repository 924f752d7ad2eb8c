//! The forms in which a command answers.

use clap::ValueEnum;

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For a person
    #[default]
    Table,
    /// For a spreadsheet or a script
    Csv,
    /// For a program
    Json,
}

/// The form of an answer that also makes pages of documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageForm {
    /// For a person
    #[default]
    Table,
    /// For a spreadsheet or a script
    Csv,
    /// For a program
    Json,
    /// For a page
    Markdown,
}

/// A number with its thousands apart: `12,672,123`.
pub(crate) fn grouped(number: u64) -> String {
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

/// Percent with one decimal.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.1}", 100.0 * ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([0, 999, 1000, 12_672_123].map(grouped), ["0", "999", "1,000", "12,672,123"]);
    }
}
