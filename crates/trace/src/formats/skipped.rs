//! Operations that a reader does not know, in formats whose set of them is open: their rows are skipped, counted, and named once at the end.

use super::fields::shorten;

/// This many different words are kept; a file with more of them is in another format.
const MOST_WORDS: usize = 16;

/// The unknown operations of a trace, by word.
#[derive(Default)]
pub(super) struct UnknownOperations {
    words: Vec<(String, u64)>,
    /// Rows with words beyond the first [`MOST_WORDS`].
    others: u64,
}

impl UnknownOperations {
    /// A row with this operation is skipped.
    pub(super) fn count(&mut self, word: &str) {
        let word = shorten(word);
        if let Some((_, count)) = self.words.iter_mut().find(|(known, _)| *known == word) {
            *count += 1;
        } else if self.words.len() < MOST_WORDS {
            self.words.push((word, 1));
        } else {
            self.others += 1;
        }
    }

    /// What was skipped of a file, if anything.
    pub(super) fn warning(&self, file: &str) -> Option<String> {
        let rows = self.words.iter().map(|(_, count)| count).sum::<u64>() + self.others;
        let mut named: Vec<String> = self.words.iter().map(|(word, count)| format!("{word} ({count})")).collect();
        if self.others > 0 {
            named.push(format!("others ({})", self.others));
        }
        let what = if rows == 1 { "row" } else { "rows" };
        (rows > 0).then(|| format!("{file}: skipped {rows} {what} with unknown operations: {}", named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_and_only_so_many_are_kept() {
        let mut unknown = UnknownOperations::default();
        assert_eq!(unknown.warning("t"), None);
        for word in ["FLY", "SWIM", "FLY"] {
            unknown.count(word);
        }
        assert_eq!(unknown.warning("t").unwrap(), "t: skipped 3 rows with unknown operations: FLY (2), SWIM (1)");
        (0..20).for_each(|number| unknown.count(&number.to_string()));
        assert!(unknown.warning("t").unwrap().ends_with("13 (1), others (6)"));
    }
}
