//! A fault of the policy costs hits, never data or service.
//!
//! Every call of a policy goes through [`Replacer::call`], which catches its panic. What is resident, dirty, or free is known by the pages' own
//! states. So a built-in order, CLOCK, takes the policy's place with the pages that are resident, and answers the same question. What the
//! caller had accepted before the panic stays as it is: an evicted page has left, and its event is in `events`.
//!
//! ```text
//! call --> policy answers -----------------------------------------> answer
//!             | panics
//!             v
//!          fall_back: log, count, release the ghosts' numbers,
//!          the resident pages under the built-in order ---> asked --> answer
//! ```
//!
//! [`Replacer::restart`] makes the policy anew, and gives it the resident pages.

#[cfg(all(test, not(feature = "model-check")))]
mod faulty;
#[cfg(all(test, not(feature = "model-check")))]
mod tests;

use crate::core::Core;
use crate::core::judge::Judge;
use crate::core::replacer::Replacer;
use crate::core::shares::Shares;
use forebay_basis::{Operation, Place};
use forebay_policy::{AllRefused, Control, Policy, Reference, Spec, Uncontrolled};
use forebay_policy::{Clock, Fifo};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

type Panic = Box<dyn Any + Send>;

/// What the policy is being asked, and what became of it.
pub(crate) struct Asked {
    /// The page that is being admitted or dropped: its number is kept, whatever the policy forgets.
    about: Option<u32>,
    /// The policy has admitted that page, which has no frame yet.
    admitted: bool,
    panics: u64,
    /// The policy has panicked, and the built-in order decides.
    built_in: bool,
    /// The policy that was asked for has managers.
    managed: bool,
}

/// What is shown of the policy.
pub(crate) struct Figures {
    pub(crate) capacity: u32,
    pub(crate) resident: u32,
    pub(crate) ghosts: u32,
    pub(crate) bytes: usize,
    pub(crate) state: Vec<(&'static str, f64)>,
    pub(crate) panics: u64,
}

impl Asked {
    pub(crate) fn new(policy: &mut Shares) -> Self {
        // Of no object: nothing changes.
        let managed = policy.control(&Control::Agree { object: u32::MAX }).is_ok();
        Self { about: None, admitted: false, panics: 0, built_in: false, managed }
    }

    /// The page of this number is about to be admitted or dropped.
    pub(crate) fn begin(&mut self, number: u32) {
        (self.about, self.admitted) = (Some(number), false);
    }

