//! What all services have in common, whatever they show: the sockets beside them, a recorder, a log, and a life from the first socket
//! to the last flush.
//!
//! ```text
//!   Beside::bind    figures and commands have their sockets, the trace a name: nothing is made yet
//!   a service opens its storage and its cache, around a Frame
//!   run             recording, figures and commands begin, then the service itself; until a signal stops it
//!   Service::stop   all is flushed, and the trace is whole
//! ```

use crate::control::Steered;
use crate::control::socket;
use crate::error::Error;
use crate::figures::Report;
use crate::figures::page;
use crate::listen::Made;
use crate::options::BesideOptions;
use crate::record::{self, Recorded, Recorder};
use crate::signals::Request;
use forebay_trace::Circumstances;
use sd_notify::NotifyState;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// What a running service asks of the program that it runs in.
pub struct Hooks<O> {
    /// Says the options anew, on SIGHUP and when a command asks for it, if there is a file to read them from.
    pub reload: Option<Reload<O>>,
    /// Changes what is logged.
    pub log: SetLog,
    /// Called when all is served.
    pub ready: Box<dyn FnOnce()>,
}

/// Reads the options again.
pub type Reload<O> = Box<dyn Fn() -> Result<O, Error> + Send + Sync>;

/// Changes what is logged to what a text like that of `--log` says.
pub type SetLog = Box<dyn Fn(&str) -> Result<(), Error> + Send + Sync>;

/// The part of a running service that all have.
pub(crate) struct Frame {
    began: Instant,
    pub(crate) recorder: Arc<Recorder>,
    log: SetLog,
}

impl Frame {
    /// Of a service whose references are to be replayed at this page size, and are recorded under these circumstances.
    pub(crate) fn new(page_size: u64, circumstances: Circumstances, log: SetLog) -> Self {
        Self { began: Instant::now(), recorder: Arc::new(Recorder::new(page_size, circumstances)), log }
    }

    /// Changes what is logged.
    pub(crate) fn set_log(&self, level: &str) -> Result<(), Error> {
        (self.log)(level)
    }

    /// The figures that all services have; the others are 0.
    pub(crate) fn report(&self) -> Report {
        let recorded = self.recorder.counts();
        Report {
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            recorded: recorded.map(|(recorded, _)| recorded),
            record_lost: recorded.map(|(_, lost)| lost),
            ..Report::default()
        }
    }

    /// Completes the trace, if one is recorded.
    pub(crate) fn stop_recording(&self, patience: Duration) -> Result<Option<Recorded>, Error> {
        let recorded = self.recorder.within(patience, Recorder::stop)?;
        match &recorded {
            None => {}
            Some(recorded) if recorded.lost > 0 => tracing::warn!("{recorded}"),
            Some(recorded) => tracing::info!("{recorded}"),
        }
        Ok(recorded)
    }
}

/// A running service, which commands steer.
pub(crate) trait Service: Steered + Sized + 'static {
    /// What it may be asked to read again.
    type Options;

    /// How its options are read again, if there is a file of them.
    fn reload(&self) -> Option<&Reload<Self::Options>>;

    /// Takes over what of new options can change while it runs. Answers what is to be known of that.
    ///
    /// # Errors
    /// [`Error::NotInForce`] if the rest is in force; any other, and nothing has changed.
    fn take_over(self: &Arc<Self>, new: &Self::Options) -> Result<Vec<String>, Error>;

    /// Without a file of options: reads again what else it has read. Answers whether there is anything.
    fn read_others_again(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// What is logged as it begins to stop.
    fn stopping(&self) -> String {
        "stopping: what is under way may finish, and everything is flushed".to_owned()
    }

    /// What is logged when it has stopped in order.
    fn stopped(&self) -> String {
        "stopped: everything is flushed".to_owned()
    }

    /// Finishes what is under way, makes all durable, and completes the trace.
    fn stop(&self) -> Result<(), Error>;

    /// Reads the configuration again, and takes over what can change. Answers what was done.
    fn read_again(self: &Arc<Self>) -> Result<String, Error> {
        let taken = match self.reload() {
            Some(reload) => reload().and_then(|new| self.take_over(&new)),
            None => match self.read_others_again() {
                Ok(true) => Ok(Vec::new()),
                Ok(false) => return Err(Error::Usage(NO_FILE.to_owned())),
                Err(error) => Err(error),
            },
        };
        let done = taken.map(|done| {
            ["the configuration was read again".to_owned()].into_iter().chain(done).collect::<Vec<_>>().join("; ")
        });
        match &done {
            Ok(done) => tracing::info!("{done}"),
            Err(error @ Error::NotInForce { .. }) => {
                tracing::error!("the configuration was read again, and not all of it is in force: {error}");
            }
            Err(error) => tracing::error!("the configuration was read again, and nothing has changed: {error}"),
        }
        done
    }
}

