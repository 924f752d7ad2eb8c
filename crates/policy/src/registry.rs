//! From a policy's name to the policy: the command line, the contract tests, the fuzzers and the documentation iterate over this. Each is named
//! once, in `policies/mod.rs`.

use crate::guest::{Host, Hosted};
use crate::layout::Layout;
use crate::managers::Assignment;
use crate::parameters::{Kind, Parameter, Settings};
pub use crate::policies::POLICIES;
use crate::policy::{Info, Policy, Setup};
use forebay_basis::spelling::{did_you_mean, same};
use std::collections::HashSet;
use std::sync::Arc;

/// What is done with a policy whose type is known only by its name: the way from a name to static dispatch.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Called with the policy's type.
    fn visit<P: Policy>(self) -> Self::Output;
}

/// Makes the policies' modules and exports, and what finds them by their names. `cargo fmt` does not see modules made here: `make fmt` does.
macro_rules! policies {
    ($($file:ident::$policy:ident),+ $(,)?) => {
        $(
            pub mod $file;
            pub use $file::$policy;
            const _: () = assert!(<$policy as Policy>::INFO.is_whole(), "a policy has a name, a title, a paper and bytes per page");
        )+

        /// What is known of each policy, in the order in which they are listed.
        pub static POLICIES: &[&Info] = &[$(&<$policy as Policy>::INFO),+];

        /// Hands the type of the policy called `name` to `visitor`; `None` if there is none.
        pub(crate) fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$policy as Policy>::INFO.name {
                return Some(visitor.visit::<$policy>());
            })+
            None
        }
    };
}

pub(crate) use policies;

/// Hands the type of the policy called `name` to `visitor`, or that of a policy written elsewhere; `None` if there is none.
pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
    if name == Hosted::INFO.name { Some(visitor.visit::<Hosted>()) } else { crate::policies::visit(name, visitor) }
}

/// The policy of that name, however it is spelled.
pub fn named(name: &str) -> Option<&'static Info> {
    POLICIES.iter().copied().find(|info| same(info.name, name))
}

/// Checks what the parameters' own bounds do not say.
fn check(info: &Info, settings: &Settings) -> Result<(), String> {
    struct Check<'a>(&'a Settings);
    impl Visitor for Check<'_> {
        type Output = Result<(), String>;

        fn visit<P: Policy>(self) -> Result<(), String> {
            P::check_settings(self.0)
        }
    }
    visit(info.name, Check(settings)).expect("the policy is in the registry")
}

/// A policy and its settings, as a user names them: `gclock:initial=0:max=1`.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The policy.
    pub info: &'static Info,
    /// Its parameters' values.
    pub settings: Settings,
    /// Which managers are in charge, for a policy that has managers.
    pub managers: Option<Arc<Assignment>>,
    /// Who makes it, for a policy that is written elsewhere.
    pub host: Option<Arc<dyn Host>>,
    /// Where files lie on disks, for a policy in front of a file system. `None`: places are the disk's own.
    pub layout: Option<Arc<dyn Layout>>,
    /// What the user wrote.
    pub label: String,
}

impl Spec {
    /// Every policy at its defaults.
    pub fn all() -> Vec<Self> {
        POLICIES.iter().map(|info| Self::new(info)).collect()
    }

    /// The policies, each label once.
    pub fn each_once(specs: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut labels = HashSet::new();
        specs.into_iter().filter(|spec| labels.insert(spec.label.clone())).collect()
    }

    /// A policy at its defaults.
    pub fn new(info: &'static Info) -> Self {
        Self {
            info,
            settings: Settings::defaults(info.parameters),
            managers: None,
            host: None,
            layout: None,
            label: info.name.to_owned(),
        }
    }

    /// A policy that is written elsewhere, under a name for tables.
    pub fn hosted(host: Arc<dyn Host>, label: String) -> Self {
        Self { host: Some(host), label, ..Self::new(&Hosted::INFO) }
    }

