//! Brings the page cache of directories down to a size, once.

use crate::error::Error;
use crate::steering::folio_limit;
use crate::steering::options::{PAGE, SteerOptions};
use forebay_basis::show_bytes;
use forebay_kernel::{Common, Counts, Options, Steering, unwritten};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked what is there.
const LOOKED: Duration = Duration::from_millis(10);

/// How long nothing more has left when it ends.
const QUIET: Duration = Duration::from_secs(1);

/// What is there when it has ended.
#[derive(Clone, Debug, Serialize)]
pub struct Lowered {
    /// The directories.
    pub name: String,
    /// Bytes that are there.
    pub there_bytes: u64,
    /// Bytes that were asked for.
    pub size_bytes: u64,
    /// Bytes of those that are there which are not written yet.
    pub unwritten_bytes: u64,
}

impl Lowered {
    /// Whether no more is there than was asked for.
    pub fn is_done(&self) -> bool {
        self.there_bytes <= self.size_bytes
    }
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [there, size, unwritten] = [self.there_bytes, self.size_bytes, self.unwritten_bytes].map(show_bytes);
        write!(f, "{}: {there} are in the page cache", self.name)?;
        if self.is_done() {
            return write!(f, ", of {size} that may be");
        }
        write!(f, ", more than {size}: ")?;
        match self.unwritten_bytes {
            0 => f.write_str("programs have them mapped, or use them"),
            _ => write!(f, "{unwritten} of them are not written yet; others may be mapped or in use"),
        }
    }
}

/// Brings the page cache of the options' directories down to their size, and leaves it to the kernel's own lists. Dirty pages are written before they leave.
///
/// # Errors
/// What keeps it from steering.
pub fn lower(options: &SteerOptions, has_program: bool) -> Result<Lowered, Error> {
    options.check(has_program)?;
    forebay_kernel::check(&options.scopes())?;
    let limits = options.limits()?;
    let _claims = options.claim()?;
    folio_limit::put_back_left();
    let options = &options.clone().at_most(limits.as_ref());
    let (cache, _) = options.make_cache(None)?;
    let of_kernel = Options { scopes: options.scopes(), follow: limits, ..Options::default() };
    let steering = Steering::start(Common::new(Arc::clone(&cache.pool))?, of_kernel, &mut || false)?;
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        let Counts { there, asked: size, .. } = steering.counts();
        if there <= size || !steering.runs() || since.elapsed() >= QUIET {
            let unwritten = options.directories.iter().map(|directory| unwritten(directory)).sum::<u64>();
            let [there_bytes, size_bytes, unwritten_bytes] = [there, size, unwritten].map(|pages| pages * PAGE);
            return Ok(Lowered { name: options.name(None), there_bytes, size_bytes, unwritten_bytes });
        }
        if there < least {
            (least, since) = (there, Instant::now());
        }
        std::thread::sleep(LOOKED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_much_is_there_and_why_it_is_more_than_was_asked_for() {
        let lowered = |there: u64, unwritten: u64| Lowered {
            name: "/srv".to_owned(),
            there_bytes: there << 20,
            size_bytes: 2 << 20,
            unwritten_bytes: unwritten << 20,
        };
        assert!(lowered(2, 1).is_done() && !lowered(3, 0).is_done());
        assert_eq!(lowered(1, 0).to_string(), "/srv: 1 MiB are in the page cache, of 2 MiB that may be");
        let said = |unwritten| lowered(3, unwritten).to_string();
        assert_eq!(
            said(0),
            "/srv: 3 MiB are in the page cache, more than 2 MiB: programs have them mapped, or use them"
        );
        assert!(said(1).ends_with("1 MiB of them are not written yet; others may be mapped or in use"));
    }
}
