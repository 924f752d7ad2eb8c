//! The thread that steers: it takes the kernel's events, asks the policy, and lets pages leave.
//!
//! ```text
//!   watch --events--> State::happened --> steered (policy, residents)
//!                                            | folios that no wanted page keeps
//!                       leave  <-------------+
//!                         | posix_fadvise       what has not left by then is dirty, mapped or in use:
//!                         +--> later            its writeback starts, and it is tried again
//! ```
//!
//! A turn takes what is in the ring, lets pages leave, and keeps the size. Between turns it sleeps for 1 to 8 ms: the less happens, the longer. If it ends in any way, the
//! kernel goes on with its own lists: only clean pages were let go, and nothing else was changed.

mod asked;
mod finder;
mod lookup;
#[cfg(test)]
mod played;
mod shares;
#[cfg(test)]
mod tests;
mod turn;

use crate::act;
use crate::arrivals::Arrivals;
use crate::budget::Budget;
use crate::common::{Common, Side};
use crate::descriptors::Descriptors;
use crate::error::Error;
use crate::file_system::check_rights;
use crate::files::Files;
use crate::finding::Finding;
use crate::later::Later;
use crate::limits::Limits;
use crate::managing::Managing;
use crate::mapped::{self, Mapped, Own};
use crate::pressure::Pressure;
use crate::scopes::{Hierarchy, Scope, Scopes};
use crate::steered::{Pages, Size, Steered};
use crate::watch::{FileId, GroupsBy, Watch, WatchOptions};
use crate::writeout::Writeout;
use asked::Shared;
pub use asked::Steering;
pub use finder::Finder;
use forebay_basis::Operation;
use forebay_extents::{Asked, Extents};
use forebay_owning::{Owners, Processes};
use forebay_policy::managers::Rule;
use forebay_pool::{Share, Together};
use lookup::Lookup;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use turn::{Sees, Turn, Verdict};

/// Events that are taken in a turn.
const MOST_EVENTS: usize = 1 << 14;
/// Events whose memory is waited for together: uses at random places are each far from the others in it.
const TOGETHER: usize = 16;
/// How long it sleeps between turns: while many pages leave, while they are used, and at most while nothing happens. Each time that it wakes costs programs
/// some microseconds.
const PAUSE: Duration = Duration::from_millis(1);
const CALM_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);
/// A turn of no more events is as good as none.
const FEW_EVENTS: usize = 1 << 10;
/// Many pages leave in a turn if they are more than the size divided by this.
const MANY: u64 = 256;
/// It goes before programs, of whose processor's time it takes a few per cent.
const PRIORITY: i32 = -15;
/// How often files are looked through.
const TEND: Duration = Duration::from_millis(250);
/// The bytes of the ring: 13,000 events at the least, as even a small program has at its start, and at the most 50 ms of what two processors can read.
const RING: RangeInclusive<u64> = 1 << 20..=4 << 20;
/// There is room for one verdict for each of these bytes of the ring.
const BYTES_A_VERDICT: u32 = 64;
/// How long it holds that a file is steered, or is not: it may be renamed into a directory or out of it.
const VERDICT: Duration = Duration::from_secs(30);
/// How often pages that cannot leave are tried before the policy has them again.
const TRIES: u8 = 6;
/// Dirty pages are written at once where what is to leave takes more than the size divided by this. Until then they wait for about two seconds: temporary files
/// are often deleted before they need to be written.
const MOST_KEPT: u64 = 16;

/// What learns of each use.
pub trait Users: Send {
    /// Whether it wants to know of uses now.
    fn wants(&self) -> bool;

    /// A file by its path; its number for what follows.
    fn file(&self, path: &str) -> u32;

    /// An owner of references by its name; its number for what follows. The kernel itself is called `0`.
    fn owner(&self, name: &str) -> u32;

    /// An owner, whose number is asked for if it is needed, reads or writes a file, by its number and its length in bytes: from an offset on, a number
    /// of bytes.
    fn reference(&self, file: (u32, u64), owner: &dyn Fn() -> u32, bytes: (u64, u64), operation: Operation);
}