    /// It has its frame, or none.
    pub(crate) fn end(&mut self) {
        (self.about, self.admitted) = (None, false);
    }
}

impl Replacer {
    /// Asks the policy. If that panics, the built-in order answers. What happened to pages is in `events`.
    pub(super) fn call<T>(&mut self, core: &Core, question: impl Fn(&mut Shares, &mut Judge<'_>) -> T) -> T {
        match self.try_call(core, &question) {
            Ok(answer) => answer,
            Err(panic) => {
                self.fall_back(core, panic.as_ref());
                // A panic of the built-in order is a fault of the pool's own.
                self.try_call(core, &question).unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }

    /// The same, and takes account of what happened to pages.
    pub(super) fn ask<T>(&mut self, core: &Core, question: impl Fn(&mut Shares, &mut Judge<'_>) -> T) -> T {
        let answer = self.call(core, question);
        self.account(core);
        answer
    }

    /// The same about a page that is dropped.
    pub(super) fn ask_about(&mut self, core: &Core, number: u32, question: impl Fn(&mut Shares, &mut Judge<'_>)) {
        self.asked.begin(number);
        self.ask(core, question);
        self.asked.end();
    }

    /// Asks the policy to admit the page that `asked` is about.
    pub(super) fn miss(&mut self, core: &Core, reference: &Reference) -> Result<(), AllRefused> {
        let answer = self.call(core, |policy, judge| policy.miss(reference, judge));
        self.asked.admitted = answer.is_ok();
        self.account(core);
        answer
    }

    /// A command to a policy that has managers. The built-in order has none, and does as if.
    pub(crate) fn control(&mut self, core: &Core, control: &Control) -> Result<u32, Uncontrolled> {
        let answer = self.call(core, |policy, _| policy.control(control));
        if self.asked.built_in && self.asked.managed { Ok(0) } else { answer }
    }

    /// What is shown of the policy.
    pub(crate) fn figures(&mut self, core: &Core) -> Figures {
        let figures = self.call(core, |policy, _| Figures {
            capacity: policy.capacity(),
            resident: policy.len(),
            ghosts: policy.ghosts(),
            bytes: policy.bytes(),
            state: policy.state(),
            panics: 0,
        });
        Figures { panics: self.asked.panics, ..figures }
    }

    /// Makes the policy anew, and has it admit the resident pages in the order in which the one before would have evicted them; returns how
    /// many they are. It knows no ghosts and no managers.
    ///
    /// # Errors
    /// [`Uncontrolled::Panicked`]: it has panicked at once, and the built-in order decides.
    pub(crate) fn restart(&mut self, core: &Core) -> Result<u32, Uncontrolled> {
        let order = self.call(core, |policy, _| policy.drain());
        let residents = self.residents(core, &order);
        let spec = self.policy.spec().clone();
        match caught(|| self.policy.renewed(&spec, &residents, |number| reference_of(core, number), self.given)) {
            Ok(renewed) => {
                self.asked.built_in = false;
                self.replace(core, renewed);
            }
            Err(panic) => self.fall_back(core, panic.as_ref()),
        }
        if self.asked.built_in { Err(Uncontrolled::Panicked) } else { Ok(residents.len() as u32) }
    }

    fn try_call<T>(&mut self, core: &Core, question: impl Fn(&mut Shares, &mut Judge<'_>) -> T) -> Result<T, Panic> {
        let mut judge = Judge {
            pages: &core.pages,
            slots: &core.slots,
            waiters: &core.waiters,
            laundry_room: self.laundry_limit.saturating_sub(core.laundered()),
            admitted: self.asked.about,
            sheltered: &self.sheltered,
            numbers: &[],
            awaits: self.notes_awaited(),
            events: &mut self.events,
        };
        caught(|| question(&mut self.policy, &mut judge))
    }

    /// The policy has panicked: the built-in order takes its place.
    #[cold]
    fn fall_back(&mut self, core: &Core, panic: &(dyn Any + Send)) {
        self.asked.panics += 1;
        let built_in = built_in(self.policy.spec());
        let state = caught(|| self.policy.state()).unwrap_or_default();
        let state: Vec<String> = state.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
        tracing::error!(
            "the policy {} has panicked: {}. The cache goes on under {} until the policy is restarted (`restart-policy`), and \
             has lost no data. Please report this. Its state: {}",
            self.policy.spec().label,
            message(panic),
            built_in.label,
            if state.is_empty() { "not known".to_owned() } else { state.join(", ") },
        );
        let residents = self.residents(core, &[]);
        let renewed = self.policy.renewed(&built_in, &residents, |number| reference_of(core, number), self.given);
        self.asked.built_in = true;
        self.replace(core, renewed);
    }

    /// Another policy decides from now on, which knows the resident pages alone.
    fn replace(&mut self, core: &Core, policy: Shares) {
        let before = std::mem::replace(&mut self.policy, policy);
        // What is left of a policy that has panicked may panic again; then its memory is lost.
        let _ = caught(|| drop(before));
        for number in 0..self.given {
            let page = core.pages.get(number);
            if self.is_resident(core, number) {
                self.note_awaited(core, number);
            } else if self.asked.about == Some(number) {
                self.events.forgot_admitted = true;
            } else if page.state().in_laundry() {
                page.forget();
            } else if page.known() {
                self.release(core, number);
            }
        }
        self.account(core);
    }

    /// The pages that the policy is to know as resident: these first, as far as they are.
    fn residents(&self, core: &Core, first: &[u32]) -> Vec<u32> {
        let mut taken = vec![false; self.given as usize];
        let numbers = first.iter().copied().chain(0..self.given);
        numbers
            .filter(|&number| self.is_resident(core, number) && !std::mem::replace(&mut taken[number as usize], true))
            .collect()
    }

    fn is_resident(&self, core: &Core, number: u32) -> bool {
        let state = core.pages.get(number).state();
        let admitted = self.asked.admitted && self.asked.about == Some(number);
        admitted || !state.absent() && !state.in_laundry()
    }
}

/// What is known of the last use of the page that a number stands for, if it stands for one.
fn reference_of(core: &Core, number: u32) -> Option<Reference> {
    let page = core.pages.get(number);
    page.region()?;
    let place = Place { object: page.object(), block: page.block() };
    let operation = if page.state().ahead() { Operation::Readahead } else { Operation::Read };
    Some(Reference { page: number, owner: place.object, place, operation })
}

/// The order that takes a policy's place: CLOCK, or FIFO if it is that which has panicked.
fn built_in(policy: &Spec) -> Spec {
    Spec::new(if policy.info.name == Clock::INFO.name { &Fifo::INFO } else { &Clock::INFO })
}

/// Catches a panic of the policy. The model checker ends its threads by panics of its own, and no policy of its tests panics.
///
/// What the work leaves half done is the policy, which is then replaced. The judge's calls leave pages and events whole.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    if cfg!(feature = "model-check") { Ok(work()) } else { catch_unwind(AssertUnwindSafe(work)) }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
