//! What changes while a server runs: volumes come and go, caches change their size.
//!
//! SIGHUP and commands make the same changes. Each is made whole or not at all. One thread changes at a time (`changing`); the
//! lock of what is served is held for moments alone, so that a device that hangs keeps neither figures nor the stop waiting.

use crate::cache::Cache;
use crate::control::Steered;
use crate::declared::Declared;
use crate::error::Error;
use crate::memory;
use crate::volumes::attached::Attached;
use crate::volumes::export::VolumeExport;
use crate::volumes::options::Options;
use crate::volumes::volume::VolumeOptions;
use crate::volumes::{Served, Serving};
use crate::words::Size;
use forebay_basis::show_bytes;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a change waits for what is before it: another change, a cache's pages, a volume that is being closed.
pub(super) const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(5);

impl Served {
    /// Makes what is served what `new` says. Of several changes those that can be made are, whatever fails beside them. Answers which
    /// volumes were removed.
    ///
    /// # Errors
    /// Another change is under way; or [`Error::NotInForce`] with all that failed.
    pub(crate) fn change_all(self: &Arc<Self>, new: &Options) -> Result<Vec<String>, Error> {
        let _changing = self.begin_change()?;
        let before = self.options();
        let mut wrong: Vec<Error> = before.check_waiting(new).err().into_iter().collect();
        let mut note = |result: Result<(), Error>| wrong.extend(result.err());
        if new.service.cache_size() != before.service.cache_size() {
            note(self.resize_shared(new));
        }
        note(self.limit_dirty(new));
        let named = |name: &str| new.volumes.iter().any(|volume| volume.name == name);
        let mut removed = Vec::new();
        for volume in before.volumes.into_iter().filter(|volume| !named(&volume.name)) {
            note(self.remove(&volume.name));
            removed.push(format!("volume {} is removed{}", volume.name, volume.what_goes()));
        }
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        for volume in &new.volumes {
            let served = self.serving().served(&volume.name);
            let done = match served {
                Some(attached) if attached.options.same_but_limits(volume) => attached
                    .set_limits(volume.limits())
                    .and_then(|()| resize_own(&attached, new))
                    .and_then(|()| attached.measure(whole_seconds_to(deadline))),
                Some(attached) => Err(Error::Usage(format!(
                    "{} cannot change while it is served: remove it (SIGHUP), then add it",
                    attached.options.fixed_differences(volume).join(", ")
                ))),
                None => self.add(volume, deadline),
            };
            note(done.map_err(|error| error.of_volume(&volume.name)));
        }
        Error::of_all(wrong).map_err(|why| Error::NotInForce { why: Box::new(why), done: removed.clone() })?;
        Ok(removed)
    }