const NO_FILE: &str =
    "there is no file to read again, and nothing has changed: --config FILE.toml names one at the start";

/// What runs beside a service: its sockets and its trace, before anything is made.
pub(crate) struct Beside {
    figures: Option<TcpListener>,
    commands: Option<(UnixListener, Made)>,
    record: Option<PathBuf>,
}

impl Beside {
    /// Takes the addresses, and refuses a name that can be no trace's.
    pub(crate) fn bind(options: &BesideOptions) -> Result<Self, Error> {
        options.record.as_deref().map_or(Ok(()), |path| record::check(&record::free(path)))?;
        let figures = options.metrics.as_ref().map(page::bind).transpose()?;
        let commands = options.control.as_deref().map(socket::bind).transpose()?;
        Ok(Self { figures, commands, record: options.record.clone() })
    }

    /// Begins to record, if that is asked for and has not begun: for a service that clients may use before it runs.
    pub(crate) fn record(&mut self, recorder: &Recorder) -> Result<(), Error> {
        self.record.take().map_or(Ok(()), |path| recorder.begin(&path))
    }

    fn start(mut self, service: &Arc<impl Service>, made: &mut Vec<Made>) -> Result<(), Error> {
        self.record(&service.frame().recorder)?;
        if let Some(listener) = self.figures {
            let address = page::start(service.clone(), listener)?;
            tracing::info!("figures at http://{address}/metrics");
        }
        if let Some((listener, socket)) = self.commands {
            tracing::info!("commands are taken at {}", socket.path().display());
            made.push(socket);
            socket::start(service.clone(), listener)?;
        }
        Ok(())
    }
}

/// Runs a service until a signal stops it: returns after everything is flushed. `begin` begins to serve; sockets that are made in the
/// file system go when the service has stopped.
///
/// # Errors
/// What keeps it from serving, or what could not be written at the end.
pub(crate) fn run<S: Service>(
    service: Arc<S>,
    beside: Beside,
    requests: &Receiver<Request>,
    begin: impl FnOnce(&Arc<S>, &mut Vec<Made>) -> Result<(), Error>,
) -> Result<(), Error> {
    tracing::info!("forebay {}", env!("CARGO_PKG_VERSION"));
    let mut made = Vec::new();
    let begun = beside.start(&service, &mut made).and_then(|()| begin(&service, &mut made));
    if begun.is_err() {
        // A service that is started again and again shall not leave a trace each time. Its error is the one to report.
        let _ = service.frame().recorder.within(service.patience(), Recorder::abandon);
    }
    let served = begun.and_then(|()| {
        let reloading = Arc::clone(&service);
        // Whoever asks by a command gets this as an answer.
        let reload = move || match reloading.read_again() {
            Err(Error::Usage(what)) if what == NO_FILE => tracing::warn!("{what}"),
            _ => {}
        };
        let served = serve_until_stopped(requests, reload);
        tracing::info!("{}", service.stopping());
        served
    });
    // Whatever keeps it from going on, what was written by then is flushed.
    let stopped = service.stop();
    if served.is_ok() && stopped.is_ok() {
        tracing::info!("{}", service.stopped());
    }
    // What it holds waits for storage when it is dropped, and that may hang.
    std::mem::forget(service);
    Error::of_all([stopped.err(), served.err()].into_iter().flatten())
}

/// Says that the service is ready, and reads options again, by `reload`, until it is asked to stop.
fn serve_until_stopped(requests: &Receiver<Request>, reload: impl Fn() + Send + 'static) -> Result<(), Error> {
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