    /// Reads `NAME[:PARAMETER=VALUE]…`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let info = named(name).ok_or_else(|| {
            let known: Vec<&str> = POLICIES.iter().map(|info| info.name).collect();
            if name.trim().is_empty() {
                return format!("name a policy: {}", known.join(", "));
            }
            let meant = did_you_mean(name, known.iter().copied());
            format!("there is no policy `{name}`{meant}; there are {}", known.join(", "))
        })?;
        let given: Vec<(&str, &str)> = parts
            .map(|part| part.split_once('=').ok_or_else(|| format!("{name}: `{part}` is no PARAMETER=VALUE")))
            .collect::<Result<_, _>>()?;
        let settings = Settings::parse(info.parameters, given).map_err(|error| format!("{name}: {error}"))?;
        check(info, &settings).map_err(|error| format!("{name}: {error}"))?;
        let label = std::iter::once(info.name).chain(text.split(':').skip(1)).collect::<Vec<_>>().join(":");
        Ok(Self { info, settings, managers: None, host: None, layout: None, label })
    }

    /// Whether the policy, or a manager that it asks, needs to know the references to come.
    pub fn needs_future(&self) -> bool {
        struct Needs<'a>(&'a Settings);
        impl Visitor for Needs<'_> {
            type Output = bool;

            fn visit<P: Policy>(self) -> bool {
                P::needs_future(self.0)
            }
        }
        let by_managers = self.managers.as_ref().is_some_and(|managers| managers.needs_future());
        by_managers || visit(self.info.name, Needs(&self.settings)).expect("the policy is in the registry")
    }

    /// The most ghosts with these settings, in multiples of the capacity.
    pub fn ghosts(&self) -> u32 {
        struct Most<'a>(&'a Settings);
        impl Visitor for Most<'_> {
            type Output = u32;

            fn visit<P: Policy>(self) -> u32 {
                P::most_ghosts(self.0)
            }
        }
        let ghosts = visit(self.info.name, Most(&self.settings)).expect("the policy is in the registry");
        self.history().map_or(ghosts, |history| {
            let Kind::Integer { most, .. } = history.kind else { unreachable!("a history is a whole number") };
            ghosts - (most - self.settings.integer(history.name)) as u32
        })
    }

    /// The same with a history so short that there are at most `ghosts` times as many ghosts as resident pages, or as short as it can be.
    #[must_use]
    pub fn with_most_ghosts(&self, ghosts: u32) -> Self {
        let mut shorter = self.clone();
        let excess = u64::from(self.ghosts().saturating_sub(ghosts));
        if let (Some(history), true) = (self.history(), excess > 0) {
            let Kind::Integer { least, .. } = history.kind else { unreachable!("a history is a whole number") };
            let length = self.settings.integer(history.name).saturating_sub(excess).max(least);
            shorter.settings.set_integer(history.name, length);
            let said = format!("{}=", history.name);
            let others = self.label.split(':').filter(|part| !part.starts_with(&said));
            shorter.label = others.map(str::to_owned).chain([format!("{said}{length}")]).collect::<Vec<_>>().join(":");
        }
        shorter
    }

    fn history(&self) -> Option<&'static Parameter> {
        let name = self.info.history?;
        self.info.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// What the policy is made from.
    ///
    /// # Panics
    /// If the capacity is 0.
    pub fn setup(&self, capacity: u32, pages: u32) -> Setup {
        Setup {
            managers: self.managers.clone(),
            host: self.host.clone(),
            layout: self.layout.clone(),
            ..Setup::new(capacity, pages, self.settings.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_cut_to_the_ghosts_that_are_allowed_and_to_its_least() {
        let cut = |text, ghosts| {
            let shorter = Spec::parse(text).unwrap().with_most_ghosts(ghosts);
            assert_eq!(Spec::parse(&shorter.label).unwrap().ghosts(), shorter.ghosts());
            (shorter.ghosts(), shorter.label)
        };
        assert_eq!(cut("lirs", 7), (7, "lirs:history=7".to_owned()));
        assert_eq!(cut("lirs:history=5:hir=0.1", 7), (5, "lirs:history=5:hir=0.1".to_owned()));
        assert_eq!(cut("lirs:history=50:hir=0.1", 7), (7, "lirs:hir=0.1:history=7".to_owned()));
        assert_eq!(cut("lirs", 0), (1, "lirs:history=1".to_owned()));
        assert_eq!(cut("lru-k", 0), (0, "lru-k:history=0".to_owned()));
        // Beside Qout there are sampled ghosts, as many as pages.
        assert_eq!(cut("mq", 5), (5, "mq".to_owned()));
        assert_eq!(cut("mq", 2), (2, "mq:out=1".to_owned()));
        assert_eq!(cut("2q", 0), (4, "2q".to_owned()));
    }
}
