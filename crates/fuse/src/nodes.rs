//! The files that the kernel knows, by the numbers that it knows them by.

use crate::inode::{Inode, Tree, attributes, find, place_of};
use crate::object::Object;
use foldhash::HashMap;
use fuser::Errno;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Statx;
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The number of the mounted directory.
pub(crate) const ROOT: u64 = 1;

/// Numbers from here on are of files whose own number is another's: of another file system in the tree.
const OWN_NUMBERS: u64 = 1 << 63;

/// A file that the kernel knows, or of which the pool knows pages.
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) inode: Arc<Inode>,
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

impl Nodes {
    pub(crate) fn new(tree: Arc<Tree>) -> io::Result<Self> {
        let place = place_of(&attributes(tree.root())?);
        let inode = tree.inode(tree.root(), place)?;
        let node = Arc::new(Node { number: ROOT, inode, object: Mutex::default() });
        let mut table = Table::default();
        table.by_place.insert(place, ROOT);
        // The kernel never forgets it.
        table.by_number.insert(ROOT, Entry { node, lookups: 1 });
        Ok(Self { tree, device: place.0, table: RwLock::new(table) })
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

    /// A path descriptor of a known file.
    pub(crate) fn path(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        Ok(self.tree.path(&self.get(number)?.inode)?)
    }

    /// The file of a name, and its attributes below. It counts as a lookup of the kernel.
    pub(crate) fn look_up(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<(Arc<Node>, Statx)> {
        let fd = find(parent.as_fd(), name)?;
        let found = attributes(fd.as_fd())?;
        let node = self.enter(fd.as_fd(), &found)?;
        self.tree.keep(&node.inode, fd);
        Ok((node, found))
    }

    /// The file of a descriptor. It counts as a lookup of the kernel.
    pub(crate) fn enter(&self, fd: BorrowedFd<'_>, found: &Statx) -> io::Result<Arc<Node>> {
        let place = place_of(found);
        let known = {
            let table = self.read();
            let entry = table.by_place.get(&place).and_then(|number| table.by_number.get(number));
            entry.map(|entry| Arc::clone(&entry.node))
        };
        if let Some(node) = known.filter(|node| node.inode.is_held() || node.inode.is(fd))
            && let Some(entry) = self.write().by_number.get_mut(&node.number)
        {
            entry.lookups += 1;
            return Ok(node);
        }
        Ok(self.insert(self.tree.inode(fd, place)?))
    }

    fn insert(&self, inode: Arc<Inode>) -> Arc<Node> {
        let place = inode.place;
        let mut table = self.write();
        let known = table.by_place.get(&place).copied();
        if let Some(entry) = known.and_then(|number| table.by_number.get_mut(&number))
            && entry.node.inode.same(&inode)
        {
            // Another thread was faster.
            entry.lookups += 1;
            return Arc::clone(&entry.node);
        }
        let own = place.0 == self.device && place.1 > ROOT && place.1 < OWN_NUMBERS;
        let number = if own && !table.by_number.contains_key(&place.1) {
            place.1
        } else {
            table.next += 1;
            OWN_NUMBERS + table.next
        };
        let node = Arc::new(Node { number, inode, object: Mutex::default() });
        table.by_place.insert(place, number);
        table.by_number.insert(number, Entry { node: Arc::clone(&node), lookups: 1 });
        node
    }

    /// The file of a name, if the kernel knows it.
    pub(crate) fn known(&self, parent: &OwnedFd, name: &OsStr) -> Option<Arc<Node>> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(parent, name, flags, rustix::fs::StatxFlags::INO).ok()?;
        let table = self.read();
        let number = table.by_place.get(&place_of(&found))?;
        table.by_number.get(number).map(|entry| Arc::clone(&entry.node))
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
