//! How many bits are set below a place, in an array of bits that stands still.

pub(super) struct Ranks {
    /// 64 bits, and how many are set in the words before; behind the last word an empty one, so that the end has a rank too.
    words: Vec<(u64, u32)>,
}

impl Ranks {
    pub(super) fn new(bits: impl Iterator<Item = u64>) -> Self {
        let mut before = 0;
        let words = bits.chain(std::iter::once(0)).map(|word| {
            let below = before;
            before += word.count_ones();
            (word, below)
        });
        Self { words: words.collect() }
    }

    /// How many bits below `place` are set.
    pub(super) fn below(&self, place: u32) -> u32 {
        let (word, before) = self.words[place as usize / 64];
        before + (word & !(u64::MAX << (place % 64))).count_ones()
    }
}
