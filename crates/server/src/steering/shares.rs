//! What directories and control groups have of the size: `PATH[,min=SIZE][,max=SIZE]`, or a `[[share]]` table of the configuration file.

use crate::declared::Over;
use crate::error::Error;
use crate::figures::VolumeReport;
use crate::steering::options::{PAGE, SteerOptions, whole};
use crate::steering::{PageCache, no_answer};
use crate::words::{Size, with_meant};
use forebay_basis::show_bytes;
use forebay_kernel::Scope;
use forebay_pool::{Share, VolumeStatistics};
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::PoisonError;

/// What a directory or control group has of the size.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ShareOptions {
    /// The directory or control group, which is steered.
    pub path: PathBuf,
    /// The others leave it so much when it needs it.
    pub min: Option<Size>,
    /// It never has more.
    pub max: Option<Size>,
}

impl FromStr for ShareOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let mut table = toml::Table::new();
        table.insert("path".to_owned(), words.next().unwrap_or_default().into());
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is no min=SIZE or max=SIZE"))?;
            if table.insert(key.to_owned(), value.into()).is_some() {
                return Err(format!("`{key}` is said twice"));
            }
        }
        toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| with_meant(error.message().trim_end()))
    }
}

impl fmt::Display for ShareOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |word, size: Option<Size>| size.map(|size| format!(" {word} {}", show_bytes(size.0)));
        let said = [said("min", self.min), said("max", self.max)].into_iter().flatten().collect::<Vec<_>>();
        write!(f, "{}:{}", self.path.display(), said.join(","))
    }
}

impl Over for Vec<ShareOptions> {
    /// A path named in both has what these say.
    fn over(self, file: Self) -> Self {
        let named = |share: &ShareOptions| self.iter().any(|own| own.path == share.path);
        let others = file.into_iter().filter(|share| !named(share)).collect::<Vec<_>>();
        self.into_iter().chain(others).collect()
    }
}

impl ShareOptions {
    /// As the pool has it.
    fn share(&self) -> Share {
        Share { min: self.min.map_or(0, |min| min.0), max: self.max.map_or(u64::MAX, |max| max.0) }
    }

    /// Whether both are of the same place.
    fn is_of(&self, other: &Self) -> bool {
        self.path == other.path || whole(&self.path).is_some_and(|path| whole(&other.path) == Some(path))
    }

    fn wrong(&self, what: impl fmt::Display) -> Error {
        Error::Usage(format!("--share {}: {what}", self.path.display()))
    }

    /// Refuses shares that no size of the cache would allow.
    fn check(&self) -> Result<(), Error> {
        let Share { min, max } = self.share();
        let [least, most, page] = [min, max, PAGE].map(show_bytes);
        match (self.min, self.max) {
            (None, None) => Err(self.wrong("it says nothing: add `,min=SIZE`, `,max=SIZE` or both")),
            _ if max < PAGE => Err(self.wrong(format!("max={most} is below a page, {page}"))),
            _ if max < min => Err(self.wrong(format!("max={most} is below min={least}: make it larger"))),
            _ => Ok(()),
        }
    }
}

/// Refuses shares whose mins do not fit in a size. The rest has a page at the least.
pub(super) fn check_fit(shares: &[ShareOptions], size: u64) -> Result<(), Error> {
    let frames = |share: &ShareOptions| share.share().min.div_ceil(PAGE).max(1);
    let needed = shares.iter().map(frames).fold(1, u64::saturating_add).saturating_mul(PAGE);
    if shares.is_empty() || needed <= size {
        return Ok(());
    }
    let [more, size] = [needed - size, size].map(show_bytes);
    let what = format!("the mins of all shares, and a page of 4 KiB for the rest, need {more} more than the {size}");
    Err(Error::Usage(format!("--share: {what} of --cache: make them smaller, or that larger")))
}

impl SteerOptions {
    /// Refuses shares of what is not steered, and what no share can be.
    pub(super) fn check_shares(&self) -> Result<(), Error> {
        for (index, share) in self.shares.iter().enumerate() {
            share.check()?;
            if self.shares[..index].iter().any(|before| before.is_of(share)) {
                return Err(share.wrong("it has a share already: say `min=` and `max=` of it together"));
            }
            if self.scope_of(share).is_none() {
                let what = "it is not steered, so it has no share: name it as a DIRECTORY, or by --cgroup";
                return Err(share.wrong(what));
            }
        }
        Ok(())
    }

    /// What of that which is steered has a share.
    pub(super) fn shared(&self) -> Vec<(Scope, Share)> {
        self.shares.iter().filter_map(|share| Some((self.scope_of(share)?, share.share()))).collect()
    }

    fn scope_of(&self, share: &ShareOptions) -> Option<Scope> {
        let path = whole(&share.path)?;
        let is_there = |scope: &Scope| {
            let (Scope::Directory(place) | Scope::Group(place)) = scope;
            whole(place).as_ref() == Some(&path)
        };
        self.scopes().into_iter().find(is_there)
    }

    /// Directories and control groups without a share.
    fn unshared(&self) -> Vec<String> {
        let places = self.directories.iter().chain(&self.groups);
        let shared = |place: &PathBuf| self.shares.iter().any(|share| whole(&share.path) == whole(place));
        places.filter(|place| !shared(place)).map(|place| place.display().to_string()).collect()
    }
}

