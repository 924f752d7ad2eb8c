//! What the requests of a mount work on.

use crate::attributes::Attributes;
use crate::clearing::Clearing;
use crate::device::Files;
use crate::directory::Directory;
use crate::error::errno;
use crate::hints::Readahead;
use crate::managing::Managing;
use crate::mapped::Mapped;
use crate::mount::{MOST_THREADS, Watch};
use crate::nodes::{Node, Nodes};
use crate::object::{Looked, Object};
use crate::outside::Outside;
use crate::protocol::{
    Caller, DIRECT_IO, Errno, KEEP_CACHE, NO_FLUSH, Notifier, Opened, PARALLEL_DIRECT_WRITES, UnderWay,
};
use crate::slab::Slab;
use crate::workers::{MOST_WORKERS, Workers};
use forebay_figures::clients::Counters;
use forebay_owning::{Processes, User};
use forebay_pool::{Handle, Pool, VolumeConfig};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Statx;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

/// Files without users whose pages, and ghosts, are looked for when one more comes.
const SWEPT: usize = 2;

/// Handles of the pool that are kept: as many as there are threads at most.
const HANDLES: usize = MOST_THREADS + MOST_WORKERS;

/// Each request changes them: what lies beside them in memory is not to suffer from that.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Apart(Counters);

impl std::ops::Deref for Apart {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.0
    }
}

pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Arc<Files>,
    pub(crate) nodes: Nodes,
    pub(crate) open: Slab<Open>,
    pub(crate) directories: Slab<Directory>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) under_way: Arc<UnderWay>,
    notifier: OnceLock<Notifier>,
    pub(crate) clearing: Clearing,
    pub(crate) processes: Processes,
    pub(crate) managing: Managing,
    pub(crate) mapped: Arc<Mapped>,
    pub(crate) counters: Apart,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) volume: VolumeConfig,
    /// The kernel lets in root's processes alone, and does not check what they may do.
    pub(crate) root_alone: bool,
    /// Where changes below are noticed at once.
    pub(crate) outside: Option<Outside>,
    /// Nothing may change any more: the last flush has begun.
    pub(crate) closing: AtomicBool,
    /// The first that is free is used: so requests that come one after the other reach the policy in their order.
    handles: [Mutex<Option<Handle>>; HANDLES],
    /// Files with bytes in the pool that nobody has open.
    resting: Mutex<VecDeque<Weak<Node>>>,
    most_resting: usize,
}

/// An open file.
pub(crate) struct Open {
    pub(crate) node: Arc<Node>,
    /// Its bytes. Of a file that was just made there are none before they are used.
    object: OnceLock<Arc<Object>>,
    write: bool,
    /// The program that has opened it, in whose name space is taken for what programs write to their maps.
    pub(crate) opener: Option<Caller>,
    /// How many of its failures its user knows of.
    pub(crate) known: AtomicU64,
    pub(crate) readahead: Readahead,
    /// Serial numbers of its last user, and of all its users that the policy knows.
    pub(crate) last_user: AtomicU64,
    pub(crate) users: Mutex<Vec<u64>>,
    /// Somebody has said by it who manages, or whose its uses are.
    pub(crate) said: AtomicBool,
    /// Whose its uses are, if not those of whoever uses it.
    pub(crate) designated: RwLock<Option<Arc<User>>>,
}

/// A file of which a name is about to go.
pub(crate) struct Victim {
    pub(crate) node: Arc<Node>,
    pub(crate) path: Arc<OwnedFd>,
    /// How it is below.
    pub(crate) found: Statx,
}

impl Open {
    fn new(node: Arc<Node>, flags: i32, opener: Option<Caller>) -> Self {
        Self {
            node,
            object: OnceLock::new(),
            write: flags & libc::O_ACCMODE != libc::O_RDONLY,
            opener,
            known: AtomicU64::new(0),
            readahead: Readahead::default(),
            last_user: AtomicU64::new(0),
            users: Mutex::default(),
            said: AtomicBool::new(false),
            designated: RwLock::default(),
        }
    }

    /// Its bytes, if they were used.
    pub(crate) fn object(&self) -> Option<&Arc<Object>> {
        self.object.get()
    }
}