/// What is steered, and how.
#[derive(Default)]
pub struct Options {
    /// What is steered.
    pub scopes: Vec<Scope>,
    /// What some of them have of the cache: files below a directory have its share, whoever uses them, and others that of the group whose use came
    /// first. Those of scopes without one compete for the rest.
    pub shares: Vec<(Scope, Share)>,
    /// Nothing leaves: it only is looked at what is used.
    pub observe: bool,
    /// Uses are for the recorder alone: no policy learns of them, nothing leaves, and it is not looked at what is there.
    pub only_users: bool,
    /// The size follows what these leave, from the pool's on.
    pub follow: Option<Limits>,
    /// A recorder, which is called for each use.
    pub users: Option<Box<dyn Users>>,
    /// What the pool's policy asks where files lie, if it asks at all.
    pub extents: Option<(Arc<Extents>, Asked)>,
    /// Whose uses are one owner's.
    pub owners: Owners,
    /// Who manages, where the policy has managers; the first that fits holds.
    pub rules: Vec<Rule>,
}

/// What was seen and done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// What happened to pages.
    pub pages: Pages,
    /// Pages in the kernel's cache now.
    pub there: u64,
    /// Those of them that the policy has let go.
    pub kept: u64,
    /// Pages that may be there now.
    pub size: u64,
    /// Pages that were asked for, or that the limits leave.
    pub asked: u64,
    /// Pages that the policy got back because they cannot leave.
    pub refused: u64,
    /// Files that are steered.
    pub files: u64,
    /// Events that were taken.
    pub events: u64,
    /// Events that found the ring full.
    pub lost: u64,
    /// Bytes of memory, without the pool's metadata.
    pub memory: u64,
}

/// The thread's own.
pub(crate) struct State {
    watch: Watch,
    scopes: Scopes,
    files: Files,
    finding: Option<Finding>,
    descriptors: Descriptors,
    steered: Steered,
    arrivals: Arrivals,
    sees: Sees,
    mapped: Mapped,
    later: Later,
    writeout: Writeout,
    budget: Budget,
    pressure: Pressure,
    users: Option<Box<dyn Users>>,
    managing: Managing,
    observe: bool,
    only_users: bool,
    shared: Arc<Shared>,
    /// Files that belong to a directory by a name of theirs that the kernel does not tell, with that directory.
    linked: HashMap<FileId, usize>,
    lookup: Lookup,
    counts: Counts,
    lost: u64,
    /// How many events had been taken when files without pages were let go of last.
    swept: u64,
    /// When files were looked through last, and when the kernel was to ask again which files are steered.
    tended: Instant,
    forgot: Instant,
}

impl State {
    fn new(common: Arc<Common>, options: Options, shares: &[Together], shared: &Arc<Shared>) -> Result<Self, Error> {
        let pool = Arc::clone(common.pool());
        let scopes = Scopes::new(&options.scopes)?;
        let groups = match scopes.hierarchy()? {
            None => GroupsBy::None,
            Some(Hierarchy::Unified) => GroupsBy::Unified,
            Some(Hierarchy::Memory) => GroupsBy::Memory,
        };
        let (ring_bytes, verdicts) = shares_of(if options.only_users { u64::MAX } else { pool.capacity() });
        let watch = Watch::start(&WatchOptions { devices: scopes.devices(), groups, ring_bytes, verdicts })?;
        check_rights()?;
        let sees = Sees::by(&watch);
        for program in watch.programs() {
            if let Some(why) = &program.missing {
                tracing::debug!("{}: {why}", program.name);
            }
        }
        Ok(Self {
            watch,
            files: Files::new(
                &pool,
                shares::by_scope(&options, shares),
                options.extents.as_ref().map(|(extents, _)| Arc::clone(extents)),
            ),
            finding: options.extents.map(|(extents, asked)| Finding::new(extents, asked)),
            managing: Managing::new(&pool, Processes::new(options.owners), options.rules),
            descriptors: Descriptors::default(),
            steered: Steered::new(common, Side::Files)?,
            arrivals: Arrivals::default(),
            sees,
            mapped: Mapped::default(),
            later: Later::default(),
            writeout: Writeout::start()?,
            budget: Budget::new(shared.size.load(Ordering::Relaxed)),
            pressure: Pressure::new(scopes.unified_groups(), Instant::now()),
            scopes,
            users: options.users,
            observe: options.observe,
            only_users: options.only_users,
            shared: Arc::clone(shared),
            linked: HashMap::new(),
            lookup: Lookup::default(),
            counts: Counts::default(),
            lost: 0,
            swept: 0,
            tended: Instant::now(),
            forgot: Instant::now(),
        })
    }

