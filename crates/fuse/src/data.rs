//! Bytes: what is answered at once where the pool has it, and else by a thread that may wait.

use crate::attributes::Attributes;
use crate::credentials::writing_for;
use crate::error::errno;
use crate::hints::read_with;
use crate::nodes::Node;
use crate::object::{Bytes, Done, Object, Until};
use crate::permissions::check_whole;
use crate::privileges::drop_before_cut;
use crate::protocol::{Caller, Errno, Reply, SetAttributes, Write};
use crate::shared::{Open, Shared};
use forebay_basis::Operation;
use forebay_owning::User;
use forebay_pool::Hint;
use rustix::fs::{Access, FallocateFlags, OFlags};
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Bytes that one request copies from file to file, and those in one step.
const COPIED: u64 = 8 << 20;
const STEP: usize = 1 << 20;

/// The owner's name of what the kernel itself asks for.
const KERNEL: &str = "0";

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Works with a buffer of this size.
fn with_room<T>(size: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    ROOM.with_borrow_mut(|room| {
        if room.len() < size {
            room.resize(size, 0);
        }
        work(&mut room[..size])
    })
}

/// Who asks, and of which file.
pub(crate) struct Asked {
    pub(crate) open: Arc<Open>,
    pub(crate) handle: u64,
    pub(crate) caller: Caller,
    pub(crate) process: Option<Arc<User>>,
}

impl Asked {
    pub(crate) fn object(&self) -> &Arc<Object> {
        self.open.object().expect("a request begins the use of its file's bytes")
    }
}

impl Shared {
    /// A request of an open file.
    pub(crate) fn asked(&self, handle: u64, caller: Caller) -> Result<Asked, Errno> {
        let open = self.open.get(handle)?;
        let object = self.object_of(&open)?;
        let designated = || open.designated.read().unwrap_or_else(PoisonError::into_inner).clone();
        let designated = if open.said.load(Ordering::Relaxed) { designated() } else { None };
        let process = designated.or_else(|| self.processes.of_request(&self.pool, caller.thread));
        if let Some(user) = &process
            && open.last_user.load(Ordering::Relaxed) != user.serial
        {
            self.begin_use(&open, object, user);
        }
        Ok(Asked { open, handle, caller, process })
    }

    fn watch(&self, asked: &Asked, offset: u64, length: u64, operation: Operation) {
        if let Some(watch) = &self.watch {
            let owner = || match &asked.process {
                Some(user) => user.watched(|name| watch.owner(name)),
                None => watch.owner(KERNEL),
            };
            let object = asked.object();
            let file = || object.watched(|name| watch.file(name));
            watch.reference((&file, object.volume.len()), &owner, (offset, length), operation);
        }
    }

    /// A request is about to be answered: counted before the reply, after which a client may look.
    pub(crate) fn timed(&self, reply: &Reply) {
        self.counters.request_time.add_time(reply.age());
    }

    pub(crate) fn failed(&self, errno: Errno) -> Errno {
        self.counters.errors.add(1);
        errno
    }

    /// `cached`: the kernel reads for its own copies, as a program has mapped the file.
    pub(crate) fn read(self: &Arc<Self>, asked: Asked, offset: u64, size: usize, cached: bool, mut reply: Reply) {
        let object = asked.object();
        if cached && object.map() {
            self.mapped.add(object.volume.id(), object.number);
        }
        self.counters.requests.read.add(1);
        let hint = asked.open.readahead.hint(cached);
        with_room(size, |room| match self.read_into(&asked, hint, offset, room, false) {
            Ok(Done::Now(length)) => {
                self.counters.immediate.add(1);
                self.timed(&reply);
                reply.bytes(&room[..length]);
            }
            Err(errno) => reply.error(self.failed(errno)),
            Ok(Done::Later) => {
                let shared = Arc::clone(self);
                reply.hand_over(&self.under_way, asked.caller.thread);
                self.workers.run(move || {
                    with_room(size, |room| match shared.read_into(&asked, hint, offset, room, true) {
                        Ok(Done::Now(length)) => {
                            shared.timed(&reply);
                            reply.bytes(&room[..length]);
                        }
                        Ok(Done::Later) => reply.error(shared.failed(Errno::EIO)),
                        Err(errno) => reply.error(shared.failed(errno)),
                    });
                });
            }
        });
    }

