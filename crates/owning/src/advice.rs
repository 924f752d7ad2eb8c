//! What a program says it will do with a file.

use std::fmt;
use std::str::FromStr;

/// What a program will do with a file; the numbers are those of `POSIX_FADV_*` on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing in particular.
    Normal,
    /// No readahead.
    Random,
    /// The longest readahead.
    Sequential,
    /// It is read ahead at once.
    WillNeed,
    /// Its pages leave.
    DoNotNeed,
    /// It is used once.
    NoReuse,
}

impl Advice {
    const ALL: [Self; 6] =
        [Self::Normal, Self::Random, Self::Sequential, Self::WillNeed, Self::DoNotNeed, Self::NoReuse];

    const NAMES: [&str; 6] = ["normal", "random", "sequential", "willneed", "dontneed", "noreuse"];

    /// The advice of this number.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

impl FromStr for Advice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().position(|&name| name == text);
        let wrong = || format!("`{text}` is no hint: write {}", Self::NAMES.join(", "));
        found.map(|index| Self::ALL[index]).ok_or_else(wrong)
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}
