//! What reads cost: models of devices say it, and policies weigh it.

/// What reads cost on a device: `request + n × page` for n pages in a row, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCost {
    /// To begin a request elsewhere.
    pub request: f64,
    /// To begin a request right behind the one before.
    pub behind: f64,
    /// To transfer a page.
    pub page: f64,
}