    fn read_into(
        &self,
        asked: &Asked,
        hint: Hint,
        offset: u64,
        room: &mut [u8],
        wait: bool,
    ) -> Result<Done<usize>, Errno> {
        let object = asked.object();
        let done = self.with_handle(asked.process.as_deref(), |handle| {
            handle.hint(&object.volume, hint).map_err(|error| errno(&error))?;
            object.read(handle, offset, room, wait)
        })?;
        if let Done::Now(length) = done
            && length > 0
        {
            self.counters.read_bytes.add(length as u64);
            self.watch(asked, offset, length as u64, read_with(hint));
        }
        Ok(done)
    }

    pub(crate) fn write(self: &Arc<Self>, mut asked: Asked, write: &Write<'_>, mut reply: Reply) {
        let (offset, data) = (write.offset, write.data);
        let until = if write.mapped { Until::Cached } else { Until::of_flags(write.flags) };
        self.counters.requests.write.add(1);
        if let Some(opener) = asked.open.opener.filter(|_| write.mapped) {
            // The kernel hands back what a program wrote, in its own name. Space is taken in the program's.
            asked.caller = Caller { thread: asked.caller.thread, ..opener };
        }
        let begun = self.check_open().and_then(|()| {
            if !write.mapped {
                self.drop_privileges(&asked.open.node, asked.object(), (asked.caller, write.drop_privileges))?;
            }
            // To make it durable is to wait.
            let at_once = Bytes { offset, data, until, wait: false };
            if until == Until::Cached { self.write_from(&asked, &at_once) } else { Ok(Done::Later) }
        });
        match begun {
            Ok(Done::Now(())) => {
                self.counters.immediate.add(1);
                self.timed(&reply);
                reply.count(data.len() as u32);
            }
            Err(errno) => reply.error(self.failed(errno)),
            Ok(Done::Later) => {
                reply.hand_over(&self.under_way, asked.caller.thread);
                let Some(kept) = self.workers.keep(data.len()) else {
                    return self.write_now(&asked, &Bytes { offset, data, until, wait: true }, reply);
                };
                let (shared, data) = (Arc::clone(self), data.to_vec());
                self.workers.run(move || {
                    shared.write_now(&asked, &Bytes { offset, data: &data, until, wait: true }, reply);
                    drop((data, kept));
                });
            }
        }
    }

    fn write_now(&self, asked: &Asked, bytes: &Bytes<'_>, reply: Reply) {
        match self.write_from(asked, bytes) {
            Ok(Done::Now(())) => {
                self.timed(&reply);
                reply.count(bytes.data.len() as u32);
            }
            Ok(Done::Later) => reply.error(self.failed(Errno::EIO)),
            Err(errno) => reply.error(self.failed(errno)),
        }
    }

    fn write_from(&self, asked: &Asked, bytes: &Bytes<'_>) -> Result<Done<()>, Errno> {
        let object = asked.object();
        let write = |handle: &_| writing_for(asked.caller, || object.write(handle, bytes));
        let done = self.with_handle(asked.process.as_deref(), write)?;
        if matches!(done, Done::Now(())) {
            let length = bytes.data.len() as u64;
            self.counters.written_bytes.add(length);
            self.watch(asked, bytes.offset, length, Operation::Write);
        }
        Ok(done)
    }

    /// Makes a file as long as this.
    fn set_length(&self, node: &Node, length: u64, by: (Caller, bool)) -> Result<(), Errno> {
        self.check_open()?;
        let slot = node.object();
        match slot.get() {
            Some(object) => {
                drop(slot);
                self.drop_privileges(node, &object, by)?;
                self.with_handle(None, |handle| {
                    object.look_again(&self.pool, handle, true)?;
                    object.set_len(handle, length)
                })
            }
            None => {
                let open = || self.nodes.tree.open_inode(&node.inode, OFlags::WRONLY | OFlags::NOCTTY).map(Arc::new);
                let fd = node.inode.opened().map_or_else(open, Ok)?;
                drop_before_cut(&fd, by)?;
                Ok(rustix::fs::ftruncate(fd, length)?)
            }
        }
    }

