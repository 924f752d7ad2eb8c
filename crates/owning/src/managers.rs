//! All managers of a cache: those that connect, and the bounds on how many there are.

use crate::counters::{Counters, Counts};
use crate::peer::Peer;
use crate::session::Session;
use crate::wire::{Message, Reason, kind};
use forebay_pool::{Owner, Pool, Volume};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections at a time, and those of one user other than root.
const MOST: usize = 64;
const MOST_OF_USER: usize = 16;

/// How long to wait when no connection can be accepted, as for want of descriptors.
const BREATH: Duration = Duration::from_millis(20);

/// The files that a cache is in front of, and who uses them.
pub trait Files: Send + Sync {
    /// The owner of what a process uses.
    fn owner(&self, process: u32) -> Option<Owner>;

    /// An open file, by its device and inode, and how many blocks it has.
    fn volume(&self, device: u64, inode: u64) -> Option<(Arc<Volume>, u64)>;
}

/// The managers of a cache.
pub struct Managers {
    pub(crate) pool: Arc<Pool>,
    pub(crate) files: Box<dyn Files>,
    pub(crate) counters: Counters,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Connections by user.
    connections: HashMap<u32, usize>,
    /// Owners that have a manager, by number.
    managed: HashSet<u32>,
}

impl Managers {
    /// Those of a cache of files.
    pub fn new(pool: Arc<Pool>, files: Box<dyn Files>) -> Arc<Self> {
        Arc::new(Self { pool, files, counters: Counters::default(), known: Mutex::default() })
    }

    /// What they have done.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Serves whoever connects, until the process ends.
    pub fn serve(self: &Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            match stream.map(|stream| self.begin(stream)) {
                Ok(Ok(())) => {}
                // Anybody can bring this about at any rate: it is not for the log.
                Ok(Err(error)) => tracing::debug!("managers: a connection is refused: {error}"),
                Err(error) => {
                    tracing::warn!("managers: no connection can be accepted: {error}");
                    std::thread::sleep(BREATH);
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, mut stream: UnixStream) -> Result<(), String> {
        let peer = Peer::of(&stream).map_err(|error| error.to_string())?;
        let Some(place) = Place::of(self, peer.user.as_raw()) else {
            self.counters.refused.add(1);
            // A new connection's buffer has room.
            let _ = stream.write_all(&Message::refused(kind::REGISTER, Reason::TooMany, MOST as u64).encode());
            return Err(format!("user {} or all have the most that there may be", peer.user.as_raw()));
        };
        let managers = Arc::clone(self);
        let work = move || {
            let _place = place;
            let process = peer.process.number;
            match Session::new(&managers, peer).converse(stream) {
                Ok(()) => tracing::debug!("managers: process {process} has ended its connection"),
                Err(error) => tracing::debug!("managers: the connection of process {process} is ended: {error}"),
            }
        };
        std::thread::Builder::new().name("manager".to_owned()).spawn(work).map(drop).map_err(|error| error.to_string())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note that an owner has a manager from now on.
    pub(crate) fn begin_charge(&self, owner: &Owner) -> Result<(), Reason> {
        self.pool.given_up(owner).map_err(|_| Reason::Policy)?;
        if self.known().managed.insert(owner.number()) { Ok(()) } else { Err(Reason::Managed) }
    }

    pub(crate) fn end_charge(&self, owner: &Owner) {
        // Its policy had managers when it began.
        let _ = self.pool.take_back(owner);
        self.known().managed.remove(&owner.number());
    }
}

/// A connection, counted while it is there.
struct Place {
    managers: Arc<Managers>,
    user: u32,
}

impl Place {
    fn of(managers: &Arc<Managers>, user: u32) -> Option<Self> {
        let mut known = managers.known();
        let (all, own) = (known.connections.values().sum::<usize>(), known.connections.get(&user).copied());
        if all >= MOST || (user != 0 && own.unwrap_or(0) >= MOST_OF_USER) {
            return None;
        }
        *known.connections.entry(user).or_default() += 1;
        drop(known);
        Some(Self { managers: Arc::clone(managers), user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.managers.known();
        if let Some(count) = known.connections.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                known.connections.remove(&self.user);
            }
        }
    }
}
