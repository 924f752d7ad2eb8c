//! The thread that steers programs' memory: it takes faults, asks the policy, and has pages leave.
//!
//! ```text
//!   faults --> State::fault --> steered (policy, residents) <-- look: reference bits, at the end of an epoch
//!                                   | pages that the policy has let go
//!               leave  <------------+
//!                 | process_madvise(MADV_PAGEOUT), and a look at which have left
//!                 +--> later        others have them too, they are locked, or swap space is full: it is tried again, and then the policy has them back
//! ```
//!
//! A turn takes what is in the ring, has pages leave, and keeps the size. Between turns it sleeps, the longer the less happens.

use super::duel::{Chooser, Duel};
use super::epoch::Epoch;
use super::faults::{Fault, Faults};
use super::look::Where;
use super::machine::Machine;
use super::spaces::Spaces;
use super::walk::Walk;
use crate::bpf::groups::Groups;
use crate::budget::Budget;
use crate::common::{Common, Side};
use crate::error::Error;
use crate::later::Later;
use crate::limits::Limits;
use crate::mapped::{self, Own};
use crate::pressure;
use crate::scopes::{Hierarchy, Scope, Scopes};
use crate::steered::{PAGE, Pages, Size, Steered};
use crate::steering::Users;
use forebay_basis::Operation;
use forebay_pool::Together;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Faults that are taken in a turn.
const MOST_FAULTS: usize = 1 << 14;
/// How long it sleeps between turns while pages come, and at most while nothing happens.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
/// All of the start is over by then.
const SETTLES: Duration = Duration::from_secs(2);
/// It goes before programs, of whose processor's time it takes a few per cent.
const PRIORITY: i32 = -15;
/// How often processes are looked up.
const TEND: Duration = Duration::from_millis(100);

/// How often it is weighed what the kernel has reclaimed by itself, and what part of what the policy has let go it may be.
const WEIGHED: Duration = Duration::from_secs(1);
const PART: u64 = 4;

/// Fewer pages than a part in this many of the size, or than a few, are no reason to look at all memory, or to say anything.
pub(super) const MANY: u64 = 64;
pub(super) const FEW: u64 = 64;

/// Sets a limit to pages, for the policy or for the kernel.
pub type SetLimit = Box<dyn Fn(u64, Chooser) + Send>;

/// What is steered, and how.
#[derive(Default)]
pub struct Options {
    /// Control groups, with those below them: the memory of their processes.
    pub groups: Vec<PathBuf>,
    /// Nothing leaves, and no reference bit is cleared.
    pub observe: bool,
    /// Files are steered by the same policy: pages of theirs that programs map are files' pages.
    pub files_beside: bool,
    /// The size follows what these leave, from the pool's on.
    pub follow: Option<Limits>,
    /// The policy and the kernel's own lists choose in turns, where a limit keeps the size while the kernel does: one that is followed, or `limit`.
    pub turns: bool,
    /// Sets the limit of a group of its own to these pages: with room for those on their way to swap space if the policy chooses.
    pub limit: Option<SetLimit>,
    /// A recorder, which is called for each fault on a page that was not there, and for each page that was used in an epoch. Its files are processes.
    pub users: Option<Box<dyn Users>>,
}

/// What was seen and done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// What happened to pages. A hit is a page whose reference bit was set at the end of an epoch.
    pub pages: Pages,
    /// Pages in memory that may leave.
    pub there: u64,
    /// Those of them that the policy has let go.
    pub kept: u64,
    /// Pages in memory that may not: programs themselves.
    pub others: u64,
    /// Pages that may be in memory now, of both kinds.
    pub size: u64,
    /// Pages that were asked for, or that the limits leave.
    pub asked: u64,
    /// Pages that the policy got back because they stay.
    pub refused: u64,
    /// Processes that are steered.
    pub processes: u64,
    /// Faults that were taken.
    pub faults: u64,
    /// Faults that found the ring full, or whose process had ended by then.
    pub lost: u64,
    /// Whether the policy chooses now.
    pub policy_chooses: bool,
    /// The time in which the kernel's own lists chose.
    pub kernel_chose: Duration,
    /// Looks at reference bits, and what they took.
    pub looks: u64,
    /// The time of these looks.
    pub looking: Duration,
    /// Bytes of memory, without the pool's metadata.
    pub memory: u64,
}

/// What only the start of this process has needed leaves its memory.
fn page_out_own(own: Own) {
    if let Err(error) = mapped::page_out_own_start(own) {
        tracing::debug!("what only the start needed stays in memory: {error}");
    }
}

