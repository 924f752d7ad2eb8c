//! A volume behind its cache, as the NBD server sees it.
//!
//! Several connections may be used for one volume (`multi_conn`): all sessions of a volume read and write the one pool, which keeps
//! each page once, so that what one was told is written all of them read; and a flush of one flushes the volume, whoever wrote.

use crate::record::Recorder;
use crate::volumes::attached::{Attached, Use};
use forebay_basis::Operation;
use forebay_nbd::{Errno, Export, Extent, Failure, Features, Limits, Session};
use forebay_pool::{Durability, Handle};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

/// One hint may fetch this part of the cache: a quarter.
const SHARE_OF_HINTS: u64 = 4;

/// The bytes that are fetched before a hint is looked at again.
const FETCHED: u64 = 1 << 20;

/// A volume under its name.
pub(crate) struct VolumeExport {
    attached: Use,
    description: String,
    most: u32,
    recorder: Arc<Recorder>,
    /// The volume's number there.
    number: u32,
}

impl VolumeExport {
    /// `most`: the most data in one request.
    pub(crate) fn new(attached: &Arc<Attached>, most: u32, recorder: &Arc<Recorder>) -> Self {
        let options = &attached.options;
        let cache = &attached.cache;
        let description = format!("{}, cached under {} ({})", options.path, cache.policy, cache.name);
        let (recorder, number) = (Arc::clone(recorder), recorder.number(&options.name));
        Self { attached: Use::new(attached), description, most, recorder, number }
    }

    pub(crate) fn attached(&self) -> &Arc<Attached> {
        self.attached.attached()
    }
}

impl Export for VolumeExport {
    fn name(&self) -> &str {
        &self.attached.options.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn size(&self) -> u64 {
        self.attached.volume.len()
    }

    fn features(&self) -> Features {
        Features {
            read_only: self.attached.volume.read_only(),
            multi_conn: true,
            rotational: false,
            fast_zero: self.attached.volume.device().zeroes_fast(),
        }
    }

    fn limits(&self) -> Limits {
        let page_size = self.attached.cache.page_size;
        Limits { minimum: 1, preferred: page_size, maximum: self.most.max(page_size) }
    }

    fn most_fetched(&self) -> u64 {
        self.attached.cache.pool.capacity() / SHARE_OF_HINTS
    }

    fn most_connections(&self) -> Option<usize> {
        self.attached.limits().connections.map(|most| usize::try_from(most.0).unwrap_or(usize::MAX))
    }

    fn session(&self) -> Result<Box<dyn Session>, Failure> {
        let handle = self.attached.cache.pool.handle().map_err(failure)?;
        let (recorder, number) = (Arc::clone(&self.recorder), self.number);
        Ok(Box::new(PoolSession { handle, attached: self.attached.clone(), recorder, number }))
    }

    fn commit(&self, ranges: &[Range<u64>]) -> Result<(), Failure> {
        self.attached.cache.pool.commit(&self.attached.volume, ranges).map_err(failure)
    }
}

/// A thread's way into a volume.
struct PoolSession {
    handle: Handle,
    attached: Use,
    recorder: Arc<Recorder>,
    /// The volume's number there.
    number: u32,
}

impl PoolSession {
    #[inline]
    fn record(&self, offset: u64, length: u64, operation: Operation) {
        self.recorder.record((self.number, self.attached.volume.len()), offset, length, operation);
    }
}

impl Session for PoolSession {
    fn try_read(&mut self, offset: u64, buffer: &mut [u8]) -> bool {
        let read = self.handle.read_at_if_resident(&self.attached.volume, offset, buffer);
        if read {
            self.record(offset, buffer.len() as u64, Operation::Read);
        }
        read
    }

    fn hand_over(&mut self) {
        self.handle.hand_over();
    }

    fn rest(&mut self) {
        self.handle.rest();
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.record(offset, buffer.len() as u64, Operation::Read);
        self.handle.read_at(&self.attached.volume, offset, buffer).map_err(failure)
    }

    fn try_write(&mut self, offset: u64, data: &[u8]) -> bool {
        let written = self.handle.write_at_if_ready(&self.attached.volume, offset, data);
        if written {
            self.record(offset, data.len() as u64, Operation::Write);
        }
        written
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.record(offset, data.len() as u64, Operation::Write);
        self.handle.write_at(&self.attached.volume, offset, data, Durability::Flush).map_err(failure)
    }

    fn trim(&mut self, offset: u64, length: u64) -> Result<(), Failure> {
        self.handle.trim(&self.attached.volume, offset, length).map_err(failure)
    }

    fn write_zeroes(&mut self, offset: u64, length: u64, allocate: bool) -> Result<(), Failure> {
        let volume = &self.attached.volume;
        self.handle.write_zeroes(volume, offset, length, allocate, Durability::Flush).map_err(failure)
    }

