//! Steered files: each is a volume of the pool, known by its inode and by its number there. Those of a scope with a share have it together.

use crate::managing::Managed;
use crate::watch::FileId;
use foldhash::fast::RandomState;
use forebay_pool::device::Device;
use forebay_pool::{Pool, Together, Volume, VolumeConfig};
use hashbrown::HashMap;
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
    pub scope: usize,
    /// Its number in the trace that is recorded, and its bytes.
    pub recorded: Option<(u32, u64)>,
    /// When it was looked at last whether it is to be steered; `None` if a group's use has decided that for good.
    pub checked: Option<Instant>,
    /// The owners that use it; `None` until the first use, and under policies without managers.
    pub managed: Option<Box<Managed>>,
}

/// The steered files.
pub(crate) struct Files {
    by_id: HashMap<FileId, u32, RandomState>,
    by_object: HashMap<u32, File, RandomState>,
    /// Those without a share.
    others: Together,
    /// By scope: those that have its share, if it has one. It may end earlier.
    shares: Vec<Option<Together>>,
    bytes: Arc<dyn Device>,
    sweep_at: usize,
}

impl Files {
    /// No files, of a pool, with the shares of scopes.
    pub(crate) fn new(pool: &Pool, shares: Vec<Option<Together>>) -> Self {
        Self {
            by_id: HashMap::default(),
            by_object: HashMap::default(),
            others: pool.count_together(),
            shares,
            bytes: Arc::new(Elsewhere),
            sweep_at: FIRST_SWEEP,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// The bytes of memory that they take, about: each with its volume.
    pub(crate) fn bytes(&self) -> usize {
        self.by_id.allocation_size() + self.by_object.allocation_size() + self.len() * size_of::<Volume>()
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
        self.get(object).is_some_and(|file| file.scope != scope && (has(file.scope) || has(scope)))
    }

    /// The number of a file that is steered.
    pub(crate) fn find(&self, id: FileId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// A file by its number.
    pub(crate) fn get(&self, object: u32) -> Option<&File> {
        self.by_object.get(&object)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, object: u32) -> Option<&mut File> {
        self.by_object.get_mut(&object)
    }

    /// All files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &File> {
        self.by_object.values()
    }

    /// The same, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut File> {
        self.by_object.values_mut()
    }

    /// A file is steered from now on, for a scope. Its number.
    pub(crate) fn add(&mut self, pool: &Pool, id: FileId, checked: Option<Instant>, scope: usize) -> u32 {
        if let Some(object) = self.find(id) {
            return object;
        }
        let together = Some(self.shared(scope).unwrap_or(&self.others).clone());
        let config = VolumeConfig { together, readahead: 0, ..VolumeConfig::new(String::new()) };
        let volume = pool.attach(Arc::clone(&self.bytes), config);
        let object = volume.id();
        self.by_id.insert(id, object);
        self.by_object.insert(object, File { id, volume, scope, recorded: None, checked, managed: None });
        object
    }

    /// A file is not steered any more. Nothing of it is known to the pool then.
    pub(crate) fn remove(&mut self, pool: &Pool, object: u32) {
        if let Some(file) = self.by_object.remove(&object) {
            self.by_id.remove(&file.id);
            if let Err(error) = pool.detach(&file.volume) {
                tracing::debug!("a file is not let go of: {error}");
            }
        }
    }

    /// Lets go of files that the policy knows no page of, that nobody follows, and of which no page is `there`, if they have become many.
    pub(crate) fn sweep(&mut self, pool: &Pool, there: impl Fn(u32) -> bool) {
        if self.len() < self.sweep_at {
            return;
        }
        let by_id = &mut self.by_id;
        self.by_object.retain(|&object, file| {
            // A volume without pages is detached at once.
            let known = there(object) || pool.knows(&file.volume) || pool.is_followed(&file.volume);
            let gone = !known && pool.detach(&file.volume).is_ok();
            if gone {
                by_id.remove(&file.id);
            }
            !gone
        });
        self.by_id.shrink_to(self.by_object.len() * 2);
        self.by_object.shrink_to(self.by_object.len() * 2);
        self.sweep_at = (2 * self.len()).max(FIRST_SWEEP);
    }
}

/// Bytes that the kernel has: the pool never asks for any.
struct Elsewhere;

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
