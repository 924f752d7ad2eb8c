//! A connection from its handshake to its end, and the threads that receive its requests.
//!
//! The first threads stay. Where all of them are stuck in a request, as storage below hangs, another one comes: else nothing could be
//! asked any more, and killed programs could not be freed. It goes when the others are free again.

use super::channel::Channel;
use super::connect::Place;
use super::errno::Errno;
use super::reply::{Fixed, Reply, Unwanted};
use super::request::{HEADER, Initialize, Operation, Request};
use super::under_way::{Looks, Seat, UnderWay};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The protocol that is spoken. The oldest has set-user-id taken away by who serves the files: Linux 5.13.
const MAJOR: u32 = 7;
const MINOR: u32 = 41;
const OLDEST_MINOR: u32 = 33;

/// The most bytes of one request: what a kernel takes by default, in pages.
const MOST_PAGES: u16 = 256;
pub(crate) const MOST_WRITE: u32 = MOST_PAGES as u32 * 4096;

/// Bytes of a write's message before its data.
const BEFORE_DATA: usize = HEADER + 40;

/// Requests that no thread of a program waits for, under way at a time.
const MOST_BACKGROUND: u16 = 256;

/// The most threads that receive requests.
const MOST_THREADS: usize = 64;

/// How long requests under way may take when the file system has been unmounted.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How often requests under way are looked at.
const LOOK: Duration = Duration::from_millis(200);

// What a kernel can do, of `FUSE_INIT`.
const ASYNC_READ: u64 = 1 << 0;
const BIG_WRITES: u64 = 1 << 5;
const DONT_MASK: u64 = 1 << 6;
const DO_READDIRPLUS: u64 = 1 << 13;
const READDIRPLUS_AUTO: u64 = 1 << 14;
const ASYNC_DIO: u64 = 1 << 15;
const PARALLEL_DIROPS: u64 = 1 << 18;
const POSIX_ACL: u64 = 1 << 20;
const MAX_PAGES: u64 = 1 << 22;
const CACHE_SYMLINKS: u64 = 1 << 23;
const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
const SETXATTR_EXT: u64 = 1 << 29;
const INIT_EXT: u64 = 1 << 30;
const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;

/// All that are wanted; those are needed without which users would get rights that are not theirs.
const WANTED: u64 = ASYNC_READ
    | BIG_WRITES
    | DONT_MASK
    | DO_READDIRPLUS
    | READDIRPLUS_AUTO
    | ASYNC_DIO
    | PARALLEL_DIROPS
    | MAX_PAGES
    | CACHE_SYMLINKS
    | INIT_EXT
    | DIRECT_IO_ALLOW_MMAP;
const NEEDED: u64 = HANDLE_KILLPRIV_V2 | SETXATTR_EXT;

/// How requests are received.
pub(crate) struct Options {
    /// Threads that stay.
    pub(crate) threads: usize,
    /// The process is root.
    pub(crate) superuser: bool,
    /// Requests of other users than this one are refused, but for those that the kernel itself may send.
    pub(crate) only_user: Option<u32>,
    /// The kernel checks access lists.
    pub(crate) access_lists: bool,
    /// When a request is answered with `ETIMEDOUT`.
    pub(crate) limit: Option<Duration>,
}

/// A connection that is ready for requests.
pub(crate) struct Session {
    channel: Arc<Channel>,
    options: Options,
    under_way: Arc<UnderWay>,
}

/// What has the kernel forget.
pub(crate) struct Notifier(Arc<Channel>);

impl Notifier {
    /// The kernel asks again for a file's attributes.
    pub(crate) fn forget_attributes(&self, node: u64) {
        self.0.invalidate(node, -1, 0);
    }

    /// The kernel drops its copies of a part of a file. Waits for pages that are being read or written.
    pub(crate) fn forget_bytes(&self, node: u64, offset: u64, length: u64) {
        self.0.invalidate(node, offset as i64, length as i64);
    }
}

