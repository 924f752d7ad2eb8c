//! Options that are declared once: for the command line, for a configuration file, and for what of them a running service takes over.

use crate::error::Error;
use crate::words::with_meant;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use std::fmt;
use std::path::Path;

/// Declares a struct of options. Each field is an option of the command line, by clap's attributes, and a key of a configuration file:
/// `live("key")` is taken over when the file is read again, `restart("key")` is not. A field that is a `part` is such a struct itself:
/// its keys stand in the file beside the others.
macro_rules! options {
    ($(#[$meta:meta])* pub struct $Name:ident {
        $($(#[$attribute:meta])* pub $field:ident: $Type:ty = $how:ident $(($key:literal))?;)*
    }) => {
        #[derive(clap::Args, Clone, Debug, Default, PartialEq)]
        $(#[$meta])*
        pub struct $Name {
            $($(#[$attribute])* pub $field: $Type,)*
        }

        impl $crate::declared::Over for $Name {
            fn over(self, file: Self) -> Self {
                Self { $($field: $crate::declared::Over::over(self.$field, file.$field),)* }
            }
        }

        impl $crate::declared::Declared for $Name {
            fn keys() -> Vec<&'static str> {
                [$($crate::declared::options!(@keys $Type, $how $($key)?),)*].concat()
            }

            fn read<'de, M: serde::de::MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<bool, M::Error> {
                Ok(false $(|| $crate::declared::options!(@read self.$field, key, map, $how $($key)?))*)
            }

            fn waiting(&self, new: &Self) -> Vec<&'static str> {
                [$($crate::declared::options!(@waiting self.$field, new.$field, $how $($key)?),)*].concat()
            }
        }
    };
    (@keys $Type:ty, part) => { <$Type as $crate::declared::Declared>::keys() };
    (@keys $Type:ty, $how:ident $key:literal) => { vec![$key] };
    (@read $value:expr, $name:ident, $map:ident, part) => { $value.read($name, $map)? };
    (@read $value:expr, $name:ident, $map:ident, $how:ident $key:literal) => {
        $name == $key && { $value = $map.next_value()?; true }
    };
    (@waiting $before:expr, $new:expr, part) => { $before.waiting(&$new) };
    (@waiting $before:expr, $new:expr, live $key:literal) => { vec![] };
    (@waiting $before:expr, $new:expr, restart $key:literal) => {
        if $before == $new { vec![] } else { vec![$key] }
    };
}
pub(crate) use options;

/// An option of the command line, which goes before the same one of a file.
pub(crate) trait Over {
    /// What this says, and what `file` says where this says nothing.
    fn over(self, file: Self) -> Self;
}

impl<T> Over for Option<T> {
    fn over(self, file: Self) -> Self {
        self.or(file)
    }
}

impl Over for bool {
    fn over(self, file: Self) -> Self {
        self || file
    }
}

/// A struct of options, as [`options!`] declares it.
pub(crate) trait Declared: Default + Over {
    /// The keys of a file.
    fn keys() -> Vec<&'static str>;

    /// Reads the value of a key. Answers whether it is one of these options.
    fn read<'de, M: MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<bool, M::Error>;

    /// The keys that differ in `new`, and that only a restart changes.
    fn waiting(&self, new: &Self) -> Vec<&'static str>;

    /// Refuses keys that differ in `new`, and that only a restart changes.
    fn check_waiting(&self, new: &Self) -> Result<(), Error> {
        let waiting = self.waiting(new);
        if waiting.is_empty() {
            return Ok(());
        }
        Err(Error::Usage(format!("{}: only a restart changes that", waiting.join(", "))))
    }
}

/// Reads options from a file.
pub(crate) fn read_file<T: Declared>(path: &Path) -> Result<T, Error> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| Error::of_named_file(&name, &error))?;
    let text = String::from_utf8(text).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        Error::Usage(format!("{name}: is no UTF-8 text from its byte {byte} on; a configuration is TOML"))
    })?;
    toml::from_str(&text).map(|InFile(options)| options).map_err(|error| {
        let message = with_meant(error.message().trim_end()).replace('\n', " ");
        let Some(span) = error.span() else { return Error::Usage(format!("{name}: {message}")) };
        let number = 1 + text[..span.start.min(text.len())].matches('\n').count();
        let line = shown(text.lines().nth(number - 1).unwrap_or_default().trim());
        Error::Usage(format!("{name}: line {number}, `{line}`: {message}"))
    })
}

