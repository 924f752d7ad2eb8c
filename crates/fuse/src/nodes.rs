//! The files that the kernel knows, by the numbers that it knows them by.

use crate::inode::{Inode, Tree, attributes, attributes_at, find, place_of};
use crate::object::Object;
use crate::protocol::Errno;
use foldhash::HashMap;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Statx;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of the mounted directory.
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are of files whose own number is another's: of another file system in the tree.
const OWN_NUMBERS: u64 = 1 << 63;

/// A file that the kernel knows, or of which the pool knows pages.
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) inode: Arc<Inode>,
    /// How many were made before it.
    serial: u64,
    /// Held while the object is attached, entered or detached, which may wait for storage.
    attaching: Mutex<()>,
    /// Held for no longer than it takes to read or set it.
    object: Mutex<Option<Arc<Object>>>,
}

/// A file's bytes in the pool. Others neither attach nor detach them as long as this is held.
pub(crate) struct Slot<'n> {
    node: &'n Node,
    _attaching: MutexGuard<'n, ()>,
}

impl Slot<'_> {
    pub(crate) fn get(&self) -> Option<Arc<Object>> {
        self.node.object_now()
    }

    pub(crate) fn set(&mut self, object: Option<Arc<Object>>) {
        *lock(&self.node.object) = object;
    }
}

impl Node {
    fn new(number: u64, inode: Arc<Inode>, serial: u64) -> Arc<Self> {
        Arc::new(Self { number, inode, serial, attaching: Mutex::default(), object: Mutex::default() })
    }