impl Session {
    /// Mounts a directory. Requests are known to `under_way`.
    ///
    /// # Errors
    /// It cannot be mounted, or this kernel's protocol is too old.
    pub(crate) fn new(place: &Place<'_>, options: Options, under_way: &Arc<UnderWay>) -> io::Result<Self> {
        let channel = Arc::new(Channel::new(place.connect(options.superuser)?));
        let session = Self { channel, options, under_way: Arc::clone(under_way) };
        session.shake_hands()?;
        Ok(session)
    }

    pub(crate) fn notifier(&self) -> Notifier {
        Notifier(Arc::clone(&self.channel))
    }

    /// Agrees with the kernel on what is spoken.
    fn shake_hands(&self) -> io::Result<()> {
        let mut room = vec![0; 8192];
        loop {
            let gone = || io::Error::new(io::ErrorKind::NotConnected, "it was unmounted at once");
            let message = self.channel.receive(&mut room)?.ok_or_else(gone)?;
            let Ok(Request { unique, operation: Operation::Initialize(kernel), .. }) = Request::read(message) else {
                return Err(io::Error::other("the kernel does not begin with a handshake"));
            };
            if kernel.major > MAJOR {
                // The kernel begins again with the version that it gets.
                let mut fixed = Fixed::new();
                fixed.word(MAJOR);
                fixed.word(MINOR);
                fixed.zeroes(56);
                let Unwanted(_) = self.channel.answer(unique, 0, [fixed.bytes(), &[]]);
                continue;
            }
            let answer = self.agree(&kernel);
            return match answer {
                Ok(fixed) => {
                    let Unwanted(unwanted) = self.channel.answer(unique, 0, [fixed.bytes(), &[]]);
                    if unwanted { Err(gone()) } else { Ok(()) }
                }
                Err(why) => {
                    let Unwanted(_) = self.channel.answer(unique, -libc::EPROTO, [&[], &[]]);
                    Err(io::Error::new(io::ErrorKind::Unsupported, why))
                }
            };
        }
    }

    /// The answer to a handshake: `struct fuse_init_out`.
    fn agree(&self, kernel: &Initialize) -> Result<Fixed, String> {
        let Initialize { major, minor, capabilities } = *kernel;
        if (major, minor) < (MAJOR, OLDEST_MINOR) || capabilities & NEEDED != NEEDED {
            return Err(format!(
                "this kernel speaks FUSE {major}.{minor}, {MAJOR}.{OLDEST_MINOR} is needed: Linux 5.13 or newer"
            ));
        }
        let lists = if self.options.access_lists { POSIX_ACL } else { 0 };
        let agreed = (WANTED | NEEDED | lists) & capabilities;
        let mut fixed = Fixed::new();
        fixed.word(MAJOR);
        fixed.word(MINOR);
        // Readahead is the pool's.
        fixed.word(0);
        fixed.word(agreed as u32);
        fixed.half(MOST_BACKGROUND);
        fixed.half(MOST_BACKGROUND / 4 * 3);
        fixed.word(MOST_WRITE);
        // Times have nanoseconds.
        fixed.word(1);
        fixed.half(MOST_PAGES);
        fixed.zeroes(2);
        fixed.word((agreed >> 32) as u32);
        fixed.zeroes(28);
        Ok(fixed)
    }

    /// Has each request answered, until the file system is unmounted. `name` says which file a node is, for the log.
    ///
    /// # Errors
    /// Requests cannot be received; all that could be have been answered.
    pub(crate) fn serve(
        self,
        name: impl Fn(u64) -> String,
        answer: impl Fn(Request<'_>, Reply) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let (ended, ends) = channel();
        let Options { threads, only_user, limit, .. } = self.options;
        let receivers = Arc::new(Receivers {
            channel: self.channel,
            under_way: self.under_way,
            only_user,
            answer: Box::new(answer),
            running: AtomicUsize::new(0),
            wanted: AtomicUsize::new(threads),
        });
        (0..threads).try_for_each(|_| receivers.begin(&ended))?;
        let mut looks = Looks::default();
        let first = loop {
            match ends.recv_timeout(LOOK) {
                Ok(result) => break result,
                Err(_) => {
                    let stuck = receivers.under_way.look(&mut looks, limit, &name);
                    receivers.want((threads + stuck).min(MOST_THREADS), &ended);
                }
            }
        };
        drop(ended);
        let deadline = Instant::now() + LAST_ANSWERS;
        let mut result = first;
        loop {
            match ends.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(ended) => result = result.and(ended),
                Err(RecvTimeoutError::Disconnected) => return result,
                Err(RecvTimeoutError::Timeout) => {
                    tracing::warn!("requests are still waiting for storage below, and are left");
                    return result;
                }
            }
        }
    }
}

