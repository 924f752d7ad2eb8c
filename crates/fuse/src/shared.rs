//! What the requests of a mount work on.

use crate::counters::Counters;
use crate::device::Files;
use crate::directory::Directory;
use crate::error::errno;
use crate::hints::Readahead;
use crate::managing::Managing;
use crate::mapped::Mapped;
use crate::mount::Watch;
use crate::nodes::{Node, Nodes};
use crate::object::{Looked, Object};
use crate::outside::Outside;
use crate::processes::{Processes, User};
use crate::slab::Slab;
use crate::workers::Workers;
use forebay_pool::{Handle, Pool, VolumeConfig};
use fuser::{Errno, FileAttr, FileHandle, FopenFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Statx;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// Files without users whose pages, and ghosts, are looked for when one more comes.
const SWEPT: usize = 2;

pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Arc<Files>,
    pub(crate) nodes: Nodes,
    pub(crate) open: Slab<Open>,
    pub(crate) directories: Slab<Directory>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) processes: Processes,
    pub(crate) managing: Managing,
    pub(crate) mapped: Arc<Mapped>,
    pub(crate) counters: Counters,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) volume: VolumeConfig,
    /// Where changes below are noticed at once.
    pub(crate) outside: Option<Outside>,
    /// Nothing may change any more: the last flush has begun.
    pub(crate) closing: AtomicBool,
    /// The one used last is the last: so requests that come one after the other reach the policy in their order.
    handles: Mutex<Vec<Handle>>,
    /// Files with bytes in the pool that nobody has open.
    resting: Mutex<VecDeque<Weak<Node>>>,
    most_resting: usize,
}

/// An open file.
pub(crate) struct Open {
    pub(crate) node: Arc<Node>,
    pub(crate) object: Arc<Object>,
    /// How many of its failures its user knows of.
    pub(crate) known: AtomicU64,
    pub(crate) readahead: Readahead,
    /// Who has used it last, and for whom the policy has learned who manages: serial numbers.
    pub(crate) last_user: AtomicU64,
    pub(crate) decided: Mutex<Vec<u64>>,
    /// Somebody has said by it who manages.
    pub(crate) said: AtomicBool,
    /// Whose its uses are, if not those of whoever uses it.
    pub(crate) designated: RwLock<Option<Arc<User>>>,
}

