//! Who manages which uses of which files, where the policy has managers (Cao, Felten and Li, USENIX Summer 1994, section 5.1: hints, and
//! the menu).
//!
//! For a user of a file there are four who may say who manages, the first that does holds:
//!
//! 1. the user itself, by `FOREBAY_MANAGE` on an open file, or the nearest ancestor that did so;
//! 2. the file's attribute `user.forebay.manager`, and 3. that of the nearest directory above that has one: for all its users;
//! 4. the rules ([`Rules`]).
//!
//! The policy learns of it at a user's first use of an open file, and when it changes. An open file keeps who has used it last, so that a
//! hit costs one comparison.
//!
//! Users of a file are those who have used a file that is still open, and who have not ended. What the mount itself reads, as for a hint
//! by `forebay control`, is nobody's use.
//!
//! A file's users are locked after the node's object, and before the rules and the pool.

mod attributes;

pub(crate) use attributes::of_ours;

use crate::data::Asked;
use crate::object::Object;
use crate::protocol::Errno;
use crate::shared::{Open, Shared};
use forebay_owning::{Advice, Attributes, Directories, InForce, Mistakes, Process, Ruled, Rules, User, Word, user_of};
use forebay_policy::Charge;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// Users of a file before those that have gone are looked for.
const MANY_USERS: usize = 64;

/// What holds for all files of a mount.
pub(crate) struct Managing {
    /// Whether the policy has managers.
    possible: bool,
    /// All mounts of the pool have the same.
    rules: Arc<RwLock<Rules>>,
    directories: Directories,
    mistakes: Mistakes,
}

/// What is known of a file's users.
#[derive(Default)]
pub(crate) struct Users(Mutex<State>);

#[derive(Default)]
struct State {
    /// What the file's attributes and those of its directories say.
    attributes: Attributes,
    /// What the policy knows of all users.
    of_all: Option<Word>,
    /// Its place among the files that rules list.
    place: Option<u32>,
    users: Vec<FileUser>,
    /// How many users it may have before those that have gone are looked for.
    most: usize,
}

struct FileUser {
    user: Weak<User>,
    serial: u64,
    number: u32,
    /// By how many open files it uses this one, and the user itself as long as it does.
    opens: usize,
    kept: Option<Arc<User>>,
    own: Option<Own>,
    /// What the policy knows.
    told: Option<Decision>,
}

/// A user's own word, and the open file by which it was said.
struct Own {
    word: Word,
    user: Arc<User>,
    open: u64,
    /// By a hint, which another hint takes back.
    hint: bool,
}

/// Who is in charge of a user's uses of a file.
#[derive(Clone, PartialEq)]
enum Decision {
    Word(Word),
    Rule(Ruled),
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => word.fmt(f),
            Self::Rule(rule) => rule.fmt(f),
        }
    }
}

impl Decision {
    fn charge(&self) -> Charge {
        match self {
            Self::Word(word) => word.charge(),
            Self::Rule(rule) => rule.charge(),
        }
    }
}

impl Users {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file's attributes hint at.
    pub(crate) fn hint(&self) -> Option<Advice> {
        self.lock().attributes.hint
    }
}

impl State {
    /// The own word that holds for a user: its own, or the nearest ancestor's.
    fn own(&self, user: &User) -> Option<&Word> {
        let said = |process: Process| {
            self.users.iter().filter_map(|of| of.own.as_ref()).find(|own| own.user.process == process)
        };
        let itself = self.users.iter().find(|of| of.serial == user.serial).and_then(|of| of.own.as_ref());
        let inherited = || user.ancestors().iter().find_map(|ancestor| said(ancestor.process));
        let anybody = self.users.iter().any(|of| of.own.is_some());
        itself.or_else(|| if anybody { inherited() } else { None }).map(|own| &own.word)
    }

    /// The place of a user, who may be new.
    fn place_of(&mut self, user: &Arc<User>) -> usize {
        self.users.iter().position(|of| of.serial == user.serial).unwrap_or_else(|| {
            let (number, serial) = (user.owner.number(), user.serial);
            let (user, opens, kept) = (Arc::downgrade(user), 0, None);
            self.users.push(FileUser { user, serial, number, opens, kept, own: None, told: None });
            self.users.len() - 1
        })
    }
}

impl Managing {
    pub(crate) fn new(possible: bool, rules: &Arc<RwLock<Rules>>) -> Self {
        Self { possible, rules: Arc::clone(rules), directories: Directories::default(), mistakes: Mistakes::default() }
    }

    fn decide(&self, state: &mut State, object: &Object, user: &User) -> Option<Decision> {
        let (rules, name) = (self.rules.read().unwrap_or_else(PoisonError::into_inner), object.file.name());
        rules.note(user, &name);
        if let Some(word) = state.own(user) {
            return Some(Decision::Word(word.clone()));
        }
        if state.attributes.manager().is_some() {
            return None;
        }
        rules.of(user, &name, &mut state.place).map(Decision::Rule)
    }
}

