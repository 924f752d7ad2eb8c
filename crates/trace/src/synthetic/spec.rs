//! The text that names a synthetic trace, cut into parameters whose names, defaults and ranges are declared once.

use crate::error::{Error, Result};

/// What may be written for a parameter.
pub(super) enum Range {
    /// A whole number, with `_` between digits and `k`, `M` or `G` after them as wished.
    Count(u64, u64),
    /// A decimal number.
    Real(f64, f64),
    /// `yes` or `no`.
    YesNo,
}

/// A parameter of a generator.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) range: Range,
}

impl Parameter {
    /// Its name, default and range, for messages.
    fn describe(&self) -> String {
        let Self { name, default, range } = self;
        match range {
            Range::Count(least, most) => format!("{name} ({least} to {most}, default {default})"),
            Range::Real(least, most) => format!("{name} ({least} to {most}, default {default})"),
            Range::YesNo => format!("{name} (yes or no, default {default})"),
        }
    }
}

/// The parameters given for one generator.
pub(super) struct Given<'a> {
    spec: &'a str,
    generator: &'a str,
    values: Vec<(&'static str, &'a str)>,
}

impl<'a> Given<'a> {
    /// Cuts `name=value,…`, of which all names must be in `allowed`.
    pub(super) fn parse(
        spec: &'a str,
        generator: &'a str,
        text: &'a str,
        allowed: &[&'static Parameter],
    ) -> Result<Self> {
        let mut given = Self { spec, generator, values: Vec::new() };
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(parameter) = allowed.iter().find(|parameter| parameter.name == name) else {
                let known: Vec<String> = allowed.iter().map(|parameter| parameter.describe()).collect();
                return Err(given.error(format!("has no parameter `{name}`; it has {}", known.join(", "))));
            };
            if given.values.iter().any(|(taken, _)| *taken == name) {
                return Err(given.error(format!("is given `{name}` twice; give it once")));
            }
            given.values.push((parameter.name, value));
        }
        Ok(given)
    }

    fn error(&self, message: String) -> Error {
        Error::new(self.spec, format!("{} {message}", self.generator))
    }

    /// The parameter's text, given or by default, if `read` can read it.
    fn value<T>(&self, parameter: &Parameter, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        let given = self.values.iter().find(|(name, _)| *name == parameter.name);
        let text = given.map_or(parameter.default, |(_, text)| text);
        read(text).ok_or_else(|| {
            self.error(format!("cannot take `{}={text}`: give {}", parameter.name, parameter.describe()))
        })
    }

    pub(super) fn count(&self, parameter: &Parameter) -> Result<u64> {
        let Range::Count(least, most) = parameter.range else { unreachable!("{} is a count", parameter.name) };
        self.value(parameter, |text| count(text).filter(|count| (least..=most).contains(count)))
    }

    pub(super) fn real(&self, parameter: &Parameter) -> Result<f64> {
        let Range::Real(least, most) = parameter.range else { unreachable!("{} is a real", parameter.name) };
        self.value(parameter, |text| text.parse().ok().filter(|real| (least..=most).contains(real)))
    }

    pub(super) fn yes(&self, parameter: &Parameter) -> Result<bool> {
        self.value(parameter, |text| match text {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        })
    }
}

/// A whole number like `1000`, `1_000`, `1k`, `2M` or `1G`; the letters are powers of 1000.
fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1_000),
        b'm' | b'M' => (&text[..text.len() - 1], 1_000_000),
        b'g' | b'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_with_underscores_and_powers_of_a_thousand() {
        for (text, number) in
            [("7", 7), ("1_000", 1000), ("3k", 3000), ("2M", 2_000_000), ("1G", 1_000_000_000), ("0", 0)]
        {
            assert_eq!(count(text), Some(number), "{text}");
        }
        for text in ["", "k", "-1", "+1", "1.5k", "_1", "1e3", "99999999999999999999", "99999999999999999G", "１"] {
            assert_eq!(count(text), None, "{text}");
        }
    }
}