    /// Waits its turn, as there may be a change under way that waits for a device.
    fn begin_change(&self) -> Result<MutexGuard<'_, ()>, Error> {
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        loop {
            match self.changing.try_lock() {
                Ok(changing) => return Ok(changing),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(PoisonError::into_inner(poisoned)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Failed("another change is still under way: try again".to_owned()));
                }
            }
        }
    }

    /// Serves one more volume, and returns its bytes.
    pub(crate) fn attach(self: &Arc<Self>, volume: &VolumeOptions) -> Result<u64, Error> {
        volume.check()?;
        let _changing = self.begin_change()?;
        if self.serving().served(&volume.name).is_some() {
            return Err(Error::Usage(format!("there is a volume `{}` already: detach it first", volume.name)));
        }
        let mut options = self.options();
        options.volumes.push(volume.clone());
        options.check_memory(memory::limit())?;
        self.add(volume, Instant::now() + CHANGE_TIMEOUT)?;
        Ok(self.attached(&volume.name)?.volume.len())
    }

    /// Serves a volume no more.
    pub(crate) fn detach(self: &Arc<Self>, name: &str) -> Result<(), Error> {
        let _changing = self.begin_change()?;
        self.remove(name)
    }

    /// Changes the size of a cache.
    pub(crate) fn resize(&self, name: &str, size: Size) -> Result<(), Error> {
        let cache = self.cache(name)?;
        let _changing = self.begin_change()?;
        let mut options = self.options();
        match options.volumes.iter_mut().find(|volume| volume.own_cache() && volume.name == name) {
            Some(volume) => volume.size = Some(size),
            None => options.service.cache = Some(size),
        }
        options.check_memory(memory::limit())?;
        cache.resize(size.0, CHANGE_TIMEOUT)?;
        tracing::info!("cache {name}: it has {} now", show_bytes(size.0));
        let mut serving = self.serving();
        if serving.shared.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, &cache)) {
            serving.options.service.cache = Some(size);
        }
        Ok(())
    }

    /// The volume of that name.
    pub(crate) fn attached(&self, name: &str) -> Result<Arc<Attached>, Error> {
        let serving = self.serving();
        serving.served(name).ok_or_else(|| no_volume(name, &serving))
    }

    fn resize_shared(&self, new: &Options) -> Result<(), Error> {
        let shared = self.serving().shared.clone();
        if let Some(shared) = shared {
            shared.resize(new.service.cache_size(), CHANGE_TIMEOUT)?;
            tracing::info!("the shared cache has {} now", show_bytes(new.service.cache_size()));
        }
        self.serving().options.service.cache = new.service.cache;
        Ok(())
    }

    /// All caches keep to the same limits of what is dirty.
    fn limit_dirty(&self, new: &Options) -> Result<(), Error> {
        let caches = self.serving().caches();
        caches.iter().try_for_each(|cache| cache.limit_dirty(&new.service))?;
        let mut serving = self.serving();
        (serving.options.service.dirty_limit, serving.options.service.dirty_age) =
            (new.service.dirty_limit, new.service.dirty_age);
        Ok(())
    }

    /// Opens a volume and serves it. One that was removed, and whose clients have stayed, returns as it is.
    fn add(self: &Arc<Self>, volume: &VolumeOptions, deadline: Instant) -> Result<(), Error> {
        volume.check_apart(&self.options().volumes)?;
        if let Some(attached) = self.take_back(volume) {
            self.serve_volume(&attached)?;
            attached.set_limits(volume.limits())?;
            resize_own(&attached, &self.options())?;
            tracing::info!("volume {}: it is back, as it was", volume.name);
            return Ok(());
        }
        self.wait_closed(volume, deadline)?;
        let options = self.options();
        self.check_handles(&options, volume)?;
        let shared = if volume.own_cache() { None } else { Some(self.shared_cache(&options)?) };
        let patience = options.service.device_timeout.map_or(CHANGE_TIMEOUT, |timeout| timeout.0.max(CHANGE_TIMEOUT));
        let attach = || options.attach(volume, shared.as_ref(), self.delay.as_ref(), Some(patience));
        let attached = wait_free(volume, deadline, attach)?;
        self.serve_volume(&attached)?;
        tracing::info!("volume {}: added", volume.name);
        Ok(())
    }

    /// The volume among those that leave, if it is not being closed yet.
    fn take_back(&self, volume: &VolumeOptions) -> Option<Arc<Attached>> {
        let mut serving = self.serving();
        let place = serving
            .leaving
            .iter()
            .position(|leaving| leaving.options.same_but_limits(volume) && leaving.return_to_service())?;
        Some(serving.leaving.swap_remove(place))
    }

    /// Waits until no volume that leaves has a file of this one.
    fn wait_closed(&self, volume: &VolumeOptions, deadline: Instant) -> Result<(), Error> {
        let in_the_way = |leaving: &&Arc<Attached>| leaving.options.excludes(volume);
        let devices: Vec<_> =
            self.serving().leaving.iter().filter(in_the_way).map(|leaving| leaving.device()).collect();
        while devices.iter().any(|device| device.strong_count() > 0) {
            if Instant::now() > deadline {
                let name = self.serving().leaving.iter().find(in_the_way).map(|leaving| leaving.options.name.clone());
                let why = name.map_or_else(
                    || "it is being closed".to_owned(),
                    |name| format!("volume {name} was removed, and its clients stay or its device hangs"),
                );
                let what = format!("{} is still open: {why}", volume.path);
                return Err(Error::Failed(what).of_volume(&volume.name));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether the cache has a handle for each thread of one more volume.
    fn check_handles(&self, options: &Options, volume: &VolumeOptions) -> Result<(), Error> {
        let sharing = || self.serving().attached().iter().filter(|attached| !attached.options.own_cache()).count();
        let volumes = if volume.own_cache() { 1 } else { sharing() + 1 };
        options.check_handles(&options.nbd()?, volumes).map_err(|error| error.of_volume(&volume.name))
    }

    /// The cache that volumes share, which the first of them has made.
    fn shared_cache(&self, options: &Options) -> Result<Arc<Cache>, Error> {
        if let Some(shared) = &self.serving().shared {
            return Ok(Arc::clone(shared));
        }
        let shared = Arc::new(options.shared_cache()?);
        self.serving().shared = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// Shows a volume to clients, or closes it.
    fn serve_volume(self: &Arc<Self>, attached: &Arc<Attached>) -> Result<(), Error> {
        let mut serving = self.serving();
        let export = VolumeExport::new(attached, serving.options.most_request(), &self.frame.recorder);
        let exports = serving.exports.iter().cloned().chain([Arc::new(export)]).collect();
        let published = self.publish(&mut serving, exports);
        match published {
            Ok(()) => serving.options.volumes.push(attached.options.clone()),
            Err(_) => self.let_leave(serving, Arc::clone(attached)),
        }
        published.map_err(|error| error.of_volume(&attached.options.name))
    }

    /// Hides a volume from new clients, and closes it when those that have it have left.
    fn remove(self: &Arc<Self>, name: &str) -> Result<(), Error> {
        let mut serving = self.serving();
        let attached = serving.served(name).ok_or_else(|| no_volume(name, &serving))?;
        let kept = serving.exports.iter().filter(|export| export.attached().options.name != name).cloned().collect();
        self.publish(&mut serving, kept)?;
        serving.options.volumes.retain(|volume| volume.name != name);
        tracing::info!("volume {name}: removed; clients that have it may stay");
        self.let_leave(serving, attached);
        Ok(())
    }

    fn let_leave(self: &Arc<Self>, mut serving: MutexGuard<'_, Serving>, attached: Arc<Attached>) {
        serving.leaving.push(Arc::clone(&attached));
        drop(serving);
        let service = Arc::downgrade(self);
        attached.leave(move |closed| {
            if let Some(service) = service.upgrade() {
                service.serving().leaving.retain(|leaving| !Arc::ptr_eq(leaving, closed));
            }
        });
    }

    /// Serves these exports alone, or goes on as before.
    fn publish(&self, serving: &mut Serving, exports: Vec<Arc<VolumeExport>>) -> Result<(), Error> {
        if serving.stopping {
            return Err(Error::Failed("the server is stopping".to_owned()));
        }
        if let Some(server) = &*self.server() {
            server.replace(Serving::dynamic(&exports))?;
        }
        serving.exports = exports;
        Ok(())
    }
}

/// Attaches a volume, again and again until `deadline` while its storage is open elsewhere: that of a volume which was just removed is
/// closed a moment after its last use, and may have been named otherwise.
fn wait_free(
    volume: &VolumeOptions,
    deadline: Instant,
    attach: impl Fn() -> Result<Arc<Attached>, Error>,
) -> Result<Arc<Attached>, Error> {
    let begun = Instant::now();
    loop {
        match attach() {
            Err(error) if error.is_in_use() && Instant::now() < deadline => std::thread::sleep(LOOK),
            Err(Error::OfVolume { error, .. }) if error.is_in_use() => {
                let waited = begun.elapsed().as_secs();
                let what = format!("{error}; waited {waited} seconds for {} to be closed", volume.path);
                return Err(Error::InUse(what).of_volume(&volume.name));
            }
            done => return done,
        }
    }
}

fn no_volume(name: &str, serving: &Serving) -> Error {
    let names: Vec<&str> = serving.options.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let there =
        if names.is_empty() { "none is served".to_owned() } else { format!("choose from {}", names.join(", ")) };
    Error::Usage(format!("there is no volume `{name}`; {there}"))
}

/// The time until then, as people say it.
fn whole_seconds_to(deadline: Instant) -> Duration {
    Duration::from_secs_f64(deadline.saturating_duration_since(Instant::now()).as_secs_f64().ceil())
}

/// Gives a volume's own cache the size that the configuration says.
fn resize_own(attached: &Attached, new: &Options) -> Result<(), Error> {
    let (options, cache) = (&attached.options, &attached.cache);
    if !options.own_cache() || cache.pool.capacity() == new.own_size(options) {
        return Ok(());
    }
    cache.resize(new.own_size(options), CHANGE_TIMEOUT)?;
    tracing::info!("cache {}: it has {} now", cache.name, show_bytes(new.own_size(options)));
    Ok(())
}
