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
    object: Mutex<Option<Arc<Object>>>,
}

impl Node {
    /// Its bytes in the pool. Who holds this keeps others from attaching or detaching them.
    pub(crate) fn object(&self) -> MutexGuard<'_, Option<Arc<Object>>> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let node = Arc::new(Node { number: ROOT, inode, serial: 0, object: Mutex::default() });
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

    /// What the log calls a known file: its path if its bytes are in the pool, else its number below. Neither storage nor a lock is waited for.
    pub(crate) fn name(&self, number: u64) -> String {
        let node = self.table.try_read().ok().and_then(|table| Some(Arc::clone(&table.by_number.get(&number)?.node)));
        let Some(node) = node else { return format!("node {number}") };
        let path = node.object.try_lock().ok().and_then(|object| Some(object.as_ref()?.file.name()));
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
        let node = Arc::new(Node { number, inode, serial, object: Mutex::default() });
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

    /// All files with bytes in the pool.
    pub(crate) fn objects(&self) -> Vec<Arc<Object>> {
        let nodes: Vec<_> = self.read().by_number.values().map(|entry| Arc::clone(&entry.node)).collect();
        nodes.iter().filter_map(|node| node.object().clone()).collect()
    }
}