    /// Its bytes in the pool. Waits for storage where the file is being attached, entered or detached.
    pub(crate) fn object(&self) -> Slot<'_> {
        Slot { node: self, _attaching: lock(&self.attaching) }
    }

    /// Its bytes in the pool as they are now. Waits for no storage, so they may be about to come or to go.
    pub(crate) fn object_now(&self) -> Option<Arc<Object>> {
        lock(&self.object).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them.
pub(crate) struct Nodes {
    pub(crate) tree: Arc<Tree>,
    device: u64,
    /// How many were made.
    made: AtomicU64,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    by_number: HashMap<u64, Entry>,
    by_place: HashMap<(u64, u64), u64>,
    next: u64,
}

struct Entry {
    node: Arc<Node>,
    /// How many of its lookups the kernel has not forgotten.
    lookups: u64,
}

impl Table {
    fn at(&mut self, place: (u64, u64)) -> Option<&mut Entry> {
        self.by_number.get_mut(self.by_place.get(&place)?)
    }
}

impl Nodes {
    pub(crate) fn new(tree: Arc<Tree>) -> io::Result<Self> {
        let found = attributes(tree.root())?;
        let (place, inode) =
            (place_of(&found), tree.inode(&Arc::new(tree.root().try_clone_to_owned()?), false, &found));
        let node = Node::new(ROOT, inode, 0);
        let mut table = Table::default();
        table.by_place.insert(place, ROOT);
        // The kernel never forgets it.
        table.by_number.insert(ROOT, Entry { node, lookups: 1 });
        Ok(Self { tree, device: place.0, made: AtomicU64::new(1), table: RwLock::new(table) })
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, number: u64) -> Result<Arc<Node>, Errno> {
        self.read().by_number.get(&number).map(|entry| Arc::clone(&entry.node)).ok_or(Errno::ESTALE)
    }

    /// What the log calls a known file: its path if its bytes are in the pool, else its number below. Neither storage nor the table is waited for.
    pub(crate) fn name(&self, number: u64) -> String {
        let node = self.table.try_read().ok().and_then(|table| Some(Arc::clone(&table.by_number.get(&number)?.node)));
        let Some(node) = node else { return format!("node {number}") };
        let path = node.object_now().map(|object| object.file.name());
        path.map_or_else(|| format!("inode {}", node.inode.place.1), |path| path.to_string())
    }

    /// A path descriptor of a known file.
    pub(crate) fn path(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        Ok(self.tree.path(&self.get(number)?.inode)?)
    }

    /// The file of a name, and its attributes below. It counts as a lookup of the kernel.
    pub(crate) fn look_up(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<(Arc<Node>, Statx)> {
        let before = self.made.load(Ordering::SeqCst);
        let found = attributes_at(parent, name)?;
        if let Some(node) = self.enter_held(&found, before) {
            return Ok((node, found));
        }
        let fd = Arc::new(find(parent.as_fd(), name)?);
        let found = attributes(fd.as_fd())?;
        Ok((self.enter(&fd, false, &found), found))
    }

    /// The file of a name with these attributes, if it was known `before` that name was looked at and has held its number since: so it is
    /// that file and no later one. It counts as a lookup of the kernel.
    fn enter_held(&self, found: &Statx, before: u64) -> Option<Arc<Node>> {
        let mut table = self.write();
        let entry = table.at(place_of(found))?;
        if entry.node.serial >= before || !entry.node.inode.is_held() {
            return None;
        }
        entry.lookups += 1;
        Some(Arc::clone(&entry.node))
    }

    /// The file of a descriptor, which it may keep. `opened`: that is open for reading and writing. It counts as a lookup of the kernel.
    pub(crate) fn enter(&self, fd: &Arc<OwnedFd>, opened: bool, found: &Statx) -> Arc<Node> {
        let place = place_of(found);
        let mut table = self.write();
        if let Some(entry) = table.at(place)
            && entry.node.inode.is(fd.as_fd())
        {
            entry.lookups += 1;
            let node = Arc::clone(&entry.node);
            drop(table);
            self.tree.keep(&node.inode, fd);
            return node;
        }
        let own = place.0 == self.device && place.1 > ROOT && place.1 < OWN_NUMBERS;
        let number = if own && !table.by_number.contains_key(&place.1) {
            place.1
        } else {
            table.next += 1;
            OWN_NUMBERS + table.next
        };
        let inode = self.tree.inode(fd, opened, found);
        let serial = self.made.fetch_add(1, Ordering::SeqCst);
        let node = Node::new(number, inode, serial);
        table.by_place.insert(place, number);
        table.by_number.insert(number, Entry { node: Arc::clone(&node), lookups: 1 });
        drop(table);
        // It may close others, which may take long.
        self.tree.list(&node.inode);
        node
    }

    /// The file of a name, if the kernel knows it, and its attributes below.
    pub(crate) fn known(&self, parent: &OwnedFd, name: &OsStr) -> Option<(Arc<Node>, Statx)> {
        let found = attributes_at(parent, name).ok()?;
        let table = self.read();
        let number = table.by_place.get(&place_of(&found))?;
        let entry = table.by_number.get(number)?;
        Some((Arc::clone(&entry.node), found))
    }

    /// The kernel forgets a number of its lookups of a file. Answers the file if those were the last.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Arc<Node>> {
        if number == ROOT {
            return None;
        }
        let mut table = self.write();
        let entry = table.by_number.get_mut(&number)?;
        entry.lookups = entry.lookups.saturating_sub(lookups);
        (entry.lookups == 0).then(|| Arc::clone(&entry.node))
    }

    /// Whether the kernel has forgotten a file.
    pub(crate) fn is_unknown(&self, number: u64) -> bool {
        self.read().by_number.get(&number).is_none_or(|entry| entry.lookups == 0)
    }

    /// Drops a file that the kernel does not know, unless it has got to know it again. Its object has gone.
    pub(crate) fn remove(&self, node: &Node) {
        let mut table = self.write();
        let unknown = table.by_number.get(&node.number).is_some_and(|entry| entry.lookups == 0);
        if unknown {
            table.by_number.remove(&node.number);
            if table.by_place.get(&node.inode.place) == Some(&node.number) {
                table.by_place.remove(&node.inode.place);
            }
        }
    }

    fn all(&self) -> Vec<Arc<Node>> {
        self.read().by_number.values().map(|entry| Arc::clone(&entry.node)).collect()
    }

    /// All files with bytes in the pool. Waits for no storage: one hung file holds up no command. A file that comes meanwhile learns by itself
    /// what holds then.
    pub(crate) fn objects(&self) -> Vec<Arc<Object>> {
        self.all().iter().filter_map(|node| node.object_now()).collect()
    }

    /// The same once those that are coming are there: their names and attributes may be older than a change just now. Waits for storage.
    pub(crate) fn settled_objects(&self) -> Vec<Arc<Object>> {
        self.all().iter().filter_map(|node| node.object().get()).collect()
    }
}
