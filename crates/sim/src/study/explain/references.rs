//! The short string of references that is explained: `abcabd`, or `1,2,3,1`.

use std::fmt;
use std::str::FromStr;

/// The most references: each has a drawing.
const MOST: usize = 1000;

/// References to pages that are letters, or numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    /// In the order of their first use, which is how pages are numbered.
    names: Vec<String>,
    pages: Vec<u32>,
    numbers: bool,
}

impl References {
    /// The pages in the order of the references.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// What a page is called.
    pub fn name(&self, page: u32) -> &str {
        &self.names[page as usize]
    }

    /// How many pages there are.
    pub fn distinct(&self) -> u32 {
        self.names.len() as u32
    }

    /// The file and the block of a page: letters are blocks in their order, capital ones of a second file.
    pub(super) fn at(&self, page: u32) -> (u32, u64) {
        let name = self.name(page);
        if let Ok(number) = name.parse() {
            return (0, number);
        }
        let letter = name.as_bytes()[0];
        let first = if letter.is_ascii_uppercase() { b'A' } else { b'a' };
        (u32::from(letter.is_ascii_uppercase()), u64::from(letter - first))
    }
}

impl FromStr for References {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_letter = |letter: char| letter.is_ascii_alphabetic();
        let numbers = !text.contains(is_letter);
        let words: Vec<String> = if numbers {
            text.split(',').map(|word| word.trim().to_owned()).collect()
        } else {
            text.chars().filter(|letter| !letter.is_whitespace()).map(String::from).collect()
        };
        let wrong = words.iter().find(|word| match numbers {
            true => word.parse::<u32>().is_err(),
            false => !word.chars().all(is_letter),
        });
        if let Some(wrong) = wrong {
            let right = "references are letters (abcab), or numbers with commas between (1,2,3,1)";
            return Err(format!("{right}: `{wrong}` is neither a letter nor a number below 2^32"));
        }
        if words.len() > MOST {
            return Err(format!("there are {} references: each has a drawing, so give at most {MOST}", words.len()));
        }
        let mut names: Vec<String> = Vec::new();
        let pages = words.into_iter().map(|word| {
            let name = if numbers { word.parse::<u32>().expect("it was checked").to_string() } else { word };
            let known = names.iter().position(|other| *other == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }) as u32
        });
        let pages = pages.collect();
        Ok(Self { names, pages, numbers })
    }
}

impl fmt::Display for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.pages.iter().map(|&page| self.name(page)).collect();
        f.write_str(&names.join(if self.numbers { "," } else { "" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_numbers_are_pages_in_the_order_of_their_files() {
        let letters: References = "cab Ac".parse().unwrap();
        assert_eq!((letters.pages(), letters.to_string().as_str()), (&[0, 1, 2, 3, 0][..], "cabAc"));
        assert_eq!([0, 1, 2, 3].map(|page| letters.at(page)), [(0, 2), (0, 0), (0, 1), (1, 0)]);
        let numbers: References = "12, 7,012".parse().unwrap();
        assert_eq!((numbers.pages(), numbers.to_string().as_str()), (&[0, 1, 0][..], "12,7,12"));
        assert_eq!([0, 1].map(|page| numbers.at(page)), [(0, 12), (0, 7)]);
    }

    #[test]
    fn what_is_neither_is_refused_with_what_is_right() {
        for (text, wrong) in
            [("ab1", "`1`"), ("", "``"), ("1,,2", "``"), ("1,-2", "`-2`"), ("a,b", "`,`"), ("é", "`é`")]
        {
            let refused = text.parse::<References>().unwrap_err();
            assert!(refused.contains(wrong) && refused.contains("letters (abcab)"), "{text}: {refused}");
        }
        assert!("a".repeat(1001).parse::<References>().unwrap_err().contains("at most 1000"));
    }
}
