/// The parts of a cache that an epoch has, and that may be free in it, and the fewest pages of an epoch.
const PARTS: u64 = 32;
const FREE: u64 = 16;
const FEWEST: u64 = 16;

/// Whether an epoch of memory is over: `came` pages have come since it began, and `there` are in a cache that has room for `capacity`.
///
/// A 32nd of the capacity is enough, and 16 pages at the least. Nothing is over while more than a 16th of the cache is free: the policy has nothing to choose then.
/// One rule for memory that is steered, and for the simulator.
pub fn has_come_enough(capacity: u64, there: u64, came: u64) -> bool {
    there + capacity / FREE >= capacity && came >= (capacity / PARTS).max(FEWEST)
}

#[cfg(test)]
mod tests {
    use super::has_come_enough;

    #[test]
    fn an_epoch_is_over_when_a_part_of_a_full_cache_has_come() {
        assert!(has_come_enough(6400, 6400, 200) && !has_come_enough(6400, 6400, 199));
        assert!(has_come_enough(6400, 6000, 200) && !has_come_enough(6400, 5999, 9999), "there is room");
        assert!(has_come_enough(64, 64, 16) && !has_come_enough(64, 64, 15), "one of few pages has 16");
    }
}