impl Shared {
    /// Announces to the policy that this mount reports opens and closes.
    pub(crate) fn begin(&self, object: &Object) {
        if self.managing.possible {
            // The policy has managers: it cannot refuse.
            let _ = self.pool.opened(None, &object.volume);
        }
    }

    /// A user comes to use an open file: the policy learns who manages that, and that it has the file open.
    #[cold]
    pub(crate) fn begin_use(&self, open: &Open, object: &Object, user: &Arc<User>) {
        let mut users = open.users.lock().unwrap_or_else(PoisonError::into_inner);
        let before = open.last_user.swap(user.serial, Ordering::Relaxed);
        if !self.managing.possible {
            return;
        }
        let mut state = object.users.lock();
        if let Some(of) = state.users.iter_mut().find(|of| of.serial == before) {
            self.end_if_gone(object, of);
        }
        if users.contains(&user.serial) {
            return;
        }
        if state.users.len() >= state.most.max(MANY_USERS) {
            self.forget_gone(object, &mut state);
            state.most = 2 * state.users.len();
        }
        if users.len() >= 2 * state.users.len() + MANY_USERS {
            users.retain(|serial| state.users.iter().any(|of| of.serial == *serial));
        }
        users.push(user.serial);
        let place = state.place_of(user);
        self.decide_for(object, &mut state, place, user);
        let of = &mut state.users[place];
        of.opens += 1;
        if of.opens == 1 {
            of.kept = Some(Arc::clone(user));
            let _ = self.pool.opened(Some(&user.owner), &object.volume);
        }
    }

    /// The users of an open file use it no more.
    fn end_uses(&self, open: &Open, object: &Object) {
        let users = {
            let mut users = open.users.lock().unwrap_or_else(PoisonError::into_inner);
            open.last_user.store(0, Ordering::Relaxed);
            std::mem::take(&mut *users)
        };
        let mut state = object.users.lock();
        for serial in users {
            // One that has ended uses nothing any more.
            if let Some(of) = state.users.iter_mut().find(|of| of.serial == serial && of.opens > 0) {
                of.opens -= 1;
                if of.opens == 0 {
                    self.end_use(object, of);
                }
            }
        }
    }

    /// A user has a file open no more.
    fn end_use(&self, object: &Object, of: &mut FileUser) {
        of.opens = 0;
        if let Some(user) = of.kept.take() {
            let _ = self.pool.closed(&user.owner, &object.volume);
        }
    }

    /// A process that has ended may have left an open file to others. It uses that no more.
    fn end_if_gone(&self, object: &Object, of: &mut FileUser) {
        if of.kept.as_ref().is_some_and(|user| user.has_gone()) {
            self.end_use(object, of);
        }
    }

    fn decide_for(&self, object: &Object, state: &mut State, place: usize, user: &User) {
        let decision = self.managing.decide(state, object, user);
        let of = &mut state.users[place];
        if of.told == decision {
            return;
        }
        let charge = decision.as_ref().map(Decision::charge);
        match self.pool.assign(Some(user.owner.number()), &object.volume, charge) {
            Ok(()) => of.told = decision,
            Err(error) => {
                self.managing.mistakes.log(&format!("{}: nobody manages {}: {error}", object.file.name(), user.name()))
            }
        }
    }

    /// Drops users that have gone.
    fn forget_gone(&self, object: &Object, state: &mut State) {
        state.users.iter_mut().for_each(|of| self.end_if_gone(object, of));
        let gone = |of: &mut FileUser| of.user.strong_count() == 0 && of.own.is_none();
        let gone: Vec<FileUser> = state.users.extract_if(.., gone).collect();
        // A number may be another's by now.
        for of in gone.iter().filter(|of| of.told.is_some() && !state.users.iter().any(|left| left.number == of.number))
        {
            // To say nothing of somebody any more is never refused.
            let _ = self.pool.assign(Some(of.number), &object.volume, None);
        }
    }

    /// What is said of a file has changed: it holds at once for all its users.
    pub(crate) fn decide_anew(&self, object: &Object) {
        let mut state = object.users.lock();
        self.decide_all(object, &mut state);
    }

    fn decide_all(&self, object: &Object, state: &mut State) {
        if !self.managing.possible {
            return;
        }
        self.forget_gone(object, state);
        let of_all = state.attributes.manager();
        if of_all != state.of_all {
            match self.pool.assign(None, &object.volume, of_all.as_ref().map(Word::charge)) {
                Ok(()) => state.of_all = of_all,
                Err(error) => {
                    self.managing.mistakes.log(&format!("{}: nobody manages it: {error}", object.file.name()))
                }
            }
        }
        for place in 0..state.users.len() {
            if let Some(user) = state.users[place].user.upgrade() {
                self.decide_for(object, state, place, &user);
            }
        }
        // The policy has managers: it cannot refuse.
        let _ = self.pool.agree(&object.volume);
    }

    /// A user says who manages its uses of an open file; `None` takes that back.
    fn say(&self, (handle, open, object): (u64, &Open, &Object), user: &Arc<User>, word: Option<Word>, hint: bool) {
        open.said.store(true, Ordering::Relaxed);
        let mut state = object.users.lock();
        let place = state.place_of(user);
        let own = word.map(|word| Own { word, user: Arc::clone(user), open: handle, hint });
        state.users[place].own = own;
        self.decide_all(object, &mut state);
    }

