//! The requests of the kernel, each to the part that answers it.

use crate::data::Asked;
use crate::ioctl::Said;
use crate::managing::of_ours;
use crate::naming::Changes;
use crate::object::{Done, Until};
use crate::shared::Shared;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{Access, AtFlags};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the kernel may keep names and attributes before it asks again.
const BELIEVED: Duration = Duration::from_secs(1);

/// The most bytes of one request: what a kernel takes by default.
const MOST_WRITE: u32 = 1 << 20;

/// Requests that no thread of a program waits for, under way at a time.
const MOST_BACKGROUND: u16 = 256;

/// Numbers are not given twice.
const GENERATION: Generation = Generation(0);

pub(crate) struct FileSystem(pub(crate) Arc<Shared>);

impl FileSystem {
    /// Answers on a thread that may wait.
    fn later<R: Send + 'static>(
        &self,
        asked: Result<Asked, Errno>,
        reply: R,
        refuse: fn(R, Errno),
        work: impl FnOnce(&Shared, &Asked, R) + Send + 'static,
    ) {
        match asked {
            Ok(asked) => {
                let shared = Arc::clone(&self.0);
                self.0.workers.run(move || work(&shared, &asked, reply));
            }
            Err(errno) => refuse(reply, errno),
        }
    }
}

fn entry(reply: ReplyEntry, found: Result<fuser::FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&BELIEVED, &attributes, GENERATION),
        Err(errno) => reply.error(errno),
    }
}

