//! Arrays by number that grow by an eighth: what a policy states of its memory counts the room that is not used yet.

/// Makes an array longer, if it is shorter than `len`. Amortised, each new element is moved eight times.
pub(crate) fn lengthen<T: Clone>(array: &mut Vec<T>, len: usize, value: T) {
    if len > array.capacity() {
        array.reserve_exact((len + len / 8).max(4) - array.len());
    }
    if len > array.len() {
        array.resize(len, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_an_eighth_more_room_than_it_needs_and_keeps_what_it_holds() {
        let mut array = Vec::new();
        for len in 1..=1000 {
            lengthen(&mut array, len, len);
            assert!(array.capacity() <= len + len / 8 + 4);
        }
        lengthen(&mut array, 10, 0);
        assert_eq!(array, (1..=1000).collect::<Vec<_>>());
    }
}
