//! One turn's events: whose they are, and what the policy is to know of them.

use super::{Users, VERDICT};
use crate::act;
use crate::arrivals::{Arrival, Arrivals};
use crate::descriptors::Descriptors;
use crate::file_system::identify;
use crate::files::Files;
use crate::managing::{Managed, Managing};
use crate::mapped::Mapped;
use crate::scopes::Scopes;
use crate::steered::{PAGE, Steered};
use crate::watch::{Event, FileId, Kind, Watch};
use forebay_basis::Operation;
use forebay_owning::User;
use forebay_pool::Volume;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The owner's name of what the kernel itself uses.
const KERNEL: &str = "0";

/// How the names begin of the kernel's threads that reclaim what was not used for long (DAMON), where no memory is needed. They take ranges of physical memory, with what has
/// just come into them.
const RECLAIMS_ALWAYS: &[u8] = b"kdamond";

/// Why a file is steered.
enum By {
    Directory,
    Group,
}

/// What this kernel lets be seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sees {
    /// A use is seen before the pages come that it needs.
    pub(super) uses_first: bool,
    /// Each write is seen, not only the first to a clean page.
    pub(super) writes: bool,
}

impl Sees {
    /// By a watch.
    pub(super) fn by(watch: &Watch) -> Self {
        let has = |name| watch.programs().iter().any(|program| program.name == name && program.missing.is_none());
        Self { uses_first: has("filemap_read"), writes: has("generic_perform_write") }
    }
}

/// What the kernel is to know of a file or group.
pub(super) enum Verdict {
    File(FileId, bool),
    Group(u64, bool),
}

/// What an event needs of the thread's state.
pub(super) struct Turn<'a> {
    pub(super) scopes: &'a Scopes,
    pub(super) files: &'a mut Files,
    pub(super) descriptors: &'a mut Descriptors,
    pub(super) steered: &'a mut Steered,
    pub(super) arrivals: &'a mut Arrivals,
    pub(super) mapped: &'a mut Mapped,
    pub(super) sees: Sees,
    pub(super) users: Option<&'a dyn Users>,
    /// Uses are for `users` alone.
    pub(super) only_users: bool,
    pub(super) managing: &'a Managing,
    pub(super) linked: &'a HashMap<FileId, usize>,
    pub(super) now: Instant,
    pub(super) judged: &'a mut Vec<Verdict>,
    /// Pages that the kernel has reclaimed as it needed memory.
    pub(super) needed: u64,
}

