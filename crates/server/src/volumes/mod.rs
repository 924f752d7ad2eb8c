//! Volumes, served over NBD from the first connection to the last flush.

mod attached;
mod behind;
mod changes;
mod export;
mod flushes;
pub(crate) mod options;
pub(crate) mod source;
pub(crate) mod volume;

use crate::cache::Cache;
use crate::control::{Answer, Command, Steered, dirty, done, with_figures};
use crate::error::Error;
use crate::figures::{CacheReport, Report, VolumeReport};
use crate::frame::{Beside, Frame, Hooks, Reload, Service, run};
use crate::listen::{self, Bound, Listen, Made};
use crate::memory;
use crate::signals;
use crate::volumes::attached::Attached;
use crate::volumes::changes::CHANGE_TIMEOUT;
use crate::volumes::export::VolumeExport;
use crate::volumes::flushes::Flushes;
use crate::volumes::options::Options;
use crate::volumes::volume::{VolumeLimits, VolumeOptions};
use forebay_basis::show_bytes;
use forebay_model::Model;
use forebay_nbd::{Config, Export, Server, ServerCounts, Tls};
use forebay_pool::Hint;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a stopping server waits for the requests of its clients.
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves volumes until a signal ends it: returns after everything is drained and flushed.
///
/// # Errors
/// What keeps it from serving, or what could not be written at the end.
pub fn serve(options: Options, hooks: Hooks<Options>) -> Result<(), Error> {
    let (_, requests) = signals::listen(signals::UNWRITTEN)?;
    // Options that make no sense are refused as such, whoever else listens there.
    let prepared = Prepared::new(options)?;
    let beside = Beside::bind(&prepared.options.service.beside)?;
    let mut bound = listen::inherited()?;
    let mut addresses = prepared.options.listen.clone();
    if addresses.is_empty() && bound.is_empty() {
        addresses.push(Listen::Tcp("127.0.0.1:10809".to_owned()));
    }
    for address in &addresses {
        bound.push(listen::bind(address)?);
    }
    // Now: what it makes is not left behind where another server listens already.
    let Hooks { reload, log, ready } = hooks;
    let of_volumes = &prepared.options;
    let frame = Frame::new(of_volumes.recorded_page_size(), of_volumes.circumstances(), log);
    let service = Served::start(prepared, frame, reload)?;
    run(service, beside, &requests, |service, made| {
        service.begin(bound, made)?;
        ready();
        Ok(())
    })
}

/// Whether others than this machine reach an address.
fn is_open(address: &str) -> bool {
    let Some((host, _)) = address.strip_prefix("tcp:").and_then(|address| address.rsplit_once(':')) else {
        return false;
    };
    let host = host.trim_matches(['[', ']']);
    host.parse::<IpAddr>().map_or(host != "localhost", |host| !host.is_loopback())
}

/// What is served now.
pub(crate) struct Served {
    pub(crate) frame: Frame,
    reload: Option<Reload<Options>>,
    pub(crate) delay: Option<Arc<Model>>,
    serving: Mutex<Serving>,
    server: Mutex<Option<Server>>,
    /// Held by whoever changes what is served.
    pub(crate) changing: Mutex<()>,
}

/// What is served. Its lock is never held while a device works.
pub(crate) struct Serving {
    pub(crate) options: Options,
    pub(crate) shared: Option<Arc<Cache>>,
    pub(crate) exports: Vec<Arc<VolumeExport>>,
    /// Removed, and not yet closed: clients that have them may stay.
    pub(crate) leaving: Vec<Arc<Attached>>,
    /// Nothing is added any more.
    pub(crate) stopping: bool,
}

/// What there is before any storage is opened.
struct Prepared {
    options: Options,
    config: Config,
    delay: Option<Arc<Model>>,
    shared: Option<Arc<Cache>>,
}

impl Prepared {
    fn new(options: Options) -> Result<Self, Error> {
        options.check_names()?;
        options.check_memory(memory::limit())?;
        let config = options.nbd()?;
        let delay = options.service.delay()?;
        let shared = options.volumes.iter().any(|volume| !volume.own_cache()).then(|| options.shared_cache());
        let shared = shared.transpose()?.map(Arc::new);
        Ok(Self { options, config, delay, shared })
    }
}