/// A line of a file as a message quotes it: its beginning, without what a terminal would obey.
fn shown(line: &str) -> String {
    const MOST: usize = 100;
    let mut shown: String =
        line.chars().take(MOST).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if line.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// Options as a file says them.
struct InFile<T>(T);

impl<'de, T: Declared> Deserialize<'de> for InFile<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(T::default()))
    }
}

impl<'de, T: Declared> Visitor<'de> for InFile<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of options")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<Self, M::Error> {
        let keys = T::keys();
        while let Some(key) = map.next_key_seed(OneOf(&keys))? {
            self.0.read(key, &mut map)?;
        }
        Ok(self)
    }
}

/// One of these keys. Where a key is read it is refused, so that the error has its line.
struct OneOf<'a>(&'a [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf<'_> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        let key = String::deserialize(deserializer)?;
        self.0.iter().find(|known| **known == key).copied().ok_or_else(|| {
            let known = self.0.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
            D::Error::custom(format!("unknown field `{key}`, expected one of {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directories::options::MountOptions;
    use crate::steering::options::SteerOptions;
    use crate::volumes::options::Options;
    use std::fmt::Debug;

    fn read<T: Declared>(text: &str) -> Result<T, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_file(file.path())
    }

    /// What is said of a part that all services have, whichever service it is of.
    fn the_common_part_is_read<T: Declared + Debug>() {
        let wrong = read::<T>("cache = \"1MiB\"\ndirty-limt = \"50%\"\n").unwrap_err().to_string();
        assert!(wrong.contains("line 2, `dirty-limt = \"50%\"`"), "{wrong}");
        assert!(wrong.contains("unknown field `dirty-limt`") && wrong.contains("`dirty-limit`"), "{wrong}");
        let odd = read::<T>("policy = \"clok\"\n").unwrap_err().to_string();
        assert!(odd.contains("line 1, `policy = \"clok\"`"), "{odd}");
        let twice = read::<T>("cache = \"1MiB\"\ncache = \"2MiB\"\n").unwrap_err().to_string();
        assert!(twice.contains("line 2") && twice.contains("duplicate key"), "{twice}");
        let long = read::<T>(&format!("\u{1b}{}", "x".repeat(1_000_000))).unwrap_err().to_string();
        assert!(long.len() < 1000 && !long.contains('\u{1b}') && long.contains("x…`"), "{}", long.len());
        let before = read::<T>("cache = \"1MiB\"\npolicy = \"mq\"\n").unwrap();
        assert!(before.check_waiting(&read("cache = \"2MiB\"\npolicy = \"mq\"\ndirty-age = \"1s\"").unwrap()).is_ok());
        let waiting = before.check_waiting(&read("metrics = \"127.0.0.1:0\"\n").unwrap()).unwrap_err();
        assert_eq!(waiting.to_string(), "policy, metrics: only a restart changes that");
        assert!(waiting.is_usage());
    }

    #[test]
    fn options_of_all_services_are_read_and_compared_alike() {
        the_common_part_is_read::<Options>();
        the_common_part_is_read::<MountOptions>();
    }

    #[test]
    fn of_a_steered_page_cache_the_size_alone_changes() {
        let before = read::<SteerOptions>("cache = \"1MiB\"\ndirectories = [\"/a\"]\n").unwrap();
        assert!(before.check_waiting(&read("cache = \"2MiB\"\ndirectories = [\"/a\"]\n").unwrap()).is_ok());
        let waiting = before.check_waiting(&read("observe = true\nmetrics = \"127.0.0.1:0\"\n").unwrap()).unwrap_err();
        assert_eq!(waiting.to_string(), "directories, observe, metrics: only a restart changes that");
    }

    #[test]
    fn what_only_a_restart_changes_is_named_in_the_order_of_the_declaration() {
        let before = read::<Options>("workers = 2\n").unwrap();
        let waiting = before.check_waiting(&read("workers = 3\nlisten = [\"/run/s\"]\npage = \"8KiB\"\n").unwrap());
        assert!(waiting.unwrap_err().to_string().starts_with("listen, page, workers: "));
        let before = read::<MountOptions>("").unwrap();
        let waiting = before.check_waiting(&read("private = true\nhuge-pages = true\nmanagers = \"a\"\n").unwrap());
        assert!(waiting.unwrap_err().to_string().starts_with("huge-pages, private: "));
    }
}
