//! A server from its options to its last flush.

use crate::control;
use crate::error::Error;
use crate::export::VolumeExport;
use crate::listen::{self, Listen};
use crate::options::{Options, TlsMode};
use crate::record::Recorder;
use crate::report::{CacheReport, Report, VolumeReport};
use crate::signals::{self, Request};
use crate::volumes::{Attached, Cache};
use forebay_nbd::{Config, Export, Identity, Server, ServerCounts, Tls};
use forebay_pool::MOST_HANDLES;
use forebay_sim::Model;
use sd_notify::NotifyState;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a stopping server waits for the requests of its clients.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves volumes until a signal ends it: returns after everything is drained and flushed. On SIGHUP `reload` says the options anew.
///
/// # Errors
/// What keeps it from serving, or what could not be written at the end.
pub fn serve(options: Options, reload: impl Fn() -> Result<Options, Error>) -> Result<(), Error> {
    let requests = signals::listen()?;
    let inherited = listen::inherited()?;
    let (service, mut server) = Service::start(options)?;
    let mut bound = inherited;
    let mut addresses = service.options().listen.clone();
    if addresses.is_empty() && bound.is_empty() {
        addresses.push(Listen::Tcp("127.0.0.1:10809".to_owned()));
    }
    for address in &addresses {
        bound.push(listen::bind(address)?);
    }
    let metrics = service.options().metrics.map(|address| control::start(&service, address)).transpose()?;
    if let Some(recorder) = &service.recorder {
        recorder.begin()?;
    }
    let mut made = Vec::new();
    let mut listening = Vec::new();
    for socket in bound {
        server.listen(socket.listener)?;
        made.extend(socket.made);
        listening.push(socket.address);
    }
    *service.server() = Some(server);
    for address in listening {
        tracing::info!("listening on {address}");
    }
    if let Some(address) = metrics {
        tracing::info!("figures at http://{address}/metrics");
    }
    notify(&[NotifyState::Ready]);
    while let Ok(Request::Reload) = requests.recv() {
        match reload().and_then(|options| service.reload(&options)) {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => tracing::error!("the configuration was read again, and not all of it is in force: {error}"),
        }
    }
    tracing::info!("stopping: what is under way is finished, and everything flushed");
    notify(&[NotifyState::Stopping]);
    service.stop()
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

/// What is served now.
pub(crate) struct Service {
    began: Instant,
    delay: Option<Model>,
    recorder: Option<Arc<Recorder>>,
    serving: Mutex<Serving>,
    server: Mutex<Option<Server>>,
}

struct Serving {
    options: Options,
    shared: Option<Arc<Cache>>,
    exports: Vec<Arc<VolumeExport>>,
}

/// The most data in one request, unless it is said.
const MOST_REQUEST: u32 = 32 << 20;

impl Options {
    fn most_request(&self) -> u32 {
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

    fn nbd(&self) -> Result<Config, Error> {
        let mut config = Config { request_bytes: self.most_request(), tls: self.tls()?, ..Config::default() };
        self.limit_clients(&mut config)?;
        if let Some(workers) = self.workers {
            config.workers = workers;
        }
        let threads = config.workers.saturating_mul(self.volumes.len()).saturating_add(config.connections);
        if threads > MOST_HANDLES {
            return Err(Error::Usage(format!(
                "{} connections and {} workers for each volume are {threads} threads: a cache serves {MOST_HANDLES}; take fewer",
                config.connections, config.workers
            )));
        }
        Ok(config)
    }
}

impl Service {
    fn start(options: Options) -> Result<(Arc<Self>, Server), Error> {
        options.check_names()?;
        let config = options.nbd()?;
        let delay = options.delay()?;
        let recorder = options.record.as_deref().map(Recorder::new).transpose()?;
        let mut serving = Serving { options: options.clone(), shared: None, exports: Vec::new() };
        for volume in &options.volumes {
            serving.open(volume.name.as_str(), delay.as_ref(), recorder.as_ref())?;
        }
        let server = Server::new(serving.dynamic(), config)?;
        let service =
            Self { began: Instant::now(), delay, recorder, serving: Mutex::new(serving), server: Mutex::default() };
        Ok((Arc::new(service), server))
    }

    fn serving(&self) -> MutexGuard<'_, Serving> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> Options {
        self.serving().options.clone()
    }

    /// Takes over what can change while the server runs: volumes that come and go, and the size of the shared cache. What can be
    /// taken over is, whatever fails beside it; the errors are told together.
    fn reload(&self, new: &Options) -> Result<(), Error> {
        new.check_names()?;
        let mut serving = self.serving();
        let mut wrong = Vec::new();
        if serving.options.with_changes_of(new) != *new {
            wrong.push("only volumes and the size of the cache change without a restart".to_owned());
        }
        let mut cache = new.cache;
        if let Some(shared) = &serving.shared
            && new.cache_size() != serving.options.cache_size()
        {
            match shared.pool.resize(new.cache_size()) {
                Ok(()) => tracing::info!("the shared cache has {} bytes now", new.cache_size()),
                Err(error) => {
                    wrong.push(error.to_string());
                    cache = serving.options.cache;
                }
            }
        }
        serving.options = Options { cache, ..serving.options.with_changes_of(new) };
        let (kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut serving.exports)
            .into_iter()
            .partition(|export| new.volumes.iter().any(|volume| volume.name == export.name()));
        serving.exports = kept;
        for volume in &new.volumes {
            match serving.exports.iter().find(|export| export.name() == volume.name) {
                Some(export) if export.attached.options == *volume => {}
                Some(_) => wrong.push(format!(
                    "volume {}: its options change when it is removed first (SIGHUP), and then added",
                    volume.name
                )),
                None => match serving.open(&volume.name, self.delay.as_ref(), self.recorder.as_ref()) {
                    Ok(()) => tracing::info!("volume {}: added", volume.name),
                    Err(error) => wrong.push(error.to_string()),
                },
            }
        }
        if let Some(server) = &*self.server() {
            server.replace(serving.dynamic())?;
        }
        for export in removed {
            tracing::info!("volume {}: removed; clients that have it may stay", export.name());
            export.attached.remove();
        }
        if wrong.is_empty() { Ok(()) } else { Err(Error::Failed(wrong.join("; "))) }
    }

    /// Finishes what is under way, flushes, and completes the trace.
    fn stop(&self) -> Result<(), Error> {
        let server = self.server().take();
        if let Some(server) = server {
            let cut = server.stop(PATIENCE);
            if cut > 0 {
                tracing::warn!("{cut} connections were cut off after {} s", PATIENCE.as_secs());
            }
        }
        // Figures are told meanwhile, so no lock is held.
        let caches = self.serving().caches();
        let mut failures: Vec<String> = Vec::new();
        for cache in caches {
            failures.extend(cache.pool.flush().err().map(|error| error.to_string()));
        }
        let recorded = self.recorder.as_ref().map_or(Ok(()), |recorder| recorder.finish());
        failures.extend(recorded.err().map(|error| error.to_string()));
        if failures.is_empty() { Ok(()) } else { Err(Error::Failed(failures.join("; "))) }
    }

    pub(crate) fn report(&self) -> Report {
        let (counts, clients) = self.server().as_ref().map_or_else(
            || (ServerCounts::default(), HashMap::new()),
            |server| (server.counts(), server.exports().into_iter().collect()),
        );
        let recorded = self.recorder.as_ref().map(|recorder| recorder.counts());
        let mut report = Report {
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            connections: counts.open,
            connections_accepted: counts.accepted,
            connections_refused: counts.refused,
            connections_malformed: counts.malformed,
            recorded: recorded.map(|(recorded, _)| recorded),
            record_lost: recorded.map(|(_, lost)| lost),
            ..Report::default()
        };
        for cache in self.serving().caches() {
            let mut statistics = cache.pool.statistics();
            for volume in std::mem::take(&mut statistics.volumes) {
                let counts = clients.get(&volume.name).copied().unwrap_or_default();
                report.volumes.push(VolumeReport::new(&cache.name, volume, counts));
            }
            report.caches.push(CacheReport::new(&cache.name, statistics));
        }
        report
    }
}

impl Serving {
    /// Opens the volume of that name in the options.
    fn open(&mut self, name: &str, delay: Option<&Model>, recorder: Option<&Arc<Recorder>>) -> Result<(), Error> {
        let options = &self.options;
        let volume = options.volumes.iter().find(|volume| volume.name == name).expect("the caller has it from there");
        if !volume.own_cache() && self.shared.is_none() {
            self.shared = Some(Arc::new(options.shared_cache()?));
        }
        let attached: Arc<Attached> = options.attach(volume, self.shared.as_ref(), delay)?;
        self.exports.push(Arc::new(VolumeExport::new(attached, options.most_request(), recorder)));
        Ok(())
    }

    fn dynamic(&self) -> Vec<Arc<dyn Export>> {
        self.exports.iter().map(|export| Arc::clone(export) as Arc<dyn Export>).collect()
    }

    /// All caches, the shared one first.
    fn caches(&self) -> Vec<Arc<Cache>> {
        let own = self.exports.iter().filter(|export| export.attached.options.own_cache());
        self.shared.iter().chain(own.map(|export| &export.attached.cache)).cloned().collect()
    }
}
