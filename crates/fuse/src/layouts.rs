//! Where the files of mounts lie on their disks, for a policy that goes by block numbers.
//!
//! A thread of its own asks for them: the answer may wait for a write, or for storage. Files are asked for as they are opened, so that it is known before the policy
//! needs it, and again when [`Extents`] takes what it knows for old.

use crate::device::LowerFile;
use foldhash::fast::RandomState;
use forebay_extents::{Asked, Extents, runs_of};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The files in the pool, and where they lie.
pub(crate) struct Layouts {
    extents: Arc<Extents>,
    page: u64,
    /// By their numbers in the pool.
    files: Mutex<HashMap<u32, Weak<LowerFile>, RandomState>>,
}

impl Layouts {
    /// Starts the thread that finds files' extents, in pages of `page` bytes. It ends when the pool and the mounts have gone.
    pub(crate) fn start(extents: Arc<Extents>, asked: Asked, page: u64) -> io::Result<Arc<Self>> {
        let layouts = Arc::new(Self { extents, page, files: Mutex::default() });
        let of = Arc::downgrade(&layouts);
        let answer = move || {
            for object in asked {
                let Some(layouts) = of.upgrade() else { return };
                layouts.find(object);
            }
        };
        std::thread::Builder::new().name("extents".to_owned()).spawn(answer)?;
        Ok(layouts)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<u32, Weak<LowerFile>, RandomState>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file has this number in the pool.
    pub(crate) fn enter(&self, object: u32, file: &Arc<LowerFile>) {
        self.files().insert(object, Arc::downgrade(file));
        // What was known is of the file that had the number before.
        self.extents.forget(object);
        self.extents.expect(object);
    }

    /// A file has gone from the pool. Another one may have its number already.
    pub(crate) fn leave(&self, object: u32, file: *const LowerFile) {
        let mut files = self.files();
        if files.get(&object).is_some_and(|known| std::ptr::eq(known.as_ptr(), file)) {
            files.remove(&object);
            self.extents.forget(object);
        }
    }

    /// Blocks of a file were given up.
    pub(crate) fn forget(&self, object: u32) {
        self.extents.forget(object);
    }

    fn find(&self, object: u32) {
        let asked = self.files().get(&object).cloned().unwrap_or_default();
        // Not the file itself: it may leave the cache while the file system answers, and is to be counted then.
        let Some((descriptors, disk)) = asked.upgrade().map(|file| (file.open_below(), file.disk())) else {
            self.extents.forget(object);
            return;
        };
        let runs = descriptors.and_then(|descriptors| runs_of(&descriptors.main, self.page)).unwrap_or_else(|error| {
            tracing::debug!("where file {object} lies is not known: {error}");
            Box::default()
        });
        let files = self.files();
        // Its number may be another's by now.
        if files.get(&object).is_some_and(|known| known.ptr_eq(&asked)) {
            self.extents.found(object, disk, runs);
        }
    }
}
