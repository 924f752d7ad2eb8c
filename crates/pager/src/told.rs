//! Failures that repeat: the first of a kind is in the log, and then one in a while, with how many there were.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long others of a kind are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// The most kinds that are known at a time.
const KINDS: usize = 64;

/// Texts are of one kind if they differ in digits alone.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<HashMap<String, Kind>>);

#[derive(Debug)]
struct Kind {
    told: Instant,
    /// How many have not been told since.
    others: u64,
}

impl Told {
    /// Whether a text is to be in the log: how many others of its kind there were that are not.
    pub(crate) fn next(&self, text: &str, now: Instant) -> Option<u64> {
        let kind: String = text.chars().filter(|character| !character.is_ascii_digit()).collect();
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kinds.get_mut(&kind) {
            if now.duration_since(known.told) < WINDOW {
                known.others += 1;
                return None;
            }
            known.told = now;
            return Some(std::mem::take(&mut known.others));
        }
        if kinds.len() >= KINDS {
            kinds.clear();
        }
        kinds.insert(kind, Kind { told: now, others: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind_is_told_and_then_one_in_a_while_with_the_number_of_the_others() {
        let (told, begin) = (Told::default(), Instant::now());
        let next = |text: &str, after: u64| told.next(text, begin + Duration::from_secs(after));
        assert_eq!(next("page 1: full", 0), Some(0));
        assert_eq!((2..1000).filter_map(|page| next(&format!("page {page}: full"), 9)).count(), 0);
        assert_eq!(next("page 1: broken", 9), Some(0), "another kind");
        assert_eq!(next("page 5: full", 10), Some(998));
        assert_eq!(next("page 6: full", 11), None);
        assert_eq!(next("page 7: full", 20), Some(1));
    }
}
