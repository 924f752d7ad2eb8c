//! The letters by which invariants are cited.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The letters of the invariants that a file states, as `LI` of `/// LI1. Every LIR page`.
fn letters(text: &str) -> impl Iterator<Item = &str> {
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("///"));
    comments.flat_map(|comment| comment.split_whitespace()).filter_map(|word| {
        let letters = word.strip_suffix('.')?.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let stated = letters.len() + 1 < word.len() && (1..=2).contains(&letters.len());
        (stated && letters.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(letters)
    })
}

#[test]
fn the_letters_of_invariants_are_a_file_s_own() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut owners = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a source");
        for letters in letters(&text) {
            let owner = owners.entry(letters.to_owned()).or_insert(file);
            assert_eq!(*owner, file, "invariants {letters}1, … are stated in both");
        }
    }
    assert!(owners.len() > 30, "{owners:?}");
}