impl Served {
    fn start(prepared: Prepared, frame: Frame, reload: Option<Reload<Options>>) -> Result<Arc<Self>, Error> {
        let Prepared { options, config, delay, shared } = prepared;
        let mut exports = Vec::new();
        for volume in &options.volumes {
            // To open a volume may take several requests.
            let patience = options.service.device_timeout.map(|timeout| timeout.0.max(CHANGE_TIMEOUT));
            let attached = options.attach(volume, shared.as_ref(), delay.as_ref(), patience)?;
            exports.push(Arc::new(VolumeExport::new(&attached, options.most_request(), &frame.recorder)));
        }
        let server = Server::new(Serving::dynamic(&exports), config)?;
        let serving = Serving { options, shared, exports, leaving: Vec::new(), stopping: false };
        Ok(Arc::new(Self {
            frame,
            reload,
            delay,
            serving: Mutex::new(serving),
            server: Mutex::new(Some(server)),
            changing: Mutex::default(),
        }))
    }

    /// Lets clients in, and says so.
    fn begin(&self, bound: Vec<Bound>, made: &mut Vec<Made>) -> Result<(), Error> {
        self.introduce();
        let tls = matches!(self.options().tls()?, Tls::Required(_));
        for Bound { listener, address, made: socket } in bound {
            if let Some(server) = &mut *self.server() {
                server.listen(listener)?;
            }
            made.extend(socket);
            tracing::info!("listening on {address}");
            if !tls && is_open(&address) {
                tracing::warn!(
                    "whoever reaches {address} can read and write the volumes: take --tls-certificates, or 127.0.0.1"
                );
            }
        }
        Ok(())
    }

    /// Says in the log what is served.
    fn introduce(&self) {
        let serving = self.serving();
        for cache in serving.caches() {
            tracing::info!("cache {}: {} under {}", cache.name, show_bytes(cache.pool.capacity()), cache.policy);
        }
        for export in &serving.exports {
            let attached = export.attached();
            let options = &attached.options;
            let mode = options.mode_in_words();
            tracing::info!("volume {}: {}, {mode}, behind cache {}", options.name, options.path, attached.cache.name);
        }
    }

    pub(crate) fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> Options {
        self.serving().options.clone()
    }

    /// How long devices are waited for that take nothing.
    pub(crate) fn hangs_after(&self) -> Duration {
        self.serving().options.service.patience()
    }

    fn flush(&self, volume: Option<&str>) -> Result<Answer, Error> {
        let volumes = match volume {
            Some(name) => vec![self.attached(name)?],
            None => self.serving().attached(),
        };
        let what = volume.map_or_else(|| "all volumes".to_owned(), |name| format!("volume {name}"));
        Flushes::begin(volumes).wait(self.hangs_after())?;
        done(format!("{what}: durable"))
    }
}

impl Service for Served {
    type Options = Options;

    fn reload(&self) -> Option<&Reload<Options>> {
        self.reload.as_ref()
    }

    fn take_over(self: &Arc<Self>, new: &Options) -> Result<Vec<String>, Error> {
        new.check_names()?;
        new.check_memory(memory::limit())?;
        self.change_all(new)
    }

    /// Finishes what is under way, makes all volumes durable, also those that leave, and completes the trace.
    fn stop(&self) -> Result<(), Error> {
        self.serving().stopping = true;
        let server = self.server().take();
        // What is dirty is written while clients finish: a second signal then finds little left to lose.
        Flushes::begin(self.serving().attached());
        if let Some(server) = server {
            let cut = server.stop(CLIENTS_TIMEOUT);
            if cut > 0 {
                tracing::warn!("{cut} connections were cut off after {} s", CLIENTS_TIMEOUT.as_secs());
            }
        }
        // What failed before is tried again, and the answer of that counts.
        let limit = self.hangs_after();
        // A lock taken within the statement would be held until all have ended, and figures would wait.
        let volumes = self.serving().attached();
        let flushes = Flushes::begin(volumes);
        let recorded = self.frame.stop_recording(limit);
        let flushed = flushes.wait(limit);
        Error::of_all([flushed.err(), recorded.err()].into_iter().flatten())
    }
}

impl Steered for Served {
    fn report(&self) -> Report {
        let (counts, clients) = self.server().as_ref().map_or_else(
            || (ServerCounts::default(), HashMap::new()),
            |server| (server.counts(), server.exports().into_iter().collect()),
        );
        let mut report = Report { connections: counts, ..self.frame.report() };
        for cache in self.serving().caches() {
            if report.caches.iter().any(|before| before.name == cache.name) {
                // It belongs to a volume that leaves, and whose name another has.
                continue;
            }
            let mut statistics = cache.pool.statistics();
            let mut volumes = std::mem::take(&mut statistics.volumes);
            let mut rows = Vec::with_capacity(volumes.len());
            while let Some(volume) = volumes.pop() {
                // Of two of one name the one before leaves.
                volumes.retain(|before| before.name != volume.name);
                let counts = clients.get(&volume.name).cloned().unwrap_or_default();
                rows.push(VolumeReport { cache: cache.name.clone(), pool: volume, clients: counts });
            }
            report.volumes.extend(rows.into_iter().rev());
            report.caches.push(CacheReport { name: cache.name.clone(), pool: statistics });
        }
        report
    }

    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn patience(&self) -> Duration {
        self.hangs_after()
    }