/// The threads that receive requests.
struct Receivers {
    channel: Arc<Channel>,
    under_way: Arc<UnderWay>,
    only_user: Option<u32>,
    answer: Box<dyn Fn(Request<'_>, Reply) + Send + Sync>,
    running: AtomicUsize,
    /// How many are to run: of more, those end that are free.
    wanted: AtomicUsize,
}

impl Receivers {
    /// Begins one more thread, which says when the file system is unmounted.
    fn begin(self: &Arc<Self>, ended: &Sender<io::Result<()>>) -> io::Result<()> {
        let channel = self.channel.another().map_or_else(|_| Arc::clone(&self.channel), Arc::new);
        let (receivers, ended) = (Arc::clone(self), ended.clone());
        self.running.fetch_add(1, Ordering::SeqCst);
        let receive = move || {
            if let Some(result) = receivers.receive(&channel) {
                // It may have been waited for in vain.
                let _ = ended.send(result);
            }
        };
        Builder::new().name("receive".to_owned()).spawn(receive).map(drop).inspect_err(|_| {
            self.running.fetch_sub(1, Ordering::SeqCst);
        })
    }

    /// Has as many threads run.
    fn want(self: &Arc<Self>, wanted: usize, ended: &Sender<io::Result<()>>) {
        self.wanted.store(wanted, Ordering::SeqCst);
        if self.running.load(Ordering::SeqCst) < wanted
            && let Err(error) = self.begin(ended)
        {
            tracing::warn!("no thread to receive requests beside those that wait for storage: {error}");
        }
    }

    /// Receives requests; why it has ended, unless others go on.
    fn receive(&self, channel: &Arc<Channel>) -> Option<io::Result<()>> {
        let seat = self.under_way.sit_down(channel);
        let mut room = vec![0; MOST_WRITE as usize + BEFORE_DATA];
        let result = loop {
            match channel.receive(&mut room) {
                Ok(Some(message)) => {
                    // A panic costs the request, which is answered with an error as it is dropped, and not the thread.
                    let taken = catch_unwind(AssertUnwindSafe(|| self.take(channel, message, &seat)));
                    seat.leave();
                    if taken.is_err() {
                        tracing::error!("a request failed inside: this is a fault of forebay's");
                    }
                }
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
            let running = self.running.load(Ordering::SeqCst);
            let over = running > self.wanted.load(Ordering::SeqCst);
            if over && self.running.compare_exchange(running, running - 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                break None;
            }
        };
        self.under_way.stand_up(&seat);
        result
    }

    fn take(&self, channel: &Arc<Channel>, message: &[u8], seat: &Seat) {
        let request = match Request::read(message) {
            Ok(request) => request,
            Err((unique, _)) => {
                tracing::error!("the kernel sends {} bytes that are no request", message.len());
                return unique.map_or((), |unique| Reply::new(channel, unique, 0).error(Errno::EIO));
            }
        };
        let Request { unique, node, caller, ref operation } = request;
        match *operation {
            // These are not answered.
            Operation::Interrupt { unique: of } => return self.under_way.signal(of),
            Operation::Forget { .. } | Operation::ForgetMany(_) => {
                return (self.answer)(request, Reply::none(channel));
            }
            Operation::Destroy => return Reply::new(channel, unique, 0).done(Ok(())),
            _ => {}
        }
        seat.take(unique, node, caller.thread);
        let reply = Reply::new(channel, unique, node);
        if self.only_user.is_some_and(|user| caller.user != user) && !operation.may_be_the_kernels() {
            return reply.error(Errno::EACCES);
        }
        (self.answer)(request, reply);
    }
}
