//! An export in memory, and a connection without a socket: for tests, the example and fuzzing.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use crate::budget::{Budget, Purse};
use crate::connection::Connection;
use crate::error::Close;
use crate::handshake::{Volumes, shake};
use crate::input::Input;
use crate::link::{Link, lock};
use crate::receiver::Receiver;
use crate::socket::{Pace, Received, Socket, Stop, Wait};
use crate::spin::Spinners;
use crate::workers::Volume;
use crate::{Config, Export, Extent, Failure, Features, Limits, Session};
use forebay_figures::clients::Counters;

/// Bytes in memory under a name. All its sessions see one content, so that several connections are safe.
pub struct Memory {
    name: String,
    bytes: Arc<RwLock<Vec<u8>>>,
    /// What clients may do.
    pub features: Features,
    /// The sizes of requests.
    pub limits: Limits,
    /// The most connections at a time.
    pub most_connections: Option<usize>,
    /// Answer no request without a thread that may wait.
    pub reluctant: bool,
}

impl Memory {
    /// An export of zeroes.
    pub fn new(name: &str, size: usize) -> Self {
        Self {
            name: name.into(),
            bytes: Arc::new(RwLock::new(vec![0; size])),
            features: Features { read_only: false, multi_conn: true, rotational: false, fast_zero: true },
            limits: Limits { minimum: 1, preferred: 4096, maximum: 32 << 20 },
            most_connections: None,
            reluctant: false,
        }
    }
}

impl Export for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "memory"
    }

    fn size(&self) -> u64 {
        self.bytes.read().map_or(0, |bytes| bytes.len() as u64)
    }

    fn features(&self) -> Features {
        self.features
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn most_connections(&self) -> Option<usize> {
        self.most_connections
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        Ok(Box::new(MemorySession { bytes: Arc::clone(&self.bytes), reluctant: self.reluctant }))
    }

    fn commit(&self, _: &[Range<u64>]) -> Result<(), Failure> {
        Ok(())
    }
}

struct MemorySession {
    bytes: Arc<RwLock<Vec<u8>>>,
    reluctant: bool,
}

impl MemorySession {
    fn get(&self, offset: u64, buffer: &mut [u8]) {
        let bytes = self.bytes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        buffer.copy_from_slice(&bytes[offset as usize..offset as usize + buffer.len()]);
    }

    fn change(&self, offset: u64, length: usize, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.bytes.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut bytes[offset as usize..offset as usize + length]);
    }
}

impl Session for MemorySession {
    fn try_read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        if !self.reluctant {
            self.get(offset, buffer);
        }
        !self.reluctant
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.get(offset, buffer);
        Ok(())
    }

    fn try_write(&mut self, offset: u64, data: &[u8]) -> bool {
        if !self.reluctant {
            self.change(offset, data.len(), |bytes| bytes.copy_from_slice(data));
        }
        !self.reluctant
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.change(offset, data.len(), |bytes| bytes.copy_from_slice(data));
        Ok(())
    }

    fn trim(&mut self, offset: u64, length: u64) -> Result<(), Failure> {
        self.change(offset, length as usize, |bytes| bytes.fill(0));
        Ok(())
    }

    fn write_zeroes(&mut self, offset: u64, length: u64, _: bool) -> Result<(), Failure> {
        self.change(offset, length as usize, |bytes| bytes.fill(0));
        Ok(())
    }

    fn cache(&mut self, _: u64, length: u64) -> Result<u64, Failure> {
        Ok(length)
    }

    /// Blocks of 4096 bytes that are all zero are holes.
    fn status(&mut self, offset: u64, length: u64) -> Result<Vec<Extent>, Failure> {
        let bytes = self.bytes.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        while at < offset + length {
            let next = ((at / 4096 + 1) * 4096).min(offset + length);
            let zero = bytes[at as usize..next as usize].iter().all(|&byte| byte == 0);
            match extents.last_mut() {
                Some(last) if last.zero == zero => last.length += next - at,
                _ => extents.push(Extent { length: next - at, hole: zero, zero }),
            }
            at = next;
        }
        Ok(extents)
    }
}

/// A stream in memory: what the client says is known from the start, and what it is told is kept.
pub(crate) struct Script {
    said: Vec<u8>,
    at: AtomicUsize,
    /// Bytes received at a time.
    step: usize,
    told: Mutex<Vec<u8>>,
}

impl Script {
    pub(crate) fn new(said: &[u8], step: usize) -> Self {
        Self { said: said.to_vec(), at: AtomicUsize::new(0), step: step.max(1), told: Mutex::default() }
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.told)
    }
}

impl Socket for Script {
    fn receive(&self, buffer: &mut [u8], _: Wait<'_>) -> io::Result<Received> {
        let at = self.at.load(Ordering::Relaxed);
        let count = self.step.min(self.said.len() - at).min(buffer.len());
        buffer[..count].copy_from_slice(&self.said[at..at + count]);
        self.at.store(at + count, Ordering::Relaxed);
        Ok(if count == 0 { Received::End } else { Received::Bytes(count) })
    }

    fn send(&self, bytes: &[u8], _: &mut Pace<'_>) -> io::Result<()> {
        self.told().extend(bytes);
        Ok(())
    }

    fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        self.told().extend(bytes);
        Ok(bytes.len())
    }

    fn readable(&self) -> bool {
        self.at.load(Ordering::Relaxed) < self.said.len()
    }

    fn close(&self) {}
}

/// Serves one client that says what is given, `step` bytes at a time, and returns what it was told.
pub fn converse(export: Arc<dyn Export>, config: &Config, said: &[u8], step: usize) -> Vec<u8> {
    let name = export.name().to_owned();
    let volume = Volume::new(export, Arc::new(Counters::default()), config.workers);
    let volumes = Mutex::new(Arc::new(Volumes::from([(name, Arc::new(volume))])));
    let script = Arc::new(Script::new(said, step));
    let socket = Arc::clone(&script) as Arc<dyn Socket>;
    if let Ok(stop) = Stop::new() {
        let _ = talk(socket, &volumes, &Arc::new(config.clone()), &stop);
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    lock(&volumes).values().for_each(|volume| volume.close(deadline));
    std::mem::take(&mut *script.told())
}

pub(crate) fn talk(
    socket: Arc<dyn Socket>,
    volumes: &Mutex<Arc<Volumes>>,
    config: &Arc<Config>,
    stop: &Stop,
) -> Result<Close, Close> {
    let mut link = Link::new(socket, config);
    let mut input = Input::new();
    let chosen = shake(&mut link, &mut input, volumes, config, stop, || ())?;
    let purse = Purse::new(&Budget::new(config), config);
    link.purse = Some(Arc::clone(&purse));
    let connection = Arc::new(Connection::new(Arc::new(link), chosen.terms, chosen.volume, purse));
    let spinners = Spinners::new(config.spin, || 0);
    Ok(Receiver::new(connection, chosen.session, input, config, stop, &spinners).run())
}