impl Shared {
    pub(crate) fn new(
        pool: Arc<Pool>,
        files: Arc<Files>,
        nodes: Nodes,
        mapped: Arc<Mapped>,
        (volume, watch, outside): (VolumeConfig, Option<Arc<dyn Watch>>, Option<Outside>),
        (processes, managing, root_alone): (Processes, Managing, bool),
        most_resting: usize,
    ) -> Self {
        let under_way = Arc::clone(&files.under_way);
        Self {
            pool,
            files,
            nodes,
            open: Slab::default(),
            directories: Slab::default(),
            workers: Arc::default(),
            under_way,
            notifier: OnceLock::new(),
            clearing: Clearing::default(),
            processes,
            managing,
            mapped,
            counters: Apart::default(),
            watch,
            volume,
            root_alone,
            outside,
            closing: AtomicBool::new(false),
            handles: [const { Mutex::new(None) }; HANDLES],
            resting: Mutex::default(),
            most_resting,
        }
    }

    /// Works with a handle of the pool, for a process.
    pub(crate) fn with_handle<T>(
        &self,
        process: Option<&User>,
        work: impl FnOnce(&Handle) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let work = |handle: &Handle| {
            handle.use_owner(process.map(|process| &process.owner));
            work(handle)
        };
        let made = || self.pool.handle().map_err(|error| errno(&error));
        match self.handles.iter().find_map(|place| place.try_lock().ok()) {
            Some(mut place) => match &mut *place {
                Some(handle) => work(handle),
                empty => work(empty.insert(made()?)),
            },
            None => work(&made()?),
        }
    }

    /// From now on the kernel can be asked to forget.
    pub(crate) fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Has the kernel ask again for a file's attributes, as they were changed below. Waits for nothing.
    pub(crate) fn forget_attributes(&self, node: &Node) {
        if let Some(notifier) = self.notifier.get() {
            notifier.forget_attributes(node.number);
        }
    }

    /// Refuses what would be lost, as the last flush has begun.
    pub(crate) fn check_open(&self) -> Result<(), Errno> {
        if self.closing.load(Ordering::SeqCst) { Err(Errno::ENOTCONN) } else { Ok(()) }
    }

    /// The attributes of a file that was just found so below.
    pub(crate) fn attributes(&self, node: &Node, mut found: Statx) -> Attributes {
        let object = node.object().get();
        if let Some(object) = object {
            if object.file.last_change.differs(&found)
                && self.look_below(&object, false) == Looked::New
                && let Ok(now) = object.file.attributes()
            {
                found = now;
            }
            object.adjust(&mut found);
        }
        Attributes::new(node.number, &found)
    }

    /// Opens a file's bytes.
    pub(crate) fn open(&self, node: Arc<Node>, flags: i32, opener: Option<Caller>) -> Result<Opened, Errno> {
        // Its descriptor below may be open already.
        self.check_flags(&*self.nodes.tree.path(&node.inode)?, flags)?;
        self.open_checked(Open::new(node, flags, opener))
    }

    fn open_checked(&self, open: Open) -> Result<Opened, Errno> {
        let (object, looked) = self.enter_object(&open.node, open.write)?;
        open.known.store(object.file.failures_known(), Ordering::Relaxed);
        self.hint_at_open(&open, &object);
        open.object.get_or_init(|| object);
        Ok(self.opened(open, looked))
    }

    /// Opens a file that was just made: what only its bytes need waits until they are used.
    pub(crate) fn open_new(&self, node: Arc<Node>, flags: i32, opener: Caller) -> Result<Opened, Errno> {
        let open = Open::new(node, flags, Some(opener));
        if open.node.object().get().is_some() {
            // Another was faster.
            return self.open_checked(open);
        }
        Ok(self.opened(open, Looked::Same))
    }

    fn opened(&self, open: Open, looked: Looked) -> Opened {
        let mut how = DIRECT_IO | PARALLEL_DIRECT_WRITES;
        if looked != Looked::New {
            how |= KEEP_CACHE;
        }
        if !open.write {
            how |= NO_FLUSH;
        }
        Opened { handle: self.open.add(open), how }
    }

