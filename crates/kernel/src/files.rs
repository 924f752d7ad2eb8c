//! Steered files: each is a volume of the pool, known by its inode and by its number there. Those of a scope with a share have it together.

use crate::managing::Managed;
use crate::steered::Steered;
use crate::watch::FileId;
use foldhash::fast::RandomState;
use forebay_extents::Extents;
use forebay_pool::device::Device;
use forebay_pool::{Pool, Together, Volume, VolumeConfig};
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

/// Files are looked through for those of which nothing is known any more when there are as many, and then when they have doubled.
const FIRST_SWEEP: usize = 1024;

/// A steered file.
pub(crate) struct File {
    pub id: FileId,
    pub volume: Arc<Volume>,
    /// What it is steered for: a directory or group by its place.
    pub scope: u16,
    /// Its number in the trace that is recorded, and its bytes.
    pub recorded: Option<Box<(u32, u64)>>,
    /// When it was looked at last whether it is to be steered; `None` if a group's use has decided that for good.
    pub checked: Option<Instant>,
    /// The owners that use it; `None` until the first use, and under policies without managers.
    pub managed: Option<Box<Managed>>,
}

/// The steered files. There may be more of them than pages, so a file takes few bytes: its number is its place here, and the table of identities holds numbers.
pub(crate) struct Files {
    by_object: Vec<Option<File>>,
    by_id: HashTable<u32>,
    hasher: RandomState,
    /// Those without a share.
    others: Together,
    /// By scope: those that have its share, if it has one. It may end earlier.
    shares: Vec<Option<Together>>,
    bytes: Arc<dyn Device>,
    /// Where they lie, if anybody asks.
    extents: Option<Arc<Extents>>,
    sweep_at: usize,
}

impl Files {
    /// No files, of a pool, with the shares of scopes.
    pub(crate) fn new(pool: &Pool, shares: Vec<Option<Together>>, extents: Option<Arc<Extents>>) -> Self {
        Self {
            by_object: Vec::new(),
            by_id: HashTable::new(),
            hasher: RandomState::default(),
            others: pool.count_together(),
            shares,
            bytes: Arc::new(Elsewhere),
            extents,
            sweep_at: FIRST_SWEEP,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The bytes of memory that they take, about: each with its volume.
    pub(crate) fn bytes(&self) -> usize {
        let places = self.by_object.capacity() * size_of::<Option<File>>();
        self.by_id.allocation_size() + places + self.len() * size_of::<Volume>()
    }

    /// The bytes that their users take, where the policy has managers. It looks at each file.
    pub(crate) fn bytes_of_users(&self) -> usize {
        self.iter().filter_map(|file| file.managed.as_ref()).map(|managed| managed.bytes()).sum()
    }

    /// What is counted of those without a share.
    pub(crate) fn others(&self) -> &Together {
        &self.others
    }

    /// Those that have the share of a scope.
    pub(crate) fn shared(&self, scope: usize) -> Option<&Together> {
        self.shares.get(scope).and_then(Option::as_ref)
    }

    /// Whether it matters what a file is steered for.
    pub(crate) fn have_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Whether a file would have another share if it were steered for that scope.
    pub(crate) fn changes_share(&self, object: u32, scope: usize) -> bool {
        let has = |scope: usize| self.shared(scope).is_some();
        let other = |file: &File| usize::from(file.scope) != scope && (has(file.scope.into()) || has(scope));
        self.get(object).is_some_and(other)
    }

    /// The number of a file that is steered.
    pub(crate) fn find(&self, id: FileId) -> Option<u32> {
        let is = |&object: &u32| self.get(object).is_some_and(|file| file.id == id);
        self.by_id.find(self.hasher.hash_one(id), is).copied()
    }

    /// A file by its number.
    pub(crate) fn get(&self, object: u32) -> Option<&File> {
        self.by_object.get(object as usize)?.as_ref()
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut File> {
        self.by_object.get_mut(object as usize)?.as_mut()
    }

    /// It was looked at whether a file is to be steered: it is, for a scope.
    pub(crate) fn set_checked(&mut self, object: u32, scope: usize, now: Instant) {
        if let Some(file) = self.get_mut(object) {
            (file.scope, file.checked) = (place_of(scope), Some(now));
        }
    }

    /// All files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &File> {
        self.by_object.iter().flatten()
    }

    /// The same, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.by_object.iter_mut().flatten()
    }

    /// A file is steered from now on, for a scope. Its number.
    pub(crate) fn add(&mut self, steered: &Steered, id: FileId, checked: Option<Instant>, scope: usize) -> u32 {
        if let Some(object) = self.find(id) {
            return object;
        }
        let together = Some(self.shared(scope).unwrap_or(&self.others).clone());
        let config = VolumeConfig { together, readahead: 0, ..VolumeConfig::new(String::new()) };
        let volume = steered.attach(Arc::clone(&self.bytes), config);
        let object = volume.id();
        let place = object as usize;
        if self.by_object.len() <= place {
            self.by_object.resize_with(place + 1, || None);
        }
        let scope = place_of(scope);
        self.by_object[place] = Some(File { id, volume, scope, recorded: None, checked, managed: None });
        let Self { by_object, by_id, hasher, .. } = self;
        by_id.insert_unique(hasher.hash_one(id), object, |&object| hash_of(by_object, hasher, object));
        object
    }

    /// A file is not steered any more. Nothing of it is known to the pool then.
    pub(crate) fn remove(&mut self, pool: &Pool, object: u32) {
        if let Some(file) = self.take(object)
            && let Err(error) = pool.detach(&file.volume)
        {
            tracing::debug!("a file is not let go of: {error}");
        }
    }

    /// Takes a file out.
    fn take(&mut self, object: u32) -> Option<File> {
        let file = self.by_object.get_mut(object as usize)?.take()?;
        self.has_moved(object);
        let entry = self.by_id.find_entry(self.hasher.hash_one(file.id), |&other| other == object);
        if let Ok(entry) = entry {
            entry.remove();
        }
        Some(file)
    }

    /// Blocks of a file are not where they were.
    pub(crate) fn has_moved(&self, object: u32) {
        if let Some(extents) = &self.extents {
            extents.forget(object);
        }
    }

    /// Lets go of files that the policy knows no page of, that nobody follows, and of which no page is `there`, if they have become many or it is `due`. Whether
    /// it has looked.
    pub(crate) fn sweep(&mut self, pool: &Pool, due: bool, there: impl Fn(u32) -> bool) -> bool {
        if !due && self.len() < self.sweep_at {
            return false;
        }
        for object in 0..self.by_object.len() as u32 {
            // A volume without pages is detached at once.
            let gone = self.get(object).is_some_and(|file| {
                let known = there(object) || pool.knows(&file.volume) || pool.is_followed(&file.volume);
                !known && pool.detach(&file.volume).is_ok()
            });
            if gone {
                self.take(object);
            }
        }
        while self.by_object.pop_if(|last| last.is_none()).is_some() {}
        let Self { by_object, by_id, hasher, .. } = self;
        by_object.shrink_to(by_object.len() * 2);
        by_id.shrink_to(by_id.len() * 2, |&object| hash_of(by_object, hasher, object));
        self.sweep_at = (2 * self.len()).max(FIRST_SWEEP);
        true
    }
}

fn place_of(scope: usize) -> u16 {
    u16::try_from(scope).expect("a command line has room for fewer scopes")
}

/// The hash of the identity of a file that is there.
fn hash_of(files: &[Option<File>], hasher: &RandomState, object: u32) -> u64 {
    let file = files[object as usize].as_ref();
    hasher.hash_one(file.expect("a number in the table is a file's").id)
}

/// Bytes that the kernel has: the pool never asks for any.
pub(crate) struct Elsewhere;

impl Device for Elsewhere {
    fn len(&self) -> u64 {
        i64::MAX.cast_unsigned()
    }

