//! The caches, each asked for pages in the way that its documentation shows.

use crate::backing::{Backing, PAGE, place};
use forebay_policy::Spec;
use forebay_pool::{Config, Pool, Volume, VolumeConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A page in a peer: shared, so that it stays while it is read, as a pin makes it stay in the pool.
type Page = Arc<[u8]>;

/// A cache of pages in front of the backing memory.
pub(crate) trait Cache: Sync {
    /// Looks up the keys one after the other, fetches what is missing, and adds up a byte of each page.
    fn look_up(&self, keys: &[u32]) -> u64;

    /// The lookups so far that found nothing.
    fn misses(&self) -> u64;
}

/// The names there are; what begins with `pool:` names a policy of the pool.
pub(crate) const NAMES: [&str; 8] =
    ["quick_cache", "moka", "mutex-lru", "pool:clock-pro", "pool:sieve", "pool:lru", "pool:arc", "pool:s3-fifo"];

/// The cache of that name with room for this many pages.
pub(crate) fn named(name: &str, room: u32, backing: &Arc<Backing>) -> Result<Box<dyn Cache>, String> {
    let peer = |store| -> Result<Box<dyn Cache>, String> { Ok(store) };
    match name {
        "quick_cache" => peer(Box::new(Peer::new(quick_cache::sync::Cache::<u32, Page>::new(room as usize), backing))),
        "moka" => peer(Box::new(Peer::new(moka::sync::Cache::<u32, Page>::new(room.into()), backing))),
        "mutex-lru" => {
            let room = (room as usize).try_into().map_err(|_| "--room: a cache has room for a page at least")?;
            peer(Box::new(Peer::new(Mutex::new(lru::LruCache::<u32, Page>::new(room)), backing)))
        }
        _ => match name.strip_prefix("pool:") {
            Some(policy) => Ok(Box::new(PoolCache::new(policy, room, backing)?)),
            None => Err(format!(
                "there is no cache `{name}`; there are {} and other policies of the pool",
                NAMES.join(", ")
            )),
        },
    }
}

/// What a peer offers.
trait Store: Sync {
    fn get(&self, key: u32) -> Option<Page>;
    fn insert(&self, key: u32, page: Page);
}

impl Store for quick_cache::sync::Cache<u32, Page> {
    #[inline]
    fn get(&self, key: u32) -> Option<Page> {
        self.get(&key)
    }

    fn insert(&self, key: u32, page: Page) {
        self.insert(key, page);
    }
}

impl Store for moka::sync::Cache<u32, Page> {
    #[inline]
    fn get(&self, key: u32) -> Option<Page> {
        self.get(&key)
    }

    fn insert(&self, key: u32, page: Page) {
        self.insert(key, page);
    }
}

impl Store for Mutex<lru::LruCache<u32, Page>> {
    #[inline]
    fn get(&self, key: u32) -> Option<Page> {
        self.lock().expect("no thread panics").get(&key).cloned()
    }

    fn insert(&self, key: u32, page: Page) {
        let evicted = self.lock().expect("no thread panics").push(key, page);
        // Its memory is freed without the lock.
        drop(evicted);
    }
}

struct Peer<S> {
    store: S,
    backing: Arc<Backing>,
    misses: AtomicU64,
}

impl<S: Store> Peer<S> {
    fn new(store: S, backing: &Arc<Backing>) -> Self {
        Self { store, backing: Arc::clone(backing), misses: AtomicU64::new(0) }
    }
}

impl<S: Store> Cache for Peer<S> {
    fn look_up(&self, keys: &[u32]) -> u64 {
        let (mut sum, mut misses) = (0, 0);
        for &key in keys {
            let page = self.store.get(key).unwrap_or_else(|| {
                misses += 1;
                let page = Page::from(self.backing.page(key));
                self.store.insert(key, Arc::clone(&page));
                page
            });
            sum += u64::from(page[place(key)]);
        }
        self.misses.fetch_add(misses, Ordering::Relaxed);
        sum
    }

    fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}

struct PoolCache {
    pool: Pool,
    volume: Arc<Volume>,
}

impl PoolCache {
    fn new(policy: &str, room: u32, backing: &Arc<Backing>) -> Result<Self, String> {
        let config = Config::new(u64::from(room) * PAGE as u64, Spec::parse(policy)?);
        // Nothing is written, so no frame need be kept for pages that wait to be written: the policy has as many as the peers.
        let pool = Pool::new(Config { laundry: 0, huge_pages: true, ..config }).map_err(|error| error.to_string())?;
        let volume = pool.attach(Arc::clone(backing) as _, VolumeConfig { readahead: 0, ..VolumeConfig::new("pages") });
        Ok(Self { pool, volume })
    }
}

impl Cache for PoolCache {
    fn look_up(&self, keys: &[u32]) -> u64 {
        let handle = self.pool.handle().expect("there are fewer threads than handles");
        keys.iter()
            .map(|&key| {
                let pin = handle.read(&self.volume, key.into()).expect("memory is read without errors");
                u64::from(pin[place(key)])
            })
            .sum()
    }

    fn misses(&self) -> u64 {
        self.pool.statistics().misses
    }
}
