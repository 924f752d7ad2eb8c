//! A manager's connection: what it says, and what it learns.

use crate::managers::Managers;
use crate::peer::{Peer, Process};
use crate::wire::{LENGTH, Message, Reason, VERSION, kind};
use forebay_pool::{Event, Follower, Happened, Owner, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Files of one manager.
const MOST_FILES: usize = 1024;

/// Blocks that one message gives up, and those looked up before others get a chance to have the replacer's lock.
const MOST_BLOCKS: u64 = 1 << 16;
const STEP: usize = 128;

/// Events that wait for a manager.
const MOST_EVENTS: usize = 1 << 14;

/// Messages that are read at once.
const READ: usize = 256;

/// How long a connection may last before it registers.
const HURRY: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// How long a manager may take nothing of what it is sent.
const SILENCE: Duration = Duration::from_secs(60);

/// How often the length of a list is looked at while nothing happens.
const LOOK: Duration = Duration::from_secs(1);

/// A session rests this many times as long as it has worked, as soon as it has worked for `AT_ONCE`.
const RESTS: u32 = 3;
const AT_ONCE: Duration = Duration::from_millis(1);

/// A manager, from its connection to its end.
pub(crate) struct Session {
    managers: Arc<Managers>,
    peer: Peer,
    charge: Option<Arc<Charge>>,
}

/// Whom it manages, and with which files.
struct Charge {
    managers: Arc<Managers>,
    process: Process,
    owner: Owner,
    /// The list is to have as many blocks.
    low_water: u64,
    follower: Arc<Follower>,
    /// By the number that the manager knows them by. Held, so that the pool's numbers stay theirs.
    files: Mutex<Vec<Arc<Volume>>>,
}

impl Session {
    pub(crate) fn new(managers: &Arc<Managers>, peer: Peer) -> Self {
        Self { managers: Arc::clone(managers), peer, charge: None }
    }

    /// Serves it until it ends; why, if that was not its own wish.
    pub(crate) fn converse(mut self, stream: UnixStream) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        stream.set_write_timeout(Some(SILENCE)).map_err(failed)?;
        let outlet = Arc::new(Outlet { stream: stream.try_clone().map_err(failed)?, turn: Mutex::default() });
        let ended = self.receive(&stream, &outlet);
        // The thread that sends ends, too.
        let _ = stream.shutdown(Shutdown::Both);
        ended
    }

    fn receive(&mut self, mut stream: &UnixStream, outlet: &Arc<Outlet>) -> Result<(), String> {
        let (mut buffer, mut filled) = ([0; READ * LENGTH], 0);
        let mut worked = Duration::ZERO;
        loop {
            let waits = Instant::now();
            if !self.wait(stream)? {
                return Ok(());
            }
            worked = worked.saturating_sub(waits.elapsed() / RESTS);
            let read = stream.read(&mut buffer[filled..]).map_err(|error| error.to_string())?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            let works = Instant::now();
            let (messages, _) = buffer[..filled].as_chunks::<LENGTH>();
            for message in messages.iter().map(Message::decode) {
                let mut registered = false;
                let mut send = |answer: Message| {
                    registered |= answer.kind == kind::READY;
                    outlet.send(&answer.encode())
                };
                match self.answer(&message, &mut send) {
                    Ok(sent) => sent.map_err(|error| error.to_string())?,
                    Err((reason, about)) => {
                        self.managers.counters.refused.add(1);
                        // Whether it reads why is its own affair.
                        let _ = outlet.send(&Message::refused(message.kind, reason, about).encode());
                        return Err(format!("message {} is refused: {reason:?}", message.kind));
                    }
                }
                if registered {
                    self.begin_to_tell(outlet)?;
                }
            }
            let whole = filled / LENGTH * LENGTH;
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
            worked += works.elapsed();
            if worked > AT_ONCE {
                std::thread::sleep(worked * RESTS);
                worked = Duration::ZERO;
            }
        }
    }

    /// Waits for a message. `false`: the process that it manages has ended.
    fn wait(&self, stream: &UnixStream) -> Result<bool, String> {
        let mut fds = vec![PollFd::new(stream, PollFlags::IN)];
        fds.extend(self.charge.as_ref().map(|charge| PollFd::new(charge.process.fd(), PollFlags::IN)));
        let limit = if self.charge.is_none() { Some(&HURRY) } else { None };
        match poll(&mut fds, limit) {
            Ok(0) => Err("it has not registered in time".to_owned()),
            Ok(_) => Ok(fds.get(1).is_none_or(|process| process.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => self.wait(stream),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Does as a message says, or says why it is refused, and what that speaks of.
    pub(crate) fn answer(
        &mut self,
        message: &Message,
        send: &mut dyn FnMut(Message) -> io::Result<()>,
    ) -> Result<io::Result<()>, (Reason, u64)> {
        let &Message { kind, file, first, count } = message;
        match (kind, &self.charge) {
            (kind::REGISTER, None) if file != VERSION => Err((Reason::Version, VERSION.into())),
            (kind::REGISTER, None) => {
                let ready = self.register(first, count).map_err(|reason| (reason, first))?;
                Ok(send(ready))
            }
            (kind::ADD, Some(charge)) => charge.add(&self.peer, first, send),
            (kind::GIVE_UP, Some(charge)) => charge.give_up(file, first, count).map(Ok),
            (kind::TAKE_BACK, Some(charge)) => {
                // Its policy had managers when it registered.
                let _ = self.managers.pool.take_back(&charge.owner);
                Ok(Ok(()))
            }
            (kind::REGISTER | kind::ADD | kind::GIVE_UP | kind::TAKE_BACK, _) => Err((Reason::Order, 0)),
            _ => Err((Reason::Unknown, kind.into())),
        }
    }

    fn register(&mut self, process: u64, low_water: u64) -> Result<Message, Reason> {
        let Self { managers, peer, .. } = &*self;
        let process = peer.speaks_for(process).map_err(|_| Reason::Process)?;
        let owner = managers.files.owner(process.number).ok_or(Reason::Process)?;
        managers.begin_charge(&owner)?;
        managers.counters.registered.add(1);
        let follower = Follower::new(&owner, MOST_EVENTS);
        let (managers, files) = (Arc::clone(managers), Mutex::default());
        let statistics = managers.pool.statistics();
        let page_size = u64::from(statistics.page_size);
        self.charge = Some(Arc::new(Charge { managers, process, owner, low_water, follower, files }));
        Ok(Message { kind: kind::READY, file: VERSION, first: page_size, count: statistics.capacity / page_size })
    }

    fn begin_to_tell(&self, outlet: &Arc<Outlet>) -> Result<(), String> {
        let Some(charge) = self.charge.clone() else { return Ok(()) };
        let outlet = Arc::clone(outlet);
        let tell = move || {
            if charge.tell(&outlet).is_err() {
                // The thread that receives ends, too.
                let _ = outlet.stream.shutdown(Shutdown::Both);
            }
        };
        let spawned = std::thread::Builder::new().name("events".to_owned()).spawn(tell);
        spawned.map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(charge) = &self.charge {
            self.managers.pool.unfollow(&charge.follower);
            self.managers.end_charge(&charge.owner);
        }
    }
}

impl Charge {
    fn files(&self) -> MutexGuard<'_, Vec<Arc<Volume>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        peer: &Peer,
        descriptor: u64,
        send: &mut dyn FnMut(Message) -> io::Result<()>,
    ) -> Result<io::Result<()>, (Reason, u64)> {
        let wrong = (Reason::Descriptor, descriptor);
        let (device, inode) = peer.file(descriptor).map_err(|_| wrong)?;
        let (volume, blocks) = self.managers.files.volume(device, inode).ok_or(wrong)?;
        let mut files = self.files();
        let known = files.iter().position(|known| Arc::ptr_eq(known, &volume));
        if known.is_none() && files.len() == MOST_FILES {
            return Err((Reason::TooMany, MOST_FILES as u64));
        }
        let number = known.unwrap_or_else(|| {
            files.push(Arc::clone(&volume));
            files.len() - 1
        });
        // The manager learns the number before events, whose thread waits for `files`; and no event after the number is missed.
        self.managers.pool.follow(&self.follower, &volume);
        Ok(send(Message { kind: kind::FILE, file: number as u32, first: blocks, count: descriptor }))
    }

    fn give_up(&self, file: u32, first: u64, count: u64) -> Result<(), (Reason, u64)> {
        if count > MOST_BLOCKS {
            return Err((Reason::TooLong, MOST_BLOCKS));
        }
        let volume = self.files().get(file as usize).cloned().ok_or((Reason::File, file.into()))?;
        let blocks: Vec<u64> = (first..first.saturating_add(count).min(volume.blocks())).collect();
        for blocks in blocks.chunks(STEP) {
            let listed = self.managers.pool.give_up_first(Some(&self.owner), &volume, blocks);
            listed.map_err(|_| (Reason::Policy, 0))?;
        }
        self.managers.counters.given_up.add(blocks.len() as u64);
        Ok(())
    }

    /// Sends events, and wakes the manager when its list runs short, until the session ends.
    fn tell(&self, outlet: &Outlet) -> io::Result<()> {
        let mut warned = false;
        while let Some((events, lost)) = self.follower.take(LOOK) {
            let mut bytes = Vec::new();
            let mut send = |message: Message| bytes.extend_from_slice(&message.encode());
            self.runs(&events, &mut send);
            self.managers.counters.events.add(events.len() as u64);
            if lost > 0 {
                self.managers.counters.lost.add(lost);
                send(Message { kind: kind::LOST, file: 0, first: 0, count: lost });
            }
            let listed = self.managers.pool.given_up(&self.owner).map_or(0, u64::from);
            if listed >= self.low_water {
                warned = false;
            } else if !std::mem::replace(&mut warned, true) {
                self.managers.counters.low.add(1);
                send(Message { kind: kind::LOW, file: 0, first: listed, count: self.low_water });
            }
            outlet.send(&bytes)?;
        }
        Ok(())
    }

    /// The messages of events: one for blocks that follow each other.
    fn runs(&self, events: &VecDeque<Event>, send: &mut dyn FnMut(Message)) {
        let mut run: Option<(Event, Message)> = None;
        for &event in events {
            if let Some((last, message)) = &mut run
                && (last.happened, last.volume) == (event.happened, event.volume)
                && event.block == message.first + message.count
            {
                message.count += 1;
                continue;
            }
            if let Some((_, message)) = run.take() {
                send(message);
            }
            let kind = match event.happened {
                Happened::Admitted => kind::ADMITTED,
                Happened::ReadAhead => kind::READ_AHEAD,
                Happened::Hit => kind::HIT,
                Happened::Evicted => kind::EVICTED,
            };
            let number = self.files().iter().position(|file| file.id() == event.volume);
            run = number.map(|number| (event, Message { kind, file: number as u32, first: event.block, count: 1 }));
        }
        if let Some((_, message)) = run {
            send(message);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.managers.counters.ended.add(1);
    }
}

/// Where both threads of a session write whole messages.
struct Outlet {
    stream: UnixStream,
    turn: Mutex<()>,
}

impl Outlet {
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.stream).write_all(bytes)
    }
}
