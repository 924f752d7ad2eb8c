//! How a page is used.

/// How a page is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The page is read.
    #[default]
    Read,
    /// The page is written.
    Write,
    /// The page is fetched ahead of a use that is expected.
    Readahead,
    /// The page is read by a program that has said that it reads at random: nothing is read ahead behind it. To a policy it is a read.
    RandomRead,
    /// The page is read by a program that has said that it reads in order: the longest window is read ahead behind it. To a policy it is a read.
    SequentialRead,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Readahead, Self::RandomRead, Self::SequentialRead];

    /// The word for it in traces.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Readahead => "readahead",
            Self::RandomRead => "random-read",
            Self::SequentialRead => "sequential-read",
        }
    }
}