    /// The cache of that name.
    fn cache(&self, name: &str) -> Result<Arc<Cache>, Error> {
        let caches = self.serving().caches();
        caches.iter().find(|cache| cache.name == name).cloned().ok_or_else(|| {
            let names: Vec<&str> = caches.iter().map(|cache| cache.name.as_str()).collect();
            Error::Usage(format!("there is no cache `{name}`; choose from {}", names.join(", ")))
        })
    }

    fn execute_own(self: Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Resize { cache, size } => {
                self.resize(&cache, size)?;
                with_figures(format!("cache {cache}: it has {} now", show_bytes(size.0)), [("bytes", size.0)])
            }
            Command::Flush { volume } => self.flush(volume.as_deref()),
            Command::Drop { volume } => {
                let attached = self.attached(&volume)?;
                let pages = attached.cache.pool.drop_clean(&attached.volume);
                let bytes = pages * u64::from(attached.cache.page_size);
                let message = format!("volume {volume}: {} of clean pages have left its cache", show_bytes(bytes));
                with_figures(message, [("pages", pages), ("bytes", bytes)])
            }
            Command::Evicted { volume, offset, length, hits, dirty } => {
                let attached = self.attached(&volume)?;
                let hint = Hint::EvictedAbove { offset: offset.0, length: length.0, hits, dirty };
                attached.cache.pool.handle()?.hint(&attached.volume, hint)?;
                done(format!("volume {volume}: the policy knows of it"))
            }
            Command::Attach { volume } => {
                let volume: VolumeOptions = volume.parse().map_err(Error::Usage)?;
                let bytes = self.attach(&volume)?;
                with_figures(format!("volume {}: {} are served", volume.name, show_bytes(bytes)), [("bytes", bytes)])
            }
            Command::Detach { volume } => {
                let goes = self.attached(&volume)?.options.what_goes();
                self.detach(&volume)?;
                done(format!("volume {volume}: removed; clients that have it may stay{goes}"))
            }
            Command::Rate { volume, rate, iops } => {
                let change = |limits: &mut VolumeLimits| {
                    limits.rate = rate.map_or(limits.rate, |rate| rate.0);
                    limits.iops = iops.map_or(limits.iops, |iops| iops.0);
                };
                done(format!("volume {volume}: {}", self.attached(&volume)?.change_limits(change)?))
            }
            Command::Connections { volume, limit } => {
                let change = |limits: &mut VolumeLimits| {
                    limits.connections = limit.map_or(limits.connections, |limit| limit.0);
                };
                done(format!("volume {volume}: {}", self.attached(&volume)?.change_limits(change)?))
            }
            Command::Dirty { cache, limit, age } => dirty(&*self.cache(&cache)?, limit, age),
            Command::Reload {} => done(self.read_again()?),
            Command::Manage { .. } | Command::Abdicate { .. } | Command::Hint { .. } | Command::Managers {} => {
                let message =
                    "managers of files and hints are a mount's; a volume of lru-sp has the option manager=NAME";
                Err(Error::Usage(message.to_owned()))
            }
            other => unreachable!("{other} is done alike by all services"),
        }
    }
}

impl Serving {
    /// The volume of that name, if it is served.
    pub(crate) fn served(&self, name: &str) -> Option<Arc<Attached>> {
        self.exports.iter().map(|export| export.attached()).find(|found| found.options.name == name).cloned()
    }

    pub(crate) fn dynamic(exports: &[Arc<VolumeExport>]) -> Vec<Arc<dyn Export>> {
        exports.iter().map(|export| Arc::clone(export) as Arc<dyn Export>).collect()
    }

    /// All volumes behind caches: those that are served, and those that leave.
    pub(crate) fn attached(&self) -> Vec<Arc<Attached>> {
        self.exports.iter().map(|export| export.attached()).chain(&self.leaving).cloned().collect()
    }

    /// All caches, the shared one first.
    pub(crate) fn caches(&self) -> Vec<Arc<Cache>> {
        let attached = self.attached();
        let own = attached.iter().filter(|attached| attached.options.own_cache());
        self.shared.iter().chain(own.map(|attached| &attached.cache)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_reach_is_open() {
        let open = |address| is_open(address);
        assert!(
            ["tcp:0.0.0.0:10809", "tcp:[::]:1", "tcp:192.168.1.2:1", "tcp:storage.example:1"].into_iter().all(open)
        );
        assert!(!["tcp:127.0.0.1:1", "tcp:[::1]:1", "tcp:localhost:1", "unix:/run/socket"].into_iter().any(open));
    }
}