    /// `FOREBAY_MANAGE`: who manages a user's uses of an open file.
    pub(crate) fn manage(&self, asked: &Asked, (manager, process): (&str, u64)) -> Result<(), Errno> {
        let (Asked { open, handle, caller, .. }, object) = (asked, asked.object());
        let user = &self.processes.of(&self.pool, caller.thread).ok_or(Errno::ESRCH)?;
        if !self.managing.possible {
            return Err(Errno::EOPNOTSUPP);
        }
        let word = manager.parse().map_err(|wrong| {
            self.managing.mistakes.log(&format!("{}: {}: {wrong}", object.file.name(), user.name()));
            Errno::EINVAL
        })?;
        let mut designated = open.designated.write().unwrap_or_else(PoisonError::into_inner);
        if process == 0 {
            if designated.take().is_some() {
                self.end_uses(open, object);
            }
            drop(designated);
            self.say((*handle, open, object), user, Some(word), false);
            return Ok(());
        }
        let number = u32::try_from(process).map_err(|_| Errno::ESRCH)?;
        let of = user_of(number).ok_or(Errno::ESRCH)?;
        if caller.user != 0 && caller.user != of {
            return Err(Errno::EPERM);
        }
        let other = self.processes.of(&self.pool, number).ok_or(Errno::ESRCH)?;
        *designated = Some(Arc::clone(&other));
        open.said.store(true, Ordering::Relaxed);
        // From now on its uses are another's.
        self.end_uses(open, object);
        drop(designated);
        if !manager.is_empty() {
            self.say((*handle, open, object), &other, Some(word), false);
        }
        Ok(())
    }

    /// A user says whether it uses an open file once: then its manager is access-once.
    pub(crate) fn use_once(&self, of: (u64, &Open, &Object), user: &Arc<User>, once: bool) {
        if !self.managing.possible {
            return;
        }
        if once {
            return self.say(of, user, Some(Word::access_once()), true);
        }
        let by_hint = |of: &FileUser| of.serial == user.serial && of.own.as_ref().is_some_and(|own| own.hint);
        let said = of.2.users.lock().users.iter().any(by_hint);
        if said {
            self.say(of, user, None, true);
        }
    }

    /// An open file is closed: what was said by it ends. The policy keeps it until the next use, as others may use the file so already.
    pub(crate) fn end_words(&self, handle: u64, open: &Open) {
        if self.managing.possible
            && let Some(object) = open.object()
        {
            self.end_uses(open, object);
        }
        if open.said.load(Ordering::Relaxed)
            && let Some(object) = open.object()
        {
            for of in &mut object.users.lock().users {
                of.own.take_if(|own| own.open == handle);
            }
        }
    }

    /// Other rules hold from now on, also for what is open.
    pub(crate) fn decide_all_anew(&self) {
        self.nodes.objects().iter().for_each(|object| self.decide_anew(object));
    }

    /// The policy knows nothing of who manages what is open.
    pub(crate) fn tell_all_anew(&self) {
        for object in self.nodes.objects() {
            let mut state = object.users.lock();
            state.of_all = None;
            state.users.iter_mut().for_each(|of| of.told = None);
            self.begin(&object);
            for user in state.users.iter().filter_map(|of| of.kept.as_ref()) {
                let _ = self.pool.opened(Some(&user.owner), &object.volume);
            }
            self.decide_all(&object, &mut state);
        }
    }

    /// The users of files whose managers have lost their charge, each once.
    pub(crate) fn lost_charges(&self) -> Vec<InForce> {
        let mut lost: Vec<InForce> = Vec::new();
        for object in self.nodes.objects().iter().filter(|object| self.pool.charge_has_ended(&object.volume)) {
            let state = object.users.lock();
            for of in &state.users {
                let Some(user) = &of.kept else { continue };
                let of_file = state.of_all.as_ref().map(Word::to_string);
                let manager = of.told.as_ref().map(Decision::to_string).or(of_file).unwrap_or_default();
                let found = InForce { by: "lost", manager, owner: Some(user.name()), ..InForce::default() };
                if !lost.contains(&found) {
                    lost.push(found);
                }
            }
        }
        lost
    }

    /// What attributes and own words say of who manages.
    pub(crate) fn said_of_files(&self) -> Vec<InForce> {
        let mut of_files = Vec::new();
        for object in self.nodes.objects() {
            let state = object.users.lock();
            let file = Some(object.file.name().to_string());
            if let Some(word) = state.attributes.manager() {
                let (manager, file) = (word.to_string(), file.clone());
                of_files.push(InForce { by: "attribute", manager, file, ..InForce::default() });
            }
            for own in state.users.iter().filter_map(|of| of.own.as_ref()) {
                let (manager, owner) = (own.word.to_string(), Some(own.user.name()));
                of_files.push(InForce { by: "own word", manager, owner, file: file.clone(), ..InForce::default() });
            }
        }
        of_files
    }
}
