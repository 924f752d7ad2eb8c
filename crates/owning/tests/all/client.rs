//! A cache of a few files with a socket for managers, and a manager's end of it.

use forebay_owning::{Files, LENGTH, Managers, Message, Reason, VERSION, kind};
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Handle, Owner, Pool, Volume, VolumeConfig};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const PAGE: u64 = 4096;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Cache {
    pub(crate) pool: Arc<Pool>,
    pub(crate) managers: Arc<Managers>,
    pub(crate) folder: tempfile::TempDir,
    files: Vec<(File, Arc<Volume>)>,
}

struct Known {
    pool: Arc<Pool>,
    volumes: HashMap<(u64, u64), Arc<Volume>>,
}

impl Files for Known {
    fn owner(&self, process: u32) -> Option<Owner> {
        Some(self.pool.owner(process.into()))
    }

    fn volume(&self, device: u64, inode: u64) -> Option<(Arc<Volume>, u64)> {
        self.volumes.get(&(device, inode)).map(|volume| (Arc::clone(volume), volume.blocks()))
    }
}

impl Cache {
    /// Files of as many blocks behind as many pages.
    pub(crate) fn new(policy: &str, pages: u64, blocks: &[u64]) -> Self {
        let policy = Spec::parse(policy).expect("a policy");
        let pool = Pool::new(Config { laundry: 1, ..Config::new((pages + 1) * PAGE, policy) }).expect("a pool");
        let (pool, folder) = (Arc::new(pool), tempfile::tempdir().expect("a folder"));
        let attach = |(number, &blocks): (usize, &u64)| {
            let file = File::create(folder.path().join(number.to_string())).expect("a file");
            let config = VolumeConfig { readahead: 0, ..VolumeConfig::new(number.to_string()) };
            (file, pool.attach(Arc::new(MemoryDevice::new(blocks * PAGE)), config))
        };
        let files: Vec<_> = blocks.iter().enumerate().map(attach).collect();
        let place = |(file, volume): &(File, Arc<Volume>)| {
            let found = file.metadata().expect("its attributes");
            ((found.dev(), found.ino()), Arc::clone(volume))
        };
        let known = Known { pool: Arc::clone(&pool), volumes: files.iter().map(place).collect() };
        let managers = Managers::new(Arc::clone(&pool), Box::new(known));
        let listener = UnixListener::bind(folder.path().join("socket")).expect("a socket");
        let serving = Arc::clone(&managers);
        std::thread::spawn(move || serving.serve(&listener));
        Self { pool, managers, folder, files }
    }

    pub(crate) fn volume(&self, number: usize) -> &Arc<Volume> {
        &self.files[number].1
    }

    pub(crate) fn descriptor(&self, number: usize) -> u64 {
        self.files[number].0.as_raw_fd() as u64
    }

    pub(crate) fn connect(&self) -> Manager {
        let stream = UnixStream::connect(self.folder.path().join("socket")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
        Manager(stream)
    }

    /// A manager of a process, 0 for this one, with the first file.
    pub(crate) fn register(&self, process: u32, low_water: u64) -> Manager {
        let mut manager = self.connect();
        manager.say(kind::REGISTER, VERSION, process.into(), low_water);
        assert_eq!(manager.next_of(kind::READY).first, PAGE);
        manager.say(kind::ADD, 0, self.descriptor(0), 0);
        assert_eq!(manager.next_of(kind::FILE).first, self.volume(0).blocks());
        manager
    }

    /// A way into the cache for a process, or for whoever has that key.
    pub(crate) fn user(&self, key: u64) -> Handle {
        let handle = self.pool.handle().expect("a handle");
        handle.use_owner(Some(&self.pool.owner(key)));
        handle
    }

    /// Waits until something holds.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// How many blocks are on the list of the owner that has this key.
    pub(crate) fn listed(&self, key: u64) -> u32 {
        self.pool.given_up(&self.pool.owner(key)).expect("lru-sp has managers")
    }
}

/// This process, as an owner.
pub(crate) fn me() -> u64 {
    std::process::id().into()
}

/// Uses a block; whether it was a hit.
pub(crate) fn hits(handle: &Handle, volume: &Arc<Volume>, block: u64) -> bool {
    let hit = handle.read_resident(volume, block).is_some();
    if !hit {
        drop(handle.read(volume, block).expect("memory can be read"));
    }
    handle.hand_over();
    hit
}

pub(crate) struct Manager(pub(crate) UnixStream);

impl Manager {
    pub(crate) fn say(&mut self, kind: u32, file: u32, first: u64, count: u64) {
        self.0.write_all(&Message { kind, file, first, count }.encode()).expect("the cache takes it");
    }

    /// The next message; none at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let mut bytes = [0; LENGTH];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Some(Message::decode(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("waited {PATIENCE:?} for a message"),
            Err(_) => None,
        }
    }

    /// The next message of this kind, whatever comes before it.
    #[track_caller]
    pub(crate) fn next_of(&mut self, kind: u32) -> Message {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("the connection ends, and no message {kind} came"));
            assert!(message.kind != kind::REFUSED || kind == kind::REFUSED, "refused: {message:?}");
            if message.kind == kind {
                return message;
            }
        }
    }

    /// Waits until it is refused for this reason, and the connection ends.
    #[track_caller]
    pub(crate) fn expect_refused(mut self, reason: Reason) {
        assert_eq!(self.next_of(kind::REFUSED).file, reason as u32, "{reason:?}");
        assert_eq!(self.next(), None, "{reason:?}: the connection ends");
    }
}
