//! Why a service does not serve.

use std::fmt;
use std::io;

/// What went wrong, and what to do.
#[derive(Clone, Debug)]
pub enum Error {
    /// The options make no sense.
    Usage(String),
    /// A file, a device, a socket or the system failed.
    Failed(String),
    /// Storage is open elsewhere. It may be closed in a moment.
    InUse(String),
    /// The pool's.
    Pool(forebay_pool::Error),
    /// Of one volume.
    OfVolume {
        /// Its name.
        volume: String,
        /// What went wrong there.
        error: Box<Error>,
    },
    /// All that went wrong where work goes on beside what fails.
    Several(Vec<Error>),
    /// Of a configuration that was read again some is not in force.
    NotInForce {
        /// Why.
        why: Box<Error>,
        /// What of the rest is to be known.
        done: Vec<String>,
    },
}

impl Error {
    /// A file that an option names cannot be read. One that is not there is mistyped; others are the system's failure.
    pub(crate) fn of_named_file(name: impl fmt::Display, error: &io::Error) -> Self {
        let what = format!("{name}: {error}");
        if error.kind() == io::ErrorKind::NotFound { Self::Usage(what) } else { Self::Failed(what) }
    }

    /// The same, of a volume.
    pub(crate) fn of_volume(self, name: &str) -> Self {
        match self {
            Self::OfVolume { .. } => self,
            Self::Pool(ref error) if error.volume().is_some() => self,
            error => Self::OfVolume { volume: name.to_owned(), error: Box::new(error) },
        }
    }

    /// All errors in one, if there are any.
    pub(crate) fn of_all(errors: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut errors: Vec<Self> = errors.into_iter().collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether other options would mend it, and nothing was done. What is partly in force is a failure.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Usage(_) | Self::Pool(forebay_pool::Error::Configuration(_)) => true,
            Self::OfVolume { error, .. } => error.is_usage(),
            Self::Several(errors) => errors.iter().all(Self::is_usage),
            Self::Failed(_) | Self::InUse(_) | Self::Pool(_) | Self::NotInForce { .. } => false,
        }
    }

    /// Whether it may have gone in a moment, as storage is open elsewhere.
    pub(crate) fn is_in_use(&self) -> bool {
        match self {
            Self::InUse(_) => true,
            Self::OfVolume { error, .. } => error.is_in_use(),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Failed(what) | Self::InUse(what) => f.write_str(what),
            Self::Pool(error) => error.fmt(f),
            Self::OfVolume { volume, error } => write!(f, "volume {volume}: {error}"),
            Self::Several(errors) => {
                for (place, error) in errors.iter().enumerate() {
                    write!(f, "{}{error}", if place == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::NotInForce { why, done } => {
                write!(f, "{why}; the rest is in force")?;
                done.iter().try_for_each(|done| write!(f, "; {done}"))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pool(error) => error.source(),
            Self::OfVolume { error, .. } | Self::NotInForce { why: error, .. } => error.source(),
            _ => None,
        }
    }
}

impl From<forebay_pool::Error> for Error {
    fn from(error: forebay_pool::Error) -> Self {
        Self::Pool(error)
    }
}

impl From<forebay_nbd::Error> for Error {
    fn from(error: forebay_nbd::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<forebay_fuse::Error> for Error {
    fn from(error: forebay_fuse::Error) -> Self {
        match error {
            forebay_fuse::Error::Usage(what) => Self::Usage(what),
            other => Self::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_named_once_whoever_names_it() {
        let detached = || forebay_pool::Error::Detached { volume: "a".to_owned() };
        let named = Error::Pool(detached()).of_volume("a").of_volume("a").to_string();
        assert_eq!(named, detached().to_string());
        let wrong = Error::Usage("its page is odd".to_owned()).of_volume("a");
        assert!(wrong.is_usage());
        assert_eq!(wrong.of_volume("a").to_string(), "volume a: its page is odd");
        // A name that begins like the message of another volume hides nothing.
        let odd = Error::Failed("volume b: gone".to_owned()).of_volume("b");
        assert_eq!(odd.to_string(), "volume b: volume b: gone");
    }

    #[test]
    fn storage_in_use_is_known_below_the_volume_that_wants_it() {
        assert!(Error::InUse("open elsewhere".to_owned()).of_volume("a").is_in_use());
        assert!(!Error::Failed("gone".to_owned()).of_volume("a").is_in_use());
    }

    #[test]
    fn several_errors_come_in_one_sentence_and_one_alone_stays_itself() {
        let usage = || Error::Usage("page is odd".to_owned());
        let failed = Error::Failed("the disk is gone".to_owned());
        assert!(Error::of_all([]).is_ok());
        assert!(Error::of_all([usage()]).is_err_and(|error| error.is_usage()));
        assert!(Error::of_all([usage(), usage()]).is_err_and(|error| error.is_usage()));
        let both = Error::of_all([usage(), failed]).unwrap_err();
        assert!(!both.is_usage());
        let half = Error::NotInForce { why: Box::new(usage()), done: Vec::new() };
        assert!(!half.is_usage(), "something was done");
        let partly = Error::NotInForce { why: Box::new(both), done: vec!["volume a is removed".to_owned()] };
        let told = "page is odd; the disk is gone; the rest is in force; volume a is removed";
        assert_eq!(partly.to_string(), told);
    }
}
