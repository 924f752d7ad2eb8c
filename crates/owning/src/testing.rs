//! A conversation without a socket.

use crate::managers::{Files, Managers};
use crate::peer::Peer;
use crate::session::Session;
use crate::wire::{LENGTH, Message};
use forebay_policy::Spec;
use forebay_pool::device::MemoryDevice;
use forebay_pool::{Config, Owner, Pool, Volume, VolumeConfig};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

struct OneFile {
    pool: Arc<Pool>,
    volume: Arc<Volume>,
}

impl Files for OneFile {
    fn owner(&self, process: u32) -> Option<Owner> {
        Some(self.pool.owner(process.into()))
    }

    fn volume(&self, _: u64, _: u64) -> Option<(Arc<Volume>, u64)> {
        Some((Arc::clone(&self.volume), self.volume.blocks()))
    }
}

/// What a manager of this process is answered that says this, up to the first message that is refused; every open file is the same one, of
/// 40 blocks behind 20 frames, and is read once between two messages.
///
/// # Panics
/// If the pool's state is not in order afterwards, or it cannot be made.
pub fn converse(said: &[u8]) -> Vec<Message> {
    const PAGE: u64 = 4096;
    let config = Config { laundry: 1, ..Config::new(21 * PAGE, Spec::parse("lru-sp").expect("a policy")) };
    let pool = Arc::new(Pool::new(config).expect("a pool"));
    let volume = VolumeConfig { readahead: 0, ..VolumeConfig::new("file") };
    let volume = pool.attach(Arc::new(MemoryDevice::new(40 * PAGE)), volume);
    let handle = pool.handle().expect("a handle");
    handle.use_owner(Some(&pool.owner(std::process::id().into())));
    let managers =
        Managers::new(Arc::clone(&pool), Box::new(OneFile { pool: Arc::clone(&pool), volume: Arc::clone(&volume) }));
    let (stream, _other) = UnixStream::pair().expect("a pair of sockets");
    let mut session = Session::new(&managers, Peer::of(&stream).expect("this process"));
    let mut answers = Vec::new();
    for message in said.as_chunks::<LENGTH>().0.iter().map(Message::decode) {
        let mut send = |answer| {
            answers.push(answer);
            Ok(())
        };
        match session.answer(&message, &mut send) {
            Ok(sent) => sent.expect("a vector takes all"),
            Err((reason, about)) => {
                answers.push(Message::refused(message.kind, reason, about));
                break;
            }
        }
        (0..40).for_each(|block| drop(handle.read(&volume, block).expect("memory can be read")));
    }
    drop(session);
    drop(handle);
    pool.check_invariants();
    answers
}
