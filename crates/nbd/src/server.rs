//! Listening, connections and the end.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::budget::{Budget, Purse};
use crate::connection::Connection;
use crate::counters::ServerCounts;
use crate::error::Close;
use crate::handshake::{Volumes, shake};
use crate::input::Input;
use crate::link::{Link, lock};
use crate::receiver::Receiver;
use crate::socket::{Socket, Stop, SystemSocket};
use crate::spin::{Spinners, spare_processors};
use crate::wire::STRING_LIMIT;
use crate::workers::Volume;
use crate::{Config, Counts, Error, Export};

/// How long to wait when no connection can be accepted, as for want of descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// A socket that listens: made here, or inherited.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// Bytes of replies that the system keeps for a client.
const SEND_BUFFER: usize = 1 << 20;

/// A client that is gone without a word: the system asks after it once nothing has come for this long, and then every ten seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const PROBES: u32 = 6;

/// Who connects.
struct Peer {
    /// For the log.
    name: String,
    /// Of a connection by TCP.
    address: Option<IpAddr>,
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

impl Listener {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener) => listener.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<(OwnedFd, Peer)> {
        let (socket, peer) = match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(false)?;
                // Replies are gathered here already.
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE)?;
                sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE / PROBES)?;
                sockopt::set_tcp_keepcnt(&stream, PROBES)?;
                (OwnedFd::from(stream), Peer { name: peer.to_string(), address: Some(peer.ip()) })
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                (OwnedFd::from(stream), Peer { name: "unix".into(), address: None })
            }
        };
        // A long reply then fits, and the next is made while the client takes this one. The system may grant less.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
        Ok((socket, peer))
    }

    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// A server of exports. It runs from the first [`Server::listen`] to [`Server::stop`].
pub struct Server {
    shared: Arc<Shared>,
    acceptors: Vec<JoinHandle<()>>,
}

struct Shared {
    config: Arc<Config>,
    budget: Arc<Budget>,
    spinners: Spinners,
    stop: Stop,
    volumes: Mutex<Arc<Volumes>>,
    /// By number, in the order in which they came.
    open: Mutex<BTreeMap<u64, Open>>,
    /// Told when a connection has ended.
    ended: Condvar,
    accepted: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
}

/// A connection that is open.
struct Open {
    socket: Arc<dyn Socket>,
    address: Option<IpAddr>,
    in_handshake: bool,
}

impl Server {
    /// A server that does not listen yet.
    ///
    /// # Errors
    /// Exports that cannot be served together.
    pub fn new(exports: Vec<Arc<dyn Export>>, config: Config) -> Result<Self, Error> {
        let volumes = arrange(exports, &Volumes::new(), &config)?;
        let shared = Shared {
            budget: Budget::new(&config),
            spinners: Spinners::new(config.spin, spare_processors),
            config: Arc::new(config),
            stop: Stop::new().map_err(Error::Listen)?,
            volumes: Mutex::new(Arc::new(volumes)),
            open: Mutex::default(),
            ended: Condvar::new(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared), acceptors: Vec::new() })
    }

    /// Serves those who connect to a listener.
    ///
    /// # Errors
    /// It cannot be listened to.
    pub fn listen(&mut self, listener: impl Into<Listener>) -> Result<(), Error> {
        let listener = listener.into();
        listener.set_nonblocking().map_err(Error::Listen)?;
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("nbd-accept".into());
        self.acceptors.push(thread.spawn(move || accept(&shared, &listener)).map_err(Error::Listen)?);
        Ok(())
    }

    /// Replaces the exports: who connects from now on sees these, who is connected keeps what it has. An export with the name of
    /// one before goes on with its counts. The threads of one that is gone end as soon as they have no work, and with them their
    /// sessions.
    ///
    /// # Errors
    /// Exports that cannot be served together; nothing has changed then.
    pub fn replace(&self, exports: Vec<Arc<dyn Export>>) -> Result<(), Error> {
        let mut volumes = lock(&self.shared.volumes);
        let after = Arc::new(arrange(exports, &volumes, &self.shared.config)?);
        let before = std::mem::replace(&mut *volumes, after);
        let stays = |name: &String, volume| volumes.get(name).is_some_and(|after| Arc::ptr_eq(after, volume));
        before.iter().filter(|(name, volume)| !stays(name, volume)).for_each(|(_, volume)| volume.retire());
        Ok(())
    }

    /// The counts of each export, by name.
    pub fn exports(&self) -> Vec<(String, Counts)> {
        let volumes = Arc::clone(&lock(&self.shared.volumes));
        volumes.iter().map(|(name, volume)| (name.clone(), volume.counters.read())).collect()
    }

    /// The counts of connections.
    pub fn counts(&self) -> ServerCounts {
        let shared = &self.shared;
        let (spins_paid, spins_vain) = shared.spinners.counts();
        ServerCounts {
            open: lock(&shared.open).len() as u64,
            accepted: shared.accepted.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
            malformed: shared.malformed.load(Ordering::Relaxed),
            spins_paid,
            spins_vain,
        }
    }

    /// Stops: accepts nobody, finishes what is in flight, answers what comes meanwhile that it is stopping, and closes.
    /// Connections that are not done within `patience` are cut off; their number is returned.
    pub fn stop(self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        self.shared.stop.tell();
        for acceptor in self.acceptors {
            // It has no more to tell than it has logged.
            let _ = acceptor.join();
        }
        let mut open = lock(&self.shared.open);
        while !open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self.shared.ended.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let cut = open.len();
        open.values().for_each(|one| one.socket.close());
        drop(open);
        let volumes = Arc::clone(&lock(&self.shared.volumes));
        volumes.values().for_each(|volume| volume.close(deadline));
        cut
    }
}

