//! Who manages the files of a service that has files: the file of `--managers`, and commands.

use crate::control::{Answer, done};
use crate::error::Error;
use clap::ValueEnum;
use forebay_basis::show_bytes;
use forebay_basis::spelling::printable;
use forebay_owning::{Advice, InForce, Owners};
use forebay_policy::managers::{Rule, Rules, RulesError, Unmatched};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Whose references count as one owner's.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OwnersOption {
    /// Each process, called `cc1 4711` after its program and its number
    #[default]
    Process,
    /// Each user, called `user 1000`
    User,
    /// Each cgroup, called `cgroup /system.slice/build`
    Cgroup,
    /// Each program, called `cc1`
    Program,
}

impl OwnersOption {
    /// As it is written.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl From<OwnersOption> for Owners {
    fn from(owners: OwnersOption) -> Self {
        match owners {
            OwnersOption::Process => Self::Process,
            OwnersOption::User => Self::User,
            OwnersOption::Cgroup => Self::Cgroup,
            OwnersOption::Program => Self::Program,
        }
    }
}

/// The rules of the file of `--managers`, if there is one, for a cache under the policy of this name.
pub(crate) fn read(path: Option<&Path>, policy: &str, has_managers: bool) -> Result<Vec<Rule>, Error> {
    let Some(path) = path else { return Ok(Vec::new()) };
    if !has_managers {
        return Err(Error::Usage(format!("--managers is for lru-sp: {policy} has no managers; add --policy lru-sp")));
    }
    check_size(path)?;
    let rules = Rules::read(path).and_then(Rules::for_running);
    rules.map_err(|error| match error {
        RulesError::Unreadable { .. } => Error::Failed(format!("--managers: {error}")),
        RulesError::Wrong { .. } => Error::Usage(format!("--managers: {error}")),
    })
}

/// The longest file of rules: it is read while the service runs.
const LONGEST: u64 = 1 << 20;

/// Refuses what would be waited for, or has no end.
fn check_size(path: &Path) -> Result<(), Error> {
    let found = std::fs::metadata(path);
    let name = || format!("--managers: {}", path.display());
    let found = found.map_err(|error| Error::of_named_file(name(), &error))?;
    if found.is_file() && found.len() <= LONGEST {
        return Ok(());
    }
    let what = format!("{}: rules are a regular file of at most {}", name(), show_bytes(LONGEST));
    Err(Error::Usage(what))
}

/// Refuses a file of ours below the mount point: it would keep the mount busy, or wait for itself.
pub(crate) fn check_outside(mountpoint: &Path, files: [(&str, Option<&Path>); 3]) -> Result<(), Error> {
    let whole = |path: &Path| path.canonicalize().ok();
    let Some(mountpoint) = whole(mountpoint) else { return Ok(()) };
    for (option, file) in files {
        let Some(file) = file else { continue };
        let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        if whole(folder).is_some_and(|folder| folder.starts_with(&mountpoint)) {
            let what = format!("{option} {}: it lies below the mount point; choose another place", file.display());
            return Err(Error::Usage(what));
        }
    }
    Ok(())
}

/// Something that says who manages.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ManagerReport {
    /// What says it: `command`, `rule`, `attribute` or `own word`; `lost` of a manager that has lost its charge by its mistakes.
    pub by: String,
    /// The manager, and of a rule the patterns of its owners and files.
    pub manager: String,
    /// Whose uses, if it names somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Of which file, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Of a rule: its patterns of owners and files that no use has matched since the service first had the rule.
    #[serde(default, skip_serializing_if = "Unmatched::is_empty")]
    pub unmatched: Unmatched,
}

impl ManagerReport {
    /// Who manages, a line each.
    pub fn table(managers: &[Self]) -> String {
        if managers.is_empty() {
            return "nobody manages: LRU decides\n".to_owned();
        }
        let line = |found: &Self| {
            let of = |what: &str, name: &Option<String>| {
                name.as_ref().map_or(String::new(), |name| format!("  {what} {name}"))
            };
            let line =
                format!("{:<9}  {}{}{}", found.by, found.manager, of("for", &found.owner), of("of", &found.file));
            let unmatched = |what: &str, patterns: &[String]| match patterns {
                [] => String::new(),
                _ => format!("  (so far no {what} like \"{}\")", patterns.join("\" or \"")),
            };
            let Unmatched { owners, files } = &found.unmatched;
            printable(&(line + &unmatched("owner", owners) + &unmatched("file", files))) + "\n"
        };
        managers.iter().map(line).collect()
    }
}

impl From<InForce> for ManagerReport {
    fn from(found: InForce) -> Self {
        let InForce { by, manager, owner, file, unmatched } = found;
        Self { by: by.to_owned(), manager, owner, file, unmatched }
    }
}

/// Takes a hint for a file, as `take` does.
pub(crate) fn hint(file: &Path, advice: &str, take: impl FnOnce(Advice) -> Result<(), Error>) -> Result<Answer, Error> {
    let advice: Advice = advice.parse().map_err(Error::Usage)?;
    take(advice)?;
    done(format!("{}: {advice}", printable(&file.display().to_string())))
}

/// All that says who manages.
pub(crate) fn list(found: Vec<InForce>) -> Answer {
    Answer::Managers { managers: found.into_iter().map(ManagerReport::from).collect() }
}

/// Puts a manager in charge of the owners of a pattern, or the process of a number, and the files of a pattern: `put` has that hold before all rules.
pub(crate) fn manage(
    (owner, file, manager): (Option<&str>, Option<&str>, &str),
    put: impl FnOnce(Rule) -> Result<(), Error>,
) -> Result<Answer, Error> {
    let manager = if manager == "none" { "lru" } else { manager };
    let number = owner.filter(|owner| owner.bytes().all(|byte| byte.is_ascii_digit()));
    let owner = number.map_or_else(|| owner.map(str::to_owned), |number| Some(format!("* {number}")));
    let rule = Rule::new(manager, owner.as_deref(), file).map_err(Error::Usage)?;
    let message = format!("in force: {rule}");
    put(rule)?;
    done(message)
}

/// How often it is looked whether managers have lost their charge.
const LOOKED: Duration = Duration::from_secs(1);

/// Logs managers that lose their charge, until there is nothing more to look at.
pub(crate) fn log_lost_charges(look: impl Fn() -> Option<(u32, Vec<ManagerReport>)>) {
    let (mut known, mut logged) = (0, Vec::new());
    while let Some((ended, lost)) = look() {
        let new: Vec<&ManagerReport> = lost.iter().filter(|lost| !logged.contains(*lost)).collect();
        if ended > known {
            for ManagerReport { manager, owner, .. } in &new {
                let (owner, manager) = (printable(owner.as_deref().unwrap_or_default()), printable(manager));
                tracing::warn!(
                    "{owner} is cached by LRU from now on: its manager, {manager}, was caught at too many mistakes"
                );
            }
            if new.is_empty() {
                let more = ended - known;
                tracing::warn!("managers of owners that have gone were caught at too many mistakes: {more}");
            }
            known = ended;
        }
        logged = lost;
        std::thread::sleep(LOOKED);
    }
}
