//! Figures of running caches, each declared once: [`figures!`] makes the struct that holds them and the table from which Prometheus' page is
//! written; where asked, also the counters behind it, its form in a mapped file or in C, and what reads it from other figures. JSON is
//! the struct's own.
//!
//! ```
//! forebay_figures::figures! {
//!     /// What happened on a device.
//!     pub struct Device counted by pub(crate) DeviceCounters {
//!         /// Reads.
//!         reads: u64 = forebay_figures::Total, Count "device_requests" operation="read";
//!         /// The time of a read in nanoseconds.
//!         read_time: forebay_figures::Distribution = forebay_figures::Histogram, Times "device_time" operation="read";
//!     }
//! }
//!
//! let counters = DeviceCounters::default();
//! counters.reads.add(1);
//! counters.read_time.add(3_000);
//! let device = counters.read();
//! assert_eq!((device.reads, device.read_time.sum), (1, 3_000));
//! assert_eq!(Device::FIGURES[0].meaning(), "Reads");
//! ```

pub mod clients;
mod counters;
mod distribution;
mod words;

// What the macro writes names this crate, here as in others.
extern crate self as forebay_figures;

pub use counters::{Tally, Total};
pub use distribution::{Distribution, Histogram};
pub use words::Words;

// For what the macro writes in other crates.
#[doc(hidden)]
pub use serde;

/// A figure of an `S`.
#[derive(Debug)]
pub struct Figure<S> {
    /// The metric's name in Prometheus' words, without prefix, unit and `_total`. Figures of one metric follow each other.
    pub metric: &'static str,
    /// What sets it apart from other figures of the metric: a label's name and value.
    pub label: Option<(&'static str, &'static str)>,
    /// What kind of metric it is, with its unit.
    pub kind: Kind,
    doc: &'static str,
    of: fn(&S) -> Value<'_>,
}

impl<S> Figure<S> {
    /// A figure that is documented so.
    pub const fn new(
        metric: &'static str,
        label: Option<(&'static str, &'static str)>,
        kind: Kind,
        doc: &'static str,
        of: fn(&S) -> Value<'_>,
    ) -> Self {
        Self { metric, label, kind, doc, of }
    }

    /// What it means: its documentation, without a full stop; without ` in nanoseconds`, too, as Prometheus shows seconds.
    pub fn meaning(&self) -> &'static str {
        let meaning = self.doc.trim().trim_end_matches('.');
        meaning.trim_end_matches(" in nanoseconds").trim_end_matches(',')
    }

    /// Its value.
    pub fn of<'s>(&self, figures: &'s S) -> Value<'s> {
        (self.of)(figures)
    }
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number of events, which never falls.
    Count,
    /// A number that rises and falls.
    Level,
    /// Bytes that rise and fall.
    Bytes,
    /// Seconds that rise and fall.
    Seconds,
    /// A distribution of nanoseconds.
    Times,
    /// A distribution of bytes.
    Lengths,
}

/// What a figure holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'s> {
    /// A number.
    Number(u64),
    /// A number that need not be whole.
    Real(f64),
    /// Values of which each was counted.
    Distribution(&'s Distribution),
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl From<&$type> for Value<'_> {
            fn from(&number: &$type) -> Self {
                Self::Number(number as u64)
            }
        })*
    };
}

numbers!(u64 u32 usize);

impl From<&f64> for Value<'_> {
    fn from(&number: &f64) -> Self {
        Self::Real(number)
    }
}

impl<'s> From<&'s Distribution> for Value<'s> {
    fn from(distribution: &'s Distribution) -> Self {
        Self::Distribution(distribution)
    }
}

