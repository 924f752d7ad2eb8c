//! Numbers as short as a chart bears: states over time are many, and nobody sees a seventh digit.

use serde::ser::{SerializeSeq, Serializer};

/// The digits that are kept of numbers that are not whole.
const DIGITS: i32 = 6;

enum Number {
    Whole(i64),
    Broken(f64),
}

fn short(number: f64) -> Number {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Number::Whole(number as i64);
    }
    // Where the scale is no finite number, the number is left as it is: none, infinite, or next to nothing.
    let scale = 10f64.powi(DIGITS - 1 - number.abs().log10().floor() as i32);
    let rounded = (number * scale).round() / scale;
    Number::Broken(if rounded.is_finite() { rounded } else { number })
}

impl serde::Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(number) => serializer.serialize_i64(number),
            Self::Broken(number) => serializer.serialize_f64(number),
        }
    }
}

pub(crate) fn compact<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&short(*number), serializer)
}

pub(crate) fn compact_all<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(|&number| short(number)))
}

pub(crate) fn compact_options<S: Serializer>(numbers: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(numbers.len()))?;
    for number in numbers {
        list.serialize_element(&number.map(short))?;
    }
    list.end()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn whole_numbers_are_exact_and_others_have_six_digits() {
        let numbers = [0.0, -3.0, 12_672_123.0, 0.123_456_789, 123_456.789, 1e-9, f64::NAN, f64::INFINITY];
        let text: Vec<String> = numbers.iter().map(|&n| serde_json::to_string(&short(n)).unwrap()).collect();
        assert_eq!(text, ["0", "-3", "12672123", "0.123457", "123457.0", "1e-9", "null", "null"]);
    }
}