    fn run(mut self) {
        // Pages come as fast as disks read. Without the right to go first it goes on like others.
        if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), PRIORITY) {
            tracing::debug!("it has no priority: {error}");
        }
        if let Err(error) = mapped::page_out_own_start(Own::Program) {
            tracing::debug!("what only the start needed stays in memory: {error}");
        }
        let mut pause = PAUSE;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let let_go = self.steered.pages().let_go;
            let events = self.turn(Instant::now());
            // A ring that was not emptied is not waited for.
            if events >= MOST_EVENTS {
                continue;
            }
            let gone = self.steered.pages().let_go - let_go;
            pause = if gone * MANY > self.budget.pages() {
                PAUSE
            } else if gone > 0 || events > FEW_EVENTS {
                CALM_PAUSE
            } else {
                (pause * 2).min(LONGEST_PAUSE)
            };
            std::thread::sleep(pause);
        }
        // What was used until now is recorded and counted.
        while self.take_events(Instant::now()) >= MOST_EVENTS {}
        if self.only_users {
            self.notice_losses();
        }
        self.lost = self.watch.lost();
        self.show();
    }

    /// Takes events, and lets pages leave. How many events there were.
    fn turn(&mut self, now: Instant) -> usize {
        let asked = std::mem::take(&mut *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.into_iter().for_each(|ask| ask(self));
        let events = self.take_events(now);
        self.go_on_looking();
        self.leave(now);
        self.try_again(now);
        // What has left by this takes no room any more.
        let events = events + self.take_events(now);
        self.keep_size(now);
        if let Some(finding) = &mut self.finding {
            finding.go_on(&self.files, &self.scopes);
        }
        if now.saturating_duration_since(self.tended) >= TEND {
            self.tended = now;
            let there = |object| self.steered.residents().has(object);
            // While nothing happens there is time to look through all that have been used since.
            let idle = events == 0 && self.counts.events != self.swept && !self.only_users;
            if self.files.sweep(self.steered.pool(), idle, there) {
                self.swept = self.counts.events;
            }
            self.notice_losses();
            self.weigh();
            if self.scopes.follow() {
                // It is asked anew which files and groups are steered, and what is in the cache of a directory that has come.
                self.forgot = now;
                self.watch.forget_files();
                self.watch.forget_groups();
                self.begin_walks();
            }
        }
        if now.saturating_duration_since(self.forgot) >= VERDICT {
            self.forgot = now;
            self.watch.forget_files();
        }
        self.descriptors.close();
        self.show();
        events
    }

    fn take_events(&mut self, now: Instant) -> usize {
        let Self { watch, scopes, files, descriptors, steered, arrivals, users, managing, linked, mapped, .. } = self;
        let mut unjudged = Vec::new();
        let users = users.as_deref();
        let judged = &mut unjudged;
        let (sees, only_users) = (self.sees, self.only_users);
        let mut turn = Turn {
            scopes,
            files,
            descriptors,
            steered,
            arrivals,
            mapped,
            sees,
            users,
            only_users,
            managing,
            linked,
            now,
            judged,
            needed: 0,
        };
        let mut together = Vec::with_capacity(TOGETHER);
        let events = watch.drain(MOST_EVENTS, &mut |event| {
            together.push(*event);
            if together.len() == TOGETHER {
                turn.all_happened(&together);
                together.clear();
            }
        });
        turn.all_happened(&together);
        while let Some(arrival) = turn.arrivals.due(now) {
            turn.arrived(arrival);
        }
        let needed = turn.needed;
        for verdict in unjudged {
            let told = match verdict {
                Verdict::File(id, followed) => self.watch.judge_file(id, followed),
                Verdict::Group(group, followed) => self.watch.judge_group(group, followed),
            };
            if let Err(error) = told {
                tracing::debug!("a verdict is not kept, and comes again: {error}");
            }
        }
        // Pages of memory on their way to swap space count in a group's limit, and the kernel drops files for them. A smaller size would send more on that way.
        if needed > 0 && !self.steered.has_both() {
            self.budget.reclaimed(needed, self.all_there(), now);
        }
        self.counts.events += events as u64;
        events
    }

    /// Lets folios leave that no wanted page keeps.
    fn leave(&mut self, now: Instant) {
        let leaving = self.steered.take_leaving();
        if self.observe {
            return;
        }
        for (object, pages) in leaving {
            self.drop_pages(object, pages, 0, now);
        }
    }

    /// Lets pages of a file leave: those that do not are tried again later.
    fn drop_pages(&mut self, object: u32, pages: Range<u64>, tries: u8, now: Instant) {
        let Some(file) = self.files.get(object) else { return };
        let Some(system) = self.scopes.system(file.id.device) else { return };
        // Without one that opens there is nothing to leave: it was deleted.
        let Ok(opened) = self.descriptors.get(system, file.id) else { return };
        match act::drop_clean(opened, &pages) {
            Ok(dirty) => {
                let many = self.steered.residents().kept() * MOST_KEPT > self.budget.pages();
                if dirty && (tries >= TRIES - 1 || tries > 0 && many) {
                    self.writeout.ask(opened, &pages);
                }
            }
            Err(error) => tracing::debug!("pages stay: {error}"),
        }
        self.later.add(object, pages, tries, now);
    }

    /// Looks again at pages that were to leave: those that are still there and kept are tried again, or are the policy's again.
    fn try_again(&mut self, now: Instant) {
        let mut still = Vec::new();
        while let Some((object, pages, tries)) = self.later.due(now) {
            let runs = self.steered.residents().all_leaving(object, pages);
            still.extend(runs.into_iter().map(|run| (object, run, tries)));
        }
        still.sort_unstable_by_key(|(object, run, _)| (*object, run.start));
        self.mapped.begin();
        for of_file in still.chunk_by(|one, next| one.0 == next.0) {
            let runs: Vec<Range<u64>> = of_file.iter().map(|(_, run, _)| run.clone()).collect();
            if let Some(file) = self.files.get(of_file[0].0) {
                self.mapped.page_out(of_file[0].0, file.id, &runs);
            }
        }
        for (object, run, tries) in still {
            if tries < TRIES {
                self.drop_pages(object, run, tries + 1, now);
            } else if let Some(file) = self.files.get(object) {
                self.counts.refused += run.end - run.start;
                let owner = file.managed.as_ref().and_then(|managed| managed.last());
                let volume = Arc::clone(&file.volume);
                self.steered.stayed(&volume, run, owner);
            }
        }
    }

    /// Follows the size that is asked for, and what the kernel leaves of it.
    fn keep_size(&mut self, now: Instant) {
        let there = self.steered.residents().there();
        match &mut *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(limits) => {
                if let Some(pages) = limits.follow(there, self.budget.asked(), now) {
                    self.budget.follow(pages.max(1));
                }
            }
            None => {
                let asked = self.shared.size.load(Ordering::Relaxed);
                if asked != self.budget.asked() {
                    self.budget.ask(asked);
                }
            }
        }
        self.steered.show(there);
        // Where nothing leaves, nothing is given back.
        if !self.observe && self.pressure.is_short(now) {
            self.budget.short(self.all_there(), now);
        }
        self.budget.tick(now);
        // Where nothing leaves, what the policy has let go takes none of its room.
        let kept = if self.observe { 0 } else { self.steered.residents().kept() };
        let size = Size { asked: self.budget.asked(), left: self.budget.pages(), kept };
        if let Err(error) = self.steered.fit(size, now) {
            tracing::warn!("the policy keeps its size: {error}");
            self.budget.ask(self.budget.asked());
        }
    }

    /// Pages that count in the size: those of programs, too, if their memory has it together with these files.
    fn all_there(&self) -> u64 {
        self.steered.residents().there() + self.steered.beside()
    }

    /// How much memory it takes: the kernel is asked, so not in each turn.
    fn weigh(&mut self) {
        let users = if self.managing.is_possible() { self.files.bytes_of_users() } else { 0 };
        let files = self.steered.residents().bytes() + self.files.bytes() + users;
        let extents = self.finding.as_ref().map_or(0, Finding::bytes);
        self.counts.memory = self.watch.memory() + (files + extents) as u64;
    }

    fn show(&mut self) {
        let residents = self.steered.residents();
        self.counts.pages = self.steered.pages();
        (self.counts.there, self.counts.kept) = (residents.there(), residents.kept());
        (self.counts.size, self.counts.asked) = (self.budget.pages(), self.budget.asked());
        self.counts.files = self.files.len() as u64;
        self.counts.lost = self.lost;
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
    }
}

/// The bytes of the ring and the most verdicts for a cache of this many bytes: the smaller it is, the less others may take beside it. A ring is mapped twice.
fn shares_of(cache: u64) -> (u32, u32) {
    let ring = 1 << (cache / 128).clamp(*RING.start(), *RING.end()).ilog2();
    (ring, ring / BYTES_A_VERDICT)
}
