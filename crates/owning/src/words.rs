//! What is said about files: by their users, by extended attributes.

use crate::advice::Advice;
use forebay_policy::Charge;
use forebay_policy::managers::Manager;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The attribute of files and directories that names a manager.
pub const MANAGER: &str = "user.forebay.manager";

/// The attribute of files and directories that gives a hint.
pub const HINT: &str = "user.forebay.hint";

/// How long the attributes of a directory are known, as others may change them.
const KNOWN: Duration = Duration::from_secs(1);

/// Directories that are known at a time.
const MOST_DIRECTORIES: usize = 4096;

/// The word for nobody: LRU holds.
const NOBODY: &str = "none";

/// Who is to manage.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    manager: Manager,
    text: String,
}

impl Word {
    /// Nobody manages: LRU holds.
    pub fn nobody() -> Self {
        Self { manager: Manager::Lru, text: NOBODY.to_owned() }
    }

    /// What is used is not used again.
    pub fn access_once() -> Self {
        Self { manager: Manager::AccessOnce, text: "access-once".to_owned() }
    }

    /// As the policy is to have it: equal words are one manager.
    pub fn charge(&self) -> Charge {
        Charge { manager: self.manager.clone(), rule: 0, listed: None }
    }
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == NOBODY {
            return Ok(Self::nobody());
        }
        let manager = Manager::parse(text)?;
        Ok(Self { manager, text: text.to_owned() })
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the attributes of a file or directory say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    manager: Option<Word>,
    /// What the hint says.
    pub hint: Option<Advice>,
}

impl Attributes {
    /// Those of a file or directory, as far as they are of this kind. `mistake` learns of one that makes no sense: its name, and what is wrong.
    pub fn read(path: &Path, mistake: &mut dyn FnMut(&str, &str)) -> Self {
        let mut found = Self::default();
        let mut value = [0; 4096];
        // Most have none, which one call says. Who has too many for that is asked for each.
        let listed = rustix::fs::listxattr(path, &mut value[..]);
        let is_ours = |name: &[u8]| [MANAGER, HINT].iter().any(|ours| ours.as_bytes() == name);
        if listed.is_ok_and(|length| !value[..length].split(|&byte| byte == 0).any(is_ours)) {
            return found;
        }
        for name in [MANAGER, HINT] {
            // There is none, or the file system has none.
            let Ok(length) = rustix::fs::getxattr(path, name, &mut value[..]) else { continue };
            if let Err(wrong) = found.set(name, Some(&value[..length])) {
                mistake(name, &wrong);
            }
        }
        found
    }

    /// Sets what an attribute of that name says; `None` is an attribute that is not there.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), String> {
        let text = value.map(|value| String::from_utf8_lossy(value).trim_end_matches(['\0', '\n']).to_owned());
        match name {
            MANAGER => self.manager = text.map(|text| text.parse()).transpose()?,
            _ => self.hint = text.map(|text| text.parse()).transpose()?,
        }
        Ok(())
    }

    /// These, and those of a directory above where they say nothing.
    pub fn over(self, above: Self) -> Self {
        Self { manager: self.manager().or(above.manager()), hint: self.hint.or(above.hint) }
    }

    /// The manager: that of the hint that nothing is used twice, unless one is named.
    pub fn manager(&self) -> Option<Word> {
        let once = || (self.hint == Some(Advice::NoReuse)).then(Word::access_once);
        self.manager.clone().or_else(once)
    }
}

/// The attributes of directories, which many files have above them.
#[derive(Debug, Default)]
pub struct Directories(Mutex<HashMap<PathBuf, (Instant, Attributes)>>);

impl Directories {
    /// Those of a directory, which are read unless they are known from just now.
    pub fn of(&self, path: &Path, read: impl FnOnce() -> Attributes) -> Attributes {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, attributes)) = known().get(path)
            && since.elapsed() < KNOWN
        {
            return attributes.clone();
        }
        let attributes = read();
        let mut known = known();
        if known.len() >= MOST_DIRECTORIES {
            known.clear();
        }
        known.insert(path.to_owned(), (Instant::now(), attributes.clone()));
        attributes
    }

    /// They are read anew.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(manager: Option<&str>, hint: Option<&str>) -> Result<Attributes, String> {
        let mut made = Attributes::default();
        made.set(MANAGER, manager.map(str::as_bytes))?;
        made.set(HINT, hint.map(str::as_bytes))?;
        Ok(made)
    }

    #[test]
    fn a_file_says_more_than_its_directory() {
        let file = attributes(None, Some("random")).expect("right");
        let directory = attributes(Some("mru"), Some("noreuse")).expect("right");
        let both = file.over(directory.clone());
        assert_eq!((both.manager(), both.hint), (Some("mru".parse().expect("right")), Some(Advice::Random)));
        let once = attributes(None, Some("noreuse")).expect("right").over(directory);
        assert_eq!(once.manager(), Some(Word::access_once()), "the file's hint goes before the directory's manager");
        let nobody = attributes(Some("none"), None).expect("right");
        assert_eq!(nobody.manager().expect("a word").charge().manager, Manager::Lru);
    }

    #[test]
    fn a_wrong_value_says_what_is_wrong() {
        for (manager, hint, told) in [
            (Some("mruu"), None, "there is no manager `mruu`; there are lru, mru"),
            (Some("lru-k:k=9"), None, "k is 1 to 8, not 9"),
            (Some("file-order"), None, "`file-order` needs `order`"),
            (Some("filter:order=a,b"), None, "lists files: write it as a rule"),
            (Some("foolish"), None, "it can be simulated, not run"),
            (None, Some("often"), "`often` is no hint: write normal, random, sequential"),
        ] {
            let wrong = attributes(manager, hint).expect_err("it is wrong");
            assert!(wrong.contains(told), "{wrong}");
        }
        assert!(
            attributes(Some("lru-k:k=3"), None).is_ok() && attributes(Some("file-order:order=9..,0..9"), None).is_ok()
        );
    }
}
