//! Numbers that a device's parameters may be.

use serde::Deserialize;

/// A finite number above 0.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "f64")]
pub struct Positive(f64);

impl Positive {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Positive {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if number.is_finite() && number > 0.0 { Ok(Self(number)) } else { Err("write a number above 0") }
    }
}

/// A finite number, 0 or above.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "f64")]
pub struct Amount(f64);

impl Amount {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Amount {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if number.is_finite() && number >= 0.0 { Ok(Self(number)) } else { Err("write 0 or a number above") }
    }
}

/// A whole number from 1 to 65,536.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "u64")]
pub struct Count(u32);

impl Count {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u64> for Count {
    type Error = &'static str;

    fn try_from(number: u64) -> Result<Self, Self::Error> {
        match number {
            1..=65_536 => Ok(Self(number as u32)),
            _ => Err("write a whole number from 1 to 65536"),
        }
    }
}

/// Milliseconds for this many bytes at megabytes (10^6) a second.
pub(crate) fn transfer_ms(bytes: u64, mb_s: f64) -> f64 {
    bytes as f64 / (mb_s * 1e3)
}
