//! A server from its options to its last flush.

use crate::attached::Attached;
use crate::command_socket;
use crate::control;
use crate::error::Error;
use crate::export::VolumeExport;
use crate::flushes::Flushes;
use crate::listen::{self, Listen};
use crate::memory;
use crate::options::{Options, TlsMode};
use crate::record::{self, Recorder};
use crate::report::{CacheReport, Report, VolumeReport};
use crate::signals::{self, Request};
use crate::volume_options::Mode;
use crate::volumes::Cache;
use forebay_model::Model;
use forebay_nbd::{Config, Export, Identity, Server, ServerCounts, Tls};
use forebay_policy::show_bytes;
use forebay_pool::HANDLES;
use sd_notify::NotifyState;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a stopping server waits for the requests of its clients.
const CLIENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the options again.
pub type Reload<O> = Box<dyn Fn() -> Result<O, Error> + Send + Sync>;

/// What a running server asks of the program that it runs in.
pub struct Hooks {
    /// Says the options anew, on SIGHUP and when a command asks for it, if there is a file to read them from.
    pub reload: Option<Reload<Options>>,
    /// Changes what is logged.
    pub log: SetLog,
}

/// Changes what is logged to what a text like that of `--log` says.
pub type SetLog = Box<dyn Fn(&str) -> Result<(), Error> + Send + Sync>;

/// Serves volumes until a signal ends it: returns after everything is drained and flushed.
///
/// # Errors
/// What keeps it from serving, or what could not be written at the end.
pub fn serve(options: Options, hooks: Hooks) -> Result<(), Error> {
    let (_, requests) = signals::listen()?;
    // Options that make no sense are refused as such, whoever else listens there.
    let prepared = Prepared::new(options)?;
    let mut bound = listen::inherited()?;
    let mut addresses = prepared.options.listen.clone();
    if addresses.is_empty() && bound.is_empty() {
        addresses.push(Listen::Tcp("127.0.0.1:10809".to_owned()));
    }
    for address in &addresses {
        bound.push(listen::bind(address)?);
    }
    // Now: what it makes is not left behind where another server listens already.
    let (service, mut server) = Service::start(prepared, hooks)?;
    let metrics = service.options().service.metrics.as_ref().map(control::bind).transpose()?;
    let metrics = metrics.map(|listener| control::start(service.clone(), listener)).transpose()?;
    let control = service.options().service.control.as_deref().map(command_socket::bind).transpose()?;
    let mut made = Vec::new();
    if let Some(path) = &service.options().service.record {
        service.recorder.begin(path)?;
    }
    let mut listening = Vec::new();
    for socket in bound {
        server.listen(socket.listener)?;
        made.extend(socket.made);
        listening.push(socket.address);
    }
    let tls = matches!(service.options().tls()?, Tls::Required(_));
    *service.server() = Some(server);
    service.introduce();
    for address in listening {
        tracing::info!("listening on {address}");
        if !tls && is_open(&address) {
            tracing::warn!(
                "whoever reaches {address} can read and write the volumes: take --tls-certificates, or 127.0.0.1"
            );
        }
    }
    if let Some((listener, socket)) = control {
        command_socket::start(service.clone(), listener)?;
        tracing::info!("commands are taken at {}", socket.path().display());
        made.push(socket);
    }
    if let Some(address) = metrics {
        tracing::info!("figures at http://{address}/metrics");
    }
    let reloading = Arc::clone(&service);
    // What clients have written by then is flushed, even if it cannot go on.
    let served = serve_until_stopped(&requests, move || drop(reloading.read_again()));
    tracing::info!("stopping: what is under way is finished, and everything flushed");
    let stopped = service.stop();
    if stopped.is_ok() {
        tracing::info!("stopped: everything is flushed");
    }
    // What it holds waits for devices when it is dropped, and there may be one that hangs.
    std::mem::forget(service);
    stopped.and(served)
}

/// Whether others than this machine reach an address.
fn is_open(address: &str) -> bool {
    let Some((host, _)) = address.strip_prefix("tcp:").and_then(|address| address.rsplit_once(':')) else {
        return false;
    };
    let host = host.trim_matches(['[', ']']);
    host.parse::<IpAddr>().map_or(host != "localhost", |host| !host.is_loopback())
}

/// Says that the service is ready, and reads options again, by `reload`, until somebody asks to stop it.
pub(crate) fn serve_until_stopped(
    requests: &Receiver<Request>,
    reload: impl Fn() + Send + 'static,
) -> Result<(), Error> {
    notify(&[NotifyState::Ready]);
    // One more may wait: it reads what is there when its turn comes, so that the next ones ask for nothing else.
    let (reloads, asked) = sync_channel(1);
    // The log says what came of it.
    let reload = move || asked.iter().for_each(|()| reload());
    let thread = std::thread::Builder::new().name("reload".to_owned()).spawn(reload);
    thread.map_err(|error| Error::Failed(format!("no thread to read the configuration again: {error}")))?;
    while let Ok(Request::Reload) = requests.recv() {
        // If one waits already, that is enough.
        let _ = reloads.try_send(());
    }
    notify(&[NotifyState::Stopping]);
    Ok(())
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be notified: {error}");
    }
}

/// What is served now.
pub(crate) struct Service {
    began: Instant,
    pub(crate) delay: Option<Arc<Model>>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) hooks: Hooks,
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

/// The most data in one request, unless it is said.
const MOST_REQUEST: u32 = 32 << 20;

