//! A server that runs for a test.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_nbd::testing::Memory;
use forebay_nbd::{Config, Export, Server};

use crate::client::Client;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn memory(name: &str) -> Arc<dyn Export> {
    Arc::new(Memory::new(name, 1 << 20))
}

/// A server on a unix socket in a directory that goes with it.
pub(crate) struct Running {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Running {
    pub(crate) fn new(exports: Vec<Arc<dyn Export>>, config: Config) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut server = Server::new(exports, config).expect("good exports");
        let listener = UnixListener::bind(directory.path().join("socket")).expect("a socket");
        server.listen(listener).expect("a thread");
        Self { directory, server }
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.path().join("socket")).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// A client in the transmission phase of an export.
    pub(crate) fn client(&self, export: &str) -> Client<UnixStream> {
        Client::enter(self.connect(), export)
    }
}

pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