    /// Changes length and attributes.
    pub(crate) fn set_all(
        &self,
        node: &Node,
        caller: Caller,
        length: u64,
        changes: &SetAttributes,
    ) -> Result<Attributes, Errno> {
        if !changes.by_handle {
            self.check_access(node.number, Access::WRITE_OK)?;
        }
        check_whole(&*self.nodes.tree.path(&node.inode)?)?;
        self.set_length(node, length, (caller, changes.drop_privileges))?;
        self.set_attributes(node, caller, changes)
    }

    /// A program closes a file. A new file, or new contents, are the file system below's from then on: what it refuses, the program
    /// learns now. A kill then seldom leaves a file without contents.
    pub(crate) fn flush(self: &Arc<Self>, open: Arc<Open>, caller: Caller, mut reply: Reply) {
        // One that was deleted meanwhile is wanted by none.
        let fresh = !open.node.inode.is_deleted() && open.object().is_some_and(|object| object.is_fresh());
        if !fresh {
            return reply.done(self.news(&open));
        }
        let shared = Arc::clone(self);
        reply.hand_over(&self.under_way, caller.thread);
        self.workers.run(move || {
            let handed_over = open.object().map_or(Ok(()), |object| shared.hand_over(object));
            let news = shared.news(&open);
            reply.done(handed_over.and(news));
        });
    }

    /// What has failed of a file since its user learned of it last.
    pub(crate) fn news(&self, open: &Open) -> Result<(), Errno> {
        let news = open.object().and_then(|object| object.file.failure_since(&open.known));
        news.map_or(Ok(()), |error| Err(self.failed(error.into())))
    }

    /// Makes a file durable.
    pub(crate) fn sync(&self, asked: &Asked, data_only: bool) -> Result<(), Errno> {
        self.counters.requests.flush.add(1);
        let object = asked.object();
        let synced = self.with_handle(asked.process.as_deref(), |handle| object.sync(handle, data_only));
        let news = self.news(&asked.open);
        synced.map_err(|errno| self.failed(errno)).and(news)
    }

    pub(crate) fn allocate(&self, asked: &Asked, (offset, length): (u64, u64), mode: u32) -> Result<(), Errno> {
        self.check_open()?;
        let flags = FallocateFlags::from_bits_retain(mode);
        let object = asked.object();
        self.drop_privileges_of(&asked.open.node, object, asked.caller)?;
        self.with_handle(asked.process.as_deref(), |handle| {
            writing_for(asked.caller, || object.allocate(handle, offset, length, flags))
        })
    }

    pub(crate) fn seek(&self, asked: &Asked, offset: u64, whence: u32) -> Result<u64, Errno> {
        // A negative one is behind all ends, too.
        let hole = match whence as i32 {
            libc::SEEK_HOLE => true,
            libc::SEEK_DATA => false,
            _ => return Err(Errno::EINVAL),
        };
        let object = asked.object();
        self.with_handle(None, |handle| object.seek(handle, offset, hole))
    }

    /// Copies through the cache, as far as one request goes.
    pub(crate) fn copy(&self, from: (&Asked, u64), to: (&Asked, u64), length: u64) -> Result<u32, Errno> {
        self.check_open()?;
        self.drop_privileges_of(&to.0.open.node, to.0.object(), to.0.caller)?;
        let hint = from.0.open.readahead.hint(false);
        let mut done = 0;
        while done < length.min(COPIED) {
            let size = (length.min(COPIED) - done).min(STEP as u64) as usize;
            let copied = with_room(size, |room| {
                let Done::Now(there) = self.read_into(from.0, hint, from.1 + done, room, true)? else { return Ok(0) };
                if there > 0 {
                    let (offset, data) = (to.1 + done, &room[..there]);
                    self.write_from(to.0, &Bytes { offset, data, until: Until::Cached, wait: true })?;
                }
                Ok(there as u64)
            });
            match copied {
                Ok(0) => break,
                Ok(there) => done += there,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done as u32)
    }
}