    /// The bytes of an open file, which are used.
    pub(crate) fn object_of<'o>(&self, open: &'o Open) -> Result<&'o Arc<Object>, Errno> {
        match open.object.get() {
            Some(object) => Ok(object),
            None => self.first_use(open),
        }
    }

    #[cold]
    fn first_use<'o>(&self, open: &'o Open) -> Result<&'o Arc<Object>, Errno> {
        let (object, _) = self.enter_object(&open.node, open.write)?;
        self.hint_at_open(open, &object);
        let mut first = false;
        let kept = open.object.get_or_init(|| {
            first = true;
            Arc::clone(&object)
        });
        if !first {
            // Another thread was faster.
            object.file.leave();
        }
        Ok(kept)
    }

    /// Somebody is to use a file's bytes, and has it open until [`leave`](LowerFile::leave).
    fn enter_object(&self, node: &Arc<Node>, write: bool) -> Result<(Arc<Object>, Looked), Errno> {
        let mut slot = node.object();
        let (object, known) = match slot.get() {
            Some(object) => (object, true),
            None => {
                let tree = &self.nodes.tree;
                let below = tree.path_below(tree.path(&node.inode)?.as_fd());
                let name = tree.prefix.join(&below);
                let of = (&self.files, &node.inode, node.number);
                let object = Object::attach(&self.pool, of, (&name, &self.volume), write)?;
                // From here on those find it who tell a new policy what they know: what is said of it now is not lost to that.
                slot.set(Some(Arc::clone(&object)));
                self.begin(&object);
                self.read_attributes_of(&object, &below);
                // It may have been changed since it was opened below.
                let known = self.outside.as_ref().map(|outside| outside.add(&object)).is_some();
                (object, known)
            }
        };
        object.file.enter(write)?;
        let looked = if known {
            let look = |handle: &Handle| object.look_again(&self.pool, handle, true).map_err(Errno::from);
            self.with_handle(None, look).inspect_err(|_| object.file.leave())?
        } else {
            Looked::Same
        };
        if looked == Looked::New {
            self.read_attributes(&object);
        }
        Ok((object, looked))
    }

    /// A file may have been changed below. `wait`: for those who write to it here.
    pub(crate) fn look_below(&self, object: &Arc<Object>, wait: bool) -> Looked {
        let look = |handle: &Handle| object.look_again(&self.pool, handle, wait).map_err(Errno::from);
        // What cannot be looked at now is looked at when it is opened next.
        let looked = self.with_handle(None, look).unwrap_or(Looked::Same);
        if looked == Looked::New {
            self.read_attributes(object);
        }
        looked
    }

    /// Closes a file.
    pub(crate) fn close(self: &Arc<Self>, handle: u64) {
        let Some(open) = self.open.remove(handle) else { return };
        self.end_words(handle, &open);
        let Some(object) = open.object().cloned() else {
            open.node.inode.closed();
            self.nodes.tree.list(&open.node.inode);
            return self.let_go(&open.node);
        };
        object.file.leave();
        if object.file.in_use() {
            return;
        }
        self.hint_at_close(&object);
        // A file that cannot be opened again is written as long as its descriptor is there.
        if self.files.tree.reopens() || object.volume.dirty_pages() == 0 {
            return self.let_go(&open.node);
        }
        let shared = Arc::clone(self);
        self.workers.run(move || {
            // A failure is kept for whoever opens it next.
            let _ = shared.pool.write_back(&object.volume);
            shared.let_go(&open.node);
        });
    }

    /// Somebody has stopped using a file: it goes, if nobody needs it, or rests as long as the pool knows its pages.
    pub(crate) fn let_go(self: &Arc<Self>, node: &Arc<Node>) {
        let mut slot = node.object();
        let unknown = self.nodes.is_unknown(node.number);
        let Some(object) = slot.get() else {
            if unknown {
                self.nodes.remove(node);
            }
            return;
        };
        if object.file.in_use() {
            return;
        }
        if unknown && node.inode.is_gone() && self.discard(&object) {
            slot.set(None);
            self.nodes.remove(node);
            return;
        }
        if unknown && !self.files.tree.reopens() {
            drop(slot);
            let (shared, node) = (Arc::clone(self), Arc::clone(node));
            self.workers.run(move || shared.detach(&node));
            return;
        }
        let rests = object.resting.swap(true, Ordering::SeqCst);
        drop(slot);
        if !rests {
            self.rest(node);
        }
    }

    fn rest(&self, node: &Arc<Node>) {
        let over = {
            let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
            resting.push_back(Arc::downgrade(node));
            let over = resting.len().saturating_sub(self.most_resting).min(SWEPT);
            resting.drain(..over).collect::<Vec<_>>()
        };
        for node in over.iter().filter_map(Weak::upgrade) {
            if self.sweep(&node) {
                self.resting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Arc::downgrade(&node));
            }
        }
    }

    /// Drops a file that rests if the pool knows no page of it. `true`: it rests on.
    fn sweep(&self, node: &Arc<Node>) -> bool {
        let mut slot = node.object();
        let Some(object) = slot.get() else { return false };
        if object.file.in_use() {
            object.resting.store(false, Ordering::SeqCst);
            return false;
        }
        let needed = !object.file.is_caught_up() || object.file.failed_to_sync();
        if needed || self.pool.knows(&object.volume) || !self.discard(&object) {
            return true;
        }
        slot.set(None);
        if self.nodes.is_unknown(node.number) {
            self.nodes.remove(node);
        }
        false
    }

    /// Takes a file's pages out of the pool, unwritten. `false`: some are in use.
    fn discard(&self, object: &Object) -> bool {
        if let Err(error) = self.pool.discard(&object.volume) {
            tracing::warn!("{error}; it is tried again");
            return false;
        }
        self.forget_object(object);
        true
    }

    /// The pool knows nothing of a file any more.
    fn forget_object(&self, object: &Object) {
        self.mapped.remove(object.volume.id());
        self.outside.iter().for_each(|outside| outside.remove(object));
    }

    /// Writes a file's pages back and takes them out of the pool, if nobody has come to use it.
    fn detach(&self, node: &Arc<Node>) {
        let mut slot = node.object();
        let Some(object) = slot.get() else { return };
        if object.file.in_use() || !self.nodes.is_unknown(node.number) {
            return;
        }
        match self.pool.detach(&object.volume) {
            Ok(()) => {
                self.forget_object(&object);
                slot.set(None);
                self.nodes.remove(node);
            }
            // It stays, and is written with the last flush.
            Err(error) => tracing::error!("{error}"),
        }
    }

    /// A name is about to go: what the kernel knows of its file must outlive it.
    pub(crate) fn victim(&self, parent: &OwnedFd, name: &std::ffi::OsStr) -> Option<Victim> {
        let (node, found) = self.nodes.known(parent, name)?;
        let path = self.nodes.tree.path(&node.inode).ok()?;
        Some(Victim { node, path, found })
    }

    /// The name has gone.
    pub(crate) fn name_gone(&self, Victim { node, path, found }: &Victim) {
        let last = found.stx_nlink == 1 || u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        let now = match &node.object().get() {
            // Seldom does anybody look at it again.
            Some(object) if last && !object.file.in_use() => {
                object.file.last_change.note_change_later();
                None
            }
            Some(object) => Some(object.file.last_change.note_change(path.as_fd(), false)),
            // Of a file that has got another name meanwhile more is kept than must be.
            None => (!last).then(|| crate::inode::attributes(path.as_fd())),
        };
        if now.and_then(Result::ok).map_or(last, |now| now.stx_nlink == 0) {
            node.inode.delete(path);
            if let Some(object) = node.object_now() {
                self.files.behind.forget(&object.file);
            }
        }
    }

    /// Gives the file below the contents that it has here.
    pub(crate) fn hand_over(&self, object: &Object) -> Result<(), Errno> {
        let handed_over = object.hand_over(&self.pool).map_err(|errno| self.failed(errno));
        if self.files.behind.is_due() {
            let files = Arc::clone(&self.files);
            self.workers.run(move || files.behind.write());
        }
        handed_over
    }
}