/// Programs' memory that is steered, until this is stopped or dropped.
pub struct Paging {
    shared: Arc<Shared>,
    together: Together,
    thread: Option<JoinHandle<()>>,
}

/// What both sides know.
pub(super) struct Shared {
    stop: AtomicBool,
    /// The size that is asked for, in pages.
    size: AtomicU64,
    /// What it follows instead.
    limits: Mutex<Option<Limits>>,
    counts: Mutex<Counts>,
}

impl Shared {
    pub(super) fn new(size: u64, limits: Option<Limits>) -> Self {
        let (stop, size) = (AtomicBool::new(false), AtomicU64::new(size));
        Self { stop, size, limits: Mutex::new(limits), counts: Mutex::default() }
    }
}

impl Paging {
    /// Begins to steer with a pool that is used for nothing else: its capacity is the size.
    ///
    /// # Errors
    /// What cannot be steered, and why.
    pub fn start(common: Arc<Common>, mut options: Options) -> Result<Self, Error> {
        let scopes: Vec<Scope> = options.groups.iter().cloned().map(Scope::Group).collect();
        let hierarchy = Scopes::new(&scopes)?.hierarchy()?;
        // Where nothing leaves, the programs may have much more, and a lost fault is a use that is not recorded.
        let size = if options.observe { u64::MAX } else { common.pool().capacity() };
        let faults = Faults::start(size, |layout| match hierarchy {
            Some(Hierarchy::Memory) => Ok(Groups::of_memory(layout)?),
            Some(Hierarchy::Unified) | None => Ok(Groups::Unified),
        })?;
        let machine = Box::new(Walk::start()?);
        let shared = Arc::new(Shared::new(common.pool().capacity() / PAGE, options.follow.take()));
        let mut state = State::new(common, machine, (options.observe, options.files_beside), &shared)?;
        let together = state.spaces.together().clone();
        (state.turns, state.limit) = (options.turns, options.limit);
        let mut events = Events { faults, groups: options.groups };
        state.tend(&mut events, Instant::now());
        // Of what was there before, nobody knows when it was used.
        state.users = options.users;
        state.turn(&mut events, Instant::now());
        let thread = std::thread::Builder::new().name("page".to_owned()).spawn(move || state.run(events));
        let thread = thread.map_err(|error| Error::System { asked: "a thread to steer", source: Arc::new(error) })?;
        Ok(Self { shared, together, thread: Some(thread) })
    }

    /// What was seen and done so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the pool counts of all processes.
    pub fn counted(&self) -> &Together {
        &self.together
    }

    /// The size follows what limits leave, from now on.
    pub fn follow(&self, limits: Limits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(limits);
    }

