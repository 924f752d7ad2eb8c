//! A cache: a pool under a name, made of the options that all services have.

use crate::error::Error;
use crate::memory;
use crate::options::ServiceOptions;
use forebay_basis::show_bytes;
use forebay_model::Model;
use forebay_model::presets::{Named, NoDevice};
use forebay_policy::{Layout, Spec, registry};
use forebay_pool::{Config, LEAST_PAGE_SIZE, MOST_PAGE_SIZE, Pool};
use forebay_trace::{Circumstances, readahead_of};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A pool under a name.
pub(crate) struct Cache {
    /// `shared`, or that of the volume it belongs to.
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) page_size: u32,
    pub(crate) pool: Arc<Pool>,
}

impl Cache {
    pub(crate) fn new(name: &str, config: Config) -> Result<Self, Error> {
        let (policy, page_size) = (config.policy_that_fits().label, config.page_size);
        Ok(Self { name: name.to_owned(), policy, page_size, pool: Arc::new(Pool::new(config)?) })
    }

    /// Keeps to the limits of what may be dirty that options say, or to the pool's own.
    pub(crate) fn limit_dirty(&self, options: &ServiceOptions) -> Result<(), Error> {
        let defaults = Config::new(0, options.policy());
        self.pool.set_dirty_limit(options.dirty_limit.map_or(defaults.dirty_limit, |share| share.0))?;
        self.pool.set_dirty_age(options.dirty_age.map_or(defaults.dirty_age, |age| age.0));
        Ok(())
    }

    /// Changes its size, or keeps the one that it has: one thread at a time does this.
    ///
    /// # Errors
    /// As of [`Pool::resize`]; or pages could not be written in `patience`, since a device hangs.
    pub(crate) fn resize(self: &Arc<Self>, capacity: u64, patience: Duration) -> Result<(), Error> {
        check_size(capacity, self.page_size)?;
        let failed = |what: &str| Error::Failed(format!("cache {}: {what}", self.name));
        let before = self.pool.capacity();
        let (sender, receiver) = channel();
        let cache = Arc::clone(self);
        // Whoever asked may have gone.
        let resize = move || drop(sender.send(cache.pool.resize(capacity)));
        let thread = std::thread::Builder::new().name("resize".to_owned()).spawn(resize);
        thread.map_err(|error| failed(&format!("no thread to change its size: {error}")))?;
        let error = match receiver.recv_timeout(patience) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error @ forebay_pool::Error::Configuration(_))) => return Err(error.into()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("pages that have to leave could not be written in {} s", patience.as_secs()),
        };
        // Growing again waits for nothing.
        self.pool.resize(before)?;
        Err(failed(&format!("it keeps its size: {error}")))
    }
}

/// Refuses a size that is no multiple of the page.
pub(crate) fn check_size(capacity: u64, page_size: u32) -> Result<(), Error> {
    if page_size.is_power_of_two() && !capacity.is_multiple_of(page_size.into()) {
        return Err(Error::Usage(format!(
            "a cache of {capacity} bytes is no multiple of its page, {}",
            show_bytes(page_size.into())
        )));
    }
    Ok(())
}

/// The cache of volumes that have none of their own.
pub(crate) const SHARED: &str = "shared";
/// The name of programs' memory.
pub(crate) const MEMORY: &str = "memory";

pub(crate) const CACHE: u64 = 512 << 20;

/// The policy of a cache of which nothing is said.
pub(crate) fn default_policy() -> Spec {
    Spec::new(registry::named("clock-pro").expect("it is in the registry"))
}

/// What all have in common, if there are any.
pub(crate) fn common<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

impl ServiceOptions {
    pub(crate) fn cache_size(&self) -> u64 {
        self.cache.map_or(CACHE, |size| size.0)
    }

    pub(crate) fn policy(&self) -> Spec {
        self.policy.as_ref().map_or_else(default_policy, |policy| policy.0.clone())
    }

    /// The bytes of a page of the cache.
    pub(crate) fn page_size(&self) -> u64 {
        self.page.map_or(4096, |page| page.0)
    }

    /// What a recording says of this cache, and of the readahead and mode that all volumes or mounts of the service have.
    pub(crate) fn circumstances(&self, front_end: &str, readahead: Option<u64>, mode: Option<&str>) -> Circumstances {
        Circumstances {
            front_end: front_end.to_owned(),
            readahead: readahead.map(readahead_of),
            policy: Some(self.policy().label),
            cache: Some(self.cache_size()),
            policy_bytes: self.cache_config().ok().map(|config| config.policy_bytes()),
            mode: mode.map(str::to_owned),
            ..Circumstances::default()
        }
    }

    /// The cache of a service that has one. `layout`: where what it caches lies on disks, if the policy goes by that.
    pub(crate) fn shared_cache(&self, layout: Option<Arc<dyn Layout>>) -> Result<Cache, Error> {
        let mut config = self.cache_config()?;
        config.policy.layout = layout;
        Cache::new(SHARED, config)
    }

    fn cache_config(&self) -> Result<Config, Error> {
        self.config(self.cache_size(), self.policy(), self.page_size())
    }

    /// Refuses one cache that takes more memory than there is, `limit` bytes, with the program beside it.
    pub(crate) fn check_memory(&self, limit: u64) -> Result<(), Error> {
        let config = self.cache_config()?;
        if config.capacity.saturating_add(config.most_metadata()).saturating_add(memory::MOUNT) <= limit {
            return Ok(());
        }
        let [frames, metadata, program, limit] =
            [config.capacity, config.most_metadata(), memory::MOUNT, limit].map(show_bytes);
        Err(Error::Usage(format!(
            "a cache of {frames}, up to {metadata} of metadata and {program} for the program and its buffers need more memory than the {limit} that this machine, a \
             control group or `ulimit` allows: make --cache smaller"
        )))
    }

    pub(crate) fn config(&self, capacity: u64, policy: Spec, page_size: u64) -> Result<Config, Error> {
        // Metadata is by the page: of nonsense it would take more memory than there is.
        let page = u32::try_from(page_size).ok().filter(|page| page.is_power_of_two());
        let page = page.filter(|page| (LEAST_PAGE_SIZE..=MOST_PAGE_SIZE).contains(page));
        let page_size = page.ok_or_else(|| {
            Error::Usage(format!("a page of {page_size} bytes: it is a power of two from 4 KiB to 2 MiB"))
        })?;
        check_size(capacity, page_size)?;
        let mut config =
            Config::new(capacity, policy).with_page_size(page_size).with_most_capacity(memory::most_capacity(capacity));
        config.huge_pages = self.huge_pages;
        if let Some(share) = self.dirty_limit {
            config.dirty_limit = share.0;
        }
        if let Some(age) = self.dirty_age {
            config.dirty_age = age.0;
        }
        Ok(config)
    }

    /// The device model that files are delayed by.
    pub(crate) fn delay(&self) -> Result<Option<Arc<Model>>, Error> {
        let Some(name) = &self.delay else { return Ok(None) };
        let named: Result<Named, NoDevice> = name.parse();
        named.map(|named| Some(named.model)).map_err(|error| {
            let message = format!("--delay {name}: {error}");
            if matches!(error, NoDevice::Unreadable(_)) { Error::Failed(message) } else { Error::Usage(message) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_none_is_refused_before_its_metadata_is_counted() {
        let options = ServiceOptions { page: Some("3".parse().unwrap()), ..ServiceOptions::default() };
        let refused = options.check_memory(1 << 40).unwrap_err().to_string();
        assert!(refused.contains("a page of 3 bytes: it is a power of two from 4 KiB to 2 MiB"), "{refused}");
    }
}
