//! What a trace's requests are like: seen at its front, before it is read.

use crate::names::Names;
use crate::pages::{Origin, PageSize};
use crate::reader::Reader;
use crate::request::{Request, Unit};

/// Requests looked at.
const FRONT: usize = 1 << 16;
/// The page of most systems, and so of a cache in front of requests that are no whole pages of any size.
pub(crate) const USUAL: u64 = 4096;
/// The largest page of the usual databases and file systems.
const LARGEST: u64 = 64 << 10;

/// What the requests at the front are like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The page size of a trace in bytes.
    pub(crate) page_size: Option<PageSize>,
    /// The median length in bytes.
    pub(crate) median_request: Option<u64>,
}

impl Shape {
    /// Looks at the front; an error in it ends it.
    pub(crate) fn of(reader: &mut dyn Reader) -> Self {
        let unit_size = match reader.unit() {
            Unit::Bytes => 1,
            Unit::Blocks(size) => u64::from(size),
            Unit::Pages => return Self::default(),
        };
        let (mut names, mut front) = (Names::new(), Vec::new());
        // The reader appends what it read before an error.
        let _ = reader.fill(&mut names, FRONT, &mut front);
        front.retain(|request| request.length > 0);
        if front.is_empty() {
            return Self::default();
        }
        let middle = front.len() / 2;
        let (_, median, _) = front.select_nth_unstable_by_key(middle, |request| request.length);
        let median_request = Some(median.length.saturating_mul(unit_size));
        let page_size =
            (reader.unit() == Unit::Bytes).then(|| PageSize { bytes: pages_of(&front), origin: Origin::Requests });
        Self { page_size, median_request }
    }
}

/// The largest size of which nine in ten requests are whole pages and one in ten is a single one; that of most systems where there is none.
fn pages_of(requests: &[Request]) -> u64 {
    let share =
        |is: &dyn Fn(&Request) -> bool| 10 * requests.iter().filter(|request| is(request)).count() / requests.len();
    let mut size = LARGEST;
    while size > USUAL {
        let whole = |request: &Request| request.offset.is_multiple_of(size) && request.length.is_multiple_of(size);
        if share(&|request| request.length == size) >= 1 && share(&whole) >= 9 {
            return size;
        }
        size /= 2;
    }
    USUAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_basis::Operation;

    fn pages(requests: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let request =
            |(offset, length)| Request { time: 0, owner: 0, object: 0, offset, length, operation: Operation::Read };
        pages_of(&requests.into_iter().map(request).collect::<Vec<_>>())
    }

    #[test]
    fn a_database_has_its_own_pages_though_it_scans_in_longer_requests() {
        for size in [4096, 8192, 16384, 65536] {
            assert_eq!(
                pages((0..100).map(|number| (number * 7 * size, if number % 4 == 0 { size } else { 8 * size }))),
                size
            );
        }
    }

    #[test]
    fn requests_that_are_no_whole_pages_are_cached_by_the_usual_page() {
        // Programs that read lines, that read long streams, and whose pages of two sizes are aligned to the smaller.
        assert_eq!(pages((0..100).map(|number| (number * 100, 100))), 4096);
        assert_eq!(pages((0..100).map(|number| (number << 17, 1 << 17))), 4096);
        assert_eq!(pages((0..100).map(|number| (number * 4096, 4096 << (number % 2)))), 4096);
    }
}