/// Puts exports in order, and keeps what there is of those before.
fn arrange(exports: Vec<Arc<dyn Export>>, before: &Volumes, config: &Config) -> Result<Volumes, Error> {
    let mut volumes = Volumes::new();
    for export in exports {
        let name = export.name().to_owned();
        if name.len() > STRING_LIMIT {
            return Err(Error::LongName(name));
        }
        let limits = export.limits();
        let reason = if !limits.minimum.is_power_of_two() || limits.minimum > 65536 {
            Some("the minimum must be a power of two, at most 65536")
        } else if !limits.preferred.is_power_of_two() || limits.preferred < limits.minimum {
            Some("the preferred must be a power of two, at least the minimum")
        } else if limits.maximum < limits.preferred {
            Some("the maximum must be at least the preferred")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(Error::BlockSizes { name, reason });
        }
        let volume = match before.get(&name) {
            Some(volume) if Arc::ptr_eq(&volume.export, &export) => Arc::clone(volume),
            other => {
                let counters = other.map(|volume| Arc::clone(&volume.counters)).unwrap_or_default();
                Arc::new(Volume::new(export, counters, config.workers))
            }
        };
        if volumes.insert(name.clone(), volume).is_some() {
            return Err(Error::DuplicateName(name));
        }
    }
    Ok(volumes)
}

fn accept(shared: &Arc<Shared>, listener: &Listener) {
    let mut failing = false;
    loop {
        match shared.stop.wait_readable_or_stop(listener.as_fd()) {
            _ if shared.stop.told() => return,
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "no more connections are accepted");
                return;
            }
        }
        match listener.accept() {
            Ok((socket, peer)) => {
                failing = false;
                admit(shared, socket, peer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept a connection; it is tried again and again");
                }
                std::thread::sleep(BREATH);
            }
        }
    }
}

fn admit(shared: &Arc<Shared>, socket: OwnedFd, peer: Peer) {
    let socket = Arc::new(SystemSocket(socket));
    let id = shared.accepted.fetch_add(1, Ordering::Relaxed);
    let Peer { name: peer, address } = peer;
    let refused =
        shared.enter(id, Open { socket: Arc::clone(&socket) as Arc<dyn Socket>, address, in_handshake: true });
    if let Err(limit) = refused {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(peer, limit, "too many connections");
        return;
    }
    let serving = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("nbd-connection".into()).spawn(move || {
        let close = catch_unwind(AssertUnwindSafe(|| serve(&serving, id, socket, &peer)));
        match close {
            Ok(close @ (Close::Finished | Close::Stopping)) => tracing::info!(peer, "disconnected: {close}"),
            Ok(close) => {
                if matches!(close, Close::Malformed(_)) {
                    serving.malformed.fetch_add(1, Ordering::Relaxed);
                }
                tracing::warn!(peer, "disconnected: {close}");
            }
            Err(_) => tracing::error!(peer, "disconnected: the server failed inside"),
        }
        serving.forget(id);
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "no thread for a connection");
        shared.forget(id);
    }
}

impl Shared {
    /// Lets a connection in.
    ///
    /// # Errors
    /// The limit that it would exceed.
    fn enter(&self, id: u64, one: Open) -> Result<(), usize> {
        let most = self.config.connections;
        let per_peer = self.config.connections_per_peer.unwrap_or(most - most / 4);
        let mut open = lock(&self.open);
        if one.address.is_some() && open.values().filter(|other| other.address == one.address).count() >= per_peer {
            return Err(per_peer);
        }
        if open.len() >= most {
            let oldest = open.iter().find(|(_, other)| other.in_handshake).map(|(&id, _)| id);
            let displaced = oldest.and_then(|id| open.remove(&id)).ok_or(most)?;
            displaced.socket.close();
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        open.insert(id, one);
        Ok(())
    }

    fn forget(&self, id: u64) {
        let open = lock(&self.open).remove(&id);
        if let Some(open) = open {
            open.socket.close();
        }
        self.ended.notify_all();
    }
}

fn serve(shared: &Shared, id: u64, socket: Arc<SystemSocket>, peer: &str) -> Close {
    let (config, stop) = (&shared.config, &shared.stop);
    let mut link = Link::new(Arc::clone(&socket) as Arc<dyn Socket>, config);
    let mut input = Input::new();
    let chosen = || {
        if let Some(open) = lock(&shared.open).get_mut(&id) {
            open.in_handshake = false;
        }
    };
    let chosen = match shake(&mut link, &mut input, &shared.volumes, config, stop, chosen) {
        Ok(chosen) => chosen,
        Err(close) => {
            link.close(matches!(close, Close::Finished | Close::Stopping));
            return close;
        }
    };
    tracing::info!(peer, export = chosen.volume.export.name(), tls = link.tls.is_some(), "connected");
    let purse = Purse::new(&shared.budget, config);
    link.purse = Some(Arc::clone(&purse));
    let link = Arc::new(link);
    let connection = Arc::new(Connection::new(Arc::clone(&link), chosen.terms, chosen.volume, purse));
    let close = Receiver::new(connection, chosen.session, input, config, stop, &shared.spinners).run();
    link.close(matches!(close, Close::Finished | Close::Stopping));
    close
}