    /// Another size is asked for, in bytes: pages leave soon.
    pub fn resize(&self, bytes: u64) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.size.store(bytes / PAGE, Ordering::Relaxed);
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

impl Drop for Paging {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What tells of faults, and of processes.
pub(super) struct Events {
    pub(super) faults: Faults,
    pub(super) groups: Vec<PathBuf>,
}

/// The thread's own.
pub(super) struct State {
    pub(super) machine: Box<dyn Machine>,
    pub(super) spaces: Spaces,
    pub(super) steered: Steered,
    pub(super) epoch: Epoch,
    /// Pages that came in this epoch, 64 to a word, by process: their reference bits say nothing.
    pub(super) fresh: HashMap<(u32, u64), u64, foldhash::fast::RandomState>,
    pub(super) observe: bool,
    pub(super) files_beside: bool,
    pub(super) users: Option<Box<dyn Users>>,
    pub(super) turns: bool,
    pub(super) limit: Option<SetLimit>,
    /// Where they have turns.
    pub(super) duel: Option<Duel>,
    /// How many faults there had been when processes were asked last what they have done.
    pub(super) worked_at: u64,
    /// Who chooses.
    pub(super) chooser: Chooser,
    /// What the policy would have let go, and what was used again after that, while the kernel chose.
    untold: (u64, u64),
    /// Pages that the kernel has chosen, and the size does not account for yet.
    pub(super) reclaimed: u64,
    pub(super) later: Later,
    pub(super) budget: Budget,
    shared: Arc<Shared>,
    pub(super) counts: Counts,
    /// Faults of processes that had ended by the time that they were taken.
    pub(super) gone: u64,
    /// Faults that were lost by the last look at all memory.
    pub(super) lost: u64,
    pub(super) tended: Instant,
    pub(super) refreshed: Instant,
    /// There were faults since processes were looked after last.
    pub(super) faulted: bool,
    weighed: Weighed,
    /// Pages that may not leave, as they were counted when all memory was looked at.
    pub(super) others: u64,
    /// Pages of this process's own.
    pub(super) own: u64,
    /// It was said that pages stay, and that the size is too small for programs themselves.
    pub(super) said: bool,
    pub(super) said_small: bool,
    /// How often in turn programs themselves left no room.
    pub(super) small_for: u32,
}

/// When it was weighed last what the kernel reclaims, with what was so then.
struct Weighed {
    at: Instant,
    /// Pages that the policy had let go.
    let_go: u64,
    /// Pages that the kernel had reclaimed as it needed memory.
    stolen: Option<u64>,
}

impl Events {
    /// Takes at most `most` faults, in order. How many there were.
    pub(super) fn drain(&mut self, most: usize, each: &mut dyn FnMut(Fault)) -> usize {
        self.faults.drain(most, each)
    }
}

impl State {
    pub(super) fn new(
        common: Arc<Common>,
        machine: Box<dyn Machine>,
        (observe, files_beside): (bool, bool),
        shared: &Arc<Shared>,
    ) -> Result<Self, Error> {
        let now = Instant::now();
        Ok(Self {
            machine,
            spaces: Spaces::new(common.pool(), files_beside),
            steered: Steered::new(common, Side::Memory)?,
            epoch: Epoch::new(now, observe),
            fresh: HashMap::default(),
            observe,
            files_beside,
            users: None,
            turns: false,
            limit: None,
            duel: None,
            worked_at: 0,
            chooser: Chooser::Policy,
            untold: (0, 0),
            reclaimed: 0,
            later: Later::default(),
            budget: Budget::new(shared.size.load(Ordering::Relaxed)),
            shared: Arc::clone(shared),
            counts: Counts::default(),
            gone: 0,
            lost: 0,
            tended: now,
            refreshed: now,
            faulted: false,
            weighed: Weighed { at: now, let_go: 0, stolen: pressure::stolen_of_memory() },
            others: 0,
            own: 0,
            said: false,
            said_small: false,
            small_for: 0,
        })
    }

    fn run(mut self, mut events: Events) {
        // Pages come as fast as processors make them. Without the right to go first it goes on like others.
        if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), PRIORITY) {
            tracing::debug!("it has no priority: {error}");
        }
        page_out_own(Own::Program);
        let settled = Instant::now() + SETTLES;
        let (mut pause, mut settles) = (PAUSE, !self.observe);
        while !self.shared.stop.load(Ordering::Relaxed) {
            if settles && Instant::now() >= settled {
                settles = false;
                page_out_own(Own::All);
            }
            match self.turn(&mut events, Instant::now()) {
                MOST_FAULTS.. => continue,
                0 => pause = (pause * 2).min(LONGEST_PAUSE),
                _ => pause = PAUSE,
            }
            std::thread::sleep(pause);
        }
        self.show();
    }

    /// Takes faults, and has pages leave. How many faults there were.
    fn turn(&mut self, events: &mut Events, now: Instant) -> usize {
        let mut taken = Vec::new();
        let count = events.drain(MOST_FAULTS, &mut |fault| taken.push(fault));
        self.counts.faults += count as u64;
        self.epoch.faulted(count);
        self.faulted |= count > 0;
        if count > 0 && self.has_freed() && self.epoch.may_end_early(now) {
            self.look(Where::Known);
        }
        taken.into_iter().for_each(|fault| self.fault(fault));
        if self.chooser == Chooser::Kernel {
            self.refresh(events, now);
        }
        if now.saturating_duration_since(self.tended) >= TEND {
            self.tend(events, now);
        }
        self.go_on(now);
        self.show();
        count
    }

    /// What follows from what has come.
    pub(super) fn go_on(&mut self, now: Instant) {
        let (size, there, came) = (self.budget.pages(), self.all_there(), self.steered.all_came());
        let is_over = match self.chooser {
            Chooser::Policy => self.epoch.is_over(size, there, came, now),
            Chooser::Kernel => self.epoch.is_long(now),
        };
        if is_over {
            self.look(Where::Known);
        } else if self.files_beside && self.epoch.has_glance(size, there, came, now) {
            self.glance();
        }
        self.leave(now);
        self.try_again(now);
        self.keep_size(now);
    }