impl Shared {
    pub(crate) fn new(
        pool: Arc<Pool>,
        files: Arc<Files>,
        nodes: Nodes,
        mapped: Arc<Mapped>,
        (volume, watch, outside): (VolumeConfig, Option<Arc<dyn Watch>>, Option<Outside>),
        (processes, managing): (Processes, Managing),
        most_resting: usize,
    ) -> Self {
        Self {
            pool,
            files,
            nodes,
            open: Slab::default(),
            directories: Slab::default(),
            workers: Arc::default(),
            processes,
            managing,
            mapped,
            counters: Counters::default(),
            watch,
            volume,
            outside,
            closing: AtomicBool::new(false),
            handles: Mutex::default(),
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
        let known = self.handles.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let handle = match known {
            Some(handle) => handle,
            None => self.pool.handle().map_err(|error| errno(&error))?,
        };
        handle.use_owner(process.map(|process| &process.owner));
        let done = work(&handle);
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        done
    }

    /// Refuses what would be lost, as the last flush has begun.
    pub(crate) fn check_open(&self) -> Result<(), Errno> {
        if self.closing.load(Ordering::SeqCst) { Err(Errno::ENOTCONN) } else { Ok(()) }
    }

    /// The attributes of a file.
    pub(crate) fn attributes(&self, node: &Node, mut found: Statx) -> FileAttr {
        if let Some(object) = &*node.object() {
            object.adjust(&mut found);
        }
        crate::attributes::attributes_of(node.number, &found)
    }

    /// Opens a file's bytes. `fd`: it is open below already.
    pub(crate) fn open(
        &self,
        node: Arc<Node>,
        flags: i32,
        fd: Option<OwnedFd>,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        let write = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let mut kept = FopenFlags::FOPEN_KEEP_CACHE;
        let object = {
            let mut slot = node.object();
            let (object, known) = match &*slot {
                Some(object) => (Arc::clone(object), true),
                None => {
                    let of = (&self.files, &node.inode, node.number);
                    let object = Object::attach(&self.pool, of, &self.volume, self.watch.as_deref(), (fd, write))?;
                    self.read_attributes(&object);
                    // It may have been changed since it was opened below.
                    let known = self.outside.as_ref().map(|outside| outside.add(&object)).is_some();
                    (Arc::clone(slot.insert(object)), known)
                }
            };
            object.file.enter(write)?;
            if known {
                let look = |handle: &Handle| object.look_again(&self.pool, handle).map_err(Errno::from);
                let looked = self.with_handle(None, look).inspect_err(|_| object.file.leave());
                if looked? == Looked::New {
                    kept = FopenFlags::empty();
                    self.read_attributes(&object);
                }
            }
            object
        };
        let known = AtomicU64::new(object.file.failures_known());
        let (readahead, last_user, decided) = (Readahead::default(), AtomicU64::new(0), Mutex::default());
        let (said, designated) = (AtomicBool::new(false), RwLock::default());
        let open = Open { node, object, known, readahead, last_user, decided, said, designated };
        self.hint_at_open(&open);
        let handle = self.open.add(open);
        let mut how = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | kept;
        if !write {
            how |= FopenFlags::FOPEN_NOFLUSH;
        }
        Ok((handle, how))
    }

    /// A file may have been changed below.
    pub(crate) fn look_below(&self, object: &Arc<Object>) -> Looked {
        let look = |handle: &Handle| object.look_again(&self.pool, handle).map_err(Errno::from);
        // What cannot be looked at now is looked at when it is opened next.
        let looked = self.with_handle(None, look).unwrap_or(Looked::Same);
        if looked == Looked::New {
            self.read_attributes(object);
        }
        looked
    }

    /// Closes a file.
    pub(crate) fn close(self: &Arc<Self>, handle: FileHandle) {
        let Some(open) = self.open.remove(handle) else { return };
        self.end_words(handle, &open);
        open.object.file.leave();
        if open.object.file.in_use() {
            return;
        }
        self.hint_at_close(&open.object);
        // New contents of a file that was emptied are written soon, as ext4 does: a kill then seldom leaves it empty. And a file that
        // cannot be opened again is written as long as its descriptor is there.
        let write = open.object.take_emptied() || !self.files.tree.reopens();
        if !write || open.object.volume.dirty_pages() == 0 {
            return self.let_go(&open.node);
        }
        let shared = Arc::clone(self);
        self.workers.run(move || {
            // A failure is kept for whoever opens it next.
            let _ = shared.pool.write_back(&open.object.volume);
            shared.let_go(&open.node);
        });
    }

    /// The kernel forgets a file.
    pub(crate) fn forget(self: &Arc<Self>, number: u64, lookups: u64) {
        if let Some(node) = self.nodes.forget(number, lookups) {
            self.let_go(&node);
        }
    }

    /// Somebody has stopped using a file: it goes, if nobody needs it, or rests as long as the pool knows its pages.
    fn let_go(self: &Arc<Self>, node: &Arc<Node>) {
        let mut slot = node.object();
        let unknown = self.nodes.is_unknown(node.number);
        let Some(object) = &*slot else {
            if unknown {
                self.nodes.remove(node);
            }
            return;
        };
        if object.file.in_use() {
            return;
        }
        if unknown && node.inode.is_deleted() {
            let object = Arc::clone(object);
            if self.discard(&object) {
                *slot = None;
                self.nodes.remove(node);
                return;
            }
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
        let Some(object) = slot.clone() else { return false };
        if object.file.in_use() {
            object.resting.store(false, Ordering::SeqCst);
            return false;
        }
        if self.pool.knows(&object.volume) || !object.file.is_caught_up() || !self.discard(&object) {
            return true;
        }
        *slot = None;
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
        let Some(object) = slot.clone() else { return };
        if object.file.in_use() || !self.nodes.is_unknown(node.number) {
            return;
        }
        match self.pool.detach(&object.volume) {
            Ok(()) => {
                self.forget_object(&object);
                *slot = None;
                self.nodes.remove(node);
            }
            // It stays, and is written with the last flush.
            Err(error) => tracing::error!("{error}"),
        }
    }

    /// A name is about to go: what the kernel knows of its file must outlive it.
    pub(crate) fn victim(&self, parent: &OwnedFd, name: &std::ffi::OsStr) -> Option<(Arc<Node>, Arc<OwnedFd>)> {
        let node = self.nodes.known(parent, name)?;
        let path = self.nodes.tree.path(&node.inode).ok()?;
        Some((node, path))
    }

    /// The name has gone.
    pub(crate) fn name_gone(&self, (node, path): &(Arc<Node>, Arc<OwnedFd>)) {
        let Ok(found) = crate::inode::attributes(path.as_fd()) else { return };
        let directory = u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        if found.stx_nlink == 0 || directory {
            node.inode.delete(path);
        }
        if let Some(object) = &*node.object() {
            object.file.note_change(&found, false);
        }
    }
}
