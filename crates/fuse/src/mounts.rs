//! The mounts of one pool, and what they have in common: its frames and its policy, owners, and the rules of managers.

use crate::error::Error;
use crate::layouts::Layouts;
use crate::mapped::Mapped;
use crate::mount::{Mount, Options};
use crate::place;
use crate::shared::Shared;
use forebay_extents::{Asked, Extents};
use forebay_owning::{InForce, Rules};
use forebay_policy::managers::Rule;
use forebay_pool::{Owner, Pool, Volume};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// Mounts behind one pool.
pub struct Mounts {
    pub(crate) pool: Arc<Pool>,
    pub(crate) rules: Arc<RwLock<Rules>>,
    /// Where their files lie, if the policy goes by that.
    pub(crate) layouts: Option<Arc<Layouts>>,
    /// Which have copies of pages in the kernel.
    mapped: Arc<RwLock<Vec<Weak<Mapped>>>>,
    all: All,
}

/// What is known of each mount, and the number of its file system.
type All = Arc<RwLock<Vec<(Weak<Shared>, u64)>>>;

impl Mounts {
    /// No mounts yet, behind a pool that is for them alone. `rules` say who manages, where the policy has managers; the first that fits holds.
    ///
    /// # Errors
    /// The pool is another's already.
    pub fn new(pool: Arc<Pool>, rules: Vec<Rule>) -> Result<Self, Error> {
        let mapped: Arc<RwLock<Vec<Weak<Mapped>>>> = Arc::default();
        let leaving = Arc::clone(&mapped);
        let left = move |places: &[_]| read(&leaving).iter().filter_map(Weak::upgrade).for_each(|of| of.note(places));
        if !pool.on_leave(left) {
            return Err(Error::Usage("a pool is for one set of mounts".to_owned()));
        }
        let rules = Arc::new(RwLock::new(Rules::new(rules)));
        Ok(Self { pool, rules, layouts: None, mapped, all: Arc::default() })
    }

    /// The pool's policy goes by what `extents` says of where files lie ([`Spec::layout`](forebay_policy::Spec::layout)), and the mounts have that found. Before any is added.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn with_extents(self, extents: Arc<Extents>, asked: Asked) -> Result<Self, Error> {
        let page = u64::from(self.pool.statistics().page_size);
        let layouts = Layouts::start(extents, asked, page);
        let failed = |source| Error::System { what: "no thread to find where files lie".to_owned(), source };
        Ok(Self { layouts: Some(layouts.map_err(failed)?), ..self })
    }

    /// Whether these sources can be shown at these mount points, all at a time.
    ///
    /// # Errors
    /// Why not.
    pub fn check(places: &[(&Path, &Path)]) -> Result<(), Error> {
        place::check_all(places)
    }

    /// Mounts a directory. `ended` is called when it has been unmounted, by whomever.
    ///
    /// # Errors
    /// What keeps it from being mounted.
    pub fn add(&self, options: Options, ended: impl FnOnce() + Send + 'static) -> Result<Mount, Error> {
        let mount = Mount::new(self, options, ended)?;
        let (major, minor) = mount.place.device();
        let mut all = write(&self.all);
        all.retain(|(shared, _)| shared.strong_count() > 0);
        all.push((Arc::downgrade(&mount.shared), rustix::fs::makedev(major, minor)));
        Ok(mount)
    }

    /// The pages of these files leave: their copies in the kernel are to leave, too.
    pub(crate) fn follow(&self, files: &Arc<Mapped>) {
        let mut mapped = write(&self.mapped);
        mapped.retain(|known| known.strong_count() > 0);
        mapped.push(Arc::downgrade(files));
    }

    fn shared(&self) -> Vec<Arc<Shared>> {
        read(&self.all).iter().filter_map(|(shared, _)| shared.upgrade()).collect()
    }

    /// Has other rules hold from now on, also for what is open.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        write(&self.rules).replace(rules);
        self.shared().iter().for_each(|shared| shared.decide_all_anew());
    }

    /// Has a rule hold before all others, until others are set; one for the same owners and files takes its place.
    pub fn put_rule_first(&self, rule: Rule) {
        write(&self.rules).put_first(rule);
        self.shared().iter().for_each(|shared| shared.decide_all_anew());
    }

    /// The policy was made anew: it learns again who manages what is open.
    pub fn manage_anew(&self) {
        self.shared().iter().for_each(|shared| shared.tell_all_anew());
    }

    /// All that says who manages, in the order of rules and then of files' names.
    pub fn managers(&self) -> Vec<InForce> {
        let mut found = read(&self.rules).in_force();
        let mut of_files: Vec<InForce> = self.shared().iter().flat_map(|shared| shared.said_of_files()).collect();
        of_files.sort_by(|one, other| (&one.file, one.by).cmp(&(&other.file, other.by)));
        found.extend(of_files);
        found.extend(self.lost_charges());
        found
    }

    /// Managers that have lost their charge by their mistakes, of owners that use a file of theirs now.
    pub fn lost_charges(&self) -> Vec<InForce> {
        if self.pool.charges_ended() == 0 {
            return Vec::new();
        }
        let mut lost: Vec<InForce> = self.shared().iter().flat_map(|shared| shared.lost_charges()).collect();
        lost.sort_by(|one, other| one.owner.cmp(&other.owner));
        lost.dedup();
        lost
    }

    /// Finds owners and files of the mounts, for as long as it is needed.
    pub fn finder(&self) -> Finder {
        Finder { pool: Arc::clone(&self.pool), all: Arc::clone(&self.all) }
    }
}

/// What those need to know who speak for processes that use a mount: owners, and the bytes of open files.
pub struct Finder {
    pool: Arc<Pool>,
    all: All,
}

impl Finder {
    fn mount(&self, fits: impl Fn(u64) -> bool) -> Option<Arc<Shared>> {
        read(&self.all).iter().filter(|(_, device)| fits(*device)).find_map(|(shared, _)| shared.upgrade())
    }

    /// The owner of the pages that a process uses, if no other user's process is that owner, too. It is the same on all mounts.
    pub fn owner(&self, process: u32) -> Option<Owner> {
        let mount = self.mount(|_| true).filter(|mount| mount.processes.of_one_user())?;
        mount.processes.of(&self.pool, process).map(|process| process.owner.clone())
    }

    /// The bytes of a file that somebody has open, by device and inode, as `stat` on a mount tells them.
    pub fn volume(&self, device: u64, inode: u64) -> Option<Arc<Volume>> {
        let mount = self.mount(|of| of == device)?;
        let node = mount.nodes.get(inode).ok()?;
        if let Some(object) = &node.object().get() {
            return Some(Arc::clone(&object.volume));
        }
        // It was just made.
        let open = mount.open.find(|open| Arc::ptr_eq(&open.node, &node))?;
        mount.object_of(&open).ok().map(|object| Arc::clone(&object.volume))
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