    /// A process asks for a page.
    pub(super) fn fault(&mut self, Fault { process, page }: Fault) {
        let Some(object) = self.spaces.find(process).or_else(|| self.hold(process)) else {
            self.gone += 1;
            return;
        };
        let Some(space) = self.spaces.get_mut(object) else { return };
        if !space.may_leave(page) {
            return;
        }
        let volume = Arc::clone(&space.volume);
        let residents = self.steered.residents();
        if residents.is_there(object, page) {
            if self.observe || residents.is_wanted(object, page) {
                // It was there, and may now be written, for example: its reference bit tells of its use.
                return;
            }
            // It had left, before anybody looked.
            self.steered.removed(&volume, page, 1, self.rests());
        }
        self.record(object, page..page + 1);
        *self.fresh.entry((object, page / 64)).or_default() |= 1 << (page % 64);
        self.steered.used(&volume, page..page + 1, (Operation::Read, None));
        self.steered.added(&volume, page, 1);
    }

    /// Pages of a process are used.
    pub(super) fn record(&mut self, object: u32, pages: Range<u64>) {
        let (Some(users), Some(space)) =
            (self.users.as_deref().filter(|users| users.wants()), self.spaces.get_mut(object))
        else {
            return;
        };
        let (number, owner) = space.recorded(|name| (users.file(name), users.owner(name)));
        let (start, end) = (pages.start * PAGE, pages.end * PAGE);
        users.reference((number, end), &|| owner, (start, end - start), Operation::Read);
    }

    /// Whether the size follows limits, and there are some.
    pub(super) fn follows(&self) -> bool {
        let limits = self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.as_ref().is_some_and(Limits::limit_something)
    }

    /// Follows the size that is asked for, and what the kernel leaves of it.
    fn keep_size(&mut self, now: Instant) {
        self.steered.show(self.steered.residents().there() + self.counts.others);
        match &mut *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(limits) => {
                if let Some(pages) = limits.leave_to_memory(self.own, self.budget.asked(), now) {
                    self.budget.follow(pages.max(1));
                }
            }
            None => {
                let asked = self.shared.size.load(Ordering::Relaxed);
                if asked != self.budget.asked() {
                    self.budget.ask(asked);
                    self.set_limit();
                }
            }
        }
        if self.chooser == Chooser::Policy && now.saturating_duration_since(self.weighed.at) >= WEIGHED {
            let (let_go, stolen) = (self.steered.pages().let_go, pressure::stolen_of_memory());
            // What it takes only since it was not used for long (DAMON), or as a program asks (madvise), shows no need.
            let needed = stolen.is_none() || stolen > self.weighed.stolen;
            // While memory fills faster than swap space takes it, the kernel helps; where it takes a good part all the time, the size is too large.
            if needed && self.reclaimed * PART > let_go - self.weighed.let_go {
                self.budget.reclaimed(self.reclaimed, self.all_there(), now);
            }
            (self.weighed, self.reclaimed) = (Weighed { at: now, let_go, stolen }, 0);
        }
        self.budget.tick(now);
        let kept = if self.rests() { 0 } else { self.steered.residents().kept() };
        let left = self.budget.pages().saturating_sub(self.counts.others).max(1);
        if let Err(error) = self.steered.fit(Size { asked: self.budget.asked(), left, kept }, now) {
            tracing::warn!("the policy keeps its size: {error}");
            self.budget.ask(self.budget.asked());
        }
    }

    /// Whether nothing leaves by the policy.
    pub(super) fn rests(&self) -> bool {
        self.observe || self.chooser == Chooser::Kernel
    }

    /// What has happened to pages. What the policy would have let go while the kernel chose is left out.
    fn told(&mut self) -> Pages {
        let (before, mut pages) = (self.counts.pages, self.steered.pages());
        if self.chooser == Chooser::Kernel {
            self.untold = (pages.let_go - before.let_go, pages.rescued - before.rescued);
        }
        pages.let_go -= self.untold.0;
        pages.rescued -= self.untold.1;
        pages
    }

    /// Pages that count in the size: those of files, too, if they have it together with programs' memory.
    pub(super) fn all_there(&self) -> u64 {
        self.steered.residents().there() + self.counts.others + self.steered.beside()
    }

    /// What was seen and done so far.
    #[cfg(test)]
    pub(super) fn counts(&mut self) -> Counts {
        self.show();
        self.counts
    }

    fn show(&mut self) {
        self.counts.policy_chooses = self.chooser == Chooser::Policy;
        self.counts.pages = self.told();
        let residents = self.steered.residents();
        self.counts.there = residents.there();
        self.counts.kept = if self.chooser == Chooser::Kernel { 0 } else { residents.kept() };
        (self.counts.size, self.counts.asked) = (self.budget.pages(), self.budget.asked());
        self.counts.processes = self.spaces.len() as u64;
        (self.counts.looks, self.counts.looking) = self.epoch.looks();
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
    }
}
