//! Figures in a row of whole numbers.

/// A whole number of 64 bits, or a struct of them: what a mapped file, or a struct of C, has in a row.
pub trait Words: Sized {
    /// How many words there are.
    const COUNT: usize;

    /// The fields of the struct: their names and their documentation.
    const FIELDS: &'static [(&'static str, &'static str)];

    /// Gives each word, in the order of the fields.
    fn put(&self, words: &mut dyn FnMut(u64));

    /// Takes the words in that order.
    fn take(words: &mut dyn FnMut() -> u64) -> Self;
}

impl Words for u64 {
    const COUNT: usize = 1;

    const FIELDS: &'static [(&'static str, &'static str)] = &[];

    fn put(&self, words: &mut dyn FnMut(u64)) {
        words(*self);
    }

    fn take(words: &mut dyn FnMut() -> u64) -> Self {
        words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Total, figures};

    figures! {
        /// Inner.
        #[derive(Copy)]
        pub(crate) struct Inner in words counted by pub(crate) InnerCounters {
            /// The second word.
            second: u64 = Total;
            /// The third.
            third: u64 = Total;
        }
    }

    figures! {
        /// Outer.
        #[derive(Copy)]
        pub(crate) struct Outer in words read from InnerCounters {
            /// The first word.
            first: u64 => |inner| inner.second.get() * 2;
            /// Two more.
            #[serde(flatten)]
            inner: Inner => |inner| inner.read();
            /// The last, read from elsewhere.
            last: u64;
        }
    }

    #[test]
    fn figures_go_to_words_and_back_in_the_order_of_their_fields() {
        let counters = InnerCounters::default();
        counters.second.add(7);
        counters.third.add(9);
        let outer = Outer { last: 3, ..Outer::of(&counters) };
        let mut words = Vec::new();
        outer.put(&mut |word| words.push(word));
        assert_eq!((Outer::COUNT, &words[..]), (4, &[14, 7, 9, 3][..]));
        assert_eq!(Outer::FIELDS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["first", "inner", "last"]);
        let mut words = words.into_iter();
        assert_eq!(Outer::take(&mut || words.next().expect("a word")), outer);
    }
}
