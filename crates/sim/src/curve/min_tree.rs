//! An array of numbers in which the last number below a limit is found in a few steps.
//!
//! Sixteen numbers fill a cache line; over each line stands its least number, and so on up to a single line.

/// No number: greater than all that are looked for.
pub(super) const NONE: u32 = u32::MAX;

const WIDTH: usize = 16;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line([u32; WIDTH]);

impl Line {
    const EMPTY: Self = Self([NONE; WIDTH]);

    fn least(&self) -> u32 {
        self.0.iter().copied().fold(NONE, u32::min)
    }

    /// The last place before `end` with a number below `limit`.
    #[inline(always)]
    fn last_below(&self, end: usize, limit: u32) -> Option<usize> {
        let below =
            self.0.iter().enumerate().fold(0, |mask, (place, &number)| mask | (u32::from(number < limit) << place));
        let below = below & !(u32::MAX << end);
        (below != 0).then(|| 31 - below.leading_zeros() as usize)
    }
}

#[derive(Debug)]
pub(super) struct MinTree {
    /// `levels[0]` holds the numbers, `levels[k + 1]` the least of each line of `levels[k]`; the last is one line.
    levels: Vec<Vec<Line>>,
}

impl MinTree {
    pub(super) fn new(len: usize) -> Self {
        let mut levels = Vec::new();
        let mut lines = len.div_ceil(WIDTH).max(1);
        loop {
            levels.push(vec![Line::EMPTY; lines]);
            if lines == 1 {
                return Self { levels };
            }
            lines = lines.div_ceil(WIDTH);
        }
    }

    pub(super) fn get(&self, place: usize) -> u32 {
        self.levels[0][place / WIDTH].0[place % WIDTH]
    }

    /// Puts a number where there is none.
    pub(super) fn put(&mut self, mut place: usize, number: u32) {
        for level in &mut self.levels {
            let least = &mut level[place / WIDTH].0[place % WIDTH];
            if *least <= number {
                break;
            }
            *least = number;
            place /= WIDTH;
        }
    }

    /// Replaces a number by a larger one, and returns it.
    pub(super) fn raise(&mut self, mut place: usize, number: u32) -> u32 {
        let old = self.get(place);
        let mut least = number;
        for level in &mut self.levels {
            let line = &mut level[place / WIDTH];
            if line.0[place % WIDTH] != old {
                break;
            }
            line.0[place % WIDTH] = least;
            least = line.least();
            place /= WIDTH;
        }
        old
    }

    /// The last place before `end` with a number below `limit`.
    pub(super) fn last_below(&self, mut end: usize, limit: u32) -> Option<usize> {
        for (height, level) in self.levels.iter().enumerate() {
            let line = end / WIDTH;
            let found = level.get(line).and_then(|numbers| numbers.last_below(end % WIDTH, limit));
            if let Some(found) = found {
                return Some(self.descend(height, line * WIDTH + found, limit));
            }
            end = line;
        }
        None
    }

    fn descend(&self, height: usize, mut place: usize, limit: u32) -> usize {
        for level in self.levels[..height].iter().rev() {
            let found = level[place].last_below(WIDTH, limit).expect("the least number of the line is below the limit");
            place = place * WIDTH + found;
        }
        place
    }

    /// Takes all numbers out, and makes room for `len`.
    pub(super) fn clear_for(&mut self, len: usize) {
        if len.div_ceil(WIDTH).max(1) == self.levels[0].len() {
            self.levels.iter_mut().for_each(|level| level.fill(Line::EMPTY));
        } else {
            *self = Self::new(len);
        }
    }
}