impl PageCache {
    /// Has the size and the shares that new options ask for, or neither if they do not go together.
    pub(super) fn take_sizes(&self, new: &SteerOptions) -> Result<(), Error> {
        self.options.check_same_kinds(new)?;
        new.check_sizes()?;
        new.check_shares()?;
        let (shares, same) = self.new_shares(new);
        self.take_size(new, &shares)?;
        Error::of_all([self.change_shares(shares), same].into_iter().filter_map(Result::err))
    }

    /// The shares with the limits that new options give to them, and what is wrong if others have one now.
    fn new_shares(&self, new: &SteerOptions) -> (Vec<ShareOptions>, Result<(), Error>) {
        let known = self.shares();
        let found = |share: &ShareOptions| new.shares.iter().find(|other| other.is_of(share));
        let next = known.iter().map(|share| found(share).unwrap_or(share).clone()).collect();
        let same = known.len() == new.shares.len() && known.iter().all(|share| found(share).is_some());
        let what = "share: only a restart gives one or takes one away; `min` and `max` change at once";
        (next, if same { Ok(()) } else { Err(Error::Usage(what.to_owned())) })
    }

    /// Has shares with other limits, which are as many as there were.
    fn change_shares(&self, new: Vec<ShareOptions>) -> Result<(), Error> {
        let before = self.shares();
        let changes = before.iter().zip(new).enumerate().filter(|(_, (before, new))| *before != new);
        let mut changes: Vec<_> = changes.map(|(place, (before, new))| (place, before.share().min, new)).collect();
        // What one no longer needs another may have.
        changes.sort_by_key(|(_, min, new)| new.share().min > *min);
        for (place, _, new) in changes {
            let changed = self.steering().change_share(place, new.share()).ok_or_else(no_answer)?;
            changed.map_err(|why| new.wrong(why))?;
            tracing::info!("the share of {new} from now on");
            self.shares.lock().unwrap_or_else(PoisonError::into_inner)[place] = new;
        }
        Ok(())
    }

    /// The shares as they are now.
    pub(super) fn shares(&self) -> Vec<ShareOptions> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the policy has seen of the files: of those without a share, and of those of each share.
    pub(super) fn seen(&self) -> Vec<VolumeReport> {
        let counted = self.steering().counted().to_vec();
        let shares = self.shares();
        let rest = match &*self.options.unshared() {
            _ if shares.is_empty() => self.name.clone(),
            [] => "others".to_owned(),
            places => places.join(", "),
        };
        let names = std::iter::once(rest).chain(shares.iter().map(|share| share.path.display().to_string()));
        let report = |(group, name)| {
            let share = self.cache.pool.share_of(group);
            let pool = VolumeStatistics { name, share, ..group.statistics() };
            VolumeReport { cache: self.cache.name.clone(), pool, ..VolumeReport::default() }
        };
        counted.iter().zip(names).map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn share(text: &str) -> ShareOptions {
        text.parse().expect("a share")
    }

    #[test]
    fn a_share_is_written_as_options_of_a_volume_are() {
        let read = share("/srv/db,min=1MiB,max=4MiB");
        assert_eq!((&*read.path, read.share()), (Path::new("/srv/db"), Share { min: 1 << 20, max: 4 << 20 }));
        assert_eq!(read.to_string(), "/srv/db: min 1 MiB, max 4 MiB");
        assert_eq!(share("/srv/db,max=1MiB").share(), Share { min: 0, max: 1 << 20 });
        let both = vec![share("/a,min=1MiB")].over(vec![share("/a,max=1MiB"), share("/b,max=2MiB")]);
        assert_eq!(both, [share("/a,min=1MiB"), share("/b,max=2MiB")]);
        for (wrong, told) in [
            ("/a,mim=1MiB", "unknown field `mim` (did you mean `min`?)"),
            ("/a,min=big", "is no number of bytes"),
            ("/a,min", "`min` is no min=SIZE or max=SIZE"),
            ("/a,min=1,min=2", "`min` is said twice"),
        ] {
            let error = wrong.parse::<ShareOptions>().unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn shares_that_cannot_be_are_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        ["a", "b"].iter().for_each(|name| std::fs::create_dir(path(name)).unwrap());
        let options = |shares: &[&str]| SteerOptions {
            directories: vec![path("a").into()],
            cache: Some("1MiB".parse().unwrap()),
            shares: shares.iter().map(|text| share(&format!("{}{text}", folder.path().display()))).collect(),
            ..SteerOptions::default()
        };
        for (shares, told) in [
            (&["/b,min=4KiB"][..], "it is not steered, so it has no share: name it as a DIRECTORY, or by --cgroup"),
            (&["/a"], "it says nothing: add `,min=SIZE`"),
            (&["/a,min=8KiB,max=4KiB"], "max=4 KiB is below min=8 KiB"),
            (&["/a,max=1KiB"], "is below a page"),
            (&["/a,max=4KiB", "/a/,min=4KiB"], "it has a share already"),
            (&["/a,min=1MiB"], "need 4 KiB more than the 1 MiB of --cache: make them smaller, or that larger"),
        ] {
            let refused = options(shares).check(false).unwrap_err();
            assert!(refused.is_usage() && refused.to_string().contains(told), "{shares:?}: {refused}");
        }
        let right = options(&["/a/,min=512KiB,max=1MiB"]);
        right.check(false).unwrap();
        assert_eq!(right.shared(), [(Scope::Directory(path("a").into()), Share { min: 512 << 10, max: 1 << 20 })]);
        assert!(SteerOptions { observe: true, ..right }.check(false).is_ok());
    }
}
