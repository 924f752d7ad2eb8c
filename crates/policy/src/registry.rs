//! Every policy, named once. The command line, the contract tests, the fuzzers and the documentation iterate over this.

use crate::managers::Assignment;
use crate::parameters::Settings;
use crate::policy::{Info, Policy, Setup};
use std::sync::Arc;

/// What is done with a policy whose type is known only by its name: the way from a name to static dispatch.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Called with the policy's type.
    fn visit<P: Policy>(self) -> Self::Output;
}

macro_rules! policies {
    ($($file:ident::$policy:ident),+ $(,)?) => {
        $(pub use crate::$file::$policy;)+

        /// What is known of each policy, in the order in which they are listed.
        pub static POLICIES: &[&Info] = &[$(&<$policy as Policy>::INFO),+];

        /// Hands the type of the policy called `name` to `visitor`; `None` if there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$policy as Policy>::INFO.name {
                return Some(visitor.visit::<$policy>());
            })+
            None
        }
    };
}

policies! {
    lru::Lru,
    fifo::Fifo,
    mru::Mru,
    random::Random,
    lfu::Lfu,
    clock::Clock,
    gclock::Gclock,
    lru_k::LruK,
    two_queue::TwoQueue,
    fbr::Fbr,
    lrfu::Lrfu,
    seq::Seq,
    eelru::Eelru,
    arc::AdaptiveReplacement,
    car::Car,
    lirs::Lirs,
    linux::Linux,
    ubm::Ubm,
    dulo::Dulo,
    mq::Mq,
    lru_sp::LruSp,
    clock_pro::ClockPro,
    sieve::Sieve,
    s3_fifo::S3Fifo,
    w_tinylfu::WTinyLfu,
    smq::Smq,
    opt::Opt,
    worst::Worst,
}

/// The policy of that name.
pub fn named(name: &str) -> Option<&'static Info> {
    POLICIES.iter().copied().find(|info| info.name == name)
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
    /// What the user wrote.
    pub label: String,
}

impl Spec {
    /// Every policy at its defaults.
    pub fn all() -> Vec<Self> {
        POLICIES.iter().map(|info| Self::new(info)).collect()
    }

    /// A policy at its defaults.
    pub fn new(info: &'static Info) -> Self {
        Self { info, settings: Settings::defaults(info.parameters), managers: None, label: info.name.to_owned() }
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
            format!("there is no policy `{name}`; there are {}", known.join(", "))
        })?;
        let given: Vec<(&str, &str)> = parts
            .map(|part| part.split_once('=').ok_or_else(|| format!("{name}: `{part}` is no PARAMETER=VALUE")))
            .collect::<Result<_, _>>()?;
        let settings = Settings::parse(info.parameters, given).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { info, settings, managers: None, label: text.to_owned() })
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

    /// Whether the policy's choices depend on how many pages there will be.
    pub fn needs_footprint(&self) -> bool {
        struct Needs;
        impl Visitor for Needs {
            type Output = bool;

            fn visit<P: Policy>(self) -> bool {
                P::NEEDS_FOOTPRINT
            }
        }
        visit(self.info.name, Needs).expect("the policy is in the registry")
    }

    /// What the policy is made from.
    ///
    /// # Panics
    /// If the capacity is 0.
    pub fn setup(&self, capacity: u32, pages: u32) -> Setup {
        Setup { managers: self.managers.clone(), ..Setup::new(capacity, pages, self.settings.clone()) }
    }
}