    fn cache(&mut self, offset: u64, length: u64) -> Result<u64, Failure> {
        let length = length.min(FETCHED);
        self.record(offset, length, Operation::Readahead);
        let all = self.handle.fetch(&self.attached.volume, offset, length).map_err(failure)?;
        Ok(if all { length } else { 0 })
    }

    fn status(&mut self, offset: u64, length: u64) -> Result<Vec<Extent>, Failure> {
        let extents = self.handle.extents(&self.attached.volume, offset, length).map_err(failure)?;
        let told = |extent: forebay_pool::device::Extent| Extent {
            length: extent.length,
            hole: extent.hole,
            zero: extent.zero,
        };
        Ok(extents.into_iter().map(told).collect())
    }
}

/// What the client gets for the pool's error; the server's log has it, too.
fn failure(error: forebay_pool::Error) -> Failure {
    let errno = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Errno::NotPermitted,
        ErrorKind::InvalidInput => Errno::Invalid,
        ErrorKind::OutOfMemory => Errno::NoMemory,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Errno::NoSpace,
        ErrorKind::Unsupported => Errno::NotSupported,
        _ => Errno::Io,
    };
    match errno {
        Errno::Io => tracing::error!("{error}"),
        Errno::NoSpace => tracing::warn!("{error}"),
        _ => {}
    }
    Failure { errno, message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServiceOptions;
    use crate::volumes::options::Options;
    use forebay_nbd::{Config, Server};
    use forebay_sim::{Keep, Sweep, Trace};
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::time::Duration;

    const PAGE: u64 = 8192;
    const PATIENCE: Duration = Duration::from_secs(60);

    fn sample() -> Trace {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/sample.parquet");
        let (_, mut reader) = forebay_trace::open(&path, &forebay_trace::Options::default()).expect("the sample opens");
        let keep = Keep { places: false, requests: false };
        let mut trace =
            Trace::load("sample", reader.as_mut(), None, keep, &mut |_| {}).expect("the sample is well-formed");
        Arc::make_mut(&mut trace.references).truncate(40_000);
        trace
    }

    /// A client in the transmission phase of an export.
    fn client(socket: &Path, export: &str) -> UnixStream {
        let mut client = UnixStream::connect(socket).expect("the server listens");
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.read_exact(&mut [0; 18]).expect("a greeting");
        let name = export.as_bytes();
        let choice =
            [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &(name.len() as u32).to_be_bytes(), name];
        client.write_all(&choice.concat()).expect("the server listens");
        client.read_exact(&mut [0; 10]).expect("the export is there");
        client
    }

    fn read_page(client: &mut UnixStream, block: u64) {
        let request = [&0x2560_9513u32.to_be_bytes()[..], &[0; 4], &block.to_be_bytes(), &(block * PAGE).to_be_bytes()];
        let request = [&request.concat()[..], &(PAGE as u32).to_be_bytes()].concat();
        client.write_all(&request).expect("the server listens");
        let mut reply = vec![0; 16 + PAGE as usize];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!((&reply[4..8], &reply[8..16]), (&[0; 4][..], &block.to_be_bytes()[..]));
    }

    #[test]
    fn one_request_after_the_other_has_the_hits_of_the_simulator_though_workers_do_the_misses() {
        let trace = sample();
        for policy in ["clock-pro", "lru", "clock"] {
            // Of an own thread alone, and of workers alone.
            for trusted in [0, u32::MAX] {
                let volume = format!("a=memory:{},readahead=0", u64::from(trace.pages) * PAGE);
                let options = Options {
                    volumes: vec![volume.parse().expect("a volume")],
                    service: ServiceOptions {
                        cache: Some("2MiB".parse().expect("a size")),
                        page: Some("8KiB".parse().expect("a size")),
                        policy: Some(policy.parse().expect("a policy")),
                        ..ServiceOptions::default()
                    },
                    ..Options::default()
                };
                let cache = Arc::new(options.shared_cache().expect("a cache"));
                let attached = options.attach(&options.volumes[0], Some(&cache), None, None).expect("a volume");
                let export = VolumeExport::new(
                    &attached,
                    1 << 20,
                    &Arc::new(Recorder::new(4096, forebay_trace::Circumstances::default())),
                );
                let folder = tempfile::tempdir().expect("a folder");
                let socket = folder.path().join("socket");
                let config = Config { trusted, ..Config::default() };
                let mut server = Server::new(vec![Arc::new(export)], config).expect("a server");
                server.listen(UnixListener::bind(&socket).expect("a socket")).expect("a thread");
                let mut client = client(&socket, "a");
                trace.references.iter().for_each(|&page| read_page(&mut client, page.into()));
                drop(client);
                assert_eq!(server.stop(PATIENCE), 0);
                let statistics = cache.pool.statistics();
                let (specs, sizes) = (vec![options.service.policy()], vec![statistics.policy_frames]);
                let simulated = Sweep { specs, sizes, warmup: 0, threads: 1 }.run(&trace, &|_| true);
                assert_eq!(statistics.misses, trace.len() as u64 - simulated[0].total.hits, "{policy}, {trusted}");
            }
        }
    }
}