impl Options {
    pub(crate) fn most_request(&self) -> u32 {
        self.max_request.map_or(MOST_REQUEST, |size| u32::try_from(size.0).unwrap_or(u32::MAX))
    }

    fn tls(&self) -> Result<Tls, Error> {
        let tls = &self.tls;
        let files = match (&tls.certificates, &tls.cert, &tls.key) {
            (Some(folder), None, None) => Some((folder.join("server-cert.pem"), folder.join("server-key.pem"))),
            (None, Some(cert), Some(key)) => Some((cert.clone(), key.clone())),
            (None, None, None) => None,
            _ => {
                return Err(Error::Usage(
                    "TLS: give a folder of certificates, or a certificate and its key".to_owned(),
                ));
            }
        };
        let Some((cert, key)) = files else {
            return match tls.mode {
                Some(TlsMode::Allow | TlsMode::Require) => {
                    let what = "TLS needs --tls-certificates FOLDER, or --tls-cert FILE and --tls-key FILE";
                    Err(Error::Usage(what.to_owned()))
                }
                _ if tls.ca.is_some() => Err(Error::Usage("--tls-ca is of no use without a certificate".to_owned())),
                _ => Ok(Tls::Off),
            };
        };
        let identity = || Identity::from_files(&cert, &key, tls.ca.as_deref());
        Ok(match tls.mode {
            Some(TlsMode::Off) => Tls::Off,
            Some(TlsMode::Allow) => Tls::Allowed(identity()?),
            Some(TlsMode::Require) | None => Tls::Required(identity()?),
        })
    }

    pub(crate) fn nbd(&self) -> Result<Config, Error> {
        let mut config = Config { request_bytes: self.most_request(), tls: self.tls()?, ..Config::default() };
        self.limit_clients(&mut config)?;
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        let sharing = self.volumes.iter().filter(|volume| !volume.own_cache()).count();
        self.check_handles(&config, sharing.max(1))?;
        Ok(config)
    }

    /// Whether a cache of this many volumes has a handle for each thread that may use it.
    pub(crate) fn check_handles(&self, config: &Config, volumes: usize) -> Result<(), Error> {
        let threads = config.workers.saturating_mul(volumes).saturating_add(config.connections);
        if threads > HANDLES {
            return Err(Error::Usage(format!(
                "{} connections and {} workers for each of {volumes} volumes of a cache are {threads} threads: \
                 it serves {HANDLES}; take fewer",
                config.connections, config.workers
            )));
        }
        Ok(())
    }
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
        options.service.record.as_deref().map_or(Ok(()), |path| record::check(&record::free(path)))?;
        let shared = options.volumes.iter().any(|volume| !volume.own_cache()).then(|| options.shared_cache());
        let shared = shared.transpose()?.map(Arc::new);
        Ok(Self { options, config, delay, shared })
    }
}

impl Service {
    fn start(prepared: Prepared, hooks: Hooks) -> Result<(Arc<Self>, Server), Error> {
        let Prepared { options, config, delay, shared } = prepared;
        let recorder = Arc::new(Recorder::new(options.recorded_page_size()));
        let mut exports = Vec::new();
        for volume in &options.volumes {
            let attached = options.attach(volume, shared.as_ref(), delay.as_ref(), None)?;
            exports.push(Arc::new(VolumeExport::new(&attached, options.most_request(), &recorder)));
        }
        let server = Server::new(Serving::dynamic(&exports), config)?;
        let serving = Serving { options, shared, exports, leaving: Vec::new(), stopping: false };
        let service = Self {
            began: Instant::now(),
            delay,
            recorder,
            hooks,
            serving: Mutex::new(serving),
            server: Mutex::default(),
            changing: Mutex::default(),
        };
        Ok((Arc::new(service), server))
    }

    /// Says in the log what is served.
    fn introduce(&self) {
        let serving = self.serving();
        tracing::info!("forebay {}", env!("CARGO_PKG_VERSION"));
        for cache in serving.caches() {
            tracing::info!("cache {}: {} under {}", cache.name, show_bytes(cache.pool.capacity()), cache.policy);
        }
        for export in &serving.exports {
            let attached = export.attached();
            let options = &attached.options;
            let mode = match options.mode {
                _ if options.read_only => "read-only",
                Mode::WriteBack => "write-back",
                Mode::WriteThrough => "write-through",
            };
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
        let (mut failures, recorded) = std::thread::scope(|scope| {
            let recorded = scope.spawn(|| self.recorder.within(limit, Recorder::stop));
            let failures = Flushes::begin(volumes).wait(limit);
            (failures, recorded.join().expect("the work that may panic has another thread"))
        });
        match recorded {
            Ok(None) => {}
            Ok(Some(recorded)) if recorded.lost > 0 => tracing::warn!("{recorded}"),
            Ok(Some(recorded)) => tracing::info!("{recorded}"),
            Err(error) => failures.push(error.to_string()),
        }
        if failures.is_empty() { Ok(()) } else { Err(Error::Failed(failures.join("; "))) }
    }

    pub(crate) fn figures(&self) -> Report {
        let (counts, clients) = self.server().as_ref().map_or_else(
            || (ServerCounts::default(), HashMap::new()),
            |server| (server.counts(), server.exports().into_iter().collect()),
        );
        let recorded = self.recorder.counts();
        let mut report = Report {
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            connections: counts,
            recorded: recorded.map(|(recorded, _)| recorded),
            record_lost: recorded.map(|(_, lost)| lost),
            ..Report::default()
        };
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