    fn read(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: u64, _: &[IoSlice<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_zeroes(&self, _: u64, _: u64, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn describe(&self) -> String {
        "the kernel's page cache".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Side;

    #[test]
    fn files_come_and_go_and_of_those_without_pages_nothing_is_left() {
        let steered = Steered::played("lru", 64, Side::Files);
        let pool = Arc::clone(steered.pool());
        let mut files = Files::new(&pool, Vec::new(), None);
        let id = |inode| FileId { device: 1, inode, generation: 0 };
        let numbers: Vec<u32> = (0..3000).map(|inode| files.add(&steered, id(inode), None, 0)).collect();
        assert_eq!((files.len(), files.add(&steered, id(7), None, 0)), (3000, numbers[7]));
        assert!((0..3000).all(|inode| files.find(id(inode)) == Some(numbers[inode as usize])));
        let bytes = files.bytes();
        files.remove(&pool, numbers[7]);
        assert_eq!((files.find(id(7)), files.len()), (None, 2999));
        let other = files.add(&steered, id(5000), None, 0);
        assert_eq!(files.get(other).map(|file| file.id), Some(id(5000)));

        assert!(files.sweep(&pool, false, |object| object == numbers[3]));
        assert_eq!((files.len(), files.find(id(3)), files.find(id(4))), (1, Some(numbers[3]), None));
        assert!(files.bytes() < bytes / 100, "{} of {bytes} bytes", files.bytes());
        files.add(&steered, id(4), None, 0);
        assert!(!files.sweep(&pool, false, |_| false), "there are few");
        assert!(files.sweep(&pool, true, |object| object == numbers[3]), "nothing else happens");
        assert_eq!((files.len(), files.find(id(4))), (1, None));
        assert!(files.get(numbers[3]).is_some() && files.get(numbers[4]).is_none() && files.get(1 << 30).is_none());
    }
}
