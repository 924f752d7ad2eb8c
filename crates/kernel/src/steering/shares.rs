//! Shares of scopes: made at the start, found for files by the scopes' places, changed while pages are used.

use super::{Options, State};
use crate::error::Error;
use crate::scopes::Scope;
use forebay_pool::{Pool, Share, Together};
use std::time::Instant;

/// Makes the shares that options name.
pub(super) fn make(pool: &Pool, options: &Options) -> Result<Vec<Together>, Error> {
    let share = |(scope, share): &(Scope, Share)| {
        if options.scopes.contains(scope) {
            return Ok(pool.share_together(*share)?);
        }
        let (Scope::Directory(place) | Scope::Group(place)) = scope;
        Err(Error::Place { place: place.clone(), what: "it is not steered, so it has no share".to_owned() })
    };
    options.shares.iter().map(share).collect()
}

/// The same by the places of the scopes that have them; empty if there are none.
pub(super) fn by_scope(options: &Options, shares: &[Together]) -> Vec<Option<Together>> {
    if shares.is_empty() {
        return Vec::new();
    }
    let share_of = |scope: &Scope| {
        let place = options.shares.iter().position(|(of, _)| of == scope)?;
        Some(shares[place].clone())
    };
    options.scopes.iter().map(share_of).collect()
}

impl State {
    /// Changes the share of a group of files.
    pub(super) fn change_share(&mut self, group: &Together, share: Share, now: Instant) -> Result<(), Error> {
        // The size may just have been changed, too.
        self.keep_size(now);
        self.steered.change_share(group, share, self.budget.asked(), now)?;
        Ok(())
    }
}
