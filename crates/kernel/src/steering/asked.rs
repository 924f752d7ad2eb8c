//! What others ask of the thread that steers: it answers at its next turn, so that its state is its own.

use super::{Counts, Options, State, shares};
use crate::common::Common;
use crate::error::Error;
use crate::limits::Limits;
use crate::steered::PAGE;
use crate::watch::FileId;
use forebay_owning::InForce;
use forebay_policy::managers::Rule;
use forebay_pool::{Share, Together};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer of the thread is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A page cache that is steered, until this is stopped or dropped.
pub struct Steering {
    shared: Arc<Shared>,
    /// Of files without a share, and of each share.
    counted: Vec<Together>,
    thread: Option<JoinHandle<()>>,
}

/// What both sides know.
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// The size that is asked for, in pages.
    pub(super) size: AtomicU64,
    /// What it follows instead.
    pub(super) limits: Mutex<Option<Limits>>,
    pub(super) counts: Mutex<Counts>,
    /// What the thread is to do at its next turn.
    pub(super) asked: Mutex<Vec<Asked>>,
}

pub(super) type Asked = Box<dyn FnOnce(&mut State) + Send>;

impl Shared {
    pub(super) fn new(size: u64, limits: Option<Limits>) -> Arc<Self> {
        let (stop, size) = (AtomicBool::new(false), AtomicU64::new(size));
        Arc::new(Self { stop, size, limits: Mutex::new(limits), counts: Mutex::default(), asked: Mutex::default() })
    }

    fn follow(&self, limits: Option<Limits>) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// What the thread answers at its next turn; nothing if it does not take turns any more.
    pub(super) fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut State) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = channel();
        // Who asked may wait no longer.
        let ask = move |state: &mut State| drop(answer.send(question(state)));
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(ask));
        answered.recv_timeout(PATIENCE).ok()
    }
}

impl Steering {
    /// Begins to steer. Returns when what is there already has been found, or soon after `stops` says that it is to be stopped.
    ///
    /// # Errors
    /// What cannot be steered, and why.
    pub fn start(common: Arc<Common>, mut options: Options, stops: &mut dyn FnMut() -> bool) -> Result<Self, Error> {
        let shared = Shared::new(common.pool().capacity() / PAGE, options.follow.take());
        let counted = shares::make(common.pool(), &options)?;
        let mut state = State::new(common, options, &counted, &shared)?;
        let counted = std::iter::once(state.files.others().clone()).chain(counted).collect();
        state.begin_walks();
        if !state.only_users {
            state.look_up_all(stops);
        }
        state.turn(Instant::now());
        let thread = std::thread::Builder::new().name("steer".to_owned()).spawn(move || state.run());
        let thread = thread.map_err(|error| Error::System { asked: "a thread to steer", source: Arc::new(error) })?;
        Ok(Self { shared, counted, thread: Some(thread) })
    }

    /// What the thread answers at its next turn; nothing if it does not take turns any more.
    pub(crate) fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut State) -> T + Send + 'static) -> Option<T> {
        self.shared.ask(question)
    }

    /// For others who ask the thread, also after this was dropped: then there is no answer.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// What was seen and done so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the pool counts of files: first of those without a share, then of those of each share, in the order of [`Options::shares`].
    pub fn counted(&self) -> &[Together] {
        &self.counted
    }

    /// Changes a share, by its place in [`Options::shares`]. Nothing is answered if the thread has ended.
    pub fn change_share(&self, place: usize, share: Share) -> Option<Result<(), Error>> {
        let group = self.counted[1 + place].clone();
        let change = move |state: &mut State| state.change_share(&group, share, Instant::now());
        self.shared.ask(change)
    }

    /// The size follows what limits leave, from now on.
    pub fn follow(&self, limits: Limits) {
        self.shared.follow(Some(limits));
    }

    /// Another size is asked for, in bytes: pages leave soon.
    pub fn resize(&self, bytes: u64) {
        self.shared.follow(None);
        self.shared.size.store(bytes / PAGE, Ordering::Relaxed);
    }

    /// Has other rules hold from now on, and what attributes say now, also for files that were used. Whether it was done: not if the thread has ended.
    pub fn set_rules(&self, rules: Vec<Rule>) -> bool {
        let set = |state: &mut State| {
            let State { managing, steered, files, .. } = state;
            managing.set_rules(steered.pool(), rules, files.iter_mut());
            state.read_all_attributes();
        };
        self.shared.ask(set).is_some()
    }

    /// Has a rule hold before all others, until others are set; one for the same owners and files goes. Whether it was done.
    pub fn put_rule_first(&self, rule: Rule) -> bool {
        let put = |State { managing, steered, files, .. }: &mut State| {
            managing.put_first(steered.pool(), rule, files.iter_mut());
        };
        self.shared.ask(put).is_some()
    }

    /// The policy was made anew: it learns again who manages.
    pub fn manage_anew(&self) {
        // A thread that has ended tells it nothing.
        let _ = self.shared.ask(|State { managing, steered, files, .. }: &mut State| {
            managing.tell_anew(steered.pool(), files.iter_mut());
        });
    }

    /// All that says who manages: rules in their order, attributes by file, and managers that have lost their charge by their mistakes.
    pub fn managers(&self) -> Vec<InForce> {
        let list = |State { managing, steered, files, .. }: &mut State| managing.in_force(steered.pool(), files.iter());
        self.shared.ask(list).unwrap_or_default()
    }

    /// Whether it goes on: not after a panic.
    pub fn runs(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it: the kernel's own lists decide again.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that steers has panicked; the kernel's own lists decide");
        }
    }
}

impl State {
    /// Looks whether a file is steered, and lets its pages leave if they are to. What keeps it from that.
    pub(crate) fn find_hinted(&mut self, opened: BorrowedFd<'_>, id: FileId, leaves: bool) -> Result<(), &'static str> {
        let Self { files, scopes, linked, steered, .. } = self;
        let known = files.find(id);
        let is_steered = known.is_some()
            || linked.contains_key(&id)
            || scopes.system(id.device).is_some() && scopes.directory_of(opened).is_some();
        if !is_steered {
            return Err("it is not steered, or was not used yet by who is");
        }
        if self.observe {
            return Err("under --observe nothing comes or leaves");
        }
        if let Some(object) = known.filter(|_| leaves)
            && let Some(volume) = files.get(object).map(|file| Arc::clone(&file.volume))
        {
            let there = steered.residents().there_of(object);
            there.into_iter().for_each(|pages| steered.give_up(&volume, pages));
        }
        Ok(())
    }

    /// Reads again what a file's attributes say.
    pub(crate) fn read_attributes_of(&mut self, id: FileId) {
        self.managing.forget_attributes();
        if let Some(object) = self.files.find(id) {
            self.read_attributes(object);
        }
    }

    fn read_all_attributes(&mut self) {
        self.managing.forget_attributes();
        let objects: Vec<u32> = self.files.iter().map(|file| file.volume.id()).collect();
        objects.into_iter().for_each(|object| self.read_attributes(object));
    }

    fn read_attributes(&mut self, object: u32) {
        let Self { managing, scopes, descriptors, files, steered, .. } = self;
        let Some(file) = files.get_mut(object).filter(|file| managing.is_possible() && file.managed.is_some()) else {
            return;
        };
        if let Some(system) = scopes.system(file.id.device)
            && let Ok(opened) = descriptors.get(system, file.id)
        {
            managing.read_attributes((steered.pool(), scopes), file, opened, Instant::now());
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.stop();
    }
}