/// Declares figures: a struct with its `FIGURES`. What stands behind its name makes more of the same fields, in this order:
///
/// - `in words`: the struct is a row of [`Words`], as a mapped file or a struct of C holds them.
/// - `counted by` another struct: that is made of [`Tally`]s, with `read` and `absorb`.
/// - `read from` a type: `of` makes the figures of such a value.
///
/// A field is `name: type`, then, each if it has one, `= the type of its counter`, `=> |source| its value there` and
/// `, Kind "metric" label="value"`. Its documentation is one line, which Prometheus shows.
#[macro_export]
macro_rules! figures {
    ($(#[$about:meta])* $visibility:vis struct $name:ident $($rest:tt)*) => {
        $crate::figures! { @held { $(#[$about])* } { $visibility } $name $($rest)* }
        $crate::figures! { @more { $visibility } $name $($rest)* }
    };
    (@more { $visibility:vis } $name:ident in words $($rest:tt)*) => {
        $crate::figures! { @words $name $($rest)* }
        $crate::figures! { @more { $visibility } $name $($rest)* }
    };
    (@more { $visibility:vis } $name:ident counted by $shared:vis $counters:ident $($rest:tt)*) => {
        $crate::figures! { @counted { $shared } $counters $name $($rest)* }
        $crate::figures! { @more { $visibility } $name $($rest)* }
    };
    (@more { $visibility:vis } $name:ident read from $source:ident $($rest:tt)*) => {
        $crate::figures! { @read { $visibility } $source $name $($rest)* }
    };
    (@more { $visibility:vis } $name:ident { $($fields:tt)* }) => {};
    (
        @held { $(#[$about:meta])* } { $visibility:vis } $name:ident
        $(in words)? $(counted by $shared:vis $counters:ident)? $(read from $source:ident)? {
            $(
                #[doc = $doc:literal]
                $(#[$attribute:meta])*
                $field:ident: $type:ty
                $(= $tally:ty)? $(=> |$seen:pat_param| $value:expr)? $(, $kind:ident $metric:literal $($label:ident=$of:literal)?)?;
            )*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, $crate::serde::Deserialize, $crate::serde::Serialize)]
        #[serde(crate = "forebay_figures::serde")]
        $(#[$about])*
        $visibility struct $name {
            $(
                #[doc = $doc]
                $(#[$attribute])*
                $visibility $field: $type,
            )*
        }

        impl $name {
            /// Its figures that are metrics by themselves.
            #[allow(dead_code, reason = "not all figures are metrics")]
            $visibility const FIGURES: &'static [$crate::Figure<Self>] = &[
                $($($crate::Figure::new(
                    $metric,
                    $crate::figures!(@label $($label=$of)?),
                    $crate::Kind::$kind,
                    $doc,
                    |figures| $crate::Value::from(&figures.$field),
                ),)?)*
            ];
        }
    };
    (
        @words $name:ident $(counted by $shared:vis $counters:ident)? $(read from $source:ident)? {
            $(
                #[doc = $doc:literal]
                $(#[$attribute:meta])*
                $field:ident: $type:ty
                $(= $tally:ty)? $(=> |$seen:pat_param| $value:expr)? $(, $kind:ident $metric:literal $($label:ident=$of:literal)?)?;
            )*
        }
    ) => {
        impl $crate::Words for $name {
            const COUNT: usize = 0 $(+ <$type as $crate::Words>::COUNT)*;

            const FIELDS: &'static [(&'static str, &'static str)] = &[$((stringify!($field), $doc)),*];

            fn put(&self, words: &mut dyn FnMut(u64)) {
                $($crate::Words::put(&self.$field, words);)*
            }

            fn take(words: &mut dyn FnMut() -> u64) -> Self {
                Self { $($field: $crate::Words::take(words)),* }
            }
        }
    };
    (
        @counted { $shared:vis } $counters:ident $name:ident $(read from $source:ident)? {
            $(
                #[doc = $doc:literal]
                $(#[$attribute:meta])*
                $field:ident: $type:ty
                $(= $tally:ty)? $(=> |$seen:pat_param| $value:expr)? $(, $kind:ident $metric:literal $($label:ident=$of:literal)?)?;
            )*
        }
    ) => {
        /// The counters of
        #[doc = concat!("[`", stringify!($name), "`], shared between threads.")]
        #[derive(Debug, Default)]
        $shared struct $counters {
            $($(#[doc = $doc] $shared $field: $tally,)?)*
        }

        impl $counters {
            #[doc = concat!("What they hold; the rest of a [`", stringify!($name), "`] is empty.")]
            $shared fn read(&self) -> $name {
                $crate::Tally::read(self)
            }
        }

        impl $crate::Tally for $counters {
            type Read = $name;

            #[allow(clippy::needless_update, reason = "there may be other fields")]
            fn read(&self) -> $name {
                $name { $($($field: <$tally as $crate::Tally>::read(&self.$field),)?)* ..$name::default() }
            }

            fn absorb(&self, more: &$name) {
                $($(<$tally as $crate::Tally>::absorb(&self.$field, &more.$field);)?)*
            }
        }
    };
    (
        @read { $visibility:vis } $source:ident $name:ident {
            $(
                #[doc = $doc:literal]
                $(#[$attribute:meta])*
                $field:ident: $type:ty
                $(= $tally:ty)? $(=> |$seen:pat_param| $value:expr)? $(, $kind:ident $metric:literal $($label:ident=$of:literal)?)?;
            )*
        }
    ) => {
        impl $name {
            #[doc = concat!("Those that a [`", stringify!($source), "`] has.")]
            #[allow(clippy::needless_update, reason = "there may be other fields")]
            $visibility fn of(source: &$source) -> Self {
                Self { $($($field: { let $seen = source; $value },)?)* ..Self::default() }
            }
        }
    };
    (@label) => { None };
    (@label $label:ident=$value:literal) => { Some((stringify!($label), $value)) };
}
