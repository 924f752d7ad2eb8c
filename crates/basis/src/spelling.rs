//! Names as users write them: case, dashes and underscores do not matter, and what is nearly right is suggested.

/// Whether both are the same name.
pub fn same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

/// What to say behind a name that is unknown: the known one that it is nearly, if there is one.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = plain(name);
    let near = known.map(|known| (strsim::damerau_levenshtein(&name, &plain(known)), known));
    match near.min_by_key(|&(distance, _)| distance) {
        Some((distance, known)) if distance <= (name.len() / 3).max(1) => format!(" (did you mean `{known}`?)"),
        _ => String::new(),
    }
}

/// A text that others chose, without the control characters by which it could pass for another line, or steer a terminal.
pub fn printable(text: &str) -> String {
    let shown =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(shown).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_dashes_do_not_matter_and_a_typo_is_suggested() {
        assert!(same("S3FIFO", "s3-fifo") && same("clock_pro", "clock-pro") && !same("lru", "lru-k"));
        let of = |name: &str| did_you_mean(name, ["lru", "clock-pro", "s3-fifo"].into_iter());
        assert_eq!(of("clok-pro"), " (did you mean `clock-pro`?)");
        assert_eq!(of("parrot"), "");
    }

    #[test]
    fn control_characters_are_shown_as_what_they_are() {
        assert_eq!(printable("naïve\n\u{1b}[31m"), "naïve\\n\\u{1b}[31m");
    }
}
