//! What fetching a sequence costs: a seek, as in the paper, or what the device's model says (`cost=device`).
//!
//! | | `cost=seek` | `cost=device` |
//! | --- | --- | --- |
//! | `H` of a sequence | `L + 1 / size` | `L + (request + size × page) / size` |
//! | what ends a sequence | the paper's rules | the same; without an arm also the end of the user's request, and any gap between block numbers |
//! | a miss in a trial | 1 if it does not follow the last one | a page, and a request if it begins one |
//!
//! A disk's arm is where the last request has left it: the next block costs no seek, whoever asks for it. Storage behind a network has no arm. Blocks
//! are cheap there only if they come in one request.

use forebay_basis::DeviceCost;

/// Prices, in units of a request for one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    request: f64,
    page: f64,
    /// Whether the device has no arm: a request right behind the last one costs more than half of any other.
    pub(super) apart: bool,
}

impl Prices {
    /// The paper's: all requests cost the same, and pages nothing.
    pub(super) const SEEK: Self = Self { request: 1.0, page: 0.0, apart: false };

    pub(super) fn of(DeviceCost { request, behind, page }: DeviceCost) -> Self {
        let one = request + page;
        if one > 0.0 {
            Self { request: request / one, page: page / one, apart: behind > request / 2.0 }
        } else {
            Self::SEEK
        }
    }

    /// What each block of a sequence costs.
    pub(super) fn each(self, size: u16) -> f64 {
        self.request / f64::from(size) + self.page
    }

    /// What a block costs that `begins` a request or belongs to one.
    pub(super) fn fetch(self, begins: bool) -> f64 {
        if begins { self.request + self.page } else { self.page }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_sequence_costs_its_part_of_the_request_and_a_page() {
        let prices = Prices::of(DeviceCost { request: 6.0, behind: 6.0, page: 2.0 });
        assert_eq!([1, 3, 6].map(|size| prices.each(size)), [1.0, 0.5, 0.375]);
        assert_eq!((prices.fetch(true), prices.fetch(false), prices.apart), (1.0, 0.25, true));
    }

    #[test]
    fn a_disk_whose_transfers_are_free_costs_seeks() {
        for device in
            [DeviceCost { request: 9.5, behind: 0.0, page: 0.0 }, DeviceCost { request: 0.0, behind: 0.0, page: 0.0 }]
        {
            let prices = Prices::of(device);
            assert_eq!([1, 3, 128].map(|size| prices.each(size)), [1.0, 1.0 / 3.0, 1.0 / 128.0]);
            assert_eq!((prices.fetch(true), prices.fetch(false), prices.apart), (1.0, 0.0, false));
        }
    }
}
