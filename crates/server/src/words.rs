//! Values as people write them, on the command line and in a configuration file alike.

use forebay_basis::spelling::did_you_mean;
use forebay_basis::{parse_bytes, show_bytes};
use forebay_policy::Spec;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

/// Reads a string, a number or a truth value of a configuration file as the command line reads it.
pub(crate) fn word<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    struct Word<T>(PhantomData<T>);

    impl<T: FromStr<Err: Display>> Visitor<'_> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a number")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(Word(PhantomData))
}

/// Types of a configuration file that are read by their `FromStr`.
macro_rules! read_as_words {
    ($($type:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::words::word(deserializer)
            }
        }
    )+};
}
pub(crate) use read_as_words;

read_as_words!(Size, Room, Rate, Count, Share, Age, Policy, Address, Level);

/// What serde says of a name that is unknown, with the known one that it is nearly: both are in backquotes, the wrong one first.
pub(crate) fn with_meant(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((wrong, known)) if message.starts_with("unknown ") => {
            let quoted = format!("`{wrong}`");
            message.replacen(&quoted, &(quoted.clone() + &did_you_mean(wrong, known.iter().copied())), 1)
        }
        _ => message.to_owned(),
    }
}

/// `1 page`, `2 pages`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Bytes: `4096`, `64KiB`, `1.5GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self)
    }
}

/// The size of a cache whose pages are the kernel's: bytes, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It follows what control groups leave.
    Auto,
    /// This much.
    Bytes(Size),
}

impl FromStr for Room {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => text.parse().map(Self::Bytes).map_err(|why| format!("{why}; `auto` follows a control group")),
        }
    }
}

/// Bytes a second: `50MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate(pub u64);

/// With less a page takes seconds: it is a number whose unit was forgotten.
const LEAST_RATE: u64 = 1 << 10;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_bytes(text)? {
            bytes @ 1..LEAST_RATE => Err(format!(
                "`{text}` is {} a second, and 1 KiB is the least: write a unit, as in 50MiB",
                show_bytes(bytes)
            )),
            bytes => Ok(Self(bytes)),
        }
    }
}

/// A number above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let above = text.parse().ok().filter(|&count| count > 0);
        above.map(Self).ok_or_else(|| format!("`{text}` is no number above 0"))
    }
}

/// A limit, or `none` where there is to be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit<T>(pub Option<T>);

impl<T: FromStr<Err = String>> FromStr for Limit<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => text.parse().map(|limit| Self(Some(limit))).map_err(|why| format!("{why}; `none` is no limit")),
        }
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Limit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer)
    }
}

impl<T: Serialize> Serialize for Limit<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(limit) => limit.serialize(serializer),
            None => "none".serialize(serializer),
        }
    }
}

/// A share of a whole, above 0: `50%` or `0.5`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim_ascii_end().parse().map(|percent: f64| percent / 100.0),
            None => text.parse(),
        };
        let within = share.ok().filter(|&share| share > 0.0 && share <= 1.0);
        within.map(Self).ok_or_else(|| format!("`{text}` is no share: write 50% or 0.5, above 0 and at most 100%"))
    }
}

/// Where to listen: `127.0.0.1:9100`, `localhost:9100`, `[::1]:0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub String);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.rsplit_once(':').and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
        port.map(|_| Self(text.to_owned()))
            .ok_or_else(|| format!("`{text}` is no HOST:PORT: write 127.0.0.1:9100 or localhost:9100"))
    }
}

/// A time: `5s`, `500ms`, `1m 30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(pub Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map(Self).map_err(|_| format!("`{text}` is no time: write 5s, 500ms, 2m"))
    }
}

impl Serialize for Age {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

/// A policy that can run: one that need not know the future.
#[derive(Clone, Debug)]
pub struct Policy(pub Spec);

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let spec = Spec::parse(text)?;
        if spec.needs_future() {
            return Err(format!("{text} needs to know the references to come: it can be simulated, not run"));
        }
        Ok(Self(spec))
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.0.label == other.0.label
    }
}

/// What is logged, as [`log`](crate::log) has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level(pub String);

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        crate::log::parse(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_mean_or_what_is_wrong() {
        assert_eq!("1MiB".parse(), Ok(Size(1 << 20)));
        assert_eq!(["50%", "0.5", "100 %"].map(|text| text.parse::<Share>().unwrap().0), [0.5, 0.5, 1.0]);
        assert_eq!("1m 30s".parse(), Ok(Age(Duration::from_secs(90))));
        assert_eq!("mq:queues=4".parse::<Policy>().unwrap().0.label, "mq:queues=4");
        assert_eq!("7".parse(), Ok(Count(7)));
        assert_eq!("1KiB".parse(), Ok(Rate(1024)));
        assert_eq!("1KiB".parse(), Ok(Limit(Some(Rate(1024)))));
        assert_eq!("none".parse(), Ok(Limit::<Rate>(None)));
        assert!("no".parse::<Limit<Count>>().unwrap_err().contains("`no` is no number above 0; `none` is no limit"));
        assert!("50".parse::<Rate>().unwrap_err().contains("`50` is 50 bytes a second, and 1 KiB is the least"));
        assert!(["0", "-1", "many"].iter().all(|wrong| wrong.parse::<Count>().is_err()));
        assert!(["127.0.0.1:0", "localhost:9190", "[::1]:80"].iter().all(|text| text.parse::<Address>().is_ok()));
        for wrong in ["9190", ":9190", "localhost", "localhost:http", "host:65536"] {
            assert!(wrong.parse::<Address>().unwrap_err().contains("write 127.0.0.1:9100"), "{wrong}");
        }
        for wrong in ["0%", "101%", "-1", "half", "NaN"] {
            assert!(wrong.parse::<Share>().unwrap_err().contains("write 50% or 0.5"), "{wrong}");
        }
        assert!("5 parrots".parse::<Age>().unwrap_err().contains("write 5s"));
        assert!("opt".parse::<Policy>().unwrap_err().contains("it can be simulated, not run"));
        assert!("lruu".parse::<Policy>().unwrap_err().contains("there is no policy `lruu`"));
    }
}