fn empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// Answers how long a value is, or the value.
fn value(reply: ReplyXattr, room: u32, found: Result<Vec<u8>, Errno>) {
    match found {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ];
        // With an idea of access lists the kernel checks permissions, too. Without, they are attributes as any others.
        let lists = (!self.0.root_alone).then_some(InitFlags::FUSE_POSIX_ACL);
        for capability in wanted.into_iter().chain(lists) {
            if config.add_capabilities(capability).is_err() {
                tracing::info!("this kernel's FUSE has no {capability:?}");
            }
        }
        // The library takes what lies within the kernel's bounds, as these do: readahead is the pool's.
        let _ = config.set_max_write(MOST_WRITE);
        let _ = config.set_max_readahead(1);
        let _ = config.set_max_background(MOST_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.0.look_up(parent.0, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.0.forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.get_attributes(ino.0) {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes { mode, user, group, accessed, modified };
        let answer = |reply: ReplyAttr, changed| match changed {
            Ok(attributes) => reply.attr(&BELIEVED, &attributes),
            Err(errno) => reply.error(errno),
        };
        let node = match self.0.nodes.get(ino.0) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let Some(size) = size else { return answer(reply, self.0.set_attributes(&node, &changes)) };
        // It waits for pages that are in use or being written.
        let (shared, by_path) = (Arc::clone(&self.0), handle.is_none());
        self.0.workers.run(move || answer(reply, shared.set_all(&node, (size, by_path), &changes)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.0.read_link(ino.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.0.make_node((request, umask), (parent.0, name), (mode, rdev)));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        entry(reply, self.0.make_directory((request, umask), (parent.0, name), mode));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.remove(parent.0, name, AtFlags::empty()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.remove(parent.0, name, AtFlags::REMOVEDIR));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        entry(reply, self.0.make_link(request, (parent.0, name), target));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        match self.0.rename((parent.0, name), (new_parent.0, new_name), flags.bits(), false) {
            Ok(Done::Now(())) => reply.ok(),
            Err(errno) => reply.error(errno),
            Ok(Done::Later) => {
                let (shared, name, new_name) = (Arc::clone(&self.0), name.to_owned(), new_name.to_owned());
                self.0.workers.run(move || {
                    let (from, to) = ((parent.0, &*name), (new_parent.0, &*new_name));
                    empty(reply, shared.rename(from, to, flags.bits(), true).map(drop));
                });
            }
        }
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.0.link(ino.0, parent.0, name));
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.0.processes.look_again(request.pid());
        match self.0.nodes.get(ino.0).and_then(|node| self.0.open(node, flags.0)) {
            Ok((handle, how)) => reply.opened(handle, how),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.asked(handle, request.pid()) {
            // The kernel names an owner of locks where a program itself reads.
            Ok(asked) => self.0.read(asked, offset, size as usize, lock_owner.is_none(), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let until = if cached { Until::Cached } else { Until::of_flags(flags.0) };
        let privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.0.asked(handle, if cached { 0 } else { request.pid() }) {
            Ok(asked) => self.0.write(asked, (offset, data), (until, privileges), reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(reply, self.0.open.get(handle).and_then(|open| self.0.news(&open)));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.close(handle);
        reply.ok();
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.later(self.0.asked(handle, request.pid()), reply, ReplyEmpty::error, move |shared, asked, reply| {
            empty(reply, shared.sync(asked, data_only));
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.open_directory(ino.0) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let read = self.0.directories.get(handle).and_then(|directory| {
            directory.read(offset, |entry| !reply.add(INodeNo(entry.number), entry.next, entry.kind, &entry.name))
        });
        match read {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let mut entries = 0;
        let read = self.0.directories.get(handle).and_then(|directory| {
            directory.read(offset, |entry| {
                entries += 1;
                // The kernel takes no lookup of these two.
                let itself = entry.name == "." || entry.name == "..";
                let attributes = if itself {
                    Ok(entry.bare_attributes())
                } else {
                    self.0
                        .nodes
                        .look_up(&directory.fd, &entry.name)
                        .map(|(node, found)| self.0.attributes(&node, found))
                };
                let attributes = match attributes {
                    Ok(attributes) => attributes,
                    // It has gone meanwhile.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE)) => return true,
                    // It has a name, as its directory can be read and not searched. From here on the kernel asks for names alone.
                    Err(_) if entries > 1 => return false,
                    // What has the root's number is a name alone to the kernel, which then forgets one lookup of the root.
                    Err(_) => FileAttr { ino: INodeNo::ROOT, ..entry.bare_attributes() },
                };
                let full = reply.add(attributes.ino, entry.next, &entry.name, &BELIEVED, &attributes, GENERATION);
                if full && !itself {
                    self.0.forget(attributes.ino.0, 1);
                }
                !full
            })
        });
        match read {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.directories.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let shared = Arc::clone(&self.0);
        self.0.workers.run(move || empty(reply, shared.sync_directory(handle)));
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let path = self.0.nodes.path(ino.0);
        match path.and_then(|path| rustix::fs::fstatvfs(&*path).map_err(|error| io::Error::from(error).into())) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let Some(ours) = of_ours(name) else { return empty(reply, self.0.set_xattr(ino.0, name, value, flags)) };
        let (shared, value) = (Arc::clone(&self.0), value.to_owned());
        self.0.workers.run(move || empty(reply, shared.set_ours(ino.0, ours, Some((&value, flags)))));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        value(reply, size, self.0.xattr(ino.0, Some(name)));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        value(reply, size, self.0.xattr(ino.0, None));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let Some(ours) = of_ours(name) else { return empty(reply, self.0.remove_xattr(ino.0, name)) };
        let shared = Arc::clone(&self.0);
        self.0.workers.run(move || empty(reply, shared.set_ours(ino.0, ours, None)));
    }

    fn access(&self, _: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        empty(reply, self.0.check_access(ino.0, Access::from_bits_truncate(mask.bits() as u32)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.0.create((request, umask), (parent.0, name), (mode, flags)) {
            Ok((attributes, handle, how)) => reply.created(&BELIEVED, &attributes, GENERATION, handle, how),
            Err(errno) => reply.error(errno),
        }
    }

    fn ioctl(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        number: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let said = match Said::read(number, data) {
            Ok(said) => said,
            Err(errno) => return reply.error(errno),
        };
        let (thread, user) = (request.pid(), request.uid());
        self.later(self.0.asked(handle, thread), reply, ReplyIoctl::error, move |shared, asked, reply| {
            let done = match said {
                Said::Hint(hinted) => shared.hint(asked, hinted),
                Said::Manage(manager, process) => shared.manage(asked, (thread, user), (&manager, process)),
            };
            match done {
                Ok(()) => reply.ioctl(0, &[]),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.later(self.0.asked(handle, request.pid()), reply, ReplyEmpty::error, move |shared, asked, reply| {
            empty(reply, shared.allocate(asked, (offset, length), mode));
        });
    }

    fn lseek(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.later(self.0.asked(handle, request.pid()), reply, ReplyLseek::error, move |shared, asked, reply| {
            match shared.seek(asked, offset, whence) {
                Ok(found) => reply.offset(found),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let target = self.0.asked(to, request.pid());
        let asked = self.0.asked(from, request.pid()).and_then(|from| target.map(|to| (from, to)));
        match asked {
            Ok((from, to)) => {
                let shared = Arc::clone(&self.0);
                self.0.workers.run(move || match shared.copy((&from, from_offset), (&to, to_offset), length) {
                    Ok(copied) => reply.written(copied),
                    Err(errno) => reply.error(errno),
                });
            }
            Err(errno) => reply.error(errno),
        }
    }
}
