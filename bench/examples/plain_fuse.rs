//! One file shown through FUSE as plainly as the library `fuser` can, without a cache: what `bench/mount_speed.py` measures a mount beside.
//!
//!     plain_fuse FILE MOUNTPOINT
//!
//! The file is `MOUNTPOINT/data`: direct I/O towards the kernel, asynchronous, two threads, `pread` and `pwrite` below.

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DATA: INodeNo = INodeNo(2);
const BELIEVED: Duration = Duration::from_secs(1);

struct Plain(File);

impl Plain {
    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let directory = ino == INodeNo::ROOT;
        let size = if directory { 0 } else { self.0.metadata().map_or(0, |found| found.len()) };
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Plain {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(|_| io::ErrorKind::Unsupported)?;
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(128);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "data" {
            reply.entry(&BELIEVED, &self.attributes(DATA), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &self.attributes(ino));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&BELIEVED, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        match self.0.read_at(&mut bytes, offset) {
            Ok(length) => reply.data(&bytes[..length]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write_at(data, offset) {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let words: Vec<_> = std::env::args_os().collect();
    let [_, file, mountpoint] = words.as_slice() else { return Err(io::Error::other("plain_fuse FILE MOUNTPOINT")) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("plain".to_owned())];
    config.n_threads = Some(2);
    let file = File::options().read(true).write(true).open(file)?;
    Session::new(Plain(file), mountpoint, &config)?.spawn()?.join()
}