impl Turn<'_> {
    /// Events, in their order.
    pub(super) fn all_happened(&mut self, events: &[Event]) {
        for event in events {
            if let Some(object) = self.files.find(event.file) {
                self.steered.expect(object, event.first);
            }
        }
        events.iter().for_each(|event| self.happened(event));
    }

    pub(super) fn happened(&mut self, event: &Event) {
        if self.only_users && (event.own || matches!(event.kind, Kind::Added | Kind::Removed)) {
            return;
        }
        let Some(object) = self.object_of(event) else { return };
        let Some(file) = self.files.get(object) else { return };
        let volume = Arc::clone(&file.volume);
        let pages = event.first..event.first + u64::from(event.count);
        match event.kind {
            Kind::Read => self.used(object, &volume, event, pages, Operation::Read),
            Kind::Write => self.used(object, &volume, event, pages, Operation::Write),
            // A fault names its page. What is mapped around it was not asked for.
            Kind::Mapped => {
                self.mapped.note(object, event.process);
                if event.count == 1 {
                    self.used(object, &volume, event, pages, Operation::Read);
                }
            }
            // Where writes are not seen, they are seen by what they make dirty.
            Kind::Dirtied if self.sees.writes => {}
            Kind::Dirtied => self.used(object, &volume, event, pages, Operation::Write),
            Kind::Added if self.sees.uses_first => self.steered.added(&volume, event.first, event.count.into()),
            Kind::Added => {
                let arrival = Arrival { object, process: event.process, first: event.first, count: event.count };
                if let Some(oldest) = self.arrivals.add(arrival, self.now) {
                    self.arrived(oldest);
                }
            }
            Kind::Removed => {
                // It has left before it was used. Others of the file may still be on their way to a use.
                let left = |arrival: &Arrival| arrival.meets(&pages);
                self.arrivals.take(object, left, &mut |arrival| {
                    self.steered.added(&volume, arrival.first, arrival.count.into());
                });
                // A file that is cut has given its blocks back.
                if !event.reclaim && !event.own {
                    self.files.has_moved(object);
                }
                // A page that was mapped leaves by the kernel's reclaim, at this process's word.
                let reclaimed = event.reclaim && !event.own;
                self.steered.removed(&volume, event.first, event.count.into(), reclaimed);
                if reclaimed && !event.program.starts_with(RECLAIMS_ALWAYS) {
                    self.needed += u64::from(event.count);
                }
            }
        }
    }

    /// A folio has come that no use came for.
    pub(super) fn arrived(&mut self, arrival: Arrival) {
        if let Some(file) = self.files.get(arrival.object) {
            let volume = Arc::clone(&file.volume);
            self.steered.added(&volume, arrival.first, arrival.count.into());
        }
    }

    /// A process uses pages, some of which may have come for that.
    fn used(&mut self, object: u32, volume: &Arc<Volume>, event: &Event, pages: Range<u64>, operation: Operation) {
        let user = self.user_of(object, event);
        self.record(object, event, operation, user.as_deref());
        if self.only_users {
            return;
        }
        self.steered.used(volume, pages.clone(), (operation, user.map(|user| user.owner.number())));
        // What another has brought, and still waits for, is there as well: its own use will find it.
        let brought = |arrival: &Arrival| arrival.process == event.process || arrival.meets(&pages);
        self.arrivals.take(object, brought, &mut |arrival| {
            self.steered.added(volume, arrival.first, arrival.count.into());
        });
    }

    /// Whose a use of a file is, if anybody wants to know.
    fn user_of(&mut self, object: u32, event: &Event) -> Option<Arc<User>> {
        let managed = self.managing.is_possible();
        if !managed && !self.users.is_some_and(|users| users.wants()) {
            return None;
        }
        let user = self.managing.user(self.steered.pool(), event, self.now)?;
        let known = self.files.get(object)?.managed.as_ref();
        if managed && known.is_none_or(|known| !known.was_used_by(&user)) {
            let named = if known.is_none() { Some(Managed::new(self.name_of(event))) } else { None };
            let file = self.files.get_mut(object)?;
            file.managed = file.managed.take().or(named.map(Box::new));
            if file.managed.as_ref().is_some_and(|managed| managed.is_to_read(&user, self.now))
                && let Some(system) = self.scopes.system(event.file.device)
                && let Ok(opened) = self.descriptors.get(system, event.file)
            {
                self.managing.read_attributes((self.steered.pool(), self.scopes), file, opened, self.now);
            }
            self.managing.begin_use(self.steered.pool(), file, &user);
        }
        Some(user)
    }

    /// A file's name, as recordings and rules have it.
    fn name_of(&mut self, event: &Event) -> String {
        let system = self.scopes.system(event.file.device);
        let opened = system.and_then(|system| self.descriptors.get(system, event.file).ok());
        let name = opened.and_then(|file| self.scopes.name(file));
        name.unwrap_or_else(|| format!("inode {}", event.file.inode))
    }

    /// The number of an event's file, if it is steered.
    fn object_of(&mut self, event: &Event) -> Option<u32> {
        let found = self.files.find(event.file);
        if event.judged || event.kind == Kind::Removed {
            // What is not known yet, and leaves, has no pages that could be let go.
            return found.or_else(|| if event.kind == Kind::Removed { None } else { self.judge(event) });
        }
        let Some(object) = found else { return self.judge(event) };
        let checked = self.files.get(object).and_then(|file| file.checked);
        let due = checked.is_some_and(|checked| self.now.saturating_duration_since(checked) >= VERDICT);
        let found = if due { self.is_steered(event).map(|(_, scope)| scope) } else { None };
        let (leaves, moves) = (due && found.is_none(), found.filter(|&scope| self.files.changes_share(object, scope)));
        self.judged.push(Verdict::File(event.file, !leaves));
        if leaves || moves.is_some() {
            self.files.remove(self.steered.pool(), object);
            self.steered.forget(object);
            let object = self.files.add(self.steered, event.file, Some(self.now), moves?);
            if !self.only_users {
                self.find(object, event);
            }
            return Some(object);
        }
        if let Some(scope) = found {
            self.files.set_checked(object, scope, self.now);
        }
        Some(object)
    }

    /// The number of a file that is not known, if it is to be steered from now on.
    fn judge(&mut self, event: &Event) -> Option<u32> {
        let by = self.is_steered(event);
        self.judged.push(Verdict::File(event.file, by.is_some()));
        let (by, scope) = by?;
        let checked = match by {
            By::Group => None,
            By::Directory => Some(self.now),
        };
        let object = self.files.add(self.steered, event.file, checked, scope);
        // Directories were looked through at the start. What has come into one since may have pages that came before: then a use of them tells of it, and not that
        // pages come.
        let came = matches!(by, By::Directory) && event.kind == Kind::Added;
        if !came && !self.only_users {
            self.find(object, event);
        }
        Some(object)
    }

    /// What of a file is in the cache already is the policy's from now on.
    fn find(&mut self, object: u32, event: &Event) {
        let Some(volume) = self.files.get(object).map(|file| Arc::clone(&file.volume)) else { return };
        let Some(system) = self.scopes.system(event.file.device) else { return };
        let Ok(file) = self.descriptors.get(system, event.file) else { return };
        let Ok((_, bytes)) = identify(file) else { return };
        let steered = &mut *self.steered;
        if let Err(error) = act::look(file, bytes, &mut |pages| steered.found(&volume, pages)) {
            tracing::debug!("what of a file is in the cache is not known: {error}");
        }
    }

    /// Whether a file is to be steered, why, and for which scope: the directory that it lies below, whichever group uses it.
    fn is_steered(&mut self, event: &Event) -> Option<(By, usize)> {
        self.scopes.system(event.file.device)?;
        if event.group != 0 {
            let group = self.scopes.group_of(event.group);
            self.judged.push(Verdict::Group(event.group, group.is_some()));
            if let Some(group) = group {
                let directory = if self.files.have_shares() { self.directory_of(event) } else { None };
                return Some((By::Group, directory.unwrap_or(group)));
            }
        }
        self.directory_of(event).map(|directory| (By::Directory, directory))
    }

    /// The directory that an event's file lies below.
    fn directory_of(&mut self, event: &Event) -> Option<usize> {
        self.linked.get(&event.file).copied().or_else(|| {
            let system = self.scopes.system(event.file.device)?;
            let file = self.descriptors.get(system, event.file).ok()?;
            self.scopes.directory_of(file)
        })
    }

    fn record(&mut self, object: u32, event: &Event, operation: Operation, user: Option<&User>) {
        let Some(users) = self.users.filter(|users| users.wants()) else { return };
        let end = (event.first + u64::from(event.count)) * PAGE;
        let known = self.files.get_mut(object).and_then(|file| file.recorded.as_mut());
        let (number, bytes) = match known {
            Some(recorded) => {
                recorded.1 = recorded.1.max(end);
                **recorded
            }
            None => {
                let number = users.file(&self.name_of(event));
                let system = self.scopes.system(event.file.device);
                let opened = system.and_then(|system| self.descriptors.get(system, event.file).ok());
                let bytes = opened.and_then(|file| identify(file).ok()).map_or(end, |(_, bytes)| bytes);
                let Some(file) = self.files.get_mut(object) else { return };
                **file.recorded.insert(Box::new((number, bytes)))
            }
        };
        let bytes_used = (event.first * PAGE, u64::from(event.count) * PAGE);
        let owner = || match user {
            Some(user) => user.watched(|name| users.owner(name)),
            None => users.owner(KERNEL),
        };
        users.reference((number, bytes), &owner, bytes_used, operation);
    }
}
